//! Which test programs may run side by side.

/// The kind of work that a test program does most of the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Class {
    /// It measures: memory, processor time, or how often something happens in a given time. It runs first.
    /// Nothing computes meanwhile, and little waits.
    Measures,
    /// It waits for servers and for time to pass.
    Waits,
    /// It computes. As many run as there are processors, at a low priority, so that those that wait do not wait for it.
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

/// How a test program runs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    pub(crate) class: Class,
    /// How many of its tests run at a time.
    pub(crate) threads: usize,
    /// Roughly how many seconds it takes: the longest begins first.
    pub(crate) seconds: u32,
}

const fn terms(class: Class, threads: usize, seconds: u32) -> Terms {
    Terms { class, threads, seconds }
}

/// The programs that are not like most others, which wait for some seconds.
const EXCEPTIONS: &[(&str, Terms)] = &[
    // Memory, threads and processor time.
    ("soak", terms(Class::Measures, 3, 120)),
    ("used_names", terms(Class::Measures, 1, 60)),
    ("no_thread_per_lock", terms(Class::Measures, 1, 15)),
    ("own_thread", terms(Class::Measures, 1, 5)),
    ("endless_replies", terms(Class::Measures, 2, 15)),
    ("refused_connections", terms(Class::Measures, 1, 5)),
    // How often callers are served, and how soon.
    ("nemesis", terms(Class::Measures, 1, 60)),
    ("wake", terms(Class::Measures, 1, 15)),
    ("shared_reads", terms(Class::Measures, 1, 5)),
    // Two at a time, as many as there are processors.
    ("quorlock", terms(Class::Computes, 2, 100)),
    ("documentation", terms(Class::Computes, 2, 5)),
    ("conformance", terms(Class::Waits, 6, 120)),
    ("cli", terms(Class::Waits, 3, 100)),
    ("processes", terms(Class::Waits, 2, 100)),
    ("malicious_servers", terms(Class::Waits, 2, 50)),
    ("embedded", terms(Class::Waits, 2, 40)),
    ("schedule", terms(Class::Waits, 2, 40)),
    ("amnesia", terms(Class::Waits, 2, 40)),
    ("renewal", terms(Class::Waits, 2, 40)),
    ("clock_tolerance", terms(Class::Waits, 2, 40)),
];

/// The names of these.
#[cfg(test)]
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    EXCEPTIONS.iter().map(|(name, _)| *name)
}

/// The terms of the program with that name. One that is new waits.
pub(crate) fn of(program: &str) -> Terms {
    let exception = EXCEPTIONS.iter().find(|(name, _)| *name == program);
    exception.map_or(terms(Class::Waits, 2, 10), |(_, terms)| *terms)
}
