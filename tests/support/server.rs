//! Real `redis-server` processes, one temporary directory and one port each, gone when dropped.
//!
//! The value of a lock over Redis shows when servers die, hang, or come back without
//! their data. So these servers can be killed, paused and restarted. Their data is read over
//! connections that are independent of the library under test.
//!
//! A server ends with its owner, even if the owner is killed or leaves through `std::process::exit` (`reaper.rs`).

#![allow(
    dead_code,
    unreachable_pub,
    reason = "compiled into every program that includes it, and each uses only a part of it"
)]
#![allow(clippy::print_stderr, reason = "the log of a server belongs to a failed test's output")]

use std::fs::{self, File};
use std::ops::{Deref, DerefMut};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use redis::{
    Client, Cmd, ConnectionAddr, FromRedisValue, IntoConnectionInfo, RedisConnectionInfo,
    RedisResult, Value,
};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};

#[path = "port.rs"]
pub(crate) mod port;
#[path = "reaper.rs"]
pub mod reaper;

use port::Port;
use reaper::{Folder, Process, Registration};

/// One Redis server on 127.0.0.1, in a process of its own.
///
/// It keeps its port for life, even while it is down.
#[derive(Debug)]
pub struct Server {
    port: Port,
    home: Home,
    options: Vec<String>,
    /// `None` while the server is down.
    process: Option<Process>,
    paused: bool,
    /// The fake clock of a server whose wall clock can be set.
    clock: Option<FakeClock>,
    /// The files that libfaketime has made for the process.
    clock_files: Vec<(PathBuf, Registration)>,
}

impl Server {
    /// Starts an empty server that writes nothing to disk. Returns once it answers.
    pub fn start() -> Self {
        Self::start_with(&[])
    }

    /// Like [`start`](Self::start), with further options, such as `&["--requirepass", "x"]`.
    ///
    /// A server with `--tls-cert-file` listens for TLS only on its port, and needs
    /// `--unixsocket` for the helper's own commands. They use that socket if it is given.
    ///
    /// The helper's own commands log in with the password given by `--requirepass`;
    /// [`url`](Self::url) never carries it.
    pub fn start_with(options: &[&str]) -> Self {
        let mut server = Self::launch(options, None);
        server.finish_start();
        server
    }

    /// The port, the same for the server's whole life.
    pub fn port(&self) -> u16 {
        self.port.number()
    }

    /// `redis://127.0.0.1:PORT`, or `rediss://` if it speaks TLS.
    pub fn url(&self) -> String {
        let scheme = if self.is_tls() { "rediss" } else { "redis" };
        format!("{scheme}://{HOST}:{}", self.port())
    }

    /// The path of the socket of a server with the option `--unixsocket`. Its value must be a
    /// bare file name: the socket is in the data directory.
    #[track_caller]
    pub fn socket(&self) -> PathBuf {
        let name = self.option("--unixsocket").expect("the server has the option --unixsocket");
        self.home.data().join(name)
    }

    /// The process id. Panics if the server is down.
    #[track_caller]
    pub fn pid(&self) -> u32 {
        self.running().id()
    }

    /// Returns true if the server is neither killed nor paused, and so able to answer.
    pub fn is_up(&self) -> bool {
        self.process.is_some() && !self.paused
    }

    /// Ends the server at once, as a power cut would, paused or not. It keeps its port.
    pub fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            // This ends a stopped process as well. If it woke up first, it would run the
            // requests in its sockets.
            process.kill().expect("a child of ours can be killed");
            self.remove_clock_files();
        }
        self.paused = false;
    }

    /// Brings the server back on its port without any data, killing it first if it is up.
    pub fn restart_empty(&mut self) {
        self.kill();
        self.home.wipe_data();
        self.restart();
    }

    /// Brings the server back on its port with the data it has on disk, killing it first if it
    /// is up. There is data on disk only with `--appendonly yes`.
    pub fn restart_with_data(&mut self) {
        self.kill();
        self.restart();
    }

    /// Sets the wall clock of a server of [`Servers::start_with_clocks`] to this many seconds ahead of ours,
    /// with immediate effect.
    #[track_caller]
    pub fn set_clock(&self, ahead_s: i64) {
        self.set_clock_ms(ahead_s * 1_000);
    }

    /// Sets the wall clock like [`set_clock`](Self::set_clock), in milliseconds.
    #[track_caller]
    pub fn set_clock_ms(&self, ahead_ms: i64) {
        assert!(self.clock.is_some(), "its clock cannot be set");
        let (sign, ms) = (if ahead_ms < 0 { '-' } else { '+' }, ahead_ms.unsigned_abs());
        self.home.set_clock(&format!("{sign}{}.{:03}s", ms / 1_000, ms % 1_000));
    }

    /// Stops the process: its connections stay open, and it answers nothing.
    #[track_caller]
    pub fn pause(&mut self) {
        if self.paused {
            return;
        }
        let pid = Pid::from_child(self.running());
        kill_process(pid, Signal::STOP).expect("a running server can be stopped");
        // The signal takes effect a little later, and until then the server still answers.
        wait_until("the paused server to stop", COMMAND_LIMIT, || {
            waitid(WaitId::Pid(pid), WaitIdOptions::STOPPED | WaitIdOptions::NOHANG)
                .expect("the state of a child can be asked for")
                .is_some()
        });
        self.paused = true;
    }

    /// Lets a paused server go on. It first processes the requests in its sockets.
    #[track_caller]
    pub fn resume(&mut self) {
        kill_process(Pid::from_child(self.running()), Signal::CONT)
            .expect("a paused server can be continued");
        self.paused = false;
    }

    /// Runs one command over a fresh connection. Panics if the answer is missing or an error.
    #[track_caller]
    pub fn command(&self, parts: &[&str]) -> Value {
        let parts: Vec<&[u8]> = parts.iter().map(|part| part.as_bytes()).collect();
        self.command_bytes(&parts)
    }

    /// [`command`](Self::command) for keys and values that are not text.
    #[track_caller]
    pub fn command_bytes(&self, parts: &[&[u8]]) -> Value {
        let error = match self.try_command(parts) {
            Ok(value) => return value,
            Err(error) if error.is_timeout() => format!("no answer in {COMMAND_LIMIT:?}"),
            Err(error) => error.to_string(),
        };
        let parts: Vec<String> = parts.iter().map(|p| p.escape_ascii().to_string()).collect();
        let command = parts.join(" ");
        panic!("`{command}` failed on {}: {error}", self.url())
    }

    /// [`command_bytes`](Self::command_bytes) for a command that is allowed to fail.
    pub fn try_command(&self, parts: &[&[u8]]) -> RedisResult<Value> {
        // Without the usual greeting by name, so that a test that counts the server's commands
        // counts only its own.
        let mut login = RedisConnectionInfo::default().set_skip_set_lib_name();
        if let Some(password) = self.password() {
            login = login.set_password(password);
        }
        let address = match self.option("--unixsocket") {
            Some(_) => ConnectionAddr::Unix(self.socket()),
            None => ConnectionAddr::Tcp(HOST.to_string(), self.port()),
        };
        let address = address.into_connection_info()?.set_redis_settings(login);
        let mut connection = Client::open(address)?.get_connection_with_timeout(COMMAND_LIMIT)?;
        connection.set_read_timeout(Some(COMMAND_LIMIT))?;
        connection.set_write_timeout(Some(COMMAND_LIMIT))?;
        let mut command = Cmd::new();
        for part in parts {
            command.arg(*part);
        }
        command.query(&mut connection)
    }

    /// The number of calls to run a script.
    #[track_caller]
    pub fn script_calls(&self) -> u64 {
        self.calls("eval")
    }

    /// The number of calls of the commands whose names begin with `name`, also by scripts.
    #[track_caller]
    pub fn calls(&self, name: &str) -> u64 {
        let info = self.command(&["INFO", "commandstats"]);
        let info: String = redis::from_redis_value(info).expect("text");
        let lines = info.lines().filter_map(|line| line.strip_prefix("cmdstat_"));
        let calls = lines.filter(|line| line.starts_with(name)).map(|line| {
            let (_, calls) = line.split_once(":calls=").expect("a count");
            calls.split(',').next().and_then(|calls| calls.parse::<u64>().ok()).expect("a number")
        });
        calls.sum()
    }

    /// All keys of database 0 in order, except the fences, which outlive their locks. Bytes
    /// that are not text are replaced.
    #[track_caller]
    pub fn keys(&self) -> Vec<String> {
        let keys: Vec<Vec<u8>> = typed(self.command(&["KEYS", "*"]));
        let mut keys: Vec<String> = keys.iter().map(|key| lossy(key)).collect();
        keys.retain(|key| !stays(key));
        keys.sort();
        keys
    }

    /// Waits until this database has only keys that stay. Panics with the other keys.
    #[track_caller]
    pub fn wait_no_keys_in(&self, database: u32) {
        let mut left = Vec::new();
        let script = "redis.call('SELECT', ARGV[1]) return redis.call('KEYS', '*')";
        let empty = holds_within(NO_KEYS_LIMIT, || {
            left = typed(self.command(&["EVAL", script, "0", &database.to_string()]));
            left.retain(|key: &String| !stays(key));
            left.is_empty()
        });
        let hold: Vec<_> = left.iter().map(|key| self.dump(database, key)).collect();
        assert!(empty, "keys are left after {NO_KEYS_LIMIT:?} on {}: {hold:?}", self.url());
    }

    /// A key with its value and lifetime, for the message of a failed test.
    fn dump(&self, database: u32, key: &str) -> String {
        let script = "redis.call('SELECT', ARGV[1]) local it = redis.call('TYPE', KEYS[1]).ok local held = \
                      it == 'hash' and table.concat(redis.call('HGETALL', KEYS[1]), ' ') or it == 'string' and \
                      redis.call('GET', KEYS[1]) or it return table.concat({KEYS[1], held, \
                      redis.call('PTTL', KEYS[1])}, ' | ')";
        let held: Vec<u8> = typed(self.command(&["EVAL", script, "1", key, &database.to_string()]));
        lossy(&held)
    }

    /// The string at `key`, if there is one; bytes that are not text are replaced.
    #[track_caller]
    pub fn get(&self, key: &str) -> Option<String> {
        let value: Option<Vec<u8>> = typed(self.command(&["GET", key]));
        value.map(|value| lossy(&value))
    }

    /// The remaining lifetime of `key` in milliseconds: -1 without a limit, -2 if there is no such key.
    #[track_caller]
    pub fn pttl(&self, key: &str) -> i64 {
        typed(self.command(&["PTTL", key]))
    }

    /// Starts the process without waiting for it, so that many can start at the same time.
    fn launch(options: &[&str], clock: Option<FakeClock>) -> Self {
        let mut server = Self {
            port: Port::claim(),
            home: Home::create(),
            options: options.iter().map(ToString::to_string).collect(),
            process: None,
            paused: false,
            clock,
            clock_files: Vec::new(),
        };
        server.spawn();
        server
    }

    /// Waits for the answer of a server that was just launched.
    ///
    /// Another process may have taken the port since it was found free, and then Redis exits. So an
    /// early exit is retried on another port. An exit for another reason happens every time, and
    /// is reported at the end.
    fn finish_start(&mut self) {
        for _ in 1..START_TRIES {
            if self.answers_before_exit() {
                return;
            }
            self.kill();
            self.port = Port::claim();
            self.spawn();
        }
        self.expect_answer();
    }

    fn restart(&mut self) {
        self.spawn();
        self.expect_answer();
    }

    fn expect_answer(&mut self) {
        assert!(
            self.answers_before_exit(),
            "the Redis server on port {} exited instead of answering; its log ends with\n{}",
            self.port(),
            self.home.log_tail(),
        );
    }

    fn spawn(&mut self) {
        let log = self.home.open_log();
        let errors = log.try_clone().expect("the log can be opened twice");
        let port = self.port().to_string();
        let listen: &[&str] = match self.is_tls() {
            true => &["--port", "0", "--tls-port", &port],
            false => &["--port", &port],
        };
        let binary = binary();
        // By default Redis logs to its standard output. Errors before it has read its options go
        // to its standard error.
        let mut command = Command::new(&binary);
        if let Some(clock) = &self.clock {
            // The clock belongs to the machine, and goes on over restarts.
            if !self.home.clock().exists() {
                self.home.set_clock("+0s");
            }
            command
                .env("LD_PRELOAD", &clock.preload)
                .env("FAKETIME_TIMESTAMP_FILE", self.home.clock())
                .env("FAKETIME_NO_CACHE", "1")
                .env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
        }
        if self.options.iter().any(|option| option == "--sentinel") {
            // The server writes to its configuration file, and does not start without one.
            command.arg(self.home.create_configuration());
        }
        command
            .args(["--bind", HOST, "--daemonize", "no"])
            .args(listen)
            .args(["--save", "", "--appendonly", "no"])
            .arg("--dir")
            .arg(self.home.data())
            .args(&self.options)
            .stdin(Stdio::null())
            .stdout(log)
            .stderr(errors);
        let process = Process::spawn(&mut command).unwrap_or_else(|error| {
            panic!(
                "`{binary}` cannot be run ({error}): install redis-server, or set {BINARY} to \
                 the path of one"
            )
        });
        if self.clock.is_some() {
            // A killed process leaves these files behind, and the next process with its id would not start.
            let names = ["sem.faketime_sem_", "faketime_shm_"];
            let paths = names.map(|name| PathBuf::from(format!("/dev/shm/{name}{}", process.id())));
            self.clock_files = paths.map(|path| (path.clone(), Registration::path(&path))).into();
        }
        self.process = Some(process);
    }

    /// Returns true once the server answers, and false if it has exited. Panics if it does neither.
    fn answers_before_exit(&mut self) -> bool {
        let mut answers = false;
        let settled = holds_within(START_LIMIT, || {
            // In this order: an answer counts only if the server still ran after it. Otherwise, it may
            // have come from another process on the port.
            answers = self.answers();
            let exited = self.has_exited();
            answers &= !exited;
            answers || exited
        });
        assert!(
            settled,
            "the Redis server on port {} did not answer in {START_LIMIT:?}; its log ends with\n{}",
            self.port(),
            self.home.log_tail(),
        );
        answers
    }

    fn answers(&self) -> bool {
        match self.try_command(&[b"PING"]) {
            Ok(_) => true,
            // A refusal is an answer too, except while the data is being loaded.
            Err(error) => error.code().is_some_and(|code| code != "LOADING"),
        }
    }

    fn has_exited(&mut self) -> bool {
        let process = self.process.as_mut().expect("the server has been spawned");
        let status = process.try_wait().expect("the state of a child can be asked for");
        status.is_some()
    }

    #[track_caller]
    fn running(&self) -> &Child {
        match &self.process {
            Some(process) => process,
            None => panic!("the server on port {} is down", self.port()),
        }
    }

    fn remove_clock_files(&mut self) {
        for (path, _registration) in self.clock_files.drain(..) {
            // The file may be missing.
            let _ = fs::remove_file(path);
        }
    }

    fn password(&self) -> Option<&str> {
        self.option("--requirepass")
    }

    fn is_tls(&self) -> bool {
        self.option("--tls-cert-file").is_some()
    }

    fn option(&self, name: &str) -> Option<&str> {
        let at = self.options.iter().rposition(|option| option == name)?;
        self.options.get(at + 1).map(String::as_str)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let log = self.home.log_tail();
        if thread::panicking() && !log.is_empty() {
            let port = self.port();
            eprintln!("--- the log of the Redis server on port {port} ends with\n{log}");
        }
        // Not `kill`: an error in it must not become a second panic, which would abort.
        drop(self.process.take());
        self.remove_clock_files();
    }
}

/// Several servers that know nothing of one another: the nodes of a quorum.
///
/// It derefs to their list, so that a test can say `servers[0].kill()`.
#[derive(Debug)]
pub struct Servers(Vec<Server>);

impl Servers {
    /// Starts `n` empty servers side by side; returns once all of them answer.
    pub fn start(n: usize) -> Self {
        Self::start_with(n, &[])
    }

    /// Like [`start`](Self::start), with the options of [`Server::start_with`] for each of them.
    pub fn start_with(n: usize, options: &[&str]) -> Self {
        let mut servers: Vec<_> = (0..n).map(|_| Server::launch(options, None)).collect();
        servers.iter_mut().for_each(Server::finish_start);
        Self(servers)
    }

    /// Like [`start`](Self::start), with wall clocks that can be set. Prints a reason and returns `None` if
    /// libfaketime is not installed.
    pub fn start_with_clocks(n: usize) -> Option<Self> {
        Self::start_with_clocks_and(n, &[])
    }

    /// Like [`start_with_clocks`](Self::start_with_clocks), with the options of [`Server::start_with`].
    pub fn start_with_clocks_and(n: usize, options: &[&str]) -> Option<Self> {
        let Some(clock) = FakeClock::find() else {
            eprintln!(
                "LEFT OUT: there is no libfaketime, so no server's clock can be set; install it, for \
                 example with `apt-get install faketime`"
            );
            return None;
        };
        let launch = |_| Server::launch(options, Some(clock.clone()));
        let mut servers: Vec<_> = (0..n).map(launch).collect();
        servers.iter_mut().for_each(Server::finish_start);
        Some(Self(servers))
    }

    /// The servers' addresses, in order.
    pub fn urls(&self) -> Vec<String> {
        self.iter().map(Server::url).collect()
    }

    /// Waits until no server that is up has a key except fences. Panics with the remaining keys of each server.
    ///
    /// It waits because a lock call may give up before its last release has reached every server.
    #[track_caller]
    pub fn wait_no_keys(&self) {
        let mut left = Vec::new();
        let empty = holds_within(NO_KEYS_LIMIT, || {
            left.clear();
            for server in self.iter().filter(|server| server.is_up()) {
                let keys = server.keys();
                if !keys.is_empty() {
                    let hold: Vec<_> = keys.iter().map(|key| server.dump(0, key)).collect();
                    left.push(format!("{hold:?} on {}", server.url()));
                }
            }
            left.is_empty()
        });
        assert!(empty, "keys are left after {NO_KEYS_LIMIT:?}: {}", left.join("; "));
    }
}

impl Deref for Servers {
    type Target = Vec<Server>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl DerefMut for Servers {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.0
    }
}

/// Waits until `condition` holds, checking it every few milliseconds. Panics with `what` was waited
/// for, if it does not hold within `limit`.
#[track_caller]
pub fn wait_until(what: &str, limit: Duration, condition: impl FnMut() -> bool) {
    assert!(holds_within(limit, condition), "waited {limit:?} in vain for {what}");
}

/// Returns true if a key stays when no lock is left: a key kept next to a lock, as its largest number and its tombstones are,
/// or the node's mark. The key with the end of a read does not stay: it goes with the read.
pub fn stays(key: &str) -> bool {
    let is_beside = key.starts_with('{') && key.contains("}:");
    let is_read = key.contains(":rwlock_timeout:");
    is_beside && !is_read || key.ends_with("}:forced") || key.ends_with("{quorlock}:mark")
}

/// Returns true if libfaketime is installed, so that [`Servers::start_with_clocks`] can start servers.
pub fn clocks_can_be_set() -> bool {
    FakeClock::find().is_some()
}

/// The server program: the value of `QUORLOCK_REDIS_SERVER`, or `redis-server`.
pub fn binary() -> String {
    std::env::var(BINARY).unwrap_or_else(|_| "redis-server".to_string())
}

/// The environment variable that names the program.
pub const BINARY: &str = "QUORLOCK_REDIS_SERVER";
const HOST: &str = "127.0.0.1";
/// Generous, since tests start many servers at once on machines with few processors.
const START_LIMIT: Duration = Duration::from_secs(20);
const START_TRIES: usize = 5;
/// As generous: beside other programs that keep both processors busy, an answer has taken more than five seconds.
const COMMAND_LIMIT: Duration = Duration::from_secs(30);
const NO_KEYS_LIMIT: Duration = Duration::from_secs(5);
const POLL: Duration = Duration::from_millis(2);
const LOG_TAIL: usize = 20;

/// The libraries that give a process another wall clock: libfaketime, and the C library in place of Redis' own
/// allocator, which is incompatible with it.
#[derive(Clone, Debug)]
struct FakeClock {
    preload: String,
}

impl FakeClock {
    fn find() -> Option<Self> {
        let folders = fs::read_dir("/usr/lib").ok()?.flatten().map(|entry| entry.path());
        let found = |folder: PathBuf| {
            let (fake, c) = (folder.join("faketime/libfaketime.so.1"), folder.join("libc.so.6"));
            (fake.exists() && c.exists())
                .then(|| Self { preload: format!("{}:{}", fake.display(), c.display()) })
        };
        folders.into_iter().find_map(found)
    }
}

/// A server's temporary directory with its log and its data. It is removed on drop.
#[derive(Debug)]
struct Home(Folder);

impl Home {
    fn create() -> Self {
        let folder = Folder::create("quorlock-redis");
        let home = Self(folder.expect("a directory can be made among the temporary files"));
        home.create_data();
        home
    }

    fn data(&self) -> PathBuf {
        self.0.join("data")
    }

    fn create_data(&self) {
        fs::create_dir(self.data()).expect("a server's directory can be written to");
    }

    fn create_configuration(&self) -> PathBuf {
        let path = self.0.join("server.conf");
        fs::write(&path, "").expect("a server's directory can be written to");
        path
    }

    fn wipe_data(&self) {
        fs::remove_dir_all(self.data()).expect("a killed server's data can be removed");
        self.create_data();
    }

    fn clock(&self) -> PathBuf {
        self.0.join("clock")
    }

    /// Sets the clock in one step, since the server may read the file at any time.
    fn set_clock(&self, offset: &str) {
        let new = self.0.join("clock.new");
        fs::write(&new, offset).expect("a server's directory can be written to");
        fs::rename(new, self.clock()).expect("a file can be renamed");
    }

    fn log(&self) -> PathBuf {
        self.0.join("log")
    }

    /// Opens the log for appending, so that it covers all lives of the server.
    fn open_log(&self) -> File {
        File::options()
            .create(true)
            .append(true)
            .open(self.log())
            .expect("a server's directory can be written to")
    }

    fn log_tail(&self) -> String {
        let log = fs::read(self.log()).unwrap_or_default();
        let log = lossy(&log);
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(LOG_TAIL)..].join("\n")
    }
}

/// Returns true once `condition` holds, and false if it does not within `limit`. No other function sleeps.
///
/// The condition is checked at least once, and once more after the time is over. Otherwise, a test
/// that got no processor in between would fail.
pub fn holds_within(limit: Duration, mut condition: impl FnMut() -> bool) -> bool {
    let start = Instant::now();
    loop {
        let late = start.elapsed() >= limit;
        if condition() {
            return true;
        }
        if late {
            return false;
        }
        thread::sleep(POLL);
    }
}

#[track_caller]
fn typed<T: FromRedisValue>(value: Value) -> T {
    T::from_redis_value(value).expect("Redis answers this command with this type")
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
