use quorlock::{Error, OptionalGuard as _, Quorlock};

/// The code under test: it gets its locks as an argument.
fn book(locks: &Quorlock, seat: &str) -> Result<bool, Error> {
    Ok(locks.try_lock(format!("seat/{seat}")).optional()?.is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seat_is_booked_once() -> Result<(), Error> {
        let (locks, nodes) = Quorlock::embedded(3)?;
        let other = locks.lock("seat/12a")?; // somebody else is about to book it
        assert!(!book(&locks, "12a")?);
        other.unlock()?;
        nodes[0].kill(); // one of three is not missed
        assert!(book(&locks, "12a")?);
        Ok(())
    }
}
