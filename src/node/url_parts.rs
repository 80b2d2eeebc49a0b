//! The wrong part of a URL, for messages.

use std::borrow::Cow;

use crate::terms::NODES;

/// The fault of a URL of that scheme that can be read, and would lead to another place than was meant.
pub(super) fn meaningless_part(rest: &str, scheme: &str) -> Option<Cow<'static, str>> {
    let mut behind_percent = rest.split('%').skip(1);
    let is_encoded = |behind: &str| {
        behind.len() >= 2 && behind.bytes().take(2).all(|byte| byte.is_ascii_hexdigit())
    };
    if !behind_percent.all(is_encoded) {
        return Some(
            "has a \"%\" that begins no percent-encoded character; write %25 for one in the password".into(),
        );
    }
    if scheme.contains("unix") {
        return None;
    }
    let (authority, tail) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    let host_and_port = authority.rsplit_once('@').map_or(authority, |(_, behind)| behind);
    if host_and_port.contains([',', ';']) {
        return Some(
            format!("names several hosts; each node has a URL of its own, in {NODES}").into(),
        );
    }
    let path = tail.split(['?', '#']).next().unwrap_or_default();
    // Such a URL cannot be read, and `wrong_part` has the fault.
    let is_password = tail.contains('@');
    let is_database = matches!(path, "" | "/") || path[1..].parse::<u32>().is_ok();
    (!is_database && !is_password).then_some(NO_DATABASE.into())
}

const NO_DATABASE: &str = "has a database that is not a valid number; write redis://host:port/0";

/// The fault of a URL of that scheme that cannot be read; `rest` is its part behind `://`.
///
/// Nothing of the URL is quoted: in a wrong URL, the password can be anywhere.
pub(super) fn wrong_part(rest: &str, scheme: &str) -> &'static str {
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, tail) = rest.split_at(end);
    let query = tail.split_once('?').map_or("", |(_, query)| query);
    if scheme.contains("unix") {
        let path = tail.split(['?', '#']).next().unwrap_or_default();
        return match (path.len(), has(query, "db")) {
            (0 | 1, _) => "names no socket; write unix:///path",
            (_, true) => "names a database that is no number; write ?db=0 behind the path",
            _ => "cannot be read; write unix:///path?user=..&pass=..&db=0",
        };
    }
    if tail.contains('@') {
        return "has an \"@\" behind a \"/\", \"?\" or \"#\"; in a password write %2F, %3F and %23 for \
                these";
    }
    let host_and_port = authority.rsplit_once('@').map_or(authority, |(_, behind)| behind);
    if !host_and_port.starts_with('[') && host_and_port.matches(':').count() > 1 {
        return "has more than one \":\" in host and port; write an IPv6 address in brackets, \
                redis://[::1]:port, and a login as redis://user:password@host:port";
    }
    let (host, port) = match host_and_port.strip_prefix('[').map(|host| host.split_once(']')) {
        Some(None) => return "names a host with a \"[\" and no \"]\"; write [::1]",
        Some(Some((host, behind))) => (host, behind.strip_prefix(':')),
        None => match host_and_port.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (host_and_port, None),
        },
    };
    if host.is_empty() {
        "names no host; write redis://host:port"
    } else if port.is_some_and(|port| !port.is_empty() && port.parse::<u16>().is_err()) {
        "has a port that is no number from 1 to 65535; write redis://host:port, and with a login \
         redis://user:password@host:port"
    } else if has(query, "protocol") {
        "names an unknown protocol; write protocol=resp2 or protocol=resp3"
    } else {
        "cannot be read; write redis://[user:password@]host[:port][/database], with special characters \
         in the password percent-encoded"
    }
}

/// Returns true if the query has that parameter.
fn has(query: &str, name: &str) -> bool {
    query.split('&').any(|pair| pair.split('=').next() == Some(name))
}
