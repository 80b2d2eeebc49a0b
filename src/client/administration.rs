//! Calls of a client that take no lock: for operators, for monitoring, and for the end.

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::Quorlock;
use crate::clock;
use crate::core::base::exact;
use crate::error::{Error, ErrorKind};
use crate::holders::HeldLocks;
use crate::node::Node;
use crate::runtime::admit;
use crate::runtime::exit;
use crate::runtime::held_locks::{self, ScanWanted};
use crate::stats::NodeStats;

impl Quorlock {
    /// The locks that are held, or may be, by the word of the nodes: their names, and of each who holds it. Names are those that
    /// match `pattern`, in the glob syntax of Redis: `*`, `?`, `[a-z]`, and `\` before what stands for itself. An empty
    /// pattern is all names.
    ///
    /// It is for operators and for monitoring. It takes no part in any lock, and what it says may be over when it returns.
    /// A lock that somebody holds all the time while it runs is found; one that is taken or given back meanwhile may be
    /// missing.
    ///
    /// All nodes are scanned ([`SCAN`](https://redis.io/commands/scan/)), each about 1,000 keys at a time, so that no server is kept busy for long. The scan
    /// looks at all keys of the database, those of other applications included. It ends after `within`, and before that
    /// once `most` names are known. The nodes are then asked who holds these, 64 at a time, which takes up to
    /// the [`node_timeout`](crate::Builder::node_timeout) each time. If there may be more,
    /// [`incomplete`](HeldLocks::incomplete) says why; which names are found then is left to chance.
    ///
    /// Whatever is stored as locks are counts as one: a string or a hash with an expiry. So let locks have a key prefix that
    /// no other data has. Keys without an expiry, or of other types, are not reported.
    ///
    /// The user needs the permission for `SCAN`, which no other call does: see
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

    /// Has the nodes grant locks at once that would wait for [`max_ttl`](crate::Builder::max_ttl) first, since they
    /// are new, or were restarted, emptied or promoted. Waits until they do. That takes some
    /// round trips; where clocks contradict each other, up to `max_ttl` and two seconds, or four times the
    /// [`node_timeout`](crate::Builder::node_timeout) if that is longer. Returns the nodes whose wait it has ended.
    ///
    /// **Only when nothing can be held**, by any client anywhere: before the first start of what uses the
    /// locks, or after all of it has been stopped. A node waits because it may have forgotten a lock that
    /// somebody still holds; who skips the wait says that there is no such lock. What a node forgets
    /// after this call is waited for as ever. So it is for a tool that sets up masters, and never for the
    /// `main` of a service: if a master was restarted just before, a second client gets a lock that is held.
    /// For development and CI there is [`restart_quarantine(false)`](crate::Builder::restart_quarantine).
    ///
    /// # Errors
    ///
    /// [`NoQuorum`](ErrorKind::NoQuorum) if no majority of the nodes could be reached and admitted in
    /// time, [`Config`](ErrorKind::Config) if clients with other settings use them, or if they reject this
    /// client. Each with a cause for every node.
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

    /// Does what [`admit`](Self::admit) does, if the nodes show that no lock can be held. So it is safe at any time.
    ///
    /// All nodes have to answer, and none of them may have a key that can be that of a lock. And each of them would have it: its mark
    /// says that it grants locks, and no other clock contradicts its own; or it has run for longer than
    /// [`max_ttl`](crate::Builder::max_ttl), was not emptied in that time (`FLUSHALL`), and had no mark when this client came. Masters
    /// that were started a moment ago do not fulfil that, though they are empty: they may be masters without persistence that were
    /// restarted.
    ///
    /// It goes by what each server says of its own run (`INFO`), so by its clock. If the clocks of a majority are set forward within
    /// `max_ttl` of the servers' start, they seem to have run for longer. Where all other nodes are new, nothing contradicts a
    /// clock that was set forward within the last `max_ttl`, which ends locks early. Where statistics are reset
    /// (`CONFIG RESETSTAT`), a server does not say any more that it was emptied.
    ///
    /// The user needs the permission for `SCAN`, as for [`held_locks`](Self::held_locks).
    ///
    /// # Errors
    ///
    /// [`Quarantined`](ErrorKind::Quarantined) if a lock may be held: it says why, and when the nodes grant locks by themselves. Those
    /// of [`admit`](Self::admit).
    pub fn admit_if_unused(&self) -> Result<Vec<String>, Error> {
        self.coordinator().process.check()?;
        admit::admit_if_unused(self.coordinator().state())
    }

    /// Ends all use of this client, by all its clones: calls that wait end with
    /// [`Closed`](ErrorKind::Closed), and so does every later one. Locks that are held stay held
    /// until their guards are dropped.
    ///
    /// Waits up to `timeout` until what was given back before is free: until its releases are
    /// answered by all nodes that can be reached, and those are a majority. Neither the end of the other
    /// clones nor the end of the process waits any longer. So a guard that outlives this call is best given
    /// back by [`Guard::unlock`](crate::Guard::unlock), which waits by itself.
    ///
    /// # Errors
    ///
    /// [`NoQuorum`](ErrorKind::NoQuorum) if that was not so in time: some keys end with their TTL
    /// only. The client is closed all the same.
    pub fn close(self, timeout: Duration) -> Result<(), Error> {
        let coordinator = self.coordinator().clone();
        coordinator.process.check()?;
        let until = clock::now().after(timeout);
        coordinator.close();
        coordinator.nodes().iter().for_each(Node::hurry);
        let told = exit::flush(coordinator.unanswered(), until)
            && clock::poll(until, || coordinator.majority_told());
        // How long it may take was for the caller to say, for all clones and for the end of the process.
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

    /// The time until a majority of the nodes grants locks, as far as is known without asking them; zero if it does, and `None`
    /// if too few of them have told. For the program `quorlock`.
    #[doc(hidden)]
    #[must_use]
    pub fn grants_locks_in(&self) -> Option<Duration> {
        let coordinator = self.coordinator();
        let is_ours = coordinator.process.is_this();
        is_ours.then(|| coordinator.state().set().ready_in(clock::now())).flatten()
    }

    /// Figures about each node, in the order of the configuration.
    #[must_use]
    pub fn node_stats(&self) -> Vec<NodeStats> {
        let coordinator = self.coordinator();
        match coordinator.process.is_this() {
            true => coordinator.node_stats(),
            false => coordinator.names().iter().map(|name| NodeStats::unknown(name)).collect(),
        }
    }
}
