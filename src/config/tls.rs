//! The settings of the feature `tls`.

use super::Builder;

impl Builder {
    /// The certificates, in PEM, of the CA that signed the certificates of the `rediss://` nodes:
    /// nobody else's are trusted then.
    ///
    /// Defaults to the public CAs that Mozilla trusts, which are compiled in: they are the same on
    /// every machine, also in a container without any, and no reconnect has to read files. The
    /// system's own are not looked at; a company's CA has to be set here.
    ///
    /// TLS uses the process's default `rustls` cryptography. If there is none when the client is
    /// built, `ring` becomes it; install another one before, if you want that.
    pub fn tls_ca(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.certificates.ca = Some(pem.into());
        self
    }

    /// A certificate, with those that lead to its CA, and its private key (not encrypted), both in
    /// PEM, for `rediss://` nodes that want one.
    ///
    /// Defaults to none. It does not log in: user and password stay in the URL.
    pub fn tls_client_cert(
        mut self,
        cert_pem: impl Into<Vec<u8>>,
        key_pem: impl Into<Vec<u8>>,
    ) -> Self {
        self.certificates.client = Some((cert_pem.into(), key_pem.into()));
        self
    }
}
