//! The page: the masters, and below them the locks, as many as there is room for.

use std::time::Duration;

use quorlock::{Error, HeldLocks, NodeCondition, NodeStats, Stats};

use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

use crate::list::{self, WIDEST, reasons};
use crate::options::Top;
use crate::tell::seconds;

/// Size of a terminal, in columns and rows of one letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Size {
    pub(super) columns: usize,
    pub(super) rows: usize,
}

const MASTERS: [&str; 4] = ["MASTER", "ROUND TRIP", "CLOCK", "STATE"];
/// The columns of masters that a narrow terminal does without, in this order.
const MASTERS_WITHOUT: [usize; 2] = [2, 1];
/// The same of locks: "HELD AS", "WAITING", "TTL".
const LOCKS_WITHOUT: [usize; 3] = [2, 4, 3];
/// The room for the last column that other columns leave, or else make way.
const LAST: usize = 16;
const BETWEEN: &str = "  ";
/// Has a time in whole seconds rounded up: a master that grants in 0 s would grant already.
const ROUNDED_UP: Duration = Duration::from_millis(999);

/// The lines of the page. Without a size all of it is shown, as in a pipe. `stale` is the age of the figures, if they are old.
pub(super) fn page(
    held: &Result<HeldLocks, Error>,
    stats: &Stats,
    stale: Option<Duration>,
    options: &Top,
    size: Option<Size>,
) -> Vec<String> {
    let columns = size.map(|size| size.columns);
    let mut lines = packed(head(held, stats, stale), ", ", columns);
    lines.push(String::new());
    let masters: Vec<_> = stats.nodes.iter().map(master).collect();
    lines.extend(table(&MASTERS, &masters, &MASTERS_WITHOUT, columns));
    lines.push(String::new());
    match held {
        Err(error) => lines.extend(wrapped(&error.to_string(), columns)),
        Ok(held) => {
            let reasons = reasons(held, &options.scan);
            if !reasons.is_empty() {
                let reasons = format!("the list may not be complete: {reasons}");
                lines.extend(wrapped(&reasons, columns));
            }
            let locks: Vec<_> = held.names.iter().map(list::row).collect();
            if !locks.is_empty() {
                let locks = table(&list::COLUMNS, &locks, &LOCKS_WITHOUT, columns);
                let room = size.map(|size| size.rows.saturating_sub(lines.len()).max(2));
                lines.extend(fitting(locks, room));
            }
        }
    }
    let lines = lines.into_iter().take(size.map_or(usize::MAX, |size| size.rows));
    lines.map(|line| columns.map_or_else(|| line.clone(), |width| cut(&line, width))).collect()
}

/// The parts of the first line.
fn head(held: &Result<HeldLocks, Error>, stats: &Stats, stale: Option<Duration>) -> Vec<String> {
    let locks = match held.as_ref().map(|held| (held.names.len(), held.is_complete())) {
        Ok((1, true)) => "1 lock".to_owned(),
        Ok((count, true)) => format!("{count} locks"),
        Ok((count @ 1.., false)) => format!("at least {count} locks"),
        Ok((0, false)) | Err(_) => "locks unknown".to_owned(),
    };
    let (granting, masters) = (stats.granting(), stats.nodes.len());
    let too_few = (granting < stats.majority).then(|| "TOO FEW FOR A LOCK".to_owned());
    let age = stale.map(|age| format!("{} old", seconds(age)));
    let parts = [locks, format!("{granting} of {masters} masters grant")];
    parts.into_iter().chain(too_few).chain(age).collect()
}

fn master(node: &NodeStats) -> [String; MASTERS.len()] {
    let unknown = || "-".to_owned();
    let round_trip = node.round_trip.filter(|_| node.connected);
    let clock = node.clock_ahead_us.filter(|_| node.connected);
    [
        // There is little room, and most URLs begin so.
        node.node.strip_prefix("redis://").unwrap_or(&node.node).to_owned(),
        round_trip.map_or_else(unknown, |time| format!("{:.1} ms", time.as_secs_f64() * 1_000.0)),
        clock.map_or_else(unknown, |us| format!("{:+} ms", us / 1_000)),
        state(node),
    ]
}

fn state(node: &NodeStats) -> String {
    match (&node.fault, node.grants_in) {
        (Some(fault), _) => fault.clone(),
        (None, _) if !node.connected => "not connected".to_owned(),
        (None, Some(Duration::ZERO)) => "grants".to_owned(),
        (None, Some(time)) => format!("grants in {}", seconds(time + ROUNDED_UP)),
        (None, None) if node.condition == NodeCondition::Admitted => {
            "waits for the others".to_owned()
        }
        (None, None) => node.condition.as_str().replace('_', " "),
    }
}

/// A line for each row below the titles, with aligned columns. A table that is too wide loses columns, in the order of `without`.
/// The last column has no width.
fn table<const N: usize>(
    titles: &[&str; N],
    rows: &[[String; N]],
    without: &[usize],
    columns: Option<usize>,
) -> Vec<String> {
    let rows: Vec<_> =
        [titles.map(str::to_owned)].into_iter().chain(rows.iter().cloned()).collect();
    // A longer text exceeds its column in its own row, or is cut there.
    let natural = |column: usize| rows.iter().map(|row| row[column].width().min(WIDEST)).max();
    let mut widths: Vec<_> =
        (0..N - 1).map(|column| (column, natural(column).unwrap_or_default())).collect();
    if let Some(columns) = columns {
        let taken = |widths: &[(usize, usize)]| -> usize {
            widths.iter().map(|(_, width)| width + BETWEEN.len()).sum()
        };
        for column in without {
            if taken(&widths) + LAST > columns {
                widths.retain(|(kept, _)| kept != column);
            }
        }
        // The names get what the others leave.
        let others = taken(&widths[1..]) + BETWEEN.len() + LAST;
        widths[0].1 = widths[0].1.min(columns.saturating_sub(others).max(titles[0].len()));
    }
    let line = |row: &[String; N]| {
        let cells = widths.iter().map(|(column, width)| {
            let text = &row[*column];
            let cell = columns.map_or_else(|| text.clone(), |_| cut(text, *width));
            let blanks = " ".repeat(width.saturating_sub(cell.width()));
            format!("{cell}{blanks}{BETWEEN}")
        });
        (cells.collect::<String>() + &row[N - 1]).trim_end().to_owned()
    };
    rows.iter().map(line).collect()
}

/// The title and as many lines as there is room for. The last line has the number of the others.
fn fitting(mut lines: Vec<String>, room: Option<usize>) -> Vec<String> {
    let Some(room) = room.filter(|room| *room < lines.len()) else { return lines };
    let shown = room.saturating_sub(1);
    let others = lines.len() - shown;
    lines.truncate(shown);
    lines.push(format!("and {others} more; a PATTERN shows fewer"));
    lines
}

/// The text in lines of that width, broken at blanks.
fn wrapped(text: &str, columns: Option<usize>) -> Vec<String> {
    packed(text.split(' '), " ", columns)
}

/// The parts in lines of that width, each as a whole, with `between` them.
fn packed(
    parts: impl IntoIterator<Item: AsRef<str>>,
    between: &str,
    columns: Option<usize>,
) -> Vec<String> {
    let mut lines = vec![String::new()];
    for part in parts {
        let part = part.as_ref();
        let line = lines.last_mut().expect("there is one");
        let needed = line.width() + between.width() + part.width();
        match line.is_empty() {
            true => part.clone_into(line),
            false if columns.is_some_and(|columns| needed > columns) => lines.push(part.to_owned()),
            false => line.extend([between, part]),
        }
    }
    lines
}

/// A text that fits into that many columns.
fn cut(text: &str, columns: usize) -> String {
    if text.width() <= columns {
        return text.to_owned();
    }
    let mut room = columns.saturating_sub(2);
    let fits = |letter: &char| {
        let left = room.checked_sub(letter.width().unwrap_or_default());
        room = left.unwrap_or(0);
        left.is_some()
    };
    let shown: String = text.chars().take_while(fits).collect();
    shown + &".."[..columns.min(2)]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(rows: &[[&str; 3]]) -> Vec<[String; 3]> {
        rows.iter().map(|row| row.map(str::to_owned)).collect()
    }

    #[test]
    fn a_table_loses_columns_and_then_letters_where_it_is_too_wide() {
        let titles = ["NAME", "TTL", "OWNERS"];
        let rows = rows(&[["\"orders/42\"", "9s", "web-3#0123456789abcdef"], ["\"a\"", "-", "b"]]);
        let wide = table(&titles, &rows, &[1], None);
        let expected = [
            "NAME         TTL  OWNERS",
            "\"orders/42\"  9s   web-3#0123456789abcdef",
            "\"a\"          -    b",
        ];
        assert_eq!(wide, expected);
        assert_eq!(
            table(&titles, &rows, &[1], Some(34)),
            expected,
            "the last column is cut elsewhere"
        );
        let narrow = table(&titles, &rows, &[1], Some(29));
        assert_eq!(narrow[1], "\"orders/42\"  web-3#0123456789abcdef");
        let narrower = table(&titles, &rows, &[1], Some(26));
        assert_eq!(narrower[1], "\"order..  web-3#0123456789abcdef");
        for width in 0..60 {
            table(&titles, &rows, &[1], Some(width));
        }
    }

    #[test]
    fn lines_without_room_are_counted() {
        let lines = |count: usize| (0..count).map(|line| line.to_string()).collect::<Vec<_>>();
        assert_eq!(fitting(lines(5), None), lines(5));
        assert_eq!(fitting(lines(5), Some(5)), lines(5));
        let told = ["0", "1", "2", "and 2 more; a PATTERN shows fewer"];
        assert_eq!(fitting(lines(5), Some(4)), told);
        assert_eq!(fitting(lines(5), Some(1)), ["and 5 more; a PATTERN shows fewer"]);
    }

    #[test]
    fn a_text_is_cut_at_characters() {
        assert_eq!(
            (cut("äöü", 3), cut("äöüß", 3), cut("abc", 1)),
            ("äöü".into(), "ä..".into(), ".".into())
        );
        assert_eq!(cut("abc", 0), "");
        let wide = "\u{6f22}\u{5b57}\u{6f22}";
        assert_eq!((cut(wide, 6), cut(wide, 5)), (wide.to_owned(), "\u{6f22}..".to_owned()));
    }

    #[test]
    fn a_text_is_broken_at_blanks() {
        assert_eq!(wrapped("one two three", Some(7)), ["one two", "three"]);
        assert_eq!(wrapped("one two three", Some(2)), ["one", "two", "three"]);
        assert_eq!(wrapped("one two", None), ["one two"]);
    }
}
