//! Certificates of a test, and servers that show them.

#![allow(dead_code, unreachable_pub, reason = "shared by test programs that use parts of it")]

use std::fs;

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};

use super::server::Server;
use super::server::reaper::Folder;

/// A private certificate authority and its signed certificates, in a directory of their own.
pub struct Authority {
    folder: Folder,
    pub pem: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    pub fn new() -> Self {
        let folder = Folder::create("quorlock-certificates");
        let folder = folder.expect("a directory can be made among the temporary files");
        let mut params = CertificateParams::new(Vec::new()).expect("no names");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, "the CA of a test");
        let key = KeyPair::generate().expect("a key");
        let pem = params.self_signed(&key).expect("a certificate").pem();
        fs::write(folder.join("ca.crt"), &pem).expect("a new directory can be written to");
        Self { folder, pem, issuer: Issuer::new(params, key) }
    }

    /// Signs a certificate. Returns the certificate and its key.
    pub fn sign(&self, names: &[&str], change: impl FnOnce(&mut CertificateParams)) -> [String; 2] {
        let names: Vec<_> = names.iter().map(ToString::to_string).collect();
        let mut params = CertificateParams::new(names).expect("names of a certificate");
        change(&mut params);
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &self.issuer).expect("a certificate");
        [certificate.pem(), key.serialize_pem()]
    }

    /// A self-signed certificate for 127.0.0.1, and its key.
    pub fn self_signed(is_ca: IsCa) -> [String; 2] {
        let names = vec!["127.0.0.1".to_owned()];
        let mut params = CertificateParams::new(names).expect("names of a certificate");
        params.is_ca = is_ca;
        let key = KeyPair::generate().expect("a key");
        let certificate = params.self_signed(&key).expect("a certificate");
        [certificate.pem(), key.serialize_pem()]
    }

    /// A server that shows this certificate and, if `client` is "yes", demands one from clients.
    pub fn server(&self, [certificate, key]: &[String; 2], client: &str) -> Server {
        let file = |name: &str, text: &str| {
            let path = self.folder.join(name);
            fs::write(&path, text).expect("a new directory can be written to");
            path.to_str().expect("a path that is text").to_owned()
        };
        let (ca, crt) = (file("ca.crt", &self.pem), file("server.crt", certificate));
        let key = file("server.key", key);
        Server::start_with(
            &[
                &["--unixsocket", "redis.sock", "--tls-auth-clients", client],
                &["--tls-ca-cert-file", &ca, "--tls-cert-file", &crt, "--tls-key-file", &key][..],
            ]
            .concat(),
        )
    }

    pub fn ordinary_server(&self, client: &str) -> Server {
        self.server(&self.sign(&["127.0.0.1", "localhost"], |_| ()), client)
    }
}
