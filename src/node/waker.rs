//! Ends a wait for an answer.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::wire::Socket;

/// A file descriptor that can be waited for along with a socket.
pub(super) struct Waker {
    wakes: OwnedFd,
    /// The other end, if it has two.
    hears: Option<OwnedFd>,
}

impl Waker {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    pub(super) fn new() -> io::Result<Self> {
        use rustix::event::{EventfdFlags, eventfd};
        let wakes = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self { wakes, hears: None })
    }

    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    pub(super) fn new() -> io::Result<Self> {
        let (wakes, hears) = std::os::unix::net::UnixStream::pair()?;
        wakes.set_nonblocking(true)?;
        hears.set_nonblocking(true)?;
        Ok(Self { wakes: wakes.into(), hears: Some(hears.into()) })
    }

    /// Ends the present wait, or else the next one. If there is no room for this, an earlier call has not ended a wait yet.
    pub(super) fn wake(&self) {
        let _ = rustix::io::write(&self.wakes, &1_u64.to_ne_bytes());
    }

    /// Waits until the socket has something to read, or until `wake` ends the wait, for `at_most`. A signal may end it earlier.
    pub(super) fn wait(&self, socket: &Socket, at_most: Duration) {
        let mut both = [PollFd::new(socket, PollFlags::IN), PollFd::new(self, PollFlags::IN)];
        let at_most = Timespec::try_from(at_most).ok();
        let ended = poll(&mut both, at_most.as_ref());
        if ended.is_ok() && !both[1].revents().is_empty() {
            self.heed();
        }
    }

    /// Forgets earlier calls of `wake`, so that they do not end the next wait.
    pub(super) fn heed(&self) {
        let _ = rustix::io::read(self, &mut [0; 64]);
    }
}

/// The file descriptor that can be read from once a wait must end.
impl AsFd for Waker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.hears.as_ref().unwrap_or(&self.wakes).as_fd()
    }
}
