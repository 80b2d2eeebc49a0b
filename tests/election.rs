//! One candidate of an election leads at a time, and other clients can ask for the leader.

mod support;

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, bounded, unbounded};
use parking_lot::Mutex;
use quorlock::{
    Builder, CallStats, Election, ErrorKind, Leader, Leadership, Leaving, OptionalGuard as _,
    Quorlock,
};
use support::clients::{connected, fresh};
use support::{Servers, wait_until};

const LIMIT: Duration = Duration::from_secs(60);
const NAME: &str = "scheduler";
/// Long enough for a busy machine to renew in time.
const TTL: Duration = Duration::from_secs(6);

fn builder(servers: &Servers) -> Builder {
    fresh(servers.urls()).node_timeout(Duration::from_secs(1))
}

fn client(servers: &Servers) -> Quorlock {
    connected(builder(servers))
}

fn election(locks: &Quorlock, value: &str) -> Election {
    locks.election(NAME).value(value).ttl(TTL)
}

fn leader(election: &Election) -> Option<Leader> {
    election.leader().expect("a majority is healthy")
}

fn value_of_leader(election: &Election) -> Option<String> {
    leader(election).map(|leader| leader.value_str().expect("it is text").to_owned())
}

#[test]
fn one_candidate_leads_at_a_time_and_all_can_read_its_value_and_its_term() {
    let servers = Servers::start(3);
    let (one, two) = (client(&servers), client(&servers));
    let (first, second) = (election(&one, "10.0.0.7:8080"), election(&two, "ö#%"));
    assert_eq!(leader(&first), None);
    let leads = first.campaign().expect("a majority is healthy");
    assert!(leads.is_leader() && leads.remaining() > TTL / 2);
    leads.check().expect("it leads");
    let seen = leader(&second).expect("one leads");
    assert_eq!((seen.value_str(), seen.term), (Some("10.0.0.7:8080"), Some(leads.term())));
    assert_eq!(seen.owner.as_bytes(), leads.guard().owner().as_bytes());
    assert!(seen.remaining_ttl.is_some_and(|ttl| ttl <= TTL));
    let refused = second.try_campaign_for(Duration::ZERO).err().map(|error| error.is_held());
    assert_eq!(refused, Some(true));
    thread::scope(|scope| {
        let next = scope.spawn(|| second.campaign().expect("a majority is healthy"));
        let term = leads.term();
        leads.resign().expect("a majority is healthy");
        let next = next.join().expect("no panic");
        assert!(next.term() > term);
        assert_eq!(value_of_leader(&first).as_deref(), Some("ö#%"));
        next.resign().expect("a majority is healthy");
    });
    assert_eq!(leader(&first), None);
    servers.wait_no_keys();
}

/// Two threads of one client are two candidates with different values: no lease passes from one to the other.
#[test]
fn candidates_of_one_client_have_terms_of_their_own() {
    let servers = Servers::start(3);
    let locks = client(&servers);
    let leads = election(&locks, "one").campaign().expect("a majority is healthy");
    thread::scope(|scope| {
        let (locks, second) = (&locks, election(&locks, "two"));
        let next = scope.spawn(move || second.campaign().expect("a majority is healthy"));
        let plain = scope.spawn(move || locks.lock(NAME).expect("a majority is healthy").token());
        let (owner, term) = (leads.guard().owner().to_owned(), leads.term());
        drop(leads);
        let next = next.join().expect("no panic");
        assert_ne!(next.guard().owner(), owner);
        assert!(next.term() > term);
        assert_eq!(value_of_leader(&election(locks, "")).as_deref(), Some("two"));
        drop(next);
        assert!(plain.join().expect("no panic").is_some_and(|token| token > term));
    });
}

#[test]
fn an_election_and_a_lock_of_one_name_exclude_each_other() {
    let servers = Servers::start(1);
    let locks = client(&servers);
    let guard = locks.lock(NAME).expect("one of one");
    let stands = election(&locks, "me");
    assert!(stands.try_campaign_for(Duration::ZERO).is_err_and(|error| error.is_held()));
    assert_eq!(value_of_leader(&stands).as_deref(), Some(""), "a holder without a value");
    drop(guard);
    let leads = stands.campaign().expect("one of one");
    assert!(locks.try_lock(NAME).optional().expect("one of one").is_none());
    drop(leads);
}

/// Two candidates resign as soon as they lead: each leads again only after the other one has.
#[test]
fn a_candidate_that_resigns_lets_another_one_lead() {
    let servers = Servers::start(3);
    let (terms, both) = (Mutex::new(Vec::new()), Barrier::new(2));
    thread::scope(|scope| {
        for value in ["one", "two"] {
            let (servers, terms, both) = (&servers, &terms, &both);
            scope.spawn(move || {
                let locks = client(servers);
                let stands = election(&locks, value);
                both.wait();
                for _ in 0..5 {
                    let leads = stands.campaign().expect("a majority is healthy");
                    terms.lock().push((leads.term(), value));
                    leads.resign().expect("a majority is healthy");
                }
            });
        }
    });
    let terms = terms.into_inner();
    assert!(terms.is_sorted_by(|(before, _), (after, _)| before < after), "{terms:?}");
    // When one candidate is done, the other one may lead twice in a row.
    let in_turn = terms.windows(2).filter(|pair| pair[0].1 != pair[1].1).count();
    assert!(in_turn >= 8, "{terms:?}");
}

/// The leader resigns when it is asked to, and gets the request only once.
#[test]
fn a_leader_that_is_asked_to_resign_hears_of_it_and_leads_until_it_does() {
    let servers = Servers::start(3);
    let (first, second) = (client(&servers), client(&servers));
    let (stands, next) = (election(&first, "one"), election(&second, "two"));
    assert!(!next.ask_to_resign("nobody leads").expect("a majority is healthy"));
    let leads = stands.campaign().expect("a majority is healthy");
    for _ in 0..2 {
        assert!(next.ask_to_resign("deploy").expect("a majority is healthy"));
    }
    let leaving = leads.leaving().recv_timeout(LIMIT).expect("it is told");
    assert_eq!(leaving.to_string(), "asked to release it: deploy");
    assert!(matches!(leaving, Leaving::Asked(_)) && leads.is_leader());
    leads.resign().expect("a majority is healthy");
    next.campaign().expect("a majority is healthy").resign().expect("a majority is healthy");
}

#[test]
fn a_candidate_that_is_alone_leads_again_after_one_ttl() {
    let servers = Servers::start(1);
    let locks = client(&servers);
    let ttl = Duration::from_secs(2);
    let stands = locks.election(NAME).ttl(ttl);
    let leads = stands.campaign().expect("one of one");
    // The time begins within the call.
    let resigned = Instant::now();
    leads.resign().expect("one of one");
    let refused = stands.try_campaign_for(ttl / 10).expect_err("it stays away");
    assert!(refused.is_held() && resigned.elapsed() >= ttl / 10, "{refused}");
    let (stop, stopped) = bounded::<()>(0);
    drop(stop);
    assert!(stands.campaign_within(&stopped).is_err_and(|error| error.is_cancelled()));
    let leads = stands.campaign().expect("one of one");
    assert!(resigned.elapsed() >= ttl * 9 / 10, "{:?}", resigned.elapsed());
    leads.resign().expect("one of one");
    // Calls that end before the nodes are asked count as all others.
    let stands = stands.metrics_label("jobs");
    let refused = stands.try_campaign_for(Duration::ZERO).expect_err("it stays away");
    assert!(refused.is_held(), "{refused}");
    let stats = locks.stats();
    let calls = stats.kinds.iter().find(|it| it.kind == "mutex").expect("a term is such a lock");
    let label = stats.labels.iter().find(|it| it.label == "jobs").expect("the label");
    let CallStats { acquired, held, cancelled, .. } = calls.calls;
    assert_eq!((acquired, held, cancelled), (2, 2, 1));
    assert_eq!((label.calls.acquired, label.calls.held, stats.waiting), (0, 1, 0));
}

/// Leads until it must leave, and reports that.
fn until_leaving(
    told: &crossbeam_channel::Sender<String>,
) -> impl FnMut(&Leadership) + Send + 'static {
    let told = told.clone();
    move |leadership| {
        told.send("leads".to_owned()).expect("the test listens");
        let leaving = leadership.leaving().recv_timeout(LIMIT).expect("it is told to leave");
        let valid = if leadership.is_leader() { "valid" } else { "over" };
        told.send(format!("{valid}: {leaving}")).expect("the test listens");
    }
}

#[track_caller]
fn hears(told: &Receiver<String>, what: &str) {
    let heard = told.recv_timeout(LIMIT).expect("it is told");
    assert!(heard.starts_with(what), "{heard}");
}

#[test]
fn run_leads_until_it_is_told_to_stop_and_gives_back() {
    let servers = Servers::start(3);
    let locks = client(&servers);
    let stops: [fn(crossbeam_channel::Sender<()>); 2] =
        [drop, |stop| stop.send(()).expect("it listens")];
    for stop in stops {
        let (told, is_told) = unbounded();
        let (stopper, stopped) = bounded(1);
        thread::scope(|scope| {
            let lead = until_leaving(&told);
            let stands = scope.spawn(|| locks.election(NAME).ttl(TTL).run(&stopped, lead));
            hears(&is_told, "leads");
            stop(stopper);
            hears(&is_told, "valid: told to stop");
            stands.join().expect("no panic").expect("it was stopped");
        });
        wait_until("the leadership is given back", LIMIT, || {
            leader(&locks.election(NAME)).is_none()
        });
    }
}

#[test]
fn a_leader_whose_masters_fail_leaves_before_its_term_ends_and_leads_again() {
    let mut servers = Servers::start(3);
    let locks = client(&servers);
    let (told, is_told) = unbounded();
    let candidate = election(&locks, "me").start(until_leaving(&told)).expect("there are threads");
    hears(&is_told, "leads");
    servers.iter_mut().take(2).for_each(support::Server::pause);
    hears(&is_told, "valid: at risk of being lost in");
    servers.iter_mut().take(2).for_each(support::Server::resume);
    hears(&is_told, "leads");
    candidate.stop().expect("it was not stopped before");
    hears(&is_told, "valid: told to stop");
    assert_eq!(leader(&election(&locks, "")), None, "it has given it back");
    servers.wait_no_keys();
}

#[test]
fn the_margin_of_an_election_is_settable() {
    let mut servers = Servers::start(1);
    let leads = election(&client(&servers), "me").margin(TTL / 2).campaign().expect("one of one");
    servers[0].pause();
    match leads.leaving().recv_timeout(LIMIT).expect("it is told to leave") {
        Leaving::AtRisk(risk) => assert!(risk.remaining() > TTL * 2 / 5, "{risk}"),
        other => panic!("{other}"),
    }
    servers[0].resume();
}

#[test]
fn a_panic_ends_the_term() {
    let servers = Servers::start(1);
    let locks = client(&servers);
    let stands = locks.election(NAME).ttl(Duration::from_secs(2));
    let (_stop, stopped) = bounded::<()>(0);
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        stands.run(&stopped, |_| resume_unwind(Box::new("while it leads")))
    }));
    assert!(panicked.is_err(), "it goes on");
    wait_until("the leadership is given back", LIMIT, || leader(&stands).is_none());
    let terms = Arc::new(AtomicUsize::new(0));
    let theirs = terms.clone();
    let candidate = stands.start(move |_| {
        theirs.fetch_add(1, Ordering::SeqCst);
        resume_unwind(Box::new("while it leads"));
    });
    let candidate = candidate.expect("there are threads");
    wait_until("it stands again", LIMIT, || terms.load(Ordering::SeqCst) >= 2);
    candidate.stop().expect("it was not stopped before");
}

#[test]
fn a_candidate_that_is_dropped_stops_by_itself() {
    let servers = Servers::start(1);
    let locks = client(&servers);
    let (told, is_told) = unbounded();
    let candidate = election(&locks, "me").start(until_leaving(&told)).expect("there are threads");
    hears(&is_told, "leads");
    drop(candidate);
    hears(&is_told, "valid: told to stop");
    wait_until("it has given it back", LIMIT, || leader(&election(&locks, "")).is_none());
}

#[test]
fn a_candidate_whose_client_is_closed_says_that_it_has_ended() {
    let servers = Servers::start(1);
    let locks = client(&servers);
    let other = client(&servers);
    let leads = election(&other, "other").campaign().expect("one of one");
    let candidate = election(&locks, "me").start(|_| {}).expect("there are threads");
    assert!(!candidate.has_ended());
    locks.close(LIMIT).expect("nothing is left");
    wait_until("it has ended", LIMIT, || candidate.has_ended());
    assert_eq!(candidate.stop().expect_err("its client is closed").kind(), ErrorKind::Closed);
    drop(leads);
}

#[test]
fn an_observer_sees_each_leader_with_its_value_and_rising_terms() {
    let servers = Servers::start(3);
    let (locks, watching) = (client(&servers), client(&servers));
    let observer = watching.election(NAME).observe().expect("there are threads");
    let next = || observer.changes().recv_timeout(LIMIT).expect("it is told");
    assert_eq!(next(), None, "nobody leads at first");
    let mut last = None;
    for value in ["one", "two", "three"] {
        let leads = election(&locks, value).campaign().expect("a majority is healthy");
        let seen = next().expect("one leads");
        assert_eq!(seen.value_str(), Some(value));
        assert!(seen.term > last && seen.term >= Some(leads.term()), "{seen}");
        last = seen.term;
        leads.resign().expect("a majority is healthy");
        assert_eq!(next(), None);
    }
    watching.close(LIMIT).expect("nothing is left");
    assert!(observer.changes().recv_timeout(LIMIT).is_err(), "it ends with its client");
}

#[test]
fn bad_input_is_refused_at_once() {
    let servers = Servers::start(1);
    let locks = client(&servers);
    let refused = |error: Option<quorlock::Error>| error.expect("it is refused");
    let long = refused(locks.election(NAME).value([0; 129]).campaign().err());
    assert_eq!(long.kind(), ErrorKind::Config);
    assert!(long.to_string().contains("129 bytes; 128 is the maximum"), "{long}");
    let nameless = refused(locks.election("").campaign().err());
    assert_eq!(nameless.kind(), ErrorKind::InvalidName);
    assert_eq!(refused(locks.election("").observe().err()).kind(), ErrorKind::InvalidName);
    assert_eq!(refused(locks.election("").start(|_| {}).err()).kind(), ErrorKind::InvalidName);
    let short = refused(locks.election(NAME).ttl(Duration::from_millis(1)).campaign().err());
    assert_eq!(short.kind(), ErrorKind::Config);
    let unfenced = connected(builder(&servers).fencing(false));
    let without_terms = refused(unfenced.election(NAME).start(|_| {}).err());
    assert!(without_terms.to_string().contains("needs fencing"), "{without_terms}");
    locks.clone().close(LIMIT).expect("nothing is left");
    let (_stop, stopped) = bounded::<()>(0);
    assert_eq!(refused(locks.election(NAME).leader().err()).kind(), ErrorKind::Closed);
    let closed = refused(locks.election(NAME).run(&stopped, |_| panic!("it leads")).err());
    assert_eq!(closed.kind(), ErrorKind::Closed);
}

#[test]
fn the_ttl_is_short_unless_the_settings_allow_none_such() {
    let servers = Servers::start(1);
    let ttl_of = |locks: &Quorlock| {
        let leads = locks.election(NAME).campaign().expect("one of one");
        leads.remaining()
    };
    let usual = ttl_of(&client(&servers));
    assert!(usual > Duration::from_secs(1) && usual < Duration::from_secs(2), "{usual:?}");
    let slow = connected(fresh(servers.urls()).node_timeout(Duration::from_secs(3)));
    assert!(ttl_of(&slow) > Duration::from_secs(5), "2 s are less than twice the node timeout");
}

/// The claim of one candidate: the time until which it leads, by its own clock.
type Claim = Mutex<Option<(usize, Instant)>>;

/// Five candidates on five masters that hang, die and come back: never two lead, and terms rise. Lasts `QUORLOCK_SECONDS`.
#[test]
fn never_two_lead_while_masters_fail() {
    let seconds = std::env::var("QUORLOCK_SECONDS").ok().and_then(|seconds| seconds.parse().ok());
    let until = Instant::now() + Duration::from_secs(seconds.unwrap_or(8));
    let mut servers = Servers::start(5);
    let (claim, terms) = (Arc::new(Claim::default()), Arc::new(Mutex::new(Vec::new())));
    // A panic of a leader would only end its term.
    let violations = Arc::new(Mutex::new(Vec::new()));
    // The number of checks by a leader that found it leading.
    let looks = Arc::new(AtomicUsize::new(0));
    let candidates: Vec<_> = (0..5)
        .map(|id| {
            let locks = connected(fresh(servers.urls()));
            let stands = locks.election(NAME).value(id.to_string());
            let (claim, terms, violations) = (claim.clone(), terms.clone(), violations.clone());
            let looks = looks.clone();
            stands.start(move |leadership| {
                let mut is_counted = false;
                for turn in 0.. {
                    let mut claimed = claim.lock();
                    // Both under the mutex: another candidate's claim must be over by then.
                    let (now, left) = (Instant::now(), leadership.remaining());
                    if !left.is_zero() {
                        let other = claimed.filter(|(other, end)| *other != id && *end > now);
                        violations.lock().extend(other.map(|(other, _)| (id, other)));
                        *claimed = Some((id, now + left));
                        looks.fetch_add(1, Ordering::SeqCst);
                        // While the candidate certainly leads, so that the terms are in the order of their beginnings.
                        if !std::mem::replace(&mut is_counted, true) {
                            terms.lock().push(leadership.term());
                        }
                    }
                    drop(claimed);
                    // Some candidates stay until the very end of their term.
                    let leaves = match leadership.leaving().recv_timeout(Duration::from_millis(3)) {
                        Ok(Leaving::AtRisk(_)) => id % 2 == 0,
                        Ok(_) => true,
                        Err(_) => turn > 100 + id * 50,
                    };
                    if leaves {
                        break;
                    }
                }
                // The candidate does nothing more, and so withdraws its claim.
                claim.lock().take_if(|(holder, _)| *holder == id);
            })
        })
        .collect::<Result<_, _>>()
        .expect("there are threads");
    let leads = || claim.lock().is_some_and(|(_, end)| end > Instant::now());
    let wait_for_looks = |count| {
        let before = looks.load(Ordering::SeqCst);
        wait_until("somebody leads", LIMIT, || looks.load(Ordering::SeqCst) >= before + count);
    };
    // A busy machine has time for some terms as well.
    let goes_on = || Instant::now() < until || terms.lock().len() < 4;
    for i in (0..).take_while(|_| goes_on()) {
        let (one, two) = (i % 5, (i + 1 + i % 4) % 5);
        let is_majority = i % 3 == 0;
        let third = (0..5).find(|third| ![one, two].contains(third)).filter(|_| is_majority);
        let cut: Vec<_> = [one, two].into_iter().chain(third).collect();
        cut.iter().for_each(|server| servers[*server].pause());
        match is_majority {
            true => wait_until("nobody leads", LIMIT, || !leads()),
            false => wait_for_looks(50 + i * 13 % 100),
        }
        cut.iter().for_each(|server| servers[*server].resume());
        wait_for_looks(20);
    }
    for candidate in candidates {
        candidate.stop().expect("it was not stopped before");
    }
    assert_eq!(*violations.lock(), [], "two have led at one time");
    let terms = std::mem::take(&mut *terms.lock());
    assert!(terms.len() > 3 && terms.is_sorted_by(|before, after| before < after), "{terms:?}");
}
