//! The witness itself: its answers, its history and its refusals.

use std::thread;

use crate::judge::stores::writes;
use crate::support::reaper::Folder;
use crate::witness::{Answer, Class, Client, Event, History, Kind, Outcome, Phase, Server, Store};

use super::Check;

pub(crate) const CHECKS: &[Check] = &[
    ("witness::a_history_is_read_as_it_was_told", a_history_is_read_as_it_was_told),
    ("witness::stores_with_tokens_refuse_late_writes", stores_with_tokens_refuse_late_writes),
    ("witness::the_set_takes_late_writes", the_set_takes_late_writes),
];

const NAME: &str = "orders/1";

/// A witness on a thread, with a folder that is removed when dropped.
pub(super) struct Running {
    pub(super) address: String,
    folder: Folder,
}

impl Running {
    pub(super) fn start() -> Self {
        let folder = Folder::create("quorlock-witness");
        let folder = folder.expect("a directory can be made among the temporary files");
        let server = Server::bind("127.0.0.1:0", &folder).expect("a port is free");
        let address = server.address().expect("it listens");
        // The thread serves until the process ends.
        thread::spawn(move || server.serve());
        Self { address, folder }
    }

    fn connect(&self, who: &str) -> Client {
        Client::connect(&self.address, who).expect("it listens")
    }

    /// The history of all events so far.
    fn history(&self) -> History {
        tell(&mut self.connect("nemesis"), &Event::Enter { phase: Phase::End });
        History::read(&self.folder.join("history")).expect("it is complete")
    }
}

fn tell(client: &mut Client, event: &Event) -> Answer {
    client.tell(event).expect("it answers")
}

fn read(client: &mut Client, store: Store, token: u64) -> Outcome {
    let (name, token) = (NAME.to_owned(), Some(token));
    tell(client, &Event::Read { guard: 1, name, store, token }).outcome
}

fn write(client: &mut Client, store: Store, token: u64, base: u64) -> Outcome {
    let (name, token) = (NAME.to_owned(), Some(token));
    tell(client, &Event::Write { guard: 1, name, store, token, base }).outcome
}

fn a_history_is_read_as_it_was_told() {
    let witness = Running::start();
    let mut client = witness.connect("w1/1/2");
    let names = vec![NAME.to_owned(), "orders/2".to_owned()];
    let kind = Kind { label: "read".to_owned(), class: Class::Shared };
    let events = [
        Event::Wants { names: names.clone(), call: "lock".to_owned(), kind: Some(kind.clone()) },
        Event::Inside { guard: 7, kind, names, token: None },
    ];
    let stamps = events.clone().map(|event| tell(&mut client, &event).stamp);
    let history = witness.history();
    let told: Vec<_> = history.0.iter().filter(|record| record.who == "w1/1/2").collect();
    assert_eq!(told.iter().map(|it| it.event.clone()).collect::<Vec<_>>(), events);
    assert_eq!(told.iter().map(|it| it.stamp).collect::<Vec<_>>(), stamps);
    assert_eq!(told[0].worker(), "w1");
    let answer = tell(&mut client, &events[0]);
    assert!(answer.stamp > stamps[1] && answer.phase == Phase::End, "{answer:?}");
}

fn stores_with_tokens_refuse_late_writes() {
    let witness = Running::start();
    let mut client = witness.connect("w1/1/1");
    for store in [Store::GuardedSet, Store::Database] {
        let Outcome::Version(base) = read(&mut client, store, 5) else { panic!("5 is the first") };
        // It registers 6 by reading: from then on 5 cannot write.
        assert_eq!(read(&mut client, store, 6), Outcome::Version(base));
        assert_eq!(write(&mut client, store, 5, base), Outcome::Refused);
        assert_eq!(read(&mut client, store, 5), Outcome::Refused);
        let Outcome::Version(next) = write(&mut client, store, 6, base) else { panic!("6 may") };
        assert_eq!(read(&mut client, store, 7), Outcome::Version(next));
    }
    let found = writes(&witness.history());
    assert_eq!((found.taken, found.refused, found.violations), (2, 4, vec![]));
}

fn the_set_takes_late_writes() {
    let witness = Running::start();
    let mut client = witness.connect("w1/1/1");
    let Outcome::Version(base) = read(&mut client, Store::Set, 5) else { panic!("it takes all") };
    for token in [6, 5] {
        let Outcome::Version(version) = write(&mut client, Store::Set, token, base) else {
            panic!("it takes all")
        };
        let (name, store) = (NAME.to_owned(), Store::Set);
        tell(&mut client, &Event::Confirms { name, store, version });
    }
    assert_eq!(writes(&witness.history()).violations.len(), 1);
}
