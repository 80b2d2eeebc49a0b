//! A node: the embedded engine, a wall clock of its own, and the faults of its process.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Deref, DerefMut};
use std::time::Duration;

use super::fan_out::value;
use super::network::{ConnId, info};
use crate::core::admission::Identity;
use crate::core::base::HoldClass;
use crate::embedded::{Data, Engine, Reply};
use crate::kinds::KINDS;
use crate::kinds::contract::kind::Kind;
use crate::node::identity;

pub(super) struct SimNode {
    engine: Pooled,
    index: usize,
    /// Time of the wall clock at the start of true time.
    offset: Duration,
    rate_ppm: i64,
    /// The data of its replica, if that lags behind.
    lagging: Option<Data>,
    /// Numbers of present reasons to hang, and to be down.
    pub(super) hung: u32,
    pub(super) down: u32,
    /// Number of present reasons to load its data: it answers each connection that it cannot serve for now.
    pub(super) loading: u32,
    /// Number of present reasons to be out of memory.
    pub(super) full: u32,
    /// True if it takes no writes, since it lacks its replicas.
    pub(super) lacks_replicas: bool,
    /// Number of present reasons to refuse subscriptions (its user's permissions were changed).
    pub(super) refuses_listeners: u32,
    /// Number of its process; connections to an earlier one are dead.
    pub(super) incarnation: u64,
    /// The scripts whose source it was sent. They are few and differ in length, so a search is cheaper than a hash.
    scripts: Vec<Vec<u8>>,
    /// Connections with a request to run once it no longer hangs, in order.
    pub(super) waiting: Vec<ConnId>,
    /// True if its wall clock was set back at some time.
    pub(super) was_set_back: bool,
    /// Forward steps of its wall clock while clients reached it: time and size of each.
    steps: Vec<(Duration, Duration)>,
    /// End of the time for which it is out of reach after it has forgotten locks.
    pub(super) away_until: Duration,
    /// Time until which it takes writes.
    pub(super) writes_until: Duration,
    /// Time until which locks may be held that it has forgotten.
    pub(super) forgot_until: Duration,
    /// The holders of keys at this time of its wall clock, as found since its last command. Checkers ask for them
    /// again and again.
    found: (Duration, BTreeMap<Vec<u8>, Vec<Holder>>),
}

/// An engine that goes to the next run of this thread. It keeps the scripts that it has compiled, and nothing else.
struct Pooled(Option<Engine>);

thread_local! {
    static POOL: RefCell<Vec<Engine>> = const { RefCell::new(Vec::new()) };
}

impl Pooled {
    fn new(run_id: &str) -> Self {
        let pooled = POOL.with_borrow_mut(Vec::pop);
        let mut engine = pooled.unwrap_or_else(|| Engine::new(run_id));
        engine.renew(run_id);
        Self(Some(engine))
    }
}

impl Deref for Pooled {
    type Target = Engine;

    fn deref(&self) -> &Engine {
        self.0.as_ref().expect("it has an engine until its end")
    }
}

impl DerefMut for Pooled {
    fn deref_mut(&mut self) -> &mut Engine {
        self.0.as_mut().expect("it has an engine until its end")
    }
}

impl Drop for Pooled {
    fn drop(&mut self) {
        POOL.with_borrow_mut(|pool| pool.extend(self.0.take()));
    }
}

/// Class of a hold, its owner, and its end by the node's clock, in milliseconds; a negative end is none.
type Holder = (HoldClass, (Vec<u8>, i64));

impl SimNode {
    pub(super) fn new(index: usize, offset_ms: u64, rate_ppm: i64) -> Self {
        const LATELY: Duration = Duration::from_secs(1_700_000_000);
        let mut node = Self {
            engine: Pooled::new(&run_id(index, 0)),
            index,
            offset: LATELY + Duration::from_millis(offset_ms),
            rate_ppm,
            lagging: None,
            hung: 0,
            down: 0,
            loading: 0,
            full: 0,
            lacks_replicas: false,
            refuses_listeners: 0,
            incarnation: 0,
            scripts: Vec::new(),
            waiting: Vec::new(),
            was_set_back: false,
            steps: Vec::new(),
            away_until: Duration::ZERO,
            writes_until: Duration::MAX,
            forgot_until: Duration::ZERO,
            found: Default::default(),
        };
        // The engine has been up since its first command.
        node.call(&[b"PING".to_vec()], Duration::ZERO);
        node
    }

    /// Makes it a replica, for a moment, of a copy that had only the key `kept` of its data.
    pub(super) fn promote(&mut self, kept: &[u8], now: Duration) {
        let value = self.value(kept, now);
        self.call(&[b"FLUSHALL".to_vec()], now);
        if let Some(value) = value {
            self.call(&[b"SET".to_vec(), kept.to_vec(), value], now);
        }
        self.engine.promote(&"f".repeat(40));
    }

    /// Returns a replica that is promoted in its place, with a wall clock that agrees with its own. It has only the key `kept` of
    /// the data.
    pub(super) fn successor(&mut self, kept: &[u8], now: Duration) -> Self {
        let value = self.value(kept, now).expect("it has that key");
        let mut successor = Self::new(self.index, 0, self.rate_ppm);
        successor.offset = self.offset;
        successor.incarnation = self.incarnation + 1;
        successor.engine.restart(&run_id(self.index, successor.incarnation), false);
        successor.call(&[b"SET".to_vec(), kept.to_vec(), value], now);
        successor.engine.promote(&"f".repeat(40));
        successor
    }

    /// Its replica gets no writes from now on.
    pub(super) fn replica_lags(&mut self) {
        let Self { lagging, engine, .. } = self;
        lagging.get_or_insert_with(|| engine.data());
    }

    /// Its replica has all of its data again.
    pub(super) fn replica_catches_up(&mut self) {
        self.lagging = None;
    }

    /// Returns true if its replica has all of its data.
    pub(super) const fn is_replicated(&self) -> bool {
        self.lagging.is_none()
    }

    /// Takes the data that its replica has.
    pub(super) fn becomes_its_replica(&mut self) {
        if let Some(data) = self.lagging.take() {
            self.engine.set_data(data);
            self.found.1.clear();
        }
    }

    /// Lets it take no writes any more.
    pub(super) fn lose_replicas(&mut self) {
        self.lacks_replicas = true;
        self.engine.lose_replicas();
    }

    /// Returns the time of its wall clock.
    pub(super) fn wall(&self, now: Duration) -> Duration {
        self.offset + at_rate(now, self.rate_ppm)
    }

    pub(super) fn set_back(&mut self, by: Duration) {
        self.offset -= by;
        self.was_set_back = true;
    }

    pub(super) fn set_forward(&mut self, by: Duration) {
        self.offset += by;
    }

    /// Sets the clock forward while clients reach the node. Returns the sum of such steps in the last `within`.
    pub(super) fn step(&mut self, by: Duration, now: Duration, within: Duration) -> Duration {
        self.set_forward(by);
        self.steps.push((now, by));
        self.steps.retain(|(at, _)| *at + within > now);
        self.gained()
    }

    /// Returns the sum of the steps by which its clock was set forward lately.
    pub(super) fn gained(&self) -> Duration {
        self.steps.iter().map(|(_, by)| *by).sum()
    }

    /// Sets that key to a number made of a time `by` ahead of its clock.
    pub(super) fn leave_number(&mut self, key: &[u8], by: Duration, now: Duration) {
        let number = (self.wall(now) + by).as_micros() / 10;
        let number = number.to_string().into_bytes();
        self.call(&[b"SET".to_vec(), key.to_vec(), number], now);
    }

    pub(super) fn call(&mut self, command: &[Vec<u8>], now: Duration) -> Reply {
        self.found.1.clear();
        self.engine.set_full(self.full > 0);
        self.read(command, now)
    }

    /// Runs a command that changes nothing.
    fn read(&mut self, command: &[Vec<u8>], now: Duration) -> Reply {
        let wall = self.wall(now);
        self.engine.call(command, wall)
    }

    pub(super) fn subscribe(&mut self, channel: &[u8]) {
        self.engine.subscribe(channel);
    }

    pub(super) fn unsubscribe(&mut self, channel: &[u8]) {
        self.engine.unsubscribe(channel);
    }

    /// Returns the channel and text of each message published since the last call.
    pub(super) fn take_published(&mut self) -> Vec<(Vec<u8>, Vec<u8>)> {
        let published = self.engine.take_published().into_iter();
        published.map(|message| (message.channel, message.text)).collect()
    }

    /// Returns the server that it is now.
    pub(super) fn identity(&mut self, now: Duration) -> Option<Identity> {
        let sections = info().map(|command| value(&self.read(&command, now)));
        let [server, replication] = sections.collect::<Vec<_>>().try_into().ok()?;
        identity([&server, &replication])
    }

    pub(super) fn value(&mut self, key: &[u8], now: Duration) -> Option<Vec<u8>> {
        match self.read(&[b"GET".to_vec(), key.to_vec()], now) {
            Reply::Bulk(value) => Some(value),
            _ => None,
        }
    }

    /// The owners that have that key of a lock of any kind, each with the end of its hold by the node's clock, in
    /// milliseconds; a negative end is none.
    fn holders(&mut self, key: &[u8], now: Duration) -> Vec<(Vec<u8>, i64)> {
        let of_kinds = self.holders_by_kind(key, now).into_iter();
        let mut holders: Vec<_> = of_kinds.map(|(_, holder)| holder).collect();
        holders.sort_unstable();
        holders.dedup();
        holders
    }

    /// As `holders`, with the class of each hold.
    fn holders_by_kind(&mut self, key: &[u8], now: Duration) -> Vec<Holder> {
        let wall = self.wall(now);
        if self.found.0 != wall {
            self.found = (wall, BTreeMap::new());
        }
        if let Some(found) = self.found.1.get(key) {
            return found.clone();
        }
        let found = self.find_holders(key, now);
        self.found.1.insert(key.to_vec(), found.clone());
        found
    }

    fn find_holders(&mut self, key: &[u8], now: Duration) -> Vec<Holder> {
        // Several kinds ask the same.
        let mut asked: Vec<(Vec<Vec<u8>>, Reply)> = Vec::new();
        let mut call = |command: &[&[u8]]| {
            if let Some((_, reply)) = asked.iter().find(|(before, _)| before == command) {
                return reply.clone();
            }
            let command: Vec<_> = command.iter().map(|word| word.to_vec()).collect();
            let reply = self.read(&command, now);
            asked.push((command, reply.clone()));
            reply
        };
        let of_kind = |kind: &&'static Kind| {
            let holders = (kind.layout.holders)(key, &mut call).into_iter();
            // Each holder of a semaphore has slots of its own: see [`slot_of_two`](Self::slot_of_two).
            let several = kind.permits().is_some();
            let class = if several { HoldClass::Shared } else { kind.hold_class };
            holders.map(|holder| (class, holder)).collect::<Vec<_>>()
        };
        let mut holders: Vec<_> = KINDS.iter().flat_map(of_kind).collect();
        // A key with several holders outlives the holds that end first.
        let wall_ms = self.wall(now).as_millis() as i64;
        holders.retain(|(_, (_, end_ms))| *end_ms < 0 || *end_ms > wall_ms);
        holders
    }

    /// The owners that have that key of a lock, each with the class of its hold.
    pub(super) fn classes(&mut self, key: &[u8], now: Duration) -> Vec<(HoldClass, Vec<u8>)> {
        let holders = self.holders_by_kind(key, now).into_iter();
        holders.map(|(class, (owner, _))| (class, owner)).collect()
    }

    /// Returns a slot that two owners have at once, of the semaphore with that key.
    pub(super) fn slot_of_two(&mut self, key: &[u8], now: Duration) -> Option<String> {
        let command = [b"HGETALL".to_vec(), key.to_vec()];
        let Reply::List(fields) = self.read(&command, now) else { return None };
        let wall_ms = self.wall(now).as_millis() as i64;
        let mut taken = BTreeSet::new();
        let text = |field: &Reply| match field {
            Reply::Bulk(text) => String::from_utf8_lossy(text).into_owned(),
            _ => String::new(),
        };
        let holds = fields.chunks(2).filter(|hold| text(&hold[0]) != "permits");
        holds.map(|hold| text(&hold[1])).find_map(|hold| {
            let (end, slots) = hold.split_once(' ')?;
            let lives = end.parse().is_ok_and(|end: i64| end > wall_ms);
            slots
                .split(' ')
                .find(|slot| lives && !taken.insert((*slot).to_owned()))
                .map(str::to_owned)
        })
    }

    /// The owners that have that key of a lock.
    pub(super) fn owners(&mut self, key: &[u8], now: Duration) -> Vec<String> {
        let holders = self.holders(key, now).into_iter();
        holders.map(|(owner, _)| String::from_utf8_lossy(&owner).into_owned()).collect()
    }

    /// Returns true if `owner` has that key of a lock.
    pub(super) fn has(&mut self, key: &[u8], owner: &[u8], now: Duration) -> bool {
        self.end_ms(key, owner, now).is_some()
    }

    /// End of `owner`'s hold of that key of a lock, by the node's clock, in milliseconds; negative: without end.
    pub(super) fn end_ms(&mut self, key: &[u8], owner: &[u8], now: Duration) -> Option<i64> {
        let holders = self.holders(key, now).into_iter();
        holders.filter(|(whose, _)| is_of(whose, owner)).map(|(_, end_ms)| end_ms).next()
    }

    /// Returns the true time until which it grants the lock with that key to no owner that `owner` excludes.
    pub(super) fn closed_until(&mut self, key: &[u8], owner: &[u8], now: Duration) -> Duration {
        let until = self.key_until(key, owner, now);
        let until = until.map_or(self.away_until, |until| until.max(self.away_until));
        if until.max(now) < self.writes_until { until } else { Duration::MAX }
    }

    /// Returns the true time until which `owner` has that key.
    pub(super) fn key_until(
        &mut self,
        key: &[u8],
        owner: &[u8],
        now: Duration,
    ) -> Option<Duration> {
        let end_ms = self.end_ms(key, owner, now)?;
        if end_ms < 0 {
            return Some(Duration::MAX);
        }
        // The key exists for all of that millisecond.
        let end = Duration::from_millis(end_ms as u64 + 1);
        let left = end.saturating_sub(self.wall(now)).as_micros() as i128;
        let left = left * 1_000_000 / (1_000_000 + i128::from(self.rate_ppm));
        Some(now + Duration::from_micros(left as u64))
    }

    /// Returns true if it knows a script. It knows the script once it `is_sent` the source.
    pub(super) fn knows_script(&mut self, source: &[u8], is_sent: bool) -> bool {
        let is_known = self.scripts.iter().any(|script| script == source);
        if is_sent && !is_known {
            self.scripts.push(source.to_vec());
        }
        is_known || is_sent
    }

    /// It forgets all scripts (SCRIPT FLUSH).
    pub(super) fn forget_scripts(&mut self) {
        self.scripts.clear();
    }

    /// The process ends; the next one begins with its data, or without.
    pub(super) fn stop(&mut self, keep_data: bool) {
        self.forget_scripts();
        self.down += 1;
        self.incarnation += 1;
        self.waiting.clear();
        self.found.1.clear();
        self.engine.restart(&run_id(self.index, self.incarnation), keep_data);
    }
}

/// Id of a process: unique, and never all zeros, which is no id.
pub(super) fn run_id(node: usize, incarnation: u64) -> String {
    format!("{:020x}{incarnation:020x}", node + 1)
}

/// Returns the advance in `time` of a clock that runs `ppm` millionths too fast.
pub(super) fn at_rate(time: Duration, ppm: i64) -> Duration {
    let us = time.as_micros() as i128;
    Duration::from_micros((us + us * i128::from(ppm) / 1_000_000) as u64)
}

/// Returns true if the `owner` of a key is `that` one, or was it before a downgrade, of which the node may not have
/// been told.
fn is_of(owner: &[u8], that: &[u8]) -> bool {
    let before = |kind: &&Kind| {
        let text = std::str::from_utf8(owner).ok()?;
        Some(kind.downgraded(text)?.1.as_bytes() == that)
    };
    owner == that || KINDS.iter().filter_map(before).any(|is_that| is_that)
}
