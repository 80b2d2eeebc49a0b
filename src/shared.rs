//! The state that the clones of one client and their handles share.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::clock;
use crate::node::Node;
use crate::runtime::coordinator::Coordinator;
use crate::runtime::exit;

/// Ends with the last clone, while guards may keep the coordinator alive for longer.
pub(crate) struct Shared {
    pub(crate) coordinator: Arc<Coordinator>,
    /// True if the end of this value waits for the queued releases. False once the client was closed.
    pub(crate) waits: AtomicBool,
    /// The nodes that were started along with this client. They end after it.
    #[cfg(feature = "embedded")]
    pub(crate) nodes: std::sync::OnceLock<crate::embedded::Nodes>,
}

impl Drop for Shared {
    fn drop(&mut self) {
        if !self.coordinator.process.is_this() {
            // The coordinator is the parent's, and never dropped in the child.
            std::mem::forget(self.coordinator.clone());
            #[cfg(feature = "embedded")]
            std::mem::forget(self.nodes.get().cloned());
        } else if *self.waits.get_mut() {
            let until = clock::now().after(self.coordinator.settings().flush_timeout());
            self.coordinator.nodes().iter().for_each(Node::hurry);
            exit::flush(self.coordinator.unanswered(), until);
        }
    }
}
