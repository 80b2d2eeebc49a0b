//! The figures of a client as named series.

use ::metrics::{Key, Label, Unit};

use crate::stats::{LabelStats, NodeCondition, NodeStats, Stats, Times};

/// One series with its value now.
pub(super) struct Sample {
    pub(super) name: &'static str,
    pub(super) unit: Unit,
    pub(super) text: &'static str,
    pub(super) key: Key,
    pub(super) value: Value,
}

pub(super) enum Value {
    /// A number that only grows. Those of all clients of a process are added up.
    Total(u64),
    /// A number of this moment. Those of all clients of a process are added up.
    Shared(f64),
    /// A state of this moment. The client that reports last counts.
    State(f64),
    /// Durations. Those of all clients of a process are put together.
    Times(Times),
}

/// The labels of a series.
type Labels = Vec<(&'static str, String)>;

/// The samples of the figures of a client.
pub(super) fn of(stats: &Stats) -> Vec<Sample> {
    let mut samples = Samples(Vec::new());
    samples.of_calls(stats);
    samples.of_held_locks(stats);
    stats.labels.iter().for_each(|label| samples.of_label(label));
    stats.nodes.iter().for_each(|node| samples.of_node(node));
    samples.0
}

struct Samples(Vec<Sample>);

impl Samples {
    fn add(
        &mut self,
        name: &'static str,
        unit: Unit,
        text: &'static str,
        labels: Labels,
        value: Value,
    ) {
        let labels = labels.into_iter().map(|(key, value)| Label::new(key, value));
        let key = Key::from_parts(name, labels.collect::<Vec<_>>());
        self.0.push(Sample { name, unit, text, key, value });
    }

    /// Adds totals that differ in one label, beside those that they have in `common`.
    fn totals<const N: usize>(
        &mut self,
        name: &'static str,
        text: &'static str,
        common: &Labels,
        label: &'static str,
        numbers: [(&str, u64); N],
    ) {
        for (value, number) in numbers {
            let mut labels = common.clone();
            labels.push((label, value.to_owned()));
            self.add(name, Unit::Count, text, labels, Value::Total(number));
        }
    }

    fn times(&mut self, name: &'static str, text: &'static str, labels: Labels, times: &Times) {
        self.add(name, Unit::Seconds, text, labels, Value::Times(times.clone()));
    }

    #[allow(clippy::cast_precision_loss, reason = "there are not so many threads and nodes")]
    fn of_calls(&mut self, stats: &Stats) {
        for kind in &stats.kinds {
            self.totals(
                "quorlock_calls_total",
                "Calls for locks that have ended, by kind and outcome",
                &vec![("kind", kind.kind.to_owned())],
                "outcome",
                kind.calls.by_outcome(),
            );
        }
        for (name, text, value) in [
            (
                "quorlock_waiting",
                "Calls for locks that have not ended yet",
                Value::Shared(stats.waiting as f64),
            ),
            ("quorlock_holding", "Guards that exist now", Value::Shared(stats.holding as f64)),
            (
                "quorlock_majority",
                "Nodes that must grant a lock",
                Value::State(stats.majority as f64),
            ),
            (
                "quorlock_granting_nodes",
                "Nodes that are connected and grant locks now",
                Value::State(stats.granting() as f64),
            ),
        ] {
            // The last report of a client has no nodes.
            if !matches!(value, Value::State(_)) || !stats.nodes.is_empty() {
                self.add(name, Unit::Count, text, Labels::new(), value);
            }
        }
        for (name, text, times) in [
            ("quorlock_wait_seconds", "Times from a call to its guard", &stats.waits),
            ("quorlock_hold_seconds", "Times from a guard to its end", &stats.holds),
            ("quorlock_unlock_seconds", "Times that unlock took", &stats.unlocks),
        ] {
            self.times(name, text, Labels::new(), times);
        }
        let attempts = &stats.attempts;
        self.totals(
            "quorlock_attempts_total",
            "Attempts to get a lock from the nodes, by result",
            &Labels::new(),
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
        self.totals(
            "quorlock_local_grants_total",
            "Locks that calls got without asking the nodes, by the way",
            &Labels::new(),
            "way",
            [
                ("handed_over", local.handed_over),
                ("joined", local.joined),
                ("reentered", local.reentered),
            ],
        );
        let wake_ups = &stats.wake_ups;
        self.totals(
            "quorlock_wake_ups_total",
            "Callers that waited for a release and tried again, by cause",
            &Labels::new(),
            "cause",
            [
                ("message", wake_ups.messages),
                ("expiry", wake_ups.expiries),
                ("poll", wake_ups.polls),
            ],
        );
    }

    fn of_held_locks(&mut self, stats: &Stats) {
        let renewals = &stats.renewals;
        self.totals(
            "quorlock_renewals_total",
            "Renewals of held locks, by outcome",
            &Labels::new(),
            "outcome",
            [("confirmed", renewals.confirmed), ("unconfirmed", renewals.unconfirmed)],
        );
        self.times(
            "quorlock_renewal_validity_left_seconds",
            "Validity that was left when a renewal was confirmed",
            Labels::new(),
            &renewals.validity_left,
        );
        let losses = &stats.losses;
        self.totals(
            "quorlock_losses_total",
            "Locks that were lost while they were held, by reason",
            &Labels::new(),
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

    fn of_label(&mut self, stats: &LabelStats) {
        let label: Labels = vec![("label", stats.label.clone())];
        self.totals(
            "quorlock_labelled_calls_total",
            "Calls of handles with a label that have ended, by label and outcome",
            &label,
            "outcome",
            stats.calls.by_outcome(),
        );
        for (name, text, times) in [
            (
                "quorlock_labelled_wait_seconds",
                "Times from a call to its guard, by label",
                &stats.waits,
            ),
            (
                "quorlock_labelled_hold_seconds",
                "Times from a guard to its end, by label",
                &stats.holds,
            ),
        ] {
            self.times(name, text, label.clone(), times);
        }
    }

    #[allow(clippy::cast_precision_loss, reason = "they are not so large")]
    fn of_node(&mut self, node: &NodeStats) {
        let label: Labels = vec![("node", host_and_port(&node.node))];
        let is = |is: bool| Value::State(f64::from(u8::from(is)));
        let seconds = |seconds: Option<f64>| Value::State(seconds.unwrap_or(f64::NAN));
        for condition in NodeCondition::ALL {
            let mut labels = label.clone();
            labels.push(("condition", condition.as_str().to_owned()));
            let text = "1 for the client's present view of the node, 0 for the other ones";
            let value = is(condition == node.condition);
            self.add("quorlock_node_condition", Unit::Count, text, labels, value);
        }
        for (name, unit, text, value) in [
            (
                "quorlock_node_up",
                Unit::Count,
                "1 if the connection to the node is up, else 0",
                is(node.connected),
            ),
            (
                "quorlock_node_grants_in_seconds",
                Unit::Seconds,
                "Time until the node grants locks; NaN if that is not known",
                seconds(node.grants_in.map(|time| time.as_secs_f64())),
            ),
            (
                "quorlock_node_clock_ahead_seconds",
                Unit::Seconds,
                "Time by which the node's clock is ahead of the median of all; NaN if that is not known",
                seconds(node.clock_ahead_us.map(|us| us as f64 / 1e6)),
            ),
            (
                "quorlock_node_round_trip_seconds",
                Unit::Seconds,
                "Time that the latest reading of the node's clock took; NaN before the first one",
                seconds(node.round_trip.map(|time| time.as_secs_f64())),
            ),
            (
                "quorlock_node_connections_total",
                Unit::Count,
                "Connections that came up",
                Value::Total(node.connections),
            ),
            (
                "quorlock_node_writes_total",
                Unit::Count,
                "Writes to the connection",
                Value::Total(node.writes),
            ),
            (
                "quorlock_node_requests_total",
                Unit::Count,
                "Requests in those writes",
                Value::Total(node.scripts),
            ),
            (
                "quorlock_node_kept_releases",
                Unit::Count,
                "Releases that wait for the node to come back",
                Value::Shared(node.kept_releases as f64),
            ),
            (
                "quorlock_node_unanswered_releases",
                Unit::Count,
                "Releases that the node has not answered",
                Value::Shared(node.unanswered_releases as f64),
            ),
        ] {
            self.add(name, unit, text, label.clone(), value);
        }
    }
}

/// The host and the port of a node's URL; of a Unix socket its path.
fn host_and_port(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    if scheme.contains("unix") {
        return rest.split('?').next().unwrap_or(rest).to_owned();
    }
    let host = rest.split(['/', '?']).next().unwrap_or(rest);
    let has_port = host.rsplit_once(':').is_some_and(|(_, port)| {
        !port.is_empty() && port.bytes().all(|digit| digit.is_ascii_digit())
    });
    if has_port { host.to_owned() } else { format!("{host}:6379") }
}

#[cfg(test)]
mod tests {
    use super::host_and_port;

    #[test]
    fn a_node_is_named_by_its_host_and_port() {
        for (url, expected) in [
            ("redis://10.0.0.1", "10.0.0.1:6379"),
            ("redis://10.0.0.1:7000/3", "10.0.0.1:7000"),
            ("rediss://locks.example.com/0?insecure", "locks.example.com:6379"),
            ("redis://[::1]", "[::1]:6379"),
            ("redis://[::1]:7000/", "[::1]:7000"),
            ("redis+unix:///run/redis.sock?db=3", "/run/redis.sock"),
            ("unix:///run/redis.sock", "/run/redis.sock"),
        ] {
            assert_eq!(host_and_port(url), expected, "{url}");
        }
    }
}
