//! Masters by names: one with a dead address in front of the right one, and one that nobody looks up in time.

#![allow(clippy::print_stderr, reason = "a test that is left out says so")]

use std::net::{TcpStream, UdpSocket};
use std::process::{Command, Output};
use std::time::Duration;

use redis::io::tcp::socket2::{Domain, SockAddr, Socket, Type};

use crate::program::{Folder, ends_with, program, told};
use crate::support::Server;

/// The program on a master of that URL, where the system's files of names are these. `None`, with the reason printed: where this
/// user may not have it so.
fn run(folder: &Folder, hosts: &str, resolver: &str, options: &[&str]) -> Option<Output> {
    let files =
        [("hosts", hosts), ("resolv.conf", resolver), ("nsswitch.conf", "hosts: files dns\n")];
    let mounts: Vec<_> = files
        .into_iter()
        .map(|(name, text)| {
            let path = folder.write(name, text);
            format!("mount --bind {} $(readlink -f /etc/{name})", path.display())
        })
        .collect();
    let mounts = mounts.join(" && ");
    let apart = |command: &str| {
        let mut unshare = Command::new("unshare");
        unshare.args(["--mount", "sh", "-c", &format!("{mounts} && {command}")]);
        unshare
    };
    let tried = apart("true").output();
    if !tried.as_ref().is_ok_and(|output| output.status.success()) {
        eprintln!("left out: no files of names of its own: {tried:?}");
        return None;
    }
    let always = ["run", "--no-quarantine", "--node-timeout", "2s"];
    let options = [&always, options, &["job", "true"]].concat();
    let program = program();
    let line = format!("exec {} {}", program.get_program().display(), options.join(" "));
    Some(apart(&line).output().expect("unshare is there"))
}

#[test]
fn a_dead_address_of_a_name_does_not_keep_the_right_one_from_being_reached() {
    let server = Server::start_with(&["--bind", "127.0.0.1", "127.0.0.3"]);
    let folder = Folder::new();
    // It listens, and has as many connections waiting as it takes.
    let dead: std::net::SocketAddr = ([127, 0, 0, 2], server.port()).into();
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    socket.bind(&SockAddr::from(dead)).expect("the port is free there");
    socket.listen(0).expect("it is bound");
    let connects = || TcpStream::connect_timeout(&dead, Duration::from_millis(100)).ok();
    let _waiting: Vec<_> = std::iter::from_fn(connects).collect();

    // The system's lookup keeps that order. An address that is the machine's own for the way there would come first.
    let hosts = "127.0.0.2 master.test\n127.0.0.3 master.test\n";
    let url = format!("redis://master.test:{}", server.port());
    let Some(output) = run(&folder, hosts, "", &["-n", "--node", &url]) else { return };
    ends_with(&output, 0);
}

#[test]
fn a_name_that_is_not_looked_up_in_time_is_told_as_that() {
    let folder = Folder::new();
    // It is asked, and answers nothing. No resolver can be told of another port.
    let Ok(silent) = UdpSocket::bind("127.0.0.2:53") else {
        eprintln!("left out: this user may have no name server");
        return;
    };
    let resolver = "nameserver 127.0.0.2\noptions timeout:30 attempts:2\n";
    // For longer than a lookup is waited for.
    let options = ["--no-quorum-timeout", "5s", "--node", "redis://slow.test:6379"];
    let Some(output) = run(&folder, "", resolver, &options) else { return };
    drop(silent);
    ends_with(&output, 121);
    let words = "the name was not looked up within 2 s; check the resolver";
    assert!(told(&output).contains(words), "{}", told(&output));
}
