//! The findings about a set of masters, and their display.

use std::cmp::Reverse;
use std::fmt;

/// The findings about a set of masters, from [`Builder::diagnose`](crate::Builder::diagnose).
///
/// `Display` has a table with a column for each node, and a line for each finding that is not [fine](Severity::Fine).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Diagnosis {
    /// The findings about each node, in the order of the configuration.
    pub nodes: Vec<NodeDiagnosis>,
    /// The findings about the nodes together.
    pub set: Vec<Finding>,
}

/// The findings about one node.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct NodeDiagnosis {
    /// The node's URL, without user and password.
    pub node: String,
    /// One finding for each check that could be made. For a node that cannot be reached, [`Check::Reachable`] alone.
    pub findings: Vec<Finding>,
}

/// The finding of one check.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Finding {
    /// The check.
    pub check: Check,
    /// The severity.
    pub severity: Severity,
    /// The observed value in a few words, such as "master" or "Redis 7.0.15".
    pub value: String,
    /// The meaning of the value and the remedy; empty if the finding is [fine](Severity::Fine).
    pub what: String,
}

/// A check of a node or of the set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Check {
    /// The node can be reached, lets us log in, and is a server that can carry locks.
    Reachable,
    /// The server and its version; and what is known of a managed offer that shows itself.
    Version,
    /// The node is a master, not a replica.
    Role,
    /// One server answers under its address, it is not the server of another node of the set, and no proxy shows.
    Server,
    /// Its mark is one of this set, and it is not in quarantine.
    Mark,
    /// It takes writes.
    Writes,
    /// It has no replicas, or takes no writes without them.
    Replicas,
    /// The data that the node keeps on disk.
    Persistence,
    /// The node drops no keys when its memory is full, and its memory is not about to be full.
    Memory,
    /// Its clock agrees with those of the other nodes, or with that of this machine if there are fewer than three nodes.
    Clock,
    /// Its clock runs as fast as that of this machine.
    ClockRate,
    /// It answers fast enough for the node timeout.
    Latency,
    /// Its user may run the commands of the scripts, on the keys and channels of locks.
    Rights,
    /// A majority of the nodes can grant locks.
    Majority,
}

/// The severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Severity {
    /// As it should be.
    Fine,
    /// Worth knowing. No action is needed.
    Note,
    /// Locks work, but worse than they could, or they stop working if something else happens.
    Warning,
    /// The node grants no locks, or may break them.
    Problem,
}

impl Diagnosis {
    /// Returns the severity of the worst finding.
    #[must_use]
    pub fn severity(&self) -> Severity {
        let all = self.nodes.iter().flat_map(|node| &node.findings).chain(&self.set);
        all.map(|finding| finding.severity).max().unwrap_or(Severity::Fine)
    }
}

impl NodeDiagnosis {
    /// Returns the finding of that check; `None` if the check could not be made.
    #[must_use]
    pub fn finding(&self, check: Check) -> Option<&Finding> {
        self.findings.iter().find(|finding| finding.check == check)
    }
}

impl Check {
    /// The checks of a node, in the order in which they are shown.
    const OF_NODES: [Self; 13] = [
        Self::Reachable,
        Self::Version,
        Self::Role,
        Self::Server,
        Self::Mark,
        Self::Writes,
        Self::Replicas,
        Self::Persistence,
        Self::Memory,
        Self::Clock,
        Self::ClockRate,
        Self::Latency,
        Self::Rights,
    ];
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Reachable => "reachable",
            Self::Version => "version",
            Self::Role => "role",
            Self::Server => "server",
            Self::Mark => "mark",
            Self::Writes => "writes",
            Self::Replicas => "replicas",
            Self::Persistence => "persistence",
            Self::Memory => "memory",
            Self::Clock => "clock",
            Self::ClockRate => "clock rate",
            Self::Latency => "latency", // p50 and p99
            Self::Rights => "rights",
            Self::Majority => "majority",
        })
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Fine => "fine",
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Problem => "problem",
        })
    }
}

impl fmt::Display for Diagnosis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, node) in self.nodes.iter().enumerate() {
            writeln!(f, "{:>3}  {}", i + 1, node.node)?;
        }
        let width = |node: &NodeDiagnosis| {
            let cells = Check::OF_NODES.iter().map(|check| cell(node, *check).chars().count());
            cells.max().unwrap_or(0)
        };
        let widths: Vec<_> = self.nodes.iter().map(width).collect();
        write!(f, "\n{:11}", "")?;
        for (i, width) in widths.iter().enumerate() {
            write!(f, "  {:width$}", i + 1)?;
        }
        for check in Check::OF_NODES {
            write!(f, "\n{check:11}")?;
            for (node, width) in self.nodes.iter().zip(&widths) {
                write!(f, "  {:>width$}", cell(node, check))?;
            }
        }
        let mut findings = self.grouped();
        findings.retain(|(_, finding)| finding.severity > Severity::Fine);
        // The worst first; findings of one severity in the order of the nodes.
        findings.sort_by_key(|(_, finding)| Reverse(finding.severity));
        f.write_str(if findings.is_empty() { "\n\nNothing is wrong." } else { "\n" })?;
        for (nodes, Finding { check, severity, what, .. }) in findings {
            write!(f, "\n{severity}: {nodes}{check}: {what}")?;
        }
        Ok(())
    }
}

impl Diagnosis {
    /// Returns each finding once, with the numbers of the nodes that share it.
    fn grouped(&self) -> Vec<(String, &Finding)> {
        let mut groups: Vec<_> = self.set.iter().map(|finding| (String::new(), finding)).collect();
        let is_same = |one: &Finding, other: &Finding| {
            (one.check, one.severity, &one.what) == (other.check, other.severity, &other.what)
        };
        for (i, node) in self.nodes.iter().enumerate() {
            for finding in &node.findings {
                match groups.iter_mut().find(|(_, known)| is_same(known, finding)) {
                    Some((nodes, _)) => nodes.insert_str(nodes.len() - 2, &format!(", {}", i + 1)),
                    None => groups.push((format!("{}: ", i + 1), finding)),
                }
            }
        }
        groups
    }
}

/// Returns the table's text for a check, with a sign at its end if the finding is not fine.
fn cell(node: &NodeDiagnosis, check: Check) -> String {
    let Some(finding) = node.finding(check) else { return "-".to_owned() };
    let sign = match finding.severity {
        Severity::Fine => "",
        Severity::Note => " *",
        Severity::Warning => " !",
        Severity::Problem => " !!",
    };
    format!("{}{sign}", finding.value)
}
