//! The figures, as text and as JSON.

use std::fmt::Write;
use std::time::Duration;

use serde_json::{Map, Value, json};

use super::figures::{Figures, Times};

const BAR: usize = 40;

/// The facts that are common to all measurements.
#[derive(Debug)]
pub(super) struct Setting {
    pub(super) masters: usize,
    /// The time of each measurement.
    pub(super) span: Duration,
}

#[derive(Debug)]
pub(super) struct Measured {
    /// Its name in JSON.
    pub(super) key: &'static str,
    pub(super) title: String,
    pub(super) figures: Figures,
}

pub(super) fn as_json(setting: &Setting, measured: &[Measured]) -> Value {
    let one = |Measured { title, figures, .. }: &Measured| {
        json!({
            "what": title,
            "seconds": figures.took.as_secs_f64(),
            "count": figures.count(),
            "failed": figures.failed,
            "per_second": tenths(figures.per_second()),
            "lock_us": times_as_json(&figures.lock),
            "unlock_us": times_as_json(&figures.unlock),
        })
    };
    let all: Map<_, _> = measured.iter().map(|it| (it.key.to_owned(), one(it))).collect();
    json!({ "masters": setting.masters, "measurements": all })
}

/// The times in microseconds.
fn times_as_json(times: &Times) -> Value {
    let us = |time: Duration| Value::from(tenths(time.as_secs_f64() * 1e6));
    times.percentiles().into_iter().map(|(_, name, time)| (name.to_owned(), us(time))).collect()
}

fn tenths(number: f64) -> f64 {
    (number * 10.0).round() / 10.0
}

pub(super) fn as_text(setting: &Setting, measured: &[Measured]) -> String {
    let Setting { masters, span } = setting;
    let mut text =
        format!("Masters: {masters}. Each measurement takes {} s.\n", span.as_secs_f64());
    for Measured { title, figures, .. } in measured {
        text.push('\n');
        // Writing to a string cannot fail.
        let _ = write_one(&mut text, title, figures);
    }
    text
}

fn write_one(text: &mut String, title: &str, figures: &Figures) -> std::fmt::Result {
    writeln!(text, "{title}")?;
    let (count, per_second) = (figures.count(), figures.per_second());
    writeln!(
        text,
        "  {per_second:.0} per second taken and given back: {count} in all, {} failed",
        figures.failed
    )?;
    write!(text, "\n  {:8}", "")?;
    for (name, ..) in figures.lock.percentiles() {
        write!(text, "{name:>10}")?;
    }
    for (what, times) in [("lock", &figures.lock), ("unlock", &figures.unlock)] {
        write!(text, "\n  {what:8}")?;
        for (.., time) in times.percentiles() {
            write!(text, "{:>10}", shown(time))?;
        }
    }
    writeln!(text, "\n\n  time to lock")?;
    let classes = figures.lock.classes();
    let most = classes.iter().map(|class| class.count).max().unwrap_or_default();
    for class in classes {
        let bar = "█".repeat(share(class.count, most));
        let (from, to) = (shown(class.from), shown(class.to));
        let percent = 100.0 * class.count as f64 / count as f64;
        writeln!(text, "  {from:>7} to {to:>7} {percent:>6.2} %  {bar}")?;
    }
    Ok(())
}

/// The length of a bar. It is at least 1 if the count is not 0.
fn share(count: u64, most: u64) -> usize {
    let length = (BAR as f64 * count as f64 / most.max(1) as f64).round() as usize;
    length.max(usize::from(count > 0))
}

/// A time with three digits, in the unit that fits.
fn shown(time: Duration) -> String {
    let ns = time.as_nanos() as f64;
    let units = [("µs", 1e3), ("ms", 1e6), ("s", 1e9)];
    let (unit, size) = units.into_iter().rfind(|(_, size)| ns >= *size).unwrap_or(units[0]);
    let value = ns / size;
    let digits = match value {
        _ if value.fract() == 0.0 => 0,
        _ if value < 10.0 => 2,
        _ if value < 100.0 => 1,
        _ => 0,
    };
    format!("{value:.digits$} {unit}")
}
