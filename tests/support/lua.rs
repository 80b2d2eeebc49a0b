//! The scripts of `lua/` as they are sent to servers.

use std::fs;
use std::path::Path;

/// The text of a script, with each line `-- include NAME` replaced by that file, which may have such lines itself.
pub fn with_includes(script: &str) -> String {
    // `lua/` is in the folder of this crate, or of one that contains it.
    let folders = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors();
    let mut shared = folders.map(|folder| folder.join("lua/shared"));
    let shared = shared.find(|shared| shared.is_dir()).expect("the scripts are in the checkout");
    let lines = script.lines().map(|line| match line.trim_start().strip_prefix("-- include ") {
        Some(name) => {
            let indent = &line[..line.len() - line.trim_start().len()];
            let text = fs::read_to_string(shared.join(name)).expect("a text of that name");
            indent.to_owned() + &with_includes(&text)
        }
        None => format!("{line}\n"),
    });
    lines.collect()
}

/// The answer of an acquire script. A grant is in the form `{1, number}`, in whichever form the script has answered it.
#[allow(dead_code, reason = "some test programs use one part of this file alone")]
pub fn with_listed_grant(answer: redis::Value) -> redis::Value {
    let digits = match &answer {
        redis::Value::BulkString(digits) => String::from_utf8_lossy(digits).into_owned(),
        _ => return answer,
    };
    let number = digits.parse().expect("an acquire answers no other text");
    redis::Value::Array(vec![redis::Value::Int(1), redis::Value::Int(number)])
}

/// The names that a script gives to the elements of that table. They are in a line `local A, B = KEYS[1], KEYS[2] -- and C..`,
/// or `-- KEYS: A, B, C..`. Returns none if the script has neither.
#[allow(dead_code, reason = "some test programs use one part of this file alone")]
pub fn named(source: &str, table: &str) -> Vec<String> {
    let source = source.replace("\n  = ", " = ");
    let list = |names: &str| names.split(", ").map(str::to_owned).collect::<Vec<_>>();
    let stated = format!("-- {table}: ");
    let places = format!(" = {table}[1]");
    for line in source.lines() {
        if let Some(names) = line.strip_prefix(&stated) {
            return list(names);
        }
        let Some((names, given)) = line.split_once(" = ").filter(|_| line.contains(&places)) else {
            continue;
        };
        let names = list(names.strip_prefix("local ").expect("they are locals"));
        let (given, more) = given.split_once(" -- and ").unwrap_or((given, ""));
        for (i, given) in given.split(", ").enumerate() {
            assert_eq!(given.trim_end_matches(" or ''"), format!("{table}[{}]", i + 1), "{line}");
        }
        assert_eq!(names.len(), given.split(", ").count(), "{line}");
        return names
            .into_iter()
            .chain(Some(more.to_owned()).filter(|it| !it.is_empty()))
            .collect();
    }
    Vec::new()
}
