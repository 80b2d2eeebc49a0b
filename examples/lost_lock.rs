//! A holder hears of the loss of its lock, and stops in time.
//!
//! `Guard::lost` is a channel, so a thread can wait for the loss together with its work and anything
//! else. The work goes on for several times the TTL, since the lock is renewed. Then the masters are
//! killed, so that the lock cannot be renewed any more. It stays ours until its validity ends. Work
//! may begin until shortly before that end, and at the end the channel reports the loss.
//!
//! ```text
//! cargo run --example lost_lock
//! ```
//!
//! It starts its own masters, unless `QUORLOCK_NODES` names some. Those are not killed, and only the
//! renewal is shown. The exit status is 0 if the holder stopped in time.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a demonstration talks to whoever runs it"
)]

use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, bounded, never, select, tick};
use masters::{Failure, Masters};
use quorlock::{ErrorKind, Guard, LossReason, OptionalGuard as _};

#[path = "common/masters.rs"]
mod masters;

const NAME: &str = "lost-lock/demo";

/// Short, to make the example quick. The default of 10 s suits most programs.
const TTL: Duration = Duration::from_millis(900);

/// Time for which the work goes on before the masters are killed.
const WORK: Duration = Duration::from_millis(3 * 900);

/// Upper limit of the time for one piece of work. None is begun with less validity left.
const LONGEST_PIECE: Duration = Duration::from_millis(250);

/// Time limit of the wait for the lock, and of the wait for the report of its loss.
const PATIENCE: Duration = Duration::from_secs(5);

fn main() -> ExitCode {
    // Not `process::exit`, which would leave our masters running.
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("lost_lock: {failure}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Failure> {
    let mut masters = Masters::find(3)?;
    let ours = masters.are_ours();
    let locks = masters.builder()?.ttl(TTL).build()?;
    println!("{}; the TTL is {TTL:?}", masters.describe());

    let guard =
        locks.try_lock_for(NAME, PATIENCE).optional()?.ok_or("somebody else holds the lock")?;
    let (sender, work) = bounded(0);
    let shift = thread::scope(|scope| {
        scope.spawn(move || {
            hand_out_work(&sender, WORK);
            if masters.kill_majority() > 0 {
                println!("killed a majority of the masters");
                hand_out_work(&sender, PATIENCE);
            }
        });
        // The channel of the work ends when `hold` returns.
        hold(&guard, work)
    });
    if ours { judge_loss(&guard, &shift) } else { judge_renewal(guard, &shift) }
}

/// Works while the lock is held, until it is lost or no work is left.
fn hold(guard: &Guard, work: Receiver<u32>) -> Shift {
    let ticker = tick(Duration::from_millis(300));
    let mut shift = Shift::begin(guard);
    loop {
        shift.note_validity(guard);
        let time_left = guard.remaining() > LONGEST_PIECE;
        // With too little time left no work is begun: the next event is a renewal, or the loss.
        let next = if time_left { work.clone() } else { never() };
        select! {
            recv(guard.lost()) -> reason => return shift.end(reason.ok()),
            recv(next) -> piece => match piece {
                Ok(piece) => shift.do_piece(guard, piece),
                Err(_) => return shift.end(None),
            },
            recv(ticker) -> _ => shift.report(guard),
            default(Duration::from_millis(50)) => {} // Time to look at the time again.
        }
    }
}

/// The events while the lock was held.
struct Shift {
    began: Instant,
    pieces: u32,
    /// Pieces that were finished after the end of validity. There must be none.
    late: u32,
    last_piece: Instant,
    /// The end of the validity, at the last check.
    valid_until: Instant,
    ended: Instant,
    loss: Option<LossReason>,
}

impl Shift {
    fn begin(guard: &Guard) -> Self {
        let now = Instant::now();
        let valid_until = now + guard.remaining();
        Self {
            began: now,
            pieces: 0,
            late: 0,
            last_piece: now,
            valid_until,
            ended: now,
            loss: None,
        }
    }

    fn end(mut self, loss: Option<LossReason>) -> Self {
        self.ended = Instant::now();
        self.loss = loss;
        self
    }

    /// The effect that only the holder of the lock may have.
    fn do_piece(&mut self, guard: &Guard, _piece: u32) {
        if guard.check().is_err() {
            return; // The channel is about to tell as well.
        }
        thread::sleep(Duration::from_millis(5));
        self.pieces += 1;
        self.last_piece = Instant::now();
        self.note_validity(guard);
        if guard.check().is_err() {
            self.late += 1;
        }
    }

    fn note_validity(&mut self, guard: &Guard) {
        let now = Instant::now();
        let remaining = guard.remaining();
        if !remaining.is_zero() {
            self.valid_until = now + remaining;
        }
    }

    fn report(&self, guard: &Guard) {
        let (held, left) = (self.began.elapsed().as_millis(), guard.remaining().as_millis());
        println!(
            "held for {held:>4} ms, {:>3} pieces done, ours for {left:>3} ms more",
            self.pieces
        );
    }
}

/// Hands out pieces of work, one after another, until nobody takes them or the time is over.
fn hand_out_work(work: &Sender<u32>, time: Duration) {
    let end = Instant::now() + time;
    for piece in 0.. {
        thread::sleep(Duration::from_millis(10));
        if Instant::now() >= end || work.send_deadline(piece, end).is_err() {
            return;
        }
    }
}

/// Checks that the work has outlived the TTL, and has ended before the validity did.
fn judge_loss(guard: &Guard, shift: &Shift) -> Result<(), Failure> {
    let Some(reason) = shift.loss else { return Err("the loss was not told".into()) };
    let spare = shift.valid_until.saturating_duration_since(shift.last_piece);
    let told = shift.ended.saturating_duration_since(shift.valid_until);
    let held = shift.last_piece - shift.began;
    println!(
        "lost ({reason:?}), as was told {} ms after the end of the validity",
        told.as_millis()
    );
    if held < WORK || shift.pieces == 0 {
        return Err(format!("the work ended after {held:?} already").into());
    }
    if shift.late > 0 || spare.is_zero() {
        return Err("work was done after the end of the validity".into());
    }
    match guard.check() {
        Err(error) if error.kind() == ErrorKind::Lost => println!("check() says Lost: {error}"),
        result => return Err(format!("check() says {result:?} instead of Lost").into()),
    }
    println!(
        "\nThe holder stopped in time, {} ms before the end of the validity.",
        spare.as_millis()
    );
    Ok(())
}

/// Checks that the work has outlived the TTL, and that the lock was ours all the time.
fn judge_renewal(guard: Guard, shift: &Shift) -> Result<(), Failure> {
    if let Some(reason) = shift.loss {
        return Err(format!("the lock was lost: {reason:?}").into());
    }
    guard.unlock()?;
    let held = (shift.ended - shift.began).as_millis();
    println!("\nThe lock was renewed, and ours for {held} ms: {} pieces of work.", shift.pieces);
    println!("How a loss is told is shown with masters started here only: unset QUORLOCK_NODES.");
    Ok(())
}
