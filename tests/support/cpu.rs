//! The processor time this process has used, to tell waiting from spinning.

#![allow(
    dead_code,
    unreachable_pub,
    reason = "compiled into every program that includes it, and each uses only a part of it"
)]

use rustix::time::{ClockId, clock_gettime};

/// Processor seconds, user and system, that all threads of this process have used so far.
pub fn cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// [`cpu_seconds`] of another process, by its id.
///
/// The kernel counts in ticks there, usually a hundredth of a second each: measure over a second or
/// more. Linux only, for it reads `/proc`.
pub fn cpu_seconds_of(pid: u32) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("Linux has /proc");
    // The program's name, the second field, may itself hold spaces and parentheses; what follows
    // its last parenthesis is plain, and begins with the third field.
    let (_, fields) = stat.rsplit_once(')').expect("the name stands in parentheses");
    let ticks: u64 = fields
        .split_whitespace()
        .skip(UTIME - 3)
        .take(2)
        .map(|field| field.parse::<u64>().expect("utime and stime are numbers"))
        .sum();
    ticks as f64 / rustix::param::clock_ticks_per_second() as f64
}

/// The place of `utime` in `proc_pid_stat(5)`, counted from one; `stime` comes right after it.
const UTIME: usize = 14;
