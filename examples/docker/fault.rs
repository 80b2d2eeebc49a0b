//! The faults: their effects, their ends, and their durations.

use std::ops::Range;

use crate::Failure;
use crate::hosts::{Host, Hosts};

/// A fault of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    KillMaster,
    WipeMaster,
    FlushMaster,
    PauseMaster,
    CutMaster,
    LoseMaster,
    Split,
    KillWorker,
    PauseWorkerBriefly,
    PauseWorker,
    CutWorker,
    LoseWorker,
    LeaveMinority,
}

/// The faults that impair masters.
pub(crate) const OF_MASTERS: [Kind; 7] = [
    Kind::KillMaster,
    Kind::WipeMaster,
    Kind::FlushMaster,
    Kind::PauseMaster,
    Kind::CutMaster,
    Kind::LoseMaster,
    Kind::Split,
];

/// The faults that impair a worker, and no master.
pub(crate) const OF_WORKERS: [Kind; 6] = [
    Kind::KillWorker,
    Kind::PauseWorkerBriefly,
    Kind::PauseWorker,
    Kind::CutWorker,
    Kind::LoseWorker,
    Kind::LeaveMinority,
];

impl Kind {
    pub(crate) fn describe(self) -> &'static str {
        match self {
            Self::KillMaster => "master killed, restarted with its data",
            Self::WipeMaster => "master killed, restarted with a wiped volume",
            Self::FlushMaster => "master flushed",
            Self::PauseMaster => "master paused",
            Self::CutMaster => "master cut off from the network",
            Self::LoseMaster => "master lost with its machine, replaced by an empty one",
            Self::Split => "network split, a worker and a minority of the masters apart",
            Self::KillWorker => "worker killed, and started anew",
            Self::PauseWorkerBriefly => "worker paused for less than a TTL",
            Self::PauseWorker => "worker paused for longer than a TTL",
            Self::CutWorker => "worker cut off from all masters",
            Self::LoseWorker => "worker lost with its machine, and started anew",
            Self::LeaveMinority => "worker left with a minority of the masters",
        }
    }

    /// The duration of the fault, in per cent of the longest TTL.
    pub(crate) fn lasts_percent(self) -> Range<u32> {
        match self {
            Self::FlushMaster => 0..1,
            Self::PauseWorkerBriefly => 5..35,
            Self::KillMaster | Self::WipeMaster | Self::LoseMaster => 15..130,
            Self::KillWorker | Self::LoseWorker => 15..130,
            Self::PauseMaster | Self::CutMaster => 30..230,
            Self::PauseWorker => 115..230,
            Self::CutWorker | Self::LeaveMinority | Self::Split => 130..300,
        }
    }

    pub(crate) fn concerns_worker(self) -> bool {
        self == Self::Split || OF_WORKERS.contains(&self)
    }

    pub(crate) fn concerns_masters(self) -> bool {
        self == Self::LeaveMinority || OF_MASTERS.contains(&self)
    }

    /// Returns true if the master may have forgotten locks, and is in quarantine after the fault.
    pub(crate) fn forgets(self) -> bool {
        matches!(self, Self::KillMaster | Self::WipeMaster | Self::FlushMaster | Self::LoseMaster)
    }
}

/// One fault. It concerns a worker, some masters, or both.
#[derive(Debug)]
pub(crate) struct Fault {
    pub(crate) kind: Kind,
    pub(crate) worker: Option<Host>,
    pub(crate) masters: Vec<Host>,
}

impl Fault {
    /// The impaired hosts, in the format that the judge reads: `worker w2`, `master 3`.
    pub(crate) fn targets(&self) -> Vec<String> {
        let worker = self.worker.iter().map(|worker| format!("worker w{}", worker.number()));
        // The masters that a worker is left with continue to serve the others.
        let impaired = self.masters.iter().filter(|_| self.kind != Kind::LeaveMinority);
        worker.chain(impaired.map(|master| format!("master {}", master.number()))).collect()
    }

    pub(crate) fn begin(&self, hosts: &Hosts) -> Result<(), Failure> {
        let splits = self.kind == Kind::Split;
        self.each(|host| match self.kind {
            Kind::KillMaster | Kind::WipeMaster | Kind::KillWorker => hosts.kill(host),
            Kind::FlushMaster => hosts.flush(host),
            Kind::PauseMaster | Kind::PauseWorker | Kind::PauseWorkerBriefly => hosts.pause(host),
            Kind::CutMaster | Kind::CutWorker => hosts.disconnect(host),
            Kind::LoseMaster | Kind::LoseWorker => {
                // In this order: its peers get no notice of the end of its connections.
                hosts.disconnect(host)?;
                hosts.kill(host)
            }
            Kind::LeaveMinority | Kind::Split => hosts.isolate(host, &self.masters, splits),
        })
    }

    pub(crate) fn heal(&self, hosts: &Hosts) -> Result<(), Failure> {
        let splits = self.kind == Kind::Split;
        self.each(|host| match self.kind {
            Kind::FlushMaster => Ok(()),
            Kind::KillMaster | Kind::KillWorker => hosts.start(host),
            Kind::WipeMaster => {
                hosts.wipe(host)?;
                hosts.start(host)
            }
            Kind::PauseMaster | Kind::PauseWorker | Kind::PauseWorkerBriefly => hosts.unpause(host),
            Kind::CutMaster | Kind::CutWorker => hosts.connect(host),
            Kind::LoseMaster => {
                hosts.wipe(host)?;
                hosts.connect(host)?;
                hosts.start(host)
            }
            Kind::LoseWorker => {
                hosts.connect(host)?;
                hosts.start(host)
            }
            Kind::LeaveMinority | Kind::Split => hosts.rejoin(host, &self.masters, splits),
        })
    }

    /// Acts on the worker, if there is one, or else on each of the masters.
    fn each(&self, act: impl Fn(&Host) -> Result<(), Failure>) -> Result<(), Failure> {
        match &self.worker {
            Some(worker) => act(worker),
            None => self.masters.iter().try_for_each(act),
        }
    }
}
