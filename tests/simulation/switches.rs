//! Mechanisms that are switched off in a run, to show that they are needed.

use std::time::Duration;

use crate::core::acquire::{Priority, Reservation, Waits};
use crate::core::base::Mechanism;
use crate::core::vote::Permits;
use crate::kinds::contract::reservations::withdraw_request;
use crate::kinds::contract::values::{Claimant, Fence, Raise, Repair};
use crate::kinds::{KINDS, names};
use crate::node::{Question, eval};

#[derive(Clone, Copy, Debug)]
pub(super) struct Switches {
    /// The mechanisms of the machines that are off.
    pub(super) off: &'static [Mechanism],
    /// A piece of a script, and its replacement.
    pub(super) script: Option<(&'static str, &'static str)>,
    /// True if a probe reads which server answers before it reads the mark.
    pub(super) info_first: bool,
    /// True if grants of a lost attempt are not given back: a fault of other libraries.
    pub(super) keeps_lost_attempts: bool,
    /// The active checkers; all, if none is named.
    pub(super) checkers: &'static [&'static str],
}

impl Switches {
    /// The shipped state.
    pub(super) const ALL_ON: Self = Self {
        off: &[],
        script: None,
        info_first: false,
        keeps_lost_attempts: false,
        checkers: &[],
    };

    /// The call of a script under these switches.
    pub(super) fn applied(&self, mut command: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
        if let Some((piece, instead)) = self.script {
            let source = String::from_utf8_lossy(&command[1]).replace(piece, instead);
            command[1] = source.into_bytes();
        }
        command
    }

    /// Returns true if the piece occurs in any of the scripts, or if there is none.
    pub(super) fn is_real(&self) -> bool {
        let ttl = Duration::from_secs(1);
        let fence = Some(Fence { number: 1, up_to: 1 });
        let mark = b"{quorlock}:mark";
        let priority = Priority { began_ms: 1, id: 1 };
        let reservation = Some(Reservation { priority, lasts: ttl, beside_sharers: false });
        let waits = Waits { lasts: ttl, ticket: Some(1), reservation };
        let repair = Repair { until_ms: 0, mark_key: mark, quarantine: true, fence };
        let names = names(&[b"key"]);
        let commands = KINDS.iter().flat_map(|kind| {
            let permits = Permits { slots: [0].into_iter().collect(), of: 1 };
            let owner = Claimant { owner: "owner", permits };
            let calls = [
                kind.acquire(&names, mark, owner, ttl, waits, Some(1)),
                kind.extend(&names, owner, ttl, repair),
                kind.release(&names, owner, None, None),
                kind.release(&names, owner, None, Some(Raise { to: 2, lasts: ttl })),
            ];
            let batch = calls[2].script().batch();
            let confirm = kind.confirm(&names, "owner", 1).map(|call| call.eval(""));
            let batch = batch.map(|(_, batch)| eval(&[&calls[2]; 5], Some(batch), (mark, "")));
            let leave = kind.leave_queue(&names, "caller").map(|call| call.eval(""));
            calls
                .iter()
                .map(|call| call.eval(""))
                .chain(batch)
                .chain(confirm)
                .chain(leave)
                .chain([withdraw_request(&names, priority).eval("")])
                .collect::<Vec<_>>()
        });
        let commands = commands.chain([Question::new(mark, None).request.eval("")]);
        let mut commands = commands.map(|command| self.applied(command.clone()) != command);
        self.script.is_none() || commands.any(|differs| differs)
    }
}
