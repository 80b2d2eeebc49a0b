//! The run as Prometheus has seen it, as a picture for the manual.

use crate::prometheus::Prometheus;
use crate::svg::{Plot, lines};

/// Draws the last seconds.
pub(crate) fn picture(prometheus: &Prometheus, seconds: u64) -> String {
    let plot = |title: &str, queries: &[(&str, &str)]| {
        let line =
            |(name, query): &(&str, &str)| ((*name).to_owned(), prometheus.last(seconds, query));
        let tick =
            |second: u64| if second.is_multiple_of(5) { second.to_string() } else { String::new() };
        Plot {
            title: title.to_owned(),
            across: "seconds".to_owned(),
            logarithmic: false,
            ticks: (0..=seconds).map(tick).collect(),
            lines: queries.iter().map(line).collect(),
        }
    };
    let calls =
        |outcome: &str| format!("sum(rate(quorlock_calls_total{{outcome=\"{outcome}\"}}[3s]))");
    let waits =
        "1000 * histogram_quantile(0.99, sum by (le) (rate(quorlock_wait_seconds_bucket[3s])))";
    lines(&[
        plot("masters that grant locks", &[("granting", "quorlock_granting_nodes")]),
        plot(
            "calls a second, by outcome",
            &[
                ("acquired", &calls("acquired")),
                ("held", &calls("held")),
                ("no_quorum", &calls("no_quorum")),
            ],
        ),
        plot("milliseconds that 99 % of the granted calls waited at most", &[("99 %", waits)]),
        plot(
            "renewals that were not confirmed, and losses",
            &[
                ("unconfirmed", "sum(quorlock_renewals_total{outcome=\"unconfirmed\"})"),
                ("losses", "sum(quorlock_losses_total)"),
            ],
        ),
    ])
}
