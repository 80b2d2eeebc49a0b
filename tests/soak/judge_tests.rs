//! The judge gets invented runs: flat ones, and one for each possible fault.

use std::time::Duration;

use libtest_mimic::{Failed, Trial};

use crate::clients::STAY;
use crate::figures::{Done, Heap, Masters, Process, Sample};
use crate::judge::{HEAP_AT_REST, MASTERS_MEMORY, SCRIPTS, judge, median};
use crate::watch::{MASTERS, Rest, Run};

pub(crate) fn all() -> Vec<Trial> {
    let trial = |name, test: fn()| {
        Trial::test(name, move || -> Result<(), Failed> {
            test();
            Ok(())
        })
    };
    vec![
        trial("a_flat_run_is_flat", a_flat_run_is_flat),
        trial("what_goes_up_and_down_is_flat", what_goes_up_and_down_is_flat),
        trial("what_grows_under_load_is_named", what_grows_under_load_is_named),
        trial("what_is_left_at_rest_is_named", what_is_left_at_rest_is_named),
        trial("what_is_left_on_masters_is_named", what_is_left_on_masters_is_named),
        trial("a_run_without_load_is_none", a_run_without_load_is_none),
        trial("the_median_is_in_the_middle", the_median_is_in_the_middle),
    ]
}

const SECONDS: u64 = 60;

fn at_rest(clients: u64, fresh: Process, done: u64) -> Sample {
    let Rest { threads, descriptors, connections } = Rest::of_clients(clients, &fresh);
    Sample {
        at: Duration::ZERO,
        process: Process { threads, descriptors, resident: 10 << 20 },
        heap: Heap { bytes: clients * 500_000 + 20_000, blocks: 5_000 },
        done: Done {
            names: done * 300,
            grants: done * 350,
            clients: done * 2,
            gave_up: done * 10,
            lost: done,
            failed: done / 10,
        },
        masters: Masters { connections, channels: 0, scripts: 24, memory: 5 << 20, keys: MASTERS },
    }
}

fn flat() -> Run {
    let fresh = Process { threads: 1, descriptors: 5, resident: 0 };
    let under_load = |second| {
        let mut sample = at_rest(STAY, fresh, 10 + second);
        sample.at = Duration::from_secs(second);
        sample.process.threads += 20;
        sample
    };
    Run {
        fresh: at_rest(0, fresh, 0),
        rest_before: at_rest(STAY, fresh, 10),
        load: (1..=SECONDS).map(under_load).collect(),
        rest_after: at_rest(STAY, fresh, 10 + SECONDS),
        gone: at_rest(0, fresh, 10 + SECONDS),
        emptied: Masters { memory: 5 << 20, scripts: 24, ..Masters::default() },
        keys_left: 0,
    }
}

/// The judge has this complaint and no other.
#[track_caller]
fn complains(change: impl FnOnce(&mut Run), of: &str) {
    let mut run = flat();
    change(&mut run);
    let complaints = judge(&run);
    assert!(
        !complaints.is_empty() && complaints.iter().all(|complaint| complaint.starts_with(of)),
        "{of}: {complaints:?}"
    );
}

fn a_flat_run_is_flat() {
    assert_eq!(judge(&flat()), Vec::<String>::new());
}

/// The figures vary by a factor of two in each ten seconds.
fn what_goes_up_and_down_is_flat() {
    let mut run = flat();
    for (second, sample) in run.load.iter_mut().enumerate() {
        let tenths = 10 + second as u64 % 10;
        let Process { threads, descriptors, resident } = &mut sample.process;
        for figure in [threads, descriptors, resident, &mut sample.heap.bytes] {
            *figure = *figure * tenths / 10;
        }
    }
    // In one second a master is restarted.
    run.load[50].process.threads *= 10;
    run.load[51].heap.bytes *= 10;
    assert_eq!(judge(&run), Vec::<String>::new());
}

fn what_grows_under_load_is_named() {
    let grows = |figure: fn(&mut Sample) -> &mut u64, by: u64| {
        move |run: &mut Run| {
            for (second, sample) in (0..).zip(&mut run.load) {
                *figure(sample) += by * second;
            }
        }
    };
    // The figures are wrong in one of four seconds.
    complains(
        |run| {
            for (second, sample) in (0..).zip(&mut run.load) {
                sample.process.threads += second / 4;
            }
        },
        "threads under load",
    );
    complains(grows(|sample| &mut sample.process.descriptors, 1), "descriptors under load");
    complains(
        grows(|sample| &mut sample.process.resident, 100 << 10),
        "resident memory under load",
    );
    // 40 bytes for each of 300 names a second, in a run that is ten times as long.
    complains(grows(|sample| &mut sample.heap.bytes, 120_000), "heap under load");
}

fn what_is_left_at_rest_is_named() {
    complains(|run| run.rest_after.process.threads += 1, "threads at rest, after");
    complains(|run| run.rest_after.process.descriptors += 1, "descriptors at rest, after");
    complains(|run| run.gone.process.threads += 1, "threads at rest, without");
    complains(|run| run.gone.process.descriptors += 1, "descriptors at rest, without");
    complains(|run| run.rest_before.process.threads -= 1, "threads at rest, before");
    complains(|run| run.rest_after.heap.bytes += HEAP_AT_REST + 1, "heap at rest, after");
    complains(|run| run.gone.heap.bytes += HEAP_AT_REST + 1, "heap at rest, without");
}

fn what_is_left_on_masters_is_named() {
    complains(|run| run.gone.masters.connections = 1, "connections of masters, without");
    complains(|run| run.rest_after.masters.connections += 1, "connections of masters, after");
    complains(|run| run.gone.masters.channels = 1, "channels");
    complains(|run| run.gone.masters.scripts = SCRIPTS + 1, "scripts of masters");
    complains(|run| run.keys_left = 1, "keys");
    complains(|run| run.emptied.memory += MASTERS_MEMORY + 1, "memory of masters");
}

fn a_run_without_load_is_none() {
    complains(|run| run.rest_after.done.lost = run.rest_before.done.lost, "losses: none");
    complains(|run| run.load.truncate(8), "samples: 8");
    complains(|run| run.rest_after.done.failed += 1_000, "failed calls");
}

fn the_median_is_in_the_middle() {
    assert_eq!(median([7, 1, 3].into_iter()), 3);
    assert_eq!(median([7, 1, 3, 5].into_iter()), 5);
    assert_eq!(median([].into_iter()), 0);
}
