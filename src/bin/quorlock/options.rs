//! The options of the program.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::styling::{Style, Styles};
use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::exit::{ADMIN_TABLE, BENCH_TABLE, DEMO_TABLE, DOCTOR_TABLE, HELD, TABLE};

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
    #[command(after_help = TABLE, override_usage = "quorlock run [OPTIONS] NAME [--] COMMAND [ARGS]...")]
    Run(Run),
    /// Prints the holder of a lock, by each master and over the quorum
    #[command(after_help = ADMIN_TABLE)]
    Status(Status),
    /// Prints the locks that are held, each with its holder
    #[command(after_help = ADMIN_TABLE)]
    List(List),
    /// Takes a lock from its holder
    #[command(after_help = ADMIN_TABLE)]
    Unlock(Unlock),
    /// Lets masters that were restarted grant locks at once: only if nobody can hold one
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
    /// Prints the manual page of the program, or of one of its commands
    Man {
        /// A command of the program, such as run
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

/// The masters, and what all of their clients agree on.
#[derive(Args, Debug)]
#[command(next_help_heading = "The masters")]
pub(crate) struct Set {
    /// A master, redis://[USER@]HOST[:PORT]; once for each of them
    ///
    /// Without it they come from the environment variable QUORLOCK_NODES, with commas in between, or from the
    /// file. A password is never written here: see QUORLOCK_PASSWORD and --ask-password.
    #[arg(long = "node", value_name = "URL")]
    pub(crate) nodes: Vec<String>,

    /// A TOML file with settings, by the names of the library's builder
    ///
    /// Without it /etc/quorlock.toml is read, if it is there. Options and the environment come before it.
    #[arg(long, value_name = "FILE", env = "QUORLOCK_CONFIG")]
    pub(crate) config: Option<PathBuf>,

    /// Asks for the password on the terminal; without it, it is QUORLOCK_PASSWORD's, or the file's
    #[arg(long)]
    pub(crate) ask_password: bool,

    /// What the names of keys begin with [default: quorlock:]
    #[arg(long, value_name = "PREFIX")]
    pub(crate) key_prefix: Option<String>,

    /// The name of the set of masters [default: default]
    #[arg(long, value_name = "NAME")]
    pub(crate) set_name: Option<String>,

    /// The longest TTL that any client of these masters uses [default: 10s]
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    pub(crate) max_ttl: Option<Duration>,

    /// How far the masters' clocks may step [default: 100ms]
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    pub(crate) clock_tolerance: Option<Duration>,

    /// How long a master has to answer [default: 200ms]
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    pub(crate) node_timeout: Option<Duration>,

    /// How long a majority may be out of reach before a caller gives up [default: 10s]
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
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
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    pub(crate) ttl: Option<Duration>,

    /// Waits for the lock for so long at most [default: until it is free]
    #[arg(long, short = 'w', value_name = "TIME", value_parser = humantime::parse_duration)]
    pub(crate) wait: Option<Duration>,

    /// Gives up at once if the lock is held
    #[arg(long, short = 'n', conflicts_with = "wait")]
    pub(crate) no_wait: bool,

    #[arg(long, value_enum, default_value_t = Kind::Mutex, value_name = "KIND")]
    pub(crate) kind: Kind,

    /// How many may hold a semaphore at a time: the same number everywhere
    #[arg(long, value_name = "N", required_if_eq("kind", "semaphore"))]
    pub(crate) permits: Option<u32>,

    /// Keeps the lock for so long at least, although COMMAND has ended: for a job that many hosts start
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    pub(crate) min_hold: Option<Duration>,

    /// Holds the lock for no longer than that: COMMAND is told to end so early that it is over by then
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    pub(crate) max_hold: Option<Duration>,

    /// What happens to COMMAND when the lock is lost, or about to be
    #[arg(long, value_enum, default_value_t = OnLost::Term, value_name = "WHAT")]
    pub(crate) on_lost: OnLost,

    /// How long COMMAND has from SIGTERM to SIGKILL when the lock is about to be lost [default: a quarter of the TTL]
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    pub(crate) grace: Option<Duration>,

    /// The exit code if somebody else has the lock
    #[arg(long, short = 'E', value_name = "CODE", default_value_t = HELD)]
    pub(crate) conflict_exit_code: u8,

    /// The name of the lock
    #[arg(value_name = "NAME")]
    pub(crate) name: OsString,

    /// What is run, without a shell
    #[arg(
        value_name = "COMMAND",
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    pub(crate) command: Vec<OsString>,

    #[command(flatten)]
    pub(crate) set: Set,
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
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration, default_value = "10s")]
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
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) command: Vec<OsString>,
}

#[derive(Args, Debug)]
pub(crate) struct Watchdog {
    pub(crate) group: i32,
    pub(crate) grace_ms: u64,
    #[arg(value_enum)]
    pub(crate) on_lost: OnLost,
}
