//! TLS: the certificates, and the faults that have to do with them.

use std::error::Error as StdError;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::{fs, io};

use parking_lot::Mutex;
use rustls::client::Resumption;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{AlertDescription, CertificateError, ClientConfig, ClientConnection, RootCertStore};

use crate::error::{Cause, Error};
use crate::observe;
use crate::terms::{TLS_CA, TLS_CLIENT_CERT};

/// A text in PEM, or the file that has it.
///
/// Has no `Debug`: it may be a private key.
#[derive(Clone)]
pub(crate) enum Pem {
    Text(Vec<u8>),
    /// A file that is read again for each new connection.
    File(PathBuf),
}

impl Pem {
    pub(crate) fn read(&self, setting: impl fmt::Display) -> Result<Vec<u8>, Error> {
        match self {
            Self::Text(text) => Ok(text.clone()),
            Self::File(path) => fs::read(path).map_err(|error| {
                let path = path.display().to_string();
                let path = path.escape_debug();
                Error::config(format!(
                    "{setting}: the file \"{path:.200}\" cannot be read ({error}); give its path, or the PEM text itself"
                ))
            }),
        }
    }

    const fn is_file(&self) -> bool {
        matches!(self, Self::File(_))
    }
}

/// Certificates as the settings give them.
#[derive(Clone, Default)]
pub(crate) struct Certificates {
    /// Certificates of the CAs that may sign a server's certificate; `None`: those of the public CAs.
    pub(crate) ca: Option<Pem>,
    /// Our own certificate, and the key that belongs to it.
    pub(crate) client: Option<(Pem, Pem)>,
}

impl Certificates {
    /// Reads the certificates, and checks that they can be used: a fault is reported when they are set, not when they are needed.
    pub(crate) fn checked(&self) -> Result<Texts, Error> {
        let texts = self.read()?;
        if self.ca.is_some() || self.client.is_some() {
            texts.config()?;
        }
        Ok(texts)
    }

    /// The TLS settings for the node on that host, which is at `position` in the configuration. `texts` are those that were
    /// checked: a pipe can be read only once.
    pub(super) fn for_node(
        &self,
        texts: &Texts,
        host: &str,
        position: usize,
    ) -> Result<Connector, Error> {
        let host = ServerName::try_from(host).map_err(|_| {
            Error::config(format!(
                "the URL of node {position} names a host, \"{host}\", that TLS cannot use; write a \
                 name or an IP address of the server's certificate"
            ))
        })?;
        let config = Arc::new(texts.config()?);
        let last = Last { texts: texts.clone(), config, is_told: false };
        let last = Arc::new(Mutex::new(last));
        Ok(Connector { certificates: self.clone(), host: host.to_owned(), last })
    }

    fn read(&self) -> Result<Texts, Error> {
        let ca = self.ca.as_ref().map(|ca| ca.read(TLS_CA)).transpose()?;
        let read = |pem: &Pem| pem.read(TLS_CLIENT_CERT);
        let client = match &self.client {
            Some((certificate, key)) => Some((read(certificate)?, read(key)?)),
            None => None,
        };
        Ok(Texts { ca, client })
    }

    fn may_change(&self) -> bool {
        let client = self.client.iter().flat_map(|(certificate, key)| [certificate, key]);
        self.ca.iter().chain(client).any(Pem::is_file)
    }
}

/// The texts of certificates, in PEM.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Texts {
    ca: Option<Vec<u8>>,
    client: Option<(Vec<u8>, Vec<u8>)>,
}

impl Texts {
    /// Makes the TLS configuration. No text of a PEM parser is shown: it may quote the line that it stumbled over.
    fn config(&self) -> Result<ClientConfig, Error> {
        install_provider();
        let mut roots = RootCertStore::empty();
        match &self.ca {
            Some(ca) => {
                let unreadable = || {
                    Error::config(format!(
                        "{TLS_CA} is no PEM certificate; give it the text that begins with \
                         -----BEGIN CERTIFICATE-----"
                    ))
                };
                for certificate in chain(ca).ok_or_else(unreadable)? {
                    roots.add(certificate).map_err(|_| unreadable())?;
                }
            }
            None => roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned()),
        }
        let config = ClientConfig::builder().with_root_certificates(roots);
        let mut config = match &self.client {
            None => config.with_no_client_auth(),
            Some((certificate, key)) => {
                let chain = chain(certificate).ok_or_else(|| {
                    Error::config(format!(
                        "the certificate of {TLS_CLIENT_CERT} is no PEM certificate; give it the text \
                         that begins with -----BEGIN CERTIFICATE-----"
                    ))
                })?;
                let key = PrivateKeyDer::from_pem_slice(key).map_err(|_| {
                    Error::config(format!(
                        "the key of {TLS_CLIENT_CERT} is no PEM private key; give it the text that \
                         begins with -----BEGIN PRIVATE KEY----- (not encrypted)"
                    ))
                })?;
                config.with_client_auth_cert(chain, key).map_err(|error| {
                    Error::config(format!(
                        "the certificate and the key of {TLS_CLIENT_CERT} cannot be used together \
                         ({error})"
                    ))
                })?
            }
        };
        // Each connection shows its certificates, which costs little: connections are made seldom.
        config.resumption = Resumption::disabled();
        Ok(config)
    }
}

/// Makes TLS connections to one host.
#[derive(Clone)]
pub(super) struct Connector {
    certificates: Certificates,
    host: ServerName<'static>,
    /// The certificates of the last connection.
    last: Arc<Mutex<Last>>,
}

struct Last {
    texts: Texts,
    config: Arc<ClientConfig>,
    /// True if it was reported that the present files cannot be used.
    is_told: bool,
}

impl Connector {
    pub(super) fn connect(&self) -> io::Result<ClientConnection> {
        ClientConnection::new(self.config(), self.host.clone()).map_err(io::Error::other)
    }

    /// The configuration from the files as they are now. While they cannot be used, perhaps since they are just being replaced, it is
    /// the last connection's.
    fn config(&self) -> Arc<ClientConfig> {
        if !self.certificates.may_change() {
            return self.last.lock().config.clone();
        }
        let texts = self.certificates.read();
        let mut last = self.last.lock();
        let made = match texts {
            Ok(texts) if texts == last.texts => None,
            Ok(texts) => Some(texts.config().map(|config| (texts, config))),
            Err(error) => Some(Err(error)),
        };
        let mut error = None;
        match made {
            None => last.is_told = false,
            Some(Ok((texts, config))) => {
                *last = Last { texts, config: Arc::new(config), is_told: false };
            }
            Some(Err(why)) => error = (!std::mem::replace(&mut last.is_told, true)).then_some(why),
        }
        let config = last.config.clone();
        drop(last);
        // The lock is free by now: a subscriber of the events may take its time.
        if let Some(error) = error {
            observe::certificates_unusable(&error);
        }
        config
    }
}

/// The certificates in a PEM text, of which there must be at least one.
fn chain(pem: &[u8]) -> Option<Vec<CertificateDer<'static>>> {
    let chain = CertificateDer::pem_slice_iter(pem).collect::<Result<Vec<_>, _>>().ok()?;
    (!chain.is_empty()).then_some(chain)
}

/// Installs our cryptography, unless the application has chosen one as the process's default.
fn install_provider() {
    if CryptoProvider::get_default().is_none() {
        // This fails only if another thread was faster.
        let _ = ring::default_provider().install_default();
    }
}

/// The cause and the text of a failure, if it has to do with TLS. The cause shows if the failure lasts until a
/// certificate is changed.
pub(super) fn fault(source: &(dyn StdError + 'static)) -> Option<(Cause, String)> {
    let of_io = source.downcast_ref::<io::Error>().and_then(|error| error.get_ref());
    let error = match of_io {
        Some(inner) => inner.downcast_ref::<rustls::Error>(),
        None => source.downcast_ref::<rustls::Error>(),
    };
    error.map(|error| (cause(error), explain(error)))
}

/// The cause of a TLS error. Handshake alerts that are not about certificates may come from a server that is being restarted.
fn cause(error: &rustls::Error) -> Cause {
    use rustls::Error::{AlertReceived, InvalidCertificate};
    match error {
        InvalidCertificate(_) => Cause::Unfit,
        AlertReceived(alert) if is_about_our_certificate(*alert) => Cause::Unfit,
        AlertReceived(
            AlertDescription::CertificateRequired | AlertDescription::HandshakeFailure,
        ) => Cause::Unfit,
        _ => Cause::Way,
    }
}

/// Returns true if the server has seen our certificate, and refuses it.
fn is_about_our_certificate(alert: AlertDescription) -> bool {
    matches!(
        alert,
        AlertDescription::UnknownCA
            | AlertDescription::BadCertificate
            | AlertDescription::UnsupportedCertificate
            | AlertDescription::CertificateUnknown
            | AlertDescription::CertificateExpired
            | AlertDescription::CertificateRevoked
            | AlertDescription::DecryptError
            | AlertDescription::AccessDenied
    )
}

fn explain(error: &rustls::Error) -> String {
    use rustls::Error::{AlertReceived, InvalidCertificate, InvalidMessage};
    match error {
        InvalidCertificate(why) => explain_certificate(why),
        AlertReceived(AlertDescription::CertificateRequired) => {
            format!("the server wants a client certificate; set {TLS_CLIENT_CERT}")
        }
        // TLS 1.2 says this instead, among other things.
        AlertReceived(AlertDescription::HandshakeFailure) => format!(
            "the server refused the TLS handshake; if it wants a client certificate, set \
             {TLS_CLIENT_CERT}"
        ),
        AlertReceived(alert) if is_about_our_certificate(*alert) => format!(
            "the server does not trust our client certificate ({}); set {TLS_CLIENT_CERT} to one that \
             its CA has signed",
            alert.as_str().unwrap_or("for a reason of its own")
        ),
        InvalidMessage(_) => {
            "the server there does not speak TLS; check host and port, or use redis://".to_owned()
        }
        other => format!("TLS failed: {other}"),
    }
}

fn explain_certificate(why: &CertificateError) -> String {
    match why {
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => format!(
            "the server's certificate has expired ({why}); renew it, or set this machine's clock"
        ),
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            format!("the server's certificate is not valid yet ({why}); check this machine's clock")
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            format!(
                "the server's certificate is for another name: {why}; use a name of the \
                 certificate in the URL, or have this one added to it"
            )
        }
        // Webpki's error for a CA's certificate, which rustls hands on as it is.
        CertificateError::Other(other) if other.to_string() == "CaUsedAsEndEntity" => format!(
            "the server shows a CA's own certificate (self-signed ones are that by default), which \
             cannot be a server's; make one with basicConstraints CA:FALSE (openssl req -x509 .. \
             -addext basicConstraints=critical,CA:FALSE -addext subjectAltName=DNS:host, or IP:address), \
             or one that the CA has signed, and set {TLS_CA} to that certificate or to its CA's"
        ),
        // The second error comes if another CA has the same name.
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            format!("the server's certificate is not trusted: {why}; set {TLS_CA} to its CA")
        }
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
            format!(
                "the server's certificate is not one for servers: {why}; have one signed with \
             extendedKeyUsage=serverAuth"
            )
        }
        CertificateError::Revoked => {
            "the server's certificate has been revoked; give the server a new one".to_owned()
        }
        _ => format!("the server's certificate cannot be used: {why}; give the server another one"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_certificate_error_has_its_own_advice() {
        for (error, words) in [
            (CertificateError::UnknownIssuer, "set tls_ca to its CA"),
            (CertificateError::BadSignature, "set tls_ca to its CA"),
            (CertificateError::Expired, "renew it"),
            (CertificateError::NotValidYet, "check this machine's clock"),
            (CertificateError::NotValidForName, "use a name of the certificate"),
            (CertificateError::InvalidPurpose, "extendedKeyUsage=serverAuth"),
            (CertificateError::Revoked, "give the server a new one"),
            (CertificateError::BadEncoding, "give the server another one"),
            (CertificateError::UnhandledCriticalExtension, "give the server another one"),
        ] {
            let is_issuer =
                matches!(error, CertificateError::UnknownIssuer | CertificateError::BadSignature);
            let error = rustls::Error::InvalidCertificate(error);
            let told = explain(&error);
            assert!(told.contains(words), "{told}");
            assert_eq!(told.contains("tls_ca"), is_issuer, "{told}");
            assert_eq!(cause(&error), Cause::Unfit, "{told}");
        }
    }

    /// A connection is tried again if the next try may end otherwise.
    #[test]
    fn what_may_pass_is_no_refusal_for_good() {
        let is_for_good = |error| cause(&error) == Cause::Unfit;
        let alert = rustls::Error::AlertReceived;
        assert!(is_for_good(alert(AlertDescription::CertificateRequired)));
        assert!(is_for_good(alert(AlertDescription::UnknownCA)));
        assert!(is_for_good(alert(AlertDescription::HandshakeFailure)));
        assert!(!is_for_good(alert(AlertDescription::InternalError)));
        assert!(!is_for_good(rustls::Error::HandshakeNotComplete));
    }
}
