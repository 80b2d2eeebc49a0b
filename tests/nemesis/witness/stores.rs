//! The data that the locks protect: for each name a set in memory, one that compares tokens, and a database.
//!
//! A holder reads a store, works, and writes back what it has read with one more element. A written set
//! never changes, and a version names it. So the new version names its predecessor, the version that was
//! read, as its `base`. An element that is in no base of the last version is lost.

use std::collections::HashMap;
use std::path::Path;

use rusqlite::{Connection, OptionalExtension, params};

use super::event::{Event, Outcome, Store};

/// All stores. Version 0 is empty.
pub(crate) struct Stores {
    sets: HashMap<String, u64>,
    guarded: HashMap<String, Guarded>,
    /// The number of versions of sets, of all names.
    versions: u64,
    database: Connection,
}

/// A set that compares tokens.
#[derive(Default)]
struct Guarded {
    version: u64,
    largest: u64,
}

impl Stores {
    /// Creates the database as a new file.
    pub(crate) fn create(database: &Path) -> rusqlite::Result<Self> {
        let database = Connection::open(database)?;
        // The witness does not outlive the machine, so no write needs to be durable.
        database.execute_batch(
            "PRAGMA journal_mode = MEMORY; PRAGMA synchronous = OFF;
             CREATE TABLE stock (name TEXT PRIMARY KEY, sold INTEGER NOT NULL, token INTEGER NOT NULL)",
        )?;
        Ok(Self { sets: HashMap::new(), guarded: HashMap::new(), versions: 0, database })
    }

    /// Applies the event, if it is for a store.
    pub(crate) fn apply(&mut self, event: &Event) -> rusqlite::Result<Outcome> {
        match event {
            Event::Read { name, store, token, .. } => {
                let token = token.unwrap_or(0);
                match store {
                    Store::Set => Ok(Outcome::Version(self.sets.get(name).copied().unwrap_or(0))),
                    Store::GuardedSet => Ok(self.read_guarded(name, token)),
                    Store::Database => self.read_sold(name, token),
                }
            }
            Event::Write { name, store, token, base, .. } => {
                let token = token.unwrap_or(0);
                match store {
                    Store::Set => {
                        self.versions += 1;
                        self.sets.insert(name.clone(), self.versions);
                        Ok(Outcome::Version(self.versions))
                    }
                    Store::GuardedSet => Ok(self.write_guarded(name, token)),
                    Store::Database => self.write_sold(name, token, base + 1),
                }
            }
            _ => Ok(Outcome::None),
        }
    }

    /// Registers the token before the reading. Otherwise a smaller token could still write between this
    /// reading and the write that follows it.
    fn read_guarded(&mut self, name: &str, token: u64) -> Outcome {
        let set = self.guarded.entry(name.to_owned()).or_default();
        if token < set.largest {
            return Outcome::Refused;
        }
        set.largest = token;
        Outcome::Version(set.version)
    }

    fn write_guarded(&mut self, name: &str, token: u64) -> Outcome {
        let set = self.guarded.entry(name.to_owned()).or_default();
        if token < set.largest {
            return Outcome::Refused;
        }
        self.versions += 1;
        *set = Guarded { version: self.versions, largest: token };
        Outcome::Version(set.version)
    }

    fn read_sold(&self, name: &str, token: u64) -> rusqlite::Result<Outcome> {
        let mut insert = self.database.prepare("INSERT OR IGNORE INTO stock VALUES (?1, 0, 0)")?;
        insert.execute([name])?;
        let mut claim = self.database.prepare(
            "UPDATE stock SET token = ?2 WHERE name = ?1 AND token <= ?2 RETURNING sold",
        )?;
        let sold = claim.query_row(params![name, signed(token)], |row| row.get(0)).optional()?;
        Ok(sold.map_or(Outcome::Refused, |sold: i64| Outcome::Version(sold.unsigned_abs())))
    }

    fn write_sold(&self, name: &str, token: u64, sold: u64) -> rusqlite::Result<Outcome> {
        let mut write = self
            .database
            .prepare("UPDATE stock SET sold = ?3, token = ?2 WHERE name = ?1 AND token <= ?2")?;
        let rows = write.execute(params![name, signed(token), signed(sold)])?;
        Ok(if rows > 0 { Outcome::Version(sold) } else { Outcome::Refused })
    }
}

/// Tokens fit into a signed 64-bit integer, which is SQLite's type.
fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
