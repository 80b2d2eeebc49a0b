//! rslock, crate redlock (case 13 of the field's bugs): with connections refused, the retry loop
//! spins at full speed. Alone in its program, since it measures what the whole process uses.

mod support;

use std::error::Error as _;
use std::time::{Duration, Instant};

use quorlock::{ErrorKind, Quorlock};
use support::{Servers, cpu::cpu_seconds};

#[test]
fn case_13_refused_connections_do_not_make_lock_spin() {
    let mut servers = Servers::start(5);
    servers.iter_mut().for_each(|server| server.kill());
    let patience = Duration::from_secs(3);
    let locks = Quorlock::builder()
        .nodes(servers.urls())
        .no_quorum_timeout(patience)
        .build()
        .expect("the settings are valid");

    let error = locks.try_lock("orders/42").expect_err("nobody is there");
    assert_eq!(error.kind(), ErrorKind::NoQuorum);
    assert_eq!(error.node_faults().len(), 5, "{error}");
    for fault in error.node_faults() {
        assert!(fault.what().contains("connection refused"), "{fault}");
        assert!(fault.source().is_some(), "{fault}");
    }

    let (start, cpu) = (Instant::now(), cpu_seconds());
    let error = locks.lock("orders/42").expect_err("nobody is there");
    let used = cpu_seconds() - cpu;
    assert_eq!(error.kind(), ErrorKind::NoQuorum);
    assert!(start.elapsed() >= patience, "it gave up early");
    // A spinning thread uses all of it.
    assert!(used < patience.as_secs_f64() / 4.0, "{used} CPU seconds in {patience:?}");
}
