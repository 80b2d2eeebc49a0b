//! The figures of a client as named series.

use ::metrics::Unit;

use crate::stats::{KindStats, NodeCondition, NodeStats, Stats, Times};

/// One series with its value now.
pub(super) struct Sample {
    pub(super) name: &'static str,
    pub(super) unit: Unit,
    pub(super) text: &'static str,
    pub(super) labels: Vec<(&'static str, String)>,
    pub(super) value: Value,
}

pub(super) enum Value {
    /// A number that only grows.
    Total(u64),
    /// A number of this moment. Those of all clients of a process are added up.
    Shared(f64),
    /// A state of this moment. The client that reports last counts.
    State(f64),
    Times(Times),
}

/// The samples of these figures, in the same order for all figures of a client. Those of the nodes come last.
pub(super) fn of(stats: &Stats) -> Vec<Sample> {
    let mut samples = Vec::new();
    for kind in &stats.kinds {
        of_kind(kind, &mut samples);
    }
    of_calls(stats, &mut samples);
    of_held_locks(stats, &mut samples);
    for node in &stats.nodes {
        of_node(node, &mut samples);
    }
    samples
}

fn of_kind(kind: &KindStats, samples: &mut Vec<Sample>) {
    let outcomes = [
        ("acquired", kind.acquired),
        ("held", kind.held),
        ("no_quorum", kind.no_quorum),
        ("quarantined", kind.quarantined),
        ("cancelled", kind.cancelled),
        ("closed", kind.closed),
        ("failed", kind.failed),
    ];
    samples.extend(outcomes.map(|(outcome, number)| Sample {
        name: "quorlock_calls_total",
        unit: Unit::Count,
        text: "Calls for locks that have ended, by kind and outcome",
        labels: vec![("kind", kind.kind.to_owned()), ("outcome", outcome.to_owned())],
        value: Value::Total(number),
    }));
}

/// Series that differ in one label.
fn by<const N: usize>(
    samples: &mut Vec<Sample>,
    name: &'static str,
    text: &'static str,
    label: &'static str,
    numbers: [(&str, u64); N],
) {
    samples.extend(numbers.map(|(value, number)| Sample {
        name,
        unit: Unit::Count,
        text,
        labels: vec![(label, value.to_owned())],
        value: Value::Total(number),
    }));
}

fn times(samples: &mut Vec<Sample>, name: &'static str, text: &'static str, times: &Times) {
    let value = Value::Times(times.clone());
    samples.push(Sample { name, unit: Unit::Seconds, text, labels: Vec::new(), value });
}

#[allow(clippy::cast_precision_loss, reason = "there are not so many threads")]
fn of_calls(stats: &Stats, samples: &mut Vec<Sample>) {
    let gauge = |name, text, number: u64| Sample {
        name,
        unit: Unit::Count,
        text,
        labels: Vec::new(),
        value: Value::Shared(number as f64),
    };
    samples.push(gauge(
        "quorlock_waiting",
        "Calls for locks that have not ended yet",
        stats.waiting,
    ));
    samples.push(gauge("quorlock_holding", "Guards that exist now", stats.holding));
    times(samples, "quorlock_wait_seconds", "Times from a call to its guard", &stats.waits);
    times(samples, "quorlock_hold_seconds", "Times from a guard to its end", &stats.holds);
    times(samples, "quorlock_unlock_seconds", "Times that unlock took", &stats.unlocks);
    let attempts = &stats.attempts;
    by(
        samples,
        "quorlock_attempts_total",
        "Attempts to get a lock from the nodes, by result",
        "result",
        [
            ("granted", attempts.granted),
            ("refused", attempts.refused),
            ("split", attempts.split),
            ("unanswered", attempts.unanswered),
            ("quarantined", attempts.quarantined),
            ("rejected", attempts.rejected),
        ],
    );
    let local = &stats.local_grants;
    by(
        samples,
        "quorlock_local_grants_total",
        "Locks that calls got without asking the nodes, by the way",
        "way",
        [
            ("handed_over", local.handed_over),
            ("joined", local.joined),
            ("reentered", local.reentered),
        ],
    );
    let wake_ups = &stats.wake_ups;
    by(
        samples,
        "quorlock_wake_ups_total",
        "Callers that waited for a release and tried again, by cause",
        "cause",
        [("message", wake_ups.messages), ("expiry", wake_ups.expiries), ("poll", wake_ups.polls)],
    );
}

fn of_held_locks(stats: &Stats, samples: &mut Vec<Sample>) {
    let renewals = &stats.renewals;
    by(
        samples,
        "quorlock_renewals_total",
        "Renewals of held locks, by outcome",
        "outcome",
        [("confirmed", renewals.confirmed), ("unconfirmed", renewals.unconfirmed)],
    );
    times(
        samples,
        "quorlock_renewal_validity_left_seconds",
        "Validity that was left when a renewal was confirmed",
        &renewals.validity_left,
    );
    let losses = &stats.losses;
    by(
        samples,
        "quorlock_losses_total",
        "Locks that were lost while they were held, by reason",
        "reason",
        [
            ("expired", losses.expired),
            ("unconfirmed", losses.unconfirmed),
            ("keys_gone", losses.keys_gone),
            ("max_hold", losses.max_hold),
            ("suspended", losses.suspended),
        ],
    );
}

#[allow(clippy::cast_precision_loss, reason = "they are not so large")]
fn of_node(node: &NodeStats, samples: &mut Vec<Sample>) {
    let sample = |name, unit, text, value| Sample {
        name,
        unit,
        text,
        labels: vec![("node", node.node.clone())],
        value,
    };
    let state = |is: bool| Value::State(f64::from(u8::from(is)));
    let total = |name, text, number| sample(name, Unit::Count, text, Value::Total(number));
    samples.push(sample(
        "quorlock_node_up",
        Unit::Count,
        "1 if the connection to the node is up, else 0",
        state(node.connected),
    ));
    samples.extend(NodeCondition::ALL.map(|condition| {
        let text = "1 for the client's present view of the node, 0 for the other ones";
        let is = state(condition == node.condition);
        let mut sample = sample("quorlock_node_condition", Unit::Count, text, is);
        sample.labels.push(("condition", condition.as_str().to_owned()));
        sample
    }));
    samples.push(sample(
        "quorlock_node_grants_in_seconds",
        Unit::Seconds,
        "Time until the node grants locks; NaN if that is not known",
        Value::State(node.grants_in.map_or(f64::NAN, |time| time.as_secs_f64())),
    ));
    samples.push(sample(
        "quorlock_node_clock_ahead_seconds",
        Unit::Seconds,
        "Time by which the node's clock is ahead of the median of all; NaN if that is not known",
        Value::State(node.clock_ahead_us.map_or(f64::NAN, |us| us as f64 / 1e6)),
    ));
    samples.push(sample(
        "quorlock_node_round_trip_seconds",
        Unit::Seconds,
        "Time that the latest reading of the node's clock took; NaN before the first one",
        Value::State(node.round_trip.map_or(f64::NAN, |time| time.as_secs_f64())),
    ));
    samples.push(total(
        "quorlock_node_connections_total",
        "Connections that came up",
        node.connections,
    ));
    samples.push(total("quorlock_node_writes_total", "Writes to the connection", node.writes));
    samples.push(total("quorlock_node_requests_total", "Requests in those writes", node.scripts));
    samples.push(sample(
        "quorlock_node_kept_releases",
        Unit::Count,
        "Releases that wait for the node to come back",
        Value::State(node.kept_releases as f64),
    ));
}
