//! Where the manual says more: the sections of `OPERATIONS.md` that messages name.
//!
//! Users of the published crate have no such file. They have its page in the documentation, so messages
//! link there, to the version that says so.

macro_rules! section {
    ($anchor:literal) => {
        concat!(
            "https://docs.rs/quorlock/",
            env!("CARGO_PKG_VERSION"),
            "/quorlock/operations/index.html#",
            $anchor
        )
    };
}

/// The permissions that a user of the servers needs.
pub(crate) const ACCESS_LISTS: &str = section!("access-lists");
