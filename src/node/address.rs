//! Node URLs: parsing, and showing them without what is secret.

use std::sync::Arc;

use redis::io::tcp::TcpSettings;
use redis::{ConnectionAddr, ConnectionInfo, IntoConnectionInfo};

use crate::error::Error;

/// Where a node is, and how to log in there.
///
/// Has no `Debug`: it holds the password.
#[derive(Clone)]
pub(crate) struct Address {
    info: ConnectionInfo,
    shown: Arc<str>,
}

impl Address {
    /// Parses the URL of the node at `position` (counted from 1) in the configuration.
    pub(crate) fn parse(url: &str, position: usize) -> Result<Self, Error> {
        let shown = without_secrets(url);
        let wrong =
            |what: &str| Error::config(format!("node {position} has the URL \"{shown}\": {what}"));
        let Some((scheme, _)) = url.split_once("://") else {
            return Err(wrong("it has no scheme; write redis://host:port"));
        };
        match scheme {
            "redis" | "valkey" | "redis+unix" | "valkey+unix" | "unix" => {}
            "rediss" | "valkeys" => {
                return Err(wrong("this version of quorlock does not speak TLS; use redis://"));
            }
            _ => return Err(wrong("its scheme is unknown; use redis://host:port")),
        }
        // The crate's own message is dropped: it never says more than ours, and might quote.
        let info = url.into_connection_info().map_err(|_| {
            wrong(
                "it cannot be read; write redis://[user:password@]host[:port][/database], \
                   with special characters in the password percent-encoded",
            )
        })?;
        let tcp = TcpSettings::default().set_nodelay(true);
        let login = info.redis_settings().clone().set_skip_set_lib_name();
        Ok(Self { info: info.set_tcp_settings(tcp).set_redis_settings(login), shown: shown.into() })
    }

    /// Whether the two lead to one server for certain. A database number is no difference: two
    /// databases of one server fail together.
    pub(crate) fn same_server(&self, other: &Self) -> bool {
        match (self.info.addr(), other.info.addr()) {
            (ConnectionAddr::Tcp(host, port), ConnectionAddr::Tcp(other_host, other_port)) => {
                port == other_port && host.eq_ignore_ascii_case(other_host)
            }
            (addr, other_addr) => addr == other_addr,
        }
    }

    /// The URL without user, password and parameters.
    pub(crate) fn shown(&self) -> &Arc<str> {
        &self.shown
    }

    pub(super) fn info(&self) -> &ConnectionInfo {
        &self.info
    }
}

/// `url` as far as it can be shown, whatever it is: nothing before the last `@` but the scheme, and
/// nothing from the first `?` behind it.
fn without_secrets(url: &str) -> String {
    let (scheme, rest) = match url.split_once("://") {
        Some((scheme, rest)) => (format!("{scheme}://"), rest),
        None => (String::new(), url),
    };
    let rest = rest.rsplit_once('@').map_or(rest, |(_, rest)| rest);
    let rest = rest.split(['?', '#']).next().unwrap_or_default();
    format!("{scheme}{rest}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_never_shown() {
        for (url, shown) in [
            ("redis://127.0.0.1:6379", "redis://127.0.0.1:6379"),
            ("redis://user:secret@host:1/3", "redis://host:1/3"),
            ("redis://:p@ss@host", "redis://host"),
            ("user:secret@host", "host"),
            ("unix:///run/redis.sock?pass=secret", "unix:///run/redis.sock"),
            ("http://a:secret@b", "http://b"),
        ] {
            assert_eq!(without_secrets(url), shown);
            let text = match Address::parse(url, 1) {
                Ok(address) => address.shown().to_string(),
                Err(error) => format!("{error} {error:?}"),
            };
            assert!(!text.contains("secret") && !text.contains("p@ss"), "{text}");
        }
    }

    #[test]
    fn one_server_is_recognised_whatever_the_database_and_the_user() {
        let parse = |url| Address::parse(url, 1).unwrap_or_else(|error| panic!("{error}"));
        let one = parse("redis://localhost:6379");
        assert!(one.same_server(&parse("redis://LOCALHOST/3")));
        assert!(one.same_server(&parse("redis://user:pw@localhost:6379")));
        assert!(!one.same_server(&parse("redis://localhost:6380")));
    }
}
