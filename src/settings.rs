//! The settings of a client, to read and to log.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::config::settings::{self, Fallback, Renewal};

/// The settings of a running client, from [`Quorlock::settings`](crate::Quorlock::settings): those that were given to its
/// [`Builder`](crate::Builder), and the defaults of all others. Log them with `log::info!("{:?}", locks.settings())`: they
/// contain no passwords.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use quorlock::Quorlock;
///
/// let locks = Quorlock::builder().nodes(["redis://:secret@10.0.0.1"]).owner_label("billing").build()?;
/// let settings = locks.settings();
/// assert_eq!(settings.ttl(), Duration::from_secs(10));
/// let text = format!("{settings:?}");
/// assert!(text.contains("ttl: 10s") && text.contains("billing") && !text.contains("secret"));
/// # Ok::<(), quorlock::Error>(())
/// ```
#[derive(Clone, Copy)]
pub struct Settings<'a> {
    pub(crate) nodes: &'a [Arc<str>],
    pub(crate) owner_label: &'a str,
    pub(crate) settings: &'a settings::Settings,
}

impl<'a> Settings<'a> {
    /// Returns the addresses of the nodes, without users and passwords, in the order of the configuration.
    pub fn nodes(self) -> impl Iterator<Item = &'a str> {
        self.nodes.iter().map(|node| &**node)
    }

    /// The client's [`Builder::ttl`](crate::Builder::ttl).
    #[must_use]
    pub const fn ttl(self) -> Duration {
        self.settings.ttl
    }

    /// The client's [`Builder::max_ttl`](crate::Builder::max_ttl).
    #[must_use]
    pub const fn max_ttl(self) -> Duration {
        self.settings.max_ttl
    }

    /// The client's [`Builder::clock_tolerance`](crate::Builder::clock_tolerance).
    #[must_use]
    pub const fn clock_tolerance(self) -> Duration {
        self.settings.clock_tolerance
    }

    /// The client's [`Builder::set_name`](crate::Builder::set_name).
    #[must_use]
    pub fn set_name(self) -> &'a str {
        &self.settings.set_name
    }

    /// The client's [`Builder::restart_quarantine`](crate::Builder::restart_quarantine).
    #[must_use]
    pub const fn restart_quarantine(self) -> bool {
        self.settings.restart_quarantine
    }

    /// The client's [`Builder::node_timeout`](crate::Builder::node_timeout).
    #[must_use]
    pub const fn node_timeout(self) -> Duration {
        self.settings.node_timeout
    }

    /// The client's [`Builder::no_quorum_timeout`](crate::Builder::no_quorum_timeout).
    #[must_use]
    pub const fn no_quorum_timeout(self) -> Duration {
        self.settings.no_quorum_timeout
    }

    /// The client's [`Builder::renewal`](crate::Builder::renewal).
    #[must_use]
    pub const fn renewal(self) -> Renewal {
        self.settings.renewal
    }

    /// The client's [`Builder::max_hold`](crate::Builder::max_hold); `None` means no limit.
    #[must_use]
    pub const fn max_hold(self) -> Option<Duration> {
        self.settings.max_hold
    }

    /// The client's [`Builder::min_hold`](crate::Builder::min_hold); `None` means no minimum.
    #[must_use]
    pub const fn min_hold(self) -> Option<Duration> {
        self.settings.min_hold
    }

    /// The client's [`Builder::risk_margin`](crate::Builder::risk_margin); `None` means the default, which depends on failed
    /// renewals.
    #[must_use]
    pub const fn risk_margin(self) -> Option<Duration> {
        self.settings.risk_margin
    }

    /// The shortest and the longest pause of the client's [`Builder::backoff`](crate::Builder::backoff).
    #[must_use]
    pub const fn backoff(self) -> (Duration, Duration) {
        (self.settings.backoff.min, self.settings.backoff.max)
    }

    /// The client's [`Builder::fallback`](crate::Builder::fallback).
    #[must_use]
    pub const fn fallback(self) -> Fallback {
        self.settings.fallback
    }

    /// The number of replicas, and the time, of the client's [`Builder::wait_replicas`](crate::Builder::wait_replicas);
    /// `None` if no replica is waited for.
    #[must_use]
    pub const fn wait_replicas(self) -> Option<(u32, Duration)> {
        self.settings.wait_replicas
    }

    /// The client's [`Builder::fencing`](crate::Builder::fencing).
    #[must_use]
    pub const fn fencing(self) -> bool {
        self.settings.fencing
    }

    /// The client's [`Builder::local_queue`](crate::Builder::local_queue).
    #[must_use]
    pub const fn local_queue(self) -> bool {
        self.settings.local_queue
    }

    /// The client's [`Builder::key_prefix`](crate::Builder::key_prefix).
    #[must_use]
    pub fn key_prefix(self) -> &'a [u8] {
        &self.settings.key_prefix
    }

    /// The client's [`Builder::owner_label`](crate::Builder::owner_label), which defaults to the host's name and the process
    /// id.
    #[must_use]
    pub const fn owner_label(self) -> &'a str {
        self.owner_label
    }

    pub(crate) fn show(self, f: &mut fmt::DebugStruct<'_, '_>) {
        f.field("nodes", &self.nodes);
        self.settings.show(&self.owner_label, f);
    }
}

impl fmt::Debug for Settings<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Settings");
        self.show(&mut shown);
        shown.finish()
    }
}
