//! The masters that an example takes its locks on: those in `QUORLOCK_NODES`, or some of its own.

#![allow(dead_code, reason = "compiled into every example, and each uses only a part of it")]

use std::env;
use std::process::Command;

#[cfg(feature = "embedded")]
use quorlock::embedded::Nodes;
use quorlock::{Builder, Error, Quorlock};
use server::{Server, Servers};

#[path = "../../tests/support/server.rs"]
mod server;

/// The reason for which an example ends with exit status 1.
pub(crate) type Failure = Box<dyn std::error::Error + Send + Sync>;

pub(crate) enum Masters {
    /// Servers that this program has started, and may kill. They end when this is dropped.
    Ours(Servers),
    /// The same without a server: nodes in this process, and the number of them that were killed.
    #[cfg(feature = "embedded")]
    Embedded(Nodes, usize),
    /// The masters in `QUORLOCK_NODES`, which are left alone.
    Yours,
}

impl Masters {
    /// Returns the masters in `QUORLOCK_NODES` if it is set. Otherwise starts `n`: embedded ones if
    /// there is no server to start, and the feature is on.
    pub(crate) fn find(n: usize) -> Result<Self, Failure> {
        if env::var_os("QUORLOCK_NODES").is_some_and(|nodes| !nodes.is_empty()) {
            return Ok(Self::Yours);
        }
        let can_start = check_can_start();
        #[cfg(feature = "embedded")]
        if can_start.is_err() && env::var_os(server::BINARY).is_none() {
            return Self::Embedded(Nodes::start(n)?, 0).admitted();
        }
        can_start?;
        Self::Ours(Servers::start(n)).admitted()
    }

    /// Admits our masters without a quarantine. New masters might be old ones that have forgotten their
    /// locks, but nothing can be held on these.
    fn admitted(self) -> Result<Self, Failure> {
        self.builder()?.build()?.admit()?;
        Ok(self)
    }

    /// The builder of every client of these masters. Each client that it builds behaves like a process
    /// of its own, on a machine of its own.
    pub(crate) fn builder(&self) -> Result<Builder, Error> {
        match self {
            Self::Ours(servers) => Ok(Quorlock::builder().nodes(servers.urls())),
            #[cfg(feature = "embedded")]
            Self::Embedded(nodes, _) => Ok(Quorlock::builder().nodes(nodes.urls())),
            Self::Yours => Builder::from_env(),
        }
    }

    /// Passes the masters on to a process of this program that is about to be started.
    pub(crate) fn pass_on_to(&self, command: &mut Command) {
        let urls = match self {
            Self::Ours(servers) => servers.urls(),
            #[cfg(feature = "embedded")]
            Self::Embedded(nodes, _) => nodes.urls(),
            Self::Yours => return, // It finds the variable that we have found.
        };
        command.env("QUORLOCK_NODES", urls.join(","));
    }

    pub(crate) fn describe(&self) -> String {
        match self {
            Self::Ours(servers) => format!(
                "{} masters, started here and admitted at once, for nothing can be held there yet",
                servers.len()
            ),
            #[cfg(feature = "embedded")]
            Self::Embedded(nodes, _) => format!(
                "{} masters, embedded in this process and admitted at once: there is no redis-server \
                 to start",
                nodes.len()
            ),
            Self::Yours => "the masters in QUORLOCK_NODES; none of them will be killed. If they are \
                            new or were restarted, the first lock waits until max_ttl (10 s) is over"
                .to_owned(),
        }
    }

    pub(crate) fn are_ours(&self) -> bool {
        !matches!(self, Self::Yours)
    }

    /// Ends one of our masters as a power cut would, and returns its URL.
    pub(crate) fn kill_one(&mut self) -> Option<String> {
        match self {
            Self::Ours(servers) => {
                let victim = servers.iter_mut().find(|server| server.is_up())?;
                victim.kill();
                Some(victim.url())
            }
            #[cfg(feature = "embedded")]
            Self::Embedded(nodes, killed) => {
                let victim = nodes.get(*killed)?;
                victim.kill();
                *killed += 1;
                Some(victim.url())
            }
            Self::Yours => None,
        }
    }

    /// Ends a majority of our masters, and returns their number.
    pub(crate) fn kill_majority(&mut self) -> usize {
        let masters = match self {
            Self::Ours(servers) => servers.len(),
            #[cfg(feature = "embedded")]
            Self::Embedded(nodes, _) => nodes.len(),
            Self::Yours => return 0,
        };
        let majority = masters / 2 + 1;
        (0..majority).filter_map(|_| self.kill_one()).count()
    }

    /// Starts those of our masters again that were killed, without their locks.
    pub(crate) fn restart_empty(&mut self) {
        match self {
            Self::Ours(servers) => {
                servers.iter_mut().filter(|server| !server.is_up()).for_each(Server::restart_empty);
            }
            #[cfg(feature = "embedded")]
            Self::Embedded(nodes, killed) => {
                nodes[..*killed].iter().for_each(quorlock::embedded::Node::restart_empty);
                *killed = 0;
            }
            Self::Yours => {}
        }
    }
}

/// Checks for missing parts first, since the test code that starts the servers panics without them.
fn check_can_start() -> Result<(), Failure> {
    let program = server::binary();
    let version = Command::new(&program).arg("--version").output();
    let problem = match version {
        // "Redis server v=7.0.15 ..", or "Valkey server v=8.0.1 .."
        Ok(output) if String::from_utf8_lossy(&output.stdout).contains(" v=") => None,
        Ok(_) => Some("is not a Redis server".to_owned()),
        Err(error) => Some(format!("cannot be run ({error})")),
    };
    if let Some(problem) = problem {
        return Err(format!(
            "`{program}` {problem}; install redis-server, name one in QUORLOCK_REDIS_SERVER, name \
             running masters in QUORLOCK_NODES, or run this with `--features embedded`"
        )
        .into());
    }
    let temporary = env::temp_dir();
    if !temporary.is_dir() {
        return Err(format!("there is no {}, for temporary files", temporary.display()).into());
    }
    Ok(())
}
