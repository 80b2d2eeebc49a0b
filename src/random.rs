//! Random numbers: for owners of locks, which must be unique for each attempt anywhere, and for pauses.

use std::cell::RefCell;

use rand::distr::{Distribution, StandardUniform};
use rand::rngs::{StdRng, SysRng};
use rand::{RngExt, SeedableRng};

/// The most numbers made from one seed, as in `rand`'s own generators.
const RESEED_AFTER: u32 = 4_096;

struct Generator {
    numbers: StdRng,
    left: u32,
}

impl Generator {
    fn new() -> Self {
        Self { numbers: seeded(), left: RESEED_AFTER }
    }
}

fn seeded() -> StdRng {
    // If the system had no randomness for us, owners would not be unique, and no lock safe.
    StdRng::try_from_rng(&mut SysRng).expect("the system gives randomness")
}

thread_local! {
    /// The value needs no drop, so it lives as long as its thread. `rand`'s own generator is destroyed with the other
    /// thread-locals, in any order, and panics after that: nobody could lock in a destructor.
    static GENERATOR: RefCell<Generator> = RefCell::new(Generator::new());
}

/// Returns a random number; an `f64` is a fraction of one.
pub(crate) fn random<T>() -> T
where
    StandardUniform: Distribution<T>,
{
    let number = GENERATOR.try_with(|generator| {
        let mut generator = generator.borrow_mut();
        // A forked child has the same generator as its parent, but never uses it: only clients call this, and a child whose
        // parent has built a client can neither use nor build one.
        if generator.left == 0 {
            *generator = Generator::new();
        }
        generator.left -= 1;
        generator.numbers.random()
    });
    // Thread-locals may be destroyed even when they need no drop.
    number.unwrap_or_else(|_| random_afresh())
}

/// Returns a random number that is independent of the thread's generator.
pub(crate) fn random_afresh<T>() -> T
where
    StandardUniform: Distribution<T>,
{
    seeded().random()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::sync::mpsc::{Sender, channel};

    use super::*;
    use crate::clock;

    struct AtEnd(Sender<u128>);

    impl Drop for AtEnd {
        fn drop(&mut self) {
            for _ in 0..3 {
                self.0.send(random()).expect("it is waited for");
            }
        }
    }

    thread_local! {
        static FIRST: RefCell<Option<AtEnd>> = const { RefCell::new(None) };
        static LAST: RefCell<Option<AtEnd>> = const { RefCell::new(None) };
    }

    /// The order in which the thread's locals are destroyed does not matter.
    #[test]
    fn there_are_numbers_while_a_thread_ends() {
        let (sender, numbers) = channel();
        for use_first in [true, false] {
            let sender = sender.clone();
            let run = move || {
                let end = AtEnd(sender.clone());
                FIRST.with(|first| *first.borrow_mut() = Some(end));
                if use_first {
                    sender.send(random()).expect("it is waited for");
                }
                LAST.with(|last| *last.borrow_mut() = Some(AtEnd(sender)));
            };
            let thread = clock::spawn("a test".to_owned(), run).expect("a thread");
            thread.join().expect("no panic");
        }
        drop(sender);
        let numbers: Vec<_> = numbers.iter().collect();
        assert_eq!(numbers.len(), 13);
        assert_eq!(numbers.iter().collect::<HashSet<_>>().len(), 13, "{numbers:?}");
    }
}
