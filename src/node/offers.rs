//! The servers and managed offers that are known by name, and whether they can be nodes. `docs/servers.md` has the same table.
//!
//! In most cases, the answers of a server decide if it is used (`fitness`), and the table only names it. The table refuses servers
//! with a fault that does not show, and says what is not known.

use super::faults::CLUSTER;
use super::fitness::{self, field, hides_promotions, is_cluster};
use super::quote::quoted;

/// A server as it shows itself.
pub(super) struct Shown<'a> {
    /// The host in its URL; empty for a socket.
    pub(super) host: &'a str,
    /// Two sections of its INFO. That of the replication is empty until it is read.
    pub(super) server: &'a str,
    pub(super) replication: &'a str,
}

/// A server or a managed offer.
pub(crate) struct Offer {
    name: &'static str,
    /// The field of its `INFO` with its own version; empty if it has none.
    version: &'static str,
    /// Returns true if the server shows that it is this one.
    is_it: fn(&Shown<'_>) -> bool,
    works: Works,
    /// For those that work, the versions. For the others, the reason, as a part of a sentence.
    why: &'static str,
    #[cfg_attr(not(test), expect(dead_code, reason = "for the page"))]
    known_from: Source,
}

#[derive(Clone, Copy)]
enum Works {
    Yes,
    NotKnown,
    /// No, with what to use in its place.
    No(&'static str),
}

/// The source of a row.
enum Source {
    /// The tests were run on it.
    Tried,
    /// It follows from the pages of its vendor, its source, or the output that its users show.
    Documented,
    Unknown,
}

const REDIS: &str = "Redis 6.2 or newer, or Valkey";

/// All of them. The last row that fits is the right one.
const OFFERS: &[Offer] = {
    use Source::{Documented, Tried, Unknown};
    use Works::{No, NotKnown, Yes};
    &[
        Offer {
            name: "Redis",
            version: "redis_version",
            is_it: |it| it.has("redis_version"),
            works: Yes,
            why: "7.0 and 8.0 were tried, and 6.2 with a part of the tests; 7.2 and 7.4 have the same commands (documented)",
            known_from: Tried,
        },
        Offer {
            name: "Valkey",
            version: "valkey_version",
            is_it: |it| it.has("valkey_version"),
            works: Yes,
            why: "8.1 was tried, and 9.1 with a part of the tests; other versions have the same commands (documented)",
            known_from: Tried,
        },
        Offer {
            name: "Amazon ElastiCache, cluster mode disabled",
            version: "",
            is_it: |it| it.runs_on("Amazon ElastiCache") || it.is_at(".cache.amazonaws.com"),
            works: NotKnown,
            why: "its pages refuse none of the commands, and its `INFO` has a `run_id`, but nobody has tried it",
            known_from: Documented,
        },
        Offer {
            name: "Amazon ElastiCache, cluster mode enabled or serverless",
            version: "",
            is_it: |it| {
                is_cluster(it.server)
                    && (it.runs_on("Amazon ElastiCache") || it.is_at(".cache.amazonaws.com"))
            },
            works: No("a cache of nodes with cluster mode disabled"),
            why: "it is a cluster",
            known_from: Documented,
        },
        Offer {
            name: "Amazon MemoryDB",
            version: "",
            is_it: |it| {
                is_cluster(it.server)
                    && (it.runs_on("Amazon MemoryDB")
                        || it.is_at(".amazonaws.com") && it.host.contains(".memorydb."))
            },
            works: No("Amazon ElastiCache with cluster mode disabled"),
            why: "it is a cluster",
            known_from: Documented,
        },
        Offer {
            name: "Google Memorystore for Redis; for Valkey, cluster mode disabled",
            version: "",
            is_it: |_| false,
            works: NotKnown,
            why: "its pages list the commands, but nobody has tried it",
            known_from: Documented,
        },
        Offer {
            name: "Google Memorystore for Redis Cluster; for Valkey, cluster mode enabled",
            version: "",
            is_it: |_| false,
            works: No("Memorystore for Valkey with cluster mode disabled"),
            why: "it is a cluster",
            known_from: Documented,
        },
        Offer {
            name: "Azure Cache for Redis (Basic, Standard, Premium), not clustered",
            version: "",
            is_it: |it| it.is_at(".redis.cache.windows.net"),
            works: NotKnown,
            why: "it runs Redis, but nobody has tried it, and Microsoft retires these tiers",
            known_from: Documented,
        },
        Offer {
            name: "Redis Cloud, Redis Software or Azure Managed Redis, not clustered",
            version: "rlec_version",
            is_it: |it| {
                let hosts = [
                    ".redis-cloud.com",
                    ".redislabs.com",
                    ".redis.azure.net",
                    ".redisenterprise.cache.azure.net",
                ];
                it.has("rlec_version") || hosts.iter().any(|host| it.is_at(host))
            },
            works: NotKnown,
            why: "its `INFO` has other fields than that of Redis, and its pages do not say which: without `run_id` or \
                  `master_replid` it is refused, and these must be the ids of the server that runs the commands, not of the proxy",
            known_from: Documented,
        },
        Offer {
            name: "Aiven for Valkey",
            version: "",
            is_it: |it| it.is_at(".aivencloud.com") && it.has("valkey_version"),
            works: NotKnown,
            why: "its pages say that scripts are enabled, and disable none of the commands, but nobody has tried it",
            known_from: Documented,
        },
        Offer {
            name: "Aiven for Caching",
            version: "",
            is_it: |it| it.is_at(".aivencloud.com") && !it.has("valkey_version"),
            works: NotKnown,
            why: "one of its pages says that `EVAL` is disabled, and another one that it is enabled; ask its support",
            known_from: Documented,
        },
        Offer {
            name: "DigitalOcean Managed Caching or Managed Valkey",
            version: "",
            is_it: |it| it.is_at(".db.ondigitalocean.com"),
            works: NotKnown,
            why: "nobody has tried it, and no page about its commands was found",
            known_from: Unknown,
        },
        Offer {
            name: "Upstash",
            version: "upstash_version",
            is_it: |it| it.has("upstash_version") || it.is_at(".upstash.io"),
            works: No(REDIS),
            why: "its replicas are asynchronous and settle conflicts by the last write, so it may lose a lock, and its `INFO` \
                  has no section that shows when another server takes over",
            known_from: Documented,
        },
        Offer {
            name: "Dragonfly",
            version: "dragonfly_version",
            is_it: |it| it.has("dragonfly_version") && !it.has("run_id"),
            works: No(REDIS),
            why: "its `INFO` has no run id, so nobody can tell whether it was restarted and has forgotten locks",
            known_from: Documented,
        },
        Offer {
            name: "Kvrocks",
            version: "kvrocks_version",
            is_it: |it| it.has("kvrocks_version") && !it.has("run_id"),
            works: No(REDIS),
            why: "its `INFO` has no run id, so nobody can tell whether it was restarted and has forgotten locks",
            known_from: Documented,
        },
        Offer {
            name: "Garnet",
            version: "garnet_version",
            is_it: |it| it.has("garnet_version"),
            works: No(REDIS),
            why: "its scripts are not atomic without a setting that clients cannot see",
            known_from: Documented,
        },
        Offer {
            name: "KeyDB without active replicas",
            version: "",
            is_it: |it| {
                field(it.server, "executable").is_some_and(|it| it.ends_with("keydb-server"))
            },
            works: NotKnown,
            why: "its `INFO` has the fields of Redis, but nobody has tried it",
            known_from: Documented,
        },
        Offer {
            name: "KeyDB with active replicas",
            version: "",
            is_it: |it| field(it.replication, "role") == Some("active-replica"),
            works: No(REDIS),
            why: "two masters take writes for one node",
            known_from: Documented,
        },
    ]
};

impl Shown<'_> {
    /// The reason why a server with that section `server` can never serve, and what to do.
    pub(super) fn unfit(&self) -> Option<String> {
        let refusal = self.offer().and_then(|offer| offer.refusal(self.server));
        refusal.or_else(|| Some(self.named(fitness::unfit(self.server)?)))
    }

    /// The reason why a server with both sections can never serve, and what to do.
    pub(super) fn unfit_as_node(&self) -> Option<String> {
        self.unfit().or_else(|| match is_cluster(self.server) {
            true => Some(CLUSTER.to_owned()),
            false => Some(self.named(hides_promotions(self.replication)?)),
        })
    }

    /// The reason why it may not serve, though nothing that it shows is wrong.
    #[cfg(feature = "diagnosis")]
    pub(super) fn doubt(&self) -> Option<String> {
        let Offer { name, works, why, .. } = self.offer()?;
        let doubt = || format!("it is not known if locks work on {name}: {why}");
        matches!(works, Works::NotKnown).then(doubt)
    }

    fn offer(&self) -> Option<&'static Offer> {
        OFFERS.iter().rev().find(|offer| (offer.is_it)(self))
    }

    /// The fault of a server that is refused for what it shows, with its name if that says more than the fault.
    fn named(&self, fault: String) -> String {
        match self.offer() {
            Some(Offer { name, works: Works::NotKnown, .. }) => format!("{fault} (this is {name})"),
            _ => fault,
        }
    }

    fn has(&self, name: &str) -> bool {
        field(self.server, name).is_some()
    }

    fn runs_on(&self, system: &str) -> bool {
        field(self.server, "os") == Some(system)
    }

    /// Returns true if the host in the URL has this end.
    fn is_at(&self, end: &str) -> bool {
        let start = self.host.len().checked_sub(end.len());
        start
            .and_then(|start| self.host.get(start..))
            .is_some_and(|it| it.eq_ignore_ascii_case(end))
    }
}

impl Offer {
    /// The reason why it is not used whatever it shows, and what to use in its place.
    fn refusal(&self, server: &str) -> Option<String> {
        let Works::No(instead) = self.works else { return None };
        let Self { name, why, .. } = self;
        let version = field(server, self.version).map(|version| format!(" {}", quoted(version)));
        let version = version.unwrap_or_default();
        Some(format!("the server is {name}{version}, which cannot be used: {why}; use {instead}"))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const PAGE: &str = include_str!("../../docs/servers.md");

    impl Offer {
        /// Its row of the page.
        fn row(&self) -> String {
            let Self { name, works, why, known_from, .. } = self;
            let (can_be_used, instead) = match works {
                Works::Yes => ("yes", String::new()),
                Works::NotKnown => ("not known", String::new()),
                Works::No(instead) => ("no", format!("; use {instead}")),
            };
            let known_from = match known_from {
                Source::Tried => "tried",
                Source::Documented => "documented",
                Source::Unknown => "unknown",
            };
            format!("| {name} | {can_be_used} | {known_from} | {why}{instead} |")
        }
    }

    #[test]
    fn the_page_has_the_same_table() {
        let (_, table) = PAGE.split_once("|---|---|---|---|\n").expect("a table");
        let page: BTreeSet<_> =
            table.lines().take_while(|line| line.starts_with('|')).map(str::to_owned).collect();
        let code: BTreeSet<_> = OFFERS.iter().map(Offer::row).collect();
        let lacks: Vec<_> = code.difference(&page).collect();
        assert_eq!(page.difference(&code).collect::<Vec<_>>(), lacks, "the page, and the code");
        assert_eq!(code.len(), OFFERS.len(), "each row once");
    }

    #[test]
    fn servers_are_known_by_their_hosts_and_by_their_info() {
        let redis = "redis_version:7.0.15\r\nredis_mode:standalone\r\n";
        let valkey = "redis_version:7.2.4\r\nvalkey_version:8.1.1\r\nserver_mode:standalone\r\n";
        let clusters = [redis, valkey].map(|it| it.replace("standalone", "cluster"));
        let (redis_cluster, valkey_cluster) = (&*clusters[0], &*clusters[1]);
        let with = |field: &str| format!("{redis}{field}\r\n");
        let in_cluster = |field: &str| format!("{redis_cluster}{field}\r\n");
        let name = |host: &str, server: &str, role: &str| {
            let replication = format!("role:{role}\r\n");
            let shown = Shown { host, server, replication: &replication };
            shown.offer().map(|offer| offer.name)
        };
        for (host, server, expected) in [
            ("", "", None),
            ("127.0.0.1", redis, Some("Redis")),
            ("localhost", redis_cluster, Some("Redis")),
            ("", valkey, Some("Valkey")),
            (
                "x.y.0001.use1.cache.amazonaws.com",
                valkey,
                Some("Amazon ElastiCache, cluster mode disabled"),
            ),
            ("", &with("os:Amazon ElastiCache"), Some("Amazon ElastiCache, cluster mode disabled")),
            (
                "x.serverless.use1.cache.amazonaws.com",
                valkey_cluster,
                Some("Amazon ElastiCache, cluster mode enabled or serverless"),
            ),
            (
                "",
                &in_cluster("os:Amazon ElastiCache"),
                Some("Amazon ElastiCache, cluster mode enabled or serverless"),
            ),
            (
                "clustercfg.x.y.memorydb.us-east-1.amazonaws.com",
                redis_cluster,
                Some("Amazon MemoryDB"),
            ),
            ("", &in_cluster("os:Amazon MemoryDB"), Some("Amazon MemoryDB")),
            (
                "x.REDIS.cache.windows.net",
                redis,
                Some("Azure Cache for Redis (Basic, Standard, Premium), not clustered"),
            ),
            ("x.aivencloud.com", valkey, Some("Aiven for Valkey")),
            ("x.aivencloud.com", redis, Some("Aiven for Caching")),
            (
                "x.b.db.ondigitalocean.com",
                valkey,
                Some("DigitalOcean Managed Caching or Managed Valkey"),
            ),
            ("x.upstash.io", redis, Some("Upstash")),
            ("", &with("upstash_version:1.10.5"), Some("Upstash")),
            ("", &with("dragonfly_version:df-v1.40.1"), Some("Dragonfly")),
            ("", &with("kvrocks_version:2.16.0"), Some("Kvrocks")),
            ("", "garnet_version:1.0.84\r\n", Some("Garnet")),
            ("", &with("executable:/usr/bin/keydb-server"), Some("KeyDB without active replicas")),
            ("upstash.io.example.com", redis, Some("Redis")),
            ("xé.upstash.i", redis, Some("Redis")),
        ] {
            assert_eq!(name(host, server, "master"), expected, "{host} {server}");
        }
        let enterprise = "Redis Cloud, Redis Software or Azure Managed Redis, not clustered";
        for host in
            ["c1.ec2.redns.redis-cloud.com", "c1.cloud.redislabs.com", "x.eu.redis.azure.net"]
        {
            assert_eq!(name(host, redis, "master"), Some(enterprise), "{host}");
        }
        assert_eq!(name("", &with("rlec_version:7.4.2-54"), "master"), Some(enterprise));
        let keydb = with("executable:/usr/bin/keydb-server");
        assert_eq!(name("", &keydb, "active-replica"), Some("KeyDB with active replicas"));
    }
}
