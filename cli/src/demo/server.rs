//! A Redis server on this machine, for the duration of the demonstration.

use std::ffi::{OsStr, OsString};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::folder::Folder;
use crate::clock::{Time, pause};

/// Environment variable with the path of the server's program.
const PROGRAM: &str = "QUORLOCK_REDIS_SERVER";
/// Number of attempts to start it, in case another program takes its port in the meantime.
const TRIES: usize = 5;
const ANSWERS_WITHIN: Duration = Duration::from_secs(10);
const POLLS: Duration = Duration::from_millis(5);
/// Time limit of one answer.
const ANSWER_TAKES: Duration = Duration::from_secs(1);

/// A server that is killed when this is dropped.
#[derive(Debug)]
pub(super) struct Server {
    process: Child,
    address: SocketAddr,
}

impl Server {
    /// Starts an empty server, and waits until it answers. The error gives the reason for a failure.
    pub(super) fn start(folder: &Folder) -> Result<Self, String> {
        let program = std::env::var_os(PROGRAM).unwrap_or_else(|| OsString::from("redis-server"));
        let shown = program.to_string_lossy();
        for _ in 0..TRIES {
            let mut server = Self::spawn(&program, folder)
                .map_err(|error| format!("{shown} cannot be run ({error})"))?;
            let until = Time::now().after(ANSWERS_WITHIN);
            while server.is_up() {
                if answers(server.address).unwrap_or(false) && server.is_up() {
                    return Ok(server);
                }
                if Time::now() >= until {
                    return Err(format!("{shown} was started and does not answer"));
                }
                pause(POLLS);
            }
        }
        Err(format!("{shown} ends as soon as it is started"))
    }

    fn spawn(program: &OsStr, folder: &Folder) -> std::io::Result<Self> {
        let address = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?;
        let process = folder.spawn(
            Command::new(program)
                .args(["--bind", "127.0.0.1", "--port", &address.port().to_string()])
                .args(["--save", "", "--appendonly", "no", "--daemonize", "no"])
                .arg("--dir")
                .arg(folder.path(""))
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null()),
        )?;
        Ok(Self { process, address })
    }

    pub(super) fn url(&self) -> String {
        format!("redis://{}", self.address)
    }

    pub(super) fn is_up(&mut self) -> bool {
        matches!(self.process.try_wait(), Ok(None))
    }

    /// Ends the server as a power cut would.
    pub(super) fn kill(&mut self) {
        // An error means that the process has ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

fn answers(address: SocketAddr) -> std::io::Result<bool> {
    let mut connection = TcpStream::connect_timeout(&address, ANSWER_TAKES)?;
    connection.set_read_timeout(Some(ANSWER_TAKES))?;
    connection.write_all(b"PING\r\n")?;
    let mut answer = [0; 7];
    connection.read_exact(&mut answer)?;
    Ok(&answer == b"+PONG\r\n")
}
