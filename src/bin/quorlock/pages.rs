//! Completions and manual pages, made from the options.

use clap::CommandFactory;
use clap_complete::Shell;
use clap_mangen::Man;

use crate::exit::Failure;
use crate::options::Options;
use crate::tell::print;

const NAME: &str = "quorlock";

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
        Some(name) => {
            let command = program.find_subcommand(name).filter(|command| !command.is_hide_set());
            let unknown =
                || Failure::own(format!("there is no command {name}; quorlock --help lists them"));
            // As `man quorlock-run` finds it.
            Man::new(command.ok_or_else(unknown)?.clone()).title(format!("{NAME}-{name}"))
        }
    };
    let mut text = Vec::new();
    page.render(&mut text).map_err(Failure::own)?;
    print(String::from_utf8_lossy(&text))?;
    Ok(0)
}
