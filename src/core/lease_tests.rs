use super::super::{Mechanism, without};
use super::*;

fn at(ms: u64) -> Time {
    Time::from_start(Duration::from_millis(ms))
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn terms() -> Terms {
    Terms { ttl: ms(3_000), renewed: true, max_hold: None, allowance: Allowance::FOR_DRIFT }
}

fn lease() -> Lease {
    Lease::new(terms(), Basis::Majority, at(0), at(3_000))
}

#[test]
fn validity_ends_by_the_clock_alone() {
    let mut lease = lease();
    assert_eq!(lease.remaining(at(400)), ms(2_600));
    assert_eq!(lease.loss(at(2_999)), None);
    assert_eq!(lease.remaining(at(3_000)), ms(0));
    assert_eq!(lease.loss(at(3_000)), Some(LossReason::Expired));
}

#[test]
fn a_renewal_is_due_at_a_third_of_the_ttl_and_each_one_moves_the_next() {
    let mut lease = lease();
    assert_eq!(lease.next(at(0)), Next::Renew(at(1_000)));
    lease.renewed(Renewed::Until(at(4_000), Basis::Majority), at(1_010));
    assert_eq!(lease.next(at(1_010)), Next::Renew(at(2_000)));
}

#[test]
fn unknown_does_not_extend_and_is_tried_again_soon() {
    let mut lease = lease();
    lease.renewed(Renewed::Unknown, at(1_200));
    assert_eq!(lease.remaining(at(1_200)), ms(1_800));
    assert_eq!(lease.next(at(1_200)), Next::Renew(at(1_350)));
    // Nothing is due behind the end.
    lease.renewed(Renewed::Unknown, at(2_900));
    assert_eq!(lease.next(at(2_900)), Next::End(at(3_000)));
    assert_eq!(lease.next(at(3_000)), Next::Over(LossReason::Expired));
}

/// The tooth: the keys end, and the holder works on.
#[test]
fn without_that_rule_a_renewal_that_nobody_confirmed_counts() {
    let remaining = || {
        let mut lease = lease();
        lease.renewed(Renewed::Unknown, at(2_900));
        lease.remaining(at(3_000))
    };
    assert_eq!(remaining(), ms(0));
    assert_eq!(without(&[Mechanism::UnknownDoesNotExtend], remaining), ms(2_900));
}

/// Case 8 of the field's bugs: an "extend" that revives a lock already lost.
#[test]
fn a_confirmation_after_the_end_revives_nothing() {
    let mut lease = lease();
    lease.renewed(Renewed::Until(at(5_900), Basis::Majority), at(3_000));
    assert_eq!(lease.remaining(at(3_000)), ms(0));
    assert_eq!(lease.next(at(3_000)), Next::Over(LossReason::Expired));
}

/// The tooth: somebody else may have had the lock in between.
#[test]
fn without_that_rule_a_lost_lock_comes_back() {
    let remaining = || {
        let mut lease = lease();
        lease.renewed(Renewed::Until(at(5_900), Basis::Majority), at(3_000));
        lease.remaining(at(3_000))
    };
    assert_eq!(remaining(), ms(0));
    assert_eq!(without(&[Mechanism::LostStaysLost], remaining), ms(2_900));
}

#[test]
fn a_majority_without_our_key_is_a_loss_before_the_end() {
    let mut lease = lease();
    lease.renewed(Renewed::Gone, at(1_000));
    assert_eq!(lease.loss(at(1_000)), Some(LossReason::KeysGone));
    assert_eq!(lease.remaining(at(1_000)), ms(0));
    lease.renewed(Renewed::Until(at(9_000), Basis::Majority), at(1_001));
    assert_eq!(lease.loss(at(1_001)), Some(LossReason::KeysGone), "it stays lost");
}

#[test]
fn asking_for_less_cuts_the_validity_before_anything_is_sent() {
    let mut lease = lease();
    lease.extending(ms(100), at(200), at(300));
    assert_eq!(lease.remaining(at(200)), ms(100));
    assert_eq!(lease.longest_ttl(), ms(3_000), "the keys live on");
}

#[test]
fn a_longer_extension_is_not_cut_by_the_renewals_after_it() {
    let mut lease = lease();
    lease.extending(ms(60_000), at(0), at(60_000));
    lease.renewed(Renewed::Until(at(60_000), Basis::Majority), at(10));
    assert_eq!(lease.next(at(10)), Next::Renew(at(1_010)), "the keys have to be looked after");
    lease.renewed(Renewed::Until(at(5_000), Basis::Majority), at(2_000));
    assert_eq!(lease.remaining(at(2_000)), ms(58_000));
}

#[test]
fn the_longest_hold_ends_it_whatever_is_confirmed() {
    let terms = Terms { max_hold: Some(ms(4_500)), ..terms() };
    let mut lease = Lease::new(terms, Basis::Majority, at(0), at(3_000));
    lease.renewed(Renewed::Until(at(4_000), Basis::Majority), at(1_000));
    assert_eq!(lease.next(at(1_000)), Next::Renew(at(2_000)));
    lease.renewed(Renewed::Until(at(5_000), Basis::Majority), at(2_000));
    assert_eq!(lease.next(at(2_000)), Next::End(at(4_500)), "the keys live long enough");
    assert_eq!(lease.next(at(4_500)), Next::Over(LossReason::MaxHold));
}

/// A key that lives on after the end of the hold would be in everybody's way.
#[test]
fn keys_live_as_long_as_the_longest_hold_needs_and_no_longer() {
    let longest = Terms { max_hold: Some(ms(9_900)), ..terms() };
    let lease = Lease::new(longest, Basis::Majority, at(0), at(2_968));
    assert_eq!(lease.ttl(ms(3_000), at(1_000)), ms(3_000));
    assert_eq!(lease.ttl(ms(60_000), at(0)), ms(10_003), "9,900 ms, 1 % and 2 ms");
    assert_eq!(lease.ttl(ms(3_000), at(9_000)), ms(912));
    assert!(!lease.ttl(ms(3_000), at(20_000)).is_zero(), "which would delete a key");
    assert_eq!(Lease { ends_at: None, ..lease }.ttl(ms(60_000), at(0)), ms(60_000));

    assert_eq!(longest.ending_with_the_hold().ttl, ms(3_000));
    assert_eq!(Terms { ttl: ms(30_000), ..longest }.ending_with_the_hold().ttl, ms(10_003));
    assert_eq!(terms().ending_with_the_hold().ttl, ms(3_000));
}

/// Asking for more than the hold allows does not cost anything of it.
#[test]
fn an_extension_beyond_the_hold_is_valid_to_its_very_end() {
    let longest = Terms { max_hold: Some(ms(9_900)), ..terms() };
    let mut lease = Lease::new(longest, Basis::Majority, at(0), at(2_968));
    let ttl = lease.ttl(ms(60_000), at(123));
    let valid_until = Allowance::FOR_DRIFT.valid_until(at(123), at(123), ttl);
    lease.extending(ttl, at(123), valid_until);
    lease.renewed(Renewed::Until(valid_until, Basis::Majority), at(124));
    assert_eq!(lease.valid_until(), at(9_900));
    assert_eq!(lease.loss(at(9_900)), Some(LossReason::MaxHold));
}

#[test]
fn a_manual_lease_is_only_watched() {
    let mut lease =
        Lease::new(Terms { renewed: false, ..terms() }, Basis::Majority, at(0), at(3_000));
    assert_eq!(lease.next(at(0)), Next::End(at(3_000)));
    lease.renewed(Renewed::Until(at(4_000), Basis::Majority), at(1_000));
    assert_eq!(lease.next(at(1_000)), Next::End(at(4_000)));
}

#[test]
fn leases_of_one_instant_are_renewed_apart() {
    let due = |lease: &mut Lease, now| match lease.next(now) {
        Next::Renew(due) => due,
        other => panic!("renewed while it is held: {other:?}"),
    };
    let mut on_time = lease().jittered(0.0);
    assert_eq!(due(&mut on_time, at(0)), at(1_000));
    let mut early = lease().jittered(1.0);
    assert_eq!(due(&mut early, at(0)), at(750));
    // Each time, so that they drift apart; also where an extension has made it valid for longer.
    for until in [3_750, 60_000] {
        early.renewed(Renewed::Until(at(until), Basis::Majority), at(750));
        assert_eq!(due(&mut early, at(750)), at(1_500), "until {until}");
    }
}

/// The new holder would have asked for keys of 3 s. Were it killed, they would be there for a minute.
#[test]
fn keys_that_outlive_the_new_holders_terms_are_not_handed_over() {
    let limited = Terms { max_hold: Some(ms(4_000)), ..terms() };
    for new in [terms(), limited] {
        assert!(lease().hand_over(new, at(10)), "nothing was extended");
        let mut lease = lease();
        // It may have happened, even if nobody confirms it.
        lease.extending(ms(60_000), at(10), at(59_408));
        assert!(!lease.hand_over(new, at(20)));
        lease.renewed(Renewed::Until(at(59_408), Basis::Majority), at(30));
        assert!(!lease.hand_over(new, at(40)));
        assert!(!lease.hand_over(new, at(57_009)));
        assert!(lease.hand_over(new, at(57_010)), "the last 3 s of them");
    }
    without(&[Mechanism::HandOverKeepsToTerms], || {
        let mut lease = Lease::new(terms(), Basis::Majority, at(0), at(3_000));
        lease.extending(ms(60_000), at(10), at(59_408));
        assert!(lease.hand_over(terms(), at(20)));
    });
}

/// In the fallback the first node's key lives for a minute; those of the others, which come back, for a TTL.
#[test]
fn a_lock_rests_on_a_majority_only_once_its_keys_live_as_long_as_it_is_valid() {
    let mut lease = Lease::new(terms(), Basis::FirstNode, at(0), at(2_968));
    lease.extending(ms(60_000), at(10), at(59_000));
    lease.renewed(Renewed::Until(at(59_000), Basis::FirstNode), at(20));
    lease.renewed(Renewed::Until(at(4_000), Basis::Majority), at(1_000));
    assert_eq!((lease.basis(), lease.valid_until()), (Basis::FirstNode, at(59_000)));
    lease.renewed(Renewed::Until(at(59_500), Basis::Majority), at(56_500));
    assert_eq!((lease.basis(), lease.valid_until()), (Basis::Majority, at(59_500)));
}

#[test]
fn a_lease_is_joined_on_its_own_terms_and_stays_as_it_is() {
    let mut lease = lease();
    let next = lease.next(at(10));
    assert!(lease.can_be_joined(terms(), at(10)));
    lease.renewed(Renewed::Until(at(3_900), Basis::Majority), at(1_000));
    assert!(lease.can_be_joined(terms(), at(1_000)), "that is a majority's word, too");
    let state = lease.state;
    assert!(lease.can_be_joined(terms(), at(2_000)));
    assert_eq!((lease.state, lease.valid_until()), (state, at(3_900)));
    assert_ne!(lease.next(at(2_000)), next, "renewals go on");
    let manual = Terms { renewed: false, ..terms() };
    let limited = Terms { max_hold: Some(ms(2_500)), ..terms() };
    let longer = Terms { ttl: ms(6_000), ..terms() };
    for (held, joins) in [
        (terms(), manual),
        (manual, terms()),
        (manual, manual),
        (terms(), limited),
        (limited, terms()),
        (limited, limited),
        (terms(), longer),
    ] {
        let mut lease = Lease::new(held, Basis::Majority, at(0), at(2_500));
        assert!(!lease.can_be_joined(joins, at(10)), "{joins:?} beside {held:?}");
    }
}

/// What a lease may not be handed over for, it may not be joined for.
#[test]
fn a_lease_that_would_not_be_handed_over_is_not_joined() {
    assert!(lease().can_be_joined(terms(), at(1_500)));
    let nearly_over = || lease().can_be_joined(terms(), at(1_501));
    assert!(!nearly_over());
    assert!(without(&[Mechanism::HandOverNeedsValidity], nearly_over));
    for renewed in [Renewed::Unknown, Renewed::Gone] {
        let in_doubt = || {
            let mut lease = lease();
            lease.renewed(renewed, at(10));
            lease.can_be_joined(terms(), at(20))
        };
        assert!(!in_doubt(), "{renewed:?}");
        assert!(without(&[Mechanism::HandOverOnlyWhileHeld], in_doubt), "{renewed:?}");
    }
    let long_keys = || {
        let mut lease = lease();
        lease.extending(ms(60_000), at(10), at(59_408));
        lease.can_be_joined(terms(), at(20))
    };
    assert!(!long_keys());
    assert!(without(&[Mechanism::HandOverKeepsToTerms], long_keys));
    let mut weak = Lease::new(terms(), Basis::FirstNode, at(0), at(3_000));
    assert!(!weak.can_be_joined(terms(), at(10)));
}
