//! The texts and requests that tell nodes of a waiter's reservations.

use crate::core::acquire::{Priority, Reservation, Waits};
use crate::ident::{Names, release_channel, reserved_key};
use crate::node::{Part, Request, Script};

/// The withdrawal goes behind the acquires of its call, since these would make the reservation again. Nothing else
/// depends on its time.
static WITHDRAW: Script = Script::new(include_str!("../../../lua/shared/withdraw.lua")).last();

/// The text of a priority. Scripts compare it as text, so all of them have one length.
fn text(priority: Priority) -> String {
    let Priority { began_ms, id } = priority;
    format!("{began_ms:014}{id:020}")
}

/// The caller's priority and reservation, in the form of the acquire scripts; empty if it has none.
pub(crate) fn reservation(waits: &Waits) -> String {
    match waits.reservation {
        None => String::new(),
        Some(reservation) if reservation.lasts.as_millis() == 0 => text(reservation.priority),
        Some(Reservation { priority, lasts, beside_sharers }) => {
            let only = if beside_sharers { " s" } else { "" };
            format!("{} {}{only}", text(priority), lasts.as_millis())
        }
    }
}

/// Withdraws the reservations of a caller with that priority under these names.
pub(crate) fn withdraw_request(names: &Names, priority: Priority) -> Request {
    let keys: Vec<_> = names.keys().map(reserved_key).collect();
    let channels: Vec<_> = names.keys().map(release_channel).collect();
    let priority = text(priority);
    let mut parts: Vec<_> = keys.iter().map(|key| Part::Bytes(key)).collect();
    parts.push(Part::Bytes(priority.as_bytes()));
    parts.extend(channels.iter().map(|channel| Part::Bytes(channel)));
    Request::new(&WITHDRAW, keys.len(), &parts)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn priorities_read_in_the_order_in_which_calls_began() {
        let texts =
            [(0, 7), (9, 1), (9, 20), (1_800_000_000_000, 3), (99_999_999_999_999, u64::MAX)]
                .map(|(began_ms, id)| text(Priority { began_ms, id }));
        assert!(texts.is_sorted() && texts.iter().all(|text| text.len() == 34), "{texts:?}");
    }

    #[test]
    fn a_request_says_how_long_the_lock_is_reserved_if_it_is() {
        let priority = Priority { began_ms: 1, id: 2 };
        let said = |lasts, beside_sharers| {
            let reservation = Some(Reservation { priority, lasts, beside_sharers });
            reservation_of(reservation)[30..].to_owned()
        };
        fn reservation_of(of: Option<Reservation>) -> String {
            super::reservation(&Waits { reservation: of, ..Waits::default() })
        }
        assert_eq!(said(Duration::from_millis(1_500), false), "0002 1500");
        assert_eq!(said(Duration::from_millis(1_500), true), "0002 1500 s");
        assert_eq!(said(Duration::ZERO, false), "0002");
        assert_eq!(reservation_of(None), "");
    }
}
