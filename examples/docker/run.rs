//! A run on the host's side: it waits for the workers, has the nemesis make its faults, and judges.

use std::fs;
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use crate::hosts::Hosts;
use crate::judge::{Rules, Verdict, picture::picture};
use crate::nemesis::Nemesis;
use crate::plan::Plan;
use crate::table::Table;
use crate::witness::{Client, Event, History, Phase};
use crate::worker::clients;
use crate::{Failure, WITNESS_PORT};

/// Time limit for the start and the end of the containers.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// Interval at which a state is polled.
const POLL: Duration = Duration::from_millis(200);

/// Time for the workers to start, besides the quarantine of the new masters.
const FIRST_LOCKS: Duration = Duration::from_secs(2);

/// Time after the last fault within which everybody gets a lock: two TTLs and a quarantine.
fn recovery(plan: &Plan) -> Duration {
    plan.max_ttl() * 3
}

fn rules(plan: &Plan) -> Rules {
    Rules {
        recovery: Some(recovery(plan)),
        // The targets of the faults are names of containers, in which the judge finds no masters.
        waits: None,
        // A service of the user may work without tokens, use only some kinds of locks, and tell no figures.
        tokens: false,
        kinds: 0,
        elections: false,
        figures: false,
        aftermath: plan.max_ttl(),
        grants_a_second: 5.0,
        share_hit: 0.5,
    }
}

/// Runs the plan. Returns success if there are no violations and the run shows enough.
pub(crate) fn run(plan: &Plan) -> Result<ExitCode, Failure> {
    let hosts = Hosts::find(&plan.run)?;
    println!("{} client, faults for {} s with seed {}", plan.client, plan.seconds, plan.seed);
    let address = hosts.published(hosts.named("witness")?, WITNESS_PORT)?;
    let mut witness = connect(&address)?;

    thread::sleep(plan.max_ttl() + FIRST_LOCKS);
    let relies_on_first = !clients::named(&plan.client)?.right;
    let nemesis = Nemesis::new(&hosts, &address, relies_on_first, plan.max_ttl())?;
    nemesis.run(Instant::now() + plan.lasts(), plan.seed)?;

    println!(
        "All faults are healed. Everybody has to get a lock again within {:?}.",
        recovery(plan)
    );
    witness.tell(&Event::Enter { phase: Phase::Recover })?;
    thread::sleep(recovery(plan));
    if let Some(host) = hosts.ended()?.first() {
        return Err(format!("{} has ended although nobody ended it", host.name()).into());
    }
    witness.tell(&Event::Enter { phase: Phase::End })?;
    if !plan.faults_only {
        let workers = hosts.of_kind("worker");
        holds_within(PATIENCE, "the workers to end", || {
            let ended = hosts.ended()?;
            Ok(workers.iter().all(|worker| ended.contains(&worker)))
        })?;
        for worker in &workers {
            let status = hosts.status(worker)?;
            if status != "0" {
                return Err(format!("{} has failed with status {status}", worker.name()).into());
            }
        }
    }
    judge(plan, &hosts, &mut witness)
}

fn judge(plan: &Plan, hosts: &Hosts, witness: &mut Client) -> Result<ExitCode, Failure> {
    // The answer means that the history is complete on the witness's disk.
    witness.tell(&Event::Enter { phase: Phase::End })?;
    let file = plan.folder.join("history");
    hosts.copy_out(hosts.named("witness")?, "/data/history", &file.to_string_lossy())?;
    let verdict = Verdict::of(&History::read(&file)?, &rules(plan));
    let drawn = plan.folder.join("timeline.svg");
    fs::write(&drawn, picture(&verdict))?;
    println!("\n{verdict}\nhistory: {}\npicture: {}", file.display(), drawn.display());
    if plan.faults_only {
        println!("The workers told nothing of their locks, so nothing is judged.");
        return Ok(ExitCode::SUCCESS);
    }
    println!("\n{}", Table(&verdict));
    if verdict.is_good() {
        println!("PASS");
        return Ok(ExitCode::SUCCESS);
    }
    let Plan { seconds, seed, client, .. } = plan;
    println!(
        "FAIL. The same faults again: scripts/docker.sh --seconds {seconds} --seed {seed} --client {client}"
    );
    Ok(ExitCode::FAILURE)
}

/// Connects to the witness, which may still be starting. Docker accepts connections to its port before that.
fn connect(address: &str) -> Result<Client, Failure> {
    let mut connected = None;
    holds_within(PATIENCE, "the witness to answer", || {
        connected = Client::connect(address, "nemesis").ok().and_then(|mut witness| {
            witness.tell(&Event::Enter { phase: Phase::Contend }).ok().map(|_| witness)
        });
        Ok(connected.is_some())
    })?;
    connected.ok_or_else(|| "the witness has gone".into())
}

/// Waits until the condition holds.
pub(crate) fn holds_within(
    limit: Duration,
    what: &str,
    mut condition: impl FnMut() -> Result<bool, Failure>,
) -> Result<(), Failure> {
    let start = Instant::now();
    while !condition()? {
        if start.elapsed() > limit {
            return Err(format!("waited for {what}, for {limit:?} in vain").into());
        }
        thread::sleep(POLL);
    }
    Ok(())
}
