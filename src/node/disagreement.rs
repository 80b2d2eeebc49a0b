//! Messages about a node that clients with another configuration use.

use std::time::Duration;

use crate::core::admission::{Configuration, Difference, Setting};
use crate::terms::{
    ANOTHER_CONFIGURATION, ANOTHER_MAX_TTL, CLOCK_TOLERANCE, FALLBACK, MAX_TTL, ONE_TO_THREE,
    REPLACING_A_MASTER, RESTART_QUARANTINE, Term,
};

/// The defaults of `max_ttl` in this version and in earlier ones.
const DEFAULTS: [Duration; 2] = [Duration::from_secs(10), Duration::from_secs(30)];

/// The fault of a node at which several servers answer, and its remedy.
pub(crate) const SEVERAL_SERVERS: &str = "several servers answer under this address (a load balancer, or a name with several \
     addresses); each would vote, and none knows the locks of the others: give each server its own address";

/// The message about the differences and what to do about them. The nodes keep their marks at `key`.
pub(super) fn told(ours: &Configuration, theirs: &Configuration, key: &str) -> String {
    let mut differences = Vec::new();
    let mut sections = Vec::new();
    for difference in ours.differences(theirs) {
        let section = section(difference.setting, ours, theirs);
        if !sections.contains(&section) {
            sections.push(section);
        }
        let mut both = [ours.max_ttl, theirs.max_ttl];
        both.sort_unstable();
        let was_default = difference.setting == Setting::MaxTtl && both == DEFAULTS;
        let note = match was_default {
            true => " (30 s was the default of earlier versions, and 10 s is the default now)",
            false => "",
        };
        let Difference { setting, ours, theirs } = difference;
        differences.push(format!("{} is {ours} here and {theirs} there{note}", named(setting)));
    }
    let sections: Vec<_> = sections.iter().map(Term::to_string).collect();
    format!(
        "clients with another configuration use it: {}; all clients of a set must agree. Give this \
         client the same settings. Or change the set: stop all its clients and follow {}, which \
         deletes the key \"{key}\" on all nodes",
        differences.join(", "),
        sections.join(" and "),
    )
}

fn named(setting: Setting) -> String {
    match setting {
        Setting::SetName => "the name of the set".to_owned(),
        Setting::Nodes => "the number of nodes".to_owned(),
        Setting::MaxTtl => MAX_TTL.to_string(),
        Setting::ClockTolerance => CLOCK_TOLERANCE.to_string(),
        Setting::Quarantine => RESTART_QUARANTINE.to_string(),
        Setting::Fallback => FALLBACK.to_string(),
        Setting::Place => "the node's place".to_owned(),
    }
}

/// The section with the steps to another value of that setting.
fn section(setting: Setting, ours: &Configuration, theirs: &Configuration) -> Term {
    match setting {
        Setting::Nodes if ours.nodes.min(theirs.nodes) == 1 => ONE_TO_THREE,
        Setting::MaxTtl => ANOTHER_MAX_TTL,
        Setting::SetName => REPLACING_A_MASTER,
        _ => ANOTHER_CONFIGURATION,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn configuration() -> Configuration {
        Configuration {
            set_name: "default".to_owned(),
            nodes: 3,
            max_ttl: Duration::from_secs(10),
            clock_tolerance: Duration::from_millis(100),
            quarantine: true,
            index: None,
        }
    }

    #[test]
    fn each_difference_names_both_figures_and_the_section_with_the_steps() {
        let seconds = Duration::from_secs;
        let max_ttl = |max_ttl| Configuration { max_ttl, ..configuration() };
        let nodes = |nodes| Configuration { nodes, ..configuration() };
        let another = "\"Changes with all clients stopped\"";
        for (theirs, words) in [
            (nodes(1), ["is 3 here and 1 there", "\"From one master to three\""]),
            (nodes(5), ["is 3 here and 5 there", another]),
            (max_ttl(seconds(60)), ["10 s here and 1 min there", "\"Another max_ttl\""]),
            (max_ttl(seconds(30)), ["10 s here and 30 s there", "\"Another max_ttl\""]),
            (
                max_ttl(seconds(30)),
                ["30 s was the default of earlier versions", "10 s is the default"],
            ),
            (
                Configuration { set_name: "b".to_owned(), ..configuration() },
                ["set is default here and b there", "\"Replacing a master\""],
            ),
            (
                Configuration { quarantine: false, ..configuration() },
                ["restart_quarantine is on here and off there", another],
            ),
        ] {
            for (ours, theirs, swapped) in
                [(configuration(), theirs.clone(), false), (theirs.clone(), configuration(), true)]
            {
                let text = told(&ours, &theirs, "quorlock:{quorlock}:mark");
                for word in words.iter().filter(|word| !swapped || !word.contains(" here and ")) {
                    assert!(text.contains(word), "no {word} in: {text}");
                }
                assert!(
                    text.contains("deletes the key \"quorlock:{quorlock}:mark\" on all"),
                    "{text}"
                );
            }
        }
        let text = told(&configuration(), &max_ttl(seconds(60)), "key");
        assert!(!text.contains("earlier versions"), "{text}");
    }
}
