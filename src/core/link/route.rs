//! The way of a request to the connection of its node.

use super::super::base::Mechanism;
use super::driver::Failure;
use super::job::Purpose;

/// The way of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Route {
    /// It is submitted to the connection, with its caller.
    Submitted,
    /// It is submitted without its caller, which is told at once that nothing was sent.
    Kept,
    /// It is dropped, and its caller is told at once that nothing was sent.
    Dropped,
}

impl Route {
    /// Returns the way of a request for that purpose, to a node that is known to be down if `is_down`. With `waits_for_a_try`,
    /// attempts to take a lock wait for a try to connect to that node.
    pub(crate) fn of(purpose: &Purpose, is_down: bool, waits_for_a_try: bool) -> Self {
        let is_down = is_down && Mechanism::DownNodesAreNotAsked.is_on();
        match purpose {
            _ if !is_down => Self::Submitted,
            Purpose::Taking if waits_for_a_try => Self::Submitted,
            // Only the driver of the connection moves releases to the kept ones. Otherwise a reconnect at this moment could leave
            // a release unsent.
            Purpose::Release(_) if Mechanism::DownNodesGetReleases.is_on() => Self::Kept,
            _ => Self::Dropped,
        }
    }

    /// Returns true if the request is submitted.
    pub(crate) const fn is_submitted(self) -> bool {
        matches!(self, Self::Submitted | Self::Kept)
    }

    /// Returns true if its caller is told at once that nothing was sent.
    pub(crate) const fn tells_at_once(self) -> bool {
        matches!(self, Self::Kept | Self::Dropped)
    }

    /// Returns the failure of a request for that purpose that finds no room in front of the connection.
    pub(crate) const fn without_room(purpose: &Purpose, waits_for_a_try: bool) -> Failure {
        match purpose {
            // Missing room says nothing about the way to the node.
            Purpose::Taking if waits_for_a_try => Failure::Error,
            _ => Failure::NotSent,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::base::{Time, without};
    use super::super::job::Release;
    use super::*;

    fn release() -> Purpose {
        Purpose::Release(Release::of_key(None, None))
    }

    #[test]
    fn a_node_that_is_down_is_not_asked_and_gets_its_releases_later() {
        let message = Purpose::Release(Release::without_key(Time::default()));
        let purposes = [Purpose::Anyway, Purpose::Holding, Purpose::Taking, release(), message];
        for waits in [false, true] {
            let up = purposes.iter().map(|purpose| Route::of(purpose, false, waits));
            assert!(up.into_iter().all(|route| route == Route::Submitted));
        }
        let down = |waits: bool| purposes.each_ref().map(|purpose| Route::of(purpose, true, waits));
        let [dropped, kept] = [Route::Dropped, Route::Kept];
        assert_eq!(down(false), [dropped, dropped, dropped, kept, kept]);
        assert_eq!(down(true), [dropped, dropped, Route::Submitted, kept, kept]);
        assert!(dropped.tells_at_once() && !dropped.is_submitted());
        assert!(kept.tells_at_once() && kept.is_submitted());
        assert!(!Route::Submitted.tells_at_once() && Route::Submitted.is_submitted());
    }

    #[test]
    fn each_rule_about_nodes_that_are_down_is_needed() {
        let off = [Mechanism::DownNodesAreNotAsked];
        assert_eq!(without(&off, || Route::of(&Purpose::Holding, true, false)), Route::Submitted);
        let off = [Mechanism::DownNodesGetReleases];
        assert_eq!(without(&off, || Route::of(&release(), true, false)), Route::Dropped);
    }

    #[test]
    fn missing_room_is_no_sign_that_a_node_cannot_be_reached() {
        assert_eq!(Route::without_room(&Purpose::Taking, true), Failure::Error);
        assert_eq!(Route::without_room(&Purpose::Taking, false), Failure::NotSent);
        assert_eq!(Route::without_room(&release(), true), Failure::NotSent);
    }
}
