//! The use that a caller makes of its lock: it works, extends the lock, and gives it back.

use std::time::Duration;

use super::{Caller, Doing};
use crate::core::base::{HoldClass, Time};
use crate::core::hold::{GiveBack, Prolong};
use crate::core::vote::Shared;
use crate::simulation::checkers::unlocked;
use crate::simulation::client::{Client, Cx, Note, Phase};
use crate::simulation::held::{Ending, Held, Hold, Prolonging};

/// A lock that its holder is giving back, with its state when that began.
pub(super) struct Unlock {
    ending: Ending,
    /// End of its validity.
    valid_until: Time,
    /// True if its keys had been deleted.
    gone: bool,
}

/// The use that a caller makes of a lock.
#[derive(Clone, Copy)]
pub(super) struct Use {
    pub(super) until: Time,
    /// Time that it asks for in one extension.
    pub(super) extend: Option<Duration>,
    pub(super) unlock: bool,
}

impl Caller {
    /// Chooses the use of the lock.
    pub(super) fn usage(index: usize, cx: &mut Cx<'_>, held: &Held) -> Use {
        let now = cx.now();
        let Cx { net, settings, phase, client, .. } = cx;
        let chance = &mut net.chance;
        let ttl = settings.ttl;
        let hour = Duration::from_secs(3_600);
        let unlock = chance.one_in(2);
        if *phase != Phase::Working {
            return Use { until: now, extend: None, unlock };
        }
        if let Some(until) = settings.habit.until(now) {
            let unlock = unlock && settings.habit.thinks() || settings.habit.unlocks();
            return Use { until, extend: None, unlock };
        }
        if settings.rolling && *client == 0 && index == 0 {
            return Use { until: now.after(hour), extend: None, unlock };
        }
        // Shorter extensions are not allowed.
        let shortest = settings.clock_tolerance.max(settings.node_timeout / 2) * 4;
        let asks = |share| ttl.mul_f64(share).max(shortest).min(settings.max_ttl);
        let extend = chance.one_in(4).then(|| asks(chance.pick(&[0.5, 1.0, 4.0, 4.0])));
        let until = match chance.below(4) {
            // This holder is told of the end when it comes.
            0 if !held.terms.get().renewed => now.after(hour),
            0 | 1 if extend.is_none() => now.after(chance.ms(0..50)),
            0 | 1 => now.after(ttl * 6),
            _ => now.after(ttl.mul_f64(3.0 * chance.share())),
        };
        Use { until, extend, unlock }
    }

    pub(super) fn hold(client: &mut Client, index: usize, cx: &mut Cx<'_>, hold: Hold, usage: Use) {
        let now = cx.now();
        let until = if usage.extend.is_some() {
            let part = cx.net.chance.share();
            now.after(usage.until.since(now).mul_f64(part))
        } else {
            // A holder that works for long checks now and then that the lock is still there.
            usage.until.min(now.after(cx.settings.ttl / 4))
        };
        let caller = &mut client.callers[index];
        caller.doing = Doing::Holding(hold, usage);
        caller.remind(cx, until);
    }

    /// Continues after a time of use.
    pub(super) fn used(
        client: &mut Client,
        index: usize,
        cx: &mut Cx<'_>,
        mut hold: Hold,
        mut usage: Use,
    ) {
        let now = cx.now();
        let goes_on_to_read = cx.settings.habit.downgrades_for().filter(|_| now >= usage.until);
        if let Some(reads) = goes_on_to_read
            && hold.class() == Some(HoldClass::Exclusive)
            && cx.phase == Phase::Working
        {
            hold.downgrade(client, cx);
            usage.until = now.after(reads);
        }
        Self::perhaps_again(client, index, cx, &mut hold);
        if hold.held.lock().loss(now).is_some() {
            // The guard of a lost lock is dropped.
            return Self::give_back(client, index, cx, &hold);
        }
        if let Some(ttl) = usage.extend.take() {
            client.callers[index].epoch = cx.net.fresh();
            return Self::extend(client, index, cx, hold, Prolong::extension(ttl), usage);
        }
        if now < usage.until {
            Self::hold(client, index, cx, hold, usage);
        } else if usage.unlock {
            Self::unlock(client, index, cx, &hold);
        } else {
            Self::give_back(client, index, cx, &hold);
        }
    }

    /// Carries on the extension that the holder has asked for.
    pub(super) fn extend(
        client: &mut Client,
        index: usize,
        cx: &mut Cx<'_>,
        hold: Hold,
        mut extension: Prolonging,
        usage: Use,
    ) {
        let held = &hold.held;
        let note = client.callers[index].note();
        let prolonged = held.prolong(client, cx, &mut extension, note);
        held.is_extended.set(true);
        if let Some(round) = extension.round() {
            let wanted = round.with(|round| round.started().after(round.ttl()));
            held.wanted.set(held.wanted.get().max(wanted));
        }
        if held.has_one_holder() {
            // The holder may have asked for less, which takes effect at once.
            held.promised.set(held.lock().valid_until());
        }
        if prolonged.is_none() {
            client.callers[index].doing = Doing::Extending(hold, extension, usage);
            return;
        }
        held.tell_risk(cx);
        held.enter(cx);
        Self::hold(client, index, cx, hold, usage);
    }

    /// Drops the guard.
    fn give_back(client: &mut Client, index: usize, cx: &mut Cx<'_>, hold: &Hold) {
        if hold.drop_guard(client, cx) {
            Self::tell_end(index, cx, &hold.held, "dropped");
        }
        Self::rest(client, index, cx);
    }

    /// Unlocks the guard, which waits for a majority.
    fn unlock(client: &mut Client, index: usize, cx: &mut Cx<'_>, hold: &Hold) {
        let held = &hold.held;
        let (valid_until, gone) = (held.lock().valid_until(), held.is_gone(cx));
        let ending = Ending::new(cx, hold, GiveBack::unlocked(hold.sequence));
        let note = client.callers[index].next_note(cx);
        Self::carry_out(client, index, cx, Unlock { ending, valid_until, gone }, note);
    }

    /// Handles the answers to the release, once they have come or their time is over.
    pub(super) fn unlocked(client: &mut Client, index: usize, cx: &mut Cx<'_>, mut unlock: Unlock) {
        let Unlock { ending, valid_until, gone } = &mut unlock;
        if let Some(release) = &ending.release {
            let claim = &ending.held.claim;
            let result = release.with(|release| release.result());
            let basis = ending.held.lock().basis();
            let (valid, calm) = (cx.now() < *valid_until, cx.phase == Phase::Probing);
            let what = unlocked(cx.net, claim, basis, result, valid, *gone, calm);
            if let Some(what) = what {
                cx.net.checks.report(cx.net.now, "releases", what);
            }
        }
        ending.answered();
        let note = client.callers[index].note();
        Self::carry_out(client, index, cx, unlock, note);
    }

    fn carry_out(
        client: &mut Client,
        index: usize,
        cx: &mut Cx<'_>,
        mut unlock: Unlock,
        note: Note,
    ) {
        let had_left = unlock.ending.has_left;
        let given_back = unlock.ending.carry_out(client, cx, Some(note));
        if unlock.ending.has_left && !had_left {
            Self::tell_end(index, cx, &unlock.ending.held, "unlocked");
        }
        match given_back {
            Some(_) => Self::rest(client, index, cx),
            None => client.callers[index].doing = Doing::Unlocking(unlock),
        }
    }

    fn tell_end(index: usize, cx: &mut Cx<'_>, held: &Held, what: &str) {
        let who = cx.client;
        let short = held.claim.short();
        cx.net.tell(|| format!("client {who}, caller {index}: {short} {what}"));
    }
}
