//! Identity of a lock: its kind and its names.

use std::fmt;

use super::chance::Chance;
use crate::core::acquire::WayOfWaiting;
use crate::core::base::HoldClass;
use crate::core::vote::Permits;
use crate::ident::Names;
use crate::kinds::contract::kind::Kind;
use crate::kinds::{KINDS, names};

/// Largest number of names of a randomly chosen lock, so that other names remain.
const MOST_NAMES: usize = 3;

/// A lock. Its names are numbers in the simulator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct LockId {
    /// Index in the list of kinds.
    kind: usize,
    /// One bit for each of its names.
    names: u32,
    /// Slots of a held semaphore, one bit each, and its number of permits.
    slots: u32,
    permits: u32,
}

impl LockId {
    /// A lock of the first kind in the list, which is the exclusive one.
    pub(super) fn exclusive(name: usize) -> Self {
        Self::new(0, [name])
    }

    /// A lock of the kind with that index.
    pub(super) fn new(kind: usize, names: impl IntoIterator<Item = usize>) -> Self {
        let names = names.into_iter().fold(0, |bits, name| bits | 1 << name);
        Self { kind, names, slots: 0, permits: 0 }
    }

    /// A lock of a random kind, with that name. If the kind has several names, further ones may be added.
    pub(super) fn any(
        chance: &mut Chance,
        kinds: impl Fn(&Kind) -> bool,
        name: usize,
        of: usize,
    ) -> Self {
        let kinds: Vec<_> = (0..KINDS.len()).filter(|kind| kinds(KINDS[*kind])).collect();
        let kind = pick(chance, &kinds);
        let most = KINDS[kind].most_names.min(MOST_NAMES).min(of);
        let further = if most > 1 { chance.below(most) } else { 0 };
        let further = (0..further).map(|_| chance.below(of)).collect::<Vec<_>>();
        Self::new(kind, [name].into_iter().chain(further))
    }

    /// A lock of a kind with several names: `names` different ones out of `of`.
    pub(super) fn some(chance: &mut Chance, names: usize, of: usize) -> Self {
        let kind = KINDS.iter().position(|kind| kind.most_names >= names);
        let mut lock = Self::new(kind.expect("a kind with so many names"), []);
        while lock.numbers().count() < names {
            lock.names |= 1 << chance.below(of);
        }
        lock
    }

    /// The locks that each caller must get in the end, for that number of `names`. Further names behave like the
    /// first ones, and are left out unless tests may take long.
    pub(super) fn probes(names: usize) -> impl Iterator<Item = Self> {
        let names = if super::is_long() { names } else { names.min(MOST_NAMES) };
        let of_kind = move |kind: usize| {
            let most = KINDS[kind].most_names.min(MOST_NAMES).min(names);
            // A lock with all of the names is the same one, whichever name comes first.
            let several = if most == names { 1 } else { names };
            (0..several).map(move |name| Self::new(kind, (0..most).map(|i| (name + i) % names)))
        };
        (0..KINDS.len()).flat_map(of_kind)
    }

    /// Returns the `nth` one of the `probes`.
    pub(super) fn probe(nth: usize, names: usize) -> Option<Self> {
        Self::probes(names).nth(nth)
    }

    /// Returns the way in which callers wait for it.
    pub(super) fn waiting(self) -> WayOfWaiting {
        self.kind().waiting(&self.names(), self.kind().permits())
    }

    pub(super) fn kind(self) -> &'static Kind {
        KINDS[self.kind]
    }

    /// The lock of that kind with the same names.
    pub(super) fn of_kind(self, kind: &Kind) -> Self {
        let place = KINDS.iter().position(|it| it.label == kind.label);
        Self { kind: place.unwrap_or(self.kind), ..self }
    }

    /// The lock of any kind of its group with the same names.
    pub(super) fn any_of_group(self, chance: &mut Chance) -> Self {
        let is_of_group = |kind: &usize| KINDS[*kind].group == self.kind().group;
        let kinds: Vec<_> = (0..KINDS.len()).filter(is_of_group).collect();
        Self { kind: pick(chance, &kinds), ..self }
    }

    /// The lock by which the holds of threads are counted: the same for all kinds of one group.
    pub(super) fn of_group(self) -> Self {
        let group = self.kind().group;
        let first = KINDS.iter().position(|kind| kind.group == group);
        Self { kind: first.unwrap_or(self.kind), ..self }
    }

    fn numbers(self) -> impl Iterator<Item = usize> {
        (0..32).filter(move |name| self.has(*name))
    }

    /// Returns true if that is one of its names.
    pub(super) fn has(self, name: usize) -> bool {
        self.names & 1 << name != 0
    }

    /// Its names as the nodes have them.
    pub(super) fn names(self) -> Names {
        let text: Vec<_> = self.numbers().map(key).collect();
        names(&text.iter().map(Vec::as_slice).collect::<Vec<_>>())
    }

    /// Its keys on the nodes.
    pub(super) fn keys(self) -> impl Iterator<Item = Vec<u8>> {
        self.numbers().map(key)
    }

    /// The channels on which its releases are announced.
    pub(super) fn channels(self) -> Vec<Vec<u8>> {
        self.kind().channels(&self.names())
    }

    /// The channel on which joint holders are told of a waiting writer.
    pub(super) fn waiting_channel(self) -> Option<Vec<u8>> {
        self.kind().waiting_channel(&self.names())
    }

    /// The same lock as it is held. A semaphore gets the held slots.
    pub(super) fn with(self, Permits { slots, of }: Permits) -> Self {
        Self { slots: slots.iter().fold(0, |bits, slot| bits | 1 << slot), permits: of, ..self }
    }

    /// Returns the semaphore, its number of held permits and its number of all permits; `None` for other kinds.
    pub(super) fn permits_held(self) -> Option<(Self, u32, u32)> {
        let semaphore = Self { slots: 0, permits: 0, ..self };
        (self.permits > 0).then_some((semaphore, self.slots.count_ones(), self.permits))
    }

    /// Returns true if this lock and the `other` one cannot be held at once. A semaphore has one number of permits at a time.
    pub(super) fn excludes(self, other: Self) -> bool {
        let is_shared = self.kind().hold_class == HoldClass::Shared;
        let is_same_semaphore = self.permits > 0 && self.permits == other.permits;
        let are_slots = is_same_semaphore && self.slots & other.slots == 0;
        self.names & other.names != 0 && !((is_shared || are_slots) && self.kind == other.kind)
    }
}

/// Makes no random draw if there is no choice, so that a new kind changes no run without it.
fn pick(chance: &mut Chance, kinds: &[usize]) -> usize {
    if let [kind] = kinds { *kind } else { chance.pick(kinds) }
}

/// The key of that name.
pub(super) fn key(name: usize) -> Vec<u8> {
    format!("name-{name}").into_bytes()
}

/// The text for stories.
impl fmt::Display for LockId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.numbers().map(|name| name.to_string()).collect();
        write!(f, "{} {}", self.kind().label, names.join("+"))
    }
}
