//! Calls that end quarantines early, and what happens between their steps.

use super::super::base::without;
use super::model::{MAX_TTL, World, configuration};
use super::*;

/// The time for a stage is longer than any of them takes here.
const TERMS: AdmitTerms = AdmitTerms { max_ttl: MAX_TTL, patience: PATIENCE };

const PATIENCE: Duration = Duration::from_secs(60);

const LONG_AGO: Duration = Duration::from_secs(100);

/// Three new servers that have been up for long, in quarantine for one client.
fn new_set() -> World {
    let mut world = World::new(3, &[configuration(3)]);
    world.servers.iter_mut().for_each(|server| server.forgot_at = Time::default());
    world.visit_all();
    world
}

fn now(world: &World) -> Time {
    world.clients[0].now(world.now)
}

fn if_unused(world: &World) -> AdmitCall {
    AdmitCall::if_unused(3, TERMS, now(world))
}

fn on_word(world: &World) -> AdmitCall {
    AdmitCall::on_word(3, TERMS, now(world))
}

/// Carries out the steps of the call up to one that needs more than this client.
fn go_on(world: &mut World, call: &mut AdmitCall) -> AdmitStep {
    let now = now(world);
    let client = &mut world.clients[0];
    loop {
        match call.poll(&client.admission, |node| !client.reachable[node], now) {
            AdmitStep::End { node, id } => client.admission.admit(node, id),
            AdmitStep::Probe { node } => client.admission.doubt(node, None),
            step => return step,
        }
    }
}

/// Hands in the result of a scan of all nodes, each of which says that it has kept its keys for that long, and goes on as far as
/// possible.
fn scanned(
    world: &mut World,
    call: &mut AdmitCall,
    whole_for: Duration,
    has_lock: bool,
) -> AdmitStep {
    assert_eq!(go_on(world, call), AdmitStep::Scan);
    let (admission, now) = (&world.clients[0].admission, now(world));
    call.scanned(admission, |_| Some(whole_for), has_lock, now);
    let step = go_on(world, call);
    if matches!(step, AdmitStep::Wait(_)) {
        world.visit_all();
        return go_on(world, call);
    }
    step
}

fn granting(world: &mut World) -> Vec<usize> {
    (0..3).filter(|node| world.takes(0, *node)).collect()
}

#[test]
fn the_word_of_the_caller_ends_all_quarantines() {
    let mut world = new_set();
    assert_eq!(granting(&mut world), Vec::<usize>::new());
    let mut call = on_word(&world);
    assert!(matches!(go_on(&mut world, &mut call), AdmitStep::Wait(_)));
    world.visit_all();
    assert_eq!(go_on(&mut world, &mut call), AdmitStep::Over);
    assert_eq!(granting(&mut world), [0, 1, 2]);
    assert_eq!(call.admitted(&world.clients[0].admission), [0, 1, 2]);
}

#[test]
fn a_node_that_cannot_be_reached_is_not_waited_for() {
    let mut world = new_set();
    world.reach(0, 1, false);
    let mut call = on_word(&world);
    go_on(&mut world, &mut call);
    world.visit_all();
    assert_eq!(go_on(&mut world, &mut call), AdmitStep::Over);
    assert_eq!(call.admitted(&world.clients[0].admission), [0, 2]);
}

#[test]
fn a_call_ends_although_a_node_does_not_come_to_grant() {
    let mut world = new_set();
    let mut call = on_word(&world);
    assert!(matches!(go_on(&mut world, &mut call), AdmitStep::Wait(_)));
    // Each quarantine is ended once, and this node gets another one.
    world.restart(1, false);
    world.visit_all();
    let AdmitStep::Wait(until) = go_on(&mut world, &mut call) else { panic!("one is left") };
    assert_eq!(until, now(&world).after(PATIENCE));
    world.advance(PATIENCE);
    assert_eq!(go_on(&mut world, &mut call), AdmitStep::Over);
    assert_eq!(call.admitted(&world.clients[0].admission), [0, 2]);
}

#[test]
fn nodes_that_show_that_no_lock_is_held_are_admitted() {
    let mut world = new_set();
    let mut call = if_unused(&world);
    assert_eq!(scanned(&mut world, &mut call, LONG_AGO, false), AdmitStep::Over);
    assert_eq!(call.admitted(&world.clients[0].admission), [0, 1, 2]);
    assert_eq!(world.early, Vec::<String>::new());
}

/// Returns true if a client that does not wait for the proof admits nodes which may have forgotten a lock.
fn admits_at_once() -> bool {
    let mut world = World::new(3, &[configuration(3)]);
    world.visit_all();
    let mut call = if_unused(&world);
    go_on(&mut world, &mut call);
    world.visit_all();
    !world.early.is_empty()
}

#[test]
fn without_a_proof_nothing_is_admitted() {
    for (whole_for, has_lock, reasons) in [(LONG_AGO, true, 0), (MAX_TTL, false, 3)] {
        let mut world = new_set();
        let mut call = if_unused(&world);
        assert_eq!(scanned(&mut world, &mut call, whole_for, has_lock), AdmitStep::InUse);
        let now = now(&world);
        assert_eq!(call.reasons(&world.clients[0].admission, now).len(), reasons);
        world.visit_all();
        assert_eq!(granting(&mut world), Vec::<usize>::new());
    }
    assert!(!admits_at_once());
    assert!(without(&[Mechanism::AdmissionIsProven], admits_at_once));
}

#[test]
fn nodes_that_are_not_known_are_waited_for() {
    let mut world = new_set();
    world.cut(0, 2);
    let mut call = if_unused(&world);
    assert!(matches!(go_on(&mut world, &mut call), AdmitStep::Wait(_)));
    world.visit_all();
    assert_eq!(go_on(&mut world, &mut call), AdmitStep::Scan);
}

#[test]
fn a_set_that_grants_needs_no_proof_and_gets_no_order() {
    let mut world = World::settled(3, 1);
    let mut call = if_unused(&world);
    assert_eq!(go_on(&mut world, &mut call), AdmitStep::Over);
    assert_eq!(call.admitted(&world.clients[0].admission), Vec::<usize>::new());
}

/// Returns true if a node that forgets everything after its scan is admitted all the same.
fn forgets_after_its_scan() -> bool {
    let mut world = new_set();
    let mut call = if_unused(&world);
    assert_eq!(go_on(&mut world, &mut call), AdmitStep::Scan);
    let (admission, now) = (&world.clients[0].admission, now(&world));
    call.scanned(admission, |_| Some(LONG_AGO), false, now);
    world.restart(2, false);
    world.visit_all();
    go_on(&mut world, &mut call);
    world.visit_all();
    !world.early.is_empty()
}

#[test]
fn a_proof_covers_no_later_quarantine() {
    assert!(!forgets_after_its_scan());
    assert!(without(&[Mechanism::ProofsCoverSeenQuarantines], forgets_after_its_scan));
}

/// Two nodes grant, and one is new for this client. Returns true if the proof counts a node that was flushed before its scan, which
/// this client has not noticed.
fn proves_by_a_node_that_forgot() -> bool {
    let mut world = World::settled(3, 1);
    world.flush(2);
    world.clients[0].admission = Admission::new(&configuration(3), false);
    world.visit_all();
    let mut call = if_unused(&world);
    assert_eq!(go_on(&mut world, &mut call), AdmitStep::Scan);
    world.flush(1);
    scanned(&mut world, &mut call, LONG_AGO, false) != AdmitStep::InUse
}

#[test]
fn a_node_that_forgets_before_its_scan_remembers_nothing() {
    assert!(!proves_by_a_node_that_forgot());
    assert!(without(&[Mechanism::NodesAreProbedAfterScans], proves_by_a_node_that_forgot));
}

/// A node has forgotten all, and its quarantine is to end on the caller's word. Before it does, another node turns out to be
/// somebody else's, for a moment. Returns true if the node is admitted behind that.
fn order_outlasts_a_conflict() -> bool {
    let mut world = World::settled(3, 1);
    world.restart(2, false);
    world.visit_all();
    let mut call = on_word(&world);
    assert!(matches!(go_on(&mut world, &mut call), AdmitStep::Wait(_)));
    let ours = world.servers[1].mark.replace("of somebody else".to_owned());
    world.cut(0, 1);
    world.visit_all();
    assert_eq!(go_on(&mut world, &mut call), AdmitStep::NotOneSet);
    assert_eq!(go_on(&mut world, &mut call), AdmitStep::NotOneSet, "for good");
    world.servers[1].mark = ours;
    world.cut(0, 1);
    world.visit_all();
    !world.early.is_empty()
}

#[test]
fn an_order_does_not_outlast_a_conflict() {
    assert!(!order_outlasts_a_conflict());
    assert!(without(&[Mechanism::ConflictsEndOrders], order_outlasts_a_conflict));
}

#[test]
fn a_call_in_a_conflict_orders_nothing() {
    let mut world = World::settled(3, 1);
    world.restart(2, false);
    world.servers[1].mark = Some("of somebody else".to_owned());
    world.cut(0, 1);
    world.visit_all();
    for mut call in [on_word(&world), if_unused(&world)] {
        assert_eq!(go_on(&mut world, &mut call), AdmitStep::NotOneSet);
        assert!(world.clients[0].admission.nodes.iter().all(|known| known.by_order.is_none()));
    }
}
