//! Fake servers that answer as the pages of an offer say, or as its users show.

#![allow(dead_code, unreachable_pub, reason = "shared by test programs that use parts of it")]

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::fake;

/// A server, and the answers that show which one it is.
pub struct Offer {
    pub name: &'static str,
    /// Two sections of its INFO, with "; " between the fields.
    server: &'static str,
    replication: &'static str,
    /// The commands that it refuses, as a prefix of their words, and its error.
    refuses: &'static [(&'static str, &'static str)],
    /// True if it refuses `INFO` in scripts.
    pub is_relayed: bool,
    pub expected: Expected,
}

pub enum Expected {
    /// It grants locks, and a diagnosis has nothing to say about the server.
    Works,
    /// It grants locks, and a diagnosis notes that more is not known, with these words.
    Doubted(&'static [&'static str]),
    /// It is refused with these words.
    Refused(&'static [&'static str]),
}

use Expected::{Doubted, Refused, Works};

const MASTER: &str = "role:master; connected_slaves:0; master_replid:b38e0e1ff43848f77ca38ccfe7b893db98d21826; \
                      master_replid2:0000000000000000000000000000000000000000";
const NO_CONFIG: &[(&str, &str)] = &[("CONFIG", "ERR unknown command 'CONFIG'")];
const NOT_LISTED: &[(&str, &str)] = &[
    ("CONFIG", "NOPERM User default has no permissions to run the 'config|get' command"),
    (
        "CLIENT SETINFO",
        "NOPERM User default has no permissions to run the 'client|setinfo' command",
    ),
];

pub const OFFERS: &[Offer] = &[
    Offer {
        name: "Redis",
        server: "redis_version:7.0.15; redis_mode:standalone; os:Linux; run_id:a1",
        replication: MASTER,
        refuses: &[],
        is_relayed: false,
        expected: Works,
    },
    Offer {
        name: "Valkey",
        server: "redis_version:7.2.4; server_name:valkey; valkey_version:9.1.2; server_mode:standalone; run_id:a1",
        replication: MASTER,
        refuses: &[],
        is_relayed: false,
        expected: Works,
    },
    Offer {
        name: "ElastiCache, cluster mode disabled",
        server: "redis_version:7.1.0; redis_mode:standalone; os:Amazon ElastiCache; process_id:1; run_id:a1; executable:-",
        replication: MASTER,
        refuses: NO_CONFIG,
        is_relayed: false,
        expected: Doubted(&["Amazon ElastiCache, cluster mode disabled", "not known"]),
    },
    Offer {
        name: "ElastiCache, cluster mode enabled",
        server: "redis_version:7.1.0; redis_mode:cluster; os:Amazon ElastiCache; process_id:1; run_id:a1; executable:-",
        replication: MASTER,
        refuses: NO_CONFIG,
        is_relayed: false,
        expected: Refused(&["Amazon ElastiCache", "it is a cluster", "cluster mode disabled"]),
    },
    Offer {
        name: "MemoryDB",
        server: "redis_version:7.1.0; redis_mode:cluster; os:Amazon MemoryDB; run_id:a1",
        replication: MASTER,
        refuses: NO_CONFIG,
        is_relayed: false,
        expected: Refused(&["Amazon MemoryDB", "it is a cluster", "use Amazon ElastiCache"]),
    },
    Offer {
        name: "Memorystore, not clustered",
        server: "redis_version:7.2.4; valkey_version:8.0.1; server_mode:standalone; run_id:a1",
        replication: MASTER,
        refuses: NOT_LISTED,
        is_relayed: false,
        expected: Works,
    },
    Offer {
        name: "Memorystore for Redis Cluster",
        server: "redis_version:7.0.15; redis_mode:cluster; run_id:a1",
        replication: MASTER,
        refuses: NOT_LISTED,
        is_relayed: false,
        expected: Refused(&["Redis Cluster", "independent masters"]),
    },
    Offer {
        name: "Azure Cache for Redis, Aiven, DigitalOcean under another name",
        server: "redis_version:6.2.14; redis_mode:standalone; run_id:a1",
        replication: MASTER,
        refuses: NO_CONFIG,
        is_relayed: false,
        expected: Works,
    },
    Offer {
        name: "Redis Enterprise with both ids",
        server: "redis_version:7.4.2; redis_mode:standalone; run_id:a1; rlec_version:7.8.2-34",
        replication: MASTER,
        refuses: NO_CONFIG,
        is_relayed: true,
        expected: Doubted(&["Redis Software", "not known", "not of the proxy"]),
    },
    Offer {
        name: "Redis Enterprise without a run id",
        server: "redis_version:7.4.2; redis_mode:standalone; rlec_version:7.8.2-34",
        replication: MASTER,
        refuses: NO_CONFIG,
        is_relayed: true,
        expected: Refused(&["no run id", "this is Redis Cloud"]),
    },
    Offer {
        name: "Redis Enterprise without a replication id",
        server: "redis_version:7.4.2; redis_mode:standalone; run_id:a1; rlec_version:7.8.2-34",
        replication: "role:master; connected_slaves:0",
        refuses: NO_CONFIG,
        is_relayed: true,
        expected: Refused(&["no replication id", "this is Redis Cloud"]),
    },
    Offer {
        name: "Upstash",
        server: "upstash_version:1.10.5; redis_version:6.2.6; redis_mode:standalone; run_id:a1",
        replication: "",
        refuses: NO_CONFIG,
        is_relayed: false,
        expected: Refused(&["Upstash 1.10.5", "may lose a lock", "use Redis 6.2 or newer"]),
    },
    Offer {
        name: "Dragonfly",
        server: "redis_version:7.4.0; dragonfly_version:df-v1.40.1; redis_mode:standalone; arch_bits:64",
        replication: MASTER,
        refuses: &[],
        is_relayed: false,
        expected: Refused(&["Dragonfly df-v1.40.1", "no run id", "use Redis 6.2 or newer"]),
    },
    Offer {
        name: "Kvrocks",
        server: "version:2.12.0; kvrocks_version:2.12.0; redis_version:4.0.0; redis_mode:standalone",
        replication: "role:master; connected_slaves:0; master_repl_offset:11945",
        refuses: &[],
        is_relayed: false,
        expected: Refused(&["Kvrocks 2.12.0", "no run id", "use Redis 6.2 or newer"]),
    },
    Offer {
        name: "Garnet",
        server: "garnet_version:1.0.84; os:Unix; run_id:a1; redis_version:7.4.3; redis_mode:standalone",
        replication: MASTER,
        refuses: &[],
        is_relayed: false,
        expected: Refused(&["Garnet 1.0.84", "not atomic", "use Redis 6.2 or newer"]),
    },
    Offer {
        name: "KeyDB",
        server: "redis_version:6.3.4; redis_mode:standalone; run_id:a1; executable:/usr/bin/keydb-server",
        replication: MASTER,
        refuses: &[],
        is_relayed: false,
        expected: Doubted(&["KeyDB without active replicas", "not known"]),
    },
    Offer {
        name: "KeyDB with active replicas",
        server: "redis_version:6.3.4; redis_mode:standalone; run_id:a1; executable:/usr/bin/keydb-server",
        replication: "role:active-replica; master_replid:e896a40eb36cac81946155542433b30456a2d778",
        refuses: &[],
        is_relayed: false,
        expected: Refused(&["KeyDB with active replicas", "two masters", "use Redis 6.2 or newer"]),
    },
];

impl Offer {
    /// Starts the server, and returns its URL. It grants the first lock.
    pub fn start(&'static self) -> String {
        let scripts = Arc::new(AtomicUsize::new(0));
        fake::serve(move |words, writer| {
            let answer = self.answer(words, &scripts);
            writer.write_all(&answer).ok()
        })
    }

    fn answer(&self, words: &[String], scripts: &AtomicUsize) -> Vec<u8> {
        let command = words.join(" ").to_uppercase();
        if let Some((_, error)) = self.refuses.iter().find(|(it, _)| command.starts_with(it)) {
            return format!("-{error}\r\n").into_bytes();
        }
        match command.split(' ').next().unwrap_or_default() {
            _ if fake::is_probe(words) => fake::admit_of(&words[5], self.is_relayed),
            "INFO" => self.info(&words[1]),
            "EVAL" | "EVALSHA" => match scripts.fetch_add(1, Ordering::SeqCst) {
                0 => b"*2\r\n:1\r\n:0\r\n".to_vec(),
                _ => b":1\r\n".to_vec(),
            },
            _ => fake::handshake("", words).unwrap_or_else(|| b"+OK\r\n".to_vec()),
        }
    }

    fn info(&self, section: &str) -> Vec<u8> {
        let fields = match section {
            "server" => self.server,
            "replication" => self.replication,
            "memory" => "maxmemory:0; maxmemory_policy:noeviction",
            _ => "",
        };
        let lines = fields.split("; ").map(|field| format!("{field}\r\n"));
        let text = format!("# {section}\r\n{}", lines.collect::<String>());
        format!("${}\r\n{text}\r\n", text.len()).into_bytes()
    }
}
