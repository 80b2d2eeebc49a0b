//! What is switched off in a run, to see that it is missed.

use crate::quorum::Mechanisms;

#[derive(Clone, Copy, Debug)]
pub(super) struct Switches {
    /// The mechanisms of the machines.
    pub(super) mechanisms: Mechanisms,
    /// A piece of a script, and what stands there instead.
    pub(super) script: Option<(&'static str, &'static str)>,
    /// A fault of other libraries: what a lost attempt was granted is not given back.
    pub(super) keeps_lost_attempts: bool,
    /// The checkers that look; all, if none is named.
    pub(super) checkers: &'static [&'static str],
}

impl Switches {
    /// What ships.
    pub(super) const ALL_ON: Self = Self {
        mechanisms: Mechanisms::ALL,
        script: None,
        keeps_lost_attempts: false,
        checkers: &[],
    };

    /// The call of a script, as it is made under these switches.
    pub(super) fn applied(&self, mut command: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
        if let Some((piece, instead)) = self.script {
            let source = String::from_utf8_lossy(&command[1]).replace(piece, instead);
            command[1] = source.into_bytes();
        }
        command
    }
}
