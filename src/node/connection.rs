//! One connection to one master: bytes out, answers in.

use std::time::Duration;

use redis::{RedisError, ServerError, ServerErrorKind};

use super::address::Address;
use super::credentials::Login;
use super::faults::{
    Progress, broken_fault, connect_fault, not_redis, of_command, server_fault, tls_fault,
};
use super::fitness::{self, field};
use super::login::{is_about_login, keeps_login, log_in, write_login};
use super::offers::Shown;
use super::quote::quoted;
use super::reader::Unread;
use super::request::Value;
use super::wire::Wire;
use crate::clock;
use crate::core::admission::Offset;
use crate::core::base::Time;
use crate::core::link::{self, GRACE, Opened, PATIENCE};
use crate::error::{Cause, NodeFault};

/// Asks a server for its clock.
pub(super) const TIME: &[u8] = b"*1\r\n$4\r\nTIME\r\n";

/// Asks a server for its number of this connection.
const CLIENT_ID: &[u8] = b"*2\r\n$6\r\nCLIENT\r\n$2\r\nID\r\n";

/// Appends the command that ends another connection to the server, by the server's number of it.
pub(super) fn write_end(id: u64, buffer: &mut Vec<u8>) {
    redis::cmd("CLIENT").arg(&["KILL", "ID"]).arg(id).write_packed_command(buffer);
}

/// Time limit of a write for which no caller waits.
const FINAL_RELEASES_TIMEOUT: Duration = Duration::from_millis(10);

pub(super) struct Connection {
    pub(super) wire: Wire,
    pub(super) address: Address,
    /// Time limit of a write to the server.
    timeout: Duration,
    /// The server's clock at the time when the connection was made.
    clock: Option<Offset>,
    /// The id of the server's present run.
    run_id: String,
    /// True if the server was a replica when the connection was made.
    leads_to_replica: bool,
    /// The server's number of this connection, if the user may ask for it. The server never gives it to another one.
    id: Option<u64>,
    /// The policy by which the server may drop keys of locks when its memory is full.
    evicts: Option<String>,
    login: Login,
    /// The number of unread answers to the commands that name the library. They come before all others.
    of_library: usize,
    /// True while nothing was read: the TLS handshake may not be over yet.
    fresh: bool,
}

/// The answer to one command.
pub(super) enum Reply {
    Value(Value),
    /// The server does not know the script; it did nothing.
    NoScript,
    /// The server answered with an error. The connection stays usable.
    Error(NodeFault),
}

/// The fault of a connection that cannot be used any more.
pub(super) type Broken = link::Broken<NodeFault>;

impl Connection {
    /// Connects to the one address that is meant, logs in and checks that the server is one that we can use. To connect takes
    /// `timeout` at most. Each further step takes `timeout` at most, or [`PATIENCE`] if that is longer.
    pub(super) fn open_at(address: &Address, timeout: Duration) -> Result<Self, NodeFault> {
        let wire = Wire::connect(address, timeout, (timeout + GRACE).max(PATIENCE))
            .map_err(|error| connect_fault(address, Unread::Failed(error.into())))?;
        Self::over(wire, address, timeout)
    }

    /// Notes that the node is usable over the connection: from now on, no single read takes longer than a request may.
    pub(super) fn has_come_up(&mut self) {
        // Without that limit a read that blocks may take as long as a login.
        let _ = self.wire.set_read_timeout(self.timeout + GRACE);
    }

    /// Like [`open_at`](Self::open_at), over an existing connection.
    pub(super) fn over(
        mut wire: Wire,
        address: &Address,
        timeout: Duration,
    ) -> Result<Self, NodeFault> {
        let address = &address.with_login(timeout)?;
        let patience = timeout.max(PATIENCE);
        let logged_in = log_in(&mut wire, address, clock::now().after(patience))?;
        let mut connection = Self {
            wire,
            address: address.clone(),
            timeout,
            clock: None,
            run_id: String::new(),
            leads_to_replica: false,
            id: None,
            evicts: None,
            login: Login::with(logged_in.number),
            of_library: 0,
            fresh: !logged_in.heard,
        };
        connection.check_server(clock::now().after(patience))?;
        Ok(connection)
    }

    /// Returns the run of the server, and the number of the connection there.
    pub(super) fn opened(&self, is_relayed: bool) -> Opened {
        Opened { run: self.run_id.clone(), id: self.id, is_relayed }
    }

    /// Reads the answer to `CLIENT ID`.
    fn read_client_id(&mut self, deadline: Time) -> Result<Option<u64>, Broken> {
        Ok(match self.read_any(deadline)? {
            Reply::Value(Value::Int(id)) => u64::try_from(id).ok(),
            // The user may not run this command.
            _ => None,
        })
    }

    pub(super) fn run_id(&self) -> &str {
        &self.run_id
    }

    /// Returns true if the server was a replica when the connection was made.
    pub(super) fn leads_to_replica(&self) -> bool {
        self.leads_to_replica
    }

    pub(super) fn evicts(&self) -> Option<&str> {
        self.evicts.as_deref()
    }

    pub(super) fn clock(&self) -> Option<Offset> {
        self.clock
    }

    /// Writes commands with so many answers. If it is time to log in again, that comes before them.
    pub(super) fn write_commands(&mut self, bytes: &[u8], answers: usize) -> Result<(), Broken> {
        match self.login.before(answers, self.address.credentials()) {
            None => self.write(bytes),
            Some(provided) => {
                let mut with_login = Vec::with_capacity(bytes.len() + 256);
                write_login(&provided, &self.address, &mut with_login);
                with_login.extend_from_slice(bytes);
                self.write(&with_login)
            }
        }
    }

    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<(), Broken> {
        self.write_by(bytes, clock::now().after(self.timeout))
    }

    fn write_by(&mut self, bytes: &[u8], until: Time) -> Result<(), Broken> {
        self.wire.write(bytes, until).map_err(|error| {
            // A server that refuses our certificate sends the reason and closes: the reason is still unread.
            let closed = error.is_connection_dropped();
            let reason = if closed && self.fresh && self.address.is_tls() {
                let failed = |unread| match unread {
                    Unread::Failed(error) => Some(error),
                    Unread::Excess(_) => None,
                };
                let read = self.wire.read(until).err().and_then(failed);
                read.filter(|error| tls_fault(error).is_some())
            } else {
                None
            };
            let unread = Unread::Failed(reason.unwrap_or(error));
            Broken { in_step: false, ..self.broken(unread) }
        })
    }

    /// Reads the next answer of a script. All of it must come by `deadline`; a read in progress at that
    /// time may take another timeout.
    pub(super) fn read(&mut self, deadline: Time) -> Result<Reply, Broken> {
        match self.read_any(deadline)? {
            // Our scripts answer nothing else. One answer too many would shift all later ones by one,
            // and a refusal could be taken for a grant.
            Reply::Value(value) if !value.is_of_script() => Err(self.strange(&value)),
            reply => Ok(reply),
        }
    }

    /// The fault of an answer that no script of ours gives.
    pub(super) fn strange(&self, value: &Value) -> Broken {
        let what = format!(
            "a script was answered with {value}, which no script returns; is it a proxy, or something other \
             than Redis?"
        );
        let fault = NodeFault::new(self.address.shown(), what);
        Broken { fault, closed: false, in_step: false }
    }

    /// Reads the bytes that have come, without waiting. Returns true if they are so many whole answers, which the next reads return.
    pub(super) fn has_answers(&mut self, needed: usize) -> Result<bool, Broken> {
        while self.wire.has_answers(1).map_err(|unread| self.broken(unread))? {
            if self.of_library == 0 && !self.login.is_next() {
                return self.wire.has_answers(needed).map_err(|unread| self.broken(unread));
            }
            let value = self.wire.read(clock::now()).map_err(|unread| self.broken(unread))?;
            self.is_of_login(&value)?;
        }
        Ok(false)
    }

    /// Returns true if the value is the answer to the naming of the library or to a login, and takes it then. Fails if it cannot be
    /// one: the answers are out of step.
    fn is_of_login(&mut self, value: &redis::Value) -> Result<bool, Broken> {
        if matches!(value, redis::Value::Push { .. }) {
            return Ok(false);
        }
        if self.of_library > 0 {
            self.of_library -= 1;
            return match value {
                redis::Value::Okay => Ok(true),
                redis::Value::ServerError(error) => {
                    if error.code() == "NOPERM" {
                        self.address.naming().setinfo_is_refused();
                    }
                    Ok(true)
                }
                other => {
                    // Something on the way does not know the command. The next connection does without.
                    self.address.naming().setinfo_is_refused();
                    Err(self.strange(&other.clone().into()))
                }
            };
        }
        let Some(number) = self.login.answered() else { return Ok(false) };
        match (value, self.address.credentials()) {
            (redis::Value::Okay, _) => Ok(true),
            (redis::Value::ServerError(error), Some(source)) if is_about_login(error) => {
                keeps_login(source, number, error);
                Ok(true)
            }
            (redis::Value::ServerError(error), _) => {
                // The next connection logs in anew.
                let fault = server_fault(&self.address, &RedisError::from(error.clone()));
                Err(Broken { fault, closed: false, in_step: true })
            }
            (other, _) => Err(self.strange(&other.clone().into())),
        }
    }

    pub(super) fn read_any(&mut self, deadline: Time) -> Result<Reply, Broken> {
        loop {
            let response = self.wire.read(deadline);
            self.fresh &= response.is_err();
            if let Ok(value) = &response
                && self.is_of_login(value)?
            {
                continue;
            }
            return match response {
                // A pushed message answers no command.
                Ok(redis::Value::Push { .. }) => continue,
                Ok(redis::Value::ServerError(error)) => self.server_error(error),
                Ok(value) => Ok(Reply::Value(value.into())),
                Err(unread) => Err(self.broken(unread)),
            };
        }
    }

    /// Writes to a server that has stopped answering, as much as the socket takes at once, and closes.
    /// The commands in the server's receive buffer run in this order when it wakes up.
    pub(super) fn final_releases(mut self, bytes: &[u8]) {
        // A failure does no harm: the same bytes are kept for the reconnect.
        if self.wire.set_write_timeout(FINAL_RELEASES_TIMEOUT).is_ok() {
            let _ = self.wire.write(bytes, clock::now().after(FINAL_RELEASES_TIMEOUT));
        }
    }

    fn check_server(&mut self, deadline: Time) -> Result<(), NodeFault> {
        // INFO is not enough: a server that is loading or busy answers it, but not PING.
        let mut commands = redis::cmd("PING").get_packed_command();
        commands.extend_from_slice(TIME);
        // One section for each call: servers before 7.0 take only one.
        for section in ["server", "replication", "memory"] {
            redis::cmd("INFO").arg(section).write_packed_command(&mut commands);
        }
        commands.extend_from_slice(CLIENT_ID);
        let is_named = self.address.naming().write_name(&mut commands);
        let sent = clock::now();
        // A TLS handshake that comes with this write may take as long as the answers.
        self.write_by(&commands, deadline).map_err(|broken| broken.fault)?;
        self.read_text(deadline)?;
        let clock = self.read_clock(sent, deadline);
        // A server other than Redis may not know TIME; the checks below find its own fault first.
        if let Err(broken) = &clock
            && broken.fault.cause() == Cause::Way
        {
            return Err(broken.fault.clone());
        }
        let server = self.read_text(deadline)?;
        if let Some(what) = self.shown(&server, "").unfit() {
            return Err(NodeFault::caused_by(Cause::Unfit, self.address.shown(), what));
        }
        let clock = clock.map_err(|broken| broken.fault)?;
        let replication = self.read_text(deadline)?;
        let memory = self.read_text(deadline)?;
        self.clock = Some(clock);
        self.id = self.read_client_id(deadline).map_err(|broken| broken.fault)?;
        if is_named
            && let Reply::Error(fault) = self.read_any(deadline).map_err(|broken| broken.fault)?
            && fault.cause() == Cause::NoPermission
        {
            self.address.naming().setname_is_refused();
        }
        self.run_id = field(&server, "run_id").unwrap_or_default().to_owned();
        self.leads_to_replica = field(&replication, "role") == Some("slave");
        let limited = field(&memory, "maxmemory").is_some_and(|bytes| bytes != "0");
        let policy = field(&memory, "maxmemory_policy").filter(|policy| *policy != "noeviction");
        self.evicts = policy.filter(|_| limited).map(|policy| quoted(policy).to_string());
        field(&server, "redis_version").ok_or_else(|| not_redis(&self.address))?;
        if let Some(what) = self.shown(&server, &replication).unfit_as_node() {
            return Err(NodeFault::caused_by(Cause::Unfit, self.address.shown(), what));
        }
        self.name_library(&server)
    }

    /// Names the library. Nobody waits for the answers: they are read before those to the next commands. A user with a name may lack
    /// the right, since access lists name commands, and the refusal would be noted in the server's log for each client.
    fn name_library(&mut self, server: &str) -> Result<(), NodeFault> {
        if fitness::lists_libraries(server) && self.address.has_default_user() {
            let mut commands = Vec::new();
            self.of_library = self.address.naming().write_library(&mut commands);
            // After an error the connection ends: a part of a command may be written.
            self.write(&commands).map_err(|broken| broken.fault)?;
        }
        Ok(())
    }

    /// The server as these sections of its INFO and its address show it.
    pub(super) fn shown<'a>(&'a self, server: &'a str, replication: &'a str) -> Shown<'a> {
        Shown { host: self.address.host_name(), server, replication }
    }

    pub(super) fn read_text(&mut self, deadline: Time) -> Result<String, NodeFault> {
        match self.read_any(deadline).map_err(|broken| broken.fault)? {
            Reply::Value(Value::Text(text)) => Ok(text),
            Reply::Error(fault) => Err(fault),
            Reply::Value(_) | Reply::NoScript => Err(not_redis(&self.address)),
        }
    }

    /// Reads the answer to [`TIME`], which was written at `sent` or later.
    pub(super) fn read_clock(&mut self, sent: Time, deadline: Time) -> Result<Offset, Broken> {
        let value = match self.read_any(deadline)? {
            Reply::Value(value) => value,
            Reply::Error(fault) => return Err(Broken { fault, closed: false, in_step: true }),
            Reply::NoScript => Value::Strange("NOSCRIPT".to_owned()),
        };
        if let Some(server_us) = microseconds(&value) {
            return Ok(Offset::new(server_us, sent, clock::now()));
        }
        // No script answers anything like TIME, so this also detects a surplus answer.
        let what = format!(
            "TIME was answered with {value}; is it a proxy, or something other than Redis?"
        );
        let fault = NodeFault::new(self.address.shown(), what);
        Err(Broken { fault, closed: false, in_step: false })
    }

    fn server_error(&self, error: ServerError) -> Result<Reply, Broken> {
        let error = of_command(error);
        if error.kind() == Some(ServerErrorKind::NoScript) {
            return Ok(Reply::NoScript);
        }
        let passing = PASSING.contains(&error.code());
        let fault = server_fault(&self.address, &RedisError::from(error));
        // A temporary state counts as a node that is down: unfinished requests are kept, and the node
        // is asked again when it is ready.
        if passing {
            return Err(Broken { fault, closed: false, in_step: true });
        }
        Ok(Reply::Error(fault))
    }

    fn broken(&self, unread: Unread) -> Broken {
        let (silent, closed) = match &unread {
            Unread::Failed(error) => (error.is_timeout(), error.is_connection_dropped()),
            Unread::Excess(_) => (false, false),
        };
        let progress = Progress { is_fresh: self.fresh, has_begun: self.wire.has_begun() };
        let fault = broken_fault(&self.address, unread, progress);
        Broken { fault, closed, in_step: silent }
    }
}

/// A server's clock in microseconds, by its answer: seconds, and microseconds of the present second.
pub(super) fn microseconds(time: &Value) -> Option<i64> {
    let Value::List(parts) = time else { return None };
    let [Value::Text(seconds), Value::Text(microseconds)] = parts.as_slice() else { return None };
    let (seconds, microseconds) = (seconds.parse::<i64>().ok()?, microseconds.parse().ok()?);
    seconds.checked_mul(1_000_000)?.checked_add(microseconds)
}

/// Error codes of a server that can do nothing for a time.
pub(super) const PASSING: [&str; 6] =
    ["LOADING", "BUSY", "MASTERDOWN", "MISCONF", "NOREPLICAS", "READONLY"];
