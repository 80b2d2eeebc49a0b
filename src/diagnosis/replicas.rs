//! The finding about a node's replicas: one that is promoted while its old master lives on may grant the same locks.

use super::findings::{Check, Finding, Severity};
use crate::config::settings::Settings;
use crate::core::admission::old_master::{MAX_LAG, OLD_MASTER_WRITES};
use crate::core::base::exact;
use crate::node::AttachedReplicas;
use crate::terms::{MASTERS_WITH_REPLICAS, NO_QUARANTINE};

/// The reason why replicas are worth a finding.
const TWO_MASTERS: &str = "if a replica is promoted while this server lives on, each of them may grant the same locks to the \
                           clients that reach it";

pub(super) fn finding(replicas: &AttachedReplicas, settings: &Settings) -> Finding {
    let AttachedReplicas { connected, had_some, are_counted, needed, max_lag, scripts_need_them } =
        replicas;
    let of = |severity, what: String| {
        let are_required = severity == Severity::Note;
        let value = format!("{connected}, {}required", if are_required { "" } else { "not " });
        Finding::new(
            Check::Replicas,
            severity,
            value,
            format!("{what}: see {MASTERS_WITH_REPLICAS}"),
        )
    };
    let warning = |what: String| of(Severity::Warning, format!("{TWO_MASTERS}; {what}"));
    if *connected == 0 {
        let what = format!(
            "no replica is connected now, but the server keeps a backlog for some; a replica that is away may be promoted as well, \
             so all of them must be counted in min-replicas-to-write: see {MASTERS_WITH_REPLICAS}"
        );
        return match had_some {
            true => Finding::new(Check::Replicas, Severity::Note, "none now".to_owned(), what),
            false => Finding::fine(Check::Replicas, "none"),
        };
    }
    if !scripts_need_them {
        return warning(
            "scripts of servers before 7.0 write without replicas whatever the settings say, so use a newer server, or \
             disconnect the replicas"
                .to_owned(),
        );
    }
    if !are_counted || needed.is_some_and(|needed| needed < *connected) {
        return warning(format!(
            "set min-replicas-to-write to the number of its replicas (connected now: {connected}; count those that are away, too)"
        ));
    }
    let most = MAX_LAG.as_secs();
    if let Some(lag) = max_lag.filter(|lag| *lag > most) {
        return warning(format!("min-replicas-max-lag is {lag}; set it to {most} at most"));
    }
    if !settings.restart_quarantine {
        return warning(format!(
            "without quarantine ({NO_QUARANTINE}), the promoted one grants at once"
        ));
    }
    let quarantine = exact(settings.max_ttl + OLD_MASTER_WRITES);
    let renews_none = exact(OLD_MASTER_WRITES);
    let unread = match needed.and(*max_lag) {
        Some(_) => format!("; min-replicas-to-write is {}", needed.unwrap_or_default()),
        None => format!(
            "; the user may not see the settings (+config|get), so check that min-replicas-to-write is {connected}, and \
             min-replicas-max-lag at most {most}"
        ),
    };
    let what = format!(
        "it takes no writes while a replica is silent, and then has no vote; a replica that is promoted grants no new locks \
         for {quarantine}, and renews none in its first {renews_none}{unread}; replicas that are away now must be counted as well"
    );
    of(Severity::Note, what)
}

#[cfg(test)]
mod tests {
    use super::*;

    const REQUIRED: AttachedReplicas = AttachedReplicas {
        connected: 2,
        had_some: true,
        are_counted: true,
        needed: Some(2),
        max_lag: Some(10),
        scripts_need_them: true,
    };

    #[track_caller]
    fn is(replicas: AttachedReplicas, severity: Severity, words: &str) {
        let finding = finding(&replicas, &Settings::default());
        assert_eq!(finding.severity, severity, "{finding:?}");
        assert!(finding.what.contains(words), "{finding:?}");
    }

    #[test]
    fn a_node_without_replicas_needs_no_settings() {
        is(AttachedReplicas::default(), Severity::Fine, "");
        is(
            AttachedReplicas {
                connected: 0,
                had_some: false,
                scripts_need_them: false,
                ..REQUIRED
            },
            Severity::Fine,
            "",
        );
    }

    /// `doctor` sees only the replicas that are connected at the moment.
    #[test]
    fn replicas_that_are_away_are_not_forgotten() {
        is(
            AttachedReplicas { connected: 0, ..REQUIRED },
            Severity::Note,
            "no replica is connected now",
        );
        is(REQUIRED, Severity::Note, "min-replicas-to-write is 2; replicas that are away now must");
        is(
            AttachedReplicas { needed: Some(1), ..REQUIRED },
            Severity::Warning,
            "count those that are away",
        );
    }

    #[test]
    fn a_node_with_replicas_stops_without_them_by_its_settings() {
        is(REQUIRED, Severity::Note, "for 23 s");
        is(
            AttachedReplicas { needed: Some(3), max_lag: Some(1), ..REQUIRED },
            Severity::Note,
            "for 23 s",
        );
        is(
            AttachedReplicas { needed: None, ..REQUIRED },
            Severity::Note,
            "check that min-replicas-to-write is 2",
        );
        is(AttachedReplicas { max_lag: None, ..REQUIRED }, Severity::Note, "+config|get");
    }

    #[test]
    fn a_node_that_may_go_on_without_a_replica_is_found() {
        let warned = |replicas, words| is(replicas, Severity::Warning, words);
        let are_counted = false;
        warned(
            AttachedReplicas { are_counted, needed: None, max_lag: None, ..REQUIRED },
            "to the number of its replicas (connected now: 2",
        );
        warned(
            AttachedReplicas { needed: Some(1), ..REQUIRED },
            "to the number of its replicas (connected now: 2",
        );
        warned(AttachedReplicas { max_lag: Some(11), ..REQUIRED }, "is 11; set it to 10");
        warned(AttachedReplicas { scripts_need_them: false, ..REQUIRED }, "before 7.0");
        let settings = Settings { restart_quarantine: false, ..Settings::default() };
        assert_eq!(finding(&REQUIRED, &settings).severity, Severity::Warning);
    }
}
