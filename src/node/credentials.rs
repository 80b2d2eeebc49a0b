//! Credentials that change: the last ones of a node, and the login of its live connections with new ones.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use super::quote::quoted;
use crate::clock;
use crate::core::base::{Time, exact, rounded};
use crate::credentials::{CredentialProvider, Credentials};
use crate::observe;

/// Least time between two questions to a provider for live connections.
const ASK_AGAIN: Duration = Duration::from_secs(1);

/// Time without an answer after which an event reports that a provider is silent. Each further event comes after twice that time.
const SILENT_AFTER: Duration = Duration::from_secs(5);

/// Time for which a password without an end is used for further logins: looks at a node log in every few seconds.
const REUSED_FOR: Duration = Duration::from_secs(10);

/// The credentials of one node, shared by its connections. The provider is asked on a thread of its own, one question at a time.
pub(crate) struct CredentialSource {
    provider: CredentialProvider,
    node: Arc<str>,
    state: Mutex<State>,
    answered: Condvar,
}

#[derive(Default)]
struct State {
    last: Option<Provided>,
    /// True if a server has refused them since the provider gave them.
    is_refused: bool,
    /// The number of different credentials so far.
    number: u64,
    /// The time until which they are used for further logins.
    fresh_until: Option<Time>,
    /// The time from which live connections need new ones; `None`: never.
    ask_at: Option<Time>,
    /// The time at which the last ones are not valid any more; `None`: not known.
    ends_at: Option<Time>,
    /// The time since which a thread asks; `None`: no thread does.
    asking_since: Option<Time>,
    /// The number of the provider's answers, and the reason if the last one has no credentials.
    answers: u64,
    failure: Option<String>,
    /// The reason for which a server refused the last ones on a live connection, until an event reports it.
    refusal: Option<String>,
}

/// Credentials for the login of a connection.
#[derive(Clone)]
pub(super) struct Provided {
    pub(super) credentials: Arc<Credentials>,
    /// Different for different credentials.
    pub(super) number: u64,
}

impl CredentialSource {
    pub(crate) fn new(provider: CredentialProvider, node: &Arc<str>) -> Arc<Self> {
        let (state, answered) = (Mutex::default(), Condvar::new());
        Arc::new(Self { provider, node: node.clone(), state, answered })
    }

    /// Returns the credentials for a new connection. Waits for the provider, at most for `timeout`: its answer then serves the next
    /// login. If it gives none, the last ones serve while they may be valid. The error says why there are none.
    pub(super) fn for_login(self: &Arc<Self>, timeout: Duration) -> Result<Provided, String> {
        let until = clock::now().after(timeout);
        let mut state = self.state.lock();
        let is_fresh = state.fresh_until.is_some_and(|until| clock::now() < until);
        if let Some(last) = state.valid().filter(|_| is_fresh) {
            return Ok(last.clone());
        }
        let before = state.answers;
        let started = self.ask(&mut state);
        while started.is_ok() && state.answers == before {
            let Some(slice) = clock::slice(until) else { break };
            self.answered.wait_for(&mut state, slice);
        }
        let is_new = state.answers > before && state.failure.is_none();
        // A new one may have ended meanwhile, and is worth a try.
        let last = if is_new { state.last.as_ref() } else { state.valid() };
        if let Some(last) = last {
            return Ok(last.clone());
        }
        let failure = state.failure.clone().filter(|_| state.answers > before);
        let asked_for = state.asking_since.map(|since| clock::now().since(since));
        drop(state);
        let silent = || {
            let earlier = asked_for.filter(|asked_for| *asked_for >= timeout.saturating_mul(2));
            let since = earlier.map(|it| format!("; it was asked {} ago", rounded(it)));
            let within = exact(timeout);
            format!("the provider has not given any within {within}{}", since.unwrap_or_default())
        };
        Err(started.err().or(failure).unwrap_or_else(silent))
    }

    /// The server has refused those credentials: they are not used for another login before the provider gives them again.
    pub(super) fn refused(&self, number: u64) {
        self.state.lock().refused(number, false);
    }

    /// The server has refused them on a live connection, which keeps the login that it had.
    pub(super) fn refused_live(&self, number: u64, why: String) {
        let mut state = self.state.lock();
        if state.refused(number, true) {
            // An event from here would call a subscriber while a connection is locked.
            state.refusal = Some(why);
        }
    }

    /// Returns the credentials with which a connection must log in that has logged in with those of that number; `None`: none yet.
    /// If it is time for new ones, the provider is asked meanwhile.
    fn newer(self: &Arc<Self>, number: u64) -> Option<Provided> {
        let mut state = self.state.lock();
        if let Some(last) = state.valid().filter(|last| last.number != number) {
            return Some(last.clone());
        }
        if state.ask_at.is_some_and(|at| at <= clock::now()) {
            // A failure shows in the next event, or at the next login.
            let _ = self.ask(&mut state);
        }
        drop(state);
        None
    }

    /// Has a thread ask the provider, unless one does already.
    fn ask(self: &Arc<Self>, state: &mut State) -> Result<(), String> {
        if state.asking_since.is_some() {
            return Ok(());
        }
        let (asked_at, answers) = (clock::now(), state.answers);
        let is_for_live = state.ask_at.is_some_and(|at| at <= clock::now());
        let source = self.clone();
        let asks = move || source.carry_out(is_for_live);
        clock::spawn("quorlock-login".to_owned(), asks)
            .map_err(|error| format!("no thread can be started that asks for them: {error}"))?;
        state.asking_since = Some(asked_at);
        let source = self.clone();
        let watches = move || source.watch(answers, asked_at);
        // Without that thread, a silent provider shows in the faults of logins.
        let _ = clock::spawn("quorlock-login-watch".to_owned(), watches);
        Ok(())
    }

    /// Reports a provider that is silent, until it answers or nobody needs the answer. An event from a connection would call a
    /// subscriber while that is locked.
    fn watch(self: &Arc<Self>, answers: u64, asked_at: Time) {
        let mut silent_for = SILENT_AFTER;
        loop {
            let until = asked_at.after(silent_for);
            let mut state = self.state.lock();
            while state.answers == answers
                && let Some(slice) = clock::slice(until)
            {
                self.answered.wait_for(&mut state, slice);
            }
            let has_answered = state.answers != answers;
            drop(state);
            // Only the thread that asks and this one are left of a client that is gone.
            if has_answered || Arc::strong_count(self) <= 2 {
                return;
            }
            observe::provider_silent(&self.node, clock::now().since(asked_at));
            silent_for = silent_for.saturating_mul(2);
        }
    }

    fn carry_out(&self, is_for_live: bool) {
        // A slow provider may have made them at once.
        let asked_at = clock::now();
        let answer = self.provider.ask(&self.node).map_err(|what| quoted(&what).to_string());
        let failure = answer.as_ref().err().cloned();
        let mut state = self.state.lock();
        match answer {
            Ok(credentials) => state.store(credentials, asked_at),
            Err(_) => state.ask_at = state.ask_at.map(|_| clock::now().after(ASK_AGAIN)),
        }
        (state.asking_since, state.failure) = (None, failure.clone());
        state.answers += 1;
        let refusal = state.refusal.take();
        drop(state);
        self.answered.notify_all();
        for why in [refusal, failure.filter(|_| is_for_live)].into_iter().flatten() {
            observe::credentials_not_renewed(&self.node, &why);
        }
    }
}

impl State {
    fn store(&mut self, credentials: Credentials, asked_at: Time) {
        let renew_at = |time: Duration| asked_at.after(time.mul_f64(0.75).max(ASK_AGAIN));
        self.ask_at = credentials.valid_for.map(renew_at);
        self.ends_at = credentials.valid_for.map(|time| asked_at.after(time));
        let reused_until = self.ask_at.unwrap_or_else(|| asked_at.after(REUSED_FOR));
        self.fresh_until = Some(self.ends_at.map_or(reused_until, |end| end.min(reused_until)));
        let is_same = |last: &Provided| {
            last.credentials.user == credentials.user
                && last.credentials.password == credentials.password
        };
        // A server that has refused them on a live connection is not asked again by that: the number stays.
        if !self.last.as_ref().is_some_and(is_same) {
            self.number += 1;
        }
        self.is_refused = false;
        let credentials = Arc::new(credentials);
        self.last = Some(Provided { credentials, number: self.number });
    }

    /// Returns the last credentials, if they may be valid.
    fn valid(&self) -> Option<&Provided> {
        let is_over = self.ends_at.is_some_and(|end| end <= clock::now());
        self.last.as_ref().filter(|_| !is_over && !self.is_refused)
    }

    /// A server has refused the credentials of that number. Returns true if they are the last ones.
    fn refused(&mut self, number: u64, on_live: bool) -> bool {
        let are_last = self.last.as_ref().is_some_and(|last| last.number == number);
        if are_last {
            (self.is_refused, self.fresh_until) = (true, None);
            // Live connections need others only if theirs end, or if they were to log in with these.
            let are_needed = on_live || self.ask_at.is_some();
            self.ask_at = are_needed.then(|| clock::now().after(ASK_AGAIN));
        }
        are_last
    }
}

/// The login of a live connection, and the place of its answer among the others.
#[derive(Default)]
pub(super) struct Login {
    /// The number of the credentials that the server was told last.
    number: Option<u64>,
    /// The number of answers that are still to come, without that of a login.
    outstanding: usize,
    /// While the answer of a login is to come: the number of answers before it.
    behind: Option<usize>,
}

impl Login {
    pub(super) fn with(number: Option<u64>) -> Self {
        Self { number, ..Self::default() }
    }

    /// Commands with so many answers are about to be written. Returns the credentials that must go before them.
    pub(super) fn before(
        &mut self,
        answers: usize,
        source: Option<&Arc<CredentialSource>>,
    ) -> Option<Provided> {
        let provided = match (source, self.number, self.behind) {
            (Some(source), Some(number), None) => source.newer(number),
            _ => None,
        };
        if let Some(provided) = &provided {
            (self.number, self.behind) = (Some(provided.number), Some(self.outstanding));
        }
        self.outstanding += answers;
        provided
    }

    /// Returns true if the next answer is that of a login.
    pub(super) fn is_next(&self) -> bool {
        self.behind == Some(0)
    }

    /// An answer has come. Returns the number of the credentials, if it is that of a login.
    pub(super) fn answered(&mut self) -> Option<u64> {
        if self.is_next() {
            self.behind = None;
            return self.number;
        }
        self.outstanding = self.outstanding.saturating_sub(1);
        self.behind = self.behind.map(|answers| answers.saturating_sub(1));
        None
    }
}

#[cfg(test)]
mod tests {
    use std::panic::resume_unwind;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// Never to be waited for.
    const LIMIT: Duration = Duration::from_secs(60);

    /// A source whose passwords are "1", "2" and so on, each valid for that time, and the number of questions.
    fn source(valid_for: Option<Duration>) -> (Arc<CredentialSource>, Arc<AtomicUsize>) {
        let asked = Arc::new(AtomicUsize::new(0));
        let count = asked.clone();
        let provider = CredentialProvider::new(move |node| {
            assert_eq!(node, "redis://a");
            let number = count.fetch_add(1, Ordering::Relaxed) + 1;
            Ok(Credentials { valid_for, ..Credentials::new(number.to_string()) })
        });
        (CredentialSource::new(provider, &"redis://a".into()), asked)
    }

    fn log_in(source: &Arc<CredentialSource>) -> Provided {
        source.for_login(LIMIT).expect("credentials")
    }

    fn password(source: &Arc<CredentialSource>) -> String {
        log_in(source).credentials.password.clone()
    }

    fn failure(source: &Arc<CredentialSource>, timeout: Duration) -> String {
        source.for_login(timeout).err().expect("no credentials")
    }

    /// Lets the time pass until the last credentials are not fresh any more.
    fn let_it_age(source: &CredentialSource) {
        source.state.lock().fresh_until = Some(Time::default());
    }

    #[test]
    fn a_password_is_used_again_for_a_while_or_until_it_is_refused() {
        for valid_for in [None, Some(Duration::from_secs(3_600))] {
            let (source, asked) = source(valid_for);
            let first = log_in(&source);
            assert_eq!(password(&source), "1");
            source.refused(first.number + 1);
            assert_eq!((password(&source).as_str(), asked.load(Ordering::Relaxed)), ("1", 1));
            source.refused(first.number);
            assert_eq!(password(&source), "2");
            let_it_age(&source);
            assert_eq!(password(&source), "3");
        }
    }

    #[test]
    fn logins_at_one_time_share_an_answer() {
        let (asked, release) = (Arc::new(AtomicUsize::new(0)), crossbeam_channel::bounded(0));
        let (count, released) = (asked.clone(), release.1);
        let provider = CredentialProvider::new(move |_| {
            count.fetch_add(1, Ordering::Relaxed);
            released.recv_timeout(LIMIT).expect("the test goes on");
            Ok(Credentials::new("1"))
        });
        let source = CredentialSource::new(provider, &"redis://a".into());
        let what = failure(&source, Duration::from_millis(1));
        assert!(what.contains("has not given any within 1 ms"), "{what}");
        std::thread::scope(|scope| {
            let logins: Vec<_> = (0..4).map(|_| scope.spawn(|| password(&source))).collect();
            release.0.send_timeout((), LIMIT).expect("it is asked");
            logins.into_iter().for_each(|login| assert_eq!(login.join().expect("no panic"), "1"));
        });
        assert_eq!(asked.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn live_connections_get_the_credentials_of_a_later_login() {
        let (source, _) = source(None);
        let first = log_in(&source);
        assert!(source.newer(first.number).is_none());
        let_it_age(&source);
        let second = log_in(&source);
        let newer = source.newer(first.number).expect("newer ones");
        assert_eq!((newer.number, &*newer.credentials.password), (second.number, "2"));
        assert!(source.newer(second.number).is_none());
    }

    /// A connection is not logged in again and again with what the server has refused.
    #[test]
    fn a_refused_password_that_the_provider_gives_again_is_for_new_connections_only() {
        let provider = CredentialProvider::new(|_| Ok(Credentials::new("1")));
        let source = CredentialSource::new(provider, &"redis://a".into());
        let first = log_in(&source);
        source.refused_live(first.number, "refused".to_owned());
        assert!(source.newer(first.number + 1).is_none(), "nobody is offered it");
        assert!(source.state.lock().ask_at.is_some(), "the provider is asked");
        assert_eq!(log_in(&source).number, first.number, "it is worth a try");
        assert!(source.newer(first.number).is_none());
        assert_eq!(source.state.lock().ask_at, None, "it has no end");
        source.refused(first.number);
        assert_eq!(source.state.lock().ask_at, None, "live connections need none");
    }

    #[test]
    fn the_provider_is_asked_for_live_connections_once_it_is_time() {
        let (source, asked) = source(Some(Duration::from_secs(3_600)));
        let first = log_in(&source);
        assert!(source.newer(first.number).is_none());
        source.state.lock().ask_at = Some(Time::default());
        let until = clock::now().after(LIMIT);
        assert!(clock::poll(until, || source.newer(first.number).is_some()));
        assert_eq!(asked.load(Ordering::Relaxed), 2);
    }

    #[test]
    fn the_time_of_a_password_begins_with_the_question() {
        const HOUR: Duration = Duration::from_secs(3_600);
        let asked = Arc::new(Mutex::new(Time::default()));
        let began = asked.clone();
        let provider = CredentialProvider::new(move |_| {
            let now = clock::now();
            *began.lock() = now;
            // Some time passes before the answer.
            clock::poll(now.after(LIMIT), || clock::now() > now);
            Ok(Credentials::new("1").valid_for(HOUR))
        });
        let source = CredentialSource::new(provider, &"redis://a".into());
        log_in(&source);
        let ends_at = source.state.lock().ends_at.expect("it has an end");
        assert!(ends_at <= asked.lock().after(HOUR));
    }

    #[test]
    fn a_provider_that_fails_or_panics_is_a_reason() {
        let failing = CredentialProvider::new(|_| Err("no \u{1b}[31m vault".into()));
        let what = failure(&CredentialSource::new(failing, &"redis://a".into()), LIMIT);
        assert!(what.contains("vault") && !what.contains('\u{1b}'), "{what}");
        // Without a message, which would look like the end of a thread of ours.
        let panicking = CredentialProvider::new(|_| resume_unwind(Box::new("on purpose")));
        let what = failure(&CredentialSource::new(panicking, &"redis://a".into()), LIMIT);
        assert!(what.contains("panicked"), "{what}");
        let empty = CredentialProvider::new(|_| Ok(Credentials::new("")));
        let what = failure(&CredentialSource::new(empty, &"redis://a".into()), LIMIT);
        assert!(what.contains("empty"), "{what}");
    }

    #[test]
    fn the_last_ones_serve_while_they_are_valid_and_the_provider_fails() {
        let works = Arc::new(AtomicUsize::new(1));
        let still = works.clone();
        let provider = CredentialProvider::new(move |_| match still.load(Ordering::Relaxed) {
            0 => Err("no vault".into()),
            _ => Ok(Credentials::new("1").valid_for(Duration::from_secs(3_600))),
        });
        let source = CredentialSource::new(provider, &"redis://a".into());
        assert_eq!(password(&source), "1");
        works.store(0, Ordering::Relaxed);
        let_it_age(&source);
        assert_eq!(password(&source), "1");
        source.state.lock().ends_at = None;
        assert_eq!(password(&source), "1", "valid until it is refused");
        source.state.lock().ends_at = Some(Time::default());
        assert!(failure(&source, LIMIT).contains("no vault"));
    }

    #[test]
    fn the_answer_of_a_login_comes_where_it_was_asked_for() {
        let (source, _) = source(None);
        let again = |source: &Arc<CredentialSource>| {
            let_it_age(source);
            log_in(source)
        };
        let mut login = Login::with(Some(log_in(&source).number));
        assert!(login.before(2, Some(&source)).is_none());
        let second = again(&source);
        assert_eq!(login.before(1, Some(&source)).map(|it| it.number), Some(second.number));
        again(&source);
        assert!(login.before(1, Some(&source)).is_none(), "one at a time");
        let answers: Vec<_> = (0..5).map(|_| login.answered()).collect();
        assert_eq!(answers, [None, None, Some(second.number), None, None]);
        assert!(login.before(1, Some(&source)).is_some());
        assert!(login.is_next());
    }

    #[test]
    fn a_connection_without_a_source_never_logs_in_again() {
        let mut login = Login::default();
        assert!(login.before(1, None).is_none());
        assert_eq!(login.answered(), None);
    }
}
