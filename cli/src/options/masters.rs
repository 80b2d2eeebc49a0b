//! The options about the masters, which most commands have.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use serde::{Deserialize, Serialize};

use super::values::time;

/// The masters, and the settings that all of their clients agree on.
#[derive(Args, Clone, Debug, Deserialize, Serialize)]
#[command(next_help_heading = "The masters")]
pub(crate) struct Set {
    /// A master, redis://[USER@]HOST[:PORT]; repeat the option for each
    ///
    /// Defaults to the environment variable QUORLOCK_NODES (separated by commas), then to the file. Put no password
    /// here: see QUORLOCK_PASSWORD, --ask-password and --password-command.
    #[arg(long = "node", value_name = "URL")]
    pub(crate) nodes: Vec<String>,

    /// A TOML file with settings; "Names of settings" in `quorlock man operations` lists them
    ///
    /// Defaults to the file in the environment variable QUORLOCK_CONFIG, or else to /etc/quorlock.toml, if it exists.
    /// Options and the environment override it.
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,

    /// Asks for the password on the terminal [default: QUORLOCK_PASSWORD, or the file]
    #[arg(long)]
    #[serde(skip)]
    pub(crate) ask_password: bool,

    /// A command that prints the password, for passwords and tokens that change [default: QUORLOCK_PASSWORD_COMMAND]
    ///
    /// /bin/sh runs it for new logins, at most once in 10 s for each master, with the master's URL in QUORLOCK_NODE. The first line
    /// of its output is the password. A second line may be the number of seconds for which it is valid: then connections log in
    /// again before it ends. While it runs for longer than --node-timeout, the master counts as down. Calls that do not wait for
    /// the lock wait for the command. It is killed after 10 s, and when quorlock ends, unless quorlock itself is killed (SIGKILL).
    #[arg(long, value_name = "COMMAND", conflicts_with = "ask_password")]
    pub(crate) password_command: Option<String>,

    /// The prefix of all keys [default: quorlock:]
    #[arg(long, value_name = "PREFIX")]
    pub(crate) key_prefix: Option<String>,

    /// The name of the set of masters [default: default]
    #[arg(long, value_name = "NAME")]
    pub(crate) set_name: Option<String>,

    /// The longest TTL that any client of these masters uses [default: 10s]
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(crate) max_ttl: Option<Duration>,

    /// The largest step of a master's clock that is tolerated [default: 100ms]
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(crate) clock_tolerance: Option<Duration>,

    /// The time limit for a master's answer [default: 200ms]
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(crate) node_timeout: Option<Duration>,

    /// The time without a majority after which a caller gives up [default: 10s; for `run` as long as --wait]
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(crate) no_quorum_timeout: Option<Duration>,

    /// Restarted masters grant locks at once; all their clients must agree on this
    #[arg(long)]
    pub(crate) no_quarantine: bool,

    /// A file with the certificates of the CA of rediss:// masters, in PEM
    #[arg(long, value_name = "FILE")]
    pub(crate) tls_ca: Option<PathBuf>,

    /// A file with a certificate for rediss:// masters that want one, in PEM
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub(crate) tls_cert: Option<PathBuf>,

    /// A file with its private key, in PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,
}
