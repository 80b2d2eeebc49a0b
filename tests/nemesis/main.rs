//! Faults of all kinds against real masters and client processes, and a witness that does not trust the library.

mod checks;
mod judge;
mod witness;

use libtest_mimic::{Arguments, Trial};

fn main() {
    let arguments = Arguments::from_args();
    let trials = checks::all().into_iter().map(|(name, check)| {
        Trial::test(name, move || {
            check();
            Ok(())
        })
    });
    libtest_mimic::run(&arguments, trials.collect()).exit();
}
