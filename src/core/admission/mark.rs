//! The mark: a node's record of the clients that may be granted locks there, as one line of text.
//!
//! ```text
//! quorlock-mark 2 set=default nodes=3 max_ttl_ms=10000 clock_tolerance_ms=100 quarantine=on index=- run=RUN repl=REPL ahead_ms=-12 noted_at_ms=1795238820123 admitted
//! quorlock-mark 2 set=.. (as above) .. quarantined until_ms=1795238850123 id=00c0ffee00c0ffee
//! ```
//!
//! Scripts compare the mark as a whole, so one state has exactly one text. Any other spelling is somebody else's mark.

use std::fmt;
use std::time::Duration;

use super::super::base::exact;

/// The beginning of a mark: its owner, and the number of its format.
const HEAD: &str = "quorlock-mark 2";

/// The longest set name.
const LONGEST_SET_NAME: usize = 64;

/// The longest id that a server may have. Those of Redis and Valkey have 40 characters.
const LONGEST_ID: usize = 64;

/// The settings on which all clients of one set of nodes must agree. If two clients differ in one of them, both could hold one
/// lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Configuration {
    /// Tells sets apart that share nodes and prefix by mistake.
    pub(crate) set_name: String,
    /// The number of nodes, which determines the majority.
    pub(crate) nodes: usize,
    /// The longest that a lock lives without being extended, in whole milliseconds. A node that has forgotten its locks grants
    /// nothing for so long.
    pub(crate) max_ttl: Duration,
    /// The step by which a node's clock may be set forward without costing the node its vote, in whole milliseconds. Every
    /// validity is shortened by it.
    pub(crate) clock_tolerance: Duration,
    /// True if nodes that may have forgotten locks are kept from granting.
    pub(crate) quarantine: bool,
    /// The node's place in the configuration, where it matters which node is the first.
    pub(crate) index: Option<usize>,
}

impl Configuration {
    /// Returns true if `name` may be the name of a set: letters, digits, `.`, `_` and `-`, which leave no doubt where a name
    /// ends.
    pub(crate) fn is_set_name(name: &str) -> bool {
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        (1..=LONGEST_SET_NAME).contains(&name.len()) && name.bytes().all(allowed)
    }

    /// Returns the settings that are different in `theirs`, for messages.
    pub(crate) fn differences(&self, theirs: &Self) -> Vec<Difference> {
        let mut differences = Vec::new();
        let mut compare = |setting, ours: String, theirs: String| {
            if ours != theirs {
                differences.push(Difference { setting, ours, theirs });
            }
        };
        let mode = |on: bool| if on { "on" } else { "off" }.to_owned();
        let time = |duration| exact(duration).to_string();
        compare(Setting::SetName, self.set_name.clone(), theirs.set_name.clone());
        compare(Setting::Nodes, self.nodes.to_string(), theirs.nodes.to_string());
        compare(Setting::MaxTtl, time(self.max_ttl), time(theirs.max_ttl));
        compare(Setting::ClockTolerance, time(self.clock_tolerance), time(theirs.clock_tolerance));
        compare(Setting::Quarantine, mode(self.quarantine), mode(theirs.quarantine));
        compare(Setting::Fallback, mode(self.index.is_some()), mode(theirs.index.is_some()));
        if let (Some(ours), Some(theirs)) = (self.index, theirs.index) {
            compare(Setting::Place, (ours + 1).to_string(), (theirs + 1).to_string());
        }
        differences
    }
}

/// One setting on which all clients of a set must agree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Setting {
    SetName,
    Nodes,
    MaxTtl,
    ClockTolerance,
    Quarantine,
    Fallback,
    Place,
}

/// A setting on which two clients do not agree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Difference {
    pub(crate) setting: Setting,
    pub(crate) ours: String,
    pub(crate) theirs: String,
}

/// The identity of a server, and of the history of its data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    run_id: String,
    /// The replication id: it changes each time the server is promoted, and now and then besides.
    repl_id: String,
}

impl Identity {
    /// Returns `None` if these cannot be ids of a server.
    pub(crate) fn new(run_id: &str, repl_id: &str) -> Option<Self> {
        let is_id = |id: &str| {
            (1..=LONGEST_ID).contains(&id.len()) && id.bytes().all(|b| b.is_ascii_alphanumeric())
        };
        (is_id(run_id) && is_id(repl_id))
            .then(|| Self { run_id: run_id.to_owned(), repl_id: repl_id.to_owned() })
    }

    /// The id of this run: it changes each time the server starts.
    pub(crate) fn run_id(&self) -> &str {
        &self.run_id
    }
}

/// The state of a node, as its mark states it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MarkState {
    Admitted,
    /// It may have forgotten locks, and grants nothing until all locks that it may have forgotten have ended.
    Quarantined {
        /// The end by the set's time, in milliseconds since 1970; `None` until a client has set it.
        until_ms: Option<u64>,
        /// Tells this quarantine from every other one of this node.
        id: u64,
    },
}

impl MarkState {
    pub(crate) const fn quarantine_id(self) -> Option<u64> {
        match self {
            Self::Admitted => None,
            Self::Quarantined { id, .. } => Some(id),
        }
    }
}

/// The value of a node's mark.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    pub(crate) configuration: Configuration,
    pub(crate) identity: Identity,
    pub(crate) noted: Noted,
    pub(crate) state: MarkState,
}

/// The note of a mark on the node's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Noted {
    /// The least by which the clock is ahead of the set's time, in milliseconds.
    pub(crate) ahead_ms: i64,
    /// The set's time at the moment of the note, in milliseconds since 1970.
    pub(crate) at_ms: u64,
}

impl Mark {
    /// Reads what `Display` writes; `None` for everything else, a later format included.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mark = Self::read(text)?;
        // Rejects numbers with a sign or with leading zeros, and everything else that has more than one spelling.
        (mark.to_string() == text).then_some(mark)
    }

    fn read(text: &str) -> Option<Self> {
        let mut words = text.strip_prefix(HEAD)?.strip_prefix(' ')?.split(' ');
        let mut field = |name: &str| words.next()?.strip_prefix(name)?.strip_prefix('=');
        let configuration = Configuration {
            set_name: field("set").filter(|name| Configuration::is_set_name(name))?.to_owned(),
            nodes: field("nodes")?.parse().ok().filter(|nodes| *nodes > 0)?,
            max_ttl: Duration::from_millis(
                field("max_ttl_ms")?.parse().ok().filter(|ttl| *ttl > 0)?,
            ),
            clock_tolerance: Duration::from_millis(
                field("clock_tolerance_ms")?.parse().ok().filter(|tolerance| *tolerance > 0)?,
            ),
            quarantine: match field("quarantine")? {
                "on" => true,
                "off" => false,
                _ => return None,
            },
            index: optional(field("index")?)?,
        };
        let identity = Identity::new(field("run")?, field("repl")?)?;
        let ahead_ms = field("ahead_ms")?.parse().ok()?;
        let noted = Noted { ahead_ms, at_ms: field("noted_at_ms")?.parse().ok()? };
        let state = match words.next()? {
            "admitted" => MarkState::Admitted,
            // Without quarantine in the set, no client writes one.
            "quarantined" if configuration.quarantine => {
                let mut field = |name: &str| words.next()?.strip_prefix(name)?.strip_prefix('=');
                let until_ms = optional(field("until_ms")?)?;
                MarkState::Quarantined { until_ms, id: u64::from_str_radix(field("id")?, 16).ok()? }
            }
            _ => return None,
        };
        let in_set = configuration.index.is_none_or(|index| index < configuration.nodes);
        (words.next().is_none() && in_set).then_some(Self { configuration, identity, noted, state })
    }
}

/// A number, or `-` for none.
fn optional<T: std::str::FromStr>(text: &str) -> Option<Option<T>> {
    if text == "-" { Some(None) } else { text.parse().ok().map(Some) }
}

impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Configuration { set_name, nodes, max_ttl, clock_tolerance, quarantine, index } =
            &self.configuration;
        let Identity { run_id, repl_id } = &self.identity;
        let (max_ttl_ms, tolerance_ms) = (max_ttl.as_millis(), clock_tolerance.as_millis());
        let Noted { ahead_ms, at_ms } = self.noted;
        let mode = if *quarantine { "on" } else { "off" };
        let index = index.map_or("-".to_owned(), |index| index.to_string());
        write!(
            f,
            "{HEAD} set={set_name} nodes={nodes} max_ttl_ms={max_ttl_ms} \
             clock_tolerance_ms={tolerance_ms} quarantine={mode} index={index} run={run_id} \
             repl={repl_id} ahead_ms={ahead_ms} noted_at_ms={at_ms} "
        )?;
        match self.state {
            MarkState::Admitted => f.write_str("admitted"),
            MarkState::Quarantined { until_ms, id } => {
                let until = until_ms.map_or("-".to_owned(), |until| until.to_string());
                write!(f, "quarantined until_ms={until} id={id:016x}")
            }
        }
    }
}

#[cfg(test)]
#[path = "tests/mark.rs"]
mod tests;
