//! The processor time of this process, to distinguish waiting from spinning.

#![allow(
    dead_code,
    unreachable_pub,
    reason = "compiled into every program that includes it, and each uses only a part of it"
)]

use rustix::time::{ClockId, clock_gettime};

/// The processor time in seconds, user and system, of all threads of this process so far.
pub fn cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// [`cpu_seconds`] of another process, by its id.
///
/// The kernel counts in ticks, usually a hundredth of a second each, so measure over a second or
/// more. Linux only, since it reads `/proc`.
pub fn cpu_seconds_of(pid: u32) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("Linux has /proc");
    // The second field, the program's name, may contain spaces and parentheses. After its last
    // parenthesis come plain fields, beginning with the third one.
    let (_, fields) = stat.rsplit_once(')').expect("the name stands in parentheses");
    let ticks: u64 = fields
        .split_whitespace()
        .skip(UTIME - 3)
        .take(2)
        .map(|field| field.parse::<u64>().expect("utime and stime are numbers"))
        .sum();
    ticks as f64 / rustix::param::clock_ticks_per_second() as f64
}

/// The position of `utime` in `proc_pid_stat(5)`, counted from one. `stime` follows it.
const UTIME: usize = 14;
