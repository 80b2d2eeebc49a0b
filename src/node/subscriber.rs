//! The thread that listens to one node, while somebody waits for something there.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use super::address::Address;
use super::connection::Connection;
use super::listening::{Deaf, Listening, Message};
use crate::clock;
use crate::core::Backoff;
use crate::error::NodeFault;
use crate::random::random;

/// How long a subscriber sleeps at most before it checks what it has to listen to. As a rule it is
/// woken; but the node may not let us publish, or be too slow.
const CHECK: Duration = Duration::from_millis(250);

const RECONNECT: Backoff =
    Backoff { min: Duration::from_millis(20), max: Duration::from_millis(1_000) };

/// How long after a server has refused to be listened to it is asked again: rules are changed by people.
const REFUSED: Duration = Duration::from_secs(10);

/// What a subscriber has to do.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    pub(crate) subscribe: Vec<Vec<u8>>,
    pub(crate) unsubscribe: Vec<Vec<u8>>,
}

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
                clock::sleep(until.since(clock::now()).min(CHECK));
            }
        }
    }

    fn listen(&self, tries: &mut u32) -> Result<(), Deaf> {
        // Its worker tells what is wrong with a node.
        let Ok(connection) = Connection::open(&self.address, self.timeout) else {
            return match self.listeners.changes(self.node, false) {
                None => Ok(()),
                Some(_) => Err(Deaf::Broken),
            };
        };
        let mut listening = Listening::new(connection, self.timeout);
        listening.subscribe(std::slice::from_ref(&self.wake_channel), |_| ())?;
        *tries = 0;
        let mut anew = true;
        loop {
            if self.follow(&mut listening, anew)?.is_break() {
                return Ok(());
            }
            anew = false;
            let look_at = clock::now().after(CHECK);
            while let Some(left) = clock::slice(look_at) {
                match listening.next(left)? {
                    Some(Message { channel, text }) if channel != self.wake_channel => {
                        self.listeners.heard(self.node, &channel, &text);
                    }
                    _ => break,
                }
            }
        }
    }

    /// Makes the changes that are due.
    fn follow(&self, listening: &mut Listening, anew: bool) -> Result<ControlFlow<()>, Deaf> {
        let Some(Changes { subscribe, unsubscribe }) = self.listeners.changes(self.node, anew)
        else {
            return Ok(ControlFlow::Break(()));
        };
        if !subscribe.is_empty() {
            let heard = |Message { channel, text }: Message| {
                self.listeners.heard(self.node, &channel, &text);
            };
            listening.subscribe(&subscribe, heard)?;
            self.listeners.listening(self.node, &subscribe);
        }
        listening.unsubscribe(&unsubscribe)?;
        Ok(ControlFlow::Continue(()))
    }
}
