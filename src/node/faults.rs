//! What is wrong with a node, in words that say what to do.

use redis::{ErrorKind, RedisError};

use super::address::Address;
#[cfg(feature = "tls")]
use super::tls;
use super::wire::Unread;
use crate::error::NodeFault;
use crate::manual;

pub(super) fn not_redis(address: &Address) -> NodeFault {
    let what = "what answers there does not speak the Redis protocol; check host and port (a port \
                that wants TLS looks like this, too)";
    NodeFault::new(address.shown(), what)
}

#[cfg(feature = "tls")]
pub(super) fn tls_fault(error: &RedisError) -> Option<String> {
    tls::fault(error)
}

#[cfg(not(feature = "tls"))]
pub(super) fn tls_fault(_: &RedisError) -> Option<String> {
    None
}

const CLOSED_IN_HANDSHAKE: &str = "the server closed the connection in the TLS handshake; if it \
                                   wants a client certificate, set tls_client_cert, and check \
                                   whether the port is one for TLS";

/// It could not be connected to, or did not let us log in.
pub(super) fn connect_fault(address: &Address, unread: Unread) -> NodeFault {
    let error = match unread {
        Unread::Excess(what) => return excess(address, &what),
        Unread::Failed(error) => error,
    };
    let what = if let Some(what) = tls_fault(&error) {
        what
    } else if error.is_connection_refusal() {
        "connection refused; is the server running, and the port right?".to_owned()
    } else if error.is_timeout() {
        "no answer to the connection in time; is the host reachable, the server not hung, and the \
         port one for TLS just if the URL says so?"
            .to_owned()
    } else if error.is_connection_dropped() && address.is_tls() {
        CLOSED_IN_HANDSHAKE.to_owned()
    } else if error.kind() == ErrorKind::Parse {
        return not_redis(address);
    } else {
        format!("cannot connect ({error}); check host and port")
    };
    NodeFault::caused_by(address.shown(), what, error)
}

/// A connection that worked broke: in the TLS handshake, if so; or with an answer that had begun.
pub(super) fn broken_fault(
    address: &Address,
    unread: Unread,
    shaking_hands: bool,
    has_begun: bool,
) -> NodeFault {
    let error = match unread {
        Unread::Excess(what) => return excess(address, &what),
        Unread::Failed(error) => error,
    };
    let silent = error.is_timeout();
    let what = if error.kind() == ErrorKind::Parse {
        return not_redis(address);
    } else if silent && shaking_hands {
        "no answer to the TLS handshake in time; check that the port is one for TLS, and that the \
         server does not hang"
            .to_owned()
    } else if silent && has_begun {
        "its answer began, and was not complete in time; the server or the network is too slow, or \
         something in between holds it up"
            .to_owned()
    } else if silent {
        "no answer in time; the server hangs or is overloaded, or the network is cut".to_owned()
    } else if let Some(what) = tls_fault(&error) {
        what
    } else if error.is_connection_dropped() && shaking_hands {
        CLOSED_IN_HANDSHAKE.to_owned()
    } else {
        format!("the connection broke ({error}); was the server stopped?")
    };
    NodeFault::caused_by(address.shown(), what, error)
}

/// What it answered has no place in an answer to us.
fn excess(address: &Address, what: &str) -> NodeFault {
    let what = format!(
        "{what}, which none of a Redis server to quorlock is; is something else than Redis, or a \
         proxy, in between?"
    );
    NodeFault::new(address.shown(), what)
}

pub(super) fn server_fault(address: &Address, error: RedisError) -> NodeFault {
    let what = match error.code() {
        Some("NOAUTH" | "WRONGPASS") => WRONG_LOGIN.to_owned(),
        Some("NOPERM") => needs_permission(&error),
        Some("ERR") if error.detail().is_some_and(is_refused_in_script) => needs_permission(&error),
        Some("READONLY") => format!("the server is a replica, not a master ({error})"),
        Some("LOADING") => "the server is still loading its data; it will answer soon".to_owned(),
        Some("MOVED" | "ASK" | "CROSSSLOT" | "CLUSTERDOWN") => CLUSTER.to_owned(),
        Some("OOM") => format!("the server is out of memory ({error}); raise maxmemory"),
        _ => format!("the server answered with an error: {error}"),
    };
    NodeFault::caused_by(address.shown(), what, error)
}

fn needs_permission(error: &RedisError) -> String {
    format!(
        "the user lacks a permission ({error}); it needs those listed at {}",
        manual::ACCESS_LISTS
    )
}

/// Servers have no code for what their access list refuses to a script.
fn is_refused_in_script(detail: &str) -> bool {
    ["executing the script can't", "ACL failure in script"].iter().any(|says| detail.contains(says))
}

pub(super) const WRONG_LOGIN: &str =
    "the server refused the login; check user and password in the URL";

pub(super) const CLUSTER: &str = "the server is part of a Redis Cluster, where a lock and the node's mark would \
                       be on different servers; name independent masters";
