//! The verdict on a run, and its text.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use crate::witness::{Event, History, Phase, Stamp};

use super::calls::{self, Call, CallResult};
use super::count::{self, Both, Count};
use super::exclusion::exclusion;
use super::faults::{self, Fault};
use super::holds::{self, Ending, Hold};
use super::permits::permits;
use super::readers::{self, Reads};
use super::recovery::{self, Effect};
use super::stores::{self, Writes};
use super::tokens::tokens;
use super::violation::Violation;
use super::waits::{self, OfKind, WaitRules};

/// The rules by which a run is judged.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    /// Time within which every contender must get a lock again after the last fault, if there is such a rule.
    pub(crate) recovery: Option<Duration>,
    /// The rules for the bounds of waits, if waits are judged.
    pub(crate) waits: Option<WaitRules>,
    /// A run is insufficient if a lock of a kind with fencing tokens has none.
    pub(crate) tokens: bool,
    /// The number of lock kinds that a sufficient run has held.
    pub(crate) kinds: usize,
    /// A run without an election is insufficient.
    pub(crate) elections: bool,
    /// A run in which no process tells the figures of its clients is insufficient.
    pub(crate) figures: bool,
    /// Time for which a fault may have effects after it is healed: a quarantine.
    pub(crate) aftermath: Duration,
    /// Grants per second that a sufficient run has. A guard that was never proven valid is no grant.
    pub(crate) grants_a_second: f64,
    /// The share of faults that met a holder or a waiter in a sufficient run.
    pub(crate) share_hit: f64,
}

/// The results of a run.
#[derive(Debug)]
pub(crate) struct Verdict {
    pub(crate) holds: Vec<Hold>,
    pub(crate) faults: Vec<Fault>,
    pub(crate) writes: Writes,
    pub(crate) reads: Reads,
    pub(crate) violations: Vec<Violation>,
    /// The reasons why the run is insufficient.
    pub(crate) too_little: Vec<String>,
    pub(crate) lasted: Stamp,
    contenders: usize,
    waits: BTreeMap<String, OfKind>,
    count: Count,
    without: BTreeMap<String, usize>,
    kinds: BTreeMap<String, usize>,
    /// The number of calls, by name.
    called: BTreeMap<String, usize>,
    endings: BTreeMap<String, usize>,
    effects: BTreeMap<String, Effect>,
}

/// The endings of a call without a lock that faults explain. A call that ends otherwise was wrong, or its client
/// was, and it does not count as load.
const IN_VAIN: [&str; 4] = ["held by another", "no quorum", "quarantined", "cancelled"];

impl Verdict {
    /// Judges a run.
    pub(crate) fn of(history: &History, rules: &Rules) -> Self {
        let (holds, calls) = (holds::holds(history), calls::calls(history));
        let faults = faults::faults(history, &holds, &calls);
        let noticed = faults::Noticed::of(history);
        let outages = recovery::outages(&holds, &calls);
        let effects = recovery::effects(&faults, &outages, rules.aftermath);
        let mut writes = stores::writes(history);
        let mut reads = readers::reads(history, &holds);
        let mut violations = exclusion(&holds);
        violations.extend(permits(&holds));
        violations.extend(tokens(&holds));
        violations.append(&mut writes.violations);
        violations.append(&mut reads.violations);
        if let Some(limit) = rules.recovery {
            violations.extend(recovery::not_recovered(history, &faults, limit));
        }
        let waits =
            rules.waits.map(|rules| waits::waits(&holds, &calls, &faults, &noticed, &rules));
        let waits = waits.unwrap_or_default();
        violations.extend(waits::too_long(&waits));

        let mut count = count::count(history, &calls);
        violations.append(&mut count.violations);

        let mut without = BTreeMap::new();
        for call in &calls {
            if let CallResult::Without(why) = &call.result {
                *without.entry(why.clone()).or_default() += 1;
            }
        }
        let (mut kinds, mut endings) = (BTreeMap::new(), BTreeMap::new());
        for hold in &holds {
            *kinds.entry(hold.kind.label.clone()).or_default() += 1;
            *endings.entry(hold.ending.describe()).or_default() += 1;
        }
        let mut called = BTreeMap::new();
        for record in &history.0 {
            if let Event::Wants { call, .. } = &record.event {
                *called.entry(call.clone()).or_default() += 1;
            }
        }
        let mut contenders: Vec<_> = calls.iter().map(|call| &call.who).collect();
        contenders.sort_unstable();
        contenders.dedup();
        let mut verdict = Self {
            contenders: contenders.len(),
            lasted: lasted(history),
            too_little: Vec::new(),
            holds,
            faults,
            writes,
            reads,
            violations,
            waits: waits::by_kind(&calls, &waits),
            count,
            without,
            kinds,
            called,
            endings,
            effects,
        };
        verdict.too_little = verdict.shows_too_little(rules);
        verdict
    }

    /// Returns true if the run is sufficient and shows no violation.
    pub(crate) fn is_good(&self) -> bool {
        self.violations.is_empty() && self.too_little.is_empty()
    }

    fn shows_too_little(&self, rules: &Rules) -> Vec<String> {
        let mut reasons = Vec::new();
        let wanted = self.lasted.as_secs_f64() * rules.grants_a_second;
        let grants = self.holds.len();
        if (grants as f64) < wanted {
            reasons.push(format!("{grants} grants are fewer than {wanted:.0}"));
        }
        let lacks_token = |hold: &&Hold| hold.kind.class.has_tokens() && hold.token.is_none();
        let without_token = self.holds.iter().filter(lacks_token).count();
        if rules.tokens && without_token > 0 {
            reasons.push(format!("{without_token} of {grants} locks had no token"));
        }
        if self.kinds.len() < rules.kinds {
            let kinds = self.kinds.len();
            reasons
                .push(format!("locks of {kinds} kinds were held, and there are {}", rules.kinds));
        }
        if rules.figures && self.count.processes == 0 {
            reasons.push("no process told the figures of its clients".to_owned());
        }
        if rules.elections && !self.called.contains_key("campaign") {
            reasons.push("nobody stood for election".to_owned());
        }
        for (why, calls) in &self.without {
            if !IN_VAIN.contains(&why.as_str()) {
                reasons.push(format!("{calls} calls made no load: they ended with \"{why}\""));
            }
        }
        if self.faults.is_empty() {
            reasons.push("there was no fault".to_owned());
        }
        let hit = self.faults.iter().filter(|fault| fault.hit).count();
        let wanted = self.faults.len() as f64 * rules.share_hit;
        if (hit as f64) < wanted {
            reasons.push(format!(
                "{hit} of {} faults met a holder or a waiter, fewer than {wanted:.0}",
                self.faults.len()
            ));
        }
        reasons
    }
}

/// The time until the contenders were told to end.
fn lasted(history: &History) -> Stamp {
    let end = history.0.iter().rfind(|it| it.event == Event::Enter { phase: Phase::End });
    end.or(history.0.last()).map_or(Stamp::ZERO, |record| record.stamp)
}

impl Ending {
    fn describe(&self) -> String {
        match self {
            Self::Left => "given back".to_owned(),
            Self::Expired => "expired".to_owned(),
            Self::LostEarly(why) => format!("lost early ({why})"),
            Self::Unknown => "killed".to_owned(),
        }
    }
}

/// The maximum of violations that are printed. Their total number is always printed.
const SHOWN: usize = 20;

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (lasted, grants) = (self.lasted.as_secs_f64(), self.holds.len());
        writeln!(f, "{lasted:.1} s, {grants} grants to {} contenders", self.contenders)?;
        writeln!(f, "kinds: {}", listed(&self.kinds))?;
        writeln!(f, "calls: {}", listed(&self.called))?;
        writeln!(f, "holds: {}", listed(&self.endings))?;
        writeln!(f, "calls without a lock: {}", listed(&self.without))?;
        let stale = |it: &&Violation| matches!(it, Violation::StaleWriteAccepted { .. });
        writeln!(
            f,
            "writes: {} taken; {} stale reads or writes refused by their token, {} stale writes accepted; \
             {} elements of sets without tokens lost to late writes",
            self.writes.taken,
            self.writes.refused,
            self.violations.iter().filter(stale).count(),
            self.writes.lost_to_late_writes
        )?;
        let Reads { compared, changed_by_late_writes, .. } = &self.reads;
        writeln!(
            f,
            "reads under shared locks: {compared} compared with an earlier one; {changed_by_late_writes} found \
             a set without tokens changed by late writes"
        )?;
        writeln!(f)?;
        self.write_waits(f)?;
        writeln!(f)?;
        self.write_faults(f)?;
        writeln!(f)?;
        self.write_count(f)?;
        writeln!(f)?;
        for violation in self.violations.iter().take(SHOWN) {
            writeln!(f, "VIOLATION: {violation}")?;
        }
        if self.violations.len() > SHOWN {
            writeln!(f, ".. and {} more", self.violations.len() - SHOWN)?;
        }
        for reason in &self.too_little {
            writeln!(f, "SHOWS TOO LITTLE: {reason}")?;
        }
        writeln!(f, "{} violations", self.violations.len())
    }
}

impl Verdict {
    fn write_waits(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = self.waits.keys().map(String::len).max().unwrap_or(0).max("kind".len());
        writeln!(
            f,
            "{:<width$} | grants | 99 % within | longest wait | nearest to its bound | without majority",
            "kind"
        )?;
        for (kind, waits) in &self.waits {
            let [most, longest] = [waits.within(99), waits.within(100)].map(|it| it.as_secs_f64());
            let grants = waits.granted.len();
            write!(f, "{kind:<width$} | {grants:>6} | {most:>9.3} s | {longest:>10.3} s")?;
            match &waits.nearest {
                Some(wait) => {
                    let (took, bound) = (wait.took.as_secs_f64(), wait.bound.as_secs_f64());
                    let absent = wait.absent.as_secs_f64();
                    writeln!(f, " | {took:>6.2} s of {bound:>6.2} s | {absent:>14.2} s")?;
                }
                None => writeln!(f, " | {:>20} | {:>16}", "-", "-")?,
            }
        }
        writeln!(f, "(waits that ended without a lock have bounds, and are no grants)")
    }

    fn write_count(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Count { processes, calls, waited, losses, .. } = &self.count;
        let mut rows: BTreeMap<String, Both<String>> = BTreeMap::new();
        let mut endings: BTreeMap<&str, Both<u64>> = BTreeMap::new();
        for ((_, ending), both) in calls {
            endings.entry(ending).or_default().add(*both);
        }
        let shown = |both: Both<u64>| both.map(|n| n.to_string());
        rows.extend(
            endings.iter().map(|(ending, both)| (format!("calls: {ending}"), shown(*both))),
        );
        rows.insert("losses".to_owned(), shown(*losses));
        let seconds = waited.map(|it| format!("{:.3} s", it.as_secs_f64()));
        rows.insert("waits of the acquired".to_owned(), seconds);
        writeln!(f, "{:<24} | {:>12} | {:>12}", "figure", "witness", "clients")?;
        for (what, Both { seen, counted }) in rows {
            writeln!(f, "{what:<24} | {seen:>12} | {counted:>12}")?;
        }
        writeln!(f, "(of the {processes} processes that were not killed)")
    }

    fn write_faults(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = self.effects.keys().map(String::len).max().unwrap_or(0).max("fault".len());
        writeln!(
            f,
            "{:<width$} | number | met holders or waiters | longest outage | after healing",
            "fault"
        )?;
        for (kind, effect) in &self.effects {
            writeln!(
                f,
                "{kind:<width$} | {:>6} | {:>22} | {:>12.2} s | {:>11.2} s",
                effect.faults,
                effect.hit,
                effect.outage.as_secs_f64(),
                effect.after_healing.as_secs_f64(),
            )?;
        }
        writeln!(f, "(an outage: a lock is wanted, and nobody is certainly inside)")
    }
}

fn listed(counts: &BTreeMap<String, usize>) -> String {
    let parts: Vec<_> = counts.iter().map(|(what, n)| format!("{n} {what}")).collect();
    if parts.is_empty() { "none".to_owned() } else { parts.join(", ") }
}
