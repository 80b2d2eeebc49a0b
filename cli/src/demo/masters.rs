//! The masters of the demonstration: the user's, or some of its own.

use quorlock::Builder;
use quorlock::embedded::Nodes;

use super::folder::Folder;
use super::server::Server;
use crate::exit::Failure;
use crate::options::Set;

/// Number of its own masters: two of them may die.
const COUNT: usize = 5;

#[derive(Debug)]
pub(super) struct Masters {
    builder: Builder,
    which: Which,
}

#[derive(Debug)]
enum Which {
    /// Processes, which end when this is dropped.
    Started(Vec<Server>),
    /// Nodes in this process, the number of them that were killed, and the reason for which they are not processes.
    Embedded { nodes: Nodes, killed: usize, reason: String },
    /// The user's masters, which are left alone.
    Named,
}

impl Masters {
    /// Returns the masters that the user names. Otherwise it starts processes, or embedded masters if no process can be started.
    pub(super) fn find(set: &Set, folder: &Folder) -> Result<Self, Failure> {
        if set.is_named() {
            return Ok(Self { builder: set.builder()?, which: Which::Named });
        }
        let servers: Result<Vec<_>, _> = (0..COUNT).map(|_| Server::start(folder)).collect();
        let which = match servers {
            Ok(servers) => Which::Started(servers),
            Err(reason) => Which::Embedded { nodes: Nodes::start(COUNT)?, killed: 0, reason },
        };
        let urls = match &which {
            Which::Started(servers) => servers.iter().map(Server::url).collect(),
            Which::Embedded { nodes, .. } => nodes.urls(),
            Which::Named => Vec::new(),
        };
        let builder = set.tuned_for(Builder::default().nodes(urls))?;
        // Admitted without a quarantine: new masters might be old ones that have forgotten their locks, but nothing can be held on
        // these.
        builder.clone().build()?.admit()?;
        Ok(Self { builder, which })
    }

    /// The builder of every client of these masters.
    pub(super) fn builder(&self) -> Builder {
        self.builder.clone()
    }

    pub(super) fn describe(&self) -> String {
        match &self.which {
            Which::Started(_) => format!(
                "{COUNT} masters, started here and admitted at once: nothing can be held there yet"
            ),
            Which::Embedded { reason, .. } => format!(
                "{COUNT} masters, embedded in this process and admitted at once, since there is no Redis server to start: \
                 {reason}"
            ),
            Which::Named => {
                "the masters that you named; none of them will be killed. If they are new or were \
                             restarted, the first lock waits for --max-ttl (10 s by default)"
                    .to_owned()
            }
        }
    }

    /// Ends one of its own masters as a power cut would, and returns its description.
    pub(super) fn kill_one(&mut self) -> Option<String> {
        match &mut self.which {
            Which::Started(servers) => {
                let victim = servers.iter_mut().find_map(|it| it.is_up().then_some(it))?;
                victim.kill();
                Some(victim.url())
            }
            Which::Embedded { nodes, killed, .. } => {
                let victim = nodes.get(*killed)?;
                victim.kill();
                *killed += 1;
                Some(victim.url())
            }
            Which::Named => None,
        }
    }
}
