//! Ends the child processes of this process, and removes its files, once this process is gone. That includes a process
//! that was killed, or interrupted by a signal that runs no destructor.
//!
//! Children and files are registered with a helper process, which reads from a pipe. The pipe closes with this process,
//! in any case. Then the helper ends and removes all that is still registered, and ends itself. It has a
//! process group of its own, so that Ctrl-C and the end of a terminal do not reach it.

#![allow(
    dead_code,
    unreachable_pub,
    reason = "compiled into every program that includes it, and each uses only a part of it"
)]

use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, Write};
use std::ops::{Deref, DerefMut};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::{env, fs};

use rustix::process::{Pid, Signal, kill_process_group};

/// A process that ends with this one. It is killed when dropped.
#[derive(Debug)]
pub struct Process {
    child: Child,
    /// The process leads a process group, which is killed with it.
    leads: bool,
    /// The registration, until the process's end has been waited for.
    registration: Option<Registration>,
}

impl Process {
    pub fn spawn(command: &mut Command) -> io::Result<Self> {
        let child = command.spawn()?;
        let registration = Some(Registration::new(format!("p{}", child.id())));
        Ok(Self { child, leads: false, registration })
    }

    /// Starts the process as the leader of a process group. Its children are in that group, unless they leave it.
    pub fn spawn_group(command: &mut Command) -> io::Result<Self> {
        let child = command.process_group(0).spawn()?;
        let registration = Some(Registration::new(format!("g{}", child.id())));
        Ok(Self { child, leads: true, registration })
    }

    /// Ends the process at once, even if it is stopped, and waits for its end.
    pub fn kill(&mut self) -> io::Result<()> {
        // After the wait, another group may have the same id.
        if self.leads && self.registration.is_some() {
            kill_process_group(Pid::from_child(&self.child), Signal::KILL)?;
        }
        self.child.kill()?;
        self.wait().map(drop)
    }

    pub fn wait(&mut self) -> io::Result<ExitStatus> {
        let status = self.child.wait()?;
        self.registration = None;
        Ok(status)
    }

    pub fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        let status = self.child.try_wait()?;
        if status.is_some() {
            self.registration = None;
        }
        Ok(status)
    }
}

impl Deref for Process {
    type Target = Child;

    fn deref(&self) -> &Child {
        &self.child
    }
}

impl DerefMut for Process {
    fn deref_mut(&mut self) -> &mut Child {
        &mut self.child
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // The process may have ended already. A second panic would abort, so errors are ignored.
        let _ = self.kill();
    }
}

/// Returns false for a process that has ended, even if its end has not been waited for.
pub fn runs(process: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}

/// A new folder among the temporary files. It is removed when dropped, or when this process ends.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    _registration: Registration,
}

impl Folder {
    /// Creates a folder whose name begins with `start`.
    pub fn create(start: &str) -> io::Result<Self> {
        let random = RandomState::new().build_hasher().finish();
        let path = env::temp_dir().join(format!("{start}-{random:016x}"));
        let folder = Self { _registration: Registration::path(&path), path };
        fs::create_dir(&folder.path)?;
        Ok(folder)
    }
}

impl Deref for Folder {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // A failure cannot be mended, and a panic would be worse.
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// A process or a path that is registered with the helper until this is dropped.
#[derive(Debug)]
pub struct Registration(String);

impl Registration {
    /// Registers a file, or a folder with its content, to be removed when this process ends.
    pub fn path(path: &Path) -> Self {
        let path = path.to_str().filter(|path| !path.contains('\n'));
        Self::new(format!("f{}", path.expect("the path of temporary files is one line of text")))
    }

    fn new(what: String) -> Self {
        tell('+', &what);
        Self(what)
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        tell('-', &self.0);
    }
}

/// Processes are ended before files are removed, since they might write more files. `-s` is the only form in which every
/// shell accepts a group: `kill -9 -- -7` is an error in some.
const HELPER: &str = r#"
trap '' HUP INT QUIT TERM
while IFS= read -r line; do
    what=${line#?}
    case $line in
    +*) set -- "$@" "$what" ;;
    -*) for one do
            shift
            [ "$one" = "$what" ] || set -- "$@" "$one"
        done ;;
    esac
done
for one do
    case $one in
    p*) kill -s KILL "${one#p}" 2>/dev/null ;;
    g*) kill -s KILL -- "-${one#g}" 2>/dev/null ;;
    esac
done
for one do
    case $one in f*) rm -rf -- "${one#f}" 2>/dev/null || rm -rf -- "${one#f}" ;; esac
done
"#;

/// The helper of this process. Its standard input is the pipe.
static REAPER: OnceLock<Mutex<Child>> = OnceLock::new();

fn tell(sign: char, what: &str) {
    let reaper = REAPER.get_or_init(|| {
        let mut helper = Command::new("sh");
        helper.args(["-c", HELPER]).process_group(0);
        // The helper must not keep the output of this process open, or its readers would wait for the helper.
        helper.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        Mutex::new(helper.spawn().expect("there is a shell"))
    });
    let line = format!("{sign}{what}\n");
    if let Some(pipe) = &mut reaper.lock().unwrap_or_else(PoisonError::into_inner).stdin {
        // The helper may have been killed. A panic in a destructor would be worse.
        let _ = pipe.write_all(line.as_bytes());
    }
}
