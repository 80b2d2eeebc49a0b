//! Sorted sets, in the order of their scores, and of their members' bytes where scores are equal.

use super::lists;
use crate::embedded::keyspace::{Bytes, SortedSet};
use crate::embedded::number;
use crate::embedded::reply::{Answer, Fault, Reply};
use crate::embedded::state::{Command, State, command, is};

pub(super) const COMMANDS: &[Command] = &[
    command("ZADD", -4, add),
    command("ZREM", -3, |state, words| {
        state.keyspace.change(&words[0], |set: &mut SortedSet| {
            Reply::count(words[1..].iter().filter_map(|member| set.remove(member)).count())
        })
    }),
    command("ZSCORE", 3, |state, words| {
        let score = set(state, words)?.and_then(|set| set.get(&words[1]));
        Ok(Reply::bulk_or_nil(score.map(|score| number::text(*score))))
    }),
    command("ZCARD", 2, |state, words| {
        Ok(Reply::count(set(state, words)?.map_or(0, SortedSet::len)))
    }),
    command("ZRANK", 3, |state, words| {
        let ordered = ordered(set(state, words)?);
        let rank = ordered.iter().position(|(member, _)| **member == words[1]);
        Ok(rank.map_or(Reply::Nil, Reply::count))
    }),
    command("ZRANGE", -4, range),
    command("ZRANGEBYSCORE", -4, |state, words| {
        let shown = Shown::parse(&words[3..])?;
        by_score(state, words, &shown)
    }),
    command("ZCOUNT", 4, |state, words| {
        let scores = Scores::parse(&words[1], &words[2])?;
        let set = set(state, words)?.into_iter().flatten();
        Ok(Reply::count(set.filter(|(_, score)| scores.contain(**score)).count()))
    }),
    command("ZREMRANGEBYSCORE", 4, |state, words| {
        let scores = Scores::parse(&words[1], &words[2])?;
        state.keyspace.change(&words[0], |set: &mut SortedSet| {
            let before = set.len();
            set.retain(|_, score| !scores.contain(*score));
            Reply::count(before - set.len())
        })
    }),
];

fn set<'a>(state: &'a State, words: &[Bytes]) -> Result<Option<&'a SortedSet>, Fault> {
    state.keyspace.read(&words[0])
}

fn ordered(set: Option<&SortedSet>) -> Vec<(&Bytes, f64)> {
    let mut ordered: Vec<_> =
        set.into_iter().flatten().map(|(member, score)| (member, *score)).collect();
    // A stable sort keeps members with the same score in the order of their bytes. No score is NaN.
    ordered.sort_by(|one, other| one.1.partial_cmp(&other.1).unwrap_or(std::cmp::Ordering::Equal));
    ordered
}

#[derive(Default)]
struct AddOptions {
    only_new: bool,
    only_old: bool,
    only_larger: bool,
    only_smaller: bool,
    count_changed: bool,
}

impl AddOptions {
    /// The options, and the words after them.
    fn parse(mut words: &[Bytes]) -> Result<(Self, &[Bytes]), Fault> {
        let mut options = Self::default();
        while let Some((word, rest)) = words.split_first() {
            match word.to_ascii_uppercase().as_slice() {
                b"NX" => options.only_new = true,
                b"XX" => options.only_old = true,
                b"GT" => options.only_larger = true,
                b"LT" => options.only_smaller = true,
                b"CH" => options.count_changed = true,
                _ => break,
            }
            words = rest;
        }
        let directed = usize::from(options.only_larger) + usize::from(options.only_smaller);
        if words.is_empty() || !words.len().is_multiple_of(2) {
            Err(Fault::SYNTAX)
        } else if options.only_new && options.only_old {
            Err(Fault::of("ERR XX and NX options at the same time are not compatible"))
        } else if directed + usize::from(options.only_new) > 1 {
            Err(Fault::of("ERR GT, LT, and/or NX options at the same time are not compatible"))
        } else {
            Ok((options, words))
        }
    }

    fn allow(&self, old: Option<f64>, new: f64) -> bool {
        match old {
            None => !self.only_old,
            Some(old) => {
                !(self.only_new
                    || self.only_larger && new <= old
                    || self.only_smaller && new >= old)
            }
        }
    }
}

fn add(state: &mut State, words: &[Bytes]) -> Answer {
    let (options, pairs) = AddOptions::parse(&words[1..])?;
    let scores = pairs.iter().step_by(2).map(|score| number::float(score));
    let scores = scores.collect::<Result<Vec<_>, _>>()?;
    let members = pairs.iter().skip(1).step_by(2);
    state.keyspace.change(&words[0], |set: &mut SortedSet| {
        let (mut added, mut changed) = (0, 0);
        for (member, score) in members.zip(scores) {
            let old = set.get(member).copied();
            if options.allow(old, score) {
                set.insert(member.clone(), score);
                added += usize::from(old.is_none());
                changed += usize::from(old.is_some_and(|old| old != score));
            }
        }
        Reply::count(if options.count_changed { added + changed } else { added })
    })
}

/// A range of scores; a bound that begins with `(` is exclusive.
struct Scores {
    low: (f64, bool),
    high: (f64, bool),
}

impl Scores {
    fn parse(low: &[u8], high: &[u8]) -> Result<Self, Fault> {
        let bound = |text: &[u8]| {
            let open = text.strip_prefix(b"(");
            number::float(open.unwrap_or(text))
                .map(|score| (score, open.is_some()))
                .map_err(|_| Fault::of("ERR min or max is not a float"))
        };
        Ok(Self { low: bound(low)?, high: bound(high)? })
    }

    fn contain(&self, score: f64) -> bool {
        let ((low, above), (high, below)) = (self.low, self.high);
        (low < score || low == score && !above) && (score < high || score == high && !below)
    }
}

/// The options of a range command: its order, its limit, and whether scores are answered.
#[derive(Default)]
struct Shown {
    by_score: bool,
    with_scores: bool,
    limit: Option<(i64, i64)>,
}

impl Shown {
    fn parse(mut words: &[Bytes]) -> Result<Self, Fault> {
        let mut shown = Self::default();
        while let Some((word, rest)) = words.split_first() {
            words = rest;
            if is(word, "WITHSCORES") {
                shown.with_scores = true;
            } else if is(word, "BYSCORE") {
                shown.by_score = true;
            } else if is(word, "LIMIT")
                && let [skip, most, rest @ ..] = words
            {
                shown.limit = Some((number::integer(skip)?, number::integer(most)?));
                words = rest;
            } else {
                return Err(Fault::SYNTAX);
            }
        }
        Ok(shown)
    }

    fn reply<'a>(&self, members: impl Iterator<Item = (&'a Bytes, f64)>) -> Reply {
        let (skip, most) = self.limit.unwrap_or((0, -1));
        // A negative start answers nothing; a negative number of members means no limit.
        let most = if skip < 0 { 0 } else { usize::try_from(most).unwrap_or(usize::MAX) };
        let members = members.skip(usize::try_from(skip).unwrap_or(0)).take(most);
        let mut list = Vec::new();
        for (member, score) in members {
            list.push(Reply::bulk(member));
            if self.with_scores {
                list.push(Reply::bulk(number::text(score)));
            }
        }
        Reply::List(list)
    }
}

fn range(state: &mut State, words: &[Bytes]) -> Answer {
    let shown = Shown::parse(&words[3..])?;
    if shown.by_score {
        return by_score(state, words, &shown);
    } else if shown.limit.is_some() {
        return Err(Fault::of(
            "ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX",
        ));
    }
    let set = set(state, words);
    // The numbers are checked before the type.
    let ordered = ordered(set.as_ref().ok().copied().flatten());
    let wanted = lists::between(&words[1], &words[2], ordered.len())?;
    set?;
    Ok(shown.reply(ordered[wanted].iter().copied()))
}

fn by_score(state: &mut State, words: &[Bytes], shown: &Shown) -> Answer {
    let scores = Scores::parse(&words[1], &words[2])?;
    let ordered = ordered(set(state, words)?);
    Ok(shown.reply(ordered.into_iter().filter(|(_, score)| scores.contain(*score))))
}
