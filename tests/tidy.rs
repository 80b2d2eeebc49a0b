//! The rules of `ARCHITECTURE.md` that a program can check.

#[allow(unreachable_pub, reason = "other tests have it as a module of `support`")]
#[path = "support/lua.rs"]
mod lua;

use lua::with_includes;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// All files below `folder` that end in `extension`, with their text.
fn files(folder: &str, extension: &str) -> Vec<(PathBuf, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut folders = vec![root.join(folder)];
    let mut found = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("a readable folder") {
            let path = entry.expect("a readable entry").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|found| found == extension) {
                let text = fs::read_to_string(&path).expect("a text file");
                found.push((path.strip_prefix(root).expect("below it").to_owned(), text));
            }
        }
    }
    assert!(!found.is_empty(), "no .{extension} file below {folder}");
    found
}

/// The files of the library.
fn library() -> Vec<(PathBuf, String)> {
    files("src", "rs")
}

/// The folder of the program's files.
const PROGRAM: &str = "cli/src";

/// The files of the library and of the program, without tests.
fn product() -> Vec<(PathBuf, String)> {
    let is_test = |path: &Path| {
        let tests =
            ["tests", "mutations", "model", "search", "lost_replies", "fuzzing", "told_cases"];
        path.with_extension("").components().any(|part| {
            let part = part.as_os_str().to_str().expect("a name");
            tests.iter().any(|end| part.ends_with(end))
        })
    };
    let files = files("src", "rs").into_iter().chain(files(PROGRAM, "rs"));
    let files = files.filter(|(path, _)| !is_test(path));
    // Tests are last in a file.
    let code = |text: &str| text.split("\n#[cfg(test)]\nmod tests {").next().map(str::to_owned);
    files.map(|(path, text)| (path, code(&text).unwrap_or_default())).collect()
}

/// No line of the files, apart from comments, contains any of `words`.
fn none_says(files: &[(PathBuf, String)], words: &[&str], rule: &str) {
    for (path, text) in files {
        for (i, line) in text.lines().enumerate() {
            let code = line.split("//").next().unwrap_or_default();
            if let Some(word) = words.iter().find(|word| code.contains(**word)) {
                panic!("{}:{}: \"{word}\": {rule}", path.display(), i + 1);
            }
        }
    }
}

fn outside(files: Vec<(PathBuf, String)>, place: &str) -> Vec<(PathBuf, String)> {
    let total = files.len();
    let rest: Vec<_> = files.into_iter().filter(|(path, _)| !path.starts_with(place)).collect();
    assert!(rest.len() < total, "there is no {place}");
    rest
}

#[test]
fn the_machines_are_pure() {
    none_says(
        &files("src/core", "rs"),
        &[
            "crate::",
            "redis",
            "std::thread",
            "Instant",
            "SystemTime",
            "crossbeam",
            "parking_lot",
            "rand::",
        ],
        "core/ imports nothing of the crate but itself; time, votes and chance are arguments",
    );
}

#[test]
fn only_the_nodes_know_the_redis_crate() {
    none_says(
        &outside(library(), "src/node"),
        &["redis::", "use redis"],
        "only node/ uses the redis crate",
    );
}

const TIME: &[&str] = &[
    "Instant::now",
    "SystemTime",
    "clock_gettime",
    "thread::sleep",
    "thread::spawn",
    "thread::Builder",
];

#[test]
fn one_place_reads_clocks_sleeps_and_spawns() {
    none_says(
        &outside(library(), "src/clock.rs"),
        TIME,
        "only clock.rs reads clocks, sleeps and spawns",
    );
    let program = outside(files(PROGRAM, "rs"), "cli/src/clock.rs");
    none_says(&program, TIME, "only the program's clock.rs reads clocks, sleeps and spawns");
}

#[test]
fn one_place_knows_chance() {
    none_says(
        &outside(library(), "src/random.rs"),
        &["rand::"],
        "random numbers come from random.rs: those of `rand` panic in destructors of thread-locals",
    );
}

#[test]
fn leases_run_on_the_clock_that_goes_on_while_the_machine_is_suspended() {
    let clock = library().into_iter().find(|(path, _)| path.ends_with("clock.rs"));
    let (_, text) = clock.expect("there is a clock");
    assert!(text.contains("const CLOCK: ClockId = ClockId::Boottime;"));
}

/// The `Debug` form of a `Duration` is `12.345678ms`, and that of a text has all quotes escaped.
#[test]
fn messages_show_nothing_as_programs_do() {
    none_says(
        &product(),
        &[":?}", ":.1?}", ":.2?}", ":#?}"],
        "messages show durations by `exact` and `rounded`, and all else by Display",
    );
}

#[test]
fn no_kind_knows_another() {
    let kinds = outside(files("src/kinds", "rs"), "src/kinds/mod.rs");
    let kinds = outside(kinds, "src/kinds/contract");
    for (path, text) in &kinds {
        for (other, _) in kinds.iter().filter(|(other, _)| other != path) {
            let other = other.file_stem().and_then(|stem| stem.to_str()).expect("a name");
            let import = format!("{other}::");
            assert!(!text.contains(&import), "{} imports {other}", path.display());
        }
    }
}

#[test]
fn scripts_state_their_contract() {
    let readme = std::fs::read_to_string("lua/README.md").expect("it is there");
    for (path, text) in files("lua", "lua") {
        let path = path.display();
        if ["-- Part of ", "-- The end of "].iter().any(|it| text.starts_with(it)) {
            continue; // its contract is that of the scripts that include it
        }
        let text = with_includes(&text);
        let code = text.lines().filter(|line| !line.trim_start().starts_with("--"));
        let code = code.map(|line| line.split(" -- and ").next().unwrap_or_default());
        let code = code.collect::<Vec<_>>().join("\n");
        let header: Vec<_> = text.lines().take_while(|line| line.starts_with("--")).collect();
        assert!(header.iter().any(|line| line.starts_with("-- Replies")), "{path}: no replies");
        // The scripts of a kind name their keys and arguments, and a test compares these names with the kind's layout.
        let names: Vec<_> = text.lines().filter(|line| names_what_it_is_given(line)).collect();
        for name in
            names.iter().flat_map(|line| line.split(|c: char| !c.is_ascii_uppercase() && c != '_'))
        {
            let is_explained = name.len() < 2
                || ["KEYS", "ARGV"].contains(&name)
                || readme.contains(&format!("\n| `{name}` | "));
            assert!(is_explained, "{path}: lua/README.md does not say what {name} is");
        }
        for table in ["KEYS", "ARGV"].into_iter().filter(|_| names.is_empty()) {
            let mut has_fixed_places = true;
            for i in 1..10 {
                let word = format!("{table}[{i}]");
                let stated = header.iter().find(|line| line.starts_with(&format!("-- {word}  ")));
                // After a key or argument that is repeated for each name, a script must count positions.
                has_fixed_places &= stated.is_none_or(|line| !line.contains("(one for each "));
                let is_used = stated.is_some() && has_fixed_places;
                assert_eq!(code.contains(&word), is_used, "{path}: {word} in the header");
            }
            let counts = code.contains(&format!("{table}["));
            assert!(has_fixed_places || counts, "{path}: {table} in the header");
        }
        for word in ["tostring", "..", "INCR"] {
            assert!(!code.contains(word), "{path}: \"{word}\": see lua/README.md");
        }
    }
}

fn names_what_it_is_given(line: &str) -> bool {
    let is_list = ["KEYS", "ARGV"].iter().any(|table| line.starts_with(&format!("-- {table}: ")));
    let is_local = line.contains(" = KEYS[1]") || line.contains(" = ARGV[1]");
    is_list || is_local && line.starts_with("local ") || line.starts_with("local OWNER, ")
}

/// The files are not available if the crate comes from a registry.
#[test]
fn messages_link_to_the_published_manual() {
    let sources = outside(outside(library(), "src/lib.rs"), "src/terms.rs");
    none_says(&sources, &["OPERATIONS.md", "README.md"], "messages name a section by a term");
}

/// Users of a program that is built on the library know other names for settings, and no calls. The program gives its names
/// by `set_terms`.
#[test]
fn messages_name_nothing_but_by_a_term() {
    let builder = include_str!("../src/config.rs").lines();
    let calls = builder.filter_map(|line| line.trim().strip_prefix("pub fn ")?.split('(').next());
    // Settings of a single word are words of the language as well.
    let settings: Vec<_> = calls.filter(|call| call.contains('_')).collect();
    assert!(settings.len() > 10 && settings.contains(&"max_ttl"), "{settings:?}");
    let is_term = |word: &str| {
        let call = ["Quorlock", "docs.rs", "try_lock", "force_unlock", "quorlock admit", "crate::"];
        let mut words = word.split(|c: char| !c.is_alphanumeric() && c != '_');
        call.iter().any(|call| word.contains(call)) || words.any(|word| settings.contains(&word))
    };
    let mut messages = 0;
    for (path, text) in outside(outside(product(), PROGRAM), "src/terms.rs") {
        for literal in literals(&text) {
            // A message has several words; its arguments stand in braces.
            let is_documentation = literal.starts_with("| [");
            let is_message = literal.trim().contains(' ') && !is_documentation;
            let outside_braces: Vec<_> = literal
                .split('{')
                .map(|part| part.rsplit('}').next().unwrap_or_default())
                .collect();
            let named = outside_braces.iter().find(|part| is_message && is_term(part));
            assert_eq!(named, None, "{}: a message names this, and not by a term", path.display());
            messages += usize::from(is_message);
        }
    }
    assert!(messages > 300, "{messages}");
}

/// The string literals in the code of a file, unescaped, without those of attributes.
fn literals(text: &str) -> Vec<String> {
    let code = text.lines().filter(|line| {
        let line = line.trim_start();
        !line.starts_with("//") && !line.starts_with("#[")
    });
    let code: String = code.flat_map(|line| [line, "\n"]).collect();
    let mut found = Vec::new();
    let mut rest = code.as_str();
    while let Some(start) = rest.find('"') {
        // A quote as a character literal.
        let is_character = rest[..start].ends_with(['\'', '\\']);
        rest = &rest[start + 1..];
        if is_character {
            continue;
        }
        let mut literal = String::new();
        let mut characters = rest.char_indices();
        while let Some((i, c)) = characters.next() {
            match c {
                '"' => {
                    rest = &rest[i + 1..];
                    break;
                }
                '\\' => match characters.next() {
                    // The text continues at the next word.
                    Some((_, '\n')) => {
                        let blanks = characters.as_str().chars().take_while(|c| *c == ' ').count();
                        if let Some(last) = blanks.checked_sub(1) {
                            characters.nth(last);
                        }
                    }
                    Some((_, escaped)) => literal.push(escaped),
                    None => {}
                },
                c => literal.push(c),
            }
        }
        found.push(literal);
    }
    found
}

#[test]
fn literals_are_read() {
    let text = "\
        // no \"text\"\n\
        #[expect(unused, reason = \"none\")]\n\
        f(\"a \\\n     b\", '\"', \"it is \\\"c\\\"\");\n";
    assert_eq!(literals(text), ["a b", "it is \"c\""]);
}

/// The pages for people, with their text.
fn pages() -> Vec<(PathBuf, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let in_root = fs::read_dir(root).expect("a readable folder");
    let in_root = in_root.map(|entry| entry.expect("a readable entry").path());
    let in_root = in_root.filter(|path| path.extension().is_some_and(|found| found == "md"));
    let in_root = in_root.map(|path| {
        let text = fs::read_to_string(&path).expect("a text file");
        (path.strip_prefix(root).expect("below it").to_owned(), text)
    });
    let folders = ["docs", "examples", "lua", "fuzz"];
    in_root.chain(folders.into_iter().flat_map(|folder| files(folder, "md"))).collect()
}

/// The targets of the links in the text of a page.
fn inline_targets(text: &str) -> impl Iterator<Item = &str> {
    text.split("](").skip(1).filter_map(|rest| rest.split(')').next())
}

/// The texts and targets of the links that are listed at the end of a page.
fn listed_links(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.lines().filter_map(|line| line.strip_prefix('[')?.split_once("]: "))
}

/// The targets of all links of a page.
fn targets(text: &str) -> impl Iterator<Item = &str> {
    inline_targets(text).chain(listed_links(text).map(|(_, target)| target))
}

/// The link target of a heading.
fn anchor(heading: &str) -> String {
    let heading = heading.trim_start_matches('#').trim().to_lowercase();
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

#[test]
fn links_lead_somewhere() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut links = 0;
    for (page, text) in pages() {
        let folder = root.join(&page).parent().expect("it is in a folder").to_owned();
        let is_file = |target: &&str| !target.contains("://");
        for target in targets(&text).filter(is_file) {
            links += 1;
            let (file, section) = target.split_once('#').unwrap_or((target, ""));
            let path = if file.is_empty() { root.join(&page) } else { folder.join(file) };
            assert!(path.exists(), "{}: there is no {target}", page.display());
            if !section.is_empty() {
                let text = fs::read_to_string(&path).expect("a text file");
                let is_there =
                    text.lines().any(|line| line.starts_with('#') && anchor(line) == section);
                assert!(is_there, "{}: there is no section {target}", page.display());
            }
        }
    }
    assert!(links > 15, "{links} links were found");
    let found: Vec<_> = targets("[a](b.md#c) [d]\n\n[d]: e.md\n").collect();
    assert_eq!(
        (found, anchor("## \"Is it\" safe? (2016)")),
        (vec!["b.md#c", "e.md"], "is-it-safe-2016".into())
    );
}

/// A page that is also a module of the documentation.
struct Module<'a> {
    name: &'a str,
    /// The page's path, as seen from the root.
    page: &'a str,
    /// The links that lead elsewhere in the documentation than in the file.
    links: BTreeMap<&'a str, &'a str>,
}

fn modules(source: &str) -> Vec<Module<'_>> {
    let modules = source.split("\npub mod ").skip(1).filter_map(|module| {
        let (name, body) = module.split_once(" {\n")?;
        let body = body.split("\n}").next()?;
        let (_, page) = body.split_once("#![doc = include_str!(\"../")?;
        let links = body.lines().filter_map(|line| line.trim().strip_prefix("//! ["));
        let links = links.filter_map(|line| line.split_once("]: ")).collect();
        Some(Module { name, page: page.split('"').next()?, links })
    });
    modules.collect()
}

/// Returns true if a link of a page leads to the same content in the documentation. `there` is its target in `src/lib.rs`.
fn leads_to_the_same(target: &str, there: Option<&str>, modules: &[Module<'_>]) -> bool {
    const ITEMS: &str = "https://docs.rs/quorlock/latest/quorlock/";
    const PACKAGE: &str = "https://docs.rs/crate/quorlock";
    if let Some(item) = target.strip_prefix(ITEMS) {
        // Such as `struct.Builder.html#method.build`.
        let names = item.replace(".html", "").replace('#', ".");
        let names: Vec<_> = names.split('.').skip(1).step_by(2).collect();
        return there == Some(&format!("crate::{}", names.join("::")));
    }
    let (path, section) = target.split_once('#').unwrap_or((target, ""));
    if target.contains("://") {
        there.is_none()
    } else if let Some(module) = modules.iter().find(|module| module.page == path) {
        let section = if section.is_empty() { String::new() } else { format!("#{section}") };
        there == Some(&format!("crate::{}{section}", module.name))
    } else {
        let first = path.split('/').next().unwrap_or_default();
        let (_, included) = include_str!("../Cargo.toml").split_once("\ninclude = [").expect("it");
        let included = included.split(']').next().unwrap_or_default();
        let is_published =
            included.contains(&format!("\"{first}/")) || included.contains(&format!("\"{first}\""));
        let file =
            if is_published { format!("{PACKAGE}/latest/source/{path}") } else { PACKAGE.into() };
        there.is_some_and(|there| there.starts_with("crate::") || there == file)
    }
}

/// The links of a page that do not work both in the repository and in the documentation.
fn half_links(text: &str, module: &Module<'_>, modules: &[Module<'_>]) -> Vec<String> {
    let from_root = |target: &str| match target.strip_prefix("../") {
        Some(in_root) => in_root.to_owned(),
        None if target.contains("://") || !module.page.contains('/') => target.to_owned(),
        None => format!("docs/{target}"),
    };
    let is_relative = |target: &&str| !target.starts_with('#') && !target.contains("://");
    let mut found: Vec<_> = inline_targets(text).filter(is_relative).map(str::to_owned).collect();
    let listed: BTreeMap<_, _> = listed_links(text).collect();
    for (link, target) in &listed {
        let there = module.links.get(link).copied();
        if !leads_to_the_same(&from_root(target), there, modules) {
            found.push(format!("[{link}]: {target}"));
        }
    }
    found.extend(module.links.keys().filter(|it| !listed.contains_key(*it)).map(|it| (*it).into()));
    // Every other piece is a block of code.
    let prose = text.split("```").step_by(2).flat_map(|piece| piece.split("[`").skip(1));
    let items = prose.filter_map(|rest| rest.split_once("`]"));
    let items = items.filter(|(item, rest)| {
        !rest.starts_with('(') && !listed.contains_key(format!("`{item}`").as_str())
    });
    found.extend(items.map(|(item, _)| format!("[`{item}`]")));
    found
}

/// A file's links lead to files, and those of the documentation to its modules and items. So a page lists both.
#[test]
fn links_of_pages_work_in_the_documentation_too() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let modules = modules(include_str!("../src/lib.rs"));
    assert!(modules.len() > 6, "{}", modules.len());
    for module in &modules {
        let text = fs::read_to_string(root.join(module.page)).expect("a text file");
        let found = half_links(&text, module, &modules);
        assert!(found.is_empty(), "{}, or its module in src/lib.rs: {found:#?}", module.page);
    }
}

#[test]
fn links_that_work_in_one_place_only_are_found() {
    let source = "\npub mod a {\n    //! [b]: crate::b#c\n    #![doc = include_str!(\"../A.md\")]\n}\
                  \npub mod b {\n    #![doc = include_str!(\"../docs/b.md\")]\n}\n";
    let modules = modules(source);
    let found = |text: &str| half_links(text, &modules[0], &modules);
    assert!(found("[b], [c](#c)\n\n[b]: docs/b.md#c\n[w]: https://w.org\n").is_empty());
    assert_eq!(found("[`B`](crate::B)\n\n[b]: docs/b.md#c\n"), ["crate::B"]);
    assert_eq!(found("[b](docs/b.md)\n\n[b]: docs/b.md#c\n"), ["docs/b.md"]);
    assert_eq!(found("[`B`], not `[B]`\n\n[b]: docs/b.md#c\n"), ["[`B`]"]);
    assert_eq!(found("[b]: docs/b.md#d\n"), ["[b]: docs/b.md#d"]);
    assert_eq!(found(""), ["b"]);
    let item = "https://docs.rs/quorlock/latest/quorlock/struct.B.html#method.d";
    assert_eq!(found(&format!("[b]: {item}\n")), [format!("[b]: {item}")]);
    assert_eq!(found("[b]: docs/b.md#c\n[d]: docs/d.md\n"), ["[d]: docs/d.md"]);
}

/// Browsers drop the cells of a row that has more of them than the header of its table.
#[test]
fn rows_of_tables_are_as_long_as_their_headers() {
    let mut rows = 0;
    for (page, text) in pages() {
        let mut header = None;
        for line in text.lines().map(str::trim_start) {
            let cells = line.starts_with('|').then(|| line.replace("\\|", "").matches('|').count());
            if let (Some(cells), Some(expected)) = (cells, header) {
                rows += 1;
                assert_eq!(cells, expected, "{}: {line}", page.display());
            }
            header = cells.and(header.or(cells));
        }
    }
    assert!(rows > 500, "{rows}");
}

#[test]
fn pictures_are_shown() {
    let pages = pages();
    for (path, _) in files("docs", "svg") {
        let name = path.file_name().and_then(|name| name.to_str()).expect("a name");
        let shows = |(_, text): &(PathBuf, String)| targets(text).any(|it| it.ends_with(name));
        assert!(pages.iter().any(shows), "no page shows {name}");
    }
}

#[test]
fn the_first_page_is_short() {
    let lines = include_str!("../README.md").lines().count();
    assert!(lines <= 170, "README.md has {lines} lines: what of it belongs into docs/?");
}

/// A `#` at the beginning of a line of code hides it on rustdoc's page, but not on other pages.
#[test]
fn the_readme_hides_no_lines() {
    let hidden = include_str!("../README.md")
        .lines()
        .find(|line| line.starts_with("# ") && line.ends_with([';', '}', '{', ')', ']']));
    assert_eq!(hidden, None);
}

/// The page names the path of a file, followed by the items in that file: `core/lease.rs`, `next`, `loss`.
#[test]
fn what_the_architecture_names_is_where_it_says() {
    let page = [include_str!("../ARCHITECTURE.md"), include_str!("../docs/invariants.md")].concat();
    // Every other piece stands between backticks. A block of code has three backticks.
    let pieces: Vec<_> = page.replace("```", "").split('`').map(str::to_owned).collect();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let (mut count, mut file) = (0, None);
    for pair in pieces.chunks(2) {
        let [between, named] = pair else { break };
        let follows = matches!(between.as_str(), ", " | " and ");
        if Path::new(named).extension().is_some_and(|it| it == "rs") {
            file = fs::read_to_string(source.join(named)).ok().map(|text| (named, text));
            let is_of_source = named.starts_with("core/") || named.starts_with("runtime/");
            assert!(file.is_some() || !is_of_source, "there is no {named}");
        } else if let Some((path, text)) = file.as_ref().filter(|_| follows) {
            let words = || text.split(|c: char| !c.is_alphanumeric() && c != '_');
            assert!(words().any(|word| word == named), "{path} has no {named}");
            count += 1;
        } else {
            file = None;
        }
    }
    assert!(count > 80, "{count}");
}

/// The compiler does not see tests in an example of the documentation.
#[test]
fn the_unit_test_in_the_documentation_is_one_that_runs() {
    let code = include_str!("embedded/readme.rs");
    assert!(include_str!("../docs/testing.md").contains(&format!("```rust,no_run\n{code}```\n")));
}

#[test]
fn files_stay_small() {
    for (path, text) in files("src", "rs").into_iter().chain(files(PROGRAM, "rs")) {
        let lines = text.lines().count();
        assert!(lines <= 600, "{} has {lines} lines: does it have one reason?", path.display());
    }
}

#[test]
fn functions_stay_short() {
    for (path, text) in product() {
        for Function { name, line, lines } in functions(&text) {
            let place = format!("{}:{line}: {name}", path.display());
            assert!(lines <= 80, "{place} has {lines} lines: which step of it deserves a name?");
        }
    }
}

/// A test of [`functions`] itself, so that the test above does not pass because nothing is read.
#[test]
fn functions_are_read() {
    let text = "\
        /// No fn at all\n\
        pub(crate) const fn one() {}\n\
        impl A {\n    \
            fn two<T: Fn()>(\n        &self,\n    ) -> T {\n        || {\n        }\n    }\n    \
            async fn none(&self);\n\
        }\n\
        fn three() {\n    fn four() {\n    }\n}\n";
    let found: Vec<_> = functions(text)
        .iter()
        .map(|Function { name, line, lines }| format!("{line} {name} {lines}"))
        .collect();
    assert_eq!(found, ["2 one 1", "4 two 6", "10 none 1", "12 three 4", "13 four 2"]);
    assert!(product().iter().map(|(_, text)| functions(text).len()).sum::<usize>() > 1_000);
}

struct Function {
    name: String,
    line: usize,
    lines: usize,
}

/// The functions of a file, as `cargo fmt` writes them: the end has the same indentation as the beginning, with a brace,
/// or with a semicolon if the function has no body.
fn functions(text: &str) -> Vec<Function> {
    let lines: Vec<_> = text.lines().collect();
    let mut found = Vec::new();
    for (i, line) in lines.iter().enumerate() {
        let code = line.trim_start();
        let words: Vec<_> = code.split(' ').collect();
        let is_qualifier =
            |word: &&&str| word.starts_with("pub") || ["const", "async"].contains(word);
        let qualifiers = words.iter().take_while(is_qualifier).count();
        let Some(["fn", name, ..]) = words.get(qualifiers..) else { continue };
        let indent = &line[..line.len() - code.len()];
        let ends = |line: &&str| {
            let code = line.strip_prefix(indent).filter(|code| !code.starts_with(' '));
            code.is_some_and(|code| code.ends_with([';', '}']))
        };
        let length = lines[i..].iter().position(ends).map_or(lines.len() - i, |end| end + 1);
        let name = name.split(['(', '<']).next().unwrap_or_default().to_owned();
        found.push(Function { name, line: i + 1, lines: length });
    }
    found
}

/// The layers, from below: a file imports only from its own layer or a lower one. All other files
/// are the public interface, on top.
const LAYERS: [&[&str]; 5] = [
    &["core"],
    &[
        "clock",
        "credentials",
        "error",
        "holders",
        "ident",
        "observe",
        "process",
        "random",
        "release_request",
        "risk",
        "spans",
        "stats",
        "terms",
    ],
    &["embedded", "node"],
    &["config/settings", "kinds/contract"],
    &["runtime"],
];

/// Parts of one layer that must not import each other.
const APART: [&str; 2] = ["embedded", "node"];

#[test]
fn imports_go_down_only() {
    let imports = imports();
    assert!(imports.len() > 100, "{imports:?}");
    let layer = |file: &str| {
        let part = part_of(file);
        LAYERS.iter().position(|parts| parts.contains(&part)).unwrap_or(LAYERS.len())
    };
    for Import { from, line, to } in &imports {
        let (one, other) = (part_of(from), part_of(to));
        let apart = one != other && APART.contains(&one) && APART.contains(&other);
        assert!(
            layer(to) <= layer(from) && !apart,
            "{from}:{line} imports {to}: see the layers in ARCHITECTURE.md"
        );
    }
}

/// The folders of `core/`, from the bottom up. Each imports only those before it.
const FOLDERS: [&str; 9] =
    ["base", "link", "vote", "hold", "queue", "wake", "acquire", "admission", "operate"];

/// Folders that no other folder imports.
const APART_IN_CORE: [&str; 3] = ["acquire", "admission", "operate"];

#[test]
fn the_folders_of_the_machines_import_those_below_them_only() {
    let place = |file: &str| {
        let folder = file.strip_prefix("src/core/")?.split('/').next()?;
        Some(FOLDERS.iter().position(|it| *it == folder).unwrap_or_else(|| {
            assert_eq!(folder, "mod.rs", "{file} is in none of the folders");
            FOLDERS.len()
        }))
    };
    let imports = imports();
    let inside = imports.iter().filter_map(|import| {
        let Import { from, line, to } = import;
        Some((place(from)?, place(to)?, format!("{from}:{line} imports {to}")))
    });
    let mut count = 0;
    for (from, to, what) in inside {
        let is_apart = to < FOLDERS.len() && from != to && APART_IN_CORE.contains(&FOLDERS[to]);
        assert!(to <= from && !is_apart, "{what}: see the folders in ARCHITECTURE.md");
        count += usize::from(to < from);
    }
    assert!(count > 50, "{count} imports are read");
}

#[test]
fn no_files_import_each_other_in_a_circle() {
    let mut targets: BTreeMap<&str, BTreeMap<&str, usize>> = BTreeMap::new();
    let imports = imports();
    for Import { from, line, to } in &imports {
        targets.entry(from).or_default().entry(to).or_insert(*line);
    }
    let mut done = BTreeSet::new();
    for start in targets.keys() {
        if let Some(circle) = circle(start, &targets, &mut Vec::new(), &mut done) {
            let steps = circle.iter().map(|(from, line, to)| format!("{from}:{line} -> {to}"));
            panic!("a circle of imports:\n{}", steps.collect::<Vec<_>>().join("\n"));
        }
    }
}

/// A test of [`paths`] itself, so that the tests above do not pass because nothing is read.
#[test]
fn imports_are_read() {
    let text = "\
        use std::fmt;\n\
        use crate::{\n    clock,\n    core::{self, Time as T},\n};\n\
        pub(crate) use self::low::{A, B};\n\
        /// see crate::error\n\
        fn f() -> crate::error::Error { super::g(\"crate\"); low::h() }\n";
    let found: Vec<_> = paths(text, &["low".to_owned()], &["runtime"])
        .iter()
        .map(|Named { line, target, name }| format!("{line} {} {name}", target.join("::")))
        .collect();
    let expected = [
        "2 clock clock",
        "2 core core",
        "2 core::Time T",
        "6 runtime::low::A A",
        "6 runtime::low::B B",
        "8 error::Error Error",
        "8 g g",
        "8 runtime::low::h h",
    ];
    assert_eq!(found, expected);
}

/// A use of one file's item on a line of another one.
#[derive(Debug)]
struct Import {
    from: String,
    line: usize,
    to: String,
}

/// The first folder or file below `src/`, or a part of it that is in a layer of its own.
fn part_of(file: &str) -> &str {
    let file = file.trim_start_matches("src/").trim_end_matches(".rs");
    let inner = LAYERS
        .iter()
        .copied()
        .flatten()
        .find(|part| part.contains('/') && file.starts_with(**part));
    inner.copied().unwrap_or_else(|| file.split('/').next().unwrap_or_default())
}

/// The first import cycle that is reachable from `file`, as its steps.
fn circle<'a>(
    file: &'a str,
    targets: &BTreeMap<&'a str, BTreeMap<&'a str, usize>>,
    way: &mut Vec<(&'a str, usize, &'a str)>,
    done: &mut BTreeSet<&'a str>,
) -> Option<Vec<(&'a str, usize, &'a str)>> {
    if let Some(first) = way.iter().position(|(from, ..)| *from == file) {
        return Some(way.split_off(first));
    }
    if done.contains(file) {
        return None;
    }
    for (to, line) in targets.get(file).into_iter().flatten() {
        way.push((file, *line, to));
        let found = circle(to, targets, way, done);
        if found.is_some() {
            return found;
        }
        way.pop();
    }
    done.insert(file);
    None
}

/// The uses of other files' items by each file of `src/`, without tests. An item that is named through a re-exporting
/// file, such as `core/mod.rs`, counts for the file that defines it.
fn imports() -> Vec<Import> {
    // The program imports the library as other users do.
    let files = outside(product(), PROGRAM);
    let modules: BTreeMap<Vec<String>, &PathBuf> =
        files.iter().map(|(path, _)| (module_of(path), path)).collect();
    let paths_of = |path: &Path, text: &str| {
        let module = module_of(path);
        let is_child = |other: &&Vec<String>| other.split_last().is_some_and(|it| it.1 == module);
        let children: Vec<_> =
            modules.keys().filter(is_child).filter_map(|child| child.last().cloned()).collect();
        let module: Vec<_> = module.iter().map(String::as_str).collect();
        paths(text, &children, &module)
    };
    // The re-exports of a folder's own file, with their origins.
    let mut passed_on: BTreeMap<Vec<String>, Vec<String>> = BTreeMap::new();
    for (path, text) in &files {
        if !lists_a_folder(path) {
            continue;
        }
        for Named { target, name, .. } in paths_of(path, &passing_on(text)) {
            passed_on.insert([module_of(path), vec![name]].concat(), target);
        }
    }
    let file_of = |mut path: Vec<String>| {
        while let Some((end, target)) =
            (1..=path.len()).rev().find_map(|end| Some((end, passed_on.get(&path[..end])?)))
        {
            path.splice(..end, target.iter().cloned());
        }
        let found = (0..=path.len()).rev().find_map(|end| modules.get(&path[..end]));
        found.map(|file| file.display().to_string())
    };
    let mut imports = Vec::new();
    for (path, text) in &files {
        let from = path.display().to_string();
        let text = match lists_a_folder(path) {
            true => not_passing_on(text),
            false => text.clone(),
        };
        for Named { line, target, .. } in paths_of(path, &text) {
            if let Some(to) = file_of(target).filter(|to| *to != from) {
                imports.push(Import { from: from.clone(), line, to });
            }
        }
    }
    imports
}

fn lists_a_folder(path: &Path) -> bool {
    path.ends_with("mod.rs") || path.ends_with("lib.rs")
}

/// The module path of a file. Empty for `lib.rs`.
fn module_of(path: &Path) -> Vec<String> {
    let path = path.with_extension("");
    let mut module: Vec<_> =
        path.iter().skip(1).map(|part| part.to_str().expect("a name").to_owned()).collect();
    module.pop_if(|last| last == "mod" || last == "lib");
    module
}

/// The `pub use` lines, at their line numbers.
fn passing_on(text: &str) -> String {
    split_passing_on(text).0
}

/// All other lines, at their line numbers.
fn not_passing_on(text: &str) -> String {
    split_passing_on(text).1
}

fn split_passing_on(text: &str) -> (String, String) {
    let (mut passing, mut rest) = (String::new(), String::new());
    let mut inside = false;
    for line in text.lines() {
        let begins = line.trim_start();
        inside |= begins.starts_with("pub") && begins.contains(" use ");
        let (one, other) =
            if inside { (&mut passing, &mut rest) } else { (&mut rest, &mut passing) };
        one.push_str(line);
        one.push('\n');
        other.push('\n');
        inside &= !line.contains(';');
    }
    (passing, rest)
}

/// A path that a text names, from the crate's root on.
struct Named {
    line: usize,
    target: Vec<String>,
    /// The item's name in that text.
    name: String,
}

/// All paths of the crate that a text names.
///
/// `module` is the module of the text, and `children` are the modules below it that have files.
fn paths(text: &str, children: &[String], module: &[&str]) -> Vec<Named> {
    let code: Vec<_> =
        text.lines().map(|line| line.split("//").next().unwrap_or_default()).collect();
    let mut found = Vec::new();
    let mut used: Option<(usize, String)> = None;
    for (i, line) in code.iter().enumerate() {
        let trimmed = line.trim_start();
        let used_from = ["use ", "pub use ", "pub(crate) use ", "pub(super) use "];
        if used.is_none()
            && let Some(rest) = used_from.iter().find_map(|begin| trimmed.strip_prefix(begin))
        {
            used = Some((i + 1, rest.to_owned()));
        } else if let Some((_, text)) = &mut used {
            text.push_str(trimmed);
        } else {
            let words = line.split(|c: char| !c.is_alphanumeric() && c != '_' && c != ':');
            let paths = words.filter(|word| word.contains("::"));
            found.extend(paths.map(|path| (i + 1, path.to_owned())));
        }
        if let Some((line, text)) = used.take_if(|(_, text)| text.contains(';')) {
            let tree = text.split(';').next().unwrap_or_default();
            found.extend(branches(tree).into_iter().map(|path| (line, path)));
        }
    }
    let absolute = |path: &str| {
        let mut words: Vec<_> =
            path.split("::").map(str::trim).filter(|it| !it.is_empty()).collect();
        let mut from = module.to_vec();
        match *words.first()? {
            "crate" => from.clear(),
            "self" => {}
            "super" => {
                while words.get(1) == Some(&"super") {
                    words.remove(0);
                    from.pop();
                }
                from.pop();
            }
            child if children.iter().any(|it| it == child) => words.insert(0, "self"),
            _ => return None,
        }
        let words = from.into_iter().chain(words.into_iter().skip(1)).filter(|it| *it != "self");
        Some(words.map(str::to_owned).collect::<Vec<_>>())
    };
    let named = |(line, path): (usize, String)| {
        let (path, other_name) = path.split_once(" as ").unwrap_or((&path, ""));
        let target = absolute(path)?;
        let name = if other_name.is_empty() { target.last()? } else { other_name }.to_owned();
        Some(Named { line, target, name })
    };
    found.into_iter().filter_map(named).collect()
}

/// The paths of `a::{b, c::{d, e as f}}`.
fn branches(tree: &str) -> Vec<String> {
    let Some((stem, rest)) = tree.split_once('{') else {
        let path = tree.trim();
        return if path.is_empty() { Vec::new() } else { vec![path.to_owned()] };
    };
    let rest = rest.rsplit_once('}').map_or(rest, |(rest, _)| rest);
    let mut depth = 0_usize;
    let parts = rest.split(|c: char| {
        match c {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == ',' && depth == 0
    });
    parts.flat_map(branches).map(|branch| format!("{}{branch}", stem.trim())).collect()
}

/// The text and the level of each event in the source: the first literal with a blank in it.
fn events() -> Vec<(String, String)> {
    let lines = include_str!("../src/observe.rs").split("\\\n");
    let source: String = lines.map(str::trim_start).collect();
    let calls = source.split("tracing::").skip(1).filter_map(|call| call.split_once("!("));
    let event = |(level, call): (&str, &str)| {
        let text = call.split('"').skip(1).step_by(2).find(|literal| literal.trim().contains(' '));
        (level.to_uppercase(), text.expect("an event says something").to_owned())
    };
    calls.map(event).collect()
}

/// The table of events in `docs/errors.md` has each event once, with its level.
#[test]
fn the_manual_lists_all_events() {
    let page = include_str!("../docs/errors.md");
    let (_, table) = page.split_once("| event | level |").expect("the table of events");
    let rows = table.lines().skip(2).map_while(|line| line.strip_prefix("| "));
    let rows: Vec<_> = rows
        .map(|row| {
            let mut cells = row.split(" | ");
            (cells.next().unwrap_or_default(), cells.next().unwrap_or_default())
        })
        .collect();
    let events = events();
    assert!(events.len() > 20, "{events:?}");
    // The longest fitting event: one event may begin like another.
    let row_of = |text: &str| {
        let fitting = rows.iter().filter(|(event, _)| text.starts_with(event));
        fitting.max_by_key(|(event, _)| event.len())
    };
    for (level, text) in &events {
        let row = row_of(text).unwrap_or_else(|| panic!("docs/errors.md does not list \"{text}\""));
        assert_eq!(row.1, level, "{text}");
    }
    for row in &rows {
        let of_row = events.iter().filter(|(_, text)| row_of(text) == Some(row)).count();
        assert_eq!(of_row, 1, "one event is \"{}\"", row.0);
    }
}
