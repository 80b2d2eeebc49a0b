//! The program `quorlock`: locks across machines for the shell. `quorlock --help` tells what it does.

#[cfg(not(unix))]
compile_error!(
    "the program `quorlock` needs a Unix: process groups and signals; the library does not"
);

mod admin;
mod bench;
mod clients;
mod clock;
mod demo;
mod doctor;
mod exit;
mod json;
mod list;
mod options;
mod pages;
mod random;
mod run;
mod set;
mod signals;
mod tell;

use clap::Parser;

use exit::{Failure, OWN_ERROR};
use options::{Command, Options};
use tell::tell;

fn main() -> std::process::ExitCode {
    let options = match Options::try_parse() {
        Ok(options) => options,
        Err(error) => {
            // Help and the version are no errors, and go to standard output.
            let _ = error.print();
            return if error.use_stderr() { OWN_ERROR.into() } else { 0.into() };
        }
    };
    let code = match options.command {
        Command::Run(options) => run::run(&options),
        Command::Status(options) => admin::status(&options),
        Command::List(options) => list::list(&options),
        Command::Unlock(options) => admin::unlock(&options),
        Command::Admit(options) => admin::admit(&options),
        Command::Doctor(options) => doctor::doctor(&options),
        Command::Bench(options) => bench::bench(&options),
        Command::Demo(options) => demo::demo(&options),
        Command::Completions { shell } => pages::completions(shell),
        Command::Man { command } => pages::man(command.as_deref()),
        Command::Become(options) => run::become_command(&options),
        Command::Watch(options) => run::watch(&options),
    };
    let code = match code {
        Ok(code) => code,
        Err(Failure { code, message }) => {
            if !message.is_empty() {
                tell(message);
            }
            code
        }
    };
    tell::flush();
    if code == exit::INTERRUPTED {
        // A shell ends its script or its loop only after a program that SIGINT has ended, and has that code for it.
        let _ = signal_hook::low_level::emulate_default_handler(nix::libc::SIGINT);
    }
    code.into()
}
