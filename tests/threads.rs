//! What the types promise to threads.

use quorlock::{Builder, Error, Guard, Mutex, Quorlock};

fn sent<T: Send + 'static>() {}
fn shared<T: Send + Sync + Clone + 'static>() {}

#[test]
fn clients_are_shared_and_guards_are_sent() {
    shared::<Quorlock>();
    shared::<Mutex>();
    shared::<Builder>();
    shared::<Error>();
    sent::<Guard>();
}
