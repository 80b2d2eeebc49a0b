//! The consequences of a node's refusals to its user.

use std::collections::{BTreeMap, BTreeSet};

use super::findings::{Check, Finding, Severity};
use crate::node::{Refusal, Refused, Serves};
use crate::terms::ACCESS_LISTS;

pub(super) fn finding(refusals: &[Refusal]) -> Finding {
    let check = Check::Rights;
    let mut lacks = BTreeSet::new();
    let mut by_purpose = BTreeMap::<_, BTreeSet<_>>::new();
    for refusal in refusals {
        lacks.insert(lack(refusal));
        by_purpose.entry(refusal.serves).or_default().insert(lack(refusal));
    }
    let value = match lacks.first() {
        None => return Finding::fine(check, "all"),
        Some(lack) if lacks.len() == 1 => format!("no {lack}"),
        Some(_) => format!("{} lack", lacks.len()),
    };
    let is_problem = [Serves::Locks, Serves::Fencing].iter().any(|it| by_purpose.contains_key(it));
    let severity = match is_problem {
        true => Severity::Problem,
        false if by_purpose.keys().all(|it| *it == Serves::Naming) => Severity::Note,
        false => Severity::Warning,
    };
    let consequences = by_purpose.into_iter().map(|(serves, lacks)| {
        let lacks: Vec<_> = lacks.into_iter().collect();
        format!("{} (missing: {})", consequence(serves), lacks.join(", "))
    });
    let consequences = consequences.collect::<Vec<_>>().join("; ");
    let what = format!("{consequences}; the user needs the rights in {ACCESS_LISTS}");
    Finding { check, severity, value, what }
}

/// The lacking permission, as an access list writes it.
fn lack(refusal: &Refusal) -> String {
    match refusal.refused {
        Refused::Command => format!("+{}", refusal.command.to_lowercase().replace(' ', "|")),
        Refused::Keys | Refused::Channels => refusal.pattern.clone(),
        Refused::Unknown => format!("the command {} on the server", refusal.command),
    }
}

/// The consequence if old connections are not ended.
pub(super) const LATE_REQUESTS: &str = "requests of a connection that was given up may still run";

const fn consequence(serves: Serves) -> &'static str {
    match serves {
        Serves::Locks => "no lock can be taken there",
        Serves::Fencing => "no lock with a fencing token can be taken there",
        Serves::Telling => "releases are not published, so waiters notice them later",
        Serves::Hearing => "waiters are not told of releases, and poll instead",
        Serves::OldConnections => LATE_REQUESTS,
        Serves::Naming => "CLIENT LIST does not show which client a connection belongs to",
        Serves::HashLocks => {
            "reentrant locks, read-write locks or semaphores cannot be taken there"
        }
        Serves::FairLocks => "no fair lock can be taken there",
        Serves::SeveralNames => "locks with several names cannot be taken there",
    }
}
