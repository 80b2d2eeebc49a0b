//! The checked settings, and their limits.

use std::fmt;
use std::time::Duration;

use crate::core::admission::Configuration;
use crate::core::base::{Allowance, Backoff, HoldClass, exact};
use crate::core::link::GRACE;
use crate::error::Error;
use crate::ident;
use crate::node::Replicas;
use crate::terms::{
    ANOTHER_MAX_TTL, BACKOFF, CLOCK_TOLERANCE, KEY_PREFIX, MAX_HOLD, MAX_TTL, MIN_HOLD,
    NODE_TIMEOUT, SET_NAME, WAIT_REPLICAS,
};

/// The smallest TTL, in clock tolerances: the allowance for steps would leave too little of a shorter one.
const TOLERANCES: u32 = 4;

/// The shortest clock tolerance: marks are rounded to milliseconds, and no clock is read much faster.
const SHORTEST_TOLERANCE: Duration = Duration::from_millis(10);

/// The longest TTL, and the longest `max_ttl`. A master that was restarted grants no locks for `max_ttl`: a value of hours
/// is more likely a mistake of seconds for milliseconds.
const LONGEST_TTL: Duration = Duration::from_secs(60 * 60);

/// The longest time for which nodes keep a lock that was given back: enough for a job that runs once a day.
const LONGEST_MIN_HOLD: Duration = Duration::from_secs(24 * 60 * 60);

/// The longest pause between two tries: with a longer one a lock could be free for minutes before a waiter asks for it.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// The default of the TTL and of `max_ttl`. One value, so that all clients that set neither agree.
const DEFAULT_TTL: Duration = Duration::from_secs(10);

const LONGEST_PREFIX: usize = 1_024;

/// The renewal of a lock while it is held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Renewal {
    /// Each time a quarter to a third of the TTL is gone, a different part for each lock, by a thread that starts when a
    /// renewal is first due. The lock is lost only if a majority of the nodes cannot be reached for the rest of the TTL, or
    /// if somebody deletes its keys.
    #[default]
    Auto,
    /// Only by [`Guard::extend`](crate::Guard::extend): the lock ends with its TTL. The end is still reported.
    Manual,
}

/// The behaviour while no majority of the nodes can be reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Fallback {
    /// Grants nothing: calls fail with `NoQuorum`.
    #[default]
    Never,
    /// Takes locks on the first configured node alone, once no attempt of this client has reached a majority for `after`.
    ///
    /// **Weaker, and reported as such**: [`Guard::mode`](crate::Guard::mode) is [`Fallback`](crate::Mode::Fallback), and an
    /// event reports it. Clients that fall back exclude each other, since all of them name the same first node. They also
    /// ask it before they trust a majority of the others; while it is down, each attempt tries to connect to it. That costs
    /// up to 5 ms if the connection is refused. If the first node hangs or its host does not answer, it costs up to the
    /// [`node_timeout`](crate::Builder::node_timeout) per attempt, and a call whose own deadline ends earlier gets no lock.
    /// Clients without this setting would not ask the first node, so all clients of the nodes must agree on it: the others
    /// get [`Config`](crate::ErrorKind::Config).
    ///
    /// While the first node answers and does not grant, nobody gets a lock: somebody may hold it there alone. If the first
    /// node was restarted or emptied, or its clock was set, calls wait until its quarantine is over. If it is out of memory,
    /// or reports that it is loading, busy, or takes no writes, calls fail with `NoQuorum`. If it refuses the login or a
    /// command, they fail with [`Config`](crate::ErrorKind::Config).
    ///
    /// **Two clients hold one lock** if one holds it by the first node alone, and another one, which cannot reach the first
    /// node, is granted it by a majority of the others. That happens if the network is cut between the first node and the
    /// others, with clients on both sides: for as long as it is cut. It also happens if the first node is down or hangs when
    /// the others come back. If the first node stays down, the holder's lock cannot be renewed, and ends with its TTL. If it
    /// comes back just after the other client failed to connect to it, the lock ends with the holder's next renewal that
    /// reaches the others.
    ///
    /// It also happens after the holder's machine was suspended and its clock stood still. To the holder that looks like a
    /// step of the first node's clock, and it has no other clock to compare. A renewed lock ends with its next renewal if
    /// another client has it by then. A lock that is not renewed ends with its TTL.
    ///
    /// Nobody falls back to a first node that restarted during the outage, before a majority is back. It may have forgotten
    /// locks. Besides, a single empty node does not show how other clients are configured, nor how far its clock is from
    /// those of the set. A client that put it into service on that knowledge could let two configurations exist side by
    /// side, and hide a step of its clock.
    ///
    /// For the fallback, a node counts as missing only if it cannot be reached, or is loading, busy, or takes no writes for
    /// now. A node that answers with another error, since it is out of memory, refuses the login, or its user lacks a
    /// permission, counts as present, and may know of another holder. With a majority of such nodes the calls fail with
    /// `NoQuorum` or `Config`, with the reason, and nobody falls back.
    ///
    /// The renewal takes the lock on the other nodes as they come back. With a majority, the mode changes to `Quorum`. If
    /// another client has the lock on one of them, even just for the moment of a try, the lock is lost. A lock that is not
    /// renewed stays on the first node alone.
    ///
    /// Its [`FencingToken`](crate::FencingToken) comes from the first node: it is larger than earlier ones as far as the
    /// masters' clocks are known, and agree.
    ///
    /// For jobs that should rather run twice than not at all.
    SingleNode {
        /// The time that must have passed without reaching a majority.
        after: Duration,
    },
}

/// The configuration as the rest of the crate uses it. Checked by `Builder::build`.
#[derive(Clone)]
pub(crate) struct Settings {
    pub(crate) ttl: Duration,
    /// The longest time for which any lock may live without being extended.
    pub(crate) max_ttl: Duration,
    pub(crate) clock_tolerance: Duration,
    pub(crate) set_name: String,
    pub(crate) restart_quarantine: bool,
    pub(crate) node_timeout: Duration,
    pub(crate) no_quorum_timeout: Duration,
    pub(crate) renewal: Renewal,
    pub(crate) max_hold: Option<Duration>,
    pub(crate) min_hold: Option<Duration>,
    pub(crate) risk_margin: Option<Duration>,
    pub(crate) backoff: Backoff,
    pub(crate) fallback: Fallback,
    pub(crate) wait_replicas: Option<(u32, Duration)>,
    pub(crate) fencing: bool,
    pub(crate) local_queue: bool,
    pub(crate) key_prefix: Vec<u8>,
    /// The beginning of the client's owner texts. `None`: its host and process id.
    pub(crate) owner_label: Option<String>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            ttl: DEFAULT_TTL,
            max_ttl: DEFAULT_TTL,
            clock_tolerance: Duration::from_millis(100),
            set_name: "default".to_owned(),
            restart_quarantine: true,
            node_timeout: Duration::from_millis(200),
            no_quorum_timeout: Duration::from_secs(10),
            renewal: Renewal::Auto,
            max_hold: None,
            min_hold: None,
            risk_margin: None,
            backoff: Backoff { min: Duration::from_millis(5), max: Duration::from_millis(100) },
            fallback: Fallback::Never,
            wait_replicas: None,
            fencing: true,
            local_queue: true,
            key_prefix: b"quorlock:".to_vec(),
            owner_label: None,
        }
    }
}

impl Settings {
    /// Shows the settings of users, as they have set them.
    pub(crate) fn show(&self, owner_label: &dyn fmt::Debug, f: &mut fmt::DebugStruct<'_, '_>) {
        let Self { wait_replicas, key_prefix, .. } = self;
        f.field("ttl", &Shown(self.ttl))
            .field("max_ttl", &Shown(self.max_ttl))
            .field("clock_tolerance", &Shown(self.clock_tolerance))
            .field("set_name", &self.set_name)
            .field("restart_quarantine", &self.restart_quarantine)
            .field("node_timeout", &Shown(self.node_timeout))
            .field("no_quorum_timeout", &Shown(self.no_quorum_timeout))
            .field("renewal", &self.renewal)
            .field("max_hold", &self.max_hold)
            .field("min_hold", &self.min_hold)
            .field("risk_margin", &self.risk_margin)
            .field("backoff", &(Shown(self.backoff.min)..=Shown(self.backoff.max)))
            .field("fallback", &self.fallback)
            .field("wait_replicas", wait_replicas)
            .field("fencing", &self.fencing)
            .field("local_queue", &self.local_queue)
            .field("key_prefix", &format_args!("\"{}\"", ident::text(key_prefix)))
            .field("owner_label", owner_label);
    }

    /// Returns the time limit for answers to releases at the end of the client or of the process. It lasts until a worker
    /// that waits for a silent node gives up and sends its final releases.
    pub(crate) fn flush_timeout(&self) -> Duration {
        self.node_timeout.saturating_add(GRACE * 3)
    }

    /// Returns a text for each fault of the settings, alone and together.
    pub(crate) fn wrong(&self) -> Vec<String> {
        let mut wrong = self.wrong_values();
        wrong.extend(self.wrong_max_hold(self.max_hold));
        wrong.extend(self.wrong_min_hold(self.min_hold, HoldClass::Exclusive));
        wrong.extend(self.wrong_max_ttl());
        wrong.extend(self.wrong_ttl(self.ttl));
        wrong
    }

    /// Returns the faults of single settings.
    fn wrong_values(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        let Backoff { min, max } = self.backoff;
        if self.node_timeout < Duration::from_millis(1) {
            wrong.push(format!(
                "{NODE_TIMEOUT} is {}; it must be at least 1 ms",
                exact(self.node_timeout)
            ));
        }
        let attempt = self.attempt_timeout();
        if attempt > LONGEST_TTL / 2 {
            wrong.push(format!(
                "{} is {}; {} is the maximum: a TTL is at least twice \
                 that, and at most one hour",
                self.attempt_settings(),
                exact(attempt),
                exact(LONGEST_TTL / 2)
            ));
        }
        if min < Duration::from_millis(1) || max < min || max > LONGEST_PAUSE {
            wrong.push(format!(
                "{BACKOFF} is {} to {}; the minimum must be at least 1 ms, and the maximum between \
                 that and {}",
                exact(min),
                exact(max),
                exact(LONGEST_PAUSE)
            ));
        }
        if self.key_prefix.len() > LONGEST_PREFIX {
            wrong.push(format!(
                "{KEY_PREFIX} has {} bytes; {LONGEST_PREFIX} is the maximum",
                self.key_prefix.len()
            ));
        }
        if let Some((replicas, timeout)) = self.wait_replicas
            && (replicas == 0 || timeout < Duration::from_millis(1))
        {
            wrong.push(format!(
                "{WAIT_REPLICAS} asks for {replicas} replicas within {}; ask for at least one, \
                 within at least 1 ms",
                exact(timeout)
            ));
        }
        if !Configuration::is_set_name(&self.set_name) {
            wrong.push(format!(
                "the {SET_NAME} is \"{:.80}\"; it must be 1 to 64 letters, digits, \".\", \"_\" and \"-\"",
                self.set_name.escape_debug()
            ));
        }
        let tolerance = self.clock_tolerance;
        if tolerance < SHORTEST_TOLERANCE || tolerance > LONGEST_TTL || !is_whole_ms(tolerance) {
            wrong.push(format!(
                "{CLOCK_TOLERANCE} is {}; it must be whole milliseconds, at least {} and {} at most",
                exact(tolerance),
                exact(SHORTEST_TOLERANCE),
                exact(LONGEST_TTL)
            ));
        }
        wrong.extend(self.owner_label.as_deref().and_then(ident::wrong_label));
        wrong
    }

    fn wrong_max_ttl(&self) -> Option<String> {
        let max_ttl = self.max_ttl;
        if max_ttl > LONGEST_TTL {
            return Some(format!(
                "{MAX_TTL} is {}; one hour is the maximum, since a restarted master grants no locks \
                 for as long as {MAX_TTL} (were milliseconds meant?)",
                exact(max_ttl)
            ));
        }
        (!is_whole_ms(max_ttl))
            .then(|| format!("{MAX_TTL} is {}; Redis counts in whole milliseconds", exact(max_ttl)))
    }

    /// Returns the settings that all clients of the nodes must agree on.
    pub(crate) fn configuration(&self, nodes: usize) -> Configuration {
        Configuration {
            set_name: self.set_name.clone(),
            nodes,
            max_ttl: self.max_ttl,
            clock_tolerance: self.clock_tolerance,
            quarantine: self.restart_quarantine,
            index: None,
        }
    }

    /// Returns the time by which every validity is shortened.
    pub(crate) fn allowance(&self) -> Allowance {
        Allowance { clock_tolerance: self.clock_tolerance }
    }

    /// Returns the time limit of one try for a lock: for the answers, and for the replicas behind them.
    pub(crate) fn attempt_timeout(&self) -> Duration {
        let replicas = self.wait_replicas.map_or(Duration::ZERO, |(_, timeout)| timeout);
        self.node_timeout.saturating_add(replicas)
    }

    /// Returns the settings that add up to that time, in words.
    fn attempt_settings(&self) -> String {
        match self.wait_replicas {
            Some(_) => format!("{NODE_TIMEOUT} (and that of {WAIT_REPLICAS})"),
            None => NODE_TIMEOUT.to_string(),
        }
    }

    /// Returns the time without a quorum after which the first node decides alone.
    pub(crate) fn fall_back_after(&self) -> Option<Duration> {
        match self.fallback {
            Fallback::Never => None,
            Fallback::SingleNode { after } => Some(after),
        }
    }

    pub(crate) fn replicas(&self) -> Option<Replicas> {
        let (needed, timeout) = self.wait_replicas?;
        Some(Replicas { needed, timeout, key: ident::replicated_key(&self.key_prefix) })
    }

    pub(crate) fn check_max_hold(&self, max_hold: Option<Duration>) -> Result<(), Error> {
        refuse(self.wrong_max_hold(max_hold))
    }

    pub(crate) fn check_min_hold(
        &self,
        min_hold: Option<Duration>,
        class: HoldClass,
    ) -> Result<(), Error> {
        refuse(self.wrong_min_hold(min_hold, class))
    }

    pub(crate) fn check_ttl(&self, ttl: Duration) -> Result<(), Error> {
        refuse(self.wrong_ttl(ttl))
    }

    /// A lock that ends before it can be granted would be useless.
    fn wrong_max_hold(&self, max_hold: Option<Duration>) -> Option<String> {
        let max_hold = max_hold.filter(|max_hold| *max_hold < self.node_timeout)?;
        Some(format!(
            "{MAX_HOLD} is {}; it must be at least the {NODE_TIMEOUT}, {}",
            exact(max_hold),
            exact(self.node_timeout)
        ))
    }

    /// A longer time is more likely a mistake of seconds for milliseconds.
    fn wrong_min_hold(&self, min_hold: Option<Duration>, class: HoldClass) -> Option<String> {
        match min_hold? {
            _ if class != HoldClass::Exclusive => Some(format!(
                "{MIN_HOLD} is not for locks that are only read: readers do not exclude each other"
            )),
            min_hold if min_hold > LONGEST_MIN_HOLD => Some(format!(
                "{MIN_HOLD} is {}; {} is the maximum (were milliseconds meant?)",
                exact(min_hold),
                exact(LONGEST_MIN_HOLD)
            )),
            _ => None,
        }
    }

    /// A TTL below twice the node timeout could be used up by a single slow try.
    fn wrong_ttl(&self, ttl: Duration) -> Vec<String> {
        let mut wrong = Vec::new();
        let attempt = self.attempt_timeout();
        if ttl < attempt.saturating_mul(2) {
            wrong.push(format!(
                "the TTL is {}; it must be at least {}, twice the {} of {}; set a shorter {NODE_TIMEOUT}, \
                 or a longer TTL and a {MAX_TTL} that is no shorter",
                or_default(ttl),
                exact(attempt.saturating_mul(2)),
                self.attempt_settings(),
                exact(attempt)
            ));
        }
        if ttl < self.clock_tolerance.saturating_mul(TOLERANCES) {
            wrong.push(format!(
                "the TTL is {}; it must be at least {TOLERANCES} times the {CLOCK_TOLERANCE} of {}, by \
                 which every validity is shortened; for shorter locks set a smaller {CLOCK_TOLERANCE} \
                 on all clients of the set",
                exact(ttl),
                exact(self.clock_tolerance)
            ));
        }
        if ttl > LONGEST_TTL {
            wrong.push(format!(
                "the TTL is {}; one hour is the maximum (were milliseconds meant?)",
                exact(ttl)
            ));
        } else if ttl > self.max_ttl {
            let why = match self.restart_quarantine {
                true => ", the time that a restarted master waits for locks to end",
                false => "",
            };
            wrong.push(format!(
                "the TTL is {} and {MAX_TTL} is {}: no lock may live longer than {MAX_TTL}{why}. Use a shorter TTL, \
                 or set {MAX_TTL} to {} or more, the same figure on all clients of the set; {ANOTHER_MAX_TTL} says how to \
                 change a set that is in use",
                or_default(ttl),
                or_default(self.max_ttl),
                exact(ttl)
            ));
        }
        if !is_whole_ms(ttl) {
            wrong.push(format!("the TTL is {}; Redis counts in whole milliseconds", exact(ttl)));
        }
        wrong
    }
}

/// Returns one error with all faults.
pub(crate) fn refuse(wrong: impl IntoIterator<Item = String>) -> Result<(), Error> {
    let wrong: Vec<_> = wrong.into_iter().collect();
    match wrong.as_slice() {
        [] => Ok(()),
        [one] => Err(Error::config(one.as_str())),
        several => {
            let count = several.len();
            let each: Vec<_> =
                several.iter().zip(1..).map(|(what, i)| format!("({i}) {what}")).collect();
            Err(Error::config(format!("{count} settings are wrong: {}", each.join("; "))))
        }
    }
}

/// The longest duration means no limit.
pub(crate) fn limit(max_hold: Duration) -> Option<Duration> {
    (max_hold < Duration::MAX).then_some(max_hold)
}

/// A time of zero means no minimum.
pub(crate) fn minimum(min_hold: Duration) -> Option<Duration> {
    (!min_hold.is_zero()).then_some(min_hold)
}

/// A TTL or `max_ttl`, for a user that may have set only the other one.
fn or_default(duration: Duration) -> String {
    let by_default = if duration == DEFAULT_TTL { " (the default)" } else { "" };
    format!("{}{by_default}", exact(duration))
}

/// A duration as a developer reads it. The longest one, which stands for no end, is 22 digits long.
struct Shown(Duration);

impl fmt::Debug for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Duration::MAX => f.write_str("Duration::MAX"),
            duration => fmt::Debug::fmt(&duration, f),
        }
    }
}

/// Redis counts in whole milliseconds.
fn is_whole_ms(duration: Duration) -> bool {
    duration.subsec_nanos().is_multiple_of(1_000_000)
}
