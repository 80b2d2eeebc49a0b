//! The thread that listens to one node while any caller waits for something there.

use std::sync::Arc;
use std::time::Duration;

use super::address::Address;
use super::listening::{Deaf, Listening, Message};
use super::look::look;
use super::set::NodeSet;
use crate::clock;
use crate::core::wake::{Changes, Subscriber, SubscriberStep};
use crate::error::NodeFault;
use crate::random::random;

/// The receiver of published messages. It is called on the subscribers' threads, so it must be quick and
/// never block.
pub(crate) trait Listeners: Send + Sync {
    /// Returns the changes for that node since the last call; on a new connection (`anew`), everything
    /// there is. `None`: no caller wants to hear anything, and the thread ends.
    fn changes(&self, node: usize, anew: bool) -> Option<Changes>;

    /// Reports that the node has confirmed these channels: it sends all messages on them from now on.
    fn listening(&self, node: usize, channels: &[Vec<u8>]);

    /// Reports that messages of the node are not heard any more.
    fn deaf(&self, node: usize);

    /// Takes a message that was published on `channel`. Returns true if the channel need not be heard any longer.
    fn heard(&self, node: usize, channel: &[u8], text: &[u8]) -> bool;

    /// Reports that the node does not let us listen.
    fn refused(&self, node: usize, fault: &NodeFault);
}

/// The thread that carries the [`Subscriber`] of one node.
pub(super) struct SubscriberThread {
    pub(super) node: usize,
    pub(super) address: Address,
    pub(super) timeout: Duration,
    /// Messages on this channel only say that there are changes.
    pub(super) wake_channel: Vec<u8>,
    pub(super) set: Arc<NodeSet>,
    pub(super) listeners: Arc<dyn Listeners>,
}

impl SubscriberThread {
    /// Listens until no caller wants to hear anything any more.
    pub(super) fn run(self) {
        let (mut machine, mut listening) = (Subscriber::new(), None);
        loop {
            let step = machine.poll(clock::now());
            if step == SubscriberStep::End {
                return;
            }
            let Err(deaf) = self.carry_out(step, &mut machine, &mut listening) else { continue };
            listening = None;
            match deaf {
                Deaf::Broken => machine.handle_broken(random(), clock::now()),
                Deaf::Refused(fault) => {
                    self.listeners.refused(self.node, &fault);
                    machine.handle_refused(clock::now());
                }
            }
        }
    }

    fn carry_out(
        &self,
        step: SubscriberStep,
        machine: &mut Subscriber,
        listening: &mut Option<Listening>,
    ) -> Result<(), Deaf> {
        match (step, listening) {
            (SubscriberStep::Connect, listening) => {
                *listening = Some(self.connect()?);
                machine.handle_connected();
            }
            (SubscriberStep::Look { .. }, Some(listening))
                if self.set.is_another_server(self.node, listening.run_id()) =>
            {
                // The address leads to another server by now. The connection to the earlier one may live on.
                return Err(Deaf::Broken);
            }
            (SubscriberStep::Look { anew }, _) => {
                let changes = self.listeners.changes(self.node, anew);
                machine.handle_changes(changes, clock::now());
            }
            (SubscriberStep::Subscribe(channels), Some(listening)) => {
                listening.subscribe(&channels, |message| _ = self.hear(&message))?;
                machine.handle_confirmed();
            }
            (SubscriberStep::TellListening(channels), _) => {
                self.listeners.listening(self.node, &channels);
            }
            (SubscriberStep::Unsubscribe(channels), Some(listening)) => {
                listening.unsubscribe(&channels)?;
            }
            (SubscriberStep::Hear { until }, Some(listening)) => {
                let Some(left) = clock::slice(until) else { return Ok(()) };
                match listening.next(left)? {
                    Some(message) if message.channel == self.wake_channel => machine.handle_woken(),
                    Some(message) if self.hear(&message) => machine.handle_woken(),
                    Some(_) | None => {}
                }
            }
            (SubscriberStep::TellDeaf, _) => self.listeners.deaf(self.node),
            (SubscriberStep::Pause { until }, _) => clock::sleep(until.since(clock::now())),
            (_, None) => return Err(Deaf::Broken),
            (SubscriberStep::End, _) => {}
        }
        Ok(())
    }

    fn connect(&self) -> Result<Listening, Deaf> {
        // The node's worker reports its faults.
        let connection =
            look(&self.address, self.timeout, &self.set, self.node).map_err(|_| Deaf::Broken)?;
        let mut listening = Listening::new(connection, self.timeout);
        listening.subscribe(std::slice::from_ref(&self.wake_channel), |_| ())?;
        Ok(listening)
    }

    /// Returns true if the message's channel need not be heard any longer.
    fn hear(&self, Message { channel, text }: &Message) -> bool {
        self.listeners.heard(self.node, channel, text)
    }
}
