//! Events in any order: each request is answered once, and no release gets lost.

use proptest::prelude::*;

use super::*;

#[derive(Clone, Copy, Debug)]
enum Event {
    Submit {
        script: u8,
        kind: u8,
    },
    /// What comes next goes well.
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
}

fn an_event() -> impl Strategy<Value = Event> {
    prop_oneof![
        6 => (0..4_u8, 0..4_u8).prop_map(|(script, kind)| Event::Submit { script, kind }),
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
    ]
}

/// How a step goes that the machine asks for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Goes {
    Well,
    Wrong(u8),
}

struct Model {
    driven: Driven,
    submitted: Vec<u32>,
    releases: Vec<u32>,
    /// Releases that a server has answered.
    delivered: Vec<u32>,
    connections: u64,
}

impl Model {
    fn step(&mut self, goes: Goes) {
        let driven = &mut self.driven;
        match driven.poll() {
            Step::Connect => {
                self.connections += 1;
                let opened = Opened { run: "run".to_owned(), id: Some(self.connections) };
                driven.link.handle_opened(opened, driven.now);
            }
            Step::Write => _ = driven.written(),
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
                driven.link.handle_answer(reply, driven.now, &mut driven.world);
            }
            Step::Read(Awaited::Clock, _) => {
                driven.link.handle_clock((), driven.now, &mut driven.world);
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
            Event::Submit { script, kind } if self.driven.link.room() > 0 => {
                let purpose = match kind {
                    0 => Purpose::Anyway,
                    1 => Purpose::Holding,
                    2 => Purpose::Taking,
                    _ => release(),
                };
                let means = (kind == 2).then_some(Meaning::Granted);
                let number = self.driven.submit_that_means(script, purpose, means);
                self.submitted.push(number);
                if kind == 3 {
                    self.releases.push(number);
                }
            }
            Event::Submit { .. } => {}
            Event::GoesOn => self.step(Goes::Well),
            Event::Fails(how) => self.step(Goes::Wrong(how)),
            Event::Closed => self.driven.broken(true),
            Event::Silent => self.driven.broken(false),
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
        let (driven, none) = (Driven::new(), Vec::new);
        let mut model =
            Model { driven, submitted: none(), releases: none(), delivered: none(), connections: 0 };
        events.into_iter().for_each(|event| model.handle(event));
        // All goes well from here on.
        model.driven.world = World::default();
        for _ in 0..400 {
            model.step(Goes::Well);
        }
        let mut heard: Vec<_> = model.driven.heard.borrow().iter().map(|it| it.0).collect();
        heard.sort_unstable();
        prop_assert_eq!(&heard, &model.submitted, "each is answered once");
        prop_assert!(!model.driven.link.keeps_any(), "what was kept is told");
        let log = model.driven.log.borrow();
        for number in &model.releases {
            let prefix = format!("{number} over ");
            prop_assert!(log.iter().any(|line| line.starts_with(&prefix)), "{number} is written");
        }
    }
}
