//! Events in any order: each request is answered once, no release gets lost, and none is overtaken by an earlier request for its
//! lock.

use std::collections::VecDeque;

use proptest::prelude::*;

use super::*;

#[derive(Clone, Copy, Debug)]
enum Event {
    Submit {
        lock: u8,
        kind: u8,
    },
    /// The next step succeeds.
    GoesOn,
    /// The server answers with an error, does not know the script, or did not make its batch.
    Fails(u8),
    Closed,
    Silent,
    NotOpened,
    Later(u16),
    Mark(bool),
    Serves(bool),
    Doubt(bool),
    Question,
    /// True if no question about the node is needed.
    Settled(bool),
    /// True if its answers take long, so that writes may follow each other.
    Far(bool),
    /// True while a caller drives the connection.
    Driven(bool),
}

fn an_event() -> impl Strategy<Value = Event> {
    prop_oneof![
        6 => (0..4_u8, 0..4_u8).prop_map(|(lock, kind)| Event::Submit { lock, kind }),
        20 => Just(Event::GoesOn),
        3 => (0..3_u8).prop_map(Event::Fails),
        1 => Just(Event::Closed),
        1 => Just(Event::Silent),
        1 => Just(Event::NotOpened),
        2 => (0..2_000_u16).prop_map(Event::Later),
        1 => any::<bool>().prop_map(Event::Mark),
        1 => any::<bool>().prop_map(Event::Serves),
        1 => any::<bool>().prop_map(Event::Doubt),
        1 => Just(Event::Question),
        2 => prop::bool::weighted(0.8).prop_map(Event::Settled),
        2 => prop::bool::weighted(0.8).prop_map(Event::Far),
        2 => any::<bool>().prop_map(Event::Driven),
    ]
}

/// The outcome of the next step of the machine.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Goes {
    Well,
    Wrong(u8),
}

struct Model {
    driven: Driven,
    submitted: Vec<u32>,
    releases: Vec<u32>,
    /// The releases that a server has answered.
    delivered: Vec<u32>,
    connections: u64,
    /// The time that an answer takes.
    takes: Duration,
    /// The requests of each call that is on its way, with an empty entry for each reading of the clock; and the requests that the
    /// server has run, in order.
    called: VecDeque<Vec<u32>>,
    run: Vec<u32>,
    /// The lock of each request, and the flag that its caller does not want it any more: set when it submits the release.
    locks: Vec<(u8, Rc<Cell<bool>>)>,
}

impl Model {
    fn new() -> Self {
        Self {
            driven: Driven::new(),
            submitted: Vec::new(),
            releases: Vec::new(),
            delivered: Vec::new(),
            connections: 0,
            takes: Duration::ZERO,
            called: VecDeque::new(),
            run: Vec::new(),
            locks: Vec::new(),
        }
    }

    fn write(&mut self) {
        for command in self.driven.written() {
            let numbers = command.trim_matches(|c: char| !c.is_ascii_digit()).split(' ');
            if command.starts_with(|c: char| c.is_ascii_digit() || c == '[') {
                self.called.push_back(numbers.filter_map(|it| it.parse().ok()).collect());
            } else if command == "time" {
                self.called.push_back(Vec::new());
            }
        }
    }

    /// Answers the next call; the server has made it if it `runs`.
    fn called(&mut self, runs: bool) {
        let requests = self.called.pop_front().unwrap_or_default();
        assert!(!requests.is_empty(), "the next answer is that to a call");
        self.run.extend(requests.into_iter().filter(|_| runs));
    }

    /// Returns a release, and an earlier request for its lock that the server has run behind it.
    fn overtaken(&self) -> Option<(u32, u32)> {
        let lock = |number: u32| self.locks[number as usize - 1].0;
        let mut releases = self.run.iter().enumerate();
        releases.find_map(|(at, release)| {
            let is_late = |it: &&u32| **it < *release && lock(**it) == lock(*release);
            let behind = self.run[at..].iter().filter(|it| !self.releases.contains(it));
            let late = behind.copied().find(|it| is_late(&it));
            late.filter(|_| self.releases.contains(release)).map(|late| (*release, late))
        })
    }

    fn step(&mut self, goes: Goes) {
        let step = self.driven.poll();
        let driven = &mut self.driven;
        if let Step::Read(..) = step {
            driven.now = driven.now.after(self.takes);
        }
        match step {
            Step::Connect => {
                self.connections += 1;
                let id = Some(self.connections);
                let opened = Opened { run: "run".to_owned(), id, is_relayed: false };
                driven.link.handle_opened(opened, driven.now);
            }
            Step::Write => self.write(),
            Step::Read(Awaited::Ended, _) => {
                driven.link.handle_ended(goes == Goes::Well, driven.now)
            }
            Step::Read(Awaited::Question, _) => {
                let told = match goes {
                    Goes::Well => Told::Answered,
                    Goes::Wrong(0) => Told::Refused("refused"),
                    Goes::Wrong(_) => Told::NoScript,
                };
                driven.link.handle_question(told, driven.now, &mut driven.world);
            }
            Step::Read(Awaited::Call { requests }, _) => {
                let well = match requests {
                    1 => Reply::Value(1),
                    _ => Reply::Batch(Answers::Each((0..requests).map(|_| Some(1)).collect())),
                };
                let reply = match goes {
                    Goes::Well => well,
                    Goes::Wrong(0) => Reply::Error("refused"),
                    Goes::Wrong(1) => Reply::NoScript,
                    Goes::Wrong(_) if requests > 1 => Reply::Batch(Answers::NothingDone),
                    Goes::Wrong(_) => well,
                };
                let runs = matches!(reply, Reply::Value(_) | Reply::Batch(Answers::Each(_)));
                driven.link.handle_answer(reply, driven.now, &mut driven.world);
                self.called(runs);
            }
            Step::Read(Awaited::Clock, _) => {
                driven.link.handle_clock((), driven.now, &mut driven.world);
                assert_eq!(self.called.pop_front(), Some(Vec::new()), "the next answer is a clock");
            }
            Step::Close => driven.link.handle_closed(driven.now, &mut driven.world),
            Step::Wait(until) => driven.now = driven.now.max(until),
            Step::End => {}
        }
        self.note();
    }

    fn note(&mut self) {
        self.driven.hand_out();
        let heard = self.driven.heard.borrow();
        let answered = heard.iter().filter(|(_, answer)| answer.is_ok()).map(|(number, _)| *number);
        self.delivered = answered.filter(|number| self.releases.contains(number)).collect();
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Submit { lock, kind } if self.driven.link.room() > 0 => {
                let purpose = match kind {
                    0 => Purpose::Anyway,
                    1 => Purpose::Holding,
                    2 => Purpose::Taking,
                    _ => release(),
                };
                let means = (kind == 2).then_some(Meaning::Granted);
                // Each lock is of one kind: batches make calls of the locks 0 and 2.
                let unwanted: Rc<Cell<bool>> = Rc::default();
                let fake =
                    Fake { script: lock, means, unwanted: unwanted.clone(), ..Fake::default() };
                if kind == 3 {
                    let of_lock = self.locks.iter().filter(|(of, _)| *of == lock);
                    of_lock.for_each(|(_, unwanted)| unwanted.set(true));
                }
                let number = self.driven.submit_fake(fake, purpose);
                // A release is wanted until it has been delivered.
                let unwanted = if kind == 3 { Rc::default() } else { unwanted };
                self.locks.push((lock, unwanted));
                self.submitted.push(number);
                if kind == 3 {
                    self.releases.push(number);
                }
            }
            Event::Submit { .. } => {}
            Event::GoesOn => self.step(Goes::Well),
            Event::Fails(how) => self.step(Goes::Wrong(how)),
            Event::Closed | Event::Silent => {
                self.called.clear();
                self.driven.broken(matches!(event, Event::Closed));
            }
            Event::NotOpened => {
                let Driven { link, world, now, .. } = &mut self.driven;
                link.handle_not_opened("refused", *now, world);
            }
            Event::Later(ms) => {
                self.driven.now = self.driven.now.after(Duration::from_millis(ms.into()));
            }
            Event::Mark(there) => {
                self.driven.world.mark = if there { Ok("mark") } else { Err(Failure::NotAdmitted) };
            }
            Event::Serves(it) => self.driven.world.serves = it,
            Event::Doubt(it) => {
                self.driven.world.verdict =
                    if it { ClockVerdict::Doubtful } else { ClockVerdict::Fits };
            }
            Event::Question => self.driven.world.questions += 1,
            Event::Settled(it) => {
                let long = self.driven.now.after(Duration::from_secs(3_600));
                self.driven.world.settled = it.then_some(long);
            }
            Event::Far(it) => self.takes = Duration::from_millis(it.into()),
            Event::Driven(it) => self.driven.link.set_driven(it),
        }
        self.note();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn each_request_is_answered_once_and_no_release_gets_lost(
        events in prop::collection::vec(an_event(), 0..120),
    ) {
        let mut model = Model::new();
        events.into_iter().for_each(|event| model.handle(event));
        // From now on all steps succeed.
        model.driven.world = World::default();
        for _ in 0..400 {
            model.step(Goes::Well);
        }
        let mut heard: Vec<_> = model.driven.heard.borrow().iter().map(|it| it.0).collect();
        heard.sort_unstable();
        let dropped = |number: &u32| model.locks[*number as usize - 1].1.get();
        let twice = heard.windows(2).find(|two| two[0] == two[1]);
        prop_assert_eq!(twice, None, "each is answered once at most");
        let mut unanswered = model.submitted.iter().filter(|it| !heard.contains(it));
        prop_assert!(unanswered.all(dropped), "each is answered that is wanted");
        prop_assert!(!model.driven.link.keeps_any(), "what was kept is told");
        prop_assert_eq!(model.overtaken(), None);
        let log = model.driven.log.borrow();
        for number in &model.releases {
            let prefix = format!("{number} over ");
            prop_assert!(log.iter().any(|line| line.starts_with(&prefix)), "{number} is written");
        }
    }
}
