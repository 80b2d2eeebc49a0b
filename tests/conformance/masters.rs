//! The masters of a world: real servers, or embedded nodes.

#[cfg(feature = "embedded")]
use std::time::Duration;

#[cfg(feature = "embedded")]
use quorlock::embedded::Nodes;

use crate::support::Servers;
#[cfg(feature = "embedded")]
use crate::support::{stays, wait_until};

#[cfg(feature = "embedded")]
const LIMIT: Duration = Duration::from_secs(5);

pub(crate) enum Masters {
    Servers(Servers),
    /// The nodes, and for each of them true if it can answer.
    #[cfg(feature = "embedded")]
    Embedded(Nodes, Vec<bool>),
}

impl Masters {
    pub(crate) fn servers(n: usize) -> Self {
        Self::Servers(Servers::start(n))
    }

    #[cfg(feature = "embedded")]
    pub(crate) fn embedded(n: usize) -> Self {
        Self::Embedded(Nodes::start(n).expect("ports are free"), vec![true; n])
    }

    pub(crate) fn len(&self) -> usize {
        self.urls().len()
    }

    pub(crate) fn urls(&self) -> Vec<String> {
        match self {
            Self::Servers(servers) => servers.urls(),
            #[cfg(feature = "embedded")]
            Self::Embedded(nodes, _) => nodes.urls(),
        }
    }

    /// Makes a user of each server; embedded nodes have none.
    pub(crate) fn set_user(&self, words: &[String]) {
        match self {
            Self::Servers(servers) => servers.iter().for_each(|server| {
                server.command(&words.iter().map(String::as_str).collect::<Vec<_>>());
            }),
            #[cfg(feature = "embedded")]
            Self::Embedded(..) => {}
        }
    }

    /// The URLs with the login of that user.
    pub(crate) fn urls_of(&self, user: &str) -> Vec<String> {
        let login = match self {
            Self::Servers(_) => format!("://{user}:secret@"),
            #[cfg(feature = "embedded")]
            Self::Embedded(..) => "://".to_owned(),
        };
        self.urls().iter().map(|url| url.replace("://", &login)).collect()
    }

    pub(crate) fn kill(&mut self, i: usize) {
        match self {
            Self::Servers(servers) => servers[i].kill(),
            #[cfg(feature = "embedded")]
            Self::Embedded(nodes, up) => {
                nodes[i].kill();
                up[i] = false;
            }
        }
    }

    pub(crate) fn hang(&mut self, i: usize) {
        match self {
            Self::Servers(servers) => servers[i].pause(),
            #[cfg(feature = "embedded")]
            Self::Embedded(nodes, up) => {
                nodes[i].hang();
                up[i] = false;
            }
        }
    }

    pub(crate) fn resume(&mut self, i: usize) {
        match self {
            Self::Servers(servers) => servers[i].resume(),
            #[cfg(feature = "embedded")]
            Self::Embedded(nodes, up) => {
                nodes[i].resume();
                up[i] = true;
            }
        }
    }

    pub(crate) fn command(&self, i: usize, command: &[&str]) -> redis::Value {
        match self {
            Self::Servers(servers) => servers[i].command(command),
            #[cfg(feature = "embedded")]
            Self::Embedded(nodes, _) => {
                let client = redis::Client::open(nodes[i].url()).expect("a URL");
                let connection = client.get_connection_with_timeout(LIMIT);
                let mut connection = connection.expect("it is up");
                connection.set_read_timeout(Some(LIMIT)).expect("more than zero");
                let (name, arguments) = command.split_first().expect("a command");
                redis::cmd(name).arg(arguments).query(&mut connection).expect("an answer")
            }
        }
    }

    /// Waits until no node that can answer has a key of a lock.
    pub(crate) fn wait_no_keys(&self) {
        match self {
            Self::Servers(servers) => servers.wait_no_keys(),
            #[cfg(feature = "embedded")]
            Self::Embedded(nodes, up) => wait_until("the keys are gone", LIMIT, || {
                let stays = |key: &Vec<u8>| stays(&String::from_utf8_lossy(key));
                nodes.iter().zip(up).all(|(node, up)| !up || node.keys().iter().all(stays))
            }),
        }
    }
}
