//! The program `quorlock`, as users call it: real processes on real servers.

#[path = "../../tests/support/mod.rs"]
mod support;

mod admin;
mod admit;
mod beginning;
mod bench;
mod demo;
mod doctor;
mod documented;
mod elect;
mod first_process;
mod flock;
mod job;
mod killed;
mod list;
mod loss;
mod names;
mod other_user;
mod program;
mod rest;
mod settings;
mod terminal;
mod told;
mod top;
mod waiting;
mod words;
