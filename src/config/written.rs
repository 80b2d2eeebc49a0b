//! Settings from a file, under the names of the builder's methods.

use std::fmt;
use std::time::Duration;

use serde::de::{Deserialize, Deserializer, Error, SeqAccess, Visitor};

use super::Builder;
use crate::config::settings::{Fallback, Renewal};
#[cfg(feature = "tls")]
use crate::node;

/// Settings from a file, under the names of the builder's methods. Missing settings have the builder's defaults, and a name
/// that the builder does not have is an error. Nothing else is checked before [`build`](Builder::build).
///
/// Any format of `serde` will do: a program has its locks' settings in a section of its own file, in whatever format that
/// is.
///
/// | of type | written as |
/// |---|---|
/// | a duration | a text such as `"10s"`, `"500ms"` or `"1h 30m"` |
/// | [`Renewal`] | `"auto"` or `"manual"` |
/// | [`Fallback`] | `"never"` or `{ single_node = { after = "30s" } }` |
/// | [`backoff`](Builder::backoff) | `{ min = "5ms", max = "100ms" }` |
/// | [`wait_replicas`](Builder::wait_replicas) | `{ replicas = 1, timeout = "100ms" }` |
#[cfg_attr(
    feature = "tls",
    doc = "| [`tls_ca`](Builder::tls_ca) | the PEM text, or the path of a file with it |"
)]
#[cfg_attr(
    feature = "tls",
    doc = "| [`tls_client_cert`](Builder::tls_client_cert) | `{ cert = \"..\", key = \"..\" }`, both the same |"
)]
///
/// # Examples
///
/// ```
/// #[derive(serde::Deserialize)]
/// struct Settings {
///     locks: quorlock::Builder,
/// }
///
/// let file = r#"
///     [locks]
///     nodes = ["redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3"]
///     ttl = "5s"
///     backoff = { min = "5ms", max = "50ms" }
/// "#;
/// let settings: Settings = toml::from_str(file)?;
/// let locks = settings.locks.owner_label("billing").build()?;
/// # drop(locks);
///
/// let error = toml::from_str::<quorlock::Builder>("tll = \"5s\"").expect_err("a slip of the pen");
/// assert!(error.to_string().contains("unknown field `tll`"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[cfg_attr(docsrs, doc(cfg(feature = "serde")))]
impl<'de> Deserialize<'de> for Builder {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Written::deserialize(deserializer)?.read().map_err(D::Error::custom)
    }
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    nodes: Option<Nodes>,
    password: Option<String>,
    ttl: Option<Span>,
    max_ttl: Option<Span>,
    clock_tolerance: Option<Span>,
    set_name: Option<String>,
    restart_quarantine: Option<bool>,
    node_timeout: Option<Span>,
    no_quorum_timeout: Option<Span>,
    renewal: Option<WrittenRenewal>,
    max_hold: Option<Span>,
    min_hold: Option<Span>,
    risk_margin: Option<Span>,
    backoff: Option<Backoff>,
    fallback: Option<WrittenFallback>,
    wait_replicas: Option<WaitReplicas>,
    fencing: Option<bool>,
    local_queue: Option<bool>,
    key_prefix: Option<String>,
    owner_label: Option<String>,
    #[cfg(feature = "tls")]
    tls_ca: Option<Pem>,
    #[cfg(feature = "tls")]
    tls_client_cert: Option<ClientCert>,
}

#[derive(serde::Deserialize)]
#[serde(rename_all = "snake_case")]
enum WrittenRenewal {
    Auto,
    Manual,
}

#[derive(serde::Deserialize)]
#[serde(rename_all = "snake_case")]
enum WrittenFallback {
    Never,
    SingleNode(SingleNode),
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields, expecting = "{ after = \"30s\" } for single_node")]
struct SingleNode {
    after: Span,
}

#[derive(serde::Deserialize)]
#[serde(
    deny_unknown_fields,
    expecting = "the shortest and the longest pause: { min = \"5ms\", max = \"100ms\" }"
)]
struct Backoff {
    min: Span,
    max: Span,
}

#[derive(serde::Deserialize)]
#[serde(
    deny_unknown_fields,
    expecting = "how many and for how long: { replicas = 1, timeout = \"100ms\" }"
)]
struct WaitReplicas {
    replicas: u32,
    timeout: Span,
}

#[cfg(feature = "tls")]
#[derive(serde::Deserialize)]
#[serde(
    deny_unknown_fields,
    expecting = "a certificate and its key: { cert = \"..\", key = \"..\" }"
)]
struct ClientCert {
    cert: Pem,
    key: Pem,
}

impl Written {
    /// Returns the builder with the written settings, or the text of a fault.
    fn read(self) -> Result<Builder, String> {
        fn set<T>(
            builder: Builder,
            value: Option<T>,
            to: impl FnOnce(Builder, T) -> Builder,
        ) -> Builder {
            match value {
                Some(value) => to(builder, value),
                None => builder,
            }
        }
        let mut it = Builder::default();
        it = set(it, self.nodes, |it, Nodes(nodes)| it.nodes(nodes));
        it = set(it, self.password, Builder::password);
        it = set(it, self.ttl, |it, Span(ttl)| it.ttl(ttl));
        it = set(it, self.max_ttl, |it, Span(max_ttl)| it.max_ttl(max_ttl));
        it = set(it, self.clock_tolerance, |it, Span(most)| it.clock_tolerance(most));
        it = set(it, self.set_name, Builder::set_name);
        it = set(it, self.restart_quarantine, Builder::restart_quarantine);
        it = set(it, self.node_timeout, |it, Span(timeout)| it.node_timeout(timeout));
        it = set(it, self.no_quorum_timeout, |it, Span(timeout)| it.no_quorum_timeout(timeout));
        it = set(it, self.renewal, |it, renewal| {
            it.renewal(match renewal {
                WrittenRenewal::Auto => Renewal::Auto,
                WrittenRenewal::Manual => Renewal::Manual,
            })
        });
        it = set(it, self.max_hold, |it, Span(max_hold)| it.max_hold(max_hold));
        it = set(it, self.min_hold, |it, Span(min_hold)| it.min_hold(min_hold));
        it = set(it, self.risk_margin, |it, Span(margin)| it.risk_margin(margin));
        it = set(it, self.backoff, |it, Backoff { min: Span(min), max: Span(max) }| {
            it.backoff(min, max)
        });
        it = set(it, self.fallback, |it, fallback| {
            it.fallback(match fallback {
                WrittenFallback::Never => Fallback::Never,
                WrittenFallback::SingleNode(SingleNode { after: Span(after) }) => {
                    Fallback::SingleNode { after }
                }
            })
        });
        it =
            set(it, self.wait_replicas, |it, WaitReplicas { replicas, timeout: Span(timeout) }| {
                it.wait_replicas(replicas, timeout)
            });
        it = set(it, self.fencing, Builder::fencing);
        it = set(it, self.local_queue, Builder::local_queue);
        it = set(it, self.key_prefix, Builder::key_prefix);
        it = set(it, self.owner_label, Builder::owner_label);
        #[cfg(feature = "tls")]
        {
            if let Some(ca) = self.tls_ca {
                it.certificates.ca = Some(ca.usable("tls_ca")?);
            }
            if let Some(ClientCert { cert, key }) = self.tls_client_cert {
                let cert = cert.usable("tls_client_cert.cert")?;
                it.certificates.client = Some((cert, key.usable("tls_client_cert.key")?));
            }
        }
        Ok(it)
    }
}

/// A certificate or a key: the PEM text itself, or the path of a file with it.
#[cfg(feature = "tls")]
#[derive(serde::Deserialize)]
struct Pem(String);

#[cfg(feature = "tls")]
impl Pem {
    fn usable(self, setting: &str) -> Result<node::Pem, String> {
        let Self(written) = self;
        if written.contains("-----BEGIN ") {
            return Ok(node::Pem::Text(written.into_bytes()));
        }
        let file = node::Pem::File(written.into());
        file.read(setting).map_err(|error| error.to_string())?;
        Ok(file)
    }
}

/// The URLs of the nodes.
struct Nodes(Vec<String>);

impl<'de> Deserialize<'de> for Nodes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct List;

        impl<'de> Visitor<'de> for List {
            type Value = Nodes;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of URLs: [\"redis://HOST\", ..]")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Nodes, A::Error> {
                let mut nodes = Vec::new();
                while let Some(node) = list.next_element()? {
                    nodes.push(node);
                }
                Ok(Nodes(nodes))
            }
        }

        deserializer.deserialize_seq(List)
    }
}

/// A duration, as people write it.
struct Span(Duration);

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;

        impl Visitor<'_> for Text {
            type Value = Span;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a duration with its unit, such as \"10s\" or \"500ms\"")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Span, E> {
                let unreadable = |_| E::invalid_value(serde::de::Unexpected::Str(text), &self);
                humantime::parse_duration(text).map(Span).map_err(unreadable)
            }
        }

        deserializer.deserialize_str(Text)
    }
}
