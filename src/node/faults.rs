//! The faults of nodes, as messages that say what to do.

use std::error::Error as StdError;
#[cfg(unix)]
use std::fs::File;
use std::io;
use std::sync::Arc;

use redis::{ErrorKind, RedisError, ServerError};
#[cfg(unix)]
use rustix::io::Errno;

use super::address::Address;
use super::addresses::{NoThread, SlowLookup};
use super::quote::quoted;
use super::reader::Unread;
#[cfg(feature = "tls")]
use super::tls;
use crate::error::{Cause, NodeFault};
use crate::terms::{ACCESS_LISTS, PASSWORD, TLS_CLIENT_CERT};

pub(super) fn not_redis(address: &Address) -> NodeFault {
    let what = "the server there does not speak the Redis protocol; check host and port (a TLS port \
                looks like this, too)";
    NodeFault::new(address.shown(), what)
}

#[cfg(feature = "tls")]
pub(super) fn tls_fault(error: &RedisError) -> Option<(Cause, String)> {
    tls::fault(cause_of(error)?)
}

#[cfg(not(feature = "tls"))]
pub(super) fn tls_fault(_: &RedisError) -> Option<(Cause, String)> {
    None
}

fn closed_in_handshake() -> String {
    format!(
        "the server closed the connection in the TLS handshake; if it wants a client certificate, set \
         {TLS_CLIENT_CERT}; check whether the port is one for TLS, and whether the server's limit of connections \
         (maxclients) is reached"
    )
}

/// The fault of a connection without TLS that was closed before anything was read.
const CLOSED_AT_ONCE: &str = "the server closed the connection before it said anything. Either it is down \
                              behind a proxy, or its limit of connections (maxclients) is reached, or \
                              its port is one for TLS (then write rediss:// in the URL)";

/// The fault of a node to which we could not connect, or which did not let us log in.
pub(super) fn connect_fault(address: &Address, unread: Unread) -> NodeFault {
    let error = match unread {
        Unread::Excess(what) => return excess(address, &what),
        Unread::Failed(error) => error,
    };
    let what = if let Some((cause, what)) = tls_fault(&error) {
        return NodeFault::caused_by(cause, address.shown(), what);
    } else if let Some(what) = socket_fault(address, &error) {
        what
    } else if let Some(slow) = within::<SlowLookup>(&error) {
        format!("{slow}; check the resolver of this machine, or name the master by its IP address")
    } else if let Some(no_thread) = within::<NoThread>(&error) {
        format!(
            "{no_thread}; raise its limit (ulimit -u, or the limit of its container), or end unused threads"
        )
    } else if error.is_connection_refusal() {
        "connection refused; is the server running, and the port right?".to_owned()
    } else if error.is_timeout() {
        "no answer to the connection in time; is the host reachable, does the server hang, and do the \
         URL and the port agree on TLS?"
            .to_owned()
    } else if error.is_connection_dropped() {
        if address.is_tls() { closed_in_handshake() } else { CLOSED_AT_ONCE.to_owned() }
    } else if error.kind() == ErrorKind::Parse {
        return not_redis(address);
    } else if are_descriptors_used_up(&error) {
        "this process has no file descriptor left for a connection; raise its limit (ulimit -n), or close \
         unused ones"
            .to_owned()
    } else {
        format!("cannot connect ({error}); check host and port")
    };
    NodeFault::new(address.shown(), what)
}

/// Our own error inside the system's error.
fn within<T: StdError + 'static>(error: &RedisError) -> Option<&T> {
    cause_of(error)?.downcast_ref::<io::Error>()?.get_ref()?.downcast_ref()
}

/// Returns true if the connection could not be made for lack of file descriptors.
#[cfg(unix)]
fn are_descriptors_used_up(error: &RedisError) -> bool {
    let says_so = |error: &io::Error| {
        matches!(Errno::from_io_error(error), Some(Errno::MFILE | Errno::NFILE))
    };
    let error = cause_of(error).and_then(|cause| cause.downcast_ref::<io::Error>());
    // A failed lookup of a name gives another error, so opening a file is the test.
    error.is_some_and(says_so) || File::open("/dev/null").is_err_and(|error| says_so(&error))
}

#[cfg(not(unix))]
fn are_descriptors_used_up(_: &RedisError) -> bool {
    false
}

/// The fault of the socket, for a URL with a path.
fn socket_fault(address: &Address, error: &RedisError) -> Option<String> {
    if !address.is_socket() {
        return None;
    }
    let what = match cause_of(error)?.downcast_ref::<io::Error>()?.kind() {
        io::ErrorKind::NotFound => {
            "there is no such socket; is the server running, and is `unixsocket` in its \
             configuration set to this path?"
        }
        io::ErrorKind::ConnectionRefused => "nobody listens on this socket; is the server running?",
        io::ErrorKind::PermissionDenied => {
            "this process may not open the socket; look at `unixsocketperm` in the server's \
             configuration, and at the rights of the folder"
        }
        _ => return None,
    };
    Some(what.to_owned())
}

/// The error from which the crate made its own.
fn cause_of(error: &RedisError) -> Option<&(dyn StdError + 'static)> {
    let source = error.source()?;
    // The crate holds an Arc, which is an error itself.
    Some(match source.downcast_ref::<Arc<dyn StdError + Send + Sync>>() {
        Some(shared) => &**shared as &(dyn StdError + 'static),
        None => source,
    })
}

/// The progress of a connection until it broke.
#[derive(Clone, Copy)]
pub(super) struct Progress {
    /// True if nothing was read over it yet.
    pub(super) is_fresh: bool,
    /// True if an answer had begun.
    pub(super) has_begun: bool,
}

/// The fault of a connection that broke after it was made: if it is fresh, in the TLS handshake or before its first answer.
pub(super) fn broken_fault(address: &Address, unread: Unread, progress: Progress) -> NodeFault {
    let error = match unread {
        Unread::Excess(what) => return excess(address, &what),
        Unread::Failed(error) => error,
    };
    let silent = error.is_timeout();
    let dropped = error.is_connection_dropped();
    let shaking_hands = progress.is_fresh && address.is_tls();
    let what = if error.kind() == ErrorKind::Parse {
        return not_redis(address);
    } else if silent && shaking_hands {
        "no answer to the TLS handshake in time; check that the port is one for TLS, and that the \
         server does not hang"
            .to_owned()
    } else if silent && progress.has_begun {
        "its answer began, and was not complete in time; the server or the network is too slow, or \
         something in between holds it up"
            .to_owned()
    } else if silent {
        "no answer in time; the server hangs, is paused or is overloaded, or the network is cut"
            .to_owned()
    } else if let Some((cause, what)) = tls_fault(&error) {
        return NodeFault::caused_by(cause, address.shown(), what);
    } else if dropped && shaking_hands {
        closed_in_handshake()
    } else if dropped && progress.is_fresh && !address.is_socket() {
        CLOSED_AT_ONCE.to_owned()
    } else {
        format!("the connection broke ({error}); was the server stopped?")
    };
    NodeFault::new(address.shown(), what)
}

/// The fault of an answer that Redis never gives to us.
fn excess(address: &Address, what: &str) -> NodeFault {
    let what = format!(
        "{what}; no answer of Redis to quorlock is like that: is it a proxy, or something other \
         than Redis?"
    );
    NodeFault::new(address.shown(), what)
}

/// The error of a command in a script. Redis before 7.0 answers it as an error of the script, with its place there.
pub(super) fn of_command(error: ServerError) -> ServerError {
    let whole = [error.code(), error.details().unwrap_or_default()].join(" ");
    let place = whole.rsplit_once("@user_script: ").and_then(|(_, rest)| rest.split_once(": "));
    let Some((line, said)) = place else { return error };
    if !line.bytes().all(|byte| byte.is_ascii_digit()) {
        return error;
    }
    let answer = match said.starts_with('-') {
        true => format!("{said}\r\n"),
        false => format!("-ERR {said}\r\n"),
    };
    match redis::parse_redis_value(answer.as_bytes()) {
        Ok(redis::Value::ServerError(inner)) => inner,
        _ => error,
    }
}

/// The fault of a server that answered a command with an error.
pub(super) fn server_fault(address: &Address, error: &RedisError) -> NodeFault {
    let detail = error.detail().unwrap_or_default();
    let (cause, what) = match error.code() {
        Some("NOAUTH" | "WRONGPASS") => (Cause::Unfit, login_refused(error.code(), address)),
        Some("NOPERM") if detail.contains("'eval") => (Cause::NoScripts, needs_permission(error)),
        Some("NOPERM") => (Cause::NoPermission, needs_permission(error)),
        Some("ERR") if is_refused_in_script(detail) => (Cause::Unfit, needs_permission(error)),
        Some("ERR") if runs_no_scripts(detail) => (Cause::Unfit, NO_SCRIPTS.to_owned()),
        Some("ERR") if detail.starts_with("unknown command") => {
            (Cause::Unfit, knows_no_command(error))
        }
        code => match server_state(code.unwrap_or_default(), detail) {
            Some((cause, what)) => (cause, what.to_owned()),
            // The error may be gone at the next try.
            None => (Cause::Server, format!("the server answered with an error: {}", words(error))),
        },
    };
    NodeFault::caused_by(cause, address.shown(), what)
}

/// The state of a server that answers every command with that error.
pub(super) fn server_state(code: &str, detail: &str) -> Option<(Cause, &'static str)> {
    let what = match code {
        "DENIED" => return Some((Cause::Unfit, PROTECTED)),
        "MOVED" | "ASK" | "CROSSSLOT" | "CLUSTERDOWN" => return Some((Cause::Unfit, CLUSTER)),
        "ERR" if detail.contains("max number of clients") => {
            "the server takes no further connections (its limit maxclients is reached); raise it, or close \
             unused connections"
        }
        "READONLY" => {
            "the server is a replica, not a master, and takes no writes (READONLY); name independent \
             masters"
        }
        "MASTERDOWN" => {
            "the server is a replica whose master cannot be reached (MASTERDOWN); name independent masters"
        }
        "LOADING" => "the server is still loading its data (LOADING); it will answer soon",
        "BUSY" => {
            "the server is busy with a script or a function that takes long (BUSY); wait for it, or \
             end it with SCRIPT KILL or FUNCTION KILL"
        }
        "NOREPLICAS" => {
            "the server takes no writes (NOREPLICAS), since it hears from fewer replicas than its setting \
             min-replicas-to-write asks for; if one of them was promoted, this is its old master, and must grant nothing: \
             stop it, or make it a replica; otherwise connect the replicas"
        }
        "MISCONF" => {
            "the server takes no writes (MISCONF), since it could not save its data to disk; see its \
             log, and make room on the disk"
        }
        "OOM" => "the server is out of memory (OOM); raise maxmemory",
        _ => return None,
    };
    Some((Cause::Server, what))
}

/// The reason why the server refused the login.
pub(super) fn login_refused(code: Option<&str>, address: &Address) -> String {
    let login = address.info().redis_settings();
    let (has_user, has_password) = (login.username().is_some(), login.password().is_some());
    match code {
        _ if address.credentials().is_some() => {
            "the server refused the credentials that the provider gave for the login; check them, and whether the user is on \
             (ACL LIST)"
                .to_owned()
        }
        Some("WRONGPASS") if !has_password => format!(
            "the server refused the user, who comes without a password; set {PASSWORD}, or write \
             redis://user:password@host, and check whether the user is on (ACL LIST)"
        ),
        Some("WRONGPASS") => {
            "the server refused the user or the password; check both, and whether the user is on \
             (ACL LIST)"
                .to_owned()
        }
        _ if has_password || has_user => {
            "the server refused the login; check the user and the password".to_owned()
        }
        _ => format!(
            "the server wants a password, and this client gives none; set {PASSWORD}, or write redis://user:password@host, or \
             redis://:password@host for the default user"
        ),
    }
}

fn needs_permission(error: &RedisError) -> String {
    let words = words(error);
    format!("the user lacks a permission ({words}); it needs those listed in {ACCESS_LISTS}")
}

fn knows_no_command(error: &RedisError) -> String {
    let words = words(error);
    format!(
        "the server lacks a command ({words}); if it was renamed, undo that; if this is a proxy, name the master itself"
    )
}

/// The server's own words.
fn words(error: &RedisError) -> String {
    let words = [error.code().unwrap_or("ERR"), error.detail().unwrap_or_default()];
    quoted(words.join(" ").trim()).to_string()
}

/// Returns true if the access list refused a command to a script. Servers have no code for that.
fn is_refused_in_script(detail: &str) -> bool {
    ["executing the script can't", "ACL failure in script"].iter().any(|says| detail.contains(says))
}

/// Returns true for a Valkey without its Lua module, a Garnet with its defaults, or a renamed command. Where such
/// an answer can come, only scripts are sent.
fn runs_no_scripts(detail: &str) -> bool {
    let detail = detail.to_ascii_lowercase();
    detail.contains("could not find scripting engine")
        || detail.contains("lua") && detail.contains("disabled")
        || detail.starts_with("unknown command") && detail.contains("eval")
}

const NO_SCRIPTS: &str = "the server runs no Lua scripts (EVAL and EVALSHA), which every lock needs; \
                          load its Lua module, or stop renaming these commands, or use another \
                          server";

const PROTECTED: &str = "the server is in protected mode, and takes connections from its own host only; \
                         give it a password (requirepass) and name that in the URL";

pub(super) const CLUSTER: &str = "the server is part of a Redis Cluster, where a lock and the node's mark would \
                       be on different servers; name independent masters";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_commands_in_scripts_are_the_same_on_older_servers() {
        let script = "Error running script (call to f_e102c300f08bb28fa9f4b234f0b9982d6d5e508f): @user_script:100: ";
        for (said, code, details) in [
            (
                format!("ERR {script}@user_script: 100: -NOREPLICAS Not enough good replicas to write."),
                "NOREPLICAS",
                "Not enough good replicas to write.",
            ),
            (
                "@user_script: 20: The user executing the script can't run this command or subcommand".to_owned(),
                "ERR",
                "The user executing the script can't run this command or subcommand",
            ),
            (
                "OOM command not allowed. script: f_e1, on @user_script:1.".to_owned(),
                "OOM",
                "command not allowed. script: f_e1, on @user_script:1.",
            ),
            ("ERR @user_script: ten: -OOM no".to_owned(), "ERR", "@user_script: ten: -OOM no"),
            ("ERR something else".to_owned(), "ERR", "something else"),
        ] {
            let read = redis::parse_redis_value(format!("-{said}\r\n").as_bytes());
            let Ok(redis::Value::ServerError(error)) = read else { panic!("{read:?}") };
            let error = of_command(error);
            assert_eq!((error.code(), error.details()), (code, Some(details)), "{said}");
        }
    }
}
