//! The inspection of a node over a connection of its own: reads everything that shows if it is fit to carry locks.
//!
//! Nothing is changed on the node. The mark is read and not written. The user's rights are tried by calls that a server refuses
//! to carry out, or that delete a missing key ([`rights`]).

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use redis::{RedisError, Value};

use super::address::Address;
use super::admission_view::AdmissionView;
use super::connection::{Connection, TIME};
use super::faults::{Progress, broken_fault, server_fault};
use super::fitness::{field, scripts_need_replicas};
use super::question::{self, Answer};
use super::quote::quoted;
use super::rights::{self, Refusal, Refused, Try};
use crate::clock;
use crate::core::admission::{Configuration, NodeState, Offset, Probe, Role};
use crate::core::base::Time;
use crate::error::NodeFault;

/// Number of readings of the clock, which also show the latency.
const READINGS: usize = 100;
/// Pause between two readings. All of them take about a second, in which a clock that goes wrong shows.
const PAUSE: Duration = Duration::from_millis(10);
/// Time limit of the readings: none begins later than this.
const READ_FOR: Duration = Duration::from_secs(3);
/// Number of readings at either end of which the fastest one shows the clock.
const BEST_OF: usize = 10;

/// Number of further connections, which show if the same server answers each time.
const LOOKS: usize = 8;

/// Connections to replicas after which the search for a master ends. With more addresses, it ends after one for each, up to `LOOKS`.
const MOST_REPLICAS: usize = 3;

/// The result of a probe.
type Probed = Result<Answer, NodeFault>;

/// The inspection of one node.
pub(crate) struct Inspection {
    pub(crate) address: Address,
    pub(crate) key_prefix: Vec<u8>,
    pub(crate) mark_key: Vec<u8>,
    /// True if locks have fencing tokens.
    pub(crate) fencing: bool,
    /// Time limit of each answer.
    pub(crate) patience: Duration,
}

/// The answers of a node.
pub(crate) struct Facts {
    /// The server's name and version.
    pub(crate) server: String,
    /// The reason why that server may not work, though nothing that it shows is wrong.
    pub(crate) doubt: Option<String>,
    /// True if the node says that it is a master.
    pub(crate) is_master: bool,
    /// The result of a probe, or the reason why the node was not probed.
    pub(crate) probe: Result<Probe, NodeFault>,
    /// True if it refuses `INFO` in scripts: there may be a proxy in front of it.
    pub(crate) is_relayed: bool,
    pub(crate) persistence: Persistence,
    pub(crate) memory: Memory,
    pub(crate) replicas: AttachedReplicas,
    /// Its clock at the beginning and at the end.
    pub(crate) clock: [Offset; 2],
    /// Durations of the readings of its clock, in ascending order.
    pub(crate) round_trips: Vec<Duration>,
    pub(crate) refusals: Vec<Refusal>,
    /// `Ok` if the node takes writes; `None` if the user may write nothing.
    pub(crate) writes: Writes,
    /// True if the connections have led to two masters.
    pub(crate) has_several_servers: bool,
    /// The first one of several addresses of its name at which no server lets us in, and the fault.
    pub(crate) bad_address: Option<(SocketAddr, NodeFault)>,
}

pub(crate) type Writes = Option<Result<(), NodeFault>>;

/// The persistence of a node's data on disk.
#[derive(Clone, Debug, Default)]
pub(crate) struct Persistence {
    /// True if the node has an append-only file.
    pub(crate) appends: bool,
    /// `appendfsync`; `None` if the user may not read it.
    pub(crate) fsync: Option<String>,
    /// True if the last write to disk went wrong.
    pub(crate) failed: bool,
}

/// The memory of a node in bytes, and the policy for a full memory.
#[derive(Clone, Debug, Default)]
pub(crate) struct Memory {
    pub(crate) used: u64,
    /// 0 if there is no limit.
    pub(crate) limit: u64,
    pub(crate) policy: String,
}

/// The replicas of a node, and its settings about them.
#[derive(Clone, Debug, Default)]
pub(crate) struct AttachedReplicas {
    pub(crate) connected: u64,
    /// True if replicas are connected, or the node still has a backlog for some that have left. A promoted node may have one, too.
    pub(crate) had_some: bool,
    /// True if the node counts them, and takes no writes while they are too few.
    pub(crate) are_counted: bool,
    /// `min-replicas-to-write`, and `min-replicas-max-lag` in seconds; `None` if the user may not read them.
    pub(crate) needed: Option<u64>,
    pub(crate) max_lag: Option<u64>,
    /// True if that holds for the writes of scripts as well.
    pub(crate) scripts_need_them: bool,
}

impl Inspection {
    /// Reads everything that must be known of the node. Takes about a second, and a bounded multiple of `patience` if
    /// the node is slow.
    pub(crate) fn run(&self) -> Result<Facts, NodeFault> {
        let (connection, probe) = self.open()?;
        let mut talk = Talk { connection, patience: self.patience };
        let [server, persistence, memory, replication] =
            talk.sections(["server", "persistence", "memory", "replication"])?;
        let fsync = talk.setting("appendfsync")?;
        let replicas = talk.replicas(&server, &replication)?;
        let readings = talk.readings()?;
        let fastest =
            |readings: &[Offset]| readings.iter().copied().min_by_key(|it| it.round_trip());
        let first = fastest(&readings[..BEST_OF.min(readings.len())]);
        let last = fastest(&readings[readings.len().saturating_sub(BEST_OF)..]);
        let (Some(first), Some(last)) = (first, last) else {
            return Err(NodeFault::new(self.address.shown(), "its clock could not be read"));
        };
        let mut round_trips: Vec<_> = readings.iter().map(|reading| reading.round_trip()).collect();
        round_trips.sort_unstable();
        let tries = rights::tries(&self.key_prefix, self.fencing);
        let (refusals, writes) = talk.try_all(&tries)?;
        let (has_several_servers, bad_address) = self.other_servers(&talk.connection, &probe);
        Ok(Facts {
            doubt: talk.connection.shown(&server, &replication).doubt(),
            server: name_and_version(&server),
            is_master: field(&replication, "role") == Some("master"),
            persistence: Persistence {
                appends: field(&persistence, "aof_enabled") == Some("1"),
                fsync,
                failed: ["rdb_last_bgsave_status", "aof_last_write_status"]
                    .iter()
                    .any(|status| field(&persistence, status).is_some_and(|status| status != "ok")),
            },
            memory: Memory {
                used: number(&memory, "used_memory"),
                limit: number(&memory, "maxmemory"),
                policy: field(&memory, "maxmemory_policy")
                    .map_or(String::new(), |policy| quoted(policy).to_string()),
            },
            replicas,
            clock: [first, last],
            round_trips,
            refusals,
            writes,
            has_several_servers,
            bad_address,
            is_relayed: probe.as_ref().is_ok_and(|answer| answer.is_relayed),
            probe: probe.map(|answer| answer.probe),
        })
    }

    /// Connects as a client does: a replica may be one of several servers under the address, and another one the master. Returns the
    /// last replica if there are only replicas.
    fn open(&self) -> Result<(Connection, Probed), NodeFault> {
        let mut opened = self.open_one()?;
        let addresses = self.address.each(self.patience).map_or(0, |each| each.len());
        for _ in 1..addresses.clamp(MOST_REPLICAS, LOOKS) {
            if !is_replica(&opened.1) {
                break;
            }
            opened.0.address.has_failed();
            let Ok(next) = self.open_one() else { break };
            opened = next;
        }
        Ok(opened)
    }

    fn open_one(&self) -> Result<(Connection, Probed), NodeFault> {
        let mut connection = Connection::open(&self.address, self.patience)?;
        let probe = question::probe(&mut connection, &self.mark_key, self.patience);
        Ok((connection, probe.map_err(|broken| broken.fault)?))
    }

    /// Returns true if the first connection and further ones lead to two masters, and an address that leads to none. A server that is
    /// restarted just now counts as another one.
    fn other_servers(
        &self,
        first: &Connection,
        probe: &Probed,
    ) -> (bool, Option<(SocketAddr, NodeFault)>) {
        // Replicas have no vote.
        let mut master = (!is_replica(probe)).then(|| first.run_id().to_owned());
        let mut known = vec![first.run_id().to_owned()];
        let mut is_other = |opened: Result<Connection, NodeFault>| {
            let Ok(mut connection) = opened else { return false };
            let run_id = connection.run_id().to_owned();
            if known.contains(&run_id) {
                return false;
            }
            known.push(run_id.clone());
            let probe = question::probe(&mut connection, &self.mark_key, self.patience);
            !probe.is_ok_and(|probe| is_replica(&probe)) && master.replace(run_id).is_some()
        };
        let each = self.address.each(self.patience).unwrap_or_default();
        let mut bad = None;
        let by_address = each.iter().take(LOOKS).any(|address| {
            let opened = Connection::open_at(address, self.patience);
            if let (Err(fault), Some(at)) = (&opened, address.socket_address()) {
                bad.get_or_insert((at, fault.clone()));
            }
            is_other(opened)
        });
        let mut by_name = (0..LOOKS).map(|_| Connection::open(&self.address, self.patience));
        (by_address || by_name.any(is_other), bad.filter(|_| each.len() > 1))
    }
}

fn is_replica(probe: &Probed) -> bool {
    probe.as_ref().is_ok_and(|answer| answer.probe.role == Role::Replica)
}

/// The state of each node and its meaning, as a client with that configuration would see them by these probes.
pub(crate) fn node_states<'a>(
    probes: impl Iterator<Item = Option<&'a Probe>>,
    mark_key: &[u8],
    names: &Arc<[Arc<str>]>,
    configuration: &Configuration,
    ordered: bool,
) -> Vec<(NodeState, String)> {
    let mut view = AdmissionView::new(mark_key.to_vec(), names, configuration, ordered);
    let now = clock::now();
    for (node, probe) in probes.enumerate() {
        if let Some(probe) = probe {
            view.seen(node, |admission| admission.probed(node, probe.clone(), now));
        }
    }
    let state = |node| {
        let state = view.admission.node_state(node);
        let what = view.what(node, &state);
        (state, what)
    };
    (0..names.len()).map(state).collect()
}

/// Questions and answers over one connection.
struct Talk {
    connection: Connection,
    patience: Duration,
}

impl Talk {
    /// Reads sections of INFO. A section that the server does not give is empty.
    fn sections<const N: usize>(&mut self, names: [&str; N]) -> Result<[String; N], NodeFault> {
        let mut commands = Vec::new();
        for name in names {
            redis::cmd("INFO").arg(name).write_packed_command(&mut commands);
        }
        self.write(&commands)?;
        let mut sections = [const { String::new() }; N];
        for section in &mut sections {
            *section = text(self.answer()?).unwrap_or_default();
        }
        Ok(sections)
    }

    /// Reads a setting of the server; `None` if the user may not read it.
    fn setting(&mut self, name: &str) -> Result<Option<String>, NodeFault> {
        self.write(&redis::cmd("CONFIG").arg("GET").arg(name).get_packed_command())?;
        Ok(match self.answer()? {
            Value::Array(mut pair) if pair.len() == 2 => pair.pop().and_then(text),
            Value::Map(mut settings) if settings.len() == 1 => {
                settings.pop().and_then(|(_, value)| text(value))
            }
            _ => None,
        })
    }

    /// Reads what is not in these sections of the node's replicas. Without replicas, the settings do not matter.
    fn replicas(&mut self, server: &str, replication: &str) -> Result<AttachedReplicas, NodeFault> {
        let connected = number(replication, "connected_slaves");
        // A master keeps its backlog for a while after its last replica has left.
        let had_some = connected > 0 || field(replication, "repl_backlog_active") == Some("1");
        let mut setting = |name| -> Result<Option<u64>, NodeFault> {
            let value = if had_some { self.setting(name)? } else { None };
            Ok(value.and_then(|value| value.parse().ok()))
        };
        Ok(AttachedReplicas {
            connected,
            had_some,
            are_counted: field(replication, "min_slaves_good_slaves").is_some(),
            needed: setting("min-replicas-to-write")?,
            max_lag: setting("min-replicas-max-lag")?,
            scripts_need_them: scripts_need_replicas(server),
        })
    }

    /// Reads the node's clock again and again.
    fn readings(&mut self) -> Result<Vec<Offset>, NodeFault> {
        let until = clock::now().after(READ_FOR);
        let mut readings = Vec::with_capacity(READINGS);
        for _ in 0..READINGS {
            let sent = clock::now();
            self.write(TIME)?;
            let clock = self.connection.read_clock(sent, self.deadline());
            readings.push(clock.map_err(|broken| broken.fault)?);
            if clock::now() >= until {
                break;
            }
            clock::sleep(PAUSE);
        }
        Ok(readings)
    }

    /// Tries everything that the user must be allowed. Returns the refusals; and if the server takes writes, if that shows.
    fn try_all(&mut self, tries: &[Try]) -> Result<(Vec<Refusal>, Writes), NodeFault> {
        let mut commands = Vec::new();
        tries.iter().for_each(|one| one.write_to(&mut commands));
        self.write(&commands)?;
        let mut refusals = Vec::new();
        let mut writes = None;
        for one in tries {
            // A pushed message counts as an answer: it is the one to a subscription.
            let Value::ServerError(error) = self.any_answer()? else { continue };
            if let Some(refused) = Refused::by(&error) {
                refusals.push(one.refused(refused));
            } else if one.command == "SET" {
                // A server that takes writes refuses this one as a wrong call.
                let address = &self.connection.address;
                writes.get_or_insert_with(|| match error.code() {
                    "ERR" => Ok(()),
                    _ => Err(server_fault(address, &RedisError::from(error))),
                });
            }
        }
        Ok((refusals, writes))
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), NodeFault> {
        self.connection.write(bytes).map_err(|broken| broken.fault)
    }

    fn deadline(&self) -> Time {
        clock::now().after(self.patience)
    }

    /// The next answer, which may be an error of the server.
    fn answer(&mut self) -> Result<Value, NodeFault> {
        loop {
            match self.any_answer()? {
                Value::Push { .. } => {}
                answer => return Ok(answer),
            }
        }
    }

    fn any_answer(&mut self) -> Result<Value, NodeFault> {
        let deadline = self.deadline();
        let progress = Progress { is_fresh: false, has_begun: self.connection.wire.has_begun() };
        let address = &self.connection.address;
        self.connection
            .wire
            .read(deadline)
            .map_err(|unread| broken_fault(address, unread, progress))
    }
}

fn text(value: Value) -> Option<String> {
    match value {
        Value::BulkString(bytes) => String::from_utf8(bytes).ok(),
        Value::SimpleString(text) | Value::VerbatimString { text, .. } => Some(text),
        _ => None,
    }
}

fn number(info: &str, name: &str) -> u64 {
    field(info, name).and_then(|number| number.parse().ok()).unwrap_or(0)
}

/// The server's name and version, such as "Redis 7.0.15".
fn name_and_version(info: &str) -> String {
    let version = |name| field(info, name).map(|version| quoted(version).to_string());
    match (version("valkey_version"), version("redis_version")) {
        (Some(version), _) => format!("Valkey {version}"),
        (None, Some(version)) => format!("Redis {version}"),
        (None, None) => String::new(),
    }
}
