//! The curve of a run, as a table.

#![allow(clippy::print_stdout, reason = "the curve goes to whoever runs it")]

use std::time::Duration;

use crate::figures::Sample;
use crate::judge::median;
use crate::watch::{Plan, Run};

/// Prints the medians of each minute, or of shorter times in a short run.
pub(crate) struct Table {
    /// The number of samples in a row.
    row: Option<u64>,
    samples: Vec<Sample>,
    load: Duration,
}

const GROUPS: &str = concat!(
    "         | process with the clients                         ",
    "| done since it began                               | masters, all together",
);
const HEADS: &str = concat!(
    "  minute | threads   fds  resident MiB  heap KiB     blocks ",
    "|    names   grants  clients  gave up  lost  failed | connections  memory MiB    keys",
);

const KIB: u64 = 1_024;
const MIB: f64 = 1_048_576.0;

impl Table {
    pub(crate) fn new(plan: &Plan) -> Self {
        let row = plan.print.then(|| (plan.load.as_secs() / 10).clamp(3, 60));
        if plan.print {
            println!("\n{GROUPS}\n{HEADS}");
        }
        Self { row, samples: Vec::new(), load: plan.load }
    }

    pub(crate) fn add(&mut self, sample: &Sample) {
        let Some(row) = self.row else { return };
        self.samples.push(sample.clone());
        if self.samples.len() as u64 >= row {
            self.print_row(&format!("{:.2}", sample.at.as_secs_f64() / 60.0));
            self.samples.clear();
        }
    }

    fn print_row(&self, label: &str) {
        let of = |figure: fn(&Sample) -> u64| median(self.samples.iter().map(figure));
        let Some(Sample { done, .. }) = self.samples.last() else { return };
        println!(
            "{label:>8} | {:>7} {:>5} {:>13.1} {:>9} {:>10} | \
             {:>8} {:>8} {:>8} {:>8} {:>5} {:>7} | {:>11} {:>11.1} {:>7}",
            of(|sample| sample.process.threads),
            of(|sample| sample.process.descriptors),
            of(|sample| sample.process.resident) as f64 / MIB,
            of(|sample| sample.heap.bytes) / KIB,
            of(|sample| sample.heap.blocks),
            done.names,
            done.grants,
            done.clients,
            done.gave_up,
            done.lost,
            done.failed,
            of(|sample| sample.masters.connections),
            of(|sample| sample.masters.memory) as f64 / MIB,
            of(|sample| sample.masters.keys),
        );
    }

    /// Prints the rows at rest and the costs.
    pub(crate) fn end(mut self, run: &Run, cpu: f64) {
        if self.row.is_none() {
            return;
        }
        println!("At rest:");
        let rows = [
            ("fresh", &run.fresh),
            ("before", &run.rest_before),
            ("after", &run.rest_after),
            ("gone", &run.gone),
        ];
        for (label, sample) in rows {
            self.samples = vec![sample.clone()];
            self.print_row(label);
        }
        let (full, empty) = (run.gone.masters, run.emptied);
        println!(
            "A name that was used costs a master {} bytes. The masters without their keys take {:.1} MiB. \
             Processor time of the clients under load: {:.0} % of a core.",
            full.memory.saturating_sub(empty.memory) / full.keys.max(1),
            empty.memory as f64 / MIB,
            100.0 * cpu / self.load.as_secs_f64(),
        );
    }
}
