//! A worker that goes wrong is noticed.

use std::time::Duration;

use crate::processes::Process;
use crate::worker::Settings;

use super::Check;
use super::witness::Running;

pub(crate) const CHECKS: &[Check] =
    &[("worker::a_contender_that_panics_fails_its_worker", a_contender_that_panics_fails_it)];

fn a_contender_that_panics_fails_it() {
    let witness = Running::start();
    let settings = Settings {
        worker: "w1".to_owned(),
        witness: witness.address.clone(),
        nodes: vec!["redis://127.0.0.1:1".to_owned()],
        client: "right".to_owned(),
        seed: 1,
        threads: 3,
        // There is none to choose from, which is a panic.
        names: 0,
        max_ttl: Duration::from_secs(3),
        long_holds: false,
    };
    let ended = Process::worker(&settings).expect("it starts").finish();
    assert!(ended.is_err_and(|error| error.to_string().starts_with("w1 failed")));
}
