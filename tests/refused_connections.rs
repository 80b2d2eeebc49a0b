//! rslock, crate redlock (case 13 of the field's bugs): with connections refused, the retry loop
//! spins at full speed. Alone in its program, since it measures the processor time of the whole process.

mod support;

use std::time::{Duration, Instant};

use quorlock::ErrorKind;
use support::clients::fresh;
use support::{Servers, cpu::cpu_seconds, wait_until};

#[test]
fn case_13_refused_connections_do_not_make_lock_spin() {
    let mut servers = Servers::start(5);
    let patience = Duration::from_secs(3);
    let builder = fresh(servers.urls()).no_quorum_timeout(patience);
    let before = builder.clone().build().expect("the settings are valid");
    wait_until("all nodes are connected", patience * 5, || {
        before.node_stats().iter().all(|node| node.connected)
    });
    servers.iter_mut().for_each(|server| server.kill());
    let locks = builder.build().expect("the settings are valid");

    // Each node's cause is reported, if the node died before or after a client knew it. (The first
    // call may come before the last node's state is known, on a busy machine.)
    for locks in [&before, &locks] {
        wait_until("all causes are told", patience * 5, || {
            let error = locks.try_lock("orders/42").expect_err("nobody is there");
            assert_eq!(error.kind(), ErrorKind::NoQuorum);
            let faults = error.node_faults().iter();
            faults.filter(|fault| fault.what().contains("connection refused")).count() == 5
        });
    }

    let (start, cpu) = (Instant::now(), cpu_seconds());
    let error = locks.lock("orders/42").expect_err("nobody is there");
    let used = cpu_seconds() - cpu;
    assert_eq!(error.kind(), ErrorKind::NoQuorum);
    assert!(start.elapsed() >= patience, "it gave up early");
    // A spinning thread would use all of that time.
    assert!(used < patience.as_secs_f64() / 4.0, "{used} CPU seconds in {patience:?}");
}
