//! Masters with host names: with bad addresses before the right one, with the addresses of two servers, and with a name server that
//! does not answer in time.

#![allow(clippy::print_stderr, reason = "a test that is left out says so")]

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::{Command, Output};
use std::thread;
use std::time::Duration;

use redis::io::tcp::socket2::{Domain, SockAddr, Socket, Type};

use crate::program::{Folder, ends_with, printed, program, told};
use crate::support::Server;

/// Runs the program with those arguments and with these files for the lookup of names. Prints the reason and returns `None` if this
/// user may not replace the files.
fn run(folder: &Folder, hosts: &str, resolver: &str, arguments: &[&str]) -> Option<Output> {
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
    let program = program();
    let line = format!("exec {} {}", program.get_program().display(), arguments.join(" "));
    Some(apart(&line).output().expect("unshare is there"))
}

/// A new master, with a node timeout that a busy machine meets.
fn job_on<'a>(url: &'a str, options: &[&'a str]) -> Vec<&'a str> {
    let always = ["run", "--no-quarantine", "--node-timeout", "2s", "--node", url];
    [&always, options, &["job", "true"]].concat()
}

/// Returns the lines of a name with those addresses, in that order. The system's lookup keeps the order, but would put an address
/// first that is also the source address of its route.
fn hosts(last: &[u8]) -> String {
    last.iter().map(|last| format!("127.0.0.{last} master.test\n")).collect()
}

#[test]
fn a_dead_address_of_a_name_does_not_keep_the_right_one_from_being_reached() {
    let server = Server::start_with(&["--bind", "127.0.0.1", "127.0.0.3"]);
    let folder = Folder::new();
    // The address listens, and its queue of connections is full.
    let dead: SocketAddr = ([127, 0, 0, 2], server.port()).into();
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    socket.bind(&SockAddr::from(dead)).expect("the port is free there");
    socket.listen(0).expect("it is bound");
    let connects = || TcpStream::connect_timeout(&dead, Duration::from_millis(100)).ok();
    let _waiting: Vec<_> = std::iter::from_fn(connects).collect();

    let url = format!("redis://master.test:{}", server.port());
    let job = job_on(&url, &["-n"]);
    let Some(output) = run(&folder, &hosts(&[2, 3]), "", &job) else { return };
    ends_with(&output, 0);
}

/// A firewall can cause this, or a server that hangs.
#[test]
fn addresses_that_take_connections_and_are_silent_do_not_keep_the_right_one_from_being_reached() {
    let server = Server::start_with(&["--bind", "127.0.0.1", "127.0.0.9"]);
    let folder = Folder::new();
    let silent = |last| {
        TcpListener::bind(SocketAddr::from(([127, 0, 0, last], server.port())))
            .expect("a free port")
    };
    let _silent: Vec<_> = (2..7).map(silent).collect();
    let url = format!("redis://master.test:{}", server.port());
    let job = job_on(&url, &["-n"]);
    let Some(output) = run(&folder, &hosts(&[2, 3, 4, 5, 6, 9]), "", &job) else { return };
    ends_with(&output, 0);
}

/// Forwards all connections to that address to the server on that port.
fn forward(from: SocketAddr, to: u16) {
    let listener = TcpListener::bind(from).expect("the port is free there");
    thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let server = TcpStream::connect(("127.0.0.1", to)).expect("it is up");
            for (from, to) in [(&client, &server), (&server, &client)] {
                let end = |stream: &TcpStream| stream.try_clone().expect("a free descriptor");
                let (mut from, mut to) = (end(from), end(to));
                thread::spawn(move || {
                    let _ = io::copy(&mut from, &mut to);
                    let _ = to.shutdown(std::net::Shutdown::Write);
                });
            }
        }
    });
}

/// Each client keeps to the address that has answered. Two clients may keep to different ones.
#[test]
fn two_servers_under_one_name_are_seen_and_have_no_vote() {
    const SEVERAL: &str = "several servers answer under this address";

    let server = Server::start_with(&["--bind", "127.0.0.1", "127.0.0.2"]);
    let other = Server::start();
    forward(([127, 0, 0, 3], server.port()).into(), other.port());
    let folder = Folder::new();
    let url = format!("redis://master.test:{}", server.port());
    let doctor = ["doctor", "--node-timeout", "2s", "--node", &url];
    let diagnosis = run(&folder, &hosts(&[2, 3]), "", &doctor);
    let Some(diagnosis) = diagnosis else { return };
    assert!(printed(&diagnosis).contains(SEVERAL), "{}", printed(&diagnosis));
    // The command would run for ever.
    let holds = ["run", "--no-quarantine", "--ttl", "4s", "--node", &url, "job", "sleep", "600"];
    let holder = run(&folder, &hosts(&[2, 3]), "", &holds).expect("it was run before");
    ends_with(&holder, 123);
    assert!(told(&holder).contains(SEVERAL), "{}", told(&holder));
    // Several addresses of one server are fine.
    let server = Server::start_with(&["--bind", "127.0.0.1", "127.0.0.2", "127.0.0.3"]);
    let url = format!("redis://master.test:{}", server.port());
    let holds = ["run", "--no-quarantine", "--ttl", "5s", "--node", &url, "job", "sleep", "5"];
    ends_with(&run(&folder, &hosts(&[2, 3]), "", &holds).expect("it was run before"), 0);
}

#[test]
fn a_name_that_is_not_looked_up_in_time_is_told_as_that() {
    let folder = Folder::new();
    // This name server gets the question, and does not answer. Port 53 is needed, since a resolver accepts no other port.
    let Ok(silent) = UdpSocket::bind("127.0.0.2:53") else {
        eprintln!("left out: this user may have no name server");
        return;
    };
    let resolver = "nameserver 127.0.0.2\noptions timeout:30 attempts:2\n";
    // Longer than the time limit of a lookup.
    let job = job_on("redis://slow.test:6379", &["--no-quorum-timeout", "5s"]);
    let Some(output) = run(&folder, "", resolver, &job) else { return };
    drop(silent);
    ends_with(&output, 121);
    let words = "the name was not looked up within 2 s; check the resolver";
    assert!(told(&output).contains(words), "{}", told(&output));
}
