//! The choice of the next program to start.

use std::cmp::Reverse;

use crate::classes::{self, Class, Terms};
use crate::programs::Program;

/// Maximum of waiting tests that run at a time. More than these keep two processors busy.
const WAITING: usize = 14;

/// Maximum of all tests at a time while some of them measure, and maximum of the measuring ones.
const BESIDE_MEASURING: usize = 9;
const MEASURING: usize = 5;

/// The programs that have not started, and the limits for tests that run at a time.
pub(crate) struct Schedule {
    /// By class, the longest of each first.
    left: Vec<(Terms, Program)>,
    waiting: usize,
    computing: usize,
    measuring: usize,
}

impl Schedule {
    pub(crate) fn new(programs: Vec<Program>) -> Self {
        let mut left: Vec<_> =
            programs.into_iter().map(|program| (classes::of(&program.name), program)).collect();
        left.sort_by_key(|(terms, program)| {
            (terms.class, Reverse(terms.seconds), program.name.clone())
        });
        Self { left, waiting: 0, computing: 0, measuring: 0 }
    }

    /// A program that may start now, if any.
    pub(crate) fn next(&mut self) -> Option<Program> {
        let at = self.left.iter().position(|(terms, _)| self.may_start(terms))?;
        let (terms, program) = self.left.remove(at);
        *self.of(terms.class) += terms.threads;
        Some(program)
    }

    /// The programs that have not started. None are left once all others have ended.
    pub(crate) fn left(&self) -> Vec<&str> {
        self.left.iter().map(|(_, program)| program.name.as_str()).collect()
    }

    /// Notes the end of a program that [`next`](Self::next) has returned.
    pub(crate) fn has_ended(&mut self, program: &Program) {
        let terms = classes::of(&program.name);
        *self.of(terms.class) -= terms.threads;
    }

    fn of(&mut self, class: Class) -> &mut usize {
        match class {
            Class::Measures => &mut self.measuring,
            Class::Waits => &mut self.waiting,
            Class::Computes => &mut self.computing,
        }
    }

    fn may_start(&self, terms: &Terms) -> bool {
        let is_left = self.left.iter().any(|(terms, _)| terms.class == Class::Measures);
        let is_measured = self.measuring > 0 || is_left;
        match terms.class {
            Class::Measures => self.measuring + terms.threads <= MEASURING,
            Class::Waits if is_measured => {
                self.measuring + self.waiting + terms.threads <= BESIDE_MEASURING
            }
            Class::Waits => self.waiting + terms.threads <= WAITING,
            Class::Computes => self.computing == 0 && !is_measured,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::programs::Runs;

    fn program(name: &str) -> Program {
        Program { name: name.to_owned(), runs: Runs::Documentation(Vec::new()) }
    }

    fn started(schedule: &mut Schedule) -> Vec<String> {
        std::iter::from_fn(|| schedule.next().map(|program| program.name)).collect()
    }

    #[test]
    fn nothing_computes_while_something_measures() {
        let mut schedule = Schedule::new(["quorlock", "new", "soak"].map(program).into());
        assert_eq!(started(&mut schedule), ["soak", "new"]);
        schedule.has_ended(&program("soak"));
        assert_eq!(started(&mut schedule), ["quorlock"]);
    }

    #[test]
    fn programs_that_compute_run_one_after_the_other() {
        let mut schedule = Schedule::new(["documentation", "quorlock"].map(program).into());
        assert_eq!(started(&mut schedule), ["quorlock"]);
        schedule.has_ended(&program("quorlock"));
        assert_eq!(started(&mut schedule), ["documentation"]);
    }

    #[test]
    fn no_more_run_than_there_is_room_for_and_all_run() {
        let names: Vec<_> = (0..100).map(|i| format!("new-{i}")).collect();
        let mut schedule = Schedule::new(names.iter().map(|name| program(name)).collect());
        let (mut running, mut ran) = (started(&mut schedule), 0);
        while let Some(name) = running.pop() {
            assert!(schedule.waiting <= WAITING);
            schedule.has_ended(&program(&name));
            running.extend(started(&mut schedule));
            ran += 1;
        }
        assert_eq!(ran, names.len());
    }
}
