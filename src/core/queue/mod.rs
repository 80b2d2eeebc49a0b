//! The callers of one client that want one lock.
//!
//! It decides which of them asks the nodes, who is handed the lock of another thread or joins it, who takes again what it holds, and
//! whether the lock is left to other processes first.
//!
//! It knows leases (`hold`) and how an attempt has ended. It knows nothing of nodes and messages.

mod fairness;
mod local_queue;
mod local_queues;
mod self_wait;
mod thread_holds;

pub(crate) use local_queue::{Askers, LocalLease, Place, QueueTicket, Turn, Wake};
pub(crate) use local_queues::{LocalQueues, OfThread, Passed};
pub(crate) use self_wait::SelfWait;
pub(crate) use thread_holds::{Again, ThreadHolds};
