//! Leader election: of all candidates for a name, one leads at a time.

mod away;
mod campaign;
mod candidate;
mod leadership;
mod observer;

pub use campaign::Election;
pub use candidate::Candidate;
pub use leadership::{Leadership, Leaving};
pub use observer::{Leader, Observer};
