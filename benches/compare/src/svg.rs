//! Pictures, as text: bars side by side, and lines.

use std::fmt::Write;

/// A bar chart with a figure of each contestant.
pub(crate) struct Chart {
    pub(crate) title: String,
    pub(crate) bars: Vec<Bar>,
    /// The limit at which longer bars are cut off.
    pub(crate) longest: f64,
}

pub(crate) struct Bar {
    pub(crate) name: String,
    /// `None` if there is nothing to measure: the bar is cut off at any scale.
    pub(crate) value: Option<f64>,
    pub(crate) label: String,
}

/// A plot of the growth of one figure with another one.
pub(crate) struct Plot {
    pub(crate) title: String,
    pub(crate) across: String,
    /// True if equal vertical distances are equal ratios.
    pub(crate) logarithmic: bool,
    /// The labels of the horizontal axis, at equal distances.
    pub(crate) ticks: Vec<String>,
    /// The lines, each with its name, and a value for each tick.
    pub(crate) lines: Vec<(String, Vec<f64>)>,
}

/// The style, for light pages and for dark ones.
const STYLE: &str = "\
text { font: 13px sans-serif; fill: #1f2328 } .head { font-weight: bold } .small { font-size: 11px }
.ours { fill: #0969da } .other { fill: #8c959f } .gap { stroke: #ffffff; stroke-width: 3 }
.axis { stroke: #8c959f; stroke-width: 1 }
.line { fill: none; stroke-width: 2 } .line.ours { stroke: #0969da } .line.other { stroke: #8c959f }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3 } .ours { fill: #4493f8 } .line.ours { stroke: #4493f8 } .gap { stroke: #0d1117 }
}";

const WIDTH: usize = 720;
/// Height of a line of text with a bar in it.
const ROW: usize = 22;
const LEFT: usize = 170;
const BAR: f64 = 330.0;

pub(crate) fn bars(charts: &[Chart]) -> String {
    let (mut body, mut y) = (String::new(), 8);
    for chart in charts {
        y += ROW;
        text(&mut body, "head", 8.0, y as f64, "start", &chart.title);
        for bar in &chart.bars {
            y += ROW;
            let cut_off = bar.value.is_none_or(|value| value > chart.longest);
            let share = bar.value.map_or(1.0, |value| value.min(chart.longest) / chart.longest);
            let (width, class) = ((share * BAR).max(1.0), class(&bar.name));
            text(&mut body, "", 16.0, y as f64, "start", &bar.name);
            let (top, end) = (y - 12, LEFT as f64 + width);
            _ = writeln!(
                body,
                r#"<rect class="{class}" x="{LEFT}" y="{top}" width="{width:.0}" height="14"/>"#
            );
            if cut_off {
                // Two slanted gaps near the end show that the bar goes on.
                for gap in [18.0, 9.0] {
                    let (x, bottom) = (end - gap, top + 14);
                    _ = writeln!(body, r#"<path class="gap" d="M{x:.0} {bottom}l6 -14"/>"#);
                }
            }
            text(&mut body, "", end + 8.0, y as f64, "start", &bar.label);
        }
        y += ROW / 2;
    }
    page(&body, y + 8)
}

pub(crate) fn lines(plots: &[Plot]) -> String {
    /// Height of the area between the axes.
    const HEIGHT: f64 = 130.0;
    const PLOT: f64 = 560.0;
    const LEFT: f64 = 64.0;

    let (mut body, mut y) = (String::new(), 8.0);
    for plot in plots {
        y += ROW as f64;
        text(&mut body, "head", 8.0, y, "start", &plot.title);
        y += ROW as f64;
        let values = plot.lines.iter().flat_map(|(_, values)| values);
        let most = values.clone().copied().fold(f64::MIN_POSITIVE, f64::max);
        let least = match plot.logarithmic {
            // The largest power of ten that is not above the smallest value.
            true => 10_f64.powf(values.copied().fold(most, f64::min).log10().floor()),
            false => 0.0,
        };
        let bottom = y + HEIGHT;
        let last = (plot.ticks.len() - 1).max(1) as f64;
        let x_of = |i: usize| LEFT + i as f64 / last * PLOT;
        let share = |value: f64| match plot.logarithmic {
            true => (value / least).ln() / (most / least).ln(),
            false => value / most,
        };
        let y_of = |value: f64| bottom - share(value) * HEIGHT;
        _ = writeln!(
            body,
            r#"<path class="axis" fill="none" d="M{LEFT} {y}V{bottom}H{}"/>"#,
            LEFT + PLOT
        );
        text(&mut body, "small", LEFT - 6.0, y + 6.0, "end", &short(most));
        text(&mut body, "small", LEFT - 6.0, bottom, "end", &short(least));
        for (i, tick) in plot.ticks.iter().enumerate() {
            text(&mut body, "small", x_of(i), bottom + 16.0, "middle", tick);
        }
        text(&mut body, "small", LEFT + PLOT, bottom + 32.0, "end", &plot.across);
        for (name, values) in &plot.lines {
            let class = class(name);
            let points = values.iter().enumerate();
            let points = points.map(|(i, value)| format!("{:.1},{:.1}", x_of(i), y_of(*value)));
            let points = points.collect::<Vec<_>>().join(" ");
            _ = writeln!(body, r#"<polyline class="line {class}" points="{points}"/>"#);
            let end = values.last().copied().unwrap_or_default();
            text(&mut body, "small", LEFT + PLOT + 6.0, y_of(end) + 4.0, "start", name);
        }
        y = bottom + 44.0;
    }
    page(&body, y as usize)
}

fn class(name: &str) -> &'static str {
    if name.starts_with("quorlock") { "ours" } else { "other" }
}

/// A number with as many digits as a reader needs.
pub(crate) fn short(value: f64) -> String {
    match value {
        0.0 => "0".to_owned(),
        10_000.0.. => format!("{:.0} k", value / 1e3),
        1_000.0.. => format!("{:.1} k", value / 1e3),
        10.0.. => format!("{value:.0}"),
        _ => format!("{value:.2}"),
    }
}

fn text(body: &mut String, class: &str, x: f64, y: f64, anchor: &str, words: &str) {
    let words = words.replace('&', "&amp;").replace('<', "&lt;");
    _ = writeln!(
        body,
        r#"<text class="{class}" x="{x:.0}" y="{y:.0}" text-anchor="{anchor}">{words}</text>"#
    );
}

fn page(body: &str, height: usize) -> String {
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
         width=\"{WIDTH}\" height=\"{height}\">\n<style>\n{STYLE}\n</style>\n{body}</svg>\n"
    )
}
