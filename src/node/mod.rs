//! The nodes: one worker thread, one bounded mailbox and one connection for each Redis master.
//!
//! This is the only part of the crate that knows the `redis` crate. It carries requests and answers and
//! knows nothing of votes; the callers interpret the answers.

mod address;
mod addresses;
mod admission_view;
mod batch;
mod connection;
mod credentials;
mod disagreement;
mod driven;
mod driver;
mod faults;
mod fitness;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzzing;
mod handle;
#[cfg(feature = "diagnosis")]
mod inspection;
mod job;
mod listening;
mod login;
mod look;
mod looks;
mod mailbox;
mod naming;
mod offers;
mod opening;
mod question;
mod quote;
mod reader;
mod recall;
mod replicas;
mod request;
#[cfg(feature = "diagnosis")]
mod rights;
mod set;
mod shared;
mod status;
mod steps;
mod subscriber;
mod surroundings;
#[cfg(feature = "tls")]
mod tls;
mod url_parts;
#[cfg(unix)]
mod waker;
mod wire;
mod worker;

pub(crate) use address::Address;
#[cfg(all(test, feature = "embedded"))]
pub(crate) use batch::{answers as read_answers, eval};
#[cfg(feature = "diagnosis")]
pub(crate) use disagreement::SEVERAL_SERVERS;
pub(crate) use driven::{Carried, Driven};
pub(crate) use handle::Node;
#[cfg(feature = "diagnosis")]
pub(crate) use inspection::{
    AttachedReplicas, Facts, Inspection, Memory, Persistence, node_states,
};
pub(crate) use job::{Answer, Ask, Sink, Undelivered};
#[cfg(all(test, feature = "embedded"))]
pub(crate) use question::{OF_SERVER, Question, identity, read as read_probe};
pub(crate) use replicas::Replicas;
pub(crate) use request::{Part, Request, RequestBuilder, Script, Value};
#[cfg(feature = "diagnosis")]
pub(crate) use rights::{Refusal, Refused, Serves};
pub(crate) use set::NodeSet;
pub(crate) use subscriber::Listeners;
#[cfg(feature = "tls")]
pub(crate) use tls::{Certificates, Pem};
