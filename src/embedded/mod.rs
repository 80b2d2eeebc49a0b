//! Nodes in this process.

#![allow(dead_code, reason = "the front that listens on ports comes next")]

mod commands;
mod convert;
mod engine;
mod keyspace;
mod number;
mod reply;
mod script;

#[cfg(test)]
pub(crate) use engine::Engine;
#[cfg(test)]
pub(crate) use reply::Reply;
