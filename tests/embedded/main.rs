//! Embedded nodes: they answer as servers do, and can have the same faults.

#[path = "../support/mod.rs"]
mod support;

mod alike;
mod borders;
mod client;
mod commands;
mod differential;
mod nodes;
mod probes;
mod readme;
mod scripts;
