//! Checks that a command can be run, before a lock is taken for it that `--min-hold` would keep.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::exit::{CANNOT_RUN, Failure, NOT_FOUND};
use crate::tell::quoted;

/// Number of bytes of a script's first line that Linux reads.
const LONGEST_LINE: u64 = 256;

/// Checks that there is such a command, and that it can be run.
pub(super) fn find(command: &[OsString]) -> Result<(), Failure> {
    let program = command.first().map(OsString::as_os_str).unwrap_or_default();
    let is_line = command.len() == 1 && program.as_bytes().contains(&b' ');
    find_program(program).map_err(|failure| match failure.end.code() {
        NOT_FOUND if is_line => {
            let line = "to run a shell line, use -c LINE or sh -c LINE";
            Failure::new(NOT_FOUND, format!("{}; {line}", failure.message))
        }
        _ => failure,
    })
}

fn find_program(program: &OsStr) -> Result<(), Failure> {
    let is_path = Path::new(program).components().count() > 1 || Path::new(program).is_absolute();
    let places: Vec<_> = match (is_path, std::env::var_os("PATH")) {
        (true, _) => vec![PathBuf::from(program)],
        (false, Some(path)) => {
            std::env::split_paths(&path).map(|folder| folder.join(program)).collect()
        }
        // The system uses a default path, which this process does not know.
        (false, None) => return Ok(()),
    };
    let can_run = |file: fs::Metadata| file.is_file() && file.permissions().mode() & 0o111 != 0;
    if let Some(place) = places.iter().find(|place| fs::metadata(place).is_ok_and(can_run)) {
        return check_start(program, place);
    }
    let is_there = places.iter().any(|place| place.exists());
    let why = if is_there { ErrorKind::PermissionDenied } else { ErrorKind::NotFound };
    Err(cannot_run(program, &why.into()))
}

/// Checks that the system can run that file, as far as the beginning of the file shows.
fn check_start(program: &OsStr, file: &Path) -> Result<(), Failure> {
    // A file that this user cannot read may still be run.
    let Some(start) = start_of(file) else { return Ok(()) };
    match start.strip_prefix(b"#!") {
        Some(rest) => find_interpreter(program, rest),
        None if is_for_another_machine(&start) => {
            let what = "cannot be run: it is a program for another kind of machine";
            let program = quoted(program.as_encoded_bytes());
            Err(Failure::new(CANNOT_RUN, format!("{program} {what}")))
        }
        None => Ok(()),
    }
}

fn start_of(file: &Path) -> Option<Vec<u8>> {
    let mut start = Vec::new();
    File::open(file).ok()?.take(LONGEST_LINE).read_to_end(&mut start).ok()?;
    Some(start)
}

/// Returns true if the beginning of a program is for a kind of machine that this one neither is nor emulates. The system would
/// refuse to run it, and the C library would have the shell read it instead. Returns false if there may be emulators that this
/// process cannot see, as in a container.
fn is_for_another_machine(start: &[u8]) -> bool {
    let Some(own) = start_of(Path::new(OWN_PROGRAM)) else { return false };
    let (Some(machine), Some(own)) = (machine(start), machine(&own)) else { return false };
    let runs = RUNS_AS_WELL.iter().any(|pair| [(own, machine), (machine, own)].contains(pair));
    machine != own && !runs && has_no_emulators()
}

/// Returns true if Linux shows its list of emulators, and the list is empty.
fn has_no_emulators() -> bool {
    let listed = fs::read_dir(EMULATORS).into_iter().flatten().flatten();
    let names: Vec<_> = listed.map(|it| it.file_name()).collect();
    names.iter().any(|it| it == "register")
        && names.iter().all(|it| it == "register" || it == "status")
}

/// Returns the machine of an ELF file: the field `e_machine` of its header, in the byte order that the header names.
fn machine(start: &[u8]) -> Option<u16> {
    let field = start.starts_with(b"\x7fELF").then(|| start.get(18..20)?.try_into().ok())??;
    match start.get(5)? {
        1 => Some(u16::from_le_bytes(field)),
        2 => Some(u16::from_be_bytes(field)),
        _ => None,
    }
}

const OWN_PROGRAM: &str = "/proc/self/exe";

/// Folder in which Linux lists the programs that run files of other kinds, as an emulator does.
const EMULATORS: &str = "/proc/sys/fs/binfmt_misc";

/// Machines that run each other's programs, or may: x86-64 and x86, AArch64 and Arm, PowerPC and SPARC of 64 and 32 bits.
const RUNS_AS_WELL: [(u16, u16); 5] = [(62, 3), (183, 40), (21, 20), (43, 2), (43, 18)];

/// Checks that the interpreter exists that a script names behind the `#!` of its first line.
fn find_interpreter(program: &OsStr, rest: &[u8]) -> Result<(), Failure> {
    let line = rest.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let mut words = line.split(|byte| b" \t".contains(byte)).filter(|word| !word.is_empty());
    let Some(interpreter) = words.next().map(OsStr::from_bytes) else { return Ok(()) };
    if Path::new(interpreter).exists() {
        return Ok(());
    }
    let (program, interpreter) =
        (quoted(program.as_encoded_bytes()), quoted(interpreter.as_encoded_bytes()));
    let what = format!("{program} is a script for {interpreter}, which does not exist");
    Err(Failure::new(NOT_FOUND, what))
}

pub(super) fn cannot_run(program: &OsStr, error: &io::Error) -> Failure {
    let program = quoted(program.as_encoded_bytes());
    match error.kind() {
        ErrorKind::NotFound => Failure::new(NOT_FOUND, format!("there is no command {program}")),
        _ => Failure::new(CANNOT_RUN, format!("{program} cannot be run: {error}")),
    }
}

/// Describes the failure to begin of a command that was found before.
pub(super) fn cannot_begin(program: &OsStr, error: &io::Error) -> Failure {
    match error.kind() {
        ErrorKind::NotFound => {
            let what = "cannot be run: the file, its interpreter or its loader does not exist";
            Failure::new(NOT_FOUND, format!("{} {what}", quoted(program.as_encoded_bytes())))
        }
        _ => cannot_run(program, error),
    }
}
