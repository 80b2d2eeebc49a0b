//! The names of settings, calls and sections in the library's messages: options, commands and `quorlock man`.

use std::sync::OnceLock;

use quorlock::Term;

/// The settings in the file that no option overrides.
static IN_FILE: OnceLock<Vec<String>> = OnceLock::new();

/// Has the library's messages use the terms of this program. It must be called before anything else.
pub(crate) fn speak() {
    let is_in_file =
        |setting: &str| IN_FILE.get().is_some_and(|all| all.iter().any(|one| one == setting));
    quorlock::set_terms(move |term| word(term, is_in_file));
}

/// Has messages use the file's names for these settings, which come from the file.
pub(crate) fn are_in_file(settings: Vec<String>) {
    // Set once, since one call of the program reads one file.
    let _ = IN_FILE.set(settings);
}

/// Returns the program's word for a term. `None` keeps the library's own word, which is also that of the file.
fn word(term: Term, is_in_file: impl Fn(&str) -> bool) -> Option<String> {
    match term {
        Term::Setting(name) if is_in_file(name) => None,
        Term::Setting(name) => Some(setting(name)),
        Term::Call("Quorlock::admit") => Some("`quorlock admit --force`".to_owned()),
        Term::Call("restart_quarantine(false)") => Some(match is_in_file("restart_quarantine") {
            true => "restart_quarantine = false".to_owned(),
            false => "--no-quarantine".to_owned(),
        }),
        Term::Section(title) => Some(format!("\"{title}\" in `quorlock man operations`")),
        _ => None,
    }
}

fn setting(name: &str) -> String {
    match name {
        "nodes" => "--node".to_owned(),
        "password" => "QUORLOCK_PASSWORD".to_owned(),
        "credentials" => "--password-command".to_owned(),
        "restart_quarantine" => "the quarantine (--no-quarantine)".to_owned(),
        "tls_client_cert" => "--tls-cert and --tls-key".to_owned(),
        "backoff" | "fallback" | "owner_label" | "wait_replicas" => {
            format!("{name} (in the file that --config names)")
        }
        _ => format!("--{}", name.replace('_', "-")),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use clap::CommandFactory;

    use super::*;
    use crate::options::Options;

    /// Covers all terms of the library.
    #[test]
    fn each_term_is_something_of_the_program() {
        let program = Options::command();
        let commands = program.get_subcommands();
        let options = commands.flat_map(|command| command.get_arguments());
        let options: BTreeSet<_> =
            options.filter_map(|option| Some(format!("--{}", option.get_long()?))).collect();
        assert!(Term::ALL.len() > 20);
        for term in Term::ALL {
            let text = word(*term, |_| false).unwrap_or_else(|| panic!("no word for {term:?}"));
            let named: Vec<_> = text.split([' ', '(', ')', '`']).collect();
            let is_option = |word: &&&str| word.starts_with("--");
            let unknown = named.iter().filter(is_option).find(|word| !options.contains(**word));
            assert_eq!(unknown, None, "{term:?}");
            let names_one = named.iter().any(|word| options.contains(*word))
                || ["QUORLOCK_PASSWORD", "`quorlock man operations`"]
                    .iter()
                    .any(|other| text.contains(other));
            assert!(names_one, "{term:?}: {text}");
            assert!(!text.contains("::") && !text.contains("://"), "{term:?}: {text}");
        }
    }

    #[test]
    fn what_is_in_the_file_keeps_its_name() {
        let in_file = |name: &str| ["max_ttl", "restart_quarantine"].contains(&name);
        assert_eq!(word(Term::Setting("max_ttl"), in_file), None);
        assert_eq!(word(Term::Setting("set_name"), in_file).as_deref(), Some("--set-name"));
        let no_quarantine = word(Term::Call("restart_quarantine(false)"), in_file);
        assert_eq!(no_quarantine.as_deref(), Some("restart_quarantine = false"));
    }
}
