//! Contenders in processes of their own: further runs of this program, with an argument that no user
//! gives.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

use super::contest::{Contest, Grant, contend};
use super::contestant::{Contestant, Ending, Ours, all_on};
use super::others::Rslock;
use super::server::Servers;
use super::spent::Spent;

/// The first argument of a contender.
pub(crate) const ARGUMENT: &str = "--contender";

/// Time that a process may take longer than planned.
const PATIENCE: Duration = Duration::from_secs(20);

/// The library of a contender.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    Quorlock,
    Rslock,
    /// `rslock` with pauses of this many milliseconds at most.
    Impatient(u64),
}

/// Processes of one kind, each with the same number of threads.
pub(crate) struct Crowd {
    processes: Vec<Process>,
    threads: usize,
}

struct Process {
    child: Child,
    orders: ChildStdin,
    words: Receiver<String>,
}

impl Crowd {
    pub(crate) fn start(servers: &Servers, kind: Kind, processes: usize, threads: usize) -> Self {
        let processes = (0..processes).map(|_| Process::start(servers, kind, threads)).collect();
        let crowd = Self { processes, threads };
        crowd.processes.iter().for_each(|process| {
            process.next_word(PATIENCE).expect("a contender gets ready");
        });
        crowd
    }

    /// Has all of them lock `name`; the callers are counted over all processes.
    pub(crate) fn contend(
        &mut self,
        servers: &Servers,
        name: &str,
        hold: Duration,
        span: Duration,
    ) -> Contest {
        let before = Spent::now(servers);
        for process in &mut self.processes {
            writeln!(process.orders, "{name} {} {}", hold.as_micros(), span.as_micros())
                .expect("a contender listens");
        }
        let mut grants = Vec::new();
        for (i, process) in self.processes.iter().enumerate() {
            let first = i * self.threads;
            grants.extend(
                process.grants(span).map(|grant| Grant { caller: first + grant.caller, ..grant }),
            );
        }
        let spent = Spent::now(servers) - before;
        Contest::new(grants, self.processes.len() * self.threads, spent)
    }
}

impl Process {
    fn start(servers: &Servers, kind: Kind, threads: usize) -> Self {
        let program = std::env::current_exe().expect("the path of this program is known");
        let (kind, pause_ms) = match kind {
            Kind::Quorlock => ("quorlock", 0),
            Kind::Rslock => ("rslock", 0),
            Kind::Impatient(pause_ms) => ("rslock", pause_ms),
        };
        let mut child = Command::new(program)
            .args([ARGUMENT, kind, &pause_ms.to_string(), &threads.to_string()])
            .args(servers.urls())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("this program can be started once more");
        let orders = child.stdin.take().expect("it is piped");
        let output = BufReader::new(child.stdout.take().expect("it is piped"));
        let (tell, words) = mpsc::channel();
        // A thread, since reads from pipes have no time limit. The thread ends with the process.
        thread::spawn(move || {
            output.lines().map_while(Result::ok).all(|line| tell.send(line).is_ok());
        });
        Self { child, orders, words }
    }

    fn next_word(&self, limit: Duration) -> Option<String> {
        self.words.recv_timeout(limit).ok()
    }

    /// Reads the grants up to the empty line that ends them.
    fn grants(&self, span: Duration) -> impl Iterator<Item = Grant> {
        std::iter::from_fn(move || {
            let line = self.next_word(span + PATIENCE).expect("a contender tells its grants");
            let mut numbers = line.split(' ').map_while(|number| number.parse::<u64>().ok());
            let (caller, asked_ns) = (numbers.next()?, numbers.next()?);
            let granted_ns = numbers.next()?;
            Some(Grant { caller: caller as usize, asked_ns, granted_ns })
        })
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The life of a contender: each line of its input is one contest. It ends with its input.
pub(crate) fn run(mut arguments: impl Iterator<Item = String>) {
    let mut next = || arguments.next().expect("contenders are started with all arguments");
    let kind = next();
    let [pause_ms, threads] = [(); 2].map(|()| next().parse::<u64>().expect("a number"));
    let urls: Vec<_> = arguments.collect();
    let contestant: Box<dyn Contestant> = match (&*kind, pause_ms) {
        ("quorlock", _) => Box::new(Ours::new(urls, "crowd", all_on, Ending::Unlock)),
        (_, 0) => Box::new(Rslock::new(urls)),
        (_, ms) => Box::new(Rslock::new(urls).impatient(Duration::from_millis(ms))),
    };
    println!("ready");
    for line in std::io::stdin().lines().map_while(Result::ok) {
        let mut words = line.split(' ');
        let name = words.next().expect("a name");
        let [hold, span] = [(); 2].map(|()| {
            let micros = words.next().and_then(|word| word.parse().ok());
            Duration::from_micros(micros.expect("a number"))
        });
        for grant in contend(&*contestant, name, threads as usize, hold, span) {
            println!("{} {} {}", grant.caller, grant.asked_ns, grant.granted_ns);
        }
        println!();
    }
}
