//! The history: what was told, by whom, when, and what the stores answered.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::Path;

use super::event::Record;

/// All records, in the order of their stamps.
#[derive(Debug, Default)]
pub(crate) struct History(pub(crate) Vec<Record>);

impl History {
    /// Reads what a witness has written. Names the line that cannot be read.
    pub(crate) fn read(file: &Path) -> io::Result<Self> {
        let mut records = Vec::new();
        for (i, line) in BufReader::new(File::open(file)?).lines().enumerate() {
            let record = serde_json::from_str(&line?).map_err(|error| {
                let place = format!("{}, line {}: {error}", file.display(), i + 1);
                io::Error::new(io::ErrorKind::InvalidData, place)
            })?;
            records.push(record);
        }
        Ok(Self(records))
    }
}
