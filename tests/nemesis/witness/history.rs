//! The history: what was told, by whom, when, and what the stores answered.

use std::fs;
use std::io;
use std::path::Path;

use super::event::Record;

/// All records, in the order of their stamps.
#[derive(Clone, Debug, Default)]
pub(crate) struct History(pub(crate) Vec<Record>);

impl History {
    /// Reads what a witness has written, which may still go on: then part of a line is last. Names the line that
    /// cannot be read.
    pub(crate) fn read(file: &Path) -> io::Result<Self> {
        let text = fs::read_to_string(file)?;
        let (lines, _) = text.rsplit_once('\n').unwrap_or_default();
        let records = lines.lines().enumerate().map(|(i, line)| {
            serde_json::from_str(line).map_err(|error| {
                let place = format!("{}, line {}: {error}", file.display(), i + 1);
                io::Error::new(io::ErrorKind::InvalidData, place)
            })
        });
        records.collect::<Result<Vec<_>, _>>().map(Self)
    }
}
