//! The subscriber of one node: its connections, its channels, and its pauses.

use std::time::Duration;

use super::super::base::{Backoff, Mechanism, Rule, Time};
use super::channels::Changes;

/// The longest time for which a subscriber does not look at its changes. As a rule it is woken; but the node
/// may not let us publish, or be too slow.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// The pauses of a subscriber between its connections.
const RECONNECT: Backoff =
    Backoff { min: Duration::from_millis(20), max: Duration::from_millis(1_000) };

/// Time after which a server that refused the subscription is asked again: people change the server's rules.
const REFUSED: Duration = Duration::from_secs(10);

/// Listens to one node for as long as anybody wants to hear of it. [`Channels`](super::Channels) decides which channels
/// there are, and which waiters a message concerns.
#[derive(Debug)]
pub(crate) struct Subscriber {
    state: SubscriberState,
    /// The number of failures since the last connection to the node's server was made.
    tries: u32,
}

#[derive(Debug)]
enum SubscriberState {
    Connecting,
    /// The driver looks at the changes; on a new connection (`anew`), at all channels.
    Looking {
        anew: bool,
    },
    /// The node is asked for channels, and has not confirmed all of them. Nothing else is done meanwhile.
    Subscribing(Changes),
    Confirmed(Changes),
    Unsubscribing {
        channels: Vec<Vec<u8>>,
        look_again: bool,
    },
    Hearing {
        until: Time,
    },
    /// The connection is gone, and the waiters do not know.
    Deaf {
        until: Time,
    },
    Pausing {
        until: Time,
        look_at: Time,
    },
    Ended,
}

/// The driver's next step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SubscriberStep {
    /// Connect to the node, and report that it is done: [`Subscriber::handle_connected`].
    Connect,
    /// Hand [`Channels::changes`](super::Channels::changes) to [`Subscriber::handle_changes`].
    Look { anew: bool },
    /// Ask for these channels, and report when the node has confirmed all of them: [`Subscriber::handle_confirmed`].
    Subscribe(Vec<Vec<u8>>),
    /// Tell the waiters that these channels are heard.
    TellListening(Vec<Vec<u8>>),
    /// Unsubscribe from these channels. There may be none.
    Unsubscribe(Vec<Vec<u8>>),
    /// Hear messages, until then at most. A wake-up goes to [`Subscriber::handle_woken`].
    Hear { until: Time },
    /// The connection is of no use any more. Tell the waiters that nothing is heard.
    TellDeaf,
    /// Pause until then.
    Pause { until: Time },
    /// Nobody wants to hear anything.
    End,
}

impl Subscriber {
    pub(crate) const fn new() -> Self {
        Self { state: SubscriberState::Connecting, tries: 0 }
    }

    /// Returns the driver's next step. The answer changes with each call, with each event, and with time.
    pub(crate) fn poll(&mut self, now: Time) -> SubscriberStep {
        match &mut self.state {
            SubscriberState::Hearing { until } if *until <= now => {
                self.state = SubscriberState::Looking { anew: false }
            }
            SubscriberState::Pausing { until, .. } if *until <= now => {
                self.state = SubscriberState::Connecting
            }
            _ => {}
        }
        match &mut self.state {
            SubscriberState::Connecting => SubscriberStep::Connect,
            SubscriberState::Looking { anew } => SubscriberStep::Look { anew: *anew },
            SubscriberState::Subscribing(changes) => {
                SubscriberStep::Subscribe(changes.subscribe.clone())
            }
            SubscriberState::Confirmed(changes) => {
                let Changes { subscribe, unsubscribe } = std::mem::take(changes);
                // A wake-up that came before the confirmation went unheeded.
                let look_again = true.if_off(Mechanism::UnheededChangesAreLookedAt, false);
                self.state = SubscriberState::Unsubscribing { channels: unsubscribe, look_again };
                SubscriberStep::TellListening(subscribe)
            }
            SubscriberState::Unsubscribing { channels, look_again } => {
                let (channels, look_again) = (std::mem::take(channels), *look_again);
                self.state = match look_again {
                    true => SubscriberState::Looking { anew: false },
                    false => SubscriberState::Hearing { until: now.after(LOOK_EVERY) },
                };
                SubscriberStep::Unsubscribe(channels)
            }
            SubscriberState::Hearing { until } => SubscriberStep::Hear { until: *until },
            SubscriberState::Deaf { until } => {
                self.state = SubscriberState::Pausing { until: *until, look_at: now };
                SubscriberStep::TellDeaf
            }
            SubscriberState::Pausing { look_at, .. } if *look_at <= now => {
                SubscriberStep::Look { anew: false }
            }
            SubscriberState::Pausing { until, look_at } => {
                SubscriberStep::Pause { until: *until.min(look_at) }
            }
            SubscriberState::Ended => SubscriberStep::End,
        }
    }

    /// Handles a new connection.
    pub(crate) fn handle_connected(&mut self) {
        self.state = SubscriberState::Looking { anew: true };
    }

    /// Handles the changes of the channels; `None`: nobody wants to hear anything.
    pub(crate) fn handle_changes(&mut self, changes: Option<Changes>, now: Time) {
        // The connection leads to the node's server. Otherwise the driver would have found out before, and would connect again.
        if !matches!(self.state, SubscriberState::Pausing { .. }) {
            self.tries = 0;
        }
        self.state = match (changes, &self.state) {
            (None, _) => SubscriberState::Ended,
            // The next connection begins with all channels that exist then.
            (Some(_), SubscriberState::Pausing { until, .. }) => {
                SubscriberState::Pausing { until: *until, look_at: now.after(LOOK_EVERY) }
            }
            (Some(Changes { subscribe, unsubscribe }), _) if subscribe.is_empty() => {
                SubscriberState::Unsubscribing { channels: unsubscribe, look_again: false }
            }
            (Some(changes), _) => SubscriberState::Subscribing(changes),
        };
    }

    /// Handles the node's confirmation of all channels that it was asked for.
    pub(crate) fn handle_confirmed(&mut self) {
        if let SubscriberState::Subscribing(changes) = &mut self.state {
            self.state = SubscriberState::Confirmed(std::mem::take(changes));
        }
    }

    /// Handles a message that there are changes, or one on a channel that need not be heard any longer.
    pub(crate) fn handle_woken(&mut self) {
        if let SubscriberState::Hearing { .. } = self.state {
            self.state = SubscriberState::Looking { anew: false };
        }
    }

    /// Handles a failed or broken connection. The pause is picked by `random`, which is in `0.0..1.0`.
    pub(crate) fn handle_broken(&mut self, random: f64, now: Time) {
        self.is_deaf(now.after(RECONNECT.pause(self.tries, random)));
    }

    /// Handles the server's refusal to let us listen.
    pub(crate) fn handle_refused(&mut self, now: Time) {
        self.is_deaf(now.after(REFUSED));
    }

    fn is_deaf(&mut self, until: Time) {
        if !matches!(
            self.state,
            SubscriberState::Deaf { .. } | SubscriberState::Pausing { .. } | SubscriberState::Ended
        ) {
            self.tries = self.tries.saturating_add(1);
            self.state = SubscriberState::Deaf { until };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::base::without;
    use super::*;

    use SubscriberStep::{
        Connect, End, Hear, Look, Pause, Subscribe, TellDeaf, TellListening, Unsubscribe,
    };

    fn at(ms: u64) -> Time {
        Time::from_start(Duration::from_millis(ms))
    }

    fn names(names: &[&str]) -> Vec<Vec<u8>> {
        names.iter().map(|name| name.as_bytes().to_vec()).collect()
    }

    fn changes(subscribe: &[&str], unsubscribe: &[&str]) -> Option<Changes> {
        Some(Changes { subscribe: names(subscribe), unsubscribe: names(unsubscribe) })
    }

    /// A subscriber that has heard "a" from the start.
    fn hearing() -> Subscriber {
        let mut subscriber = Subscriber::new();
        assert_eq!(subscriber.poll(at(0)), Connect);
        subscriber.handle_connected();
        assert_eq!(subscriber.poll(at(0)), Look { anew: true });
        subscriber.handle_changes(changes(&["a"], &[]), at(0));
        assert_eq!(subscriber.poll(at(0)), Subscribe(names(&["a"])));
        subscriber.handle_confirmed();
        assert_eq!(subscriber.poll(at(0)), TellListening(names(&["a"])));
        assert_eq!(subscriber.poll(at(0)), Unsubscribe(names(&[])));
        assert_eq!(subscriber.poll(at(0)), Look { anew: false });
        subscriber.handle_changes(changes(&[], &[]), at(0));
        assert_eq!(subscriber.poll(at(0)), Unsubscribe(names(&[])));
        assert_eq!(subscriber.poll(at(0)), Hear { until: at(250) });
        subscriber
    }

    #[test]
    fn it_looks_at_the_changes_when_it_is_woken_and_now_and_then() {
        let mut subscriber = hearing();
        assert_eq!(subscriber.poll(at(249)), Hear { until: at(250) });
        assert_eq!(subscriber.poll(at(250)), Look { anew: false });
        subscriber.handle_changes(changes(&[], &["a"]), at(250));
        assert_eq!(subscriber.poll(at(250)), Unsubscribe(names(&["a"])));
        assert_eq!(subscriber.poll(at(250)), Hear { until: at(500) });
        subscriber.handle_woken();
        assert_eq!(subscriber.poll(at(251)), Look { anew: false });
        subscriber.handle_changes(None, at(251));
        assert_eq!(subscriber.poll(at(251)), End);
        subscriber.handle_broken(0.0, at(252));
        assert_eq!(subscriber.poll(at(252)), End, "it ends once");
    }

    /// A wake-up that comes before the confirmation goes unheeded.
    #[test]
    fn it_looks_again_once_the_node_has_confirmed() {
        let looks_again = |mut subscriber: Subscriber| {
            subscriber.handle_woken();
            subscriber.handle_changes(changes(&["b"], &["a"]), at(1));
            assert_eq!(subscriber.poll(at(1)), Subscribe(names(&["b"])));
            subscriber.handle_woken();
            assert_eq!(subscriber.poll(at(1)), Subscribe(names(&["b"])), "nothing else is done");
            subscriber.handle_confirmed();
            assert_eq!(subscriber.poll(at(2)), TellListening(names(&["b"])));
            assert_eq!(subscriber.poll(at(2)), Unsubscribe(names(&["a"])));
            subscriber.poll(at(2)) == Look { anew: false }
        };
        let (with_it, without_it) = (hearing(), hearing());
        assert!(looks_again(with_it));
        assert!(!without(&[Mechanism::UnheededChangesAreLookedAt], || looks_again(without_it)));
    }

    /// The pauses grow until a connection leads to the node's server. All channels are asked for anew.
    #[test]
    fn it_connects_again_after_a_pause_in_which_it_may_end() {
        let mut subscriber = hearing();
        for (random, pause) in [(0.0, 20), (1.0, 40), (1.0, 80)] {
            subscriber.handle_broken(random, at(100));
            assert_eq!(subscriber.poll(at(100)), TellDeaf);
            subscriber.handle_broken(1.0, at(100));
            assert_eq!(subscriber.poll(at(100)), Look { anew: false }, "it breaks once");
            subscriber.handle_changes(changes(&["b"], &[]), at(100));
            assert_eq!(subscriber.poll(at(100)), Pause { until: at(100 + pause) });
            assert_eq!(subscriber.poll(at(100 + pause)), Connect);
        }
        let connects_and_breaks =
            |subscriber: &mut Subscriber, leads_elsewhere: bool, pause: u64| {
                subscriber.handle_connected();
                assert_eq!(subscriber.poll(at(200)), Look { anew: true });
                if !leads_elsewhere {
                    subscriber.handle_changes(changes(&[], &[]), at(200));
                    assert_eq!(subscriber.poll(at(200)), Unsubscribe(names(&[])));
                }
                subscriber.handle_broken(1.0, at(200));
                assert_eq!(subscriber.poll(at(200)), TellDeaf);
                subscriber.handle_changes(changes(&[], &[]), at(200));
                assert_eq!(subscriber.poll(at(200)), Pause { until: at(200 + pause) });
                assert_eq!(subscriber.poll(at(200 + pause)), Connect);
            };
        connects_and_breaks(&mut subscriber, true, 160);
        connects_and_breaks(&mut subscriber, false, 20);
    }

    #[test]
    fn a_server_that_refuses_is_asked_again_after_ten_seconds() {
        let mut subscriber = hearing();
        subscriber.handle_refused(at(0));
        assert_eq!(subscriber.poll(at(0)), TellDeaf);
        for look in (0..10_000).step_by(250) {
            assert_eq!(subscriber.poll(at(look)), Look { anew: false });
            subscriber.handle_changes(changes(&[], &[]), at(look));
            assert_eq!(subscriber.poll(at(look)), Pause { until: at(look + 250) });
        }
        assert_eq!(subscriber.poll(at(10_000)), Connect);
        subscriber.handle_refused(at(10_000));
        assert_eq!(subscriber.poll(at(10_000)), TellDeaf);
        subscriber.handle_changes(None, at(10_000));
        assert_eq!(subscriber.poll(at(10_000)), End, "nobody waits any more");
    }
}
