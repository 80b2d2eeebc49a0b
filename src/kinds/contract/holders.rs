//! Finds the holders of a lock on a node, for the checkers of the simulator.

use crate::embedded::Reply;
use crate::ident::{WRITES, read_timeout_key};

/// Runs a command on the node.
type Run<'a> = &'a mut dyn FnMut(&[&[u8]]) -> Reply;

/// Owners, each with the end of its hold in milliseconds of the node's clock; a negative value means no end.
type Found = Vec<(Vec<u8>, i64)>;

/// The owner of a lock that is a string.
pub(crate) fn of_string(key: &[u8], run: Run<'_>) -> Found {
    match (run(&[b"GET", key]), run(&[b"PEXPIRETIME", key])) {
        (Reply::Bulk(owner), Reply::Int(end_ms)) => vec![(owner, end_ms)],
        _ => Vec::new(),
    }
}

/// The owners of a lock that is a hash with a field for each of them.
pub(crate) fn of_hash(key: &[u8], run: Run<'_>) -> Found {
    let fields = fields(key, run);
    let is_other = [b"mode".as_slice(), b"permits"].iter().any(|it| fields.iter().any(|f| f == it));
    match end_ms(key, run) {
        Some(end_ms) if !is_other => fields.into_iter().map(|owner| (owner, end_ms)).collect(),
        _ => Vec::new(), // a read-write lock, or a semaphore
    }
}

/// The readers of a read-write lock. A read ends with the string of its own timeout, even if others still read.
pub(crate) fn of_reads(key: &[u8], run: Run<'_>) -> Found {
    let reads = owners(key, run).into_iter().filter(|owner| !owner.ends_with(WRITES.as_bytes()));
    let end = |owner: Vec<u8>| Some((end_ms(&read_timeout_key(key, &owner), run)?, owner));
    reads.filter_map(end).map(|(end_ms, owner)| (owner, end_ms)).collect()
}

/// The writer of a read-write lock.
pub(crate) fn of_writes(key: &[u8], run: Run<'_>) -> Found {
    let writes = owners(key, run).into_iter().filter(|owner| owner.ends_with(WRITES.as_bytes()));
    let end_ms = end_ms(key, run);
    writes.filter_map(|owner| Some((owner, end_ms?))).collect()
}

/// The holders of a semaphore's permits.
pub(crate) fn of_slots(key: &[u8], run: Run<'_>) -> Found {
    let Reply::List(fields) = run(&[b"HGETALL", key]) else { return Vec::new() };
    let hold = |field: &[Reply]| match field {
        [Reply::Bulk(owner), Reply::Bulk(hold)] if owner != b"permits" => {
            let text = std::str::from_utf8(hold).ok()?;
            Some((owner.clone(), text.split(' ').next()?.parse().ok()?))
        }
        _ => None,
    };
    fields.chunks(2).filter_map(hold).collect()
}

/// The owners of a read-write lock.
fn owners(key: &[u8], run: Run<'_>) -> Vec<Vec<u8>> {
    let mut fields = fields(key, run);
    let Some(mode) = fields.iter().position(|field| field == b"mode") else { return Vec::new() };
    fields.remove(mode);
    fields
}

fn fields(key: &[u8], run: Run<'_>) -> Vec<Vec<u8>> {
    let Reply::List(fields) = run(&[b"HKEYS", key]) else { return Vec::new() };
    let text = |field| if let Reply::Bulk(field) = field { Some(field) } else { None };
    fields.into_iter().filter_map(text).collect()
}

/// The end of a key in milliseconds; a negative value means no end. `None`: there is no such key.
fn end_ms(key: &[u8], run: Run<'_>) -> Option<i64> {
    match run(&[b"PEXPIRETIME", key]) {
        Reply::Int(end_ms) => Some(end_ms).filter(|end_ms| *end_ms != -2),
        _ => None,
    }
}
