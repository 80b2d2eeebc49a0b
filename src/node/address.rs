//! Node URLs: parsing, and showing them without their secrets.

use std::borrow::Cow;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use redis::{ConnectionAddr, ConnectionInfo, IntoConnectionInfo};

use super::addresses::Addresses;
use super::credentials::{CredentialSource, Provided};
use super::naming::Naming;
#[cfg(feature = "tls")]
use super::tls::{Certificates, Connector, Texts};
use super::url_parts;
use crate::credentials::CredentialProvider;
use crate::error::{Error, NodeFault};
use crate::terms::{NODES, TLS_CA};

const SCHEMES: [&str; 7] =
    ["redis", "valkey", "unix", "redis+unix", "valkey+unix", "rediss", "valkeys"];

/// The location of a node, and the login there.
///
/// Has no `Debug`: it holds the password.
#[derive(Clone)]
pub(crate) struct Address {
    info: ConnectionInfo,
    /// The TLS settings, for a URL with TLS.
    #[cfg(feature = "tls")]
    tls: Option<Connector>,
    shown: Arc<str>,
    /// The source of credentials that change, if the URL has no password.
    credentials: Option<Arc<CredentialSource>>,
    /// Its credentials, for the login of one connection.
    provided: Option<Provided>,
    /// The names of the client's connections, shared by all clones.
    naming: Arc<Naming>,
    /// The addresses of the host, shared by all clones.
    addresses: Arc<Addresses>,
    /// The one address of the host that is meant; `None`: any of them.
    only: Option<SocketAddr>,
}

impl Address {
    /// Parses the URL of the node at `position` (counted from 1) in the configuration.
    pub(crate) fn parse(url: &str, position: usize) -> Result<Self, Error> {
        // The password of an unreadable URL could be anywhere in it. So the message shows at most a
        // scheme that we know.
        let known = SCHEMES.iter().find(|scheme| starts_with(url, scheme));
        let start = known.map_or(String::new(), |scheme| format!(" ({scheme}://..)"));
        let read = match known {
            Some(scheme) => Self::read(url, scheme),
            None if url.split_once(':').is_some_and(|(start, _)| is_known(start)) => {
                Err("has no \"//\" behind its scheme; write redis://host:port, or unix:///path"
                    .into())
            }
            None => Err("has no scheme that quorlock knows; write redis://host:port".into()),
        };
        read.map_err(|what| Error::config(format!("the URL of node {position}{start} {what}")))
    }

    /// Reads a URL of that scheme, or returns what is wrong with it.
    fn read(url: &str, scheme: &str) -> Result<Self, Cow<'static, str>> {
        if is_tls(scheme) && cfg!(not(feature = "tls")) {
            return Err("asks for TLS; build quorlock with its feature `tls` for that".into());
        }
        let rest = &url[scheme.len() + "://".len()..];
        if has_another(rest) {
            return Err(another().into());
        }
        if url.contains(|c: char| c.is_whitespace() || c.is_control()) {
            return Err("has a blank or a control character; write %20 for a blank".into());
        }
        if let Some(what) = url_parts::meaningless_part(rest, scheme) {
            return Err(what);
        }
        let unreadable = || url_parts::wrong_part(rest, scheme);
        let parsed = redis::parse_redis_url(url).ok_or_else(unreadable)?;
        // Only parsing removes the steps up (`..`) from the path.
        if has_another(parsed.path()) {
            return Err(another().into());
        }
        if let Some(fragment) = parsed.fragment() {
            return Err(wrong_fragment(fragment, scheme));
        }
        let known_parameters: &[&str] = match parsed.has_host() {
            true => &["protocol"],
            false => &["protocol", "db", "user", "pass"],
        };
        if parsed.query_pairs().any(|(key, _)| !known_parameters.contains(&&*key)) {
            // The parameter is not quoted: it may be a part of a password with a "?" or a "&".
            let known = known_parameters.join("= and ");
            return Err(format!(
                "has a parameter that means nothing there; known is {known}= (in a password write %3F for \
                 \"?\" and %26 for \"&\")"
            )
            .into());
        }
        let mut shown = parsed.clone();
        // These calls fail only where there is nothing to remove.
        let _ = shown.set_username("");
        let _ = shown.set_password(None);
        shown.set_query(None);
        shown.set_fragment(None);
        // The crate's own message is dropped: it never says more than ours, and might quote a secret.
        let info = parsed.into_connection_info().map_err(|_| unreadable())?;
        match info.addr() {
            ConnectionAddr::Tcp(_, 0) | ConnectionAddr::TcpTls { port: 0, .. } => {
                return Err("has port 0, on which nobody listens".into());
            }
            ConnectionAddr::Unix(path) if path.file_name().is_none() => {
                return Err("names no socket; write unix:///path".into());
            }
            _ => {}
        }
        if u32::try_from(info.redis_settings().db()).is_err() {
            return Err("has a database number that is impossible; the first one is 0".into());
        }
        Ok(Self {
            info,
            #[cfg(feature = "tls")]
            tls: None,
            shown: shown.as_str().into(),
            credentials: None,
            provided: None,
            naming: Arc::new(Naming::of(None)),
            addresses: Arc::default(),
            only: None,
        })
    }

    /// Sets the password, if the URL has none.
    pub(crate) fn or_password(mut self, password: &str) -> Self {
        if self.info.redis_settings().password().is_none() {
            let settings = self.info.redis_settings().clone().set_password(password);
            self.info = self.info.set_redis_settings(settings);
        }
        self
    }

    /// Sets the source of credentials, if the URL has no password.
    pub(crate) fn or_credentials(mut self, provider: &CredentialProvider) -> Self {
        if self.info.redis_settings().password().is_none() {
            self.credentials = Some(CredentialSource::new(provider.clone(), &self.shown));
        }
        self
    }

    pub(super) fn credentials(&self) -> Option<&Arc<CredentialSource>> {
        self.credentials.as_ref()
    }

    /// A copy with the credentials for a login, for which the provider has `timeout`.
    pub(super) fn with_login(&self, timeout: Duration) -> Result<Self, NodeFault> {
        let Some(source) = self.credentials.as_ref().filter(|_| self.provided.is_none()) else {
            return Ok(self.clone());
        };
        let provided = source.for_login(timeout).map_err(|what| {
            NodeFault::new(&self.shown, format!("there are no credentials for the login: {what}"))
        })?;
        Ok(Self { provided: Some(provided), ..self.clone() })
    }

    pub(super) fn provided(&self) -> Option<&Provided> {
        self.provided.as_ref()
    }

    /// Names the client's connections by that owner label.
    pub(crate) fn of_client(self, label: &str) -> Self {
        Self { naming: Arc::new(Naming::of(Some(label))), ..self }
    }

    /// The names of the client's connections.
    pub(super) fn naming(&self) -> &Naming {
        &self.naming
    }

    /// Returns true if a login is not one of a user with a name, and so probably of one with all rights.
    pub(super) fn has_default_user(&self) -> bool {
        let provided = self.provided.as_ref().and_then(|it| it.credentials.user.as_deref());
        let user = provided.or(self.info.redis_settings().username());
        user.is_none_or(|user| user.is_empty() || user == "default")
    }

    /// Sets the certificates, if the URL is one with TLS.
    #[cfg(feature = "tls")]
    pub(crate) fn with_certificates(
        mut self,
        with: &Certificates,
        texts: &Texts,
        position: usize,
    ) -> Result<Self, Error> {
        if let ConnectionAddr::TcpTls { host, .. } = self.info.addr() {
            self.tls = Some(with.for_node(texts, host, position)?);
        }
        Ok(self)
    }

    /// Starts a TLS session, if the URL is one with TLS.
    #[cfg(feature = "tls")]
    pub(super) fn tls(&self) -> io::Result<Option<rustls::ClientConnection>> {
        self.tls.as_ref().map(Connector::connect).transpose()
    }

    pub(super) fn is_tls(&self) -> bool {
        matches!(self.info.addr(), ConnectionAddr::TcpTls { .. })
    }

    /// Returns true if the URL has a socket's path in place of a host.
    pub(super) fn is_socket(&self) -> bool {
        matches!(self.info.addr(), ConnectionAddr::Unix(_))
    }

    /// Host and port, with TLS or without.
    fn host(&self) -> Option<(&str, u16)> {
        // A dot at the end only says that the name is complete.
        self.written_host().map(|(host, port)| (host.trim_end_matches('.'), port))
    }

    /// The name of the host; empty for a socket.
    pub(super) fn host_name(&self) -> &str {
        self.host().map_or("", |(host, _)| host)
    }

    /// Host and port as the URL has them.
    fn written_host(&self) -> Option<(&str, u16)> {
        match self.info.addr() {
            ConnectionAddr::Tcp(host, port) | ConnectionAddr::TcpTls { host, port, .. } => {
                Some((host, *port))
            }
            _ => None,
        }
    }

    /// Returns true if both certainly lead to one server. The database number does not matter: two
    /// databases of one server fail together.
    pub(crate) fn same_server(&self, other: &Self) -> bool {
        match (self.host(), other.host()) {
            (Some((host, port)), Some((other_host, other_port))) => {
                port == other_port && host.eq_ignore_ascii_case(other_host)
            }
            _ => self.info.addr() == other.info.addr(),
        }
    }

    /// The URL without user, password and parameters.
    pub(crate) fn shown(&self) -> &Arc<str> {
        &self.shown
    }

    pub(super) fn info(&self) -> &ConnectionInfo {
        &self.info
    }

    /// One copy for each address of the host, in the order of the system. A lookup takes `timeout` at most.
    pub(super) fn each(&self, timeout: Duration) -> io::Result<Vec<Self>> {
        self.apart(|host, port| self.addresses.look_up(host, port, timeout))
    }

    /// One copy for each address of the host, the most promising one first.
    pub(super) fn in_order(&self, timeout: Duration) -> io::Result<Vec<Self>> {
        self.apart(|host, port| self.addresses.in_order(host, port, timeout))
    }

    /// One copy for each address that `look_up` returns; a single copy if there is nothing to look up.
    fn apart(
        &self,
        look_up: impl FnOnce(&str, u16) -> io::Result<Vec<SocketAddr>>,
    ) -> io::Result<Vec<Self>> {
        let named = self.written_host().filter(|(host, _)| self.only.is_none() && is_name(host));
        let Some((host, port)) = named else { return Ok(vec![self.clone()]) };
        Ok(look_up(host, port)?.into_iter().map(|address| self.at(address)).collect())
    }

    /// A copy that means this one address of the host.
    pub(super) fn at(&self, address: SocketAddr) -> Self {
        Self { only: Some(address), ..self.clone() }
    }

    /// The address to connect to; `None` if the host must be looked up.
    pub(super) fn socket_address(&self) -> Option<SocketAddr> {
        let (host, port) = self.written_host()?;
        self.only.or_else(|| Some(SocketAddr::new(host.parse().ok()?, port)))
    }

    /// Notes that this address was tried in vain: see [`Addresses::has_failed`].
    pub(super) fn has_failed(&self) {
        if let Some(address) = self.only {
            self.addresses.has_failed(address);
        }
    }

    /// Notes that the server at this address is usable: see [`Addresses::has_answered`].
    pub(super) fn has_answered(&self) {
        if let Some(address) = self.only {
            self.addresses.has_answered(address);
        }
    }
}

fn is_name(host: &str) -> bool {
    host.parse::<IpAddr>().is_err()
}

fn another() -> String {
    format!(
        "has another URL in it; each node has one of its own, in {NODES}, or in QUORLOCK_NODES with commas in between"
    )
}

fn has_another(rest: &str) -> bool {
    SCHEMES.iter().any(|scheme| rest.contains(&format!("{scheme}://")))
}

/// The fault of a URL that has a fragment.
fn wrong_fragment(fragment: &str, scheme: &str) -> Cow<'static, str> {
    match fragment {
        "insecure" if is_tls(scheme) => format!(
            "asks for TLS that does not verify the server, which quorlock does not allow; set {TLS_CA} to \
             the server's CA"
        )
        .into(),
        _ => "has a \"#\", which means nothing there; write %23 for one in the password".into(),
    }
}

fn is_tls(scheme: &str) -> bool {
    ["rediss", "valkeys"].contains(&scheme)
}

fn is_known(scheme: &str) -> bool {
    SCHEMES.iter().any(|known| known.eq_ignore_ascii_case(scheme))
}

/// Returns true if `url` has this scheme, in upper or lower case.
fn starts_with(url: &str, scheme: &str) -> bool {
    url.split_once("://").is_some_and(|(start, _)| start.eq_ignore_ascii_case(scheme))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(url: &str) -> Address {
        Address::parse(url, 1).unwrap_or_else(|error| panic!("{url}: {error}"))
    }

    #[test]
    fn a_password_is_for_urls_without_one() {
        let login = |url| {
            let address = parse(url).or_password("secret");
            let settings = address.info().redis_settings().clone();
            (settings.username().map(str::to_owned), settings.password().map(str::to_owned))
        };
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(login("redis://host"), (None, some("secret")));
        assert_eq!(login("redis://user@host"), (some("user"), some("secret")));
        assert_eq!(login("redis://user:own@host"), (some("user"), some("own")));
    }

    #[test]
    fn secrets_are_never_shown() {
        for (url, shown) in [
            ("redis://127.0.0.1:6379", "redis://127.0.0.1:6379"),
            ("redis://user:secret@host:1/3", "redis://host:1/3"),
            ("redis://:p@ss@host", "redis://host"),
            ("REDIS://host?protocol=resp3", "redis://host"),
            ("unix:///run/redis.sock?pass=secret", "unix:///run/redis.sock"),
        ] {
            assert_eq!(&**parse(url).shown(), shown);
        }
        for url in [
            "user:secret@host",
            "user:secret@redis://host",
            "http://a:secret@b",
            "redis://:secret",
            "redis://user:secret",
            "redis:user:secret",
            "redis:/user:secret",
            ":secret://x@host",
            "redis://host:secret",
            "redis://host/secret",
            // Unencoded, a part of the password looks like a parameter.
            "redis://user:12?secret@host",
            "unix:///tmp/redis.sock?pass=a&secret",
        ] {
            let error = Address::parse(url, 1).err().unwrap_or_else(|| panic!("{url} is wrong"));
            let text = format!("{error} {error:?}");
            assert!(!text.contains("secret"), "{url}: {text}");
        }
    }

    #[test]
    fn one_server_is_recognised_whatever_the_database_and_the_user() {
        for (one, other, same) in [
            ("redis://localhost:6379", "redis://LOCALHOST/3", true),
            ("redis://localhost:6379", "redis://user:pw@localhost:6379", true),
            ("redis://localhost", "redis://localhost.", true),
            ("redis://[::1]", "redis://[0:0:0:0:0:0:0:1]", true),
            ("unix:///tmp/a", "redis+unix:///tmp/a?db=3", true),
            ("redis://localhost:6379", "redis://localhost:6380", false),
            ("unix:///tmp/a", "unix:///tmp/b", false),
        ] {
            assert_eq!(parse(one).same_server(&parse(other)), same, "{one} and {other}");
        }
    }

    #[cfg(feature = "tls")]
    #[test]
    fn tls_makes_no_other_server() {
        for (one, other, same) in [
            ("redis://localhost:6379", "rediss://LOCALHOST.:6379/3", true),
            ("rediss://localhost:6379", "valkeys://user:pw@localhost:6379", true),
            ("rediss://localhost:6379", "rediss://localhost:6380", false),
        ] {
            assert_eq!(parse(one).same_server(&parse(other)), same, "{one} and {other}");
        }
        assert_eq!(&**parse("REDISS://user:secret@host:1/3").shown(), "rediss://host:1/3");
        for url in ["rediss://host#insecure", "rediss://host#other", "rediss://host:0"] {
            assert!(Address::parse(url, 1).is_err(), "{url}");
        }
    }

    #[test]
    fn what_means_nothing_is_refused() {
        for url in [
            "redis://localhost:0",
            "redis://localhost ",
            " redis://localhost",
            "redis://loc alhost",
            "redis://localhost/-1",
            "redis://localhost/1/2",
            "redis://localhost?protokol=resp3",
            "redis://localhost?db=zz",
            "redis://localhost/3?db=4",
            "redis://localhost:65536",
            "redis://localhost/0/",
            "redis://localhost/99999999999",
            "unix:///tmp/a?db=99999999999",
            "redis://:a%zz@localhost",
            "redis://:a%2@localhost",
            "redis://one,two",
            "redis://one:6379;two:6379",
            "redis://one,redis://two",
            "unix:/tmp/a",
            "redis://localhost#insecure",
            "unix:///tmp/a#b",
            "redis:///",
            "unix://",
            "unix:///",
            "unix:///tmp/x?db=foo",
        ] {
            assert!(Address::parse(url, 1).is_err(), "{url}");
        }
    }
}
