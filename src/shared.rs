//! What the clones of one client share, and the handles that it gives out.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::clock;
use crate::node::Node;
use crate::runtime::coordinator::Coordinator;
use crate::runtime::exit;

/// Ends with the last clone, while guards may keep the coordinator alive for longer.
pub(crate) struct Shared {
    pub(crate) coordinator: Arc<Coordinator>,
    /// Whether its end waits for the releases that are queued. Not once it was closed.
    pub(crate) waits: AtomicBool,
    /// Those that were started along with this client, and end after it.
    #[cfg(feature = "embedded")]
    pub(crate) nodes: std::sync::OnceLock<crate::embedded::Nodes>,
}

impl Drop for Shared {
    fn drop(&mut self) {
        if !self.coordinator.process.is_this() {
            // It is the parent's, and never dropped here.
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
