//! The program for long runs: its arguments and its output.

#![allow(clippy::print_stdout, reason = "a program tells how it goes on, and how it went")]

use std::env;
use std::fs;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use crate::judge::{Verdict, picture};
use crate::plan::{self, Extent};
use crate::run::{self, Options};
use crate::scripts::{SCRIPTS, Script};
use crate::witness::History;
use crate::worker::{Failure, clients};

/// The parsed arguments.
struct Arguments {
    options: Options,
    seconds: u64,
    script: Option<&'static Script>,
    apart: bool,
    beyond: bool,
    picture: Option<PathBuf>,
    history: Option<PathBuf>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            client: "right".to_owned(),
            seed: 1,
            masters: 5,
            workers: 4,
            threads: 3,
            names: 4,
            max_ttl: Duration::from_secs(3),
            long_holds: false,
        }
    }
}

/// Runs as the arguments say. Returns true if the run is good, and `None` if the arguments are those of a test program.
pub(crate) fn from_args() -> Option<Result<bool, Failure>> {
    let given: Vec<String> = env::args().skip(1).collect();
    let is_program =
        given.iter().any(|it| ["--seconds", "--script", "--judge"].contains(&it.as_str()));
    is_program.then(|| Arguments::parse(given)?.run())
}

impl Arguments {
    fn parse(given: Vec<String>) -> Result<Self, Failure> {
        let seed = u64::from(rand::random::<u32>());
        let mut parsed = Self {
            options: Options { seed, ..Options::default() },
            seconds: 0,
            script: None,
            apart: false,
            beyond: false,
            picture: None,
            history: None,
        };
        let mut given = given.into_iter();
        while let Some(name) = given.next() {
            let mut value = || given.next().ok_or_else(|| format!("{name} needs a value"));
            let options = &mut parsed.options;
            match name.as_str() {
                "--apart" => parsed.apart = true,
                "--beyond" => parsed.beyond = true,
                "--seconds" => parsed.seconds = number(&name, &value()?)?,
                "--script" => parsed.script = Some(script(&value()?)?),
                "--judge" => parsed.history = Some(value()?.into()),
                "--picture" => parsed.picture = Some(value()?.into()),
                "--client" => options.client = clients::named(&value()?)?.name.to_owned(),
                "--seed" => options.seed = number(&name, &value()?)?,
                "--masters" => options.masters = number(&name, &value()?)?,
                "--workers" => options.workers = number(&name, &value()?)?,
                "--threads" => options.threads = number(&name, &value()?)?,
                "--names" => options.names = number(&name, &value()?)?,
                "--max-ttl-ms" => {
                    options.max_ttl = Duration::from_millis(number(&name, &value()?)?)
                }
                _ => return Err(format!("there is no argument {name}").into()),
            }
        }
        Ok(parsed)
    }

    fn run(&self) -> Result<bool, Failure> {
        let options = &self.options;
        println!("client {}, seed {}", options.client, options.seed);
        let verdict = match (&self.history, self.script) {
            (Some(file), _) => {
                let is_right = clients::named(&options.client)?.right;
                Verdict::of(&History::read(file)?, &options.rules(is_right))
            }
            (None, Some(script)) => scripted(script, &options.client, tell)?,
            (None, None) => {
                let extent = extent(options, Duration::from_secs(self.seconds));
                let extent = Extent { apart: self.apart, beyond: self.beyond, ..extent };
                run::run(options, &plan::random(extent), tell)?
            }
        };
        println!("\n{verdict}");
        if let Some(file) = &self.picture {
            fs::write(file, picture::picture(&verdict))?;
        }
        Ok(verdict.is_good() || self.beyond)
    }
}

fn tell(at: Duration, what: &str) {
    println!("{:8.2} s  {what}", at.as_secs_f64());
}

/// The extent of a plan that the guarantees cover, until that time.
pub(crate) fn extent(options: &Options, until: Duration) -> Extent {
    Extent {
        seed: options.seed,
        until,
        masters: options.masters,
        workers: options.workers,
        max_ttl: options.max_ttl,
        clocks: crate::support::clocks_can_be_set(),
        apart: false,
        beyond: false,
    }
}

/// Runs the script with that client.
pub(crate) fn scripted(
    script: &Script,
    client: &str,
    progress: impl FnMut(Duration, &str),
) -> Result<Verdict, Failure> {
    let options = Options {
        client: client.to_owned(),
        workers: 2,
        names: 1,
        long_holds: true,
        ..Options::default()
    };
    let plan = (script.plan)(options.masters, options.workers);
    run::run(&options, &plan, progress)
}

fn script(client: &str) -> Result<&'static Script, Failure> {
    let script = SCRIPTS.iter().find(|script| script.client == client);
    script.ok_or_else(|| format!("there is no script for \"{client}\"").into())
}

fn number<T: FromStr>(name: &str, value: &str) -> Result<T, Failure> {
    value.parse().map_err(|_| format!("{name} is no number: \"{value}\"").into())
}
