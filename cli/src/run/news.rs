//! The messages to a user about the wait for a lock, and their frequency.

use std::mem::{self, Discriminant};
use std::time::Duration;

use quorlock::{Error, ErrorKind, HeldAs, HolderReport, LockState, NodeStats};

use crate::clock::Time;
use crate::tell::seconds;

/// Interval at which the line on a terminal is rewritten.
const TICK: Duration = Duration::from_secs(1);
/// Bounds of the interval at which the masters are asked for the holder. The wait doubles from one question to the next, within
/// these bounds.
const ASKS: (Duration, Duration) = (Duration::from_secs(2), Duration::from_secs(30));
/// Interval at which a message repeats that nothing has changed.
const REMINDS: Duration = Duration::from_secs(60);
/// Time of silence without a terminal or log, until a problem is reported that somebody has to solve.
const TELLS_NOBODY_AFTER: Duration = Duration::from_secs(10);

/// The readers of the messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Audience {
    /// Nobody: only problems that somebody has to solve are reported.
    Nobody,
    /// A user at a terminal.
    Terminal,
    /// A log.
    Log,
}

/// The reason for which the lock is not granted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Obstacle {
    /// No obstacle is known.
    Unknown,
    /// Too few masters can vote. `away` are those that cannot.
    Outage { away: Vec<Away>, masters: usize },
    /// Too many masters may have forgotten locks. They grant some after that time.
    Quarantine { ready_in: Duration },
    /// These owners have the lock, and that number of others.
    Held { owners: Vec<String>, others: usize },
    /// The lock was given back, and the masters keep it until that time.
    Kept { owner: String, until: Time },
    /// Too few masters report the owner.
    Unclear,
    /// The holders of permits have another number of permits in their options.
    OtherPermits { there: u32, here: u32 },
}

/// A master that cannot vote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Away {
    node: String,
    why: String,
}

impl Away {
    /// Returns all such masters that this client knows of.
    pub(super) fn all(masters: &[NodeStats]) -> Vec<Self> {
        masters.iter().filter_map(Self::of).collect()
    }

    /// `None`: the master can vote.
    fn of(master: &NodeStats) -> Option<Self> {
        let why = match (&master.fault, master.connected) {
            (Some(fault), _) => fault.clone(),
            (None, false) => "not connected yet".to_owned(),
            (None, true) => return None,
        };
        Some(Self { node: master.node.clone(), why })
    }

    /// Describes the masters, grouped by reason.
    pub(super) fn told(all: &[Self], masters: usize) -> String {
        let mut reasons: Vec<(&str, Vec<&str>)> = Vec::new();
        for Self { node, why } in all {
            match reasons.iter_mut().find(|(known, _)| known == why) {
                Some((_, nodes)) => nodes.push(node),
                None => reasons.push((why, vec![node])),
            }
        }
        let reasons = reasons.iter().map(|(why, nodes)| format!("{} ({why})", nodes.join(", ")));
        let reasons = reasons.collect::<Vec<_>>().join("; ");
        format!("{} of {masters} masters cannot be used: {reasons}", all.len())
    }
}

/// Maximum number of owners of a lock that are named.
const OWNERS: usize = 2;

impl Obstacle {
    /// The obstacle in the masters' answer at `now`. `permits` is the caller's number for a semaphore; other locks have none.
    pub(super) fn of(said: &Result<HolderReport, Error>, permits: Option<u32>, now: Time) -> Self {
        let report = match said {
            Ok(report) => report,
            Err(error) if error.kind() == ErrorKind::NoQuorum => return Self::Unclear,
            // This user has no right to ask.
            Err(_) => return Self::Unknown,
        };
        if let Some(here) = permits
            && let Some(there) = other_permits(report, here)
        {
            return Self::OtherPermits { there, here };
        }
        let mut owners: Vec<_> =
            report.holders().map(|holder| label(&holder.owner.to_string())).collect();
        owners.dedup();
        let others = owners.len().saturating_sub(OWNERS);
        owners.truncate(OWNERS);
        match (report.state(), report.remaining_ttl(), owners.first()) {
            (LockState::Unclear, ..) => Self::Unclear,
            (LockState::Kept, Some(ttl), Some(owner)) => {
                Self::Kept { owner: owner.clone(), until: now.after(ttl) }
            }
            (LockState::Held, _, Some(_)) => Self::Held { owners, others },
            _ => Self::Unknown,
        }
    }

    /// Returns true if this is another obstacle than `before`, and not only another time of the same one.
    fn is_news_after(&self, before: &Self) -> bool {
        match (self, before) {
            (Self::Quarantine { .. }, Self::Quarantine { .. }) => false,
            (Self::Kept { owner, .. }, Self::Kept { owner: before, .. }) => owner != before,
            // The text of a fault may change with each attempt.
            (Self::Outage { away, .. }, Self::Outage { away: before, .. }) => {
                !away.iter().map(|it| &it.node).eq(before.iter().map(|it| &it.node))
            }
            _ => self != before,
        }
    }
}

/// Returns the number of permits in the holders' options, if it is not `here`.
pub(super) fn other_permits(report: &HolderReport, here: u32) -> Option<u32> {
    let answers = report.names.iter().flat_map(|name| &name.nodes);
    let mut held_as = answers.filter_map(|node| node.answer.as_ref().ok()?.held_as);
    held_as.find_map(|held_as| match held_as {
        HeldAs::Semaphore { permits } if permits != here => Some(permits),
        _ => None,
    })
}

/// The label of an owner, in quotes. It identifies the owner; the random part behind it is meant for programs.
fn label(owner: &str) -> String {
    let label = owner.rsplit_once('#').map_or(owner, |(label, _)| label);
    // The label of a candidate in an election contains its value.
    let label = label.rsplit_once("#value=").map_or(label, |(label, _)| label);
    format!("\"{}\"", if label.is_empty() { owner } else { label })
}

/// A text that is due.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Word {
    /// On the line of the terminal.
    Line(String),
    /// In a line of its own.
    Message(String),
}

/// The messages about the wait for one lock.
#[derive(Debug)]
pub(super) struct News {
    /// The lock, in quotes.
    lock: String,
    begun: Time,
    /// Time at which the line is rewritten.
    tick_at: Time,
    /// Time of the next question to the masters.
    ask_at: Time,
    /// The masters' last answer.
    said: Obstacle,
    /// The last message, and its time.
    told: Option<(Obstacle, Time)>,
    /// The obstacles that were reported although nobody watches.
    told_nobody: Vec<Discriminant<Obstacle>>,
    /// The number of permits of the semaphore that the caller waits for.
    permits: Option<u32>,
}

impl News {
    pub(super) fn new(lock: String, permits: Option<u32>, begun: Time) -> Self {
        let first = begun.after(TICK);
        Self {
            lock,
            begun,
            tick_at: first,
            ask_at: first,
            said: Obstacle::Unknown,
            told: None,
            told_nobody: Vec::new(),
            permits,
        }
    }

    /// Returns the time until the next action.
    pub(super) fn wait(&self, now: Time) -> Duration {
        self.tick_at.since(now)
    }

    /// Returns true if the masters are to be asked now for the holder: if somebody sees the answer, and no other obstacle is known.
    pub(super) fn asks(&mut self, now: Time, audience: Audience, seen: &Obstacle) -> bool {
        let is_due = now >= self.ask_at;
        // A difference of permits is reported in any case.
        let hears = audience != Audience::Nobody
            || self.permits.is_some() && now.since(self.begun) >= TELLS_NOBODY_AFTER;
        if !is_due || !hears || *seen != Obstacle::Unknown {
            return false;
        }
        self.ask_at = now.after(now.since(self.begun).clamp(ASKS.0, ASKS.1));
        true
    }

    /// Handles the masters' answer. It is shown at once.
    pub(super) fn handle_said(&mut self, said: &Result<HolderReport, Error>, now: Time) {
        self.handle_obstacle(Obstacle::of(said, self.permits, now), now);
    }

    fn handle_obstacle(&mut self, said: Obstacle, now: Time) {
        self.said = said;
        self.tick_at = self.tick_at.min(now);
    }

    /// Returns the text that is due at `now`. `seen` is the obstacle that this process itself has seen, or `Unknown`.
    pub(super) fn poll(&mut self, now: Time, audience: Audience, seen: Obstacle) -> Option<Word> {
        if now < self.tick_at {
            return None;
        }
        let waited = now.since(self.begun);
        self.tick_at = self.begun.after(TICK * (1 + u32::try_from(waited.as_secs()).unwrap_or(0)));
        let obstacle = if seen == Obstacle::Unknown { self.said.clone() } else { seen };
        let text = self.text(&obstacle, now);
        match audience {
            // The reasons do not fit on the line, which is as long as the terminal is wide.
            Audience::Terminal if self.is_new_outage(&obstacle) => {
                self.told = Some((obstacle, now));
                Some(Word::Message(text))
            }
            Audience::Terminal => Some(Word::Line(self.in_short(&obstacle, now).unwrap_or(text))),
            Audience::Log => {
                let is_due = self.told.as_ref().is_none_or(|(before, at)| {
                    obstacle.is_news_after(before) || now.since(*at) >= REMINDS
                });
                is_due.then(|| {
                    self.told = Some((obstacle, now));
                    Word::Message(text)
                })
            }
            Audience::Nobody => {
                let needs_somebody =
                    matches!(obstacle, Obstacle::Outage { .. } | Obstacle::OtherPermits { .. });
                let kind = mem::discriminant(&obstacle);
                let is_due = needs_somebody
                    && waited >= TELLS_NOBODY_AFTER
                    && !self.told_nobody.contains(&kind);
                is_due.then(|| {
                    self.told_nobody.push(kind);
                    Word::Message(text)
                })
            }
        }
    }

    fn is_new_outage(&self, obstacle: &Obstacle) -> bool {
        let is_news =
            || self.told.as_ref().is_none_or(|(before, _)| obstacle.is_news_after(before));
        matches!(obstacle, Obstacle::Outage { .. }) && is_news()
    }

    /// Describes an outage without its reasons.
    fn in_short(&self, obstacle: &Obstacle, now: Time) -> Option<String> {
        let Obstacle::Outage { away, masters } = obstacle else { return None };
        let waits = format!("waiting for {} for {}", self.lock, self.waited(now));
        Some(format!("{waits}: {} of {masters} masters cannot be used", away.len()))
    }

    /// Returns the time for which the caller has waited, for a message at the end of the wait.
    pub(super) fn waited(&self, now: Time) -> String {
        seconds(now.since(self.begun))
    }

    fn text(&self, obstacle: &Obstacle, now: Time) -> String {
        let waits = format!("waiting for {} for {}", self.lock, self.waited(now));
        match obstacle {
            Obstacle::Unknown => waits,
            Obstacle::Outage { away, masters } => {
                format!("{waits}: {}", Away::told(away, *masters))
            }
            Obstacle::Quarantine { ready_in } => {
                // Rounded up: the message must not say 0 s before the lock can be granted.
                let ready_in = seconds(ready_in.saturating_add(Duration::from_millis(999)));
                let when = format!("new or restarted masters grant locks in {ready_in}");
                format!("waiting for {}: {when}", self.lock)
            }
            Obstacle::Held { owners, others } => {
                let more = if *others > 0 { format!(" and {others} more") } else { String::new() };
                format!("{waits}: held by {}{more}", owners.join(", "))
            }
            Obstacle::Kept { owner, until } => {
                let left = seconds(until.since(now));
                format!("{waits}: kept for {left} by the --min-hold of {owner}")
            }
            Obstacle::Unclear => format!("{waits}: too few masters say who holds it"),
            Obstacle::OtherPermits { there, here } => {
                format!("{waits}: {}", permits_differ("it", *there, *here))
            }
        }
    }
}

/// The message about a number of permits that is not the same everywhere.
pub(super) fn permits_differ(lock: &str, there: u32, here: u32) -> String {
    format!(
        "{lock} has {there} permits for its holders, but {here} here (--permits); give it the same number \
         everywhere"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Time {
        Time::from_ms(1_000_000 + ms)
    }

    fn news() -> News {
        News::new("\"job\"".to_owned(), None, at(0))
    }

    fn held(owner: &str) -> Obstacle {
        Obstacle::Held { owners: vec![label(owner)], others: 0 }
    }

    fn outage() -> Obstacle {
        let away =
            |node: &str| Away { node: node.to_owned(), why: "connection refused".to_owned() };
        Obstacle::Outage { away: vec![away("redis://a"), away("redis://b")], masters: 3 }
    }

    /// Returns all texts in those seconds, polled four times a second, each with its second.
    fn told(
        news: &mut News,
        seconds: std::ops::Range<u64>,
        audience: Audience,
        seen: impl Fn(u64) -> Obstacle,
    ) -> Vec<(u64, String)> {
        let moments =
            seconds.flat_map(|second| (0..4).map(move |part| second * 1_000 + part * 250));
        let told = moments.filter_map(|ms| {
            let word = news.poll(at(ms), audience, seen(ms / 1_000))?;
            let (Word::Line(text) | Word::Message(text)) = word;
            Some((ms / 1_000, text))
        });
        told.collect()
    }

    #[test]
    fn on_a_terminal_one_line_a_second_says_what_is_waited_for() {
        let mut news = news();
        let ready = |second: u64| Obstacle::Quarantine {
            ready_in: Duration::from_millis(9_900 - second * 1_000),
        };
        let lines = told(&mut news, 0..3, Audience::Terminal, ready);
        let line = |left: u64| {
            format!("waiting for \"job\": new or restarted masters grant locks in {left} s")
        };
        assert_eq!(lines, [(1, line(9)), (2, line(8))], "nothing in the first second");
        news.handle_obstacle(held("web-3:4711#5a"), at(3_100));
        let lines = told(&mut news, 3..5, Audience::Terminal, |_| Obstacle::Unknown);
        let line =
            |waited: u64| format!("waiting for \"job\" for {waited} s: held by \"web-3:4711\"");
        assert_eq!(lines, [(3, line(3)), (4, line(4))]);
    }

    #[test]
    fn a_log_hears_of_changes_and_seldom_that_there_is_none() {
        let mut news = news();
        news.handle_obstacle(held("a:1#5a"), at(1_000));
        let seen =
            |second: u64| if (100..103).contains(&second) { outage() } else { Obstacle::Unknown };
        let lines = told(&mut news, 1..200, Audience::Log, seen);
        let seconds: Vec<_> = lines.iter().map(|(second, _)| *second).collect();
        assert_eq!(seconds, [1, 61, 100, 103, 163], "{lines:?}");
        let away = "2 of 3 masters cannot be used: redis://a, redis://b (connection refused)";
        assert!(lines[2].1.contains(away), "{lines:?}");
        news.handle_obstacle(held("b:2#5a"), at(200_000));
        news.handle_obstacle(held("b:2#5b"), at(200_300));
        let lines = told(&mut news, 200..202, Audience::Log, |_| Obstacle::Unknown);
        assert_eq!(lines.len(), 1, "another holder, once: {lines:?}");
        let ready =
            |second: u64| Obstacle::Quarantine { ready_in: Duration::from_secs(240 - second) };
        let lines = told(&mut news, 202..212, Audience::Log, ready);
        assert_eq!(lines.len(), 1, "it is the same quarantine: {lines:?}");
    }

    #[test]
    fn where_nobody_watches_an_outage_alone_is_told_once() {
        let mut news = news();
        news.handle_obstacle(held("a:1#5a"), at(0));
        let lines = told(&mut news, 0..100, Audience::Nobody, |_| Obstacle::Unknown);
        assert!(lines.is_empty(), "{lines:?}");
        let lines = told(&mut news, 100..200, Audience::Nobody, |_| outage());
        assert_eq!(lines.len(), 1, "{lines:?}");
        let lines = told(&mut self::news(), 0..20, Audience::Nobody, |_| outage());
        assert_eq!(lines.iter().map(|(second, _)| *second).collect::<Vec<_>>(), [10]);
    }

    #[test]
    fn another_number_of_permits_is_asked_for_and_told_once_although_nobody_watches() {
        let mut news = News::new("\"job\"".to_owned(), Some(3), at(0));
        let asks =
            |second: &u64| news.asks(at(second * 1_000), Audience::Nobody, &Obstacle::Unknown);
        assert_eq!((0..60).filter(asks).collect::<Vec<_>>(), [10, 20, 40]);
        news.handle_obstacle(Obstacle::OtherPermits { there: 2, here: 3 }, at(0));
        let lines = told(&mut news, 0..100, Audience::Nobody, |_| Obstacle::Unknown);
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert!(lines[0].0 == 10 && lines[0].1.contains("it has 2 permits"), "{lines:?}");
    }

    #[test]
    fn masters_are_asked_seldom_and_not_where_the_answer_is_of_no_use() {
        let asked = |audience, seen: Obstacle| {
            let mut news = news();
            let asks = |second: &u64| news.asks(at(second * 1_000), audience, &seen);
            (0..200).filter(asks).collect::<Vec<_>>()
        };
        for audience in [Audience::Terminal, Audience::Log] {
            let often = [1, 3, 6, 12, 24, 48, 78, 108, 138, 168, 198];
            assert_eq!(asked(audience, Obstacle::Unknown), often);
            assert!(asked(audience, outage()).is_empty());
        }
        assert!(asked(Audience::Nobody, Obstacle::Unknown).is_empty());
    }

    #[test]
    fn owners_are_named_by_their_labels() {
        assert_eq!(label("web-3:4711#5a"), "\"web-3:4711\"");
        assert_eq!(label("a#b#5a"), "\"a#b\"");
        assert_eq!(label("web-3:4711#5a:1:write"), "\"web-3:4711\"", "of a read-write lock");
        assert_eq!(label("0a1b:1"), "\"0a1b:1\"", "without a label");
    }

    #[test]
    fn what_is_kept_is_told_with_the_time_that_is_left() {
        let mut news = news();
        news.handle_obstacle(
            Obstacle::Kept { owner: label("a:1#5a"), until: at(300_000) },
            at(1_000),
        );
        let lines = told(&mut news, 1..120, Audience::Log, |_| Obstacle::Unknown);
        let line = |waited, left| {
            let whose = "by the --min-hold of \"a:1\"";
            format!("waiting for \"job\" for {waited}: kept for {left} {whose}")
        };
        let expected = [(1, line("1 s", "4 min 59 s")), (61, line("1 min 1 s", "3 min 59 s"))];
        assert_eq!(lines, expected);
    }
}
