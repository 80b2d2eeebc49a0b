//! The cost of a turn.

use std::ops::Sub;

use redis::Value;

use super::cpu::cpu_seconds;
use super::server::{Server, Servers};

/// The cost so far, or of one turn: processor time in seconds, and the work of the servers.
#[derive(Clone, Copy)]
pub(crate) struct Spent {
    pub(crate) client_s: f64,
    /// The sum over all servers, like the fields below.
    pub(crate) servers_s: f64,
    pub(crate) scripts: f64,
    /// Includes the commands that scripts run.
    pub(crate) commands: f64,
}

impl Spent {
    /// Leaves out servers that are paused, since these do not answer.
    pub(crate) fn now(servers: &Servers) -> Self {
        let mut spent =
            Self { client_s: cpu_seconds(), servers_s: 0.0, scripts: 0.0, commands: 0.0 };
        for server in servers.iter().filter(|server| server.is_up()) {
            let cpu = info(server, "cpu");
            spent.servers_s += number(&cpu, "used_cpu_user:") + number(&cpu, "used_cpu_sys:");
            for line in info(server, "commandstats").lines() {
                let Some((name, _)) = line.split_once(":calls=") else { continue };
                let calls = number(line, ":calls=");
                match name {
                    // These commands come from the measurement, and from the start of the servers.
                    "cmdstat_info" | "cmdstat_ping" => continue,
                    "cmdstat_eval" | "cmdstat_evalsha" => spent.scripts += calls,
                    _ => {}
                }
                spent.commands += calls;
            }
        }
        spent
    }
}

impl Sub for Spent {
    type Output = Self;

    fn sub(self, earlier: Self) -> Self {
        Self {
            client_s: self.client_s - earlier.client_s,
            servers_s: self.servers_s - earlier.servers_s,
            scripts: self.scripts - earlier.scripts,
            commands: self.commands - earlier.commands,
        }
    }
}

fn info(server: &Server, section: &str) -> String {
    match server.command(&["INFO", section]) {
        Value::BulkString(text) => String::from_utf8_lossy(&text).into_owned(),
        Value::VerbatimString { text, .. } => text,
        other => panic!("INFO is text, not {other:?}"),
    }
}

/// Returns the number behind `name` in `text`.
fn number(text: &str, name: &str) -> f64 {
    let (_, rest) = text.split_once(name).expect("the server tells it");
    let end = rest.find(|c: char| c != '.' && !c.is_ascii_digit()).unwrap_or(rest.len());
    rest[..end].parse().expect("a number")
}
