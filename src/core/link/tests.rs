//! Tests of the machine of a connection, with a server that the tests play.

mod machine;
mod model;
mod order;
mod several_writes;

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use super::*;

/// The answers that callers have got, by the number of their request.
pub(super) type Heard = Rc<RefCell<Vec<(u32, Result<u32, Failure>)>>>;

/// Scripts by their numbers: even ones can be made by the batch 100.
pub(super) const BATCH: u8 = 100;

/// A request that a test has made.
#[derive(Clone, Default)]
pub(super) struct Fake {
    pub(super) number: u32,
    pub(super) script: u8,
    /// The meaning of an answer to it.
    pub(super) means: Option<Meaning>,
    pub(super) heard: Option<Heard>,
    /// True if its caller does not want it any more.
    pub(super) unwanted: Rc<Cell<bool>>,
    pub(super) goes_last: bool,
    pub(super) lock: &'static str,
    pub(super) log: Rc<RefCell<Vec<String>>>,
}

impl Request for Fake {
    type Script = u8;
    type Value = u32;
    type Fault = &'static str;
    type Caller = (u32, Heard);

    fn script(&self) -> u8 {
        self.script
    }

    fn batch(&self) -> Option<u8> {
        self.script.is_multiple_of(2).then_some(BATCH)
    }

    fn goes_last(&self) -> bool {
        self.goes_last
    }

    fn lock(&self) -> &[u8] {
        self.lock.as_bytes()
    }

    fn meaning(&self, _answer: &u32) -> Meaning {
        self.means.unwrap_or(Meaning::Other)
    }

    fn sending(&self, via: Via, _now: Time) -> bool {
        self.log.borrow_mut().push(format!("{} over {}", self.number, via.connection));
        !self.unwanted.get()
    }

    fn unsent(&self) {
        self.log.borrow_mut().push(format!("{} did not run", self.number));
    }

    fn take_caller(&mut self) -> Option<(u32, Heard)> {
        self.heard.take().map(|heard| (self.number, heard))
    }

    fn is_told(&mut self) {}
}

impl Fault for &'static str {
    fn rejection(&self) -> Rejection {
        match *self {
            "rejected" => Rejection::ForGood,
            "changing" => Rejection::ForNow,
            _ => Rejection::Not,
        }
    }

    fn lacks_permission(&self) -> bool {
        *self == "rejected"
    }
}

/// A client's knowledge of its node.
pub(super) struct World {
    pub(super) mark: Result<&'static str, Failure>,
    pub(super) serves: bool,
    /// True if requests wait that were not submitted yet.
    pub(super) has_waiting: bool,
    /// The time until which no question about the node is needed.
    pub(super) settled: Option<Time>,
    /// The number of questions that are still to be asked.
    pub(super) questions: u32,
    pub(super) verdict: ClockVerdict,
    pub(super) is_down: bool,
    pub(super) doubts: u32,
}

impl Default for World {
    fn default() -> Self {
        let (mark, verdict) = (Ok("mark"), ClockVerdict::Fits);
        Self {
            mark,
            serves: true,
            has_waiting: false,
            settled: None,
            questions: 0,
            verdict,
            is_down: false,
            doubts: 0,
        }
    }
}

impl Surroundings<Fake> for World {
    type Question = u8;
    type Clock = ();

    fn random(&mut self) -> f64 {
        0.5
    }

    fn has_waiting(&mut self) -> bool {
        self.has_waiting
    }

    fn settled_until(&mut self) -> Option<Time> {
        self.settled
    }

    fn next_question(&mut self, now: Time) -> NextQuestion<u8> {
        match self.questions.checked_sub(1) {
            Some(left) => {
                self.questions = left;
                NextQuestion::Ask(7)
            }
            None => NextQuestion::Wait(now.after(Duration::from_secs(1))),
        }
    }

    fn script(&self, question: &u8) -> u8 {
        *question
    }

    fn question_refused(&mut self, _fault: &&'static str) {}

    fn mark(&mut self) -> Result<String, Undelivered<&'static str>> {
        let refused = |failure| Undelivered { failure, fault: "not admitted" };
        self.mark.map(str::to_owned).map_err(refused)
    }

    fn not_serving(&mut self) -> Option<&'static str> {
        (!self.serves).then_some("does not serve")
    }

    fn read_clock(&mut self, (): ()) -> ClockVerdict {
        self.verdict
    }

    fn ahead_at(&mut self) -> Option<Time> {
        None
    }

    fn doubt(&mut self, _mark: Option<&str>) {
        self.doubts += 1;
    }

    fn has_forgotten(&mut self) {}

    fn lost(&mut self) {}

    fn set_up(&mut self) {
        self.is_down = false;
    }

    fn set_down(&mut self, _fault: &&'static str) {
        self.is_down = true;
    }

    fn serves(&mut self) {}

    fn refusal(&mut self, fault: &'static str) -> &'static str {
        fault
    }

    fn clock_was_set(&mut self) -> &'static str {
        "clock"
    }

    fn clock_in_doubt(&mut self, (): ()) -> &'static str {
        "doubt"
    }

    fn forgets_sources(&mut self) -> &'static str {
        "forgets"
    }
}

/// A machine with the world around it, at some time.
pub(super) struct Driven {
    pub(super) link: Link<Fake, u8>,
    pub(super) world: World,
    pub(super) now: Time,
    pub(super) heard: Heard,
    pub(super) log: Rc<RefCell<Vec<String>>>,
    pub(super) events: Vec<&'static str>,
    numbers: u32,
}

impl Driven {
    pub(super) fn new() -> Self {
        Self {
            link: Link::new(Duration::from_millis(200), false),
            world: World::default(),
            now: Time::from_start(Duration::from_secs(1)),
            heard: Heard::default(),
            log: Rc::default(),
            events: Vec::new(),
            numbers: 0,
        }
    }

    /// Returns a machine with an open connection.
    pub(super) fn up() -> Self {
        let mut driven = Self::new();
        driven.opened(1);
        assert!(matches!(driven.poll(), Step::Wait(_)));
        driven
    }

    pub(super) fn poll(&mut self) -> Step {
        let step = self.link.poll(self.now, &mut self.world);
        self.hand_out();
        step
    }

    pub(super) fn hand_out(&mut self) {
        while let Some(event) = self.link.poll_event() {
            match event {
                Event::Answered(Answered { caller: (number, heard), answer, .. }) => {
                    let answer = answer.map_err(|undelivered| undelivered.failure);
                    heard.borrow_mut().push((number, answer));
                }
                Event::Unwanted(_) => self.events.push("unwanted"),
                Event::ReleaseRefused(_) => self.events.push("release refused"),
                Event::ReleaseDropped => self.events.push("release dropped"),
            }
        }
    }

    pub(super) fn opened(&mut self, id: u64) {
        assert_eq!(self.poll(), Step::Connect);
        self.link.handle_opened(
            Opened { run: "run".to_owned(), id: Some(id), is_relayed: false },
            self.now,
        );
    }

    /// Submits a request of that script, and returns its number.
    pub(super) fn submit(&mut self, script: u8, purpose: Purpose) -> u32 {
        self.submit_that_means(script, purpose, None)
    }

    pub(super) fn submit_that_means(
        &mut self,
        script: u8,
        purpose: Purpose,
        means: Option<Meaning>,
    ) -> u32 {
        self.submit_fake(Fake { script, means, ..Fake::default() }, purpose)
    }

    pub(super) fn submit_fake(&mut self, fake: Fake, purpose: Purpose) -> u32 {
        self.numbers += 1;
        let (number, heard, log) = (self.numbers, Some(self.heard.clone()), self.log.clone());
        self.link.submit(Job::new(Fake { number, heard, log, ..fake }, purpose));
        self.numbers
    }

    /// Returns the present write, in short: `3` is a call, `[1 2 3]` a batch, and `+` marks a call
    /// with its source.
    pub(super) fn written(&mut self) -> Vec<String> {
        let mut written = Vec::new();
        self.link.show_write(|command| {
            written.push(match command {
                Command::End(id) => format!("end {id}"),
                Command::Question(question, form) => format!("ask {question}{}", sign(form)),
                Command::Clock => "time".to_owned(),
                Command::Call { jobs, batch, form, .. } => {
                    let numbers: Vec<_> =
                        jobs.iter().map(|job| job.request.number.to_string()).collect();
                    let numbers = numbers.join(" ");
                    match batch {
                        Some(_) => format!("[{numbers}]{}", sign(form)),
                        None => format!("{numbers}{}", sign(form)),
                    }
                }
            });
        });
        self.link.handle_written(self.now, self.now);
        written
    }

    pub(super) fn write(&mut self) -> Vec<String> {
        assert_eq!(self.poll(), Step::Write);
        self.written()
    }

    pub(super) fn answer(&mut self, reply: Reply<u32, &'static str>) {
        assert!(matches!(self.poll(), Step::Read(Awaited::Call { .. }, _)));
        self.link.handle_answer(reply, self.now, &mut self.world);
        self.hand_out();
    }

    pub(super) fn clock(&mut self) {
        assert!(matches!(self.poll(), Step::Read(Awaited::Clock, _)));
        self.link.handle_clock((), self.now, &mut self.world);
        self.hand_out();
    }

    pub(super) fn broken(&mut self, closed: bool) {
        let broken = Broken { fault: "gone", closed, in_step: !closed };
        self.link.handle_broken(broken, self.now, &mut self.world);
        self.hand_out();
    }

    pub(super) fn take_heard(&mut self) -> Vec<(u32, Result<u32, Failure>)> {
        std::mem::take(&mut *self.heard.borrow_mut())
    }
}

fn sign(form: Form) -> &'static str {
    if form == Form::Source { "+" } else { "" }
}

pub(super) fn release() -> Purpose {
    Purpose::Release(Release::of_key(None, None))
}
