//! The fitness of a server for locks, by its INFO.

use super::quote::quoted;

/// The oldest version whose commands the scripts may use.
const OLDEST: (u32, u32) = (6, 2);

/// The first version with `CLIENT SETINFO`.
const WITH_LIBRARIES: (u32, u32) = (7, 2);

/// The oldest version whose scripts write nothing while too few replicas are connected (`min-replicas-to-write`).
#[cfg(feature = "diagnosis")]
const STOPS_SCRIPTS: (u32, u32) = (7, 0);

/// The reason why a server with that INFO can never serve, and what to do.
///
/// Locks need scripts that run without interruption, and a server whose runs can be told apart. A server
/// that lacks one of these would break locks silently.
pub(super) fn unfit(server: &str) -> Option<String> {
    let use_redis = format!("use Redis {}.{} or newer, or Valkey", OLDEST.0, OLDEST.1);
    if mode(server) == Some("sentinel") {
        let what = "the server is a Sentinel, which watches masters and keeps no data; name the masters \
                    themselves, each of them independent";
        return Some(what.to_owned());
    }
    // A server without a version does not speak Redis; the caller reports that.
    let version = field(server, "redis_version")?;
    if field(server, "run_id").is_none_or(str::is_empty) {
        return Some(format!(
            "the server is like Redis {}, and has no run id, so nobody can tell whether it was restarted and \
             has forgotten locks; {use_redis}",
            quoted(version)
        ));
    }
    parse_version(version).is_some_and(|version| version < OLDEST).then(|| {
        let version = quoted(version);
        format!("the server is Redis {version}, which is too old; {use_redis}")
    })
}

/// The reason why nobody can tell whether a server was promoted, by its INFO of replication, and what to do.
pub(super) fn hides_promotions(replication: &str) -> Option<String> {
    replication_id(replication).is_none().then(|| {
        "the server shows no replication id (`master_replid` in `INFO replication`), so nobody can tell whether \
         another server has taken over that lacks locks; use Redis or Valkey, or another offer"
            .to_owned()
    })
}

/// The id that changes when the server is promoted.
pub(super) fn replication_id(replication: &str) -> Option<&str> {
    field(replication, "master_replid").filter(|id| id.bytes().any(|byte| byte != b'0'))
}

/// Returns true if a server with that INFO runs no script that writes while too few replicas are connected. Versions that are no
/// numbers are newer than all others.
#[cfg(feature = "diagnosis")]
pub(super) fn scripts_need_replicas(server: &str) -> bool {
    let version = field(server, "redis_version").and_then(parse_version);
    version.is_none_or(|version| version >= STOPS_SCRIPTS)
}

/// Returns true for a node of a cluster. Valkey has another name for the field.
pub(super) fn is_cluster(server: &str) -> bool {
    mode(server) == Some("cluster")
}

/// Returns true for a server whose list of connections has a place for the name of a library.
pub(super) fn lists_libraries(server: &str) -> bool {
    let version = field(server, "redis_version").and_then(parse_version);
    version.is_some_and(|version| version >= WITH_LIBRARIES)
}

fn mode(server: &str) -> Option<&str> {
    field(server, "redis_mode").or_else(|| field(server, "server_mode"))
}

/// The value of `name` in a server's INFO.
pub(super) fn field<'a>(info: &'a str, name: &str) -> Option<&'a str> {
    let value = |line: &'a str| line.strip_prefix(name)?.strip_prefix(':');
    info.lines().find_map(value).map(str::trim)
}

fn parse_version(text: &str) -> Option<(u32, u32)> {
    let mut parts = text.split('.').map(str::parse);
    Some((parts.next()?.ok()?, parts.next()?.ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redis_and_valkey_are_fit() {
        for info in [
            "# Server\r\nredis_version:6.2.0\r\nredis_mode:standalone\r\nrun_id:a1\r\n",
            "redis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:8.1.1\r\nrun_id:a1\r\n",
            "redis_version:255.255.255\r\nrun_id:a1\r\n",
            "redis_version:unstable\r\nrun_id:a1\r\n",
        ] {
            assert_eq!(unfit(info), None, "{info}");
        }
    }

    #[test]
    fn a_server_without_a_replication_id_hides_promotions() {
        let shown = "role:master\r\nmaster_replid:b1\r\n";
        assert_eq!((hides_promotions(shown), replication_id(shown)), (None, Some("b1")));
        for id in ["", "master_replid:\r\n", "master_replid:0000000000\r\n"] {
            assert_eq!(replication_id(id), None, "{id}");
            assert!(hides_promotions(id).is_some_and(|why| why.contains("master_replid")), "{id}");
        }
    }

    #[test]
    fn scripts_need_replicas_from_7_0_on() {
        let need_them = |version| scripts_need_replicas(&format!("redis_version:{version}\r\n"));
        assert!(!need_them("6.2.16"));
        assert!(["7.0.0", "7.2.4", "8.0.1", "unstable"].into_iter().all(need_them));
    }

    #[test]
    fn valkey_has_another_name_for_the_mode() {
        for name in ["redis_mode", "server_mode"] {
            assert!(is_cluster(&format!("# Server\r\n{name}:cluster\r\n")), "{name}");
            assert!(!is_cluster(&format!("# Server\r\n{name}:standalone\r\n")), "{name}");
            assert!(unfit(&format!("{name}:sentinel\r\n")).is_some(), "{name}");
        }
    }
}
