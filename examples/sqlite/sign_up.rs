//! An event has 25 places, and eight web servers take sign-ups for it.
//!
//! A server counts the people who have signed up. If a place is left, it sends the confirmation, and writes the name
//! down. Nothing else is protected: between the count and the write another server may count as well. So without a
//! lock more people are confirmed than there are places. With the lock there are 25, even if a server dies.
//!
//! One server is killed in the middle of a sign-up, while it holds the lock. Nobody needs to detect that it is dead,
//! or to compare its clock with another one. The masters end the lock by themselves, its TTL after the grant, and
//! grant it to the next server. If the value of a lock is a time of its holder's clock, and others take the lock over
//! once that time is past, one wrong clock is enough for two holders.
//!
//! A single database could do the count and the write in one transaction. But the confirmation, which cannot be taken
//! back, is not part of a transaction.
//!
//! ```text
//! cargo run --example sign_up
//! ```
//!
//! It starts its own masters, unless `QUORLOCK_NODES` names some, and eight more processes of itself as the servers.
//! The exit status is 0 if too many people signed up without the lock, and as many as there are places with it.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a demonstration talks to whoever runs it"
)]

use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use std::{env, thread};

use copy::{Copy, PATIENCE};
use directory::Directory;
use masters::{Failure, Masters};
use quorlock::{Guard, OptionalGuard as _, Quorlock};
use rusqlite::Connection;

#[path = "../common/copy.rs"]
mod copy;
#[path = "../common/directory.rs"]
mod directory;
#[path = "../common/masters.rs"]
mod masters;

const PLACES: usize = 25;
const SERVERS: usize = 8;

/// Number of people who want a place at each server: more than twice its share.
const PEOPLE: usize = 8;

/// A lock is a name that all servers agree on. This one protects the list of participants.
const NAME: &str = "sign-up/event-7";

/// Short, so that the lock of a server that was killed ends soon. The default of 10 s suits most programs.
const TTL: Duration = Duration::from_secs(1);

fn main() -> ExitCode {
    // Not `process::exit`, which would leave our masters running.
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("sign_up: {failure}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Failure> {
    let args: Vec<String> = env::args().skip(1).collect();
    match args.as_slice() {
        [] => demonstrate(),
        [role, number, way, file] if role == SERVER => {
            let list = List::open(Path::new(file))?;
            serve(number, Way::named(way)?, &list)
        }
        _ => Err("usage: sign_up".into()),
    }
}

/// The way in which a server takes its sign-ups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Unlocked,
    Locked,
    /// The server is killed in the middle of its first sign-up.
    Killed,
}

impl Way {
    fn name(self) -> String {
        format!("{self:?}")
    }

    fn named(name: &str) -> Result<Self, Failure> {
        let way =
            [Self::Unlocked, Self::Locked, Self::Killed].into_iter().find(|it| it.name() == name);
        way.ok_or_else(|| format!("there is no way of the name {name}").into())
    }
}

fn demonstrate() -> Result<(), Failure> {
    let masters = Masters::find(3)?;
    println!("{PLACES} places; {PEOPLE} people want one at each of {SERVERS} servers");
    println!("{}; the TTL is {TTL:?}", masters.describe());
    // Masters that you name may be new, and in quarantine at first.
    drop(masters.builder()?.build()?.lock(NAME)?);

    println!("\nWithout a lock");
    let without = sign_up(&masters, Way::Unlocked)?;
    println!("\nWith the lock");
    let with = sign_up(&masters, Way::Locked)?;

    println!(
        "\nFor {PLACES} places {without} people were confirmed without a lock, and {with} with it."
    );
    if without <= PLACES {
        return Err("without a lock no place was given twice, so this run proves nothing".into());
    }
    (with == PLACES)
        .then_some(())
        .ok_or_else(|| "with the lock all places are to be taken once".into())
}

/// Lets all servers take sign-ups. Returns the number of people on the list at the end.
fn sign_up(masters: &Masters, way: Way) -> Result<usize, Failure> {
    let directory = Directory::create("event")?;
    let file = directory.file("event.sqlite");
    let list = List::create(&file)?;
    let start = |number: usize, way: Way| {
        let args = [SERVER.to_owned(), number.to_string(), way.name(), file.display().to_string()];
        let server = Copy::start(masters, args)?;
        server.hear()?;
        Ok::<_, Failure>(server)
    };
    let killed = (way == Way::Locked).then(|| start(0, Way::Killed)).transpose()?;
    let first = usize::from(killed.is_some());
    let mut servers = Vec::new();
    for number in first..SERVERS {
        servers.push(start(number, way)?);
    }
    if let Some(mut killed) = killed {
        killed.go()?;
        println!("  {}", killed.hear()?);
        killed.kill()?;
        println!("  server 0 is killed");
    }
    for server in &mut servers {
        server.go()?;
    }
    for server in servers {
        println!("  {}", server.hear()?);
        server.finish()?;
    }
    list.count()
}

const SERVER: &str = "--server";

/// The life of a server.
fn serve(number: &str, way: Way, list: &List) -> Result<(), Failure> {
    let locks = Masters::find(0)?.builder()?.ttl(TTL).build()?;
    println!("ready");
    copy::wait_for_go()?;
    let (mut confirmed, mut turned_away) = (0, 0);
    let mut longest = Duration::ZERO;
    for person in 0..PEOPLE {
        let asked = Instant::now();
        let guard = enter(way, &locks)?;
        longest = longest.max(asked.elapsed());
        if way == Way::Killed {
            println!("server {number} is in the middle of a sign-up, and holds the lock");
            copy::wait_for_go()?; // Killed here.
        }
        match confirm(list, guard.as_ref(), &format!("person {person} of server {number}"))? {
            true => confirmed += 1,
            false => turned_away += 1,
        }
        guard.map(Guard::unlock).transpose()?;
    }
    let waited = match way {
        Way::Unlocked => String::new(),
        _ => format!("; it waited for {} ms at most", longest.as_millis()),
    };
    println!("server {number} has confirmed {confirmed}, and turned {turned_away} away{waited}");
    Ok(())
}

/// Takes the lock, or none: this is the only difference between the ways.
fn enter(way: Way, locks: &Quorlock) -> Result<Option<Guard>, Failure> {
    Ok(match way {
        Way::Unlocked => None,
        _ => Some(locks.try_lock_for(NAME, PATIENCE).optional()?.ok_or("somebody keeps the lock")?),
    })
}

/// Gives the person a place, if there is one left.
fn confirm(list: &List, guard: Option<&Guard>, person: &str) -> Result<bool, Failure> {
    if list.count()? >= PLACES {
        return Ok(false);
    }
    if let Some(guard) = guard {
        // A lease can run out, for example while a laptop sleeps. Then another server may be about to give this place
        // away.
        guard.check()?;
    }
    send_the_confirmation();
    list.add(person)?;
    Ok(true)
}

/// Takes about one millisecond, and cannot be taken back.
fn send_the_confirmation() {
    thread::sleep(Duration::from_micros(rand::random_range(500..1_500)));
}

/// The people who have signed up: a table without a limit of its own.
struct List(Connection);

impl List {
    fn open(file: &Path) -> Result<Self, Failure> {
        let connection = Connection::open(file)?;
        connection.busy_timeout(PATIENCE)?;
        // A demonstration need not survive a power cut.
        connection.pragma_update(None, "synchronous", "OFF")?;
        Ok(Self(connection))
    }

    fn create(file: &Path) -> Result<Self, Failure> {
        let list = Self::open(file)?;
        list.0.execute_batch("CREATE TABLE participant (name TEXT NOT NULL UNIQUE)")?;
        Ok(list)
    }

    fn count(&self) -> Result<usize, Failure> {
        const COUNT: &str = "SELECT count(*) FROM participant";
        let count: i64 = self.0.query_row(COUNT, [], |row| row.get(0))?;
        Ok(count.try_into()?)
    }

    fn add(&self, person: &str) -> Result<(), Failure> {
        self.0.execute("INSERT INTO participant VALUES (?1)", [person])?;
        Ok(())
    }
}
