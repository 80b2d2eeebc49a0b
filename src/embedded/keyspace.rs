//! The data of one node: keys, their values and their expiry times.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use super::reply::Fault;

pub(crate) type Bytes = Vec<u8>;
pub(crate) type Hash = BTreeMap<Bytes, Bytes>;
pub(crate) type Set = BTreeSet<Bytes>;
pub(crate) type SortedSet = BTreeMap<Bytes, f64>;
pub(crate) type List = VecDeque<Bytes>;

/// The value of a key.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    Text(Bytes),
    Hash(Hash),
    Set(Set),
    SortedSet(SortedSet),
    List(List),
}

#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) value: Value,
    /// In milliseconds of the node's clock; `None`: no expiry.
    pub(super) expires_at: Option<i64>,
}

/// The keys that have not expired. Its time stands still while a command or a script runs.
#[derive(Clone, Debug, Default)]
pub(super) struct Keyspace {
    entries: BTreeMap<Bytes, Entry>,
    now: Duration,
    /// No key expires before this time, in milliseconds of the node's clock.
    next_expiry: Option<i64>,
}

impl Value {
    pub(crate) fn type_name(&self) -> &'static str {
        match self {
            Self::Text(_) => "string",
            Self::Hash(_) => "hash",
            Self::Set(_) => "set",
            Self::SortedSet(_) => "zset",
            Self::List(_) => "list",
        }
    }
}

/// One of the types that a [`Value`] is made of.
pub(super) trait Kind: Default {
    fn of(value: &Value) -> Option<&Self>;
    fn of_mut(value: &mut Value) -> Option<&mut Self>;
    fn into_value(self) -> Value;
    fn is_empty(&self) -> bool;
}

macro_rules! kind {
    ($name:ident) => {
        impl Kind for $name {
            fn of(value: &Value) -> Option<&Self> {
                if let Value::$name(value) = value { Some(value) } else { None }
            }

            fn of_mut(value: &mut Value) -> Option<&mut Self> {
                if let Value::$name(value) = value { Some(value) } else { None }
            }

            fn into_value(self) -> Value {
                Value::$name(self)
            }

            fn is_empty(&self) -> bool {
                self.is_empty()
            }
        }
    };
}

kind!(Hash);
kind!(Set);
kind!(SortedSet);
kind!(List);

impl Keyspace {
    /// Sets the node's time, which may also jump or go back.
    pub(super) fn set_time(&mut self, now: Duration) {
        self.now = now;
        let now_ms = self.now_ms();
        if self.next_expiry.is_some_and(|next| next < now_ms) {
            self.entries.retain(|_, entry| entry.expires_at.is_none_or(|at| at >= now_ms));
            self.next_expiry = self.entries.values().filter_map(|entry| entry.expires_at).min();
        }
    }

    pub(super) fn now(&self) -> Duration {
        self.now
    }

    pub(super) fn now_ms(&self) -> i64 {
        i64::try_from(self.now.as_millis()).unwrap_or(i64::MAX)
    }

    pub(super) fn entry(&self, key: &[u8]) -> Option<&Entry> {
        self.entries.get(key)
    }

    pub(super) fn entries(&self) -> impl Iterator<Item = (&Bytes, &Entry)> {
        self.entries.iter()
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn clear(&mut self) {
        self.entries.clear();
        self.next_expiry = None;
    }

    pub(super) fn remove(&mut self, key: &[u8]) -> Option<Entry> {
        self.entries.remove(key)
    }

    pub(super) fn insert(&mut self, key: &[u8], value: Value, expires_at: Option<i64>) {
        self.entries.insert(key.to_vec(), Entry { value, expires_at: None });
        self.expire(key, expires_at);
    }

    /// Changes the expiry of a key. A key whose new expiry is not in the future is removed.
    pub(super) fn expire(&mut self, key: &[u8], at: Option<i64>) {
        if at.is_some_and(|at| at <= self.now_ms()) {
            self.entries.remove(key);
        } else if let Some(entry) = self.entries.get_mut(key) {
            entry.expires_at = at;
            let sooner = self.next_expiry.into_iter().chain(at).min();
            self.next_expiry = sooner;
        }
    }

    /// The string at `key`.
    pub(super) fn text(&self, key: &[u8]) -> Result<Option<&Bytes>, Fault> {
        match self.entries.get(key).map(|entry| &entry.value) {
            None => Ok(None),
            Some(Value::Text(text)) => Ok(Some(text)),
            Some(_) => Err(Fault::WRONG_TYPE),
        }
    }

    /// The value at `key`, if there is one, as a `T`.
    pub(super) fn read<T: Kind>(&self, key: &[u8]) -> Result<Option<&T>, Fault> {
        match self.entries.get(key) {
            None => Ok(None),
            Some(entry) => T::of(&entry.value).map(Some).ok_or(Fault::WRONG_TYPE),
        }
    }

    /// Changes the `T` at `key`, or an empty one if there is none. A value that is empty afterwards is removed.
    pub(super) fn change<T: Kind, R>(
        &mut self,
        key: &[u8],
        change: impl FnOnce(&mut T) -> R,
    ) -> Result<R, Fault> {
        if let Some(entry) = self.entries.get_mut(key) {
            let value = T::of_mut(&mut entry.value).ok_or(Fault::WRONG_TYPE)?;
            let result = change(value);
            if value.is_empty() {
                self.entries.remove(key);
            }
            return Ok(result);
        }
        let mut value = T::default();
        let result = change(&mut value);
        if !value.is_empty() {
            self.insert(key, value.into_value(), None);
        }
        Ok(result)
    }
}
