//! The program `quorlock`, as users call it: real processes on real servers.

#[path = "../support/mod.rs"]
mod support;

mod admin;
mod bench;
mod demo;
mod doctor;
mod job;
mod list;
mod loss;
mod program;
mod settings;
mod terminal;
mod waiting;
