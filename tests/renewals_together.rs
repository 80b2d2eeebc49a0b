//! Renewals that are due within some milliseconds of each other go out together.

mod support;

use std::time::Duration;

use quorlock::Quorlock;
use support::clients::{connected, fresh, requests, wait_renewed};
use support::{Servers, wait_until};

/// Longer than any step takes on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);
const LOCKS: usize = 1_000;
/// The number of renewals of each lock during the measurement.
const TIMES: usize = 2;
/// The average number of renewals in one write to a node, at least. It is more than one because renewals are due in steps
/// of some milliseconds, so it does not depend on the machine's speed.
const TOGETHER: u64 = 4;

fn writes(locks: &Quorlock) -> u64 {
    locks.node_stats().iter().map(|node| node.writes).sum()
}

#[test]
fn many_renewals_go_out_in_one_write() {
    let servers = Servers::start(3);
    // Answers may take as long as a busy machine needs.
    let locks = connected(fresh(servers.urls()).node_timeout(Duration::from_secs(2)));
    let guards: Vec<_> =
        (0..LOCKS).map(|i| locks.lock(format!("orders/{i}")).expect("three of three")).collect();
    let (requests_before, writes_before) = (requests(&locks), writes(&locks));
    wait_renewed(&guards, TIMES);
    let fewest = u64::try_from(LOCKS * TIMES * servers.len()).expect("a small number");
    // A majority confirms a renewal. The third node may be asked a moment later.
    wait_until("the requests", LIMIT, || requests(&locks) - requests_before >= fewest);
    let requests = requests(&locks) - requests_before;
    let writes = writes(&locks) - writes_before;
    for guard in &guards {
        guard.check().expect("it was renewed in time");
        assert!(guard.lost().is_empty());
    }
    assert!(requests >= writes * TOGETHER, "{requests} requests in {writes} writes");
    guards.into_iter().for_each(|guard| guard.unlock().expect("three of three"));
    servers.wait_no_keys();
}
