//! Admission, rule by rule.

use super::super::base::without;
use super::clocks::Offset;
use super::mark::{Identity, Noted};
use super::model::{MAX_TTL, configuration};
use super::old_master::OLD_MASTER_WRITES;
use super::*;

const CHANCE: Chance = Chance { id: 7, jitter: 0.0 };

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn at(s: u64) -> Time {
    Time::from_start(Duration::from_secs(s))
}

fn exactly(ms: u64) -> Option<SetTime> {
    Some(SetTime { least_ms: ms, most_ms: ms })
}

fn machine(configuration: &Configuration) -> Admission {
    Admission::new(configuration, false)
}

fn probe(run: &str, mark: Option<&str>) -> Probe {
    let identity = Identity::new(run, "p1").expect("ids");
    let mark = mark.map(ToOwned::to_owned);
    // `see` replaces this clock.
    let clock = Offset::new(0, Time::default(), Time::default());
    Probe { changed: false, role: Role::Master, identity, promoted: false, clock, mark }
}

/// A reading of a server's clock that shows the same time as the machine's.
fn clock(now: Time) -> Offset {
    let time_us = i64::try_from(now.since(Time::default()).as_micros()).expect("short");
    Offset::new(time_us, now, now)
}

/// Hands in the answer of such a server.
fn see(machine: &mut Admission, node: usize, probe: Probe, now: Time) {
    machine.probed(node, Probe { clock: clock(now), ..probe }, now);
}

fn mark(configuration: &Configuration, run: &str, state: MarkState) -> String {
    let identity = Identity::new(run, "p1").expect("ids");
    let noted = Noted { ahead_ms: 0, at_ms: 0 };
    Mark { configuration: configuration.clone(), identity, noted, state }.to_string()
}

fn quarantined(until_ms: Option<u64>) -> MarkState {
    MarkState::Quarantined { until_ms, id: 7 }
}

/// Three nodes: two have been admitted, and the last one is in that state.
fn one_of_three(state: MarkState) -> (Configuration, Admission) {
    let configuration = configuration(3);
    let mut machine = machine(&configuration);
    for (node, run) in ["r0", "r1"].into_iter().enumerate() {
        let admitted = mark(&configuration, run, MarkState::Admitted);
        see(&mut machine, node, probe(run, Some(&admitted)), at(0));
    }
    see(&mut machine, 2, probe("r2", Some(&mark(&configuration, "r2", state))), at(0));
    (configuration, machine)
}

fn asks_for(next: NextProbe) -> String {
    match next {
        NextProbe::Ask(Some(change)) => change.new,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_node_without_a_mark_is_quarantined_and_its_end_is_set_once_that_is_confirmed() {
    let configuration = configuration(1);
    let mut machine = machine(&configuration);
    assert_eq!(machine.next(0, at(0), None, CHANCE), NextProbe::Ask(None), "it has to be probed");
    see(&mut machine, 0, probe("r0", None), at(0));
    let begun = mark(&configuration, "r0", quarantined(None));
    let change = Change { replaces: None, new: begun.clone() };
    assert_eq!(machine.next(0, at(0), exactly(500), CHANCE), NextProbe::Ask(Some(change)));
    see(&mut machine, 0, Probe { changed: true, ..probe("r0", Some(&begun)) }, at(1));
    assert_eq!(machine.node_state(0), NodeState::Quarantined(Some(Forgot::Mark)));
    let ended = asks_for(machine.next(0, at(1), exactly(1_500), CHANCE));
    assert_eq!(ended, mark(&configuration, "r0", quarantined(Some(11_500))));
}

#[test]
fn a_quarantine_is_looked_at_each_second_and_at_its_end() {
    let (configuration, mut machine) = one_of_three(quarantined(Some(8_400)));
    assert_eq!(machine.next(2, at(0), exactly(5_000), CHANCE), NextProbe::Wait(at(1)));
    assert_eq!(machine.next(2, at(1), exactly(6_000), CHANCE), NextProbe::Ask(None));
    assert_eq!(
        machine.next(2, at(0), exactly(8_000), CHANCE),
        NextProbe::Wait(at(0).after(ms(400)))
    );
    let late = Chance { jitter: 1.0, ..CHANCE };
    assert_eq!(machine.next(2, at(0), exactly(8_000), late), NextProbe::Wait(at(0).after(ms(450))));
    let admitted = mark(&configuration, "r2", MarkState::Admitted);
    assert_eq!(asks_for(machine.next(2, at(0), exactly(8_400), CHANCE)), admitted);
    assert_eq!(
        machine.next(0, at(0), exactly(8_400), CHANCE),
        NextProbe::Wait(at(1)),
        "it is admitted"
    );
}

#[test]
fn a_node_is_probed_again_in_time_and_what_comes_back_is_unknown() {
    let (configuration, mut machine) = one_of_three(MarkState::Admitted);
    let due = machine.settled_until(2).expect("it is admitted");
    assert_eq!(machine.next(2, due, None, CHANCE), NextProbe::Ask(None));
    let ours = mark(&configuration, "r2", MarkState::Admitted);
    see(&mut machine, 2, probe("r2", Some(&ours)), due);
    let later = machine.settled_until(2).expect("it is admitted still");
    assert_eq!(later.since(due), due.since(at(0)), "from then on");
    assert_eq!(machine.grants(2), Grants::Under(&ours));

    see(&mut machine, 2, probe("r2", None), at(2));
    assert_eq!(machine.node_state(2), NodeState::Quarantined(Some(Forgot::Flush)));

    machine.lost(2);
    assert_eq!(
        machine.next(2, at(2), None, CHANCE),
        NextProbe::Ask(None),
        "what comes back is unknown"
    );
}

#[test]
fn the_end_must_be_certain() {
    let (_, mut machine) = one_of_three(quarantined(Some(8_400)));
    let range = Some(SetTime { least_ms: 8_399, most_ms: 9_000 });
    assert_eq!(machine.next(2, at(0), range, CHANCE), NextProbe::Wait(at(0).after(ms(1))));
    assert_eq!(
        machine.next(2, at(0), None, CHANCE),
        NextProbe::Wait(at(1)),
        "no majority's time is known"
    );
}

#[test]
fn an_end_too_far_ahead_is_set_back_and_its_quarantine_stays_the_same() {
    let (configuration, mut machine) = one_of_three(quarantined(Some(99_000)));
    let set_back = asks_for(machine.next(2, at(0), exactly(5_000), CHANCE));
    assert_eq!(set_back, mark(&configuration, "r2", quarantined(Some(15_000))));
    // Two clients never agree to the millisecond.
    let (_, mut machine) = one_of_three(quarantined(Some(16_000)));
    assert_eq!(machine.next(2, at(0), exactly(5_000), CHANCE), NextProbe::Wait(at(1)));
}

#[test]
fn who_has_watched_a_quarantine_for_its_full_time_ends_it_whatever_the_clocks_say() {
    let (configuration, mut machine) = one_of_three(quarantined(Some(9_000)));
    let seen = probe("r2", Some(&mark(&configuration, "r2", quarantined(Some(9_000)))));
    see(&mut machine, 2, seen, at(9));
    let stopped = exactly(0);
    assert_eq!(machine.next(2, at(9), stopped, CHANCE), NextProbe::Wait(at(10)));
    let admitted = mark(&configuration, "r2", MarkState::Admitted);
    assert_eq!(asks_for(machine.next(2, at(10), stopped, CHANCE)), admitted);
}

#[test]
fn the_same_marks_are_left_alone_and_a_change_of_id_is_rewritten_as_it_is() {
    let configuration = configuration(1);
    for state in [MarkState::Admitted, quarantined(Some(9_000))] {
        let mut machine = machine(&configuration);
        let before = mark(&configuration, "r0", state);
        let identity = Identity::new("r0", "p2").expect("ids");
        let renamed = Probe { identity, ..probe("r0", Some(&before)) };
        see(&mut machine, 0, renamed, at(0));
        let after = before.replace("repl=p1", "repl=p2");
        assert_eq!(asks_for(machine.next(0, at(0), exactly(0), CHANCE)), after);
    }
}

#[test]
fn marks_are_written_once_a_majority_has_been_read() {
    let mut machine = machine(&configuration(3));
    see(&mut machine, 0, probe("r0", None), at(0));
    assert_eq!(machine.next(0, at(0), None, CHANCE), NextProbe::Wait(at(1)));
    assert_eq!(machine.next(0, at(1), None, CHANCE), NextProbe::Ask(None), "it may have changed");
    see(&mut machine, 1, probe("r1", None), at(0));
    assert!(asks_for(machine.next(0, at(0), None, CHANCE)).contains("quarantined"));
    machine.lost(1);
    assert_eq!(machine.next(0, at(0), None, CHANCE), NextProbe::Wait(at(1)));
}

#[test]
fn another_configuration_anywhere_stops_everything_but_the_holders() {
    let (configuration, mut machine) = one_of_three(quarantined(Some(9_000)));
    let other = Configuration { max_ttl: MAX_TTL * 2, ..configuration };
    see(&mut machine, 1, probe("r1", Some(&mark(&other, "r1", MarkState::Admitted))), at(0));
    assert_eq!(machine.conflict(), Some(1));
    assert_eq!(machine.node_state(1), NodeState::Foreign(Some(other)));
    assert_eq!(machine.grants(0), Grants::Nothing, "though the node itself is admitted");
    assert_eq!(
        machine.next(2, at(0), exactly(9_000), CHANCE),
        NextProbe::Wait(at(1)),
        "nothing is ended"
    );
    assert_eq!(
        machine.next(1, at(0), exactly(9_000), CHANCE),
        NextProbe::Wait(at(1)),
        "nor overwritten"
    );
    assert_eq!(machine.ready_in(at(0), exactly(9_000)), None);
    assert!((0..3).all(|node| machine.serves_holders(node)));
    // The conflict lasts as long as that node can be reached.
    machine.lost(1);
    assert!(matches!(machine.grants(0), Grants::Under(_)));
}

#[test]
fn one_server_under_two_addresses_is_no_set() {
    let configuration = configuration(3);
    let mut machine = machine(&configuration);
    let admitted = mark(&configuration, "r0", MarkState::Admitted);
    see(&mut machine, 0, probe("r0", Some(&admitted)), at(0));
    let other = mark(&configuration, "r1", MarkState::Admitted);
    see(&mut machine, 1, probe("r1", Some(&other)), at(0));
    assert!(matches!(machine.grants(0), Grants::Under(_)));
    see(&mut machine, 2, probe("r0", Some(&admitted)), at(0));
    assert_eq!(
        (machine.node_state(0), machine.node_state(2)),
        (NodeState::Twin(2), NodeState::Twin(0))
    );
    assert_eq!(machine.conflict(), Some(0));
    assert_eq!(machine.grants(0), Grants::Nothing);
    assert!(!machine.serves_holders(0) && !machine.serves_holders(2), "its word counted twice");
    // Its vote may have been counted at the first address, and nobody knows which server is there
    // now.
    machine.lost(0);
    assert_eq!(machine.node_state(2), NodeState::Twin(0));
    let restarted = mark(&configuration, "r9", MarkState::Admitted);
    see(&mut machine, 0, probe("r9", Some(&restarted)), at(1));
    assert_eq!(machine.conflict(), None);
}

/// Another connection to the node leads to another server, and the first one is still there.
#[test]
fn a_node_at_which_several_servers_answer_has_no_vote() {
    let votes = || {
        let (_, mut machine) = one_of_three(MarkState::Admitted);
        let clock = Offset::new(0, at(1), at(2));
        machine.sighted(2, &Probe { clock, ..probe("r9", None) });
        let is_asked = machine.next(2, at(3), None, CHANCE) == NextProbe::Ask(None);
        assert!(is_asked && machine.settled_until(2).is_none(), "is its own one still there?");
        let ours = mark(&configuration(3), "r2", MarkState::Admitted);
        see(&mut machine, 2, probe("r2", Some(&ours)), at(3));
        assert!(machine.settled_until(2).is_some());
        assert_eq!(machine.conflict(), None, "the others decide");
        let wait = machine.ready_in(at(3), exactly(3_000));
        assert_eq!(wait, Some(Duration::ZERO));
        (machine.grants(2) != Grants::Nothing, machine.serves_holders(2))
    };
    assert_eq!(votes(), (false, false));
    assert_eq!(without(&[Mechanism::OneServerAnswers], votes), (true, true));
}

/// A server forgets its earlier replication id with its backlog. It was promoted all the same.
#[test]
fn the_quarantines_of_a_run_that_was_promoted_stay_longer() {
    let (_, mut machine) = one_of_three(MarkState::Admitted);
    let time = |machine: &Admission| machine.quarantine_time(&machine.nodes[2]);
    see(&mut machine, 2, Probe { promoted: true, ..probe("r2", None) }, at(1));
    let longer = time(&machine);
    see(&mut machine, 2, probe("r2", None), at(2));
    assert_eq!(time(&machine), longer);
    see(&mut machine, 2, probe("r3", None), at(3));
    assert_eq!(time(&machine) + OLD_MASTER_WRITES, longer);
}

/// Its old master may take writes for so long. Each promotion begins that time anew, also of a server that was promoted before.
#[test]
fn a_promoted_server_does_not_count_for_holders_at_first() {
    let with_id = |id: &str, role, promoted| {
        let identity = Identity::new("r2", id).expect("ids");
        Probe { identity, role, promoted, ..probe("r2", None) }
    };
    let serves = |probes: &[(u64, Probe)]| {
        let (_, mut machine) = one_of_three(MarkState::Admitted);
        probes.iter().for_each(|(s, probe)| see(&mut machine, 2, probe.clone(), at(*s)));
        machine.serves_holders(2)
    };
    let promoted = with_id("p2", Role::Master, true);
    assert!(!serves(&[(100, promoted.clone())]));
    assert!(without(&[Mechanism::HoldersOutlastOldMasters], || serves(&[(100, promoted.clone())])));
    assert!(!serves(&[(100, promoted.clone()), (112, promoted.clone())]));
    assert!(serves(&[(100, promoted.clone()), (113, promoted.clone())]));
    let again = with_id("p3", Role::Master, true);
    assert!(!serves(&[(100, promoted.clone()), (200, again.clone())]));
    // The time does not begin while it is a replica.
    let replica = with_id("p3", Role::Replica, true);
    assert!(!serves(&[(100, replica), (200, again)]));
}

#[test]
fn messages_of_another_server_than_that_of_the_last_probe_do_not_concern_its_locks() {
    let (_, mut machine) = one_of_three(MarkState::Admitted);
    assert!(!machine.is_another_server(2, "r2"));
    assert!(machine.is_another_server(2, "r3"));
    let is_left = || machine.is_another_server(2, "r3");
    assert!(!without(&[Mechanism::OtherServersAreLeft], is_left), "the mutation bites");
    see(&mut machine, 2, probe("r3", None), at(1));
    assert!(!machine.is_another_server(2, "r3"));
    assert!(machine.is_another_server(2, "r2"));
    machine.lost(2);
    assert!(!machine.is_another_server(2, "r2"), "nobody knows");
}

#[test]
fn replicas_and_clusters_have_no_vote_and_are_looked_at_again() {
    for (role, node_state) in
        [(Role::Replica, NodeState::Replica), (Role::Cluster, NodeState::Cluster)]
    {
        let configuration = configuration(1);
        let mut machine = machine(&configuration);
        let admitted = mark(&configuration, "r0", MarkState::Admitted);
        see(&mut machine, 0, Probe { role, ..probe("r0", Some(&admitted)) }, at(0));
        assert_eq!(machine.node_state(0), node_state);
        assert_eq!(machine.grants(0), Grants::Nothing);
        assert!(!machine.serves_holders(0));
        assert_eq!(machine.conflict(), None);
        assert_eq!(machine.ready_in(at(0), exactly(0)), None);
        assert_eq!(machine.next(0, at(0), None, CHANCE), NextProbe::Wait(at(1)));
        assert_eq!(machine.next(0, at(1), None, CHANCE), NextProbe::Ask(None));
    }
}

#[test]
fn doubt_ends_the_grants_until_the_node_has_been_looked_at() {
    let (configuration, mut machine) = one_of_three(MarkState::Admitted);
    let ours = mark(&configuration, "r2", MarkState::Admitted);
    assert_eq!(machine.grants(2), Grants::Under(&ours));
    machine.doubt(2, Some("an earlier mark"));
    assert_eq!(machine.grants(2), Grants::Under(&ours), "that was seen before");
    machine.doubt(2, Some(&ours));
    assert_eq!(machine.grants(2), Grants::Nothing);
    assert_eq!(machine.next(2, at(0), None, CHANCE), NextProbe::Ask(None));
    assert!(machine.serves_holders(2), "it is the same server");
    see(&mut machine, 2, probe("r2", Some(&ours)), at(0));
    assert_eq!(machine.grants(2), Grants::Under(&ours));
    machine.doubt(2, None);
    assert_eq!(machine.next(2, at(0), None, CHANCE), NextProbe::Ask(None));
}

#[test]
fn without_quarantine_all_nodes_grant_and_marks_only_tell_the_configuration() {
    let off = Configuration { quarantine: false, ..configuration(2) };
    let mut machine = machine(&off);
    assert_eq!(machine.grants(0), Grants::Nothing, "not over a connection that was not probed");
    see(&mut machine, 0, probe("r0", None), at(0));
    assert_eq!(machine.grants(0), Grants::Always);
    see(&mut machine, 1, probe("r1", Some(&mark(&off, "r0", MarkState::Admitted))), at(0));
    assert_eq!(machine.ready_in(at(0), None), Some(Duration::ZERO));
    for (node, run) in ["r0", "r1"].into_iter().enumerate() {
        let written = asks_for(machine.next(node, at(0), None, CHANCE));
        assert_eq!(written, mark(&off, run, MarkState::Admitted));
        see(&mut machine, node, probe(run, Some(&written)), at(0));
        assert_eq!(machine.next(node, at(0), None, CHANCE), NextProbe::Wait(at(1)));
        assert_eq!(machine.grants(node), Grants::Always);
    }
    see(
        &mut machine,
        0,
        probe("r0", Some(&mark(&configuration(2), "r0", MarkState::Admitted))),
        at(0),
    );
    assert_eq!(machine.grants(1), Grants::Nothing, "others rely on the quarantine");
}

#[test]
fn it_is_told_when_a_majority_will_grant() {
    let (configuration, mut machine) = one_of_three(quarantined(Some(9_000)));
    let set_time = exactly(2_000);
    assert_eq!(machine.ready_in(at(0), set_time), Some(Duration::ZERO), "two of three do");
    let ready_in = |machine: &Admission| machine.ready_in(at(0), set_time);
    let waiting = |until, run| probe(run, Some(&mark(&configuration, run, quarantined(until))));
    see(&mut machine, 1, waiting(Some(5_000), "r1"), at(0));
    assert_eq!(ready_in(&machine), Some(ms(3_000)), "the first of two is enough");
    machine.lost(0);
    assert_eq!(ready_in(&machine), Some(ms(7_000)), "it takes both");
    see(&mut machine, 1, waiting(None, "r1"), at(0));
    assert_eq!(ready_in(&machine), Some(MAX_TTL));
    machine.lost(1);
    assert_eq!(ready_in(&machine), None, "nobody knows");
}

/// Where clients may fall back, a majority without the first node's grant wins nothing.
#[test]
fn where_clients_fall_back_the_first_node_is_waited_for_as_well() {
    let mut machine = Admission::new(&configuration(3), true);
    for node in 0..3 {
        let configuration = Configuration { index: Some(node), ..configuration(3) };
        let state = if node == 0 { quarantined(Some(9_000)) } else { MarkState::Admitted };
        let run = format!("r{node}");
        see(&mut machine, node, probe(&run, Some(&mark(&configuration, &run, state))), at(0));
    }
    assert_eq!(machine.ready_in(at(0), exactly(2_000)), Some(ms(7_000)));
    machine.lost(0);
    assert_eq!(machine.ready_in(at(0), exactly(2_000)), Some(Duration::ZERO), "it is not there");
}

#[test]
fn an_operator_ends_the_quarantine_that_was_seen_and_no_later_one() {
    let (configuration, mut machine) = one_of_three(quarantined(Some(9_000)));
    let (id, past) = machine.quarantine(2).expect("it is in quarantine");
    assert_eq!(past, Past::Unknown, "this client has not seen why");
    machine.admit(2, id);
    let admitted = mark(&configuration, "r2", MarkState::Admitted);
    assert_eq!(asks_for(machine.next(2, at(0), exactly(0), CHANCE)), admitted);
    let later = MarkState::Quarantined { until_ms: Some(9_000), id: 8 };
    see(&mut machine, 2, probe("r2", Some(&mark(&configuration, "r2", later))), at(0));
    assert_eq!(machine.next(2, at(0), exactly(0), CHANCE), NextProbe::Wait(at(1)));
}

#[test]
fn places_are_written_where_they_matter() {
    let mut machine = Admission::new(&configuration(1), true);
    see(&mut machine, 0, probe("r0", None), at(0));
    assert!(asks_for(machine.next(0, at(0), None, CHANCE)).contains(" index=0 "));
    let unordered = mark(&configuration(1), "r0", MarkState::Admitted);
    see(&mut machine, 0, probe("r0", Some(&unordered)), at(0));
    assert!(matches!(machine.node_state(0), NodeState::Foreign(Some(_))));
}
