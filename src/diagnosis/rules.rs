//! The rules that turn the facts about the nodes into findings.

use std::sync::Arc;
use std::time::Duration;

use super::clocks::{Reference, rate};
use super::findings::{Check, Diagnosis, Finding, NodeDiagnosis, Severity};
use super::{replicas, rights};
use crate::config::settings::Settings;
use crate::core::admission::{Forgot, NodeState, Offset};
use crate::core::base::{exact, majority, rounded};
use crate::error::NodeFault;
use crate::node::{Facts, Memory, Persistence, SEVERAL_SERVERS, node_states};
use crate::terms::{ADMIT, CLOCK_TOLERANCE, NO_QUARANTINE, NODE_TIMEOUT};

/// The largest drift between two clocks, in millionths: one per cent, which every validity allows for.
const DRIFT: u64 = 10_000;
/// The smallest `clock_tolerance`, in round trips, so that a step can be ruled out.
const ROUND_TRIPS: u32 = 3;

/// The set that is examined.
pub(super) struct Set<'a> {
    pub(super) names: &'a Arc<[Arc<str>]>,
    pub(super) mark_key: &'a [u8],
    pub(super) settings: &'a Settings,
    pub(super) our_clock: Offset,
}

impl Finding {
    pub(super) fn fine(check: Check, value: impl Into<String>) -> Self {
        Self::new(check, Severity::Fine, value, "")
    }

    fn problem(check: Check, value: impl Into<String>, what: impl Into<String>) -> Self {
        Self::new(check, Severity::Problem, value, what)
    }

    fn warning(check: Check, value: impl Into<String>, what: impl Into<String>) -> Self {
        Self::new(check, Severity::Warning, value, what)
    }

    fn note(check: Check, value: impl Into<String>, what: impl Into<String>) -> Self {
        Self::new(check, Severity::Note, value, what)
    }

    pub(super) fn new(
        check: Check,
        severity: Severity,
        value: impl Into<String>,
        what: impl Into<String>,
    ) -> Self {
        Self { check, severity, value: value.into(), what: what.into() }
    }
}

impl Set<'_> {
    pub(super) fn diagnose(&self, facts: &[Result<Facts, NodeFault>]) -> Diagnosis {
        let probes = || facts.iter().map(|facts| facts.as_ref().ok()?.probe.as_ref().ok());
        let states = node_states(
            probes(),
            self.mark_key,
            self.names,
            &self.settings.configuration(self.names.len()),
            self.settings.fall_back_after().is_some(),
        );
        let is_new = states.iter().zip(probes()).all(|((state, _), probe)| {
            probe.is_none() || *state == NodeState::Quarantined(Some(Forgot::Mark))
        });
        let clocks: Vec<_> = facts.iter().flatten().map(|facts| facts.clock[0]).collect();
        let reference = Reference::of(&clocks, self.our_clock);
        let node = |(node, facts): (usize, &Result<Facts, NodeFault>)| NodeDiagnosis {
            node: self.names[node].to_string(),
            findings: match facts {
                Ok(facts) => self.findings(facts, &states[node], is_new, reference),
                Err(fault) => vec![Finding::problem(Check::Reachable, "no", fault.what())],
            },
        };
        let nodes: Vec<_> = facts.iter().enumerate().map(node).collect();
        let set = vec![of_majority(&nodes)];
        Diagnosis { nodes, set }
    }

    fn findings(
        &self,
        facts: &Facts,
        (state, what): &(NodeState, String),
        is_new: bool,
        reference: Reference,
    ) -> Vec<Finding> {
        let role = of_role(facts, state, what);
        let is_master = role.severity == Severity::Fine;
        let mut findings = vec![
            of_addresses(facts),
            match &facts.doubt {
                None => Finding::fine(Check::Version, &facts.server),
                Some(what) => Finding::note(Check::Version, &facts.server, what),
            },
            role,
        ];
        if facts.probe.is_ok() {
            findings.push(of_server(facts, state, what));
        }
        if is_master {
            findings.push(match &facts.probe {
                Ok(_) => self.of_mark(state, what, is_new),
                Err(fault) => Finding::problem(Check::Mark, "unknown", fault.what()),
            });
            findings.extend(facts.writes.as_ref().map(|writes| match writes {
                Ok(()) => Finding::fine(Check::Writes, "taken"),
                Err(fault) => Finding::problem(Check::Writes, "refused", fault.what()),
            }));
            findings.push(replicas::finding(&facts.replicas, self.settings));
        }
        findings.push(of_persistence(&facts.persistence, self.settings.restart_quarantine));
        findings.push(of_memory(&facts.memory));
        findings.push(self.of_clock(facts.clock[0], reference));
        findings.extend(of_clock_rate(facts.clock));
        findings.push(self.of_latency(&facts.round_trips));
        findings.push(rights::finding(&facts.refusals));
        findings
    }

    fn of_mark(&self, state: &NodeState, what: &str, is_new: bool) -> Finding {
        let check = Check::Mark;
        match state {
            NodeState::Quarantined(_) if is_new => {
                let what = format!(
                    "no client with this key prefix has used it yet; it grants locks {} after the first one connects",
                    exact(self.settings.max_ttl)
                );
                Finding::note(check, "new", what)
            }
            NodeState::Quarantined(_) => {
                let what = format!(
                    "{what}; it grants no new locks until {} after a client connects; {ADMIT} ends that \
                     at once, if nobody can hold a lock",
                    exact(self.settings.max_ttl)
                );
                Finding::warning(check, "quarantined", what)
            }
            NodeState::Foreign(_) => Finding::problem(check, "of others", what),
            // Without further knowledge, the node has the mark of an admitted node.
            _ => Finding::fine(check, "admitted"),
        }
    }

    fn of_clock(&self, clock: Offset, reference: Reference) -> Finding {
        let (check, ahead) = (Check::Clock, reference.ahead(clock));
        let by = precise(Duration::from_micros(ahead.middle().unsigned_abs()));
        let value = format!("{}{by}", sign(ahead.middle()));
        let tolerance = self.settings.clock_tolerance;
        if Duration::from_micros(ahead.certain()) <= tolerance {
            return Finding::fine(check, value);
        }
        let direction = if ahead.middle() > 0 { "ahead of" } else { "behind" };
        let what = format!(
            "its clock is {by} {direction} {}, more than the {CLOCK_TOLERANCE} of {}; locks are safe while the difference \
             stays the same, but after a step that corrects it the node grants nothing for a while: have NTP or chrony keep \
             it right",
            reference.name,
            exact(tolerance)
        );
        Finding::warning(check, value, what)
    }

    /// `round_trips` are in order of length.
    fn of_latency(&self, round_trips: &[Duration]) -> Finding {
        let percentile = |percent: usize| {
            let last = round_trips.len().saturating_sub(1);
            round_trips.get(last * percent / 100).copied().unwrap_or_default()
        };
        let (median, slow) = (percentile(50), percentile(99));
        let check = Check::Latency;
        let value = format!("{}, {}", precise(median), precise(slow));
        let Settings { node_timeout, clock_tolerance, .. } = self.settings;
        if median >= *node_timeout {
            let what = format!(
                "half of its answers take {} or longer, but a node has {} to answer ({NODE_TIMEOUT}), so most requests to it \
                 fail; find out why the server or the network is slow, or raise {NODE_TIMEOUT}",
                rounded(median),
                exact(*node_timeout)
            );
            return Finding::problem(check, value, what);
        }
        if slow >= *node_timeout / 2 {
            let what = format!(
                "one answer in a hundred takes {} or longer, and a node has {} to answer ({NODE_TIMEOUT}); find out why the server \
                 or the network is slow, or raise {NODE_TIMEOUT}",
                rounded(slow),
                exact(*node_timeout)
            );
            return Finding::warning(check, value, what);
        }
        if median * ROUND_TRIPS > *clock_tolerance {
            let what = format!(
                "a round trip takes {}, and {CLOCK_TOLERANCE} is {}, less than three of them; so clients cannot rule out that \
                 its clock was set, and ignore its grants: raise {CLOCK_TOLERANCE} for all clients of the set",
                rounded(median),
                exact(*clock_tolerance)
            );
            return Finding::warning(check, value, what);
        }
        Finding::fine(check, value)
    }
}

fn of_addresses(facts: &Facts) -> Finding {
    let Some((address, fault)) = &facts.bad_address else {
        return Finding::fine(Check::Reachable, "yes");
    };
    let what = format!(
        "its name has several addresses, and no server lets us in at {address} ({}); clients use another address, which may \
         delay a new connection for a moment",
        fault.what()
    );
    Finding::note(Check::Reachable, "not at each address", what)
}

fn of_role(facts: &Facts, state: &NodeState, what: &str) -> Finding {
    let check = Check::Role;
    match state {
        NodeState::Cluster => Finding::problem(check, "cluster", what),
        NodeState::Replica => Finding::problem(check, "replica", what),
        // One server named twice, or a server that could not be probed.
        _ if !facts.is_master => {
            let what = "the server is a replica, not a master; name independent masters";
            Finding::problem(check, "replica", what)
        }
        _ => Finding::fine(check, "master"),
    }
}

fn of_server(facts: &Facts, state: &NodeState, what: &str) -> Finding {
    match state {
        _ if facts.has_several_servers => {
            Finding::problem(Check::Server, "several", SEVERAL_SERVERS)
        }
        NodeState::Twin(other) => {
            Finding::problem(Check::Server, format!("that of {}", other + 1), what)
        }
        _ if facts.is_relayed => {
            let what = format!(
                "it refuses `INFO` in scripts, so there may be a proxy in front of it that keeps connections open when another \
                 server takes over: a vote counts only if `INFO`, asked behind it, shows the server that was probed, which costs \
                 some microseconds each time; the proxy must pass `INFO` to the server that runs the calls, in order; old \
                 connections are not ended (CLIENT KILL ends one to the proxy at most), so {}",
                rights::LATE_REQUESTS
            );
            Finding::note(Check::Server, "perhaps by proxy", what)
        }
        _ => Finding::fine(Check::Server, "its own"),
    }
}

fn of_persistence(persistence: &Persistence, quarantine: bool) -> Finding {
    let check = Check::Persistence;
    let Persistence { appends, fsync, failed } = persistence;
    let value = match (appends, fsync) {
        (false, _) => "no AOF".to_owned(),
        (true, Some(fsync)) => format!("AOF, {fsync}"),
        (true, None) => "AOF".to_owned(),
    };
    let always = *appends && fsync.as_deref() == Some("always");
    if *failed {
        let what = "its last write to disk failed, so it may soon take no writes (MISCONF); see its log, and make room on the \
                    disk";
        Finding::warning(check, value, what)
    } else if quarantine && always {
        let what = "each grant waits for the disk (appendfsync always), which locks do not need: a restarted node grants \
                    nothing until all locks that it may have forgotten have ended";
        Finding::note(check, value, what)
    } else if quarantine || always {
        Finding::fine(check, value)
    } else if *appends && fsync.is_none() {
        let what = format!(
            "without quarantine ({NO_QUARANTINE}), and without appendfsync always, a restart can give a held lock to a second \
             client; the user may not see this setting (+config|get)"
        );
        Finding::warning(check, value, what)
    } else {
        let what = format!(
            "without quarantine ({NO_QUARANTINE}), a second client gets a held lock that the node has forgotten in a \
             restart; leave the quarantine on, or set appendonly yes and appendfsync always"
        );
        Finding::warning(check, value, what)
    }
}

fn of_memory(memory: &Memory) -> Finding {
    let check = Check::Memory;
    let Memory { used, limit, policy } = memory;
    if policy != "noeviction" {
        let advice = "set maxmemory-policy noeviction";
        return if *limit == 0 {
            let what = format!(
                "the server would drop keys of locks if it had a memory limit (maxmemory-policy {policy}); {advice}"
            );
            Finding::warning(check, policy, what)
        } else {
            let what = format!(
                "when its memory is full, the server drops keys, even those of held locks (maxmemory-policy \
                 {policy}); {advice}"
            );
            Finding::problem(check, policy, what)
        };
    }
    let used_percent = used.saturating_mul(100).checked_div(*limit).unwrap_or(0);
    if used_percent >= FULL_PERCENT {
        let what = format!(
            "{used_percent} % of its memory is used, and when it is full, the node grants no locks (OOM); raise maxmemory, or \
             find out what fills it"
        );
        return Finding::warning(check, format!("{used_percent} % used"), what);
    }
    Finding::fine(check, policy)
}

/// The percentage from which memory is about to be full.
const FULL_PERCENT: u64 = 90;

fn of_clock_rate(clock: [Offset; 2]) -> Option<Finding> {
    let (check, rate) = (Check::ClockRate, rate(clock)?);
    let hundredths = rate.middle().unsigned_abs() / 100;
    let percent = format!("{}.{:02} %", hundredths / 100, hundredths % 100);
    let value = format!("{}{percent}", sign(rate.middle()));
    if rate.certain() <= DRIFT {
        return Some(Finding::fine(check, value));
    }
    let faster = if rate.middle() > 0 { "faster" } else { "slower" };
    let what = format!(
        "its clock runs {percent} {faster} than that of this machine, but locks allow for 1 %; it is being corrected (for \
         chrony set maxslewrate 500), or one of the two clocks is broken"
    );
    Some(Finding::problem(check, value, what))
}

fn of_majority(nodes: &[NodeDiagnosis]) -> Finding {
    let check = Check::Majority;
    let (all, needed) = (nodes.len(), majority(nodes.len()));
    let value = format!("{needed} of {all}");
    let is_usable = |node: &&NodeDiagnosis| {
        node.findings.iter().all(|finding| finding.severity < Severity::Problem)
    };
    let usable = nodes.iter().filter(is_usable).count();
    if usable < needed {
        let what =
            format!("{usable} of {all} nodes have no problem, and a lock needs {needed} of them");
        return Finding::problem(check, value, what);
    }
    match all {
        1 => {
            let what =
                "there are no locks while the only node is down; of three nodes one may be down";
            Finding::note(check, value, what)
        }
        _ if all % 2 == 0 => {
            let what = format!("{all} nodes survive no more failures than {}", all - 1);
            Finding::note(check, value, what)
        }
        _ => Finding::fine(check, value),
    }
}

/// The duration as text, also below one millisecond.
fn precise(duration: Duration) -> String {
    match duration {
        _ if duration < Duration::from_millis(10) => {
            let hundredths = duration.as_micros() / 10;
            format!("{}.{:02} ms", hundredths / 100, hundredths % 100)
        }
        _ => rounded(duration).to_string(),
    }
}

const fn sign(number: i64) -> &'static str {
    if number < 0 { "-" } else { "+" }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn severity_of_latency(round_trips: &[(usize, u64)]) -> Severity {
        let settings = Settings::default();
        assert_eq!(settings.node_timeout, Duration::from_millis(200));
        assert_eq!(settings.clock_tolerance, Duration::from_millis(100));
        let now = crate::core::base::Time::default();
        let names: Arc<[Arc<str>]> = Arc::new([]);
        let our_clock = Offset::new(0, now, now);
        let set = Set { names: &names, mark_key: b"", settings: &settings, our_clock };
        let times = round_trips.iter().flat_map(|(n, ms)| vec![Duration::from_millis(*ms); *n]);
        set.of_latency(&times.collect::<Vec<_>>()).severity
    }

    #[test]
    fn latency_is_measured_by_the_node_timeout_and_the_clock_tolerance() {
        assert_eq!(severity_of_latency(&[(100, 1)]), Severity::Fine);
        assert_eq!(severity_of_latency(&[(1, 1)]), Severity::Fine);
        assert_eq!(
            severity_of_latency(&[(99, 1), (1, 150)]),
            Severity::Fine,
            "one is an exception"
        );
        assert_eq!(severity_of_latency(&[(98, 1), (2, 150)]), Severity::Warning);
        assert_eq!(severity_of_latency(&[(49, 1), (51, 40)]), Severity::Warning, "clocks");
        assert_eq!(severity_of_latency(&[(49, 1), (51, 200)]), Severity::Problem);
    }

    #[test]
    fn a_disk_that_could_not_be_written_is_told_whatever_is_kept_there() {
        let failed = Persistence { failed: true, ..Persistence::default() };
        for quarantine in [false, true] {
            let finding = of_persistence(&failed, quarantine);
            assert_eq!(finding.severity, Severity::Warning);
            assert!(finding.what.contains("MISCONF"), "{}", finding.what);
        }
        let unknown = Persistence { appends: true, ..Persistence::default() };
        assert!(of_persistence(&unknown, false).what.contains("+config|get"));
        assert_eq!(of_persistence(&unknown, true).severity, Severity::Fine);
    }
}
