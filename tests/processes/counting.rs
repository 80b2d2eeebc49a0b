//! Many threads in several processes count up one number in a file, which also has the last holder's token.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use crate::helper::{Helper, PROMPT};
use crate::long;
use crate::roles::{self, Role};
use crate::support::reaper::Folder;
use crate::support::{Server, Servers, wait_until};

const PROCESSES: usize = 4;
/// The number of threads in each process.
const THREADS: usize = 4;

pub(crate) fn counter_in_a_file_loses_no_update() {
    // Enough for several turns of each process.
    let total = if long() { 40_000 } else { 8_000 };
    let servers = Servers::start(5);
    let counted = count_in_processes(&roles::COUNT, &servers, total);
    assert_eq!(counted, total);
    servers.wait_no_keys();
}

/// The mutation test of the one above: the counting itself is a race.
///
/// A single run need not lose an update: on a machine with one processor, or on a busy one, it may go
/// well. If all runs go well, no two processes ran at the same time.
pub(crate) fn without_the_lock_updates_are_lost() {
    const TOTAL: usize = 4_000;
    // The helpers get the server's address, but do not use it.
    let servers = Servers::start(1);
    let start = Instant::now();
    let mut runs = 0;
    while start.elapsed() < PROMPT {
        runs += 1;
        if count_in_processes(&roles::COUNT_UNLOCKED, &servers, TOTAL) < TOTAL {
            return;
        }
    }
    panic!("{runs} runs without a lock have lost no update");
}

/// Each master comes back with its data. All processes have found it again before the next one
/// goes. So there is always a majority that knows the lock's holder.
pub(crate) fn counter_in_a_file_loses_no_update_while_masters_restart() {
    // Enough for several masters to go and come back meanwhile.
    let total = if long() { 100_000 } else { 32_000 };
    let mut servers = Servers::start_with(5, &["--appendonly", "yes", "--appendfsync", "always"]);
    let mut counting = Counting::start(&roles::COUNT, &servers, total);
    let mut restarts = 0;
    while !counting.has_ended() {
        let victim = restarts % servers.len();
        let number = counting.number();
        servers[victim].kill();
        wait_until("updates without it", PROMPT, || {
            counting.number() >= number + 5 || counting.has_ended()
        });
        servers[victim].restart_with_data();
        wait_until("all processes to find it again", PROMPT, || {
            // One connection is that of the test itself.
            clients(&servers[victim]) > PROCESSES || counting.has_ended()
        });
        restarts += 1;
    }
    assert_eq!(counting.finish(), total);
    assert!(restarts > 5, "only {restarts} restarts");
}

fn clients(server: &Server) -> usize {
    let clients = server.command(&["CLIENT", "LIST"]);
    redis::from_redis_value::<String>(clients).expect("a text").lines().count()
}

/// Makes the helpers count up from zero at the same time, `total` times all together. Returns
/// the number that they reach.
fn count_in_processes(role: &Role, servers: &Servers, total: usize) -> usize {
    Counting::start(role, servers, total).finish()
}

/// A running count by several helpers.
#[derive(Debug)]
struct Counting {
    helpers: Vec<Helper>,
    number: Number,
    limit: Duration,
}

impl Counting {
    fn start(role: &Role, servers: &Servers, total: usize) -> Self {
        let number = Number::create();
        let times = (total / PROCESSES / THREADS).to_string();
        let variables: [(&str, &dyn AsRef<_>); 2] =
            [(roles::FILE, &number.path), (roles::TIMES, &times)];
        let mut helpers: Vec<_> =
            (0..PROCESSES).map(|_| Helper::start_with(role, servers, &variables)).collect();
        helpers.iter().for_each(|helper| helper.expect("ready"));
        helpers.iter_mut().for_each(Helper::go);
        Self { helpers, number, limit: PROMPT + Duration::from_millis(100) * total as u32 }
    }

    /// The number so far.
    fn number(&self) -> usize {
        read(self.number.path()).0
    }

    /// Returns true if any helper has ended, with success or not.
    fn has_ended(&mut self) -> bool {
        self.helpers.iter_mut().any(Helper::has_ended)
    }

    /// Waits for the helpers' end, and returns the number that they have reached.
    fn finish(self) -> usize {
        self.helpers.into_iter().for_each(|helper| helper.finish_within(self.limit));
        read(self.number.path()).0
    }
}

/// On the helper's side: counts up `times` times in each of several threads. Each step has its
/// `lock`, and a `token` larger than the last one, if there are tokens.
pub(crate) fn count<G>(
    file: &Path,
    times: usize,
    lock: impl Fn() -> G + Sync,
    token: fn(&G) -> Option<u64>,
) {
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                for _ in 0..times {
                    let guard = lock();
                    let (number, last) = read(file);
                    let token = token(&guard);
                    assert!(token.is_none_or(|token| token > last), "{token:?} after {last}");
                    thread::yield_now();
                    write(file, number + 1, token.unwrap_or(0));
                    drop(guard);
                }
            });
        }
    });
}

/// The number and the token in the file.
pub(crate) fn read(file: &Path) -> (usize, u64) {
    let text = fs::read_to_string(file).expect("the file is there");
    let (number, token) = text.split_once(' ').expect("there are two numbers in it");
    (number.parse().expect("a number"), token.parse().expect("a number"))
}

/// Overwrites both with text of constant width. So a reader without a lock still reads a valid
/// number, though perhaps an old one.
pub(crate) fn write(file: &Path, number: usize, token: u64) {
    let file = File::options().write(true).open(file).expect("the file is there");
    file.write_all_at(format!("{number:010} {token:020}").as_bytes(), 0)
        .expect("it can be written");
}

/// A file with a zero in it, removed on drop.
#[derive(Debug)]
pub(crate) struct Number {
    _folder: Folder,
    path: PathBuf,
}

impl Number {
    pub(crate) fn create() -> Self {
        let folder = Folder::create("quorlock-number");
        let folder = folder.expect("a directory can be made among the temporary files");
        let path = folder.join("number");
        File::create_new(&path).expect("a new directory can be written to");
        write(&path, 0, 0);
        Self { _folder: folder, path }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}
