//! The connections that a caller drives itself, for one request to each node. It writes to all nodes and reads their answers on
//! its own thread: no thread is woken between its call and the verdict.
//!
//! It does so only while it is alone: no other caller drives any of them, and nothing waits in front of them. The nodes' workers are
//! woken for all that goes beyond one write and its answers. If a node is far away or slow, the caller lets go of all connections
//! as soon as anything else comes for any node: see [`Recall`].

use std::sync::Arc;
use std::time::Duration;

use parking_lot::MutexGuard;

use super::driver::Driver;
use super::handle::Node;
use super::job::{Ask, Job, Sink};
use super::recall::Recall;
use super::request::Request;
use super::set::NodeSet;
use super::steps::Progress;
use crate::clock;
use crate::core::link::Release;

/// Time limit of a wait for the nodes that a caller drives, if it has asked others through their workers. Then it leaves all nodes
/// to the workers. Without others, nodes that take longer are slow: see [`Recall`].
const BESIDES: Duration = Duration::from_millis(1);

/// Time for which a caller polls for answers before it sleeps.
const LOOK: Duration = Duration::from_micros(80);

/// A caller that asks the nodes and waits for them, and the connections that it drives itself. Dropping it leaves outstanding
/// answers to the next caller, or to the workers a moment later.
pub(crate) struct Driven<'a> {
    caller: Caller<'a>,
    links: Vec<DrivenLink<'a>>,
    /// True if workers of other nodes were asked as well. The caller does not hear at once what these nodes answer.
    others_asked: bool,
    /// True while it counts as one that drives connections.
    drives: bool,
    /// True if a node is far away, or if one wait for the nodes was in vain, mostly one of [`BESIDES`].
    is_slow: bool,
    /// The recall that it waits for along with the answers.
    recall: Option<&'a Recall>,
}

/// A caller that is counted while it lives.
struct Caller<'a>(&'a NodeSet);

struct DrivenLink<'a> {
    node: &'a Node,
    driver: MutexGuard<'a, Driver>,
    progress: Progress,
}

/// The outcome of one pass over driven connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Carried {
    /// Something has come.
    Further,
    /// Nothing has come in that time.
    Nothing,
    /// Nothing is left to drive: all is answered, or left to the workers.
    Over,
}

impl<'a> Driven<'a> {
    /// Takes the unused connections of those `nodes` that are meant, if the caller is alone. `None` without nodes.
    pub(crate) fn of(nodes: &'a [Node], is_meant: impl Fn(usize) -> bool) -> Option<Self> {
        let set = nodes.first()?.set();
        let is_alone = set.caller_comes();
        let (caller, links) = (Caller(set), Vec::new());
        let (others_asked, drives, is_slow, recall) = (false, false, false, None);
        let mut driven = Self { caller, links, others_asked, drives, is_slow, recall };
        if !cfg!(unix) || !is_alone {
            return Some(driven);
        }
        set.driver_comes();
        driven.drives = true;
        let takes_far = set.recall.can_be_made();
        for (_, node) in nodes.iter().enumerate().filter(|(i, _)| is_meant(*i)) {
            match node.try_drive(takes_far) {
                Some(driver) => {
                    driven.is_slow |= driver.link.is_far();
                    driven.links.push(DrivenLink { node, driver, progress: Progress::Rests });
                }
                None => driven.others_asked |= node.may_answer(),
            }
        }
        Some(driven)
    }

    /// Asks a node, over its own connection if that was taken.
    pub(crate) fn ask(&mut self, node: &Node, ask: Ask, sink: &Arc<impl Sink + 'static>) {
        match self.links.iter_mut().find(|link| std::ptr::eq(link.node, node)) {
            Some(link) => link.submit(ask.into_job(node.index(), sink.clone())),
            None => node.ask(ask, sink),
        }
    }

    /// Makes a node forget a lock, over its own connection if that was taken: see [`Node::release`].
    pub(crate) fn release(
        &mut self,
        node: &Node,
        request: &Arc<Request>,
        sink: Option<Arc<dyn Sink>>,
        release: Release,
    ) {
        match self.links.iter_mut().find(|link| std::ptr::eq(link.node, node)) {
            Some(link) => {
                let job = node.release_job(request, sink, release);
                job.into_iter().for_each(|job| link.submit(job));
            }
            None => node.release(request, sink, release),
        }
    }

    /// Hands the connections to the workers at once. The caller still waits for the answers.
    pub(crate) fn hand_over(&mut self) {
        self.let_go(|link| link.progress != Progress::Rests);
    }

    /// Lets go of the connections, and wakes the workers of those for which `is_needed` returns true.
    fn let_go(&mut self, is_needed: impl Fn(&mut DrivenLink<'a>) -> bool) {
        if let Some(recall) = self.recall.take() {
            recall.stop_expecting();
        }
        for mut link in self.links.drain(..) {
            let is_needed = is_needed(&mut link);
            link.let_go(is_needed);
        }
        if std::mem::take(&mut self.drives) {
            self.caller.0.driver_leaves();
        }
    }

    /// Takes in the answers that have come. Returns true if there were any.
    pub(crate) fn take_in(&mut self) -> bool {
        self.links.iter_mut().fold(false, |come, link| link.advance() | come)
    }

    /// Waits once for answers, for `at_most`, and takes them in.
    pub(crate) fn carry_on(&mut self, at_most: Duration) -> Carried {
        let rests = |link: &mut DrivenLink<'_>| link.progress == Progress::Rests;
        for mut link in self.links.extract_if(.., rests) {
            link.driver.leave(Progress::Rests);
            link.let_go(false);
        }
        let mut at_most = at_most;
        for link in &self.links {
            match link.progress {
                Progress::Reads(deadline) => at_most = at_most.min(deadline.since(clock::now())),
                Progress::Rests | Progress::Other => return Carried::Over,
            }
        }
        if self.links.is_empty() {
            return Carried::Over;
        }
        if at_most.is_zero() {
            // Answers may be there already: this thread may not have run for a while.
            return if self.take_in() { Carried::Further } else { Carried::Over };
        }
        let is_any_near = self.links.iter().any(|link| !link.driver.link.is_far());
        if is_any_near && self.looks() {
            return Carried::Further;
        }
        if self.others_asked || !self.is_slow {
            at_most = at_most.min(BESIDES);
        }
        if self.has_to_let_go() {
            self.hand_over();
            return Carried::Over;
        }
        let Ready { links, is_recalled } = wait_for_answers(&self.links, self.recall, at_most);
        let mut has_come = false;
        for (link, _) in self.links.iter_mut().zip(links).filter(|(_, is_ready)| *is_ready) {
            has_come |= link.advance();
        }
        if is_recalled {
            // Even after the last answer: the caller might go on with these connections.
            self.hand_over();
            return Carried::Over;
        }
        self.is_slow |= !has_come;
        match has_come {
            true => Carried::Further,
            false if self.others_asked => Carried::Over,
            false => Carried::Nothing,
        }
    }

    /// Returns true if the caller may not wait any longer: the answers take longer than it waits, or something came before it
    /// expected a recall.
    fn has_to_let_go(&mut self) -> bool {
        if self.others_asked
            && self.links.iter().all(|link| link.driver.link.is_farther_than(BESIDES))
        {
            return true;
        }
        if !self.is_slow || self.recall.is_some() {
            return false;
        }
        let recall = &self.caller.0.recall;
        recall.expect();
        self.recall = recall.can_be_made().then_some(recall);
        self.links.iter().any(|link| link.driver.has_waiting())
    }

    /// Polls for answers for a moment before the thread sleeps: sleeping and waking up takes longer than a server nearby. Polls
    /// seldom while that is seldom of use. Returns true if an answer has come.
    fn looks(&mut self) -> bool {
        let set = self.caller.0;
        if !set.looks.is_worth_it() {
            return false;
        }
        let until = clock::now().after(LOOK);
        loop {
            let come = self.take_in();
            let now = clock::now();
            if come || until <= now {
                // If another thread ran meanwhile for too long, the answer is no success of the poll.
                set.looks.note(come && now < until.after(LOOK));
                return come;
            }
            // A server may be about to run on this processor.
            clock::yield_now();
        }
    }
}

impl Drop for Caller<'_> {
    fn drop(&mut self) {
        self.0.caller_leaves();
    }
}

impl Drop for Driven<'_> {
    fn drop(&mut self) {
        self.let_go(|link| link.driver.leave(link.progress));
    }
}

impl DrivenLink<'_> {
    fn let_go(self, is_needed: bool) {
        let Self { node, driver, .. } = self;
        drop(driver);
        node.left(is_needed);
    }

    fn submit(&mut self, job: Job) {
        self.progress = self.driver.submit(job);
    }

    /// Takes in the answers that have come. Returns true if there were any.
    fn advance(&mut self) -> bool {
        let progress = self.driver.advance();
        self.progress = progress.unwrap_or(self.progress);
        progress.is_some()
    }
}

/// The result of a wait.
#[derive(Default)]
struct Ready {
    /// For each connection: true if there is something to read.
    links: Vec<bool>,
    /// True if the caller must let go of all connections.
    is_recalled: bool,
}

/// Waits until a connection has something to read, or until the caller must let go of them, for `at_most`.
#[cfg(unix)]
fn wait_for_answers(links: &[DrivenLink<'_>], recall: Option<&Recall>, at_most: Duration) -> Ready {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let mut polled = Vec::with_capacity(links.len() + 1);
    for link in links {
        polled.extend(link.driver.socket().map(|socket| PollFd::new(socket, PollFlags::IN)));
    }
    let sockets = polled.len();
    let waker = recall.and_then(Recall::waker);
    polled.extend(waker.map(|waker| PollFd::new(waker, PollFlags::IN)));
    let at_most = Timespec::try_from(at_most).ok();
    // An error, as after a signal, counts as a wait in vain.
    let Ok(_) = poll(&mut polled, at_most.as_ref()) else { return Ready::default() };
    let mut is_ready = polled.iter().map(|it| !it.revents().is_empty());
    let links = is_ready.by_ref().take(sockets).collect();
    let is_told = is_ready.next() == Some(true);
    let is_recalled = is_told || recall.is_some_and(Recall::is_made);
    if let (true, Some(recall)) = (is_told, recall) {
        recall.heed();
    }
    Ready { links, is_recalled }
}

/// No caller drives a connection on these systems.
#[cfg(not(unix))]
fn wait_for_answers(_: &[DrivenLink<'_>], _: Option<&Recall>, _: Duration) -> Ready {
    Ready::default()
}

#[cfg(all(test, unix))]
#[path = "driven_tests.rs"]
mod tests;
