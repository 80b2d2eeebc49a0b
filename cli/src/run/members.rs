//! The system's list of processes: those that are left of a command's group, and those that this user may not end.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill, killpg};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

/// Maximum number of processes that are named.
const NAMED: usize = 5;

/// Number of fields from the group of a process to the number of its threads, and from there to its start time.
const THREADS: usize = 14;
const BEGUN: usize = 1;

/// Time until the list is read again, after that time of waiting. Reading takes longer, the more processes there are.
pub(super) fn next_look(waited: Duration) -> Duration {
    (waited / 4).clamp(Duration::from_millis(20), Duration::from_secs(1))
}

/// A process in the system's list.
struct Process {
    pid: Pid,
    parent: Pid,
    group: Pid,
    user: u32,
    /// True if it has not ended. An ended process stays listed until its parent has reaped it, which may never happen.
    lives: bool,
    /// Its start time, in some unit. A later process with the same id has a later one.
    begun: String,
}

impl Process {
    fn of(folder: &Path) -> Option<Self> {
        let pid = folder.file_name()?.to_str()?.parse().ok()?;
        let stat = fs::read_to_string(folder.join("stat")).ok()?;
        // The name in the brackets may contain brackets and blanks.
        let (_, fields) = stat.rsplit_once(')')?;
        let mut fields = fields.split_whitespace();
        let state = fields.next()?;
        let mut id = || Some(Pid::from_raw(fields.next()?.parse().ok()?));
        let (parent, group) = (id()?, id()?);
        let threads = fields.nth(THREADS)?;
        let begun = fields.nth(BEGUN)?.to_owned();
        Some(Self {
            pid: Pid::from_raw(pid),
            parent,
            group,
            user: fs::metadata(folder).ok()?.uid(),
            // The first thread may have ended before the others.
            lives: !matches!(state, "Z" | "X") || !matches!(threads, "0" | "1"),
            begun,
        })
    }
}

/// The leader of a group, for a process that is not its parent. The leader may have left the group, and its id may belong to
/// another process by now.
pub(super) struct Leader {
    pid: Pid,
    /// Its start time; `None`: the system does not list it.
    begun: Option<String>,
}

impl Leader {
    /// Returns the leader of a group that has just been started.
    pub(super) fn of(group: Pid) -> Self {
        let listed = Process::of(&Path::new("/proc").join(group.to_string()));
        Self { pid: group, begun: listed.map(|it| it.begun) }
    }

    /// Returns the leader if it has left its group, and lives.
    fn outside(&self) -> Option<Process> {
        let listed = Process::of(&Path::new("/proc").join(self.pid.to_string()))?;
        (Some(&listed.begun) == self.begun.as_ref() && listed.lives && listed.group != self.pid)
            .then_some(listed)
    }

    /// Returns true if the leader lives outside of its group.
    pub(super) fn is_outside(&self) -> bool {
        self.outside().is_some()
    }

    /// Sends the leader a signal, and wakes it, if it lives outside of its group. Returns true if it got the signal.
    pub(super) fn end_outside(&self, signal: Signal) -> bool {
        let sent = self.is_outside() && kill(self.pid, signal).is_ok();
        if sent {
            let _ = kill(self.pid, Signal::SIGCONT);
        }
        sent
    }
}

/// Reaps the processes of the group that this process was given as orphans. Called only after the end of the group's leader is
/// known.
pub(super) fn reap(group: Pid) {
    let group = Pid::from_raw(-group.as_raw());
    let ended = |status| status != WaitStatus::StillAlive;
    while waitpid(group, Some(WaitPidFlag::WNOHANG)).is_ok_and(ended) {}
}

/// Returns true if a process of the group lives.
pub(super) fn is_left(group: Pid) -> bool {
    if killpg(group, None) == Err(Errno::ESRCH) {
        return false;
    }
    let members = listed(group);
    // If the system lists none of them, or hides those of other users, they count as living.
    members.is_empty() || members.iter().any(|member| member.lives) || are_others_hidden()
}

/// Returns true if the system lists the processes of other users for those users alone (`hidepid`).
fn are_others_hidden() -> bool {
    fs::read("/proc/1/stat").is_err()
}

/// Names the living processes of the group; `None`: none is listed.
pub(super) fn living(group: Pid) -> Option<String> {
    names(listed(group).iter().filter(|member| member.lives))
}

/// Names the living processes that take no signal from this user; `None`: there is none.
pub(super) fn out_of_reach(group: Pid) -> Option<String> {
    let members = listed(group);
    let refuses = |member: &&Process| member.lives && kill(member.pid, None) == Err(Errno::EPERM);
    let is_another_users = || killpg(group, None) == Err(Errno::EPERM) && members.is_empty();
    names(members.iter().filter(refuses))
        .or_else(|| is_another_users().then(|| "a process of another user".to_owned()))
}

fn names<'a>(members: impl Iterator<Item = &'a Process>) -> Option<String> {
    let names: Vec<_> =
        members.map(|member| format!("{} (of user {})", member.pid, member.user)).collect();
    let what = if names.len() == 1 { "process" } else { "processes" };
    let more = match names.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    (!names.is_empty())
        .then(|| format!("{what} {}{more}", names[..names.len().min(NAMED)].join(", ")))
}

/// Returns the children of that process that have ended and were not reaped.
pub(super) fn ended_children(parent: Pid) -> Vec<Pid> {
    let ended = all().filter(|it| it.parent == parent && !it.lives);
    ended.map(|it| it.pid).collect()
}

/// The group's processes.
fn listed(group: Pid) -> Vec<Process> {
    all().filter(|it| it.group == group).collect()
}

/// Returns all processes, on systems with a folder for each.
fn all() -> impl Iterator<Item = Process> {
    let folders = fs::read_dir("/proc").into_iter().flatten().flatten();
    folders.filter_map(|folder| Process::of(&folder.path()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::CommandExt;
    use std::process::Command;

    use super::*;

    #[test]
    fn the_list_is_read_the_more_seldom_the_longer_that_takes() {
        let mut waited = Duration::ZERO;
        let looks = std::iter::from_fn(|| {
            let look = next_look(waited);
            waited += look;
            (waited < Duration::from_secs(60)).then_some(look)
        });
        let looks: Vec<_> = looks.collect();
        assert_eq!(looks.first(), Some(&Duration::from_millis(20)));
        assert!(looks.is_sorted() && looks.len() < 90, "{}", looks.len());
    }

    #[test]
    fn who_has_ended_is_not_left_though_nobody_has_asked_for_its_end() {
        let mut child = Command::new("sleep").arg("60").process_group(0).spawn().expect("sleep");
        let group = Pid::from_raw(i32::try_from(child.id()).expect("a process id"));
        assert!(is_left(group));
        assert_eq!(out_of_reach(group), None, "a process of this user");
        child.kill().expect("it lives");
        if Path::new("/proc/self/stat").exists() {
            let ends = (0..10_000).any(|_| {
                crate::clock::pause(std::time::Duration::from_millis(1));
                !is_left(group)
            });
            assert!(ends, "it has ended");
        }
        child.wait().expect("a child");
        assert!(!is_left(group));
    }
}
