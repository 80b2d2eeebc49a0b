//! The options of the program.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::styling::{Style, Styles};
use clap::{Args, Parser, Subcommand, ValueEnum};
use serde::{Deserialize, Serialize};

use crate::exit::{ADMIN_TABLE, BENCH_TABLE, DEMO_TABLE, DOCTOR_TABLE, HELD, STATUS_TABLE, TABLE};

const PLAIN: Styles = Styles::plain().header(Style::new().bold()).literal(Style::new().bold());

/// Locks across machines: each is held on a majority of independent Redis masters.
#[derive(Debug, Parser)]
#[command(name = "quorlock", version, styles = PLAIN, arg_required_else_help = true)]
pub(crate) struct Options {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Runs a command under a lock: `flock` across machines
    ///
    /// A TIME is a number of seconds, such as 5 or 0.5, or has units, such as 500ms, 90s or 5m.
    #[command(after_help = TABLE, override_usage = "quorlock run [OPTIONS] NAME [--] COMMAND [ARGS]...
       quorlock run [OPTIONS] NAME -c LINE")]
    Run(Run),
    /// Prints the holder of a lock, by each master and over the quorum
    #[command(after_help = STATUS_TABLE)]
    Status(Status),
    /// Prints the locks that are held, each with its holder
    #[command(after_help = ADMIN_TABLE)]
    List(List),
    /// Takes a lock from its holder
    #[command(after_help = ADMIN_TABLE)]
    Unlock(Unlock),
    /// Lets masters that were restarted grant locks at once, if nobody can hold one
    ///
    /// A master that was restarted may have forgotten a lock that is still held. Nobody can hold a lock if every master has none,
    /// and would have it: each has run for longer than --max-ttl, was not emptied meanwhile, and is used for the first time, or
    /// grants locks already. Else --force has to say that no client anywhere holds a lock: somebody who does would share it.
    #[command(after_help = ADMIN_TABLE)]
    Admit(Admit),
    /// Finds out what is wrong with the masters, and changes nothing
    #[command(after_help = DOCTOR_TABLE)]
    Doctor(Doctor),
    /// Measures how long locks take on the masters, and how many can be had in a second
    ///
    /// It measures four things in turn: one thread, which nobody is in the way of; many threads, each with other locks;
    /// many threads of one process that all want one lock; and processes that all want one lock. Each of them takes a lock and
    /// gives it back at once, again and again.
    ///
    /// The names of its locks begin with quorlock-bench/ and a random number, so no lock of anybody else is touched. It gives all
    /// of them back, also when SIGINT or SIGTERM ends it. What stays on each master is what stays of every lock: 150 bytes a name for its
    /// fencing tokens, for ten minutes.
    #[command(after_help = BENCH_TABLE)]
    Bench(Bench),
    /// Sells a stock without a lock, and then under one while masters are killed
    ///
    /// The shop's database can be read and written, but not both in one step, so two sellers can sell the same item. In the first
    /// round they do. In the second round each of them takes a lock before, and the shop sells exactly what there is.
    ///
    /// It starts five masters for that, by the program redis-server, or by the one that QUORLOCK_REDIS_SERVER names. Where it
    /// cannot, it has masters in its own process. Two of them are killed in the second round. Masters that are named by --node,
    /// by QUORLOCK_NODES or by --config are used in place of them, and none of those is killed. Those of /etc/quorlock.toml are
    /// not used.
    #[command(after_help = DEMO_TABLE)]
    Demo(Demo),
    /// Prints what a shell completes options by: put it where that shell looks for it
    Completions {
        #[arg(value_enum)]
        shell: clap_complete::Shell,
    },
    /// Prints the manual page of the program or of one of its commands, or how to run masters (operations)
    Man {
        /// A command of the program, such as run; or operations: how to set up masters, watch them and change them
        #[arg(value_name = "COMMAND")]
        command: Option<String>,
    },
    /// Becomes the command, once its keeper has it go on (internal)
    #[command(hide = true)]
    Exec(Exec),
    /// Ends a command whose keeper does not any more (internal)
    #[command(hide = true)]
    Watchdog(Watchdog),
}

/// A time, as an option has it: in seconds, as with `flock`, or with units.
fn time(text: &str) -> Result<Duration, &'static str> {
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let time = match text.parse() {
        Ok(seconds) if is_number => Duration::try_from_secs_f64(seconds).ok(),
        _ => humantime::parse_duration(text).ok(),
    };
    time.ok_or(
        "a time is a number of seconds, such as 5 or 0.5, or has units, such as 500ms, 90s or 5m",
    )
}

/// The masters, and what all of their clients agree on.
#[derive(Args, Clone, Debug, Deserialize, Serialize)]
#[command(next_help_heading = "The masters")]
pub(crate) struct Set {
    /// A master, redis://[USER@]HOST[:PORT]; once for each of them
    ///
    /// Without it they come from the environment variable QUORLOCK_NODES, with commas in between, or from the
    /// file. A password is never written here: see QUORLOCK_PASSWORD and --ask-password.
    #[arg(long = "node", value_name = "URL")]
    pub(crate) nodes: Vec<String>,

    /// A TOML file with settings; "Settings" in `quorlock man operations` has their names
    ///
    /// Without it /etc/quorlock.toml is read, if it is there. Options and the environment come before it.
    #[arg(long, value_name = "FILE", env = "QUORLOCK_CONFIG")]
    pub(crate) config: Option<PathBuf>,

    /// Asks for the password on the terminal; without it, it is QUORLOCK_PASSWORD's, or the file's
    #[arg(long)]
    #[serde(skip)]
    pub(crate) ask_password: bool,

    /// What the names of keys begin with [default: quorlock:]
    #[arg(long, value_name = "PREFIX")]
    pub(crate) key_prefix: Option<String>,

    /// The name of the set of masters [default: default]
    #[arg(long, value_name = "NAME")]
    pub(crate) set_name: Option<String>,

    /// The longest TTL that any client of these masters uses [default: 10s]
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(crate) max_ttl: Option<Duration>,

    /// How far the masters' clocks may step [default: 100ms]
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(crate) clock_tolerance: Option<Duration>,

    /// How long a master has to answer [default: 200ms]
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(crate) node_timeout: Option<Duration>,

    /// How long a majority may be out of reach before a caller gives up [default: 10s; `run` waits for as long as for the lock]
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(crate) no_quorum_timeout: Option<Duration>,

    /// Masters that were restarted grant locks at once, as all clients of them have it
    #[arg(long)]
    pub(crate) no_quarantine: bool,

    /// A file with the certificates of the CA of rediss:// masters, in PEM
    #[arg(long, value_name = "FILE")]
    pub(crate) tls_ca: Option<PathBuf>,

    /// A file with a certificate for rediss:// masters that want one, in PEM
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub(crate) tls_cert: Option<PathBuf>,

    /// A file with its private key, in PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,
}

#[derive(Args, Debug)]
pub(crate) struct Run {
    /// How long the lock stays taken after this machine has crashed [default: 10s]
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(crate) ttl: Option<Duration>,

    /// Waits for the lock for so long at most, also where masters cannot be reached [default: until it is free]
    #[arg(long, short = 'w', value_name = "TIME", value_parser = time)]
    pub(crate) wait: Option<Duration>,

    /// Gives up at once if the lock is held
    #[arg(long, short = 'n', aliases = ["nonblock", "nb"], conflicts_with = "wait")]
    pub(crate) no_wait: bool,

    /// Says what it waits for also where standard error is no terminal: when that changes, and once a minute
    #[arg(long, short = 'v')]
    pub(crate) verbose: bool,

    #[arg(long, value_enum, default_value_t = Kind::Mutex, value_name = "KIND")]
    pub(crate) kind: Kind,

    /// One more name: the lock is taken under all of them or none; once for each, 16 names in all
    #[arg(long, value_name = "NAME")]
    pub(crate) also: Vec<OsString>,

    /// How many may hold a semaphore at a time: the same number everywhere
    #[arg(long, value_name = "N", required_if_eq("kind", "semaphore"))]
    pub(crate) permits: Option<u32>,

    /// Keeps the lock for so long at least, although COMMAND has ended: for a job that many hosts start
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(crate) min_hold: Option<Duration>,

    /// Gives the lock back without --min-hold if COMMAND fails (an exit code other than 0), so that another host may do it
    #[arg(long, requires = "min_hold")]
    pub(crate) free_failed: bool,

    /// Holds the lock for no longer than that: COMMAND is told to end so early that it is over by then
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(crate) max_hold: Option<Duration>,

    /// What happens to COMMAND when the lock is lost, or about to be
    #[arg(long, value_enum, default_value_t = OnLost::Term, value_name = "WHAT")]
    pub(crate) on_lost: OnLost,

    /// How long COMMAND has from SIGTERM to SIGKILL when the lock is about to be lost [default: a quarter of the TTL]
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(crate) grace: Option<Duration>,

    /// COMMAND inherits QUORLOCK_PASSWORD, and a QUORLOCK_NODES that has passwords, for a `quorlock` of its own; else neither is in
    /// its environment
    #[arg(long)]
    pub(crate) pass_passwords: bool,

    /// The exit code if somebody else has the lock
    #[arg(long, short = 'E', value_name = "CODE", default_value_t = HELD)]
    pub(crate) conflict_exit_code: u8,

    #[command(flatten)]
    pub(crate) flock: Flock,

    /// The name of the lock
    #[arg(value_name = "NAME")]
    pub(crate) name: OsString,

    /// What is run, without a shell
    #[arg(
        value_name = "COMMAND",
        required_unless_present = "line",
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    pub(crate) command: Vec<OsString>,

    #[command(flatten)]
    pub(crate) set: Set,
}

/// The options of `flock` that are written otherwise here.
#[derive(Args, Debug)]
#[command(next_help_heading = "As with flock")]
pub(crate) struct Flock {
    /// Has the shell run LINE, in place of COMMAND: $SHELL, or else /bin/sh
    #[arg(
        long = "command",
        short = 'c',
        value_name = "LINE",
        allow_hyphen_values = true,
        conflicts_with = "command"
    )]
    pub(crate) line: Option<OsString>,

    /// The same as --kind read
    #[arg(long, short = 's', conflicts_with_all = ["kind", "exclusive"])]
    pub(crate) shared: bool,

    /// The same as --kind mutex, which is the default
    #[arg(long, short = 'x', short_alias = 'e', conflicts_with = "kind")]
    pub(crate) exclusive: bool,

    /// Has no effect: what COMMAND leaves in the background never keeps the lock
    #[arg(long, short = 'o')]
    pub(crate) close: bool,

    #[arg(long, short = 'F', hide = true)]
    pub(crate) no_fork: bool,

    #[arg(long, short = 'u', hide = true)]
    pub(crate) unlock: bool,

    #[arg(long, hide = true)]
    pub(crate) timeout: Option<OsString>,
}

impl Flock {
    /// Returns the text to show for an option that means something else here: it names the one to write.
    pub(crate) fn refused(&self) -> Option<&'static str> {
        if self.no_fork {
            Some(
                "-F (--no-fork) is not possible, for quorlock has to go on and renew the lock; leave it out: signals go to \
                 the command, and its exit code is passed on",
            )
        } else if self.unlock {
            Some(
                "-u (--unlock) is not needed, for the lock is given back when the command ends; quorlock unlock --force \
                 NAME takes one from its holder",
            )
        } else if self.timeout.is_some() {
            Some(
                "--timeout may mean two things: write --wait TIME for how long the lock is waited for, or --max-hold TIME \
                 for how long the command may hold it",
            )
        } else {
            None
        }
    }
}

impl Run {
    /// The program that is run, with its arguments.
    pub(crate) fn command(&self) -> Vec<OsString> {
        let Some(line) = &self.flock.line else { return self.command.clone() };
        let shell = std::env::var_os("SHELL").filter(|shell| !shell.is_empty());
        vec![shell.unwrap_or_else(|| "/bin/sh".into()), "-c".into(), line.clone()]
    }

    pub(crate) fn kind(&self) -> Kind {
        if self.flock.shared { Kind::Read } else { self.kind }
    }

    /// The names of the lock.
    pub(crate) fn names(&self) -> impl Iterator<Item = &OsStr> {
        std::iter::once(&self.name).chain(&self.also).map(OsString::as_os_str)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Kind {
    /// One holder at a time
    Mutex,
    /// Any number of readers, unless somebody writes
    Read,
    /// One writer, and no reader
    Write,
    /// One holder at a time, in the order in which they came
    Fair,
    /// So many holders at a time as --permits says
    Semaphore,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OnLost {
    /// It runs on, and a line on standard error says so
    Warn,
    /// SIGTERM, so early that SIGKILL falls before the lock can be somebody else's
    Term,
    /// SIGKILL, before the lock can be somebody else's
    Kill,
}

#[derive(Args, Debug)]
pub(crate) struct Status {
    /// Prints JSON
    #[arg(long)]
    pub(crate) json: bool,

    /// Prints nothing, and answers by the exit code: 0 if the lock is free, 120 if it is held, 121 if too few masters say
    #[arg(long, short = 'q', conflicts_with = "json")]
    pub(crate) quiet: bool,

    /// The name of the lock
    #[arg(value_name = "NAME")]
    pub(crate) name: OsString,

    #[command(flatten)]
    pub(crate) set: Set,
}

#[derive(Args, Debug)]
pub(crate) struct List {
    /// Prints JSON
    #[arg(long)]
    pub(crate) json: bool,

    /// Looks at so many locks at most
    #[arg(long, value_name = "N", default_value_t = 1_000)]
    pub(crate) most: usize,

    /// Scans the masters' keys for so long at most
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "10s")]
    pub(crate) within: Duration,

    /// Locks whose names match it, with * ? [a-z] and \ as in Redis [default: all]
    #[arg(value_name = "PATTERN")]
    pub(crate) pattern: Option<OsString>,

    #[command(flatten)]
    pub(crate) set: Set,
}

#[derive(Args, Debug)]
pub(crate) struct Unlock {
    /// It is meant: the holder, if it lives, is told that its lock is lost
    #[arg(long, required = true)]
    pub(crate) force: bool,

    /// The name of the lock
    #[arg(value_name = "NAME")]
    pub(crate) name: OsString,

    #[command(flatten)]
    pub(crate) set: Set,
}

#[derive(Args, Debug)]
pub(crate) struct Admit {
    /// Also where a lock may be held: it is known that no client anywhere holds one
    #[arg(long)]
    pub(crate) force: bool,

    #[command(flatten)]
    pub(crate) set: Set,
}

#[derive(Args, Debug)]
pub(crate) struct Doctor {
    /// Prints JSON
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) set: Set,
}

#[derive(Args, Debug)]
pub(crate) struct Bench {
    /// How long it measures in all, in seconds, 1 to 3600
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..=3_600))]
    pub(crate) seconds: u16,

    /// How many threads take locks at a time, 1 to 1000
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=1_000))]
    pub(crate) threads: u16,

    /// How many different locks they take where they do not want the same one, 1 to 10000 [default: one for each thread]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=10_000))]
    pub(crate) locks: Option<u16>,

    /// How many clients want one lock, each as a process of its own does, 1 to 100
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=100))]
    pub(crate) clients: u16,

    /// Prints JSON: times in microseconds, and counts
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) set: Set,
}

#[derive(Args, Debug)]
pub(crate) struct Demo {
    /// How many items there are, 10 to 1000000
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u32).range(10..=1_000_000))]
    pub(crate) stock: u32,

    /// How many clients sell them, each as a process of its own does, 1 to 100
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=100))]
    pub(crate) clients: u16,

    /// How many threads each client has, 1 to 100
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=100))]
    pub(crate) threads: u16,

    #[command(flatten)]
    pub(crate) set: Set,
}

#[derive(Args, Debug)]
pub(crate) struct Exec {
    /// The number of the pipe in which its keeper tells it to
    pub(crate) pipe: i32,
    /// The number of the pipe in which it tells its keeper that it begins
    pub(crate) begins: i32,
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) command: Vec<OsString>,
}

#[derive(Args, Debug)]
pub(crate) struct Watchdog {
    pub(crate) group: i32,
    pub(crate) grace_ms: u64,
    #[arg(value_enum)]
    pub(crate) on_lost: OnLost,
    /// The process id of its keeper
    pub(crate) keeper: i32,
    /// The number of the pipe that has what it needs to give the lock back
    pub(crate) gives_back: Option<i32>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_seconds() {
        let ms = |text| time(text).map(|time| time.as_millis());
        let times =
            [("5", 5_000), ("0.5", 500), (".5", 500), ("1.", 1_000), ("0", 0), ("0.001", 1)];
        for (text, expected) in times {
            assert_eq!(ms(text), Ok(expected), "{text}");
        }
        for (text, expected) in
            [("5s", 5_000), ("500ms", 500), ("1m 30s", 90_000), ("2h", 7_200_000)]
        {
            assert_eq!(ms(text), Ok(expected), "{text}");
        }
        for text in ["", ".", "-1", "1e3", "0x5", "nan", "inf", "1,5", "soon", "5 x", "1.2.3"] {
            assert!(ms(text).is_err(), "{text}");
        }
        assert!(ms(&"9".repeat(30)).is_err(), "longer than there are times");
    }

    #[test]
    fn the_options_are_sound() {
        <Options as clap::CommandFactory>::command().debug_assert();
    }
}
