//! Code that takes locks, and its unit tests: no server, and milliseconds for each.
//!
//! The code gets its client from its caller, so that a test can pass one with embedded nodes. With
//! the feature only in the development dependencies, the program that ships does not contain them:
//!
//! ```toml
//! [dependencies]
//! quorlock = "0.1"
//!
//! [dev-dependencies]
//! quorlock = { version = "0.1", features = ["embedded"] }
//! ```
//!
//! ```text
//! cargo test --features embedded --example unit_test
//! ```
//!
//! The program itself books a seat, with a lock on the masters in `QUORLOCK_NODES`.

#![allow(clippy::print_stdout, reason = "a demonstration talks to whoever runs it")]

use quorlock::{Builder, Error, OptionalGuard as _, Quorlock};

fn main() -> Result<(), Error> {
    let locks = Builder::from_env()?.build()?;
    let mut plan = Plan::default();
    println!("{:?}", plan.book(&locks, "12a")?);
    Ok(())
}

#[derive(Debug, PartialEq)]
enum Booking {
    Done,
    /// The seat is booked already.
    Taken,
    /// Somebody else is booking it right now.
    Busy,
}

/// The seats that are taken.
#[derive(Default)]
struct Plan {
    taken: Vec<String>,
}

impl Plan {
    /// Books a seat, unless it is taken, or somebody else is booking it.
    fn book(&mut self, locks: &Quorlock, seat: &str) -> Result<Booking, Error> {
        let Some(guard) = locks.try_lock(format!("seat/{seat}")).optional()? else {
            return Ok(Booking::Busy);
        };
        if self.taken.iter().any(|taken| taken == seat) {
            return Ok(Booking::Taken);
        }
        guard.check()?; // still certainly ours
        self.taken.push(seat.to_owned());
        guard.unlock()?;
        Ok(Booking::Done)
    }
}

#[cfg(test)]
mod tests {
    use quorlock::ErrorKind;

    use super::*;

    #[test]
    fn a_seat_is_booked_once() -> Result<(), Error> {
        let (locks, _nodes) = Quorlock::embedded(3)?;
        let mut plan = Plan::default();
        let other = locks.lock("seat/12a")?;
        assert_eq!(plan.book(&locks, "12a")?, Booking::Busy);
        other.unlock()?;
        assert_eq!(plan.book(&locks, "12a")?, Booking::Done);
        assert_eq!(plan.book(&locks, "12a")?, Booking::Taken);
        Ok(())
    }

    #[test]
    fn seats_are_booked_as_long_as_a_majority_of_nodes_is_there() -> Result<(), Error> {
        let (locks, nodes) = Quorlock::embedded(3)?;
        let mut plan = Plan::default();
        nodes[0].kill();
        assert_eq!(plan.book(&locks, "12a")?, Booking::Done);
        nodes[1].kill();
        let error = plan.book(&locks, "12b").expect_err("one node is no majority");
        assert_eq!(error.kind(), ErrorKind::NoQuorum);
        Ok(())
    }
}
