//! Locks among processes that end early, are killed, panic, and contend.
//!
//! Many promises of a lock show only when a process ends. So this program has a `main` of its
//! own: the tests start the program again, in a role that an environment variable names. In
//! that role it returns from `main` as any other program does.

mod counting;
mod endings;
mod forking;
#[allow(dead_code, reason = "the program `schedule` asks more of these helpers")]
mod helper;
mod leftovers;
mod queueing;
mod roles;
#[path = "../support/mod.rs"]
mod support;
mod tokens;

use libtest_mimic::{Arguments, Trial};

fn main() {
    if let Some(role) = helper::role() {
        return roles::play(&role);
    }
    let arguments = Arguments::from_args();
    let tests = vec![
        trial("short_processes_leave_no_key", endings::short_processes_leave_no_key),
        trial(
            "short_processes_leave_no_key_on_servers_that_know_no_scripts",
            endings::short_processes_leave_no_key_on_servers_that_know_no_scripts,
        ),
        trial(
            "a_process_whose_connections_were_closed_leaves_no_key",
            endings::a_process_whose_connections_were_closed_leaves_no_key,
        ),
        trial(
            "a_process_that_gives_up_on_hung_masters_leaves_no_key",
            endings::a_process_that_gives_up_on_hung_masters_leaves_no_key,
        ),
        trial("process_exit_also_flushes", endings::process_exit_also_flushes),
        trial(
            "process_exit_with_a_guard_leaves_the_lock_to_its_ttl",
            endings::process_exit_with_a_guard_leaves_the_lock_to_its_ttl,
        ),
        trial(
            "a_client_that_was_closed_is_waited_for_no_longer",
            endings::a_client_that_was_closed_is_waited_for_no_longer,
        ),
        trial(
            "a_killed_holder_frees_the_lock_after_its_ttl",
            endings::a_killed_holder_frees_the_lock_after_its_ttl,
        ),
        trial(
            "a_killed_holder_frees_its_permits_after_their_ttl",
            endings::a_killed_holder_frees_its_permits_after_their_ttl,
        ),
        trial(
            "a_call_of_a_killed_process_counts_for_its_window",
            endings::a_call_of_a_killed_process_counts_for_its_window,
        ),
        trial(
            "a_holder_that_was_stopped_past_its_lease_knows_when_it_wakes",
            endings::a_holder_that_was_stopped_past_its_lease_knows_when_it_wakes,
        ),
        trial(
            "a_stopped_holder_that_looks_first_is_told_of_its_loss",
            endings::a_stopped_holder_that_looks_first_is_told_of_its_loss,
        ),
        trial(
            "a_renewal_that_runs_late_takes_no_lock_for_a_killed_holder",
            endings::a_renewal_that_runs_late_takes_no_lock_for_a_killed_holder,
        ),
        trial(
            "a_panicking_thread_and_a_normal_exit_release",
            endings::a_panicking_thread_and_a_normal_exit_release,
        ),
        trial(
            "a_child_has_no_part_in_its_parents_locks",
            forking::a_child_has_no_part_in_its_parents_locks,
        ),
        trial(
            "children_of_a_process_that_has_not_locked_yet_lock_as_any_other",
            forking::children_of_a_process_that_has_not_locked_yet_lock_as_any_other,
        ),
        trial("counter_in_a_file_loses_no_update", counting::counter_in_a_file_loses_no_update),
        trial(
            "counter_in_a_file_loses_no_update_while_masters_restart",
            counting::counter_in_a_file_loses_no_update_while_masters_restart,
        ),
        trial("tokens_rise_whatever_the_clocks_say", tokens::tokens_rise_whatever_the_clocks_say),
        trial(
            "the_port_of_a_server_that_is_gone_stays_with_its_process",
            leftovers::the_port_of_a_server_that_is_gone_stays_with_its_process,
        ),
        trial(
            "what_a_process_has_started_ends_with_it_however_it_ends",
            leftovers::what_a_process_has_started_ends_with_it_however_it_ends,
        ),
        trial("without_the_lock_updates_are_lost", counting::without_the_lock_updates_are_lost),
        trial(
            "callers_of_four_processes_get_a_fair_lock_in_the_order_of_their_calls",
            queueing::callers_of_four_processes_get_a_fair_lock_in_the_order_of_their_calls,
        ),
        trial(
            "they_do_so_while_others_are_killed_and_a_master_restarts_empty",
            queueing::they_do_so_while_others_are_killed_and_a_master_restarts_empty,
        ),
    ];
    libtest_mimic::run(&arguments, tests).exit();
}

fn trial(name: &str, test: fn()) -> Trial {
    Trial::test(name, move || {
        test();
        Ok(())
    })
}

/// Returns true if tests repeat as often as certainty takes, instead of a hundred times.
fn long() -> bool {
    std::env::var_os("QUORLOCK_LONG_TESTS").is_some()
}
