//! The packed floor: one thread that writes the requests of all callers, with one write a node.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle, Thread};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, bounded};

use super::contestant::{Caller, Contestant};
use super::wire::Wire;

/// Nobody waits for longer: the thread has ended then.
const LIMIT: Duration = Duration::from_secs(10);
/// More than there are callers.
const MAILBOX: usize = 1_024;

/// Callers put their requests into a mailbox, and sleep until the verdict is there. The thread takes
/// whatever is in the mailbox, writes it, reads until a majority has answered all of it, and wakes
/// those who asked.
pub(crate) struct Packed {
    mailbox: Option<Sender<Request>>,
    thread: Option<JoinHandle<()>>,
}

struct Request {
    acquire: bool,
    key: Arc<str>,
    owner: String,
    verdict: Arc<Verdict>,
}

/// What one caller waits for.
struct Verdict {
    caller: Thread,
    there: AtomicBool,
}

impl Packed {
    pub(crate) fn new(ports: Vec<u16>) -> Self {
        let (mailbox, requests) = bounded(MAILBOX);
        let thread = thread::spawn(move || carry(&ports, &requests));
        Self { mailbox: Some(mailbox), thread: Some(thread) }
    }
}

impl Contestant for Packed {
    fn caller<'a>(&'a self, name: &str) -> Caller<'a> {
        let mailbox = self.mailbox.clone().expect("it is open until the end");
        let key: Arc<str> = format!("packed:{name}").into();
        let there = AtomicBool::new(false);
        let verdict = Arc::new(Verdict { caller: thread::current(), there });
        let mut rounds = 0_u64;
        Box::new(move |inside| {
            let owner = format!("{rounds:036}");
            rounds += 1;
            let ask = |acquire| {
                let (key, owner, verdict) = (key.clone(), owner.clone(), verdict.clone());
                verdict.there.store(false, Ordering::Relaxed);
                let request = Request { acquire, key, owner, verdict: verdict.clone() };
                mailbox.send(request).expect("the thread is there");
                let start = Instant::now();
                while !verdict.there.load(Ordering::Acquire) {
                    thread::park_timeout(LIMIT);
                    assert!(start.elapsed() < LIMIT, "the thread does not answer");
                }
            };
            ask(true);
            inside();
            ask(false);
        })
    }
}

impl Drop for Packed {
    fn drop(&mut self) {
        drop(self.mailbox.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn carry(ports: &[u16], requests: &Receiver<Request>) {
    let mut wire = Wire::connect(ports);
    let majority = ports.len() / 2 + 1;
    let (mut bytes, mut batch) = (Vec::new(), Vec::new());
    while let Ok(first) = requests.recv() {
        batch.push(first);
        batch.extend(requests.try_iter());
        for Request { acquire, key, owner, .. } in &batch {
            match acquire {
                true => wire.acquire(&mut bytes, key, owner),
                false => wire.release(&mut bytes, key, owner),
            }
        }
        let yes = wire.exchange(&bytes, batch.len());
        bytes.clear();
        for (yes, Request { verdict, .. }) in yes.into_iter().zip(batch.drain(..)) {
            assert!(yes >= majority, "the names are nobody else's");
            verdict.there.store(true, Ordering::Release);
            verdict.caller.unpark();
        }
    }
}
