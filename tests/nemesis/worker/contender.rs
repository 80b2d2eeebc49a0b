//! One thread that takes locks, works under them, and reports both to the witness.

use std::thread;
use std::time::{Duration, Instant};

use quorlock::{ErrorKind, LossReason, Quorlock};

use crate::kinds::AnyGuard;
use crate::witness::{Answer, Client, Event, Kind, Outcome, Phase};

use super::wish::{Wish, told};
use super::work::{Chooser, Work};
use super::{Failure, Settings};

/// Time between two proofs of a holder that its lock is valid.
const PROOF: Duration = Duration::from_millis(50);

/// Time limit for an invalid guard to report its cause, which it does at once. Generous, for busy machines.
const TELLS_WITHIN: Duration = Duration::from_secs(10);

/// One thread of a worker.
pub(crate) struct Contender {
    locks: Quorlock,
    witness: Client,
    chooser: Chooser,
    phase: Phase,
    /// The number of guards so far.
    guards: u64,
}

/// A lock that the contender holds.
struct Inside<'a> {
    guard: u64,
    kind: Kind,
    names: &'a [String],
    token: Option<u64>,
    held: Box<dyn AnyGuard>,
    /// The lock is lost, and the witness knows it.
    lost: bool,
}

impl Contender {
    pub(crate) fn connect(
        settings: &Settings,
        thread: usize,
        who: &str,
        [queued, unqueued]: &[Quorlock; 2],
    ) -> Result<Self, Failure> {
        let witness = Client::connect(&settings.witness, who)
            .map_err(|error| format!("no witness at {}: {error}", settings.witness))?;
        // Every third thread uses a client without a local queue.
        let locks = if thread % 3 == 2 { unqueued } else { queued };
        Ok(Self {
            locks: locks.clone(),
            witness,
            chooser: Chooser::new(settings, thread),
            phase: Phase::default(),
            guards: 0,
        })
    }

    /// Contends until the witness ends the run.
    pub(crate) fn run(mut self) -> Result<(), Failure> {
        while self.phase != Phase::End {
            self.turn()?;
            thread::sleep(self.chooser.pause());
        }
        Ok(())
    }

    fn tell(&mut self, event: &Event) -> Result<Answer, Failure> {
        let answer = self.witness.tell(event)?;
        self.phase = answer.phase;
        Ok(answer)
    }

    fn turn(&mut self) -> Result<(), Failure> {
        let wish = self.chooser.wish();
        let call = wish.call().to_owned();
        let (names, kind) = (wish.names.clone(), Some(told(&wish)?));
        self.tell(&Event::Wants { names, call, kind })?;
        let why = match wish.take(&self.locks) {
            Ok(Some(held)) => return self.hold(&wish, held),
            Ok(None) => "held by another".to_owned(),
            Err(error) => error.kind().to_string(),
        };
        self.tell(&Event::Without { why })?;
        Ok(())
    }

    fn hold(&mut self, wish: &Wish, held: Box<dyn AnyGuard>) -> Result<(), Failure> {
        self.guards += 1;
        let (guard, token) = (self.guards, held.token().map(u64::from));
        let kind = told(wish)?;
        let mut inside = Inside { guard, kind, names: &wish.names, token, held, lost: false };
        self.prove(&mut inside)?;
        let short = self.phase != Phase::Contend;
        let work = self.chooser.work(wish, token.is_some(), short);
        self.work(&mut inside, &work)?;
        if !inside.lost {
            self.tell(&Event::Leaving { guard })?;
        }
        if !work.drops {
            // A loss was reported where it was found. An unreachable majority is the effect of a fault.
            let _ = inside.held.unlock();
        }
        Ok(())
    }

    /// Reads, works, and writes back what was read with one more element. If other holders are allowed meanwhile, it reads
    /// again instead of writing: the holders would overwrite each other's elements.
    fn work(&mut self, inside: &mut Inside<'_>, work: &Work) -> Result<(), Failure> {
        let base = self.read(inside, work)?;
        let began = Instant::now();
        if let Some(ttl) = work.extends.filter(|_| !inside.lost) {
            // The new TTL may be less than the remaining one.
            self.tell(&Event::Shortens { guard: inside.guard })?;
            // If the extension fails, the lock is held for as long as before. `prove` finds out for how long.
            match inside.held.extend(ttl) {
                Err(error) if error.kind() == ErrorKind::Config => return Err(error.into()),
                _ => {}
            }
        }
        let asked = |inside: &Inside<'_>| work.gives_up && !inside.held.asked().is_empty();
        while began.elapsed() < work.takes && (!inside.lost || work.careless) && !asked(inside) {
            thread::sleep(PROOF.min(work.takes.saturating_sub(began.elapsed())));
            self.prove(inside)?;
        }
        if !inside.kind.class.is_alone() {
            thread::sleep(work.hesitates);
            self.read(inside, work)?;
            // The read counts only if the lock is still valid.
            return self.prove(inside);
        }
        // The store has seen a larger token: this lock is lost.
        let Outcome::Version(base) = base else { return Ok(()) };
        if !work.careless {
            self.prove(inside)?;
            if inside.lost {
                return Ok(());
            }
        }
        thread::sleep(work.hesitates);
        self.write(inside, work, base)
    }

    /// Has the witness note that the lock is valid, as the witness's documentation says. Reports a loss once.
    fn prove(&mut self, inside: &mut Inside<'_>) -> Result<(), Failure> {
        if inside.lost {
            return Ok(());
        }
        let (guard, kind, token) = (inside.guard, inside.kind.clone(), inside.token);
        let names = inside.names.to_vec();
        let at = self.tell(&Event::Inside { guard, kind, names, token })?.stamp;
        if inside.held.check().is_ok() {
            let r = inside.held.remaining();
            self.tell(&Event::Valid { guard, at, r })?;
        } else {
            inside.lost = true;
            let reason = inside.held.lost().recv_timeout(TELLS_WITHIN);
            let reason = reason.map_err(|_| "a guard does not tell why its lock is lost")?;
            let by_its_time = [LossReason::Expired, LossReason::Unconfirmed, LossReason::MaxHold];
            let in_time = by_its_time.contains(&reason);
            let why = format!("{reason:?}");
            self.tell(&Event::Lost { guard, in_time, why })?;
        }
        Ok(())
    }

    fn read(&mut self, inside: &Inside<'_>, work: &Work) -> Result<Outcome, Failure> {
        let (name, store) = (work.name.clone(), work.store);
        let (guard, token) = (inside.guard, inside.token);
        Ok(self.tell(&Event::Read { guard, name, store, token })?.outcome)
    }

    fn write(&mut self, inside: &Inside<'_>, work: &Work, base: u64) -> Result<(), Failure> {
        let (name, store) = (work.name.clone(), work.store);
        let (guard, token) = (inside.guard, inside.token);
        let event = Event::Write { guard, name: name.clone(), store, token, base };
        if let Outcome::Version(version) = self.tell(&event)?.outcome
            && inside.held.check().is_ok()
        {
            self.tell(&Event::Confirms { name, store, version })?;
        }
        Ok(())
    }
}
