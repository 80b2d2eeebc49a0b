//! The command list: the locks that are held, as a table.

use std::time::Duration;

use quorlock::{Error, HeldLocks, Incomplete, NameReport, Quorlock};

use crate::exit::Failure;
use crate::json;
use crate::options::{List, Scan};
use crate::set::bytes;
use crate::tell::{print, quoted, tell};

pub(crate) const COLUMNS: [&str; 6] = ["NAME", "STATE", "HELD AS", "TTL", "WAITING", "OWNERS"];
/// Width of the widest column, in characters. A longer text exceeds its column in its own row only.
pub(crate) const WIDEST: usize = 48;
/// Maximum number of owners of a lock that are printed.
const OWNERS: usize = 3;

/// Prints the locks that are held. The exit code is 0 even if there are none.
pub(crate) fn list(options: &List) -> Result<u8, Failure> {
    let held = held_locks(&options.set.client()?, &options.scan)?;
    if options.json {
        print(format_args!("{:#}", json::held_locks(&held)))?;
    } else if !held.names.is_empty() {
        print(table(&held))?;
    }
    match (held.names.is_empty(), reasons(&held, &options.scan)) {
        (true, reasons) if reasons.is_empty() => tell("no lock is held"),
        (false, reasons) if reasons.is_empty() => {}
        (true, reasons) => tell(format_args!("no lock was found, but one may be held: {reasons}")),
        (false, reasons) => tell(format_args!("the list may not be complete: {reasons}")),
    }
    held.faults.iter().for_each(|fault| tell(format_args!("{}: {}", fault.node(), fault.what())));
    Ok(0)
}

pub(crate) fn held_locks(client: &Quorlock, scan: &Scan) -> Result<HeldLocks, Error> {
    let pattern = scan.pattern.as_deref().map(bytes).unwrap_or_default();
    client.held_locks(pattern, scan.most, scan.within)
}

/// The reasons why the list may lack locks; empty if it has all of them.
pub(crate) fn reasons(held: &HeldLocks, scan: &Scan) -> String {
    let told = |reason: &Incomplete| match reason {
        Incomplete::MoreNames => {
            format!("there are more than {} locks; raise --most to see them", scan.most)
        }
        Incomplete::TimeOver => format!(
            "the scan was ended after {}; raise --within to scan longer",
            humantime::format_duration(scan.within)
        ),
        // The fault of each master is reported as well.
        _ => "too few masters that remember all locks have answered".to_owned(),
    };
    held.incomplete.iter().map(told).collect::<Vec<_>>().join("; ")
}

/// A line for each lock below the titles, with aligned columns.
fn table(held: &HeldLocks) -> String {
    let rows: Vec<_> =
        [COLUMNS.map(str::to_owned)].into_iter().chain(held.names.iter().map(row)).collect();
    let width = |column: usize| {
        let widths = rows.iter().map(|row| row[column].chars().count());
        widths.filter(|width| *width <= WIDEST).max().unwrap_or_default()
    };
    let widths: Vec<_> = (0..COLUMNS.len()).map(width).collect();
    let line = |row: &[String; COLUMNS.len()]| {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    rows.iter().map(line).collect::<Vec<_>>().join("\n")
}

pub(crate) fn row(name: &NameReport) -> [String; COLUMNS.len()] {
    let held_as = name.holders.iter().find_map(|holder| holder.held_as);
    let mut owners: Vec<_> =
        name.holders.iter().take(OWNERS).map(|holder| holder.owner.to_string()).collect();
    if name.holders.len() > OWNERS {
        owners.push(format!("and {} more", name.holders.len() - OWNERS));
    }
    [
        quoted(&name.name),
        name.state.to_string(),
        held_as.map_or_else(|| "-".to_owned(), |held_as| held_as.to_string()),
        name.remaining_ttl.filter(|ttl| !ttl.is_zero()).map_or_else(|| "-".to_owned(), ttl),
        name.waiting.map_or_else(|| "-".to_owned(), |waiting| waiting.to_string()),
        if owners.is_empty() { "-".to_owned() } else { owners.join(", ") },
    ]
}

/// The TTL in whole seconds, or in milliseconds below one second.
fn ttl(ttl: Duration) -> String {
    let ms = u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX);
    let shown = match ms {
        u64::MAX => return "without end".to_owned(),
        0..1_000 => Duration::from_millis(ms),
        _ => Duration::from_secs(ms / 1_000),
    };
    humantime::format_duration(shown).to_string()
}
