//! Which program starts next.

use crate::classes::{self, Class, Terms};
use crate::programs::Program;

/// How many tests that wait run at a time. More than these keep two processors busy.
const WAITING: usize = 14;

/// The programs that have not started, and how many tests may run at a time.
pub(crate) struct Schedule {
    /// The longest of each class last.
    left: Vec<(Terms, Program)>,
    waiting: usize,
    computing: usize,
    measuring: usize,
}

impl Schedule {
    pub(crate) fn new(programs: Vec<Program>) -> Self {
        let mut left: Vec<_> =
            programs.into_iter().map(|program| (classes::of(&program.name), program)).collect();
        left.sort_by_key(|(terms, program)| (terms.seconds, program.name.clone()));
        Self { left, waiting: 0, computing: 0, measuring: 0 }
    }

    /// A program that may start now.
    pub(crate) fn next(&mut self) -> Option<Program> {
        let at = self.left.iter().rposition(|(terms, _)| self.may_start(terms))?;
        let (terms, program) = self.left.remove(at);
        *self.of(terms.class) += terms.threads;
        Some(program)
    }

    /// A program that [`next`](Self::next) has returned has ended.
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
        match terms.class {
            Class::Measures => self.computing == 0,
            Class::Waits => self.waiting + terms.threads <= WAITING,
            Class::Computes => {
                let measures = |(terms, _): &(Terms, Program)| terms.class == Class::Measures;
                let is_measured = self.measuring > 0 || self.left.iter().any(measures);
                self.computing == 0 && !is_measured
            }
        }
    }
}
