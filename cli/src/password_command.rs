//! The command that prints the password of the masters, run for new logins.

use std::error::Error;
use std::io::{self, BufRead as _, BufReader, Read};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use nix::sys::signal::{Signal, killpg};
use quorlock::Credentials;

use crate::children::Own;
use crate::clock::{self, Time};

/// Longest time that the command may take. While it runs, the master counts as down.
const LIMIT: Duration = Duration::from_secs(10);

/// Time between two looks if the command has ended.
const LOOK: Duration = Duration::from_millis(5);

/// Longest output that is read.
const LONGEST: u64 = 64 * 1024;

/// Time for the second line, once the command has ended.
const SECOND_LINE: Duration = Duration::from_millis(200);

/// Runs the command with the shell, with the URL of the master in `QUORLOCK_NODE`. The first line of its output is the password.
/// The second one may be the number of seconds for which it is valid.
///
/// The error names the command's end, and nothing that it has printed.
pub(crate) fn password(
    command: &str,
    node: &str,
) -> Result<Credentials, Box<dyn Error + Send + Sync>> {
    let (password, valid_for) =
        run(command, node, LIMIT).map_err(|what| format!("the password command {what}"))?;
    let credentials = Credentials::new(password);
    Ok(valid_for.into_iter().fold(credentials, Credentials::valid_for))
}

/// The password, and the time for which it is valid, if the command says so.
type Printed = (String, Option<Duration>);

fn run(command: &str, node: &str, limit: Duration) -> Result<Printed, String> {
    let failed = |error: io::Error| format!("could not be run: {error}");
    let mut shell = Command::new("/bin/sh");
    let shell = shell.args(["-c", command]).env("QUORLOCK_NODE", node);
    let shell = shell.stdin(Stdio::null()).stdout(Stdio::piped()).process_group(0);
    let mut child = Own::spawn(shell).map_err(failed)?;
    let output = child.0.stdout.take();
    let (sender, lines) = mpsc::channel();
    let reader = move || {
        let Some(output) = output else { return };
        let mut output = BufReader::new(output);
        for _ in 0..2 {
            let mut line = String::new();
            let read = (&mut output).take(LONGEST).read_line(&mut line);
            // The receiver is gone if the command took too long.
            let _ = sender.send(read.map(|_| line));
        }
        // The command may print more, and must not be stopped by that.
        let _ = io::copy(&mut output, &mut io::sink());
    };
    let started = clock::spawn("password-command", reader);
    let status = wait(&mut child, limit).map_err(failed)?;
    started.map_err(failed)?;
    match status {
        None => return Err(format!("took more than {} s", limit.as_secs_f64())),
        Some(status) if !status.success() => return Err(format!("failed ({status})")),
        Some(_) => {}
    }
    // All that it has printed is in the pipe by now.
    let line = lines.recv_timeout(limit).map_err(|_| "could not be read")?;
    let line = line.map_err(|error| format!("could not be read: {error}"))?;
    let seconds = lines.recv_timeout(SECOND_LINE).ok().and_then(Result::ok);
    let seconds = seconds.and_then(|line| line.trim().parse::<u32>().ok());
    match line.trim_end_matches(['\r', '\n']) {
        "" => Err("has printed no password".to_owned()),
        password => Ok((password.to_owned(), seconds.map(|s| Duration::from_secs(s.into())))),
    }
}

/// Waits for the command's end. `None`: it took too long, and was killed with its own processes.
fn wait(child: &mut Own, limit: Duration) -> io::Result<Option<ExitStatus>> {
    let until = Time::now().after(limit);
    loop {
        if let Some(status) = child.0.try_wait()? {
            return Ok(Some(status));
        }
        if Time::now() >= until {
            // It leads a group of its own. The group may have ended just now.
            let _ = killpg(child.pid(), Signal::SIGKILL);
            child.0.wait()?;
            return Ok(None);
        }
        clock::pause(LOOK);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(command: &str) -> Result<String, String> {
        run(command, "redis://a", LIMIT).map(|(password, _)| password)
    }

    #[test]
    fn a_number_in_the_second_line_is_the_time_in_seconds() {
        let valid_for = |command| run(command, "redis://a", LIMIT).expect("a password").1;
        assert_eq!(valid_for("echo a; echo 900"), Some(Duration::from_secs(900)));
        for without in
            ["echo a", "echo a; echo for 900 s", "echo a; echo; echo 900", "echo a; echo -1"]
        {
            assert_eq!(valid_for(without), None, "{without}");
        }
    }

    #[test]
    fn the_first_line_is_the_password() {
        assert_eq!(printed("printf 'a b\\nc\\n'"), Ok("a b".to_owned()));
        assert_eq!(printed("echo $QUORLOCK_NODE"), Ok("redis://a".to_owned()));
    }

    #[test]
    fn a_command_that_fails_is_named_without_its_output() {
        let failed = printed("echo secret; exit 3").expect_err("it fails");
        assert!(failed.contains('3') && !failed.contains("secret"), "{failed}");
        assert_eq!(printed("true"), Err("has printed no password".to_owned()));
    }

    #[test]
    fn a_command_that_hangs_is_killed() {
        let slow = run("sleep 60; echo late", "redis://a", Duration::from_millis(50));
        assert!(slow.is_err_and(|what| what.starts_with("took more than")));
    }

    #[test]
    fn a_long_output_blocks_nobody() {
        assert_eq!(
            printed("echo first; head -c 600000 /dev/zero | tr '\\0' x"),
            Ok("first".to_owned())
        );
    }
}
