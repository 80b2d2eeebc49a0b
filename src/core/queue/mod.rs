//! The callers of one client that want one lock.
//!
//! The module decides which caller asks the nodes, which one is handed or joins another thread's lease, which thread takes again
//! a lock that it holds, and whether the lock is left to other processes first.
//!
//! It knows leases (`hold`) and the end of an attempt. It knows nothing of nodes and messages.

mod fairness;
mod key;
mod local_queue;
mod local_queues;
mod self_wait;
mod thread_holds;

pub(crate) use key::QueueKey;
pub(crate) use local_queue::{Askers, LocalLease, Place, QueueTicket, Turn, Wake};
pub(crate) use local_queues::{LocalQueues, OfThread, Passed};
pub(crate) use self_wait::SelfWait;
pub(crate) use thread_holds::{Again, ThreadHolds};
