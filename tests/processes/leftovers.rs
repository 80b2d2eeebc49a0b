//! The tests' servers, processes and folders go away when the process that started them is killed.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, UdpSocket};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use rustix::process::Signal;

use crate::helper::{Helper, PROMPT, say, wait_for_go};
use crate::roles::Role;
use crate::support::port::BLOCK;
use crate::support::reaper::{Folder, Process, runs};
use crate::support::{Server, Servers, wait_until};

/// Starts two servers, one of which is stopped, another process, and a group of two, and makes a folder. Prints their
/// locations.
pub(crate) static START: Role = Role {
    name: "start",
    run: || {
        let mut servers = Servers::start(2);
        servers[0].pause();
        let process = Process::spawn(Command::new("sleep").arg("600")).expect("there is sleep");
        let mut group = Command::new("sh");
        group.args(["-c", "sleep 600 & echo $!; wait"]).stdout(Stdio::piped());
        let mut group = Process::spawn_group(&mut group).expect("there is a shell");
        let mut member = String::new();
        let output = group.stdout.take().expect("it is piped");
        BufReader::new(output).read_line(&mut member).expect("it writes a line");
        let folder = Folder::create("quorlock-leftover").expect("there is room");
        servers.iter().for_each(|server| say(&server.pid().to_string()));
        say(&process.id().to_string());
        say(&group.id().to_string());
        say(member.trim());
        say(folder.to_str().expect("a path that is text"));
        wait_for_go();
    },
};

/// The working directory of a server, which holds its files.
fn home(server: u32) -> PathBuf {
    fs::read_link(format!("/proc/{server}/cwd")).expect("it runs")
}

/// A client of the server that is gone may still try to reach it, and must not reach the server of another process.
pub(crate) fn the_port_of_a_server_that_is_gone_stays_with_its_process() {
    let port = Server::start().port();
    let next = Server::start();
    assert_ne!(next.port(), port, "it rests");
    let claim = UdpSocket::bind((Ipv4Addr::LOCALHOST, port - port % BLOCK));
    assert!(claim.is_err(), "another process could claim the ports of this one");
}

pub(crate) fn what_a_process_has_started_ends_with_it_however_it_ends() {
    is_gone_after(|helper| helper.signal(Signal::TERM));
    // SIGKILL cannot be ignored. Ctrl-C and the end of a terminal also signal the whole group.
    is_gone_after(|helper| helper.signal_group(Signal::KILL));
}

fn is_gone_after(end: impl Fn(&Helper)) {
    let helper = Helper::start_apart(&START, &Servers::start(0));
    let processes = [(); 5].map(|()| helper.hear().parse().expect("the id of a process"));
    let folder = PathBuf::from(helper.hear());
    let files = [home(processes[0]), home(processes[1]), folder];
    assert!(processes.iter().all(|process| runs(*process)));
    assert!(files.iter().all(|file| file.exists()));
    end(&helper);
    wait_until("all of it is gone", PROMPT, || {
        !processes.iter().any(|process| runs(*process)) && !files.iter().any(|file| file.exists())
    });
}
