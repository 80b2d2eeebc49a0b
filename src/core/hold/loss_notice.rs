//! The notice to one holder about the end of its hold.

use super::LossReason;

/// The one message about a loss. The thread that first sees the loss sends it, and never once the holder has given
/// the lock back. `W` is the driver's means to tell the holder.
#[derive(Debug)]
pub(crate) enum LossNotice<W> {
    /// The lock is neither lost nor given back.
    Open(W),
    Lost(LossReason),
    GivenBack,
}

impl<W> LossNotice<W> {
    /// The lock is lost. Returns the means to tell the holder; `None` if it was told before, or has given the lock
    /// back.
    pub(crate) fn lost(&mut self, reason: LossReason) -> Option<W> {
        self.end(Self::Lost(reason))
    }

    /// The holder has given the lock back, or has handed it over. Returns the means to tell it, which are not needed
    /// any more.
    pub(crate) fn given_back(&mut self) -> Option<W> {
        self.end(Self::GivenBack)
    }

    fn end(&mut self, end: Self) -> Option<W> {
        if !matches!(self, Self::Open(_)) {
            return None;
        }
        match std::mem::replace(self, end) {
            Self::Open(with) => Some(with),
            Self::Lost(_) | Self::GivenBack => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Notice = LossNotice<&'static str>;

    #[test]
    fn a_holder_hears_of_one_end_whatever_comes_later() {
        let ends: [fn(&mut Notice) -> Option<&'static str>; 3] = [
            |notice| notice.lost(LossReason::Expired),
            |notice| notice.lost(LossReason::KeysGone),
            |notice| notice.given_back(),
        ];
        let reason = |notice: &Notice| match notice {
            LossNotice::Lost(reason) => Some(*reason),
            LossNotice::Open(_) | LossNotice::GivenBack => None,
        };
        let first = [Some(LossReason::Expired), Some(LossReason::KeysGone), None];
        for (end, lost) in ends.iter().zip(first) {
            let mut notice = LossNotice::Open("the holder");
            assert_eq!(end(&mut notice), Some("the holder"));
            assert!(ends.iter().all(|later| later(&mut notice).is_none()));
            assert_eq!(reason(&notice), lost);
            assert!(!matches!(notice, LossNotice::Open(_)));
        }
    }
}
