//! Floors whose callers block, while threads combine all waiting requests into one write. The packed floor has one thread for all
//! nodes, and the threaded floor has one for each node.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, JoinHandle, Thread};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, bounded};

use super::contestant::{Caller, Contestant};
use super::wire::{Form, Wire};

/// Time limit of a wait. A thread has ended if it takes longer.
const LIMIT: Duration = Duration::from_secs(10);

/// Capacity of a mailbox, larger than the number of callers.
const MAILBOX: usize = 1_024;

/// A floor whose callers put their requests into the mailbox of each thread, and sleep until a majority of the threads has
/// answered.
pub(crate) struct Threaded {
    prefix: String,
    mailboxes: Vec<Sender<Request>>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Clone)]
struct Request {
    /// True if the lock is to be taken, and false if it is to be given back.
    acquires: bool,
    key: Arc<str>,
    owner: Arc<str>,
    answers: Arc<Answers>,
}

/// The answers to one request.
struct Answers {
    caller: Thread,
    came: AtomicUsize,
}

impl Threaded {
    /// One thread, which answers for a majority of the nodes.
    pub(crate) fn packed(ports: Vec<u16>) -> Self {
        Self::new("packed", vec![ports], Form::Canonical)
    }

    pub(crate) fn one_a_node(ports: Vec<u16>, form: Form) -> Self {
        Self::new("threaded", ports.into_iter().map(|port| vec![port]).collect(), form)
    }

    fn new(prefix: &str, threads: Vec<Vec<u16>>, form: Form) -> Self {
        let prefix = format!("{}:{prefix}", form.prefix());
        let majority = threads.len() / 2 + 1;
        let threads = threads.into_iter().map(|ports| {
            let (mailbox, requests) = bounded(MAILBOX);
            (mailbox, thread::spawn(move || carry(&ports, form, majority, &requests)))
        });
        let (mailboxes, threads) = threads.unzip();
        Self { prefix, mailboxes, threads }
    }

    /// Asks all threads, and waits for a majority.
    fn ask(&self, acquires: bool, key: &Arc<str>, owner: &Arc<str>) {
        let majority = self.mailboxes.len() / 2 + 1;
        let answers = Arc::new(Answers { caller: thread::current(), came: AtomicUsize::new(0) });
        let (key, owner) = (key.clone(), owner.clone());
        let request = Request { acquires, key, owner, answers: answers.clone() };
        for mailbox in &self.mailboxes {
            mailbox.send(request.clone()).expect("the thread is there");
        }
        let start = Instant::now();
        while answers.came.load(Ordering::Acquire) < majority {
            thread::park_timeout(LIMIT);
            assert!(start.elapsed() < LIMIT, "the threads do not answer");
        }
    }
}

impl Contestant for Threaded {
    fn caller<'a>(&'a self, name: &str) -> Caller<'a> {
        let key: Arc<str> = format!("{}:{name}", self.prefix).into();
        let mut rounds = 0_u64;
        Box::new(move |inside| {
            let owner: Arc<str> = format!("{rounds:036}").into();
            rounds += 1;
            self.ask(true, &key, &owner);
            inside();
            self.ask(false, &key, &owner);
        })
    }
}

impl Drop for Threaded {
    fn drop(&mut self) {
        self.mailboxes.clear();
        self.threads.drain(..).for_each(|thread| _ = thread.join());
    }
}

/// Carries requests to the nodes on those ports, until a majority of the nodes has answered. The last one of `answers_needed`
/// answers wakes the caller.
fn carry(ports: &[u16], form: Form, answers_needed: usize, requests: &Receiver<Request>) {
    let mut wire = Wire::connect(ports, form);
    let majority = ports.len() / 2 + 1;
    let (mut bytes, mut batch) = (Vec::new(), Vec::new());
    while let Ok(first) = requests.recv() {
        batch.push(first);
        batch.extend(requests.try_iter());
        for Request { acquires, key, owner, .. } in &batch {
            if *acquires {
                wire.acquire(&mut bytes, key, owner);
            } else {
                wire.release(&mut bytes, key, owner);
            }
        }
        let yes = wire.exchange(&bytes, batch.len());
        bytes.clear();
        for (yes, Request { answers, .. }) in yes.into_iter().zip(batch.drain(..)) {
            assert!(yes >= majority, "the names are nobody else's");
            if answers.came.fetch_add(1, Ordering::Release) + 1 == answers_needed {
                answers.caller.unpark();
            }
        }
    }
}
