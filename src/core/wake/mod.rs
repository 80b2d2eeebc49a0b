//! The messages of nodes about releases.
//!
//! The module decides which channels a client listens to, which messages are news to which waiter, when a waiter tries again
//! after a message, and when a subscriber connects.
//!
//! It knows how the last attempt has ended (`vote`). It knows nothing of pauses and deadlines: see `acquire`.

pub(crate) mod channels;
mod release_tracker;
mod subscriber;

pub(crate) use channels::{Changes, Channels, QUEUED, WaiterId};
pub(crate) use release_tracker::{ReleaseTracker, WakeReason};
pub(crate) use subscriber::{Subscriber, SubscriberStep};
