//! The login, which comes first on a new connection: user and password, the protocol's version, and
//! the database.

use redis::{ProtocolVersion, ServerError, Value};

use super::address::Address;
use super::credentials::{CredentialSource, Provided};
use super::faults::{CLUSTER, connect_fault, login_refused, server_state};
use super::quote::quoted;
use super::reader::Unread;
use super::wire::Wire;
use crate::core::base::Time;
use crate::error::{Cause, NodeFault};

/// The result of a login.
pub(super) struct LoggedIn {
    /// True if the server has answered anything.
    pub(super) heard: bool,
    /// The number of the credentials, if they can change.
    pub(super) number: Option<u64>,
}

/// Returns true if the server refuses the user or the password.
pub(super) fn is_about_login(error: &ServerError) -> bool {
    let details = error.details().unwrap_or_default();
    matches!(error.code(), "WRONGPASS" | "NOAUTH") || details.contains("invalid password")
}

/// Does all that the URL asks for, by `until`, with the [credentials](Address::with_login) of the provider if there is one.
pub(super) fn log_in(
    wire: &mut Wire,
    address: &Address,
    until: Time,
) -> Result<LoggedIn, NodeFault> {
    let login = address.info().redis_settings();
    let provided = address.provided();
    let number = provided.map(|provided| provided.number);
    let credentials = provided.map(|provided| &*provided.credentials);
    let mut commands = Vec::new();
    let mut said = Vec::new();
    let mut say = |what: Said, command: &redis::Cmd| {
        command.write_packed_command(&mut commands);
        said.push(what);
    };
    let user = credentials.and_then(|it| it.user.as_deref()).or(login.username());
    // A user without a password logs in with an empty one: without a login this would be the default user.
    let password = credentials.map(|it| &*it.password);
    let password = password.or(login.password()).or(user.map(|_| ""));
    match (login.protocol(), password) {
        (ProtocolVersion::RESP2, Some(password)) => say(Said::Auth, &auth(user, password)),
        (ProtocolVersion::RESP2, None) => {}
        (_, password) => {
            let mut hello = redis::cmd("HELLO");
            hello.arg(3);
            if let Some(password) = password {
                hello.arg("AUTH").arg(user.unwrap_or("default")).arg(password);
            }
            say(Said::Hello, &hello);
        }
    }
    if login.db() != 0 {
        say(Said::Select, redis::cmd("SELECT").arg(login.db()));
    }
    if said.is_empty() {
        return Ok(LoggedIn { heard: false, number });
    }
    wire.write(&commands, until).map_err(|error| connect_fault(address, Unread::Failed(error)))?;
    for said in said {
        let answer = loop {
            match wire.read(until).map_err(|unread| connect_fault(address, unread))? {
                Value::Push { .. } => {}
                answer => break answer,
            }
        };
        // No answer is quoted: a server may quote the command that it refuses, and with it the
        // password.
        if let Value::ServerError(error) = answer {
            let (mut cause, what) = refused(said, &error, address);
            if let (Some(source), Some(number)) = (address.credentials(), number)
                && is_about_login(&error)
            {
                // The provider may know better ones the next time.
                source.refused(number);
                cause = Cause::Changing;
            }
            return Err(NodeFault::caused_by(cause, address.shown(), what));
        }
    }
    Ok(LoggedIn { heard: true, number })
}

fn auth(user: Option<&str>, password: &str) -> redis::Cmd {
    let mut auth = redis::cmd("AUTH");
    auth.arg(user).arg(password);
    auth
}

/// Writes the login of a live connection with other credentials.
pub(super) fn write_login(provided: &Provided, address: &Address, buffer: &mut Vec<u8>) {
    let user = provided.credentials.user.as_deref();
    let user = user.or(address.info().redis_settings().username());
    auth(user, &provided.credentials.password).write_packed_command(buffer);
}

/// The server has refused the login of a live connection, which keeps the login that it had.
pub(super) fn keeps_login(source: &CredentialSource, number: u64, error: &ServerError) {
    source.refused_live(number, format!("the server refused them ({})", quoted(error.code())));
}

pub(super) enum Said {
    Auth,
    Hello,
    Select,
}

/// The fault of a server that answers a part of the login with an error, and its cause. The error may be about the login, or
/// about the server's state, which may pass.
pub(super) fn refused(said: Said, error: &ServerError, address: &Address) -> (Cause, String) {
    if let Some(what) = refused_for_good(said, error, address) {
        return (Cause::Unfit, what);
    }
    match server_state(error.code(), error.details().unwrap_or_default()) {
        Some((cause, what)) => (cause, what.to_owned()),
        None => (
            Cause::Server,
            format!(
                "the server answered the login with an error ({}); its log may say more",
                quoted(error.code())
            ),
        ),
    }
}

/// The fault, if the error is known to be about the login.
fn refused_for_good(said: Said, error: &ServerError, address: &Address) -> Option<String> {
    let (code, details) = (error.code(), error.details().unwrap_or_default());
    let is_unknown = details.to_ascii_lowercase().starts_with("unknown command");
    let database = address.info().redis_settings().db();
    let what = match said {
        _ if details.contains(NO_USERS) => {
            "the server knows no user names, so it is older than Redis 6; quorlock needs 6.2 or newer, \
             or Valkey"
                .to_owned()
        }
        // An error with another code may mention passwords and be about something else.
        Said::Auth if code == "ERR" && NO_PASSWORD.iter().any(|says| details.contains(says)) => {
            "the server has no password for the default user, and this client logs in with one; leave it out, or \
             set requirepass on the server"
                .to_owned()
        }
        _ if matches!(code, "NOAUTH" | "WRONGPASS") => {
            login_refused(Some(code), address)
        }
        Said::Auth if is_unknown => {
            "the server knows no AUTH command, and this client logs in; leave the password out, or stop \
             renaming the command; if the server is a Sentinel, name the masters themselves"
                .to_owned()
        }
        Said::Auth if details.contains("invalid password") => login_refused(None, address),
        Said::Hello if is_unknown || matches!(code, "NOPROTO" | "NOPERM") => format!(
            "the server refused the login with the protocol version of the URL ({}); check the password, \
             or take protocol= out of the URL",
            quoted(code)
        ),
        Said::Select if code == "NOPERM" => format!(
            "the user may not choose database {database} of the URL; allow it with +select, or use \
             database 0: redis://host:port/0"
        ),
        // A Sentinel or a Cluster has no databases, and SELECT comes before the checks that recognise these servers.
        Said::Select if is_unknown => format!(
            "the server knows no databases, and the URL names {database}; is it a Sentinel? Then name the \
             masters themselves"
        ),
        Said::Select if details.contains("cluster mode") => CLUSTER.to_owned(),
        Said::Select if details.contains("DB index") || details.contains("out of range") => {
            format!(
                "the server has no database {database}, which the URL names; raise `databases` there, or \
                 use database 0: redis://host:port/0"
            )
        }
        _ => return None,
    };
    Some(what)
}

/// The error of servers from before there were users; it means "AUTH takes a password only".
const NO_USERS: &str = "wrong number of arguments for 'auth' command";

/// Errors about a password where none is set. The second one is from before Redis 6, and from servers that follow it.
const NO_PASSWORD: [&str; 2] = ["without any password configured", "no password is set"];
