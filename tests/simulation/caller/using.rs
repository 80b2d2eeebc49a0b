//! What a caller does with a lock that it has: it works, extends it, and gives it back.

use std::rc::Rc;
use std::time::Duration;

use super::{Caller, Doing};
use crate::core::{Basis, Ended, Ending, Prolong, Release, Shared, Time};
use crate::simulation::client::{Client, Cx, Phase};
use crate::simulation::fairness::ContentionSink;
use crate::simulation::fan_out::{Asker, FanOut};
use crate::simulation::held::{Held, Hold, Prolonging};

/// What was known of a lock when its holder began to give it back.
pub(super) struct Unlock {
    /// Until when it was valid.
    pub(super) valid_until: Time,
    /// Its keys had been deleted.
    pub(super) gone: bool,
    /// What it rested on.
    pub(super) basis: Basis,
}

/// What it does with the lock.
#[derive(Clone, Copy)]
pub(super) struct Use {
    pub(super) until: Time,
    /// Asks for so much more, once.
    pub(super) extend: Option<Duration>,
    pub(super) unlock: bool,
}

impl Caller {
    /// What to do with the lock.
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
        // No shorter ones are allowed.
        let shortest = settings.clock_tolerance.max(settings.node_timeout / 2) * 4;
        let asks = |share| ttl.mul_f64(share).max(shortest).min(settings.max_ttl);
        let extend = chance.one_in(4).then(|| asks(chance.pick(&[0.5, 1.0, 4.0, 4.0])));
        let until = match chance.below(4) {
            // Who is told of the end when it comes.
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
            // Who works on for long looks now and then whether the lock is still there.
            usage.until.min(now.after(cx.settings.ttl / 4))
        };
        let caller = &mut client.callers[index];
        caller.doing = Doing::Holding(hold, usage);
        caller.remind(cx, until);
    }

    /// It has used the lock for a while.
    pub(super) fn used(
        client: &mut Client,
        index: usize,
        cx: &mut Cx<'_>,
        hold: Hold,
        mut usage: Use,
    ) {
        let now = cx.now();
        if hold.held.lock.borrow_mut().loss(now).is_some() {
            // Dropping the guard of a lost lock.
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

    /// Carries the extension on that it has asked for.
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
        if let Some(round) = extension.round() {
            let wanted = round.with(|round| round.started().after(round.ttl()));
            held.wanted.set(held.wanted.get().max(wanted));
        }
        if held.has_one_holder() {
            // It may have asked for less, which it got at once.
            held.promised.set(held.lock.borrow().valid_until());
        }
        if prolonged.is_none() {
            client.callers[index].doing = Doing::Extending(hold, extension, usage);
            return;
        }
        held.sleep_anew(cx);
        Self::hold(client, index, cx, hold, usage);
    }

    /// The guard is dropped.
    fn give_back(client: &mut Client, index: usize, cx: &mut Cx<'_>, hold: &Hold) {
        if hold.drop_guard(client, cx) {
            Self::tell_end(index, cx, &hold.held, "dropped");
        }
        Self::rest(client, index, cx);
    }

    /// The guard is unlocked, which waits for a majority.
    fn unlock(client: &mut Client, index: usize, cx: &mut Cx<'_>, hold: &Hold) {
        let held = &hold.held;
        let gone = held.is_gone(cx);
        let handed_over = client.hand_over(cx, hold);
        let ended = if handed_over { Ended::Before } else { hold.end(client, cx) };
        if handed_over || ended != Ended::Before {
            Self::tell_end(index, cx, held, "unlocked");
        }
        let Ended::Now(Ending { basis, longest_ttl, lost }) = ended else {
            return Self::rest(client, index, cx);
        };
        if lost.is_some() {
            client.give_back(cx, &held.claim, longest_ttl);
            client.gone(cx, held, true);
            return Self::rest(client, index, cx);
        }
        client.callers[index].epoch = cx.net.fresh();
        let note = client.callers[index].note();
        let cleanups = held.claim.close();
        let release = Release::new(cx.settings.nodes, &cleanups, basis);
        let round = Rc::new(FanOut::new(release, held.claim.lock.kind().decoders().release, note));
        let inner: Option<Rc<dyn Asker>> = Some(round.clone());
        let sink = ContentionSink { shared: cx.shared.clone(), lock: held.claim.lock, inner };
        client.send_releases(cx, &held.claim, &cleanups, longest_ttl, Some(&(Rc::new(sink) as _)));
        for node in 0..cx.settings.nodes {
            if cleanups.iter().all(|cleanup| cleanup.node != node) {
                let call = held.claim.release_call(cx, None);
                client.workers[node].ask(cx, call, round.clone());
            }
        }
        client.gone(cx, held, false);
        cx.remind(cx.now().after(cx.settings.node_timeout), note);
        let valid_until = held.lock.borrow().valid_until();
        client.callers[index].doing =
            Doing::Unlocking(held.clone(), round, Unlock { valid_until, gone, basis });
    }

    fn tell_end(index: usize, cx: &mut Cx<'_>, held: &Held, what: &str) {
        let who = cx.client;
        let short = held.claim.short();
        cx.net.tell(|| format!("client {who}, caller {index}: {short} {what}"));
    }
}
