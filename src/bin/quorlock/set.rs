//! The client, by the file, the environment and the options, the later of which come before the earlier.

use std::ffi::OsStr;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::time::Duration;

use nix::sys::signal::Signal;
use quorlock::{Builder, Quorlock};

use crate::exit::Failure;
use crate::options::Set;

/// Read where no other file is named, if it is there.
const FILE: &str = "/etc/quorlock.toml";

impl Set {
    /// The settings, not checked yet; and the TTL, if the file has one.
    pub(crate) fn builder_and_ttl(&self) -> Result<(Builder, Option<Duration>), Failure> {
        let Read { mut builder, names_nodes, ttl } = match &self.config {
            Some(file) => read(file)?.ok_or_else(|| {
                Failure::own(format!("there is no file {}, which --config names", file.display()))
            })?,
            None => read(Path::new(FILE))?.unwrap_or_default(),
        };
        if !self.nodes.is_empty() {
            self.nodes.iter().try_for_each(|url| without_password(url))?;
            builder = builder.nodes(&self.nodes);
        } else if std::env::var_os("QUORLOCK_NODES").is_some() {
            builder = builder.nodes_from_env()?;
        } else if !names_nodes {
            return Err(Failure::own(
                "no masters are named; give each by --node redis://HOST:PORT, or all of them by the environment \
                 variable QUORLOCK_NODES, with commas in between, or by \"nodes\" in the file that --config names",
            ));
        }
        if self.ask_password {
            let asked = rpassword::prompt_password("Password of the masters: ");
            builder = builder.password(asked.map_err(|error| match error.kind() {
                ErrorKind::Interrupted => {
                    Failure::interrupted(Signal::SIGINT, "while it asked for the password")
                }
                _ => {
                    let what = "there is no terminal to ask for the password on";
                    Failure::own(format!("{what} ({error})"))
                }
            })?);
        } else if let Some(password) = std::env::var_os("QUORLOCK_PASSWORD") {
            let password = password.into_string();
            let no_text =
                |_| Failure::own("the environment variable QUORLOCK_PASSWORD is not text");
            builder = builder.password(password.map_err(no_text)?);
        }
        Ok((self.tuned(builder)?, ttl))
    }

    /// Whether this call or its environment says which masters are meant, or in which file that is.
    pub(crate) fn is_named(&self) -> bool {
        let environment = std::env::var_os("QUORLOCK_NODES");
        !self.nodes.is_empty()
            || self.config.is_some()
            || environment.is_some_and(|nodes| !nodes.is_empty())
    }

    /// The settings that the options have.
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
            builder = builder.tls_ca(pem(file)?);
        }
        if let (Some(cert), Some(key)) = (&self.tls_cert, &self.tls_key) {
            builder = builder.tls_client_cert(pem(cert)?, pem(key)?);
        }
        Ok(builder)
    }

    pub(crate) fn client(&self) -> Result<Quorlock, Failure> {
        Ok(self.builder_and_ttl()?.0.build()?)
    }
}

/// A name as the system has given it, which may be any bytes.
pub(crate) fn bytes(name: &OsStr) -> &[u8] {
    std::os::unix::ffi::OsStrExt::as_bytes(name)
}

/// What is read of a file.
#[derive(Default)]
struct Read {
    builder: Builder,
    names_nodes: bool,
    ttl: Option<Duration>,
}

/// The settings in a file; `None`: there is no such file.
fn read(file: &Path) -> Result<Option<Read>, Failure> {
    let text = match fs::read_to_string(file) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => {
            return Err(Failure::own(format!("{} cannot be read: {error}", file.display())));
        }
    };
    let builder = toml::from_str(&text).map_err(|error| {
        let line = 1 + error.span().map_or(0, |span| text[..span.start].matches('\n').count());
        Failure::own(format!("{}, line {line}: {}", file.display(), without_value(error.message())))
    })?;
    let table = text.parse::<toml::Table>().unwrap_or_default();
    let ttl = table.get("ttl").and_then(toml::Value::as_str);
    let ttl = ttl.and_then(|ttl| humantime::parse_duration(ttl).ok());
    Ok(Some(Read { builder, names_nodes: table.contains_key("nodes"), ttl }))
}

/// A message without the value that it quotes, for that may be a password, or be meant for one.
fn without_value(message: &str) -> String {
    let quotes = ["invalid type: ", "invalid value: ", "unknown variant "];
    match message.rsplit_once(", expected ") {
        Some((_, expected)) if quotes.iter().any(|start| message.starts_with(start)) => {
            format!("the value is not what this setting takes; expected {expected}")
        }
        _ => message.to_owned(),
    }
}

fn pem(file: &Path) -> Result<Vec<u8>, Failure> {
    let failed = |error| Failure::own(format!("{} cannot be read: {error}", file.display()));
    fs::read(file).map_err(failed)
}

/// Everybody on the machine can read the options of its programs.
fn without_password(url: &str) -> Result<(), Failure> {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let login = rest.rsplit_once('@').map_or("", |(login, _)| login);
    match login.contains(':') || rest.contains("pass=") {
        false => Ok(()),
        true => Err(Failure::own(
            "a --node has a password in its URL, which everybody on this machine can read (ps); give it by \
             QUORLOCK_PASSWORD, by --ask-password, or in the file that --config names",
        )),
    }
}
