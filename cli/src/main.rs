//! The program `quorlock`: locks across machines for the shell. `quorlock --help` describes it.

#[cfg(not(unix))]
compile_error!(
    "the program `quorlock` needs a Unix: process groups and signals; the library does not"
);

mod admin;
mod bench;
mod children;
mod clients;
mod clock;
mod demo;
mod doctor;
mod exit;
mod explain;
mod json;
mod list;
mod options;
mod pages;
mod password_command;
mod random;
mod run;
mod set;
mod signals;
mod tell;
mod top;
mod words;

use std::ffi::OsString;

use clap::Parser;
use clap::error::ErrorKind;
use nix::sys::signal::Signal;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use exit::{End, Failure, OWN_ERROR};
use options::{Command, Options};
use signals::ENDING;
use tell::tell;

/// Ends this process by the signal that ended the command or the wait for the lock, if users and supervisors end programs by it. A
/// shell ends its script or its loop only after a program that SIGINT has ended. A supervisor does not take a service that SIGTERM
/// has ended for failed.
fn end_by(signal: Signal) {
    // The first process of a container cannot end itself by a signal.
    if !ENDING.contains(&signal) || std::process::id() == 1 {
        return;
    }
    if signal == Signal::SIGQUIT {
        // Prevents a core dump of this process: only one of the command would be of use.
        let none = Rlimit { current: Some(0), maximum: getrlimit(Resource::Core).maximum };
        let _ = setrlimit(Resource::Core, none);
    }
    let _ = signal_hook::low_level::emulate_default_handler(signal as i32);
}

/// The first argument in the style of other programs: one dash and several letters. `None` if it does not explain why an option is
/// unknown or why help is asked for: `-shell` is `-s -h ..`.
fn word_of_one_dash(kind: ErrorKind, arguments: impl Iterator<Item = OsString>) -> Option<String> {
    let arguments = arguments.skip(2).map(|argument| argument.to_string_lossy().into_owned());
    // The arguments after `--` belong to the command.
    let arguments: Vec<_> = arguments.take_while(|argument| argument != "--").collect();
    let asks_for_help = arguments.iter().any(|it| it == "-h" || it == "--help");
    let may_be_why = match kind {
        ErrorKind::UnknownArgument => true,
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => !asks_for_help,
        _ => false,
    };
    let is_word = |argument: &String| {
        let letters = argument.strip_prefix('-').unwrap_or_default();
        let word = letters.split('=').next().unwrap_or_default();
        let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte == b'-';
        word.len() > 2 && !word.starts_with('-') && word.bytes().all(is_plain)
    };
    arguments.into_iter().find(|argument| may_be_why && is_word(argument))
}

fn main() -> std::process::ExitCode {
    words::speak();
    let options = match Options::try_parse() {
        Ok(options) => options,
        Err(error) => {
            let word = word_of_one_dash(error.kind(), std::env::args_os());
            // Help and the version are not errors: clap prints them to standard output.
            if word.is_none() || error.use_stderr() {
                let _ = error.print();
            }
            let Some(word) = word else {
                return if error.use_stderr() { OWN_ERROR.into() } else { 0.into() };
            };
            tell(format_args!(
                "{word} has one dash, and is read as options of one letter each; write --{} if it is an option of quorlock",
                word.trim_start_matches('-')
            ));
            return OWN_ERROR.into();
        }
    };
    if std::process::id() == 1
        && !options.command.listens()
        && let Err(failure) = signals::end_by_signals()
    {
        tell(failure.message);
        return OWN_ERROR.into();
    }
    let outcome = match options.command {
        Command::Run(options) => run::run(&options),
        Command::Elect(options) => run::elect(&options),
        Command::Leader(options) => admin::leader(&options).map(End::Code),
        Command::Status(options) => admin::status(&options).map(End::Code),
        Command::List(options) => list::list(&options).map(End::Code),
        Command::Top(options) => top::top(&options),
        Command::Unlock(options) => admin::unlock(&options).map(End::Code),
        Command::Admit(options) => admin::admit(&options).map(End::Code),
        Command::Doctor(options) => doctor::doctor(&options).map(End::Code),
        Command::Bench(options) => bench::bench(&options).map(End::Code),
        Command::Demo(options) => demo::demo(&options).map(End::Code),
        Command::Explain(options) => explain::explain(&options).map(End::Code),
        Command::Completions { shell } => pages::completions(shell).map(End::Code),
        Command::Man { command } => pages::man(command.as_deref()).map(End::Code),
        Command::Exec(options) => run::exec(&options).map(End::Code),
        Command::Watchdog(options) => run::watchdog(&options).map(End::Code),
    };
    let end = outcome.unwrap_or_else(|Failure { end, message }| {
        if !message.is_empty() {
            tell(message);
        }
        end
    });
    tell::flush();
    password_command::end_all();
    if let End::Signal(signal) = end {
        end_by(signal);
    }
    end.code().into()
}
