//! The client, configured by the file, the environment and the options. A later one of these overrides an earlier one.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use nix::sys::signal::Signal;
use quorlock::{Builder, Quorlock};
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};

use crate::exit::Failure;
use crate::options::Set;
use crate::password_command::Passwords;
use crate::signals;
use crate::words;

/// Default TTL of a client.
const TTL: Duration = Duration::from_secs(10);

/// The file that is read if no other file is named, and if it exists.
const FILE: &str = "/etc/quorlock.toml";

/// The settings of a client.
#[derive(Default)]
pub(crate) struct Configured {
    /// Not validated yet.
    pub(crate) builder: Builder,
    /// The TTL, if the file has one.
    ttl: Option<Duration>,
    /// The longest TTL, if the user has set it.
    max_ttl: Option<Duration>,
    /// True if the user has set the time for which a majority may be out of reach.
    pub(crate) has_no_quorum_timeout: bool,
    /// True if the file sets a minimum time for which a lock is kept.
    pub(crate) has_min_hold: bool,
    /// True if the file sets the time before the end of a lock at which the user is warned.
    pub(crate) has_risk_margin: bool,
    /// The password that the user was asked for.
    pub(crate) asked_password: Option<String>,
    /// The command that prints the password.
    pub(crate) passwords: Option<Arc<Passwords>>,
}

impl Set {
    pub(crate) fn configured(&self) -> Result<Configured, Failure> {
        self.configured_by(|| self.ask_password.then(ask_password).transpose())
    }

    /// The same, with a password from `ask`.
    pub(crate) fn configured_by(
        &self,
        ask: impl FnOnce() -> Result<Option<String>, Failure>,
    ) -> Result<Configured, Failure> {
        let of_environment = environment("QUORLOCK_CONFIG").map(PathBuf::from);
        let Read { configured, settings } = match (&self.config, &of_environment) {
            (Some(file), _) => is_there(file, "--config")?,
            (None, Some(file)) => is_there(file, "QUORLOCK_CONFIG")?,
            (None, None) => read(Path::new(FILE))?.unwrap_or_default(),
        };
        let names_nodes = settings.iter().any(|setting| setting == "nodes");
        words::are_in_file(self.without_given(settings));
        let Configured { mut builder, has_no_quorum_timeout, .. } = configured;
        if !self.nodes.is_empty() {
            self.nodes.iter().try_for_each(|url| without_password(url))?;
            builder = builder.nodes(&self.nodes);
        } else if environment("QUORLOCK_NODES").is_some() {
            builder = builder.nodes_from_env()?;
        } else if !names_nodes {
            return Err(Failure::own(
                "no masters are named; give each with --node redis://HOST:PORT, or all of them in the environment \
                 variable QUORLOCK_NODES, separated by commas, or as \"nodes\" in the file that --config names",
            ));
        }
        let (asked_password, mut passwords) = (ask()?, None);
        if let Some(password) = &asked_password {
            builder = builder.password(password);
        } else if let Some(command) = self.password_command()? {
            // The command must not outlive the program.
            signals::end_unless_heard()?;
            let asked = Arc::new(Passwords::of(command));
            passwords = Some(asked.clone());
            // Without the password of the file.
            builder = builder.password("").credentials(move |node| asked.ask(node));
        } else if let Some(password) = environment("QUORLOCK_PASSWORD") {
            let password = password.into_string();
            let no_text =
                |_| Failure::own("the environment variable QUORLOCK_PASSWORD is not text");
            builder = builder.password(password.map_err(no_text)?);
        }
        Ok(Configured {
            builder: self.tuned(builder)?,
            has_no_quorum_timeout: has_no_quorum_timeout || self.no_quorum_timeout.is_some(),
            asked_password,
            passwords,
            max_ttl: self.max_ttl.or(configured.max_ttl),
            ..configured
        })
    }

    fn password_command(&self) -> Result<Option<String>, Failure> {
        if self.password_command.is_some() {
            return Ok(self.password_command.clone());
        }
        let Some(command) = environment("QUORLOCK_PASSWORD_COMMAND") else { return Ok(None) };
        if environment("QUORLOCK_PASSWORD").is_some() {
            return Err(Failure::own(
                "the environment variables QUORLOCK_PASSWORD and QUORLOCK_PASSWORD_COMMAND are both set; leave one of them out",
            ));
        }
        let no_text =
            |_| Failure::own("the environment variable QUORLOCK_PASSWORD_COMMAND is not text");
        command.into_string().map(Some).map_err(no_text)
    }

    /// The settings of the file that no option overrides.
    fn without_given(&self, mut settings: Vec<String>) -> Vec<String> {
        let given = [
            ("nodes", !self.nodes.is_empty()),
            ("key_prefix", self.key_prefix.is_some()),
            ("set_name", self.set_name.is_some()),
            ("max_ttl", self.max_ttl.is_some()),
            ("clock_tolerance", self.clock_tolerance.is_some()),
            ("node_timeout", self.node_timeout.is_some()),
            ("restart_quarantine", self.no_quarantine),
            ("tls_ca", self.tls_ca.is_some()),
            ("tls_client_cert", self.tls_cert.is_some()),
        ];
        settings.retain(|setting| !given.contains(&(setting, true)));
        settings
    }

    /// Returns true if this call or its environment names the masters, or a file with them.
    pub(crate) fn is_named(&self) -> bool {
        !self.nodes.is_empty()
            || self.config.is_some()
            || ["QUORLOCK_CONFIG", "QUORLOCK_NODES"].into_iter().any(|it| environment(it).is_some())
    }

    /// Applies the settings of the options to `builder`.
    pub(crate) fn tuned(&self, mut builder: Builder) -> Result<Builder, Failure> {
        if let Some(prefix) = &self.key_prefix {
            builder = builder.key_prefix(prefix);
        }
        if let Some(name) = &self.set_name {
            builder = builder.set_name(name);
        }
        if let Some(max_ttl) = self.max_ttl {
            builder = builder.max_ttl(max_ttl);
        }
        if let Some(tolerance) = self.clock_tolerance {
            builder = builder.clock_tolerance(tolerance);
        }
        if let Some(timeout) = self.node_timeout {
            builder = builder.node_timeout(timeout);
        }
        if let Some(timeout) = self.no_quorum_timeout {
            builder = builder.no_quorum_timeout(timeout);
        }
        if self.no_quarantine {
            builder = builder.restart_quarantine(false);
        }
        if let Some(file) = &self.tls_ca {
            builder = builder.tls_ca_file(file);
        }
        if let (Some(cert), Some(key)) = (&self.tls_cert, &self.tls_key) {
            builder = builder.tls_client_cert_files(cert, key);
        }
        Ok(builder)
    }

    /// The settings of a client for a command without `--ttl`. Its TTL is no longer than `--max-ttl`, or `max_ttl` of the file.
    pub(crate) fn builder(&self) -> Result<Builder, Failure> {
        Ok(self.configured()?.with_ttl())
    }

    /// The same for masters that the user has not named.
    pub(crate) fn tuned_for(&self, builder: Builder) -> Result<Builder, Failure> {
        let (builder, max_ttl) = (self.tuned(builder)?, self.max_ttl);
        Ok(Configured { builder, max_ttl, ..Configured::default() }.with_ttl())
    }

    /// A client for calls that do not wait for masters.
    pub(crate) fn client(&self) -> Result<Quorlock, Failure> {
        let configured = self.configured()?;
        let passwords = configured.passwords.clone();
        let client = configured.with_ttl().build()?;
        if let Some(passwords) = passwords {
            passwords.wait(&client);
        }
        Ok(client)
    }

    /// The settings of a client for a diagnosis, which does not wait for the command that prints the password.
    pub(crate) fn diagnosed(&self) -> Result<Builder, Failure> {
        let configured = self.configured()?;
        let passwords = configured.passwords.clone();
        let builder = configured.with_ttl();
        if let Some(passwords) = passwords {
            passwords.wait(&builder.clone().build()?);
            passwords.share();
        }
        Ok(builder)
    }
}

/// A terminal without echo of the input, until this is dropped.
struct Silent {
    terminal: File,
    before: Termios,
}

impl Silent {
    /// Switches off the echo of the terminal; `None` if there is no terminal.
    fn new() -> Option<Self> {
        let terminal = File::open("/dev/tty").ok()?;
        let before = tcgetattr(&terminal).ok()?;
        let mut silent = before.clone();
        silent.local_modes.remove(LocalModes::ECHO);
        tcsetattr(&terminal, OptionalActions::Now, &silent).ok()?;
        Some(Self { terminal, before })
    }
}

impl Drop for Silent {
    fn drop(&mut self) {
        // An error means that the terminal has gone, and is ignored.
        let _ = tcsetattr(&self.terminal, OptionalActions::Now, &self.before);
    }
}

fn ask_password() -> Result<String, Failure> {
    // Switched off before the question, since some users type the answer at once.
    let _silent = Silent::new();
    rpassword::prompt_password("Password of the masters: ").map_err(|error| match error.kind() {
        ErrorKind::Interrupted => {
            Failure::interrupted(Signal::SIGINT, "while it asked for the password")
        }
        _ => {
            let what = "there is no terminal to ask for the password on";
            Failure::own(format!("{what} ({error})"))
        }
    })
}

impl Configured {
    /// The TTL of the file, or else the default. The default is cut to the longest TTL that the masters allow.
    pub(crate) fn ttl(&self) -> Duration {
        self.ttl.unwrap_or_else(|| self.max_ttl.map_or(TTL, |max_ttl| max_ttl.min(TTL)))
    }

    /// Returns the settings with that TTL.
    pub(crate) fn with_ttl(self) -> Builder {
        let ttl = self.ttl();
        self.builder.ttl(ttl)
    }
}

/// Returns a variable of the environment. An empty one counts as missing.
fn environment(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

/// The variables of the environment that contain a password of the masters.
pub(crate) fn with_passwords() -> Vec<&'static str> {
    let nodes = std::env::var_os("QUORLOCK_NODES").unwrap_or_default();
    let nodes = nodes.to_string_lossy();
    // A password may have a comma.
    let tells = nodes.split(',').any(has_password) || has_password(&nodes);
    let nodes = tells.then_some("QUORLOCK_NODES");
    nodes.into_iter().chain(["QUORLOCK_PASSWORD", "QUORLOCK_PASSWORD_COMMAND"]).collect()
}

/// A name as the system passes it: any bytes.
pub(crate) fn bytes(name: &OsStr) -> &[u8] {
    std::os::unix::ffi::OsStrExt::as_bytes(name)
}

/// The result of reading a file.
#[derive(Default)]
struct Read {
    configured: Configured,
    /// Names of the settings in the file.
    settings: Vec<String>,
}

/// Reads a file that `names_it` refers to, and fails if the file does not exist.
fn is_there(file: &Path, names_it: &str) -> Result<Read, Failure> {
    read(file)?.ok_or_else(|| {
        Failure::own(format!("the file {} of {names_it} does not exist", file.display()))
    })
}

/// Reads the settings in a file; `None` if there is no such file.
fn read(file: &Path) -> Result<Option<Read>, Failure> {
    let text = match fs::read_to_string(file) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => {
            return Err(Failure::own(format!("{} cannot be read: {error}", file.display())));
        }
    };
    let builder = toml::from_str(&text).map_err(|error| {
        let until = error.span().map_or("", |span| &text[..span.start]);
        let line = 1 + until.matches('\n').count();
        let what = without_value(error.message(), setting_at(&text, line));
        Failure::own(format!("{}, line {line}: {what}", file.display()))
    })?;
    let table = text.parse::<toml::Table>().unwrap_or_default();
    let time = |name: &str| {
        let text = table.get(name).and_then(toml::Value::as_str);
        text.and_then(|text| humantime::parse_duration(text).ok())
    };
    let (ttl, max_ttl) = (time("ttl"), time("max_ttl"));
    let has_no_quorum_timeout = table.contains_key("no_quorum_timeout");
    let has_min_hold = table.contains_key("min_hold");
    let has_risk_margin = table.contains_key("risk_margin");
    let configured = Configured {
        builder,
        ttl,
        max_ttl,
        has_no_quorum_timeout,
        has_min_hold,
        has_risk_margin,
        asked_password: None,
        passwords: None,
    };
    Ok(Some(Read { configured, settings: table.into_iter().map(|(name, _)| name).collect() }))
}

/// A message without the value that it quotes, since that may be a password, or be meant for one.
fn without_value(message: &str, setting: Option<&str>) -> String {
    let quotes = ["invalid type: ", "invalid value: ", "unknown variant "];
    match message.rsplit_once(", expected ") {
        Some((_, expected)) if quotes.iter().any(|start| message.starts_with(start)) => {
            let of = setting.map_or(String::new(), |setting| format!(" of {setting}"));
            format!("the value{of} is not what this setting takes; expected {expected}")
        }
        _ => message.to_owned(),
    }
}

/// The setting whose value is on that line of a file: the last one that begins there or before.
fn setting_at(text: &str, line: usize) -> Option<&str> {
    text.lines().take(line).filter_map(name_of_setting).last()
}

fn name_of_setting(line: &str) -> Option<&str> {
    let name = line.split_once('=')?.0.trim();
    let is_name = |byte: u8| byte.is_ascii_lowercase() || byte == b'_';
    (!name.is_empty() && name.bytes().all(is_name)).then_some(name)
}

fn has_password(url: &str) -> bool {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let login = rest.rsplit_once('@').map_or("", |(login, _)| login);
    login.contains(':') || rest.contains("pass=")
}

/// Rejects a URL with a password, since everybody on the machine can read the options of a program.
fn without_password(url: &str) -> Result<(), Failure> {
    match has_password(url) {
        false => Ok(()),
        true => Err(Failure::own(
            "the URL of --node has a password, which everybody on this machine can read (ps); use QUORLOCK_PASSWORD, \
             --ask-password, or the file that --config names",
        )),
    }
}
