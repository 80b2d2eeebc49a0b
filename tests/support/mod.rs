//! Helpers that the integration tests share: real Redis servers, and the processor time of a test.
//!
//! Each file stands alone, so that an example or a benchmark can include just the file that it needs:
//! `#[path = "../tests/support/server.rs"] mod server;`

#![allow(
    dead_code,
    unreachable_pub,
    unused_imports,
    reason = "compiled into every test program, and each uses only a part of it"
)]

pub mod access;
pub mod authority;
pub mod clients;
pub mod cpu;
pub mod events;
pub mod fake;
pub mod kinds;
pub mod lua;
pub mod offers;
pub mod proxy;
pub mod relay;
pub mod server;

pub use server::*;
