//! Rules for the test programs that may run side by side.

/// The main kind of work of a test program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Class {
    /// The program measures memory, processor time, or the rate of events. It runs first.
    /// Meanwhile no program computes, and few wait.
    Measures,
    /// The program waits for servers and for time to pass.
    Waits,
    /// The program computes. One runs per processor, at a low priority, so that waiting programs are not delayed.
    Computes,
}

impl Class {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Measures => "measures",
            Self::Waits => "waits",
            Self::Computes => "computes",
        }
    }
}

/// The terms on which a test program runs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    pub(crate) class: Class,
    /// The number of its tests that run at a time.
    pub(crate) threads: usize,
    /// Its approximate duration in seconds: the longest program begins first.
    pub(crate) seconds: u32,
}

const fn terms(class: Class, threads: usize, seconds: u32) -> Terms {
    Terms { class, threads, seconds }
}

/// The programs that differ from most others, which wait for some seconds.
const EXCEPTIONS: &[(&str, Terms)] = &[
    // Memory, threads and processor time.
    ("soak", terms(Class::Measures, 3, 120)),
    ("used_names", terms(Class::Measures, 1, 60)),
    ("no_thread_per_lock", terms(Class::Measures, 1, 15)),
    ("own_thread", terms(Class::Measures, 1, 5)),
    ("endless_replies", terms(Class::Measures, 2, 15)),
    ("refused_connections", terms(Class::Measures, 1, 5)),
    // The rate and the delay at which callers get locks.
    ("nemesis", terms(Class::Measures, 1, 60)),
    ("wake", terms(Class::Measures, 1, 15)),
    ("shared_reads", terms(Class::Measures, 1, 5)),
    // Two tests at a time, one per processor.
    ("quorlock", terms(Class::Computes, 2, 100)),
    ("documentation", terms(Class::Computes, 2, 5)),
    ("conformance", terms(Class::Waits, 6, 120)),
    ("cli", terms(Class::Waits, 3, 100)),
    ("processes", terms(Class::Waits, 2, 100)),
    ("malicious_servers", terms(Class::Waits, 2, 50)),
    ("embedded", terms(Class::Waits, 2, 40)),
    ("schedule", terms(Class::Waits, 2, 40)),
    ("amnesia", terms(Class::Waits, 2, 40)),
    ("between_readings", terms(Class::Waits, 2, 60)),
    ("credentials", terms(Class::Waits, 2, 30)),
    ("old_master", terms(Class::Waits, 2, 40)),
    ("renewal", terms(Class::Waits, 2, 40)),
    ("clock_tolerance", terms(Class::Waits, 2, 40)),
];

/// The names of the exceptions.
#[cfg(test)]
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    EXCEPTIONS.iter().map(|(name, _)| *name)
}

/// The terms of the program with that name. A new program counts as waiting.
pub(crate) fn of(program: &str) -> Terms {
    let exception = EXCEPTIONS.iter().find(|(name, _)| *name == program);
    exception.map_or(terms(Class::Waits, 2, 10), |(_, terms)| *terms)
}
