//! The roles of this program when it is started as a helper process.

use crate::host;

/// A task of a helper process.
#[derive(Debug)]
pub(crate) struct Role {
    pub(crate) name: &'static str,
    pub(crate) run: fn(),
}

/// Plays the role with that name, and returns.
pub(crate) fn play(name: &str) {
    assert_eq!(name, host::HOST.name, "the only role there is");
    (host::HOST.run)();
}
