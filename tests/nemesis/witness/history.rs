//! The history: each event with its contender, its time, and the store's answer.

use std::fs;
use std::io;
use std::path::Path;

use super::event::Record;

/// All records, in the order of their stamps.
#[derive(Clone, Debug, Default)]
pub(crate) struct History(pub(crate) Vec<Record>);

impl History {
    /// Reads the file of a witness that may still be writing: a last, incomplete line is ignored. An error names the
    /// unreadable line.
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
