//! The times at which the holders of a lock are warned, and at which they hear that it has recovered.

use super::*;

/// The fault of the nodes during an outage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outage {
    /// They do not answer, so each round takes its whole time.
    Hung,
    /// They are known to be down, so none is asked.
    Down,
}

/// One lock whose nodes answer after a millisecond, except in one outage of two of three nodes.
struct Story {
    terms: Terms,
    /// Time by which the lock is renewed earlier, as a part of the largest jitter.
    part: f64,
    outage: Outage,
    from_ms: u64,
    to_ms: u64,
}

/// The default scenario: the terms `TERMS`, and an outage from 20 s to 60 s.
const STORY: Story =
    Story { terms: TERMS, part: 0.0, outage: Outage::Hung, from_ms: 20_000, to_ms: 60_000 };

const TERMS: Terms = Terms::renewed(TTL, Allowance { clock_tolerance: Duration::from_millis(100) });

/// A message to the holders, with the time of validity that is left at that moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Heard {
    AtRisk(RiskReason, Duration),
    Recovered,
    Lost(LossReason),
}

impl Story {
    fn heard(&self) -> Vec<Heard> {
        const LASTS_MS: u64 = 60_000;
        let mut lock = held_by(Basis::Majority, self.terms, Schedule::new(self.part, TIMEOUT));
        let (mut renewal, mut heard) = (None::<Driver>, Vec::new());
        for ms in 0..LASTS_MS {
            let (now, answers) = (at(ms), !(self.from_ms..self.to_ms).contains(&ms));
            heard.extend(lock.poll_risk(now).map(|news| match news {
                RiskNews::AtRisk { reason, remaining } => {
                    assert_eq!(remaining, lock.remaining(now));
                    Heard::AtRisk(reason, remaining)
                }
                RiskNews::Recovered { .. } => Heard::Recovered,
            }));
            match (lock.due(now), &mut renewal) {
                (Due::Loss, _) => {
                    heard.extend(lock.loss(now).map(Heard::Lost));
                    return heard;
                }
                (Due::Renewal, None) => {
                    let up = if answers || self.outage == Outage::Hung { 3 } else { 1 };
                    let prolong = Prolong::renewal(up);
                    renewal = Some(Driver { prolong, round: None });
                }
                (_, Some(renewal)) if answers => {
                    for round in renewal.round.iter().filter(|it| it.borrow().awaits_answers()) {
                        (0..3).for_each(|node| round.borrow_mut().vote(node, Extended));
                    }
                }
                _ => {}
            }
            let told = renewal.as_mut().map(|renewal| renewal.go_on(&mut lock, now));
            if told.is_some_and(|told| matches!(told.last(), Some(Told::Done(_)))) {
                renewal = None;
            }
        }
        heard
    }
}

#[test]
fn the_loss_of_a_lock_is_announced_once() {
    for (outage, part) in [(Outage::Hung, 0.0), (Outage::Hung, 1.0), (Outage::Down, 0.5)] {
        let heard = Story { outage, part, ..STORY }.heard();
        let [Heard::AtRisk(RiskReason::NotConfirmed, left), Heard::Lost(LossReason::Unconfirmed)] =
            heard[..]
        else {
            panic!("{outage:?}: {heard:?}")
        };
        // Two fifths of 9.8 s.
        assert!(left > TTL * 38 / 100 && left <= TTL * 2 / 5, "{outage:?}: {left:?}");
        let announced =
            without(&[Mechanism::HoldersAreWarned], || Story { outage, ..STORY }.heard());
        assert_eq!(announced, [Heard::Lost(LossReason::Unconfirmed)]);
    }
}

#[test]
fn an_outage_of_a_second_is_not_told_whenever_it_begins() {
    let heard_of = |lasts_ms: u64| {
        let mut heard = Vec::new();
        for outage in [Outage::Hung, Outage::Down] {
            for part in [0.0, 0.5, 1.0] {
                for from_ms in (20_000..24_000).step_by(50) {
                    let story = Story { outage, part, from_ms, to_ms: from_ms + lasts_ms, ..STORY };
                    heard.extend(story.heard());
                }
            }
        }
        heard
    };
    assert_eq!(heard_of(1_000), []);
    // Some holders hear of a longer outage, and later that it is over.
    let heard = heard_of(5_000);
    assert!(!heard.is_empty());
    for pair in heard.chunks(2) {
        assert!(matches!(pair, [Heard::AtRisk(..), Heard::Recovered]), "{pair:?}");
    }
}

#[test]
fn the_holder_s_own_margin_counts_up_to_half_of_the_validity() {
    let warned_with = |margin: Duration| {
        let terms = Terms { risk_margin: Some(margin), ..TERMS };
        let story = Story { terms, ..STORY };
        match story.heard()[..] {
            [Heard::AtRisk(_, left), Heard::Lost(_)] => Some(left),
            [Heard::Lost(_)] => None,
            ref heard => panic!("{heard:?}"),
        }
    };
    let ms = Duration::from_millis;
    assert_eq!(warned_with(ms(700)), Some(ms(700)));
    assert_eq!(warned_with(ms(4_500)), Some(ms(4_500)));
    let most = warned_with(TTL).expect("it is warned");
    assert!(most > TTL * 48 / 100 && most < TTL / 2, "{most:?}");
    assert_eq!(warned_with(Duration::ZERO), None);
}

#[test]
fn a_lock_that_is_not_renewed_or_ends_as_agreed_is_never_at_risk() {
    let unrenewed = Story { terms: Terms { renewed: false, ..TERMS }, ..STORY };
    assert_eq!(unrenewed.heard(), [Heard::Lost(LossReason::Expired)]);
    let limited = Terms { max_hold: Some(Duration::from_secs(30)), ..TERMS };
    let healthy = Story { terms: limited, from_ms: 60_000, ..STORY };
    assert_eq!(healthy.heard(), [Heard::Lost(LossReason::MaxHold)]);
    let unconfirmed = Story { terms: limited, from_ms: 10_000, ..STORY }.heard();
    assert!(
        matches!(unconfirmed[..], [Heard::AtRisk(..), Heard::Lost(LossReason::Unconfirmed)]),
        "{unconfirmed:?}"
    );
}

/// The time of validity that is left when the holders are warned, if no renewal is confirmed.
fn margin(lock: &Lock) -> Duration {
    lock.valid_until().since(lock.warn_at().expect("they are not warned"))
}

#[test]
fn the_reason_is_what_has_become_of_the_renewal() {
    let mut lock = held();
    let third = margin(&lock);
    assert!(third > TTL * 32 / 100 && third <= TTL / 3);
    let due = lock.warn_at().expect("it is renewed");
    let news = |lock: &mut Lock, now| match lock.poll_risk(now) {
        Some(RiskNews::AtRisk { reason, .. }) => reason,
        news => panic!("{news:?}"),
    };
    assert_eq!(lock.poll_risk(due.before(Duration::from_millis(1))), None);
    assert_eq!(news(&mut lock, due), RiskReason::Late);
    assert_eq!((lock.poll_risk(due), lock.warn_at()), (None, None), "it is told once");

    let mut lock = held();
    let mut renewal = Driver::renewal();
    renewal.go_on(&mut lock, due.before(Duration::from_millis(1)));
    assert_eq!(news(&mut lock, due), RiskReason::NotAnswered);
    assert_eq!(lock.loss(lock.valid_until()), Some(LossReason::Unconfirmed));

    // One failed renewal leaves the margin as it is, and two make it longer.
    let mut lock = held();
    for failed in [1, 2] {
        let mut renewal = Driver { prolong: Prolong::renewal(1), round: None };
        renewal.go_on(&mut lock, at(3_500));
        assert_eq!(margin(&lock) > third, failed == 2);
    }
    let due = lock.warn_at().expect("it is renewed");
    assert_eq!(news(&mut lock, due), RiskReason::NotConfirmed);
}

#[test]
fn a_warning_is_over_when_a_majority_has_moved_the_end() {
    let mut lock = held();
    let now = lock.warn_at().expect("it is renewed");
    assert!(lock.poll_risk(now).is_some());
    // Asking for less moves the end to an earlier time, confirmed or not.
    let extended = |lock: &mut Lock, ttl, is_confirmed: bool| {
        let mut extension = Driver::extension(ttl);
        extension.go_on(lock, now);
        if is_confirmed {
            extension.vote(&[(0, Extended), (1, Extended), (2, Extended)]);
        }
        extension.go_on(lock, now.after(TIMEOUT * u32::from(!is_confirmed)));
        lock.poll_risk(now.after(TIMEOUT))
    };
    let second = Duration::from_secs(1);
    assert_eq!(extended(&mut lock, second * 2, false), None);
    assert_eq!(extended(&mut lock, second, true), None);
    let remaining = lock.remaining(now.after(TIMEOUT)) + (TTL - second);
    let recovered = extended(&mut lock, TTL, true);
    let Some(RiskNews::Recovered { remaining: told }) = recovered else { panic!("{recovered:?}") };
    assert!(told > TTL * 9 / 10 && told <= remaining + second, "{told:?}");
    assert_eq!(lock.poll_risk(now.after(TIMEOUT)), None, "once");
    assert!(lock.warn_at().is_some(), "and may be warned again");
}

/// Renewals go on during the extension, and do not move its end.
#[test]
fn a_long_extension_is_no_reason_for_an_early_warning() {
    let mut lock = held();
    let mut extension = Driver::extension(TTL * 6);
    extension.go_on(&mut lock, at(1_000));
    extension.vote(&[(0, Extended), (1, Extended), (2, Extended)]);
    extension.go_on(&mut lock, at(1_001));
    assert_eq!(margin(&lock), TTL / 3);
    // The margin of a short extension follows from its own length.
    let mut extension = Driver::extension(TTL / 10);
    extension.go_on(&mut lock, at(2_000));
    assert!(margin(&lock) < TTL / 30);
}

#[test]
fn a_further_hold_hears_the_warning_and_the_next_holder_begins_without_one() {
    let mut lock = held();
    let now = lock.warn_at().expect("it is renewed");
    assert_eq!(lock.risk_now(now), None);
    let news = lock.poll_risk(now);
    assert!(news.is_some());
    assert_eq!(lock.risk_now(now), news);
    assert!(lock.hand_over(0, |_| Some(((), 1))).is_some());
    assert_eq!(lock.risk_now(now), None);
    assert!(lock.warn_at().is_some(), "it can be warned");
}

/// While a renewal is under way, the timer waits for the end, or for the warning if that comes first.
#[test]
fn the_timer_looks_when_the_holders_are_to_be_warned() {
    let mut lock = held();
    let Due::RenewalAt(renewal) = lock.due(at(0)) else { panic!("it is renewed") };
    assert_eq!(lock.look_at(at(0)), Some(renewal));
    assert_eq!(lock.take_up(renewal), Due::Renewal);
    let warn_at = lock.warn_at().expect("it is renewed");
    assert_eq!(lock.take_up(renewal), Due::EndAt(lock.valid_until()), "the renewal is taken up");
    assert_eq!(lock.look_at(renewal), Some(warn_at));
    assert_eq!(lock.look_at(warn_at.after(TIMEOUT)), Some(warn_at.after(TIMEOUT)), "at once");
    assert!(lock.poll_risk(warn_at).is_some());
    assert_eq!(lock.look_at(warn_at), Some(lock.valid_until()));
    lock.renewal_is_over();
    assert_eq!(lock.look_at(warn_at), Some(warn_at), "another renewal is due");
    assert!(matches!(lock.end(EndedBy::Loss, lock.valid_until()), Ended::Now(_)));
    assert_eq!((lock.look_at(warn_at), lock.poll_risk(warn_at)), (None, None));
}

/// A term of a leader is one hold.
#[test]
fn a_lease_for_one_holder_is_neither_handed_over_nor_joined() {
    let one_holder = Terms { one_holder: true, ..terms() };
    for (held, wanted, passes) in
        [(terms(), terms(), true), (one_holder, terms(), false), (terms(), one_holder, false)]
    {
        let mut lock = held_as(Basis::Majority, held);
        assert_eq!(lock.join(wanted, 1, at(1)), passes);
        let mut lock = held_as(Basis::Majority, held);
        let handed = lock.hand_over(0, |lease| lease.hand_over(wanted, at(1)).then_some(((), 1)));
        assert_eq!(handed.is_some(), passes);
        assert_eq!(held.share_a_lease(wanted), passes);
    }
}
