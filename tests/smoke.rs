//! The shortest way through: a lock on real servers.

mod support;

use quorlock::Quorlock;
use support::Servers;

#[test]
fn a_lock_excludes_and_leaves_nothing_behind() {
    let servers = Servers::start(5);
    let locks = Quorlock::builder().nodes(servers.urls()).build().expect("valid settings");
    let guard = locks.lock("orders/42").expect("five healthy nodes");
    assert!(locks.try_lock("orders/42").expect("a quorum").is_none());
    guard.unlock().expect("a majority");
    servers.wait_no_keys();
}
