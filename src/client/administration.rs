//! Calls of a client that take no lock: for operators, for monitoring, and for shutdown.

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::Quorlock;
use crate::clock;
use crate::core::base::{exact, majority};
use crate::error::{Error, ErrorKind};
use crate::holders::HeldLocks;
use crate::kinds;
use crate::node::Node;
use crate::runtime::admit;
use crate::runtime::exit;
use crate::runtime::held_locks::{self, ScanWanted};
use crate::stats::{NodeStats, Recorder, Stats};

impl Quorlock {
    /// Returns the locks that are held, or may be, according to the nodes: their names, and the holders of each. `pattern`
    /// selects names, in the glob syntax of Redis: `*`, `?`, `[a-z]`, and `\` before a literal character. An empty pattern
    /// selects all names.
    ///
    /// For operators and for monitoring. The call does not affect any lock, and the report may be out of date when it
    /// returns. It has every lock that is held throughout the call. A lock that is taken or given back during the call may
    /// be missing.
    ///
    /// All nodes are scanned ([`SCAN`](https://redis.io/commands/scan/)), about 1,000 keys at a time, so that no server is
    /// kept busy for long. The scan visits all keys of the database, including those of other applications. It ends after
    /// `within`, or as soon as `most` names are known. The nodes are then asked for the holders of these names, 64 names at
    /// a time, which takes up to the [`node_timeout`](crate::Builder::node_timeout) each time. If there may be more locks,
    /// [`incomplete`](HeldLocks::incomplete) has the reasons, and it is left to chance which names are found.
    ///
    /// Everything that is stored like a lock counts as one: a string or a hash with an expiry. So give locks a key prefix
    /// that no other data has. Keys without an expiry, or of other types, are not reported.
    ///
    /// The user needs the permission for `SCAN`, which otherwise only
    /// [`admit_if_unused`](Self::admit_if_unused) needs: see
    /// [`operations`](crate::operations#access-lists).
    ///
    /// # Errors
    ///
    /// [`NoQuorum`](ErrorKind::NoQuorum) if fewer than a majority of the nodes can be scanned, with a cause for each;
    /// [`Config`](ErrorKind::Config) if the nodes reject this client, or clients with other settings use them;
    /// [`InvalidName`](ErrorKind::InvalidName) if the pattern is longer than 4096 bytes; [`Closed`](ErrorKind::Closed).
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use std::time::Duration;
    ///
    /// # let locks = quorlock::Quorlock::builder().nodes(["redis://a"]).build()?;
    /// let held = locks.held_locks("orders/*", 1_000, Duration::from_secs(10))?;
    /// for name in &held.names {
    ///     println!("{name}"); // for an operator
    /// }
    /// if !held.is_complete() {
    ///     println!("there may be more");
    /// }
    /// # Ok::<(), quorlock::Error>(())
    /// ```
    pub fn held_locks(
        &self,
        pattern: impl AsRef<[u8]>,
        most: usize,
        within: Duration,
    ) -> Result<HeldLocks, Error> {
        let wanted = ScanWanted { pattern: pattern.as_ref(), most, within };
        held_locks::held_locks(self.coordinator().state(), &wanted)
    }

    /// Ends the wait of nodes that would grant no locks for [`max_ttl`](crate::Builder::max_ttl), since they are new, or
    /// were restarted, emptied or promoted. Returns, once the nodes grant locks, the nodes whose wait was ended.
    ///
    /// The call takes some round trips. If clocks contradict each other, it takes up to `max_ttl` and two seconds, or four
    /// times the [`node_timeout`](crate::Builder::node_timeout) if that is longer.
    ///
    /// **Only when no lock can be held**, by any client anywhere: before the first start of the programs that use the locks,
    /// or after all of them have been stopped. A node waits because it may have forgotten a lock that somebody still holds.
    /// A caller that skips the wait asserts that there is no such lock. If a node forgets locks after this call, it waits as
    /// usual.
    ///
    /// So the call is for a tool that sets up masters, and never for the `main` of a service: if a master was restarted just
    /// before, a second client gets a lock that is held. For development and CI there is
    /// [`restart_quarantine(false)`](crate::Builder::restart_quarantine).
    ///
    /// # Errors
    ///
    /// - [`NoQuorum`](ErrorKind::NoQuorum) if no majority of the nodes could be reached and admitted in time.
    /// - [`Config`](ErrorKind::Config) if clients with other settings use the nodes, or if the nodes reject this client.
    ///
    /// Each has a cause for every node.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use quorlock::Builder;
    ///
    /// // Part of setting up a new installation.
    /// let locks = Builder::from_env()?.build()?;
    /// locks.admit()?;
    /// # Ok::<(), quorlock::Error>(())
    /// ```
    pub fn admit(&self) -> Result<Vec<String>, Error> {
        self.coordinator().process.check()?;
        admit::admit(self.coordinator().state())
    }

    /// Does the same as [`admit`](Self::admit), but only if the nodes show that no lock can be held. So it is safe at any
    /// time.
    ///
    /// All nodes have to answer, none of them may have a key that can be that of a lock, and each must be certain to have
    /// such a key if there was one. A node is certain if its mark says that it grants locks and no other clock contradicts
    /// its own. It is also certain if it had no mark when this client came, has run for long enough, and was not emptied in
    /// this run (`FLUSHALL`, evicted keys). Long enough is [`max_ttl`](crate::Builder::max_ttl), 1 % of it and a second:
    /// 11.1 s by default. Masters that were started a moment ago do not qualify, though they are empty: they may be masters
    /// without persistence that were restarted.
    ///
    /// The check relies on each server's report about its own run (`INFO`), and so on its clock. If the clocks of a majority
    /// are set forward within `max_ttl` of the servers' start, the servers seem to have run for longer. If all other nodes
    /// are new, nothing contradicts a clock that was set forward within the last `max_ttl`, which ends locks early. If
    /// statistics are reset (`CONFIG RESETSTAT`), a server no longer reports that it was emptied.
    ///
    /// The user needs the permission for `SCAN`, as for [`held_locks`](Self::held_locks).
    ///
    /// # Errors
    ///
    /// Those of [`admit`](Self::admit). [`Quarantined`](ErrorKind::Quarantined) if a lock may be held: it contains the
    /// reason, and the time until the nodes grant locks by themselves.
    pub fn admit_if_unused(&self) -> Result<Vec<String>, Error> {
        self.coordinator().process.check()?;
        admit::admit_if_unused(self.coordinator().state())
    }

    /// Ends all use of this client, by all its clones: waiting calls fail with [`Closed`](ErrorKind::Closed), and so does
    /// every later call. Locks that are held stay held until their guards are dropped.
    ///
    /// Waits up to `timeout` until the locks that were given back before are free: until all reachable nodes have answered
    /// their releases, and these nodes are a majority. After that, neither dropping the other clones nor the end of the
    /// process waits. So give back a guard that outlives this call by [`Guard::unlock`](crate::Guard::unlock), which waits
    /// by itself.
    ///
    /// # Errors
    ///
    /// [`NoQuorum`](ErrorKind::NoQuorum) if the releases were not answered in time, so that some keys only end with their
    /// TTL. The client is closed nevertheless.
    pub fn close(self, timeout: Duration) -> Result<(), Error> {
        let coordinator = self.coordinator().clone();
        coordinator.process.check()?;
        let until = clock::now().after(timeout);
        coordinator.close();
        coordinator.nodes().iter().for_each(Node::hurry);
        let told = exit::flush(coordinator.unanswered(), until)
            && clock::poll(until, || coordinator.majority_told());
        // The caller has chosen the time to wait, for all clones and for the end of the process.
        self.shared.waits.store(false, Ordering::SeqCst);
        exit::wait_no_more_for(coordinator.unanswered());
        if told {
            return Ok(());
        }
        let message = format!(
            "closed, but within {} too few nodes could be told of the releases; \
             the keys end with their TTL",
            exact(timeout)
        );
        let faults = coordinator.nodes().iter().filter_map(Node::fault).collect();
        Err(Error::new(ErrorKind::NoQuorum, message).with_faults(faults))
    }

    /// Returns the time until a majority of the nodes grants locks, as far as is known without asking them. Zero if it does
    /// now, and `None` if too few of them have answered so far. For the program `quorlock`.
    #[doc(hidden)]
    #[must_use]
    pub fn grants_locks_in(&self) -> Option<Duration> {
        let coordinator = self.coordinator();
        let is_ours = coordinator.process.is_this();
        is_ours.then(|| coordinator.state().set().ready_in(clock::now())).flatten()
    }

    /// Figures about this client and its nodes: calls by outcome, times of waits and holds, attempts, renewals, losses, and the
    /// state of each node. It asks no node, and takes some microseconds.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[cfg(feature = "embedded")] {
    /// let (locks, _nodes) = quorlock::Quorlock::embedded(3)?;
    /// locks.lock("orders/42")?.unlock()?;
    /// let stats = locks.stats();
    /// let p99 = stats.waits.quantile(0.99).unwrap_or_default();
    /// println!("{} of {} nodes grant locks, p99 of waits: {p99:?}", stats.granting(), stats.nodes.len());
    /// assert_eq!(stats.losses.total(), 0);
    /// # }
    /// # Ok::<(), quorlock::Error>(())
    /// ```
    #[must_use]
    pub fn stats(&self) -> Stats {
        let coordinator = self.coordinator();
        match coordinator.process.is_this() {
            true => coordinator.stats(),
            false => Stats {
                majority: majority(coordinator.names().len()),
                nodes: self.node_stats(),
                ..Recorder::new(&kinds::labels()).snapshot()
            },
        }
    }

    /// Returns figures about each node, in the order of the configuration.
    #[must_use]
    pub fn node_stats(&self) -> Vec<NodeStats> {
        let coordinator = self.coordinator();
        match coordinator.process.is_this() {
            true => coordinator.node_stats(),
            false => coordinator.names().iter().map(|name| NodeStats::unknown(name)).collect(),
        }
    }
}
