//! What this program does when it is started once more.

use crate::host;

/// Something that a helper process can do.
#[derive(Debug)]
pub(crate) struct Role {
    pub(crate) name: &'static str,
    pub(crate) run: fn(),
}

/// Does what `name` says, and returns.
pub(crate) fn play(name: &str) {
    assert_eq!(name, host::HOST.name, "the only role there is");
    (host::HOST.run)();
}
