//! The queue of jobs for a node's worker.
//!
//! It is a queue of its own instead of a channel. The worker takes all jobs at once, and is woken after the lock
//! that it needs for that is free. A channel's receiver is woken under a lock that it must take first. That costs
//! both sides one more system call for each request, and a change of threads.

use std::collections::VecDeque;
use std::sync::Arc;
#[cfg(unix)]
use std::sync::OnceLock;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use super::job::Job;
use super::recall::Recall;
#[cfg(unix)]
use super::waker::Waker;
use super::wire::Socket;
use crate::core::base::give_room_back;

/// Most jobs that wait for a worker. A caller has one at a time, and the timer a thousand, so this exceeds the
/// number of threads of a process.
const CAPACITY: usize = 4_096;

/// Most releases that wait for a worker. They wait behind other requests while the node is silent, and must not get lost.
const RELEASES: usize = 65_536;

#[derive(Default)]
pub(super) struct Mailbox {
    state: Mutex<MailboxState>,
    filled: Condvar,
    /// The recall that is made for each job or wake-up.
    recall: Arc<Recall>,
    /// Ends the worker's wait for an answer. Without it, only the answer ends that wait.
    #[cfg(unix)]
    waker: OnceLock<Waker>,
}

#[derive(Default)]
struct MailboxState {
    jobs: VecDeque<Job>,
    /// The way in which the worker sleeps, until it is woken.
    asleep: Option<Asleep>,
    /// True if something has come since the worker's last check.
    is_news: bool,
    /// True if there may be something to do besides the jobs.
    woken: bool,
    /// True if nothing is sent any more.
    closed: bool,
    /// True if nothing is taken any more.
    abandoned: bool,
}

/// The way in which a worker sleeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asleep {
    /// It has nothing to do.
    Resting,
    /// It waits for an answer of the node. Requests must wait for it as well, unless they may go out before it, or a caller has
    /// taken it.
    Reading { heeds_jobs: bool },
}

impl Asleep {
    const fn heeds_jobs(self) -> bool {
        matches!(self, Self::Resting | Self::Reading { heeds_jobs: true })
    }
}

/// A job that the mailbox did not take.
pub(super) enum Refused {
    Full(Job),
    Abandoned(Job),
}

/// The result of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// A job, or a wake-up.
    Something,
    Nothing,
    /// Nothing will ever come again.
    Closed,
}

impl Mailbox {
    pub(super) fn new(recall: &Arc<Recall>) -> Self {
        Self { recall: recall.clone(), ..Self::default() }
    }

    pub(super) fn send(&self, job: Job) -> Result<(), Refused> {
        let mut state = self.state.lock();
        state.push(job)?;
        let asleep = state.asleep.take_if(|asleep| asleep.heeds_jobs());
        drop(state);
        self.notify(asleep);
        Ok(())
    }

    /// Adds a job without waking the worker: others follow, and all of them are to go out in one write.
    /// The caller must call [`wake_worker`](Self::wake_worker) afterwards.
    pub(super) fn put(&self, job: Job) -> Result<(), Refused> {
        self.state.lock().push(job)
    }

    /// Makes the worker take the jobs that were put there, if there are any.
    pub(super) fn wake_worker(&self) {
        let mut state = self.state.lock();
        if state.jobs.is_empty() {
            return;
        }
        let asleep = state.asleep.take_if(|asleep| asleep.heeds_jobs());
        drop(state);
        self.notify(asleep);
    }

    /// Wakes the worker without a job.
    pub(super) fn wake(&self) {
        self.change(|state| state.woken = true);
    }

    /// Closes the mailbox: jobs in it are still taken, and nothing more is sent.
    pub(super) fn close(&self) {
        self.change(|state| state.closed = true);
    }

    /// Abandons the mailbox: the worker has ended, and nothing more is taken.
    pub(super) fn abandon(&self) {
        let mut left = VecDeque::new();
        self.change(|state| {
            state.abandoned = true;
            left = std::mem::take(&mut state.jobs);
        });
        // Outside of the lock: dropping a job may send another one.
        drop(left);
    }

    /// Waits until something comes, for `at_most`.
    pub(super) fn wait(&self, at_most: Duration) -> Found {
        let mut state = self.state.lock();
        let found = state.found();
        if found != Found::Nothing {
            return found;
        }
        state.asleep = Some(Asleep::Resting);
        self.filled.wait_for(&mut state, at_most);
        state.asleep = None;
        state.found()
    }

    /// Lets the worker wait for an answer and for jobs at once, if the process may have one more file descriptor.
    #[cfg(unix)]
    pub(super) fn make_waker(&self) {
        if let Ok(waker) = Waker::new() {
            self.waker.get_or_init(|| waker);
        }
    }

    /// The worker waits for an answer alone on these systems.
    #[cfg(not(unix))]
    pub(super) fn make_waker(&self) {}

    /// Returns true if the worker can wait for an answer and for jobs at once.
    pub(super) fn has_waker(&self) -> bool {
        #[cfg(unix)]
        return self.waker.get().is_some();
        #[cfg(not(unix))]
        return false;
    }

    /// Waits until the socket has something to read, for `at_most`. A wake-up ends the wait as well. So does a job if it
    /// `heeds_jobs`, or once a caller has had the connection: the answer may not come then.
    #[cfg(unix)]
    pub(super) fn wait_for_answer(
        &self,
        socket: &Socket,
        at_most: Duration,
        heeds_jobs: bool,
    ) -> Found {
        let mut state = self.state.lock();
        let has_jobs = heeds_jobs && !state.jobs.is_empty();
        let is_news = std::mem::take(&mut state.is_news) || has_jobs;
        if let (false, Some(waker)) = (is_news, self.waker.get()) {
            state.asleep = Some(Asleep::Reading { heeds_jobs });
            drop(state);
            waker.wait(socket, at_most);
            state = self.state.lock();
            state.asleep = None;
        }
        state.found()
    }

    /// Finds nothing: these systems have no way to wait for both.
    #[cfg(not(unix))]
    pub(super) fn wait_for_answer(&self, _: &Socket, _: Duration, _: bool) -> Found {
        Found::Nothing
    }

    /// Notes that a caller has had the connection. If the worker waits for an answer there, that may never come.
    pub(super) fn was_taken(&self) {
        let mut state = self.state.lock();
        if let Some(Asleep::Reading { .. }) = state.asleep {
            state.asleep = Some(Asleep::Reading { heeds_jobs: true });
            if state.jobs.is_empty() {
                return;
            }
            let asleep = state.asleep.take();
            drop(state);
            self.notify(asleep);
        }
    }

    /// Returns true if the worker has ended.
    pub(super) fn is_abandoned(&self) -> bool {
        self.state.lock().abandoned
    }

    /// Returns the number of jobs.
    pub(super) fn len(&self) -> usize {
        self.state.lock().jobs.len()
    }

    /// Moves jobs to `jobs`, in order, as long as these are fewer than `most`.
    pub(super) fn take(&self, jobs: &mut Vec<Job>, most: usize) {
        let mut state = self.state.lock();
        let room = most.saturating_sub(jobs.len()).min(state.jobs.len());
        jobs.extend(state.jobs.drain(..room));
    }

    /// Gives unused room back. Returns true if there is a job.
    pub(super) fn tidy(&self) -> bool {
        let mut state = self.state.lock();
        give_room_back(&mut state.jobs);
        !state.jobs.is_empty()
    }

    /// Returns true if the worker sleeps and was not woken yet.
    #[cfg(test)]
    pub(super) fn is_asleep(&self) -> bool {
        self.state.lock().asleep.is_some()
    }

    #[cfg(test)]
    pub(super) fn wait_asleep(&self, at_most: Duration) {
        let until = crate::clock::now().after(at_most);
        assert!(crate::clock::poll(until, || self.is_asleep()), "the worker does not sleep");
    }

    fn change(&self, change: impl FnOnce(&mut MailboxState)) {
        let mut state = self.state.lock();
        change(&mut state);
        state.is_news = true;
        let asleep = state.asleep.take();
        drop(state);
        self.notify(asleep);
    }

    fn notify(&self, asleep: Option<Asleep>) {
        self.recall.make();
        match asleep {
            None => {}
            Some(Asleep::Resting) => {
                self.filled.notify_one();
            }
            #[cfg(unix)]
            Some(Asleep::Reading { .. }) => self.waker.get().into_iter().for_each(Waker::wake),
            #[cfg(not(unix))]
            Some(Asleep::Reading { .. }) => {}
        }
    }
}

impl MailboxState {
    fn push(&mut self, job: Job) -> Result<(), Refused> {
        if self.abandoned {
            return Err(Refused::Abandoned(job));
        }
        let most = if job.release().is_some() { RELEASES } else { CAPACITY };
        if self.jobs.len() >= most {
            return Err(Refused::Full(job));
        }
        self.jobs.push_back(job);
        self.is_news = true;
        Ok(())
    }

    fn found(&mut self) -> Found {
        self.is_news = false;
        let woken = std::mem::take(&mut self.woken);
        if woken || !self.jobs.is_empty() {
            Found::Something
        } else if self.closed {
            Found::Closed
        } else {
            Found::Nothing
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::thread;

    use crossbeam_channel::bounded;

    use super::*;
    use crate::clock;
    use crate::core::base::Time;
    use crate::core::link::{Purpose, Release};
    use crate::node::job::Asked;
    use crate::node::{Request, Script};

    static SCRIPT: Script = Script::new("return 1");

    const LONG: Duration = Duration::from_secs(60);

    fn job(ms: u64) -> Job {
        let until = Some(Time::from_start(Duration::from_millis(ms)));
        let request = Arc::new(Request::new(&SCRIPT, 0, &[]));
        let (sink, unanswered, untold) = (None, None, None);
        let asked = Asked { node: 0, request, sink, unanswered, untold };
        Job::new(asked, Purpose::Release(Release::of_key(until, None)))
    }

    fn taken(mailbox: &Mailbox, most: usize) -> Vec<Duration> {
        let mut jobs = Vec::new();
        mailbox.take(&mut jobs, most);
        let until = |job: &Job| job.release().and_then(|it| it.until).expect("a release");
        let when = |job: &Job| until(job).since(Time::from_start(ms(0)));
        jobs.iter().map(when).collect()
    }

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn jobs_come_in_their_order_and_as_many_as_there_is_room_for() {
        let mailbox = Mailbox::default();
        for i in 0..5 {
            assert!(mailbox.send(job(i)).is_ok());
        }
        assert_eq!(mailbox.wait(LONG), Found::Something);
        assert_eq!(taken(&mailbox, 3), [ms(0), ms(1), ms(2)]);
        assert_eq!(taken(&mailbox, 3), [ms(3), ms(4)]);
        assert_eq!(mailbox.wait(Duration::ZERO), Found::Nothing);
    }

    #[test]
    fn a_mailbox_that_was_full_gives_the_room_back() {
        let mailbox = Mailbox::default();
        (0..RELEASES).for_each(|i| assert!(mailbox.send(job(i as u64)).is_ok()));
        assert!(mailbox.tidy(), "the jobs are there");
        assert_eq!(taken(&mailbox, RELEASES - 1).len(), RELEASES - 1);
        assert!(mailbox.tidy());
        assert!(mailbox.state.lock().jobs.capacity() < 10);
        assert_eq!(taken(&mailbox, 10).len(), 1);
        assert!(!mailbox.tidy());
    }

    #[test]
    fn a_full_mailbox_gives_the_job_back_and_can_still_be_woken() {
        let mailbox = Mailbox::default();
        for i in 0..RELEASES {
            assert!(mailbox.send(job(i as u64)).is_ok());
        }
        assert!(matches!(mailbox.send(job(0)), Err(Refused::Full(_))));
        assert_eq!(taken(&mailbox, usize::MAX).len(), RELEASES);
        mailbox.wake();
        assert_eq!(mailbox.wait(LONG), Found::Something);
        assert_eq!(mailbox.wait(Duration::ZERO), Found::Nothing, "it was told once");
    }

    /// Jobs that are put there go out together, at the wake-up.
    #[test]
    fn a_job_that_is_put_there_wakes_nobody_until_that_is_asked_for() {
        let mailbox = Arc::new(Mailbox::default());
        let (tell, told) = bounded(1);
        let theirs = mailbox.clone();
        let woken = move || {
            let found = theirs.wait(LONG);
            tell.send((found, taken(&theirs, 10))).expect("the test waits for it");
        };
        clock::spawn("worker".to_owned(), woken).expect("there are threads");
        let asleep = || mailbox.state.lock().asleep.is_some();
        assert!(clock::poll(clock::now().after(LONG), asleep));
        mailbox.wake_worker();
        assert!(asleep(), "there is nothing to take");
        for i in 0..3 {
            assert!(mailbox.put(job(i)).is_ok());
            assert!(asleep());
        }
        mailbox.wake_worker();
        let (found, jobs) = told.recv_timeout(LONG).expect("it is awake");
        assert_eq!((found, jobs), (Found::Something, vec![ms(0), ms(1), ms(2)]));
        for i in 3..RELEASES {
            assert!(mailbox.put(job(i as u64)).is_ok());
        }
        (0..3).for_each(|i| assert!(mailbox.put(job(i)).is_ok()));
        assert!(matches!(mailbox.put(job(0)), Err(Refused::Full(_))));
    }

    #[test]
    fn what_is_there_is_taken_before_the_end() {
        let mailbox = Mailbox::default();
        assert!(mailbox.send(job(1)).is_ok());
        mailbox.close();
        assert_eq!(mailbox.wait(LONG), Found::Something);
        assert_eq!(taken(&mailbox, 10), [ms(1)]);
        assert_eq!(mailbox.wait(LONG), Found::Closed);
        mailbox.abandon();
        assert!(matches!(mailbox.send(job(2)), Err(Refused::Abandoned(_))));
    }

    /// If one wake-up were lost, a wait would take its whole minute.
    #[test]
    fn whoever_sleeps_is_woken_for_each_thing_there_is() {
        const JOBS: usize = 20_000;
        let mailbox = Mailbox::default();
        thread::scope(|scope| {
            let worker = scope.spawn(|| {
                let mut count = 0;
                while mailbox.wait(LONG) != Found::Closed {
                    count += taken(&mailbox, 64).len();
                }
                count
            });
            let senders: Vec<_> = (0..2)
                .map(|_| {
                    scope.spawn(|| {
                        for i in 0..JOBS {
                            while mailbox.send(job(i as u64)).is_err() {
                                thread::yield_now();
                            }
                            if i % 16 == 0 {
                                thread::yield_now();
                            }
                        }
                    })
                })
                .collect();
            senders.into_iter().for_each(|sender| sender.join().expect("no panic"));
            mailbox.close();
            assert_eq!(worker.join().expect("no panic"), 2 * JOBS);
        });
    }
}
