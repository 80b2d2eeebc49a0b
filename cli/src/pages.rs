//! Completions and manual pages, made from the options.

use clap::CommandFactory;
use clap_complete::Shell;
use clap_mangen::Man;

use crate::exit::Failure;
use crate::options::Options;
use crate::tell::print;

const NAME: &str = "quorlock";
/// The manual for operators. The library's documentation has it as well.
pub(crate) const OPERATIONS: &str = include_str!("../OPERATIONS.md");

pub(crate) fn completions(shell: Shell) -> Result<u8, Failure> {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut Options::command(), NAME, &mut text);
    print(String::from_utf8_lossy(&text))?;
    Ok(0)
}

/// The page of one command; without a name, that of the program.
pub(crate) fn man(name: Option<&str>) -> Result<u8, Failure> {
    let mut program = Options::command();
    program.build();
    let page = match name {
        None => Man::new(program),
        Some("operations") => {
            print(without_links(OPERATIONS).trim_end())?;
            return Ok(0);
        }
        Some(name) => {
            let command = program.find_subcommand(name).filter(|command| !command.is_hide_set());
            let unknown =
                || Failure::own(format!("there is no command {name}; quorlock --help lists them"));
            // The title under which `man quorlock-run` finds the page.
            Man::new(command.ok_or_else(unknown)?.clone()).title(format!("{NAME}-{name}"))
        }
    };
    let mut text = Vec::new();
    page.render(&mut text).map_err(Failure::own)?;
    print(String::from_utf8_lossy(&text))?;
    Ok(0)
}

/// A page in Markdown as it is read without a browser. A link becomes its text, followed by its address if that is on the web. If
/// its address is at the end of the page, it is followed by the file, unless the text names that or an item of the library.
pub(crate) fn without_links(page: &str) -> String {
    let mut plain = String::new();
    let mut rest = page;
    while let Some((before, link)) = rest.split_once("](") {
        let (Some((before, text)), Some((target, behind))) =
            (before.rsplit_once('['), link.split_once(')'))
        else {
            break;
        };
        plain.extend([before, text]);
        if target.starts_with("http") {
            plain.extend([" (", target, ")"]);
        }
        rest = behind;
    }
    plain += rest;
    let text: Vec<_> = plain.lines().filter(|line| link(line).is_none()).collect();
    links(&plain).fold(text.join("\n"), |text, (link, target)| {
        let file = target.split('#').next().unwrap_or_default();
        let is_named = link.contains(file) || link.starts_with('`');
        let named = if is_named { link.to_owned() } else { format!("{link} ({file})") };
        text.replace(&format!("[{link}]"), &named)
    })
}

/// The texts and targets of the links that are listed at the end of a page.
pub(crate) fn links(page: &str) -> impl Iterator<Item = (&str, &str)> {
    page.lines().filter_map(link)
}

/// The text and the target of a link, from a line such as `[usable servers]: docs/servers.md#offers`.
fn link(line: &str) -> Option<(&str, &str)> {
    line.strip_prefix('[')?.split_once("]: ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_become_their_texts() {
        let page = "A [b](c.md#d), [e](https://f).\n`[g]`: [the h], [`i.md`], [`K`]\n\n[the h]: h.md#j\n[`i.md`]: i.md\n[`K`]: https://k\n";
        let plain = "A b, e (https://f).\n`[g]`: the h (h.md), `i.md`, `K`\n";
        assert_eq!(without_links(page), plain);
        let manual = without_links(OPERATIONS);
        let link = manual.lines().find(|line| line.contains("](") || super::link(line).is_some());
        assert_eq!(link, None);
        assert!(manual.contains("usable servers (docs/servers.md)"), "{manual}");
    }
}
