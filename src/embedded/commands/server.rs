//! Commands about the node itself.

use crate::embedded::keyspace::Bytes;
use crate::embedded::reply::{Answer, Fault, Reply};
use crate::embedded::state::{Command, State, command, is, wrong_arity};

/// The Redis version whose behaviour the commands have.
const VERSION: &str = "7.0.15";

pub(super) const COMMANDS: &[Command] = &[
    command("PING", -1, ping),
    command("ECHO", 2, |_, words| Ok(Reply::bulk(&words[0]))),
    command("TIME", 1, time),
    command("INFO", -1, info),
    command("SELECT", 2, select),
    command("PUBLISH", 3, |state, words| {
        Ok(Reply::count(state.channels.publish(&words[0], &words[1])))
    }),
    // There are no replicas. A server would wait for them until the timeout, which no caller needs.
    command("WAIT", 3, |_, _| Ok(Reply::Int(0))),
];

fn ping(_: &mut State, words: &[Bytes]) -> Answer {
    match words {
        [] => Ok(Reply::Status("PONG".to_owned())),
        [text] => Ok(Reply::bulk(text)),
        _ => Err(wrong_arity("ping")),
    }
}

fn time(state: &mut State, _: &[Bytes]) -> Answer {
    let now = state.keyspace.now();
    Ok(Reply::bulks([now.as_secs().to_string(), now.subsec_micros().to_string()]))
}

fn info(state: &mut State, words: &[Bytes]) -> Answer {
    let wanted = |section| {
        let all = ["all", "default", "everything"];
        words.is_empty()
            || words.iter().any(|word| is(word, section) || all.iter().any(|all| is(word, all)))
    };
    let run_id = &state.identity.run_id;
    let mut text = String::new();
    if wanted("server") {
        let started = state.identity.started.unwrap_or_default();
        let uptime = state.keyspace.now().as_secs().saturating_sub(started);
        text += &format!(
            "# Server\r\nredis_version:{VERSION}\r\nredis_mode:standalone\r\nrun_id:{run_id}\r\n\
             uptime_in_seconds:{uptime}\r\n"
        );
    }
    if wanted("replication") {
        separate(&mut text);
        let [present, before] = &state.identity.repl_ids;
        text += &format!(
            "# Replication\r\nrole:master\r\nconnected_slaves:0\r\n\
             master_replid:{present}\r\nmaster_replid2:{before}\r\n"
        );
    }
    if wanted("cluster") {
        separate(&mut text);
        text += "# Cluster\r\ncluster_enabled:0\r\n";
    }
    if wanted("stats") {
        separate(&mut text);
        text += "# Stats\r\nevicted_keys:0\r\n";
    }
    // Servers include this section only on request.
    if words.iter().any(|word| ["commandstats", "all", "everything"].iter().any(|it| is(word, it)))
    {
        separate(&mut text);
        text += "# Commandstats\r\n";
        let flushes = state.identity.flushes;
        if flushes > 0 {
            text += &format!("cmdstat_flushall:calls={flushes}\r\n");
        }
    }
    Ok(Reply::bulk(text))
}

/// Puts an empty line between two sections.
fn separate(text: &mut String) {
    if !text.is_empty() {
        *text += "\r\n";
    }
}

/// Accepts database 0, the only one.
fn select(_: &mut State, words: &[Bytes]) -> Answer {
    match crate::embedded::number::integer(&words[0])? {
        0 => Ok(Reply::ok()),
        _ => Err(Fault::of("ERR DB index is out of range; an embedded node has database 0 only")),
    }
}
