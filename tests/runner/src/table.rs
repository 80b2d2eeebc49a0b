//! Prints each program's output when it ends, and the table at the end.

use std::time::{Duration, Instant};

use crate::classes;
use crate::job::Report;

/// One line of the table.
struct Row {
    name: String,
    class: &'static str,
    passed: usize,
    failed: usize,
    took: Duration,
    processor: Option<f64>,
}

pub(crate) struct Table {
    began: Instant,
    built: Duration,
    rows: Vec<Row>,
    /// Names of failed tests with their reasons, and other failures. Each begins with the name of its program.
    failures: Vec<String>,
}

impl Table {
    /// Begins a table. The programs were built in the time `built`, and start now.
    pub(crate) fn new(built: Duration) -> Self {
        Self { began: Instant::now(), built, rows: Vec::new(), failures: Vec::new() }
    }

    /// Prints the output of a program, and keeps its line for the end.
    pub(crate) fn add(&mut self, report: Report) {
        let name = report.program.name;
        println!("\n     Running {name}\n{}", report.output.text.trim_end());
        let failed = &report.output.failed;
        self.failures.extend(failed.iter().map(|test| {
            let reason = report.output.reason(test).unwrap_or_default();
            format!("{name}: {test}\n{reason}").trim_end().replace('\n', "\n        ")
        }));
        self.failures.extend(report.output.panics.iter().map(|panic| format!("{name}: {panic}")));
        self.failures.extend(report.failure.iter().map(|why| format!("{name}: {why}")));
        self.rows.push(Row {
            class: classes::of(&name).class.name(),
            name,
            passed: report.output.passed,
            failed: failed.len(),
            took: report.took,
            processor: report.processor,
        });
    }

    /// Prints the table and the names of the failures. Returns true if nothing failed.
    pub(crate) fn end(mut self) -> bool {
        self.rows.sort_by_key(|row| std::cmp::Reverse(row.took));
        println!(
            "\n{:<24} {:>9} {:>7} {:>7} {:>9} {:>11}",
            "program", "", "passed", "failed", "seconds", "processor"
        );
        for row in &self.rows {
            row.print();
        }
        let total = Row {
            name: "all tests".to_owned(),
            class: "",
            passed: self.rows.iter().map(|row| row.passed).sum(),
            failed: self.rows.iter().map(|row| row.failed).sum(),
            took: self.began.elapsed(),
            processor: self.rows.iter().map(|row| row.processor).sum(),
        };
        total.print();
        println!("built in {:.0} s", self.built.as_secs_f64());
        if !self.failures.is_empty() {
            println!("\nfailed:");
            self.failures.iter().for_each(|failure| println!("    {failure}"));
        }
        self.failures.is_empty()
    }
}

impl Row {
    fn print(&self) {
        let Self { name, class, passed, failed, took, processor } = self;
        let processor = processor.map_or("-".to_owned(), |seconds| format!("{seconds:.1}"));
        let took = took.as_secs_f64();
        println!("{name:<24} {class:>9} {passed:>7} {failed:>7} {took:>9.1} {processor:>11}");
    }
}
