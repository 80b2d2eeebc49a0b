//! One run, seen from outside: the masters, their faults, the client process, and samples of their figures.

use std::ffi::OsStr;
use std::thread;
use std::time::{Duration, Instant};

use crate::clients::{self, AT_REST, CLIENTS, LOAD_BEGINS, LOAD_ENDS, STAY};
use crate::faults::Faults;
use crate::figures::{Masters, Process, Sample, Told};
use crate::helper::{Helper, PROMPT};
use crate::leak::{self, Leak};
use crate::support::Servers;
use crate::support::cpu::cpu_seconds_of;
use crate::table::Table;

pub(crate) const MASTERS: u64 = 3;

/// The threads of a client without those of its connections: for renewals, for callbacks, and for the recorder of metrics.
const THREADS: u64 = if cfg!(feature = "metrics") { 3 } else { 2 };

/// Time between two faults of the warm-up. The previous master is used again by then.
const WARM_UP_FAULTS: Duration = Duration::from_secs(3);
/// Enough for each kind of fault on each master: all buffers of a reconnect have been used then.
pub(crate) const WARM_UP: Duration = Duration::from_secs(26);

/// The set-up of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    /// Time before the judged load.
    pub(crate) warm_up: Duration,
    pub(crate) load: Duration,
    /// Time from one fault of a master to the next one. No faults if `None`.
    pub(crate) fault_every: Option<Duration>,
    /// Time limit for the process and the masters to come to rest.
    pub(crate) settle: Duration,
    pub(crate) leak: Option<Leak>,
    /// True if the curve is printed.
    pub(crate) print: bool,
}

/// The observations of a run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Run {
    /// The figures after a first client has come and gone.
    pub(crate) fresh: Sample,
    /// The figures of the clients that stay: warm and idle.
    pub(crate) rest_before: Sample,
    /// One sample per second.
    pub(crate) load: Vec<Sample>,
    pub(crate) rest_after: Sample,
    /// The figures after all clients are gone.
    pub(crate) gone: Sample,
    /// The masters' figures at the end, without any key.
    pub(crate) emptied: Masters,
    /// The number of keys at the end, without fences and marks.
    pub(crate) keys_left: u64,
}

/// The exact figures at rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rest {
    pub(crate) threads: u64,
    pub(crate) descriptors: u64,
    pub(crate) connections: u64,
}

impl Rest {
    /// A client at rest has a worker thread, a connection and the worker's wake-up descriptor for each node. It also has a
    /// timer, a thread for callbacks, and one descriptor, which wakes the thread that closes connections for its callers.
    pub(crate) fn of_clients(clients: u64, fresh: &Process) -> Self {
        let connections = clients * MASTERS;
        Self {
            threads: fresh.threads + THREADS * clients + connections,
            descriptors: fresh.descriptors + 2 * connections + clients,
            connections,
        }
    }
}

pub(crate) fn watch(plan: &Plan) -> Run {
    let mut watched = Watched::start(plan);
    let every = plan.fault_every;
    let fresh =
        watched.at_rest(|process, masters| process.threads == 1 && masters.connections == 0);
    let rest_of = |clients| {
        let rest = Rest::of_clients(clients, &fresh.process);
        move |process: &Process, masters: &Masters| {
            let Process { threads, descriptors, .. } = *process;
            rest == Rest { threads, descriptors, connections: masters.connections }
        }
    };
    watched.load(plan.warm_up, every.map(|_| WARM_UP_FAULTS), |_| ());
    let rest_before = watched.at_rest(rest_of(STAY));
    let mut table = Table::new(plan);
    let cpu = watched.cpu();
    let load = watched.load(plan.load, every, |sample| table.add(sample));
    let cpu = watched.cpu() - cpu;
    let rest_after = watched.at_rest(rest_of(STAY));
    let gone = watched.at_rest(rest_of(0));
    let keys_left = watched.keys_left();
    for server in watched.servers.iter() {
        server.command(&["FLUSHALL", "SYNC"]);
    }
    let emptied = Masters::read(watched.servers.iter());
    watched.child.go();
    watched.child.finish_within(PROMPT);
    let run = Run { fresh, rest_before, load, rest_after, gone, emptied, keys_left };
    table.end(&run, cpu);
    run
}

struct Watched {
    child: Helper,
    pid: u32,
    servers: Servers,
    settle: Duration,
    /// The beginning of the load.
    start: Instant,
}

impl Watched {
    fn start(plan: &Plan) -> Self {
        let servers = Servers::start(usize::try_from(MASTERS).expect("a few"));
        let [warm_up, load] = [plan.warm_up, plan.load].map(|time| time.as_millis().to_string());
        let leak = plan.leak.map_or("", Leak::name);
        let variables: [(&str, &dyn AsRef<OsStr>); 3] =
            [(clients::WARM_UP, &warm_up), (clients::LOAD, &load), (leak::VARIABLE, &leak)];
        let child = Helper::start_with(&CLIENTS, &servers, &variables);
        let pid = child.hear().parse().expect("it says which process it is");
        Self { child, pid, servers, settle: plan.settle, start: Instant::now() }
    }

    fn process(&self) -> Process {
        Process::read(self.pid).expect("the process with the clients is there")
    }

    fn masters(&self) -> Masters {
        Masters::read(self.servers.iter())
    }

    fn sample(&self, line: &str, process: Process, masters: Masters) -> Sample {
        let told = Told::parse(line);
        let Told { heap, done } =
            told.unwrap_or_else(|| panic!("the process with the clients says {line:?}"));
        Sample { at: self.start.elapsed(), process, heap, done, masters }
    }

    /// Waits until the clients have come to rest. Their leftovers get the time to go away.
    fn at_rest(&mut self, is_rest: impl Fn(&Process, &Masters) -> bool) -> Sample {
        self.child.expect(AT_REST);
        let read = || (self.process(), self.masters());
        let (process, masters) =
            poll(self.settle, read, |(process, masters)| is_rest(process, masters));
        self.child.go();
        self.sample(&self.child.hear(), process, masters)
    }

    /// Takes a sample each second until the load of the given `time` ends.
    fn load(
        &mut self,
        time: Duration,
        fault_every: Option<Duration>,
        mut each: impl FnMut(&Sample),
    ) -> Vec<Sample> {
        /// Time before the end without faults, so that all masters are used again.
        const WITHOUT_FAULTS: Duration = Duration::from_secs(6);
        self.child.expect(LOAD_BEGINS);
        self.start = Instant::now();
        let faults_end = time.saturating_sub(WITHOUT_FAULTS);
        let mut faults = fault_every.map(Faults::new);
        let mut samples = Vec::new();
        loop {
            let line = self.child.hear();
            if line == LOAD_ENDS {
                return samples;
            }
            let sample = self.sample(&line, self.process(), self.masters());
            if let Some(faults) = &mut faults {
                faults.go_on(sample.at, sample.at < faults_end, &mut self.servers);
            }
            each(&sample);
            samples.push(sample);
        }
    }

    /// The number of keys that stay although no lock may leave them behind.
    fn keys_left(&self) -> u64 {
        let keys = || self.servers.iter().map(|server| server.keys().len() as u64).sum();
        poll(self.settle, keys, |keys| *keys == 0)
    }

    /// The processor time of the clients, in seconds.
    fn cpu(&self) -> f64 {
        cpu_seconds_of(self.pid)
    }
}

/// Reads until `is_done` accepts the value, or the time is over. Returns the last value.
fn poll<T>(limit: Duration, read: impl Fn() -> T, is_done: impl Fn(&T) -> bool) -> T {
    const PAUSE: Duration = Duration::from_millis(50);
    let until = Instant::now() + limit;
    loop {
        let value = read();
        if is_done(&value) || Instant::now() >= until {
            return value;
        }
        thread::sleep(PAUSE);
    }
}
