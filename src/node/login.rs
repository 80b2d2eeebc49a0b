//! What is said on a new connection before anything else: user and password, the protocol's version,
//! the database.

use redis::{ProtocolVersion, ServerError, Value};

use super::address::Address;
use super::faults::{WRONG_LOGIN, connect_fault};
use super::wire::{Unread, Wire};
use crate::error::NodeFault;
use crate::quorum::Time;

/// Does all that the URL asks for, until then.
pub(super) fn log_in(wire: &mut Wire, address: &Address, until: Time) -> Result<(), NodeFault> {
    let login = address.info().redis_settings();
    let mut commands = Vec::new();
    let mut said = Vec::new();
    let mut say = |what: Said, command: &redis::Cmd| {
        command.write_packed_command(&mut commands);
        said.push(what);
    };
    let user = login.username();
    match (login.protocol(), login.password()) {
        (ProtocolVersion::RESP2, Some(password)) => {
            let mut auth = redis::cmd("AUTH");
            say(Said::Auth, auth.arg(user).arg(password));
        }
        (ProtocolVersion::RESP2, None) => {}
        (_, password) => {
            let mut hello = redis::cmd("HELLO");
            hello.arg(3);
            if let Some(password) = password {
                hello.arg("AUTH").arg(user.unwrap_or("default")).arg(password);
            }
            say(Said::Other, &hello);
        }
    }
    if login.db() != 0 {
        say(Said::Other, redis::cmd("SELECT").arg(login.db()));
    }
    if said.is_empty() {
        return Ok(());
    }
    wire.write(&commands, until).map_err(|error| connect_fault(address, Unread::Failed(error)))?;
    for said in said {
        let answer = loop {
            match wire.read(until).map_err(|unread| connect_fault(address, unread))? {
                Value::Push { .. } => {}
                answer => break answer,
            }
        };
        // Nothing of it is quoted: a server may quote the command that it refuses, and with it the
        // password.
        if let Value::ServerError(error) = answer {
            return Err(NodeFault::new(address.shown(), refused(said, &error)));
        }
    }
    Ok(())
}

enum Said {
    Auth,
    Other,
}

fn refused(said: Said, error: &ServerError) -> String {
    match (said, error.code()) {
        _ if error.details().is_some_and(|details| details.contains(NO_USERS)) => {
            "the server knows no user names, so it is older than Redis 6; quorlock needs 6.2 or newer, \
             or Valkey"
                .to_owned()
        }
        (Said::Auth, _) | (_, "NOAUTH" | "WRONGPASS") => WRONG_LOGIN.to_owned(),
        (_, code) => format!(
            "the server refused the login, the protocol version or the database number of the URL \
             ({code})"
        ),
    }
}

/// What servers say before there were users, in place of "AUTH takes a password only".
const NO_USERS: &str = "wrong number of arguments for 'auth' command";
