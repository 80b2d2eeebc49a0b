//! The printed report.

use std::fmt;

use super::svg::{Bar, short};
use super::turns::{Turn, middle, pooled_us};

/// One contestant in a table.
pub(crate) struct Row<'a> {
    pub(crate) name: &'a str,
    pub(crate) turns: &'a [Turn],
    /// The ratio to the contestant that it is compared with: the median over the turns, and the
    /// quartiles.
    pub(crate) ratio: [f64; 3],
    pub(crate) goal: Option<Goal>,
}

impl Row<'_> {
    /// The bar of its ratio, in a picture.
    pub(crate) fn bar(&self, unit: &str) -> Bar {
        let [_, ratio, _] = self.ratio;
        Bar {
            name: self.name.to_owned(),
            value: Some(ratio),
            label: format!("{} {unit}", short(ratio)),
        }
    }
}

#[derive(Clone, Copy)]
pub(crate) enum Goal {
    AtMost(f64),
    AtLeast(f64),
}

impl Goal {
    pub(crate) fn judge(self, value: f64) -> Judged {
        Judged { goal: self, value }
    }
}

/// A value next to its goal.
pub(crate) struct Judged {
    goal: Goal,
    value: f64,
}

impl fmt::Display for Judged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (holds, word, bound) = match self.goal {
            Goal::AtMost(most) => (self.value <= most, "at most", most),
            Goal::AtLeast(least) => (self.value >= least, "at least", least),
        };
        write!(f, "{} ({word} {bound})", if holds { "PASS" } else { "FAIL" })
    }
}

pub(crate) fn table(title: &str, rows: &[Row<'_>]) {
    println!("\n{title}");
    println!(
        "                     microseconds          per    a lock, on all nodes  CPU ms per 1,000   ratio"
    );
    println!(
        "                    median      p99     second    scripts   commands    client  servers"
    );
    for Row { name, turns, ratio: [lower, ratio, upper], goal } in rows {
        let per_lock =
            |of: fn(&Turn) -> f64| middle(turns, |turn| of(turn) / turn.times.len() as f64);
        let judged = goal.map(|goal| goal.judge(*ratio).to_string()).unwrap_or_default();
        println!(
            "{name:<18} {:>7.0} {:>8.0} {:>10.0} {:>10.2} {:>10.2} {:>9.1} {:>8.1}   {ratio:.3} ({lower:.3} to {upper:.3})  {judged}",
            pooled_us(*turns, 0.5),
            pooled_us(*turns, 0.99),
            middle(turns, Turn::per_second),
            per_lock(|turn| turn.spent.scripts),
            per_lock(|turn| turn.spent.commands),
            per_lock(|turn| turn.spent.client_s * 1e6),
            per_lock(|turn| turn.spent.servers_s * 1e6),
        );
    }
}
