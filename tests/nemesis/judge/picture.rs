//! A picture of a run over time: a row for each name and worker with the holds, and one for each target of faults.
//!
//! A hold with several names is in the rows of all of them. Holds that others may overlap are outlined, so that holds behind
//! them stay visible.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::witness::{Stamp, event::worker_of};

use super::Verdict;
use super::violation::Violation;

const LEFT: f64 = 230.0;
const WIDTH: f64 = 1_400.0;
const ROW: f64 = 16.0;
const COLOURS: [&str; 8] =
    ["#4878a8", "#e49444", "#6a9f58", "#a87c9f", "#85b6b2", "#967662", "#b8b0ac", "#e7ca60"];

/// The picture, as SVG.
pub(crate) fn picture(verdict: &Verdict) -> String {
    let mut fault_rows: BTreeMap<String, Vec<_>> = BTreeMap::new();
    for fault in &verdict.faults {
        fault_rows.entry(row_of(&fault.target)).or_default().push(fault);
    }
    let mut hold_rows: BTreeMap<(&str, &str), Vec<_>> = BTreeMap::new();
    for hold in &verdict.holds {
        for name in &hold.names {
            hold_rows.entry((name, worker_of(&hold.who))).or_default().push(hold);
        }
    }
    let rows = fault_rows.len() + hold_rows.len() + 2;
    let canvas = Canvas { scale: WIDTH / verdict.lasted.as_secs_f64().max(0.001) };
    let (width, height) = (LEFT + WIDTH + 20.0, rows as f64 * ROW + 20.0);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         font-family=\"sans-serif\" font-size=\"11\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
    );
    let mut row = 0;
    for (target, faults) in &fault_rows {
        canvas.label(&mut svg, row, target);
        for fault in faults {
            let title = format!("{} ({})", fault.kind, fault.target);
            canvas.bar(&mut svg, row, (fault.begin, fault.healed), &solid("#c44e52"), &title);
        }
        row += 1;
    }
    for ((name, worker), holds) in &hold_rows {
        canvas.label(&mut svg, row, &format!("{name}, {worker}"));
        for hold in holds {
            let colour = COLOURS[colour_of(name)];
            let is_alone = hold.kind.class.is_alone();
            let look = if is_alone { solid(colour) } else { outlined(colour) };
            let title = format!("{}, {} of {}", hold.who, hold.kind.label, hold.names.join(", "));
            canvas.bar(&mut svg, row, (hold.begin, hold.end), &look, &title);
        }
        row += 1;
    }
    for violation in &verdict.violations {
        let last = match violation {
            Violation::TwoInside { second, .. } | Violation::TokenNotLarger { second, .. } => {
                Some(second)
            }
            Violation::TooManyPermits { inside, .. } => inside.last(),
            _ => None,
        };
        if let Some(last) = last {
            canvas.mark(&mut svg, last.begin, row, &violation.to_string());
        }
    }
    canvas.axis(&mut svg, row, verdict.lasted);
    svg.push_str("</svg>\n");
    svg
}

/// One row for all links of a worker, to any masters.
fn row_of(target: &str) -> String {
    target
        .split_once(" to masters ")
        .map_or(target.to_owned(), |(worker, _)| format!("{worker}, links"))
}

fn colour_of(name: &str) -> usize {
    name.bytes().map(usize::from).sum::<usize>() % COLOURS.len()
}

fn solid(colour: &str) -> String {
    format!("fill=\"{colour}\" fill-opacity=\"0.8\"")
}

fn outlined(colour: &str) -> String {
    format!("fill=\"{colour}\" fill-opacity=\"0.25\" stroke=\"{colour}\"")
}

struct Canvas {
    /// Pixels per second.
    scale: f64,
}

// Writing to a string cannot fail.
impl Canvas {
    fn x(&self, at: Stamp) -> f64 {
        LEFT + at.as_secs_f64() * self.scale
    }

    fn label(&self, svg: &mut String, row: usize, text: &str) {
        let y = row as f64 * ROW + ROW - 4.0;
        let _ = writeln!(svg, "<text x=\"4\" y=\"{y}\">{}</text>", escaped(text));
    }

    fn bar(
        &self,
        svg: &mut String,
        row: usize,
        (begin, end): (Stamp, Stamp),
        look: &str,
        title: &str,
    ) {
        let (x, y) = (self.x(begin), row as f64 * ROW + 2.0);
        let width = (self.x(end).min(LEFT + WIDTH) - x).max(0.5);
        let _ = writeln!(
            svg,
            "<rect x=\"{x:.2}\" y=\"{y}\" width=\"{width:.2}\" height=\"{}\" {look}><title>{} {:.3} s to {:.3} s</title></rect>",
            ROW - 4.0,
            escaped(title),
            begin.as_secs_f64(),
            end.as_secs_f64(),
        );
    }

    /// A line through all rows.
    fn mark(&self, svg: &mut String, at: Stamp, rows: usize, title: &str) {
        let (x, height) = (self.x(at), rows as f64 * ROW);
        let _ = writeln!(
            svg,
            "<rect x=\"{x:.2}\" y=\"0\" width=\"2\" height=\"{height}\" fill=\"red\"><title>{}</title></rect>",
            escaped(title)
        );
    }

    fn axis(&self, svg: &mut String, rows: usize, lasted: Stamp) {
        let y = rows as f64 * ROW + ROW;
        for tick in 0..=10 {
            let at = lasted * tick / 10;
            let _ = writeln!(
                svg,
                "<text x=\"{:.1}\" y=\"{y}\">{:.1} s</text>",
                self.x(at),
                at.as_secs_f64()
            );
        }
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('"', "&quot;")
}
