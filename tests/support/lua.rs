//! The scripts of `lua/` as servers are sent them.

/// The text of a script, with what its lines `-- include NAME` stand for.
pub fn with_includes(script: &str) -> String {
    let shared = [
        ("-- include read.lua\n", include_str!("../../lua/shared/read.lua")),
        ("-- include check.lua\n", include_str!("../../lua/shared/check.lua")),
        ("-- include reserve.lua\n", include_str!("../../lua/shared/reserve.lua")),
        ("-- include granted.lua\n", include_str!("../../lua/shared/granted.lua")),
    ];
    shared.iter().fold(script.to_owned(), |text, (line, shared)| text.replace(line, shared))
}
