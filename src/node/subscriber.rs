//! The thread that listens to one node, while somebody waits for something there.

use std::sync::Arc;
use std::time::Duration;

use super::address::Address;
use super::connection::Connection;
use super::listening::{Deaf, Listening, Message};
use crate::clock;
use crate::core::Changes;
use crate::core::channels::{LOOK_EVERY, RECONNECT};
use crate::error::NodeFault;
use crate::random::random;

/// How long after a server has refused to be listened to it is asked again: rules are changed by people.
const REFUSED: Duration = Duration::from_secs(10);

/// What hears the published messages. Called on the subscribers' threads, so it must be quick and
/// never block.
pub(crate) trait Listeners: Send + Sync {
    /// What has changed since this was asked last for that node; on a new connection (`anew`), all that
    /// there is. `None`: nobody wants to hear anything, and the thread ends.
    fn changes(&self, node: usize, anew: bool) -> Option<Changes>;

    /// The node confirms that it will tell what is published on these channels from now on.
    fn listening(&self, node: usize, channels: &[Vec<u8>]);

    /// What the node publishes is not heard any more.
    fn deaf(&self, node: usize);

    /// `text` was published there.
    fn heard(&self, node: usize, channel: &[u8], text: &[u8]);

    /// The node does not let us listen.
    fn refused(&self, node: usize, fault: &NodeFault);
}

pub(super) struct Subscriber {
    pub(super) node: usize,
    pub(super) address: Address,
    pub(super) timeout: Duration,
    /// Messages on this channel say no more than that there are changes.
    pub(super) wake_channel: Vec<u8>,
    pub(super) listeners: Arc<dyn Listeners>,
}

impl Subscriber {
    /// Listens until nobody wants to hear anything any more.
    pub(super) fn run(self) {
        let mut tries = 0;
        loop {
            let pause = match self.listen(&mut tries) {
                Ok(()) => return,
                Err(Deaf::Broken) => RECONNECT.pause(tries, random()),
                Err(Deaf::Refused(fault)) => {
                    self.listeners.refused(self.node, &fault);
                    REFUSED
                }
            };
            self.listeners.deaf(self.node);
            tries = tries.saturating_add(1);
            let until = clock::now().after(pause);
            while clock::now() < until {
                if self.listeners.changes(self.node, false).is_none() {
                    return;
                }
                clock::sleep(until.since(clock::now()).min(LOOK_EVERY));
            }
        }
    }

    fn listen(&self, tries: &mut u32) -> Result<(), Deaf> {
        // Its worker tells what is wrong with a node.
        let connection = Connection::open(&self.address, self.timeout).map_err(|_| Deaf::Broken)?;
        let mut listening = Listening::new(connection, self.timeout);
        listening.subscribe(std::slice::from_ref(&self.wake_channel), |_| ())?;
        *tries = 0;
        let mut anew = true;
        while let Some(changes) = self.listeners.changes(self.node, anew) {
            anew = false;
            self.make(&mut listening, &changes)?;
            if !changes.subscribe.is_empty() {
                // A wake-up that came before the confirmation went unheeded.
                continue;
            }
            let look_at = clock::now().after(LOOK_EVERY);
            while let Some(left) = clock::slice(look_at) {
                match listening.next(left)? {
                    Some(Message { channel, text }) if channel != self.wake_channel => {
                        self.listeners.heard(self.node, &channel, &text);
                    }
                    _ => break,
                }
            }
        }
        Ok(())
    }

    fn make(&self, listening: &mut Listening, changes: &Changes) -> Result<(), Deaf> {
        let Changes { subscribe, unsubscribe } = changes;
        if !subscribe.is_empty() {
            let heard = |Message { channel, text }: Message| {
                self.listeners.heard(self.node, &channel, &text);
            };
            listening.subscribe(subscribe, heard)?;
            self.listeners.listening(self.node, subscribe);
        }
        listening.unsubscribe(unsubscribe)
    }
}
