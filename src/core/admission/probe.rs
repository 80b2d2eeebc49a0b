//! One probe of a node, and its verdict on whether the node may grant locks.

use std::time::Duration;

use super::super::base::{Mechanism, Time};
use super::clocks::Offset;
use super::mark::{Configuration, Identity, Mark, MarkState};

/// The answer to a probe: a node's mark, and then the server as it was right behind that.
///
/// A mark names its server, and a server is itself from its start as a master to its end: it never becomes the same again. So if
/// the server is the one that the mark names, it was the same server when the mark was read, and when the mark was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Probe {
    /// True if the change that was asked for has been made.
    pub(crate) changed: bool,
    pub(crate) role: Role,
    pub(crate) identity: Identity,
    /// True if the server has an earlier replication id: it was promoted, and took over another server's data.
    pub(crate) promoted: bool,
    /// The node's own clock.
    pub(crate) clock: Offset,
    /// The value of the mark's key; `None` if there is none.
    pub(crate) mark: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Master,
    Replica,
    Cluster,
}

/// The reason why a node may have forgotten locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Forgot {
    /// It has no mark: it is new, lost its data, or was flushed.
    Mark,
    /// It had a mark, in the same run of the server: it was flushed, or the mark was deleted.
    Flush,
    /// It is another run of the server than the one in the mark, or than was seen before. Even if its data is back, the last part
    /// of it may be missing.
    Run,
    /// Its clock was set forward, so that keys have ended too early.
    Clock,
    /// The server was promoted: it has the data that had reached it as a replica, which may be incomplete. A server that was
    /// restarted as the master of replicas may look the same.
    Promotion,
}

/// The pause before a node that does not grant is probed again.
pub(super) const PROBE_AGAIN: Duration = Duration::from_secs(1);

/// A change of a node's mark. The node makes it only if the mark is unchanged. If the server is another one by then, the new mark
/// names the wrong server, and nobody is granted a lock under it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Change {
    /// The present value; `None` if there is none.
    pub(crate) replaces: Option<String>,
    pub(crate) new: String,
}

/// The next step for a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NextProbe {
    /// Probe it now, and make this change with it, if there is one. Hand in the answer.
    Ask(Option<Change>),
    /// Ask again at that time, or when any node has been heard of.
    Wait(Time),
}

/// The meaning of a probe to clients of one configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ProbeJudgement {
    /// No master: it writes nothing, or forgets it again.
    Replica,
    /// Mark and locks would be on different servers.
    Cluster,
    /// The mark belongs to clients with another configuration; `None` if it cannot be read.
    Foreign(Option<Configuration>),
    /// Locks that were there may be gone.
    Forgetful(Forgot),
    /// Ours, under the replication id that the server had before. Nothing was forgotten: the id also changes when a first replica
    /// comes, or some time after the last one has left.
    Renamed(MarkState),
    /// Ours, and the clock is not where the mark says. No key of the node ends too early because of that, but from now on the
    /// mark would hide a step.
    Moved(MarkState),
    /// Ours.
    Ours(MarkState),
}

impl ProbeJudgement {
    pub(super) fn of(probe: &Probe, ours: &Configuration) -> Self {
        match probe.role {
            Role::Replica => return Self::Replica,
            Role::Cluster => return Self::Cluster,
            Role::Master => {}
        }
        let Some(text) = &probe.mark else { return Self::Forgetful(Forgot::Mark) };
        let Some(mark) = Mark::parse(text) else { return Self::Foreign(None) };
        // Before the run id: after a restart, other clients' mark still says that they are there. They may hold locks for longer
        // than we would wait, and go on renewing them.
        if mark.configuration != *ours {
            return Self::Foreign(Some(mark.configuration));
        }
        if mark.identity.run_id() != probe.identity.run_id() {
            let forgot = if probe.promoted { Forgot::Promotion } else { Forgot::Run };
            return Self::Forgetful(forgot);
        }
        let is_same = mark.identity == probe.identity;
        if is_same || !Mechanism::ReplicationIdsAreCompared.is_on() {
            return Self::Ours(mark.state);
        }
        if probe.promoted {
            return Self::Forgetful(Forgot::Promotion);
        }
        Self::Renamed(mark.state)
    }

    /// Returns true if the node's mark could be read, and is not somebody else's. No mark at all counts as read.
    pub(super) const fn is_readable(&self) -> bool {
        matches!(self, Self::Forgetful(_) | Self::Renamed(_) | Self::Moved(_) | Self::Ours(_))
    }
}

#[cfg(test)]
mod tests {
    use super::super::mark::Noted;
    use super::*;

    fn configuration() -> Configuration {
        Configuration {
            set_name: "default".to_owned(),
            nodes: 3,
            max_ttl: Duration::from_secs(30),
            clock_tolerance: Duration::from_millis(100),
            quarantine: true,
            index: None,
        }
    }

    fn identity(run: &str, repl: &str) -> Identity {
        Identity::new(run, repl).expect("ids")
    }

    fn mark(
        configuration: Configuration,
        run: &str,
        repl: &str,
        state: MarkState,
    ) -> Option<String> {
        let identity = identity(run, repl);
        let noted = Noted { ahead_ms: 0, at_ms: 0 };
        Some(Mark { configuration, identity, noted, state }.to_string())
    }

    /// A probe of the run `r2` with the replication id `p2`.
    fn probe(role: Role, promoted: bool, mark: Option<String>) -> Probe {
        let identity = identity("r2", "p2");
        let clock = Offset::new(0, Time::default(), Time::default());
        Probe { changed: false, role, identity, promoted, clock, mark }
    }

    #[test]
    fn each_rule() {
        let ours = |run, repl, state| mark(configuration(), run, repl, state);
        let larger = Configuration { max_ttl: Duration::from_secs(60), ..configuration() };
        let theirs = |run| mark(larger.clone(), run, "p2", MarkState::Admitted);
        let foreign = ProbeJudgement::Foreign(Some(larger.clone()));
        let quarantined = MarkState::Quarantined { until_ms: Some(5), id: 1 };
        let (admitted, master) = (MarkState::Admitted, Role::Master);
        let forgot = ProbeJudgement::Forgetful;
        for (name, role, promoted, mark, judgement) in [
            ("ours", master, false, ours("r2", "p2", admitted), ProbeJudgement::Ours(admitted)),
            ("ours", master, true, ours("r2", "p2", admitted), ProbeJudgement::Ours(admitted)),
            (
                "joined",
                master,
                false,
                ours("r2", "p2", quarantined),
                ProbeJudgement::Ours(quarantined),
            ),
            ("no mark", master, false, None, forgot(Forgot::Mark)),
            ("restarted", master, false, ours("r1", "p2", admitted), forgot(Forgot::Run)),
            ("taken over", master, true, ours("r1", "p1", quarantined), forgot(Forgot::Promotion)),
            ("promoted", master, true, ours("r2", "p1", admitted), forgot(Forgot::Promotion)),
            ("promoted", master, true, ours("r2", "p1", quarantined), forgot(Forgot::Promotion)),
            (
                "replica came",
                master,
                false,
                ours("r2", "p1", admitted),
                ProbeJudgement::Renamed(admitted),
            ),
            (
                "replica came",
                master,
                false,
                ours("r2", "p1", quarantined),
                ProbeJudgement::Renamed(quarantined),
            ),
            ("other clients'", master, false, theirs("r2"), foreign.clone()),
            ("other clients' of an earlier run", master, false, theirs("r1"), foreign),
            (
                "no mark at all",
                master,
                false,
                Some("list".to_owned()),
                ProbeJudgement::Foreign(None),
            ),
            ("empty", master, false, Some(String::new()), ProbeJudgement::Foreign(None)),
            ("replica", Role::Replica, false, ours("r2", "p2", admitted), ProbeJudgement::Replica),
            ("cluster", Role::Cluster, false, ours("r2", "p2", admitted), ProbeJudgement::Cluster),
        ] {
            let judged = ProbeJudgement::of(&probe(role, promoted, mark), &configuration());
            assert_eq!(judged, judgement, "{name}");
        }
    }

    #[test]
    fn every_part_of_the_configuration_counts() {
        let others = [
            Configuration { set_name: "other".to_owned(), ..configuration() },
            Configuration { nodes: 5, ..configuration() },
            Configuration { max_ttl: Duration::from_millis(29_999), ..configuration() },
            Configuration { clock_tolerance: Duration::from_millis(99), ..configuration() },
            Configuration { quarantine: false, ..configuration() },
            Configuration { index: Some(0), ..configuration() },
        ];
        for other in others {
            let mark = mark(other.clone(), "r2", "p2", MarkState::Admitted);
            let judged = ProbeJudgement::of(&probe(Role::Master, false, mark), &configuration());
            assert_eq!(judged, ProbeJudgement::Foreign(Some(other)));
        }
    }
}
