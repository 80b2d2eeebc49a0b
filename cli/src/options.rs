//! The options of the program.

use std::ffi::{OsStr, OsString};
use std::time::Duration;

use clap::builder::styling::{Style, Styles};
use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::exit::{
    ADMIN_TABLE, BENCH_TABLE, DEMO_TABLE, DOCTOR_TABLE, ELECT_TABLE, HELD, LEADER_TABLE,
    STATUS_TABLE, TABLE, TOP_TABLE,
};

pub(crate) use masters::Set;
use values::{reason, time};

mod masters;
mod values;

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
    /// Runs a command on one host at a time: on the one that is elected leader
    ///
    /// Each host stands for election. COMMAND starts when its host is elected, and is told to end before another host can be. After
    /// its end the host stands again, once another host has led, or after --ttl at the latest. SIGTERM, SIGINT and SIGQUIT end the
    /// program; so does SIGHUP, if it ends COMMAND. COMMAND finds the number of its term in QUORLOCK_TERM. The number is larger
    /// than all before, for storages that compare it.
    #[command(after_help = ELECT_TABLE, override_usage = "quorlock elect [OPTIONS] NAME [--] COMMAND [ARGS]...")]
    Elect(Elect),
    /// Prints the leader of an election
    #[command(after_help = LEADER_TABLE)]
    Leader(Leader),
    /// Prints the holder of a lock, as each master and the quorum see it
    #[command(after_help = STATUS_TABLE)]
    Status(Status),
    /// Prints the locks that are held, each with its holder
    #[command(after_help = ADMIN_TABLE)]
    List(List),
    /// Shows the masters and the locks that are held, again and again
    ///
    /// On a terminal it shows one page that changes: q ends it, and the space bar asks at once. Elsewhere it prints one page after the
    /// other. Waiting callers are known of fair locks only. Like quorlock list it needs the permission for SCAN, and each page scans
    /// the keys of all masters: if they have many, choose a longer pause.
    #[command(after_help = TOP_TABLE)]
    Top(Top),
    /// Takes a lock from its holder, or asks the holder to give it up
    #[command(after_help = ADMIN_TABLE)]
    Unlock(Unlock),
    /// Lets masters that were restarted grant locks at once, if nobody can hold one
    ///
    /// A master that was restarted may have forgotten a lock that is still held. No lock can be held if no master has one, and
    /// each either grants locks already, or is used for the first time and has run for --max-ttl, 1 % of it and a second (11.1 s
    /// by default) without being emptied. Otherwise use --force, but only if no client anywhere holds a lock: a second client
    /// could get the same one.
    #[command(after_help = ADMIN_TABLE)]
    Admit(Admit),
    /// Finds problems with the masters, and changes nothing
    #[command(after_help = DOCTOR_TABLE)]
    Doctor(Doctor),
    /// Measures the speed of locks on the masters: times, and locks per second
    ///
    /// It takes four measurements in turn: one thread without competitors; many threads with different locks; many
    /// threads of one process that all want one lock; and processes that all want one lock. Each takes a lock and gives it back
    /// at once, again and again.
    ///
    /// The names of its locks begin with quorlock-bench/ and a random number, so it touches no other locks. It gives all of them
    /// back, even if SIGINT or SIGTERM ends it. As with every lock, each master keeps 150 bytes a name for the fencing tokens, for
    /// ten minutes.
    #[command(after_help = BENCH_TABLE)]
    Bench(Bench),
    /// Sells a stock without a lock, and then under one while masters are killed
    ///
    /// The shop's database can be read and written, but not both in one step, so two sellers can sell the same item. In the first
    /// round they do. In the second round each seller takes a lock first, and the shop sells exactly its stock.
    ///
    /// It starts five masters with redis-server, or with the program that QUORLOCK_REDIS_SERVER names. If it cannot, it embeds
    /// them in its own process. Two of them are killed in the second round. With --node, QUORLOCK_NODES or --config it uses those
    /// masters instead, and kills none of them. It ignores /etc/quorlock.toml.
    #[command(after_help = DEMO_TABLE)]
    Demo(Demo),
    /// Explains an exit code, an error or an event, with the remedy
    Explain(Explain),
    /// Prints a completion script: save it where your shell looks for completions
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
    /// Waits for its keeper, then becomes the command (internal)
    #[command(hide = true)]
    Exec(Exec),
    /// Ends a command if its keeper no longer can (internal)
    #[command(hide = true)]
    Watchdog(Watchdog),
}

impl Command {
    /// Returns true if it listens to signals by itself, or none is for it.
    pub(crate) const fn listens(&self) -> bool {
        matches!(
            self,
            Self::Run(_)
                | Self::Elect(_)
                | Self::Bench(_)
                | Self::Top(_)
                | Self::Demo(_)
                | Self::Exec(_)
                | Self::Watchdog(_)
        )
    }
}

#[derive(Args, Debug)]
pub(crate) struct Run {
    /// The time for which the lock stays held after this machine crashes [default: 10s]
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(crate) ttl: Option<Duration>,

    /// Waits at most this long for the lock, even if masters cannot be reached [default: until it is free]
    #[arg(long, short = 'w', value_name = "TIME", value_parser = time)]
    pub(crate) wait: Option<Duration>,

    /// Gives up at once if the lock is held
    #[arg(long, short = 'n', aliases = ["nonblock", "nb"], conflicts_with = "wait")]
    pub(crate) no_wait: bool,

    #[arg(long, value_enum, default_value_t = Kind::Mutex, value_name = "KIND")]
    pub(crate) kind: Kind,

    /// One more name: all names are locked, or none; repeat it, for up to 16 names in all
    #[arg(long, value_name = "NAME")]
    pub(crate) also: Vec<OsString>,

    /// The permits of the semaphore, the same number everywhere
    #[arg(long, value_name = "N", required_if_eq("kind", "semaphore"))]
    pub(crate) permits: Option<u32>,

    /// Keeps the lock at least this long, even if COMMAND ends: for a job that many hosts start
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(crate) min_hold: Option<Duration>,

    /// Ignores --min-hold if COMMAND fails (an exit code other than 0), so another host can run it
    #[arg(long)]
    pub(crate) free_failed: bool,

    /// Holds the lock at most this long: COMMAND is told to end early enough to be over by then
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(crate) max_hold: Option<Duration>,

    /// The action on COMMAND when the lock is lost, or about to be
    #[arg(long, value_enum, default_value_t = OnLost::Term, value_name = "WHAT")]
    pub(crate) on_lost: OnLost,

    #[command(flatten)]
    pub(crate) keeping: Keeping,

    /// The exit code if somebody else has the lock
    #[arg(long, short = 'E', value_name = "CODE", default_value_t = HELD)]
    pub(crate) conflict_exit_code: u8,

    #[command(flatten)]
    pub(crate) flock: Flock,

    /// The name of the lock
    #[arg(value_name = "NAME")]
    pub(crate) name: OsString,

    /// The command, run without a shell
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

/// The options of all commands that run COMMAND under a lock.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct Keeping {
    /// The time that COMMAND has from SIGTERM to SIGKILL when the lock is about to be lost [default: a quarter of the lock's
    /// validity]
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(crate) grace: Option<Duration>,

    /// The action on COMMAND when somebody asks for the lock by `quorlock unlock --ask` [default: tell; of elect: term]
    #[arg(long, value_enum, value_name = "WHAT")]
    pub(crate) on_asked: Option<OnAsked>,

    /// Reports the reason for the wait even without a terminal: when it changes, and once a minute
    #[arg(long, short = 'v')]
    pub(crate) verbose: bool,

    /// Lets COMMAND inherit QUORLOCK_PASSWORD and QUORLOCK_PASSWORD_COMMAND, and QUORLOCK_NODES if it has passwords, for its own
    /// `quorlock` calls [default: they are removed]
    #[arg(long)]
    pub(crate) pass_passwords: bool,
}

/// The options of `flock` that `quorlock run` spells differently.
#[derive(Args, Debug)]
#[command(next_help_heading = "As with flock")]
pub(crate) struct Flock {
    /// Runs LINE in the shell, $SHELL or else /bin/sh, instead of COMMAND
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

    /// Has no effect: background processes of COMMAND never keep the lock
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
    /// Returns the message for an option of `flock` that `quorlock run` does not take. It names the replacement.
    pub(crate) fn refused(&self) -> Option<&'static str> {
        if self.no_fork {
            Some(
                "-F (--no-fork) is not possible: quorlock must keep running to renew the lock; leave it out: signals go to \
                 the command, and its exit code is passed on",
            )
        } else if self.unlock {
            Some(
                "-u (--unlock) is not needed: the lock is given back when the command ends; quorlock unlock --force \
                 NAME takes a lock from its holder",
            )
        } else if self.timeout.is_some() {
            Some(
                "--timeout is ambiguous: write --wait TIME to limit the wait for the lock, or --max-hold TIME to limit \
                 the time for which the command holds it",
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
    /// One holder at a time, in the order of the calls
    Fair,
    /// As many holders at a time as --permits says
    Semaphore,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OnLost {
    /// Lets it run, with a warning on standard error
    Warn,
    /// SIGTERM, early enough for SIGKILL before anybody else can have the lock
    Term,
    /// SIGKILL, before anybody else can have the lock
    Kill,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OnAsked {
    /// Does not listen for requests
    Ignore,
    /// Lets it run, with a message on standard error
    Tell,
    /// SIGTERM, and no SIGKILL: the lock is kept until COMMAND has ended
    Term,
}

#[derive(Args, Debug)]
pub(crate) struct Elect {
    /// A text that others can read while this host leads, such as its address: at most 128 bytes
    #[arg(long, value_name = "TEXT")]
    pub(crate) value: Option<OsString>,

    /// The time for which no host leads after the leader's machine crashes [default: 2s]
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(crate) ttl: Option<Duration>,

    #[command(flatten)]
    pub(crate) keeping: Keeping,

    /// The name of the election
    #[arg(value_name = "NAME")]
    pub(crate) name: OsString,

    /// The command, run without a shell
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

#[derive(Args, Debug)]
pub(crate) struct Leader {
    /// Prints JSON
    #[arg(long)]
    pub(crate) json: bool,

    /// The name of the election
    #[arg(value_name = "NAME")]
    pub(crate) name: OsString,

    #[command(flatten)]
    pub(crate) set: Set,
}

#[derive(Args, Debug)]
pub(crate) struct Status {
    /// Prints JSON
    #[arg(long)]
    pub(crate) json: bool,

    /// Prints nothing; the exit code is 0 if the lock is free, 120 if it is held, 121 if too few masters know
    #[arg(long, short = 'q', conflicts_with = "json")]
    pub(crate) quiet: bool,

    /// The name of the lock
    #[arg(value_name = "NAME")]
    pub(crate) name: OsString,

    #[command(flatten)]
    pub(crate) set: Set,
}

/// The locks that are looked for.
#[derive(Args, Clone, Debug)]
pub(crate) struct Scan {
    /// Looks at no more than N locks
    #[arg(long, value_name = "N", default_value_t = 1_000)]
    pub(crate) most: usize,

    /// Scans the masters' keys for at most TIME
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "10s")]
    pub(crate) within: Duration,

    /// Lists locks with matching names; * ? [a-z] and \ as in Redis [default: all]
    #[arg(value_name = "PATTERN")]
    pub(crate) pattern: Option<OsString>,
}

#[derive(Args, Debug)]
pub(crate) struct List {
    /// Prints JSON
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) scan: Scan,

    #[command(flatten)]
    pub(crate) set: Set,
}

#[derive(Args, Debug)]
pub(crate) struct Top {
    /// The pause between two questions to the masters, at least 50ms
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "1s")]
    pub(crate) every: Duration,

    /// Ends after N pages [default: goes on until it is ended]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) times: Option<u64>,

    #[command(flatten)]
    pub(crate) scan: Scan,

    #[command(flatten)]
    pub(crate) set: Set,
}

#[derive(Args, Debug)]
pub(crate) struct Unlock {
    /// Takes the lock: a live holder is told that it is lost
    #[arg(long, required_unless_present = "ask")]
    pub(crate) force: bool,

    /// Asks the holder to give the lock up when it can, or not at all: `run` reports the request, or ends COMMAND (--on-asked)
    #[arg(long, conflicts_with = "force")]
    pub(crate) ask: bool,

    /// The reason that the holder is told: at most 256 bytes
    #[arg(long, value_name = "TEXT", requires = "ask", conflicts_with = "force", value_parser = reason)]
    pub(crate) reason: Option<String>,

    /// The name of the lock
    #[arg(value_name = "NAME")]
    pub(crate) name: OsString,

    #[command(flatten)]
    pub(crate) set: Set,
}

#[derive(Args, Debug)]
pub(crate) struct Admit {
    /// Admits them even if a lock may be held: you know that no client holds one
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
    /// The time of all measurements, in seconds, 1 to 3600
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..=3_600))]
    pub(crate) seconds: u16,

    /// The number of threads that take locks at a time, 1 to 1000
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=1_000))]
    pub(crate) threads: u16,

    /// The number of locks when threads take different ones, 1 to 10000 [default: one for each thread]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=10_000))]
    pub(crate) locks: Option<u16>,

    /// The number of clients that want one lock, each like a separate process, 1 to 100
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
    /// The number of items, 10 to 1000000
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u32).range(10..=1_000_000))]
    pub(crate) stock: u32,

    /// The number of clients that sell them, each like a separate process, 1 to 100
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=100))]
    pub(crate) clients: u16,

    /// The number of threads of each client, 1 to 100
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=100))]
    pub(crate) threads: u16,

    #[command(flatten)]
    pub(crate) set: Set,
}

#[derive(Args, Debug)]
pub(crate) struct Explain {
    /// An exit code such as 121, an error such as NoQuorum, or words of an event [default: lists all of them]
    #[arg(value_name = "WHAT")]
    pub(crate) what: Vec<String>,
}

#[derive(Args, Debug)]
pub(crate) struct Exec {
    /// The number of the pipe by which its keeper tells it to go on
    pub(crate) pipe: i32,
    /// The number of the pipe by which it tells its keeper that it begins
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
    /// The number of the pipe with the data by which it gives the lock back
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
