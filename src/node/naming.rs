//! The names by which operators see a connection in the server's list of them (`CLIENT LIST`).
//!
//! No lock needs them, so a login goes on without them. A server writes what an access list refuses to a log (`ACL LOG`), so a client
//! asks for a name again only if it was not refused.

use std::sync::atomic::{AtomicBool, Ordering};

/// The names of all connections of a client to one node.
#[derive(Debug)]
pub(super) struct Naming {
    client: String,
    setname_is_refused: AtomicBool,
    setinfo_is_refused: AtomicBool,
}

impl Naming {
    /// The names for a client with that owner label. Servers accept no blanks in them.
    pub(super) fn of(label: Option<&str>) -> Self {
        let client = label.map(|label| format!("quorlock/{}", label.replace(' ', "-")));
        Self {
            client: client.unwrap_or_else(|| "quorlock".to_owned()),
            setname_is_refused: AtomicBool::new(false),
            setinfo_is_refused: AtomicBool::new(false),
        }
    }

    /// Appends the command that names the connection. Returns false if the server is known to refuse it.
    pub(super) fn write_name(&self, buffer: &mut Vec<u8>) -> bool {
        let is_asked = !self.setname_is_refused.load(Ordering::Relaxed);
        if is_asked {
            redis::cmd("CLIENT").arg("SETNAME").arg(&self.client).write_packed_command(buffer);
        }
        is_asked
    }

    /// Notes that the user may not name connections.
    pub(super) fn setname_is_refused(&self) {
        self.setname_is_refused.store(true, Ordering::Relaxed);
    }

    /// Appends the commands that name the library and its version, and returns their number. There are none if the server is known
    /// to refuse them.
    pub(super) fn write_library(&self, buffer: &mut Vec<u8>) -> usize {
        if self.setinfo_is_refused.load(Ordering::Relaxed) {
            return 0;
        }
        let names = [("LIB-NAME", env!("CARGO_PKG_NAME")), ("LIB-VER", env!("CARGO_PKG_VERSION"))];
        for (what, name) in names {
            let mut command = redis::cmd("CLIENT");
            command.arg("SETINFO").arg(what).arg(name).write_packed_command(buffer);
        }
        names.len()
    }

    /// Notes that the user may not name the library.
    pub(super) fn setinfo_is_refused(&self) {
        self.setinfo_is_refused.store(true, Ordering::Relaxed);
    }
}
