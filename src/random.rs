//! Random numbers: for owners of locks, which no two attempts anywhere may share, and for pauses.

use std::cell::RefCell;

use rand::distr::{Distribution, StandardUniform};
use rand::rngs::{StdRng, SysRng};
use rand::{RngExt, SeedableRng};

/// Numbers made of one seed at most, as a generator of `rand`'s own would make them.
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
    // Where the system has no randomness for us, owners would not be unique, and no lock safe.
    StdRng::try_from_rng(&mut SysRng).expect("the system gives randomness")
}

thread_local! {
    /// Nothing in it has to be dropped, so it lives as long as its thread. `rand`'s own is destroyed with
    /// the other thread-locals, in any order, and panics then: nobody could lock in a destructor.
    static GENERATOR: RefCell<Generator> = RefCell::new(Generator::new());
}

/// A random number: a fraction of one, if it is an `f64`.
pub(crate) fn random<T>() -> T
where
    StandardUniform: Distribution<T>,
{
    let number = GENERATOR.try_with(|generator| {
        let mut generator = generator.borrow_mut();
        // A child after a fork has the same generator as its parent, and makes nothing with it: only
        // clients call this, and a child whose parent has built one can neither use nor build one.
        if generator.left == 0 {
            *generator = Generator::new();
        }
        generator.left -= 1;
        generator.numbers.random()
    });
    // Where thread-locals are destroyed whatever they hold.
    number.unwrap_or_else(|_| random_afresh())
}

/// A random number that shares nothing with those of this thread.
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

    /// Whichever of the thread's locals is destroyed first.
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
