//! The scripts of `lua/` as servers are sent them.

use std::fs;
use std::path::Path;

/// The text of a script, with what its lines `-- include NAME` stand for.
pub fn with_includes(script: &str) -> String {
    let shared = Path::new(env!("CARGO_MANIFEST_DIR")).join("lua/shared");
    let lines = script.lines().map(|line| match line.trim_start().strip_prefix("-- include ") {
        Some(name) => {
            let indent = &line[..line.len() - line.trim_start().len()];
            indent.to_owned() + &fs::read_to_string(shared.join(name)).expect("a text of that name")
        }
        None => format!("{line}\n"),
    });
    lines.collect()
}
