//! The holds that are proven, with their times.

use std::collections::HashMap;

use crate::witness::{Class, Event, History, Kind, Stamp};

/// The interval in which one guard was certainly valid. The documentation of `witness` gives the proof.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Hold {
    pub(crate) who: String,
    /// The number of the guard among those of its holder.
    pub(crate) guard: u64,
    pub(crate) kind: Kind,
    pub(crate) names: Vec<String>,
    pub(crate) token: Option<u64>,
    pub(crate) begin: Stamp,
    pub(crate) end: Stamp,
    pub(crate) ending: Ending,
}

impl Hold {
    /// Returns true if both may be valid at once although they have a name in common. Then their tokens may be in any
    /// order, too.
    pub(crate) fn shares_with(&self, other: &Self) -> bool {
        let classes = match (self.kind.class, other.kind.class) {
            (Class::Shared, Class::Shared) => true,
            // The check of permits judges the total of both.
            (Class::Permits { of, .. }, Class::Permits { of: others, .. }) => of == others,
            _ => false,
        };
        classes && self.kind.label == other.kind.label
    }

    pub(crate) fn names_in_common(&self, other: &Self) -> Vec<String> {
        self.names.iter().filter(|name| other.names.contains(name)).cloned().collect()
    }
}

/// The end of a hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    Left,
    /// The guard reported the loss at the end of its promised time.
    Expired,
    /// The guard reported the loss before the end of its promised time.
    LostEarly(String),
    /// The holder reported nothing more: it was killed, or is stopped.
    Unknown,
}

/// A guard without a recorded end.
struct Open {
    kind: Kind,
    names: Vec<String>,
    token: Option<u64>,
    /// The first and the last proven stamp, and the end of the last promise.
    proven: Option<(Stamp, Stamp, Stamp)>,
}

/// All holds that were proven, by beginning.
pub(crate) fn holds(history: &History) -> Vec<Hold> {
    let mut open: HashMap<(&str, u64), Open> = HashMap::new();
    let mut holds = Vec::new();
    for record in &history.0 {
        let (who, stamp) = (record.who.as_str(), record.stamp);
        match &record.event {
            Event::Inside { guard, kind, names, token } => {
                open.entry((who, *guard)).or_insert_with(|| Open {
                    kind: kind.clone(),
                    names: names.clone(),
                    token: *token,
                    proven: None,
                });
            }
            Event::Valid { guard, at, r } => {
                if let Some(hold) = open.get_mut(&(who, *guard)) {
                    let (begin, _, promised) = hold.proven.unwrap_or((*at, *at, *at));
                    // A shorter promise does not revoke an earlier one.
                    hold.proven = Some((begin, *at, promised.max(*at + *r)));
                }
            }
            Event::Shortens { guard } => {
                let proven = open.get_mut(&(who, *guard)).and_then(|hold| hold.proven.as_mut());
                if let Some((_, _, promised)) = proven {
                    *promised = stamp.min(*promised);
                }
            }
            Event::Leaving { guard } => {
                let hold = open.remove(&(who, *guard));
                holds.extend(hold.and_then(|hold| hold.close((who, *guard), Ending::Left, stamp)));
            }
            Event::Lost { guard, in_time, why } => {
                let ending = match in_time {
                    true => Ending::Expired,
                    false => Ending::LostEarly(why.clone()),
                };
                let hold = open.remove(&(who, *guard));
                holds.extend(hold.and_then(|hold| hold.close((who, *guard), ending, stamp)));
            }
            _ => {}
        }
    }
    let unfinished = open.into_iter();
    holds.extend(
        unfinished.filter_map(|(whose, hold)| hold.close(whose, Ending::Unknown, Stamp::MAX)),
    );
    holds.sort_by_key(|hold| hold.begin);
    holds
}

impl Open {
    /// Returns `None` if the guard was never proven valid.
    fn close(self, (who, guard): (&str, u64), ending: Ending, stamp: Stamp) -> Option<Hold> {
        let (begin, last, promised) = self.proven?;
        let end = match ending {
            Ending::LostEarly(_) => last,
            Ending::Left | Ending::Expired | Ending::Unknown => promised.min(stamp),
        };
        let Self { kind, names, token, .. } = self;
        Some(Hold { who: who.to_owned(), guard, kind, names, token, begin, end, ending })
    }
}
