//! Embedded nodes: that they answer as servers do, and that they can be treated as badly.

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
