//! A certificate authority for tests.

use std::path::PathBuf;
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, date_time_ymd};
use rustls::RootCertStore;
use rustls::pki_types::PrivateKeyDer;
use rustls::server::WebPkiClientVerifier;

/// An authority, and files that it wrote.
pub struct Authority {
    folder: tempfile::TempDir,
    issuer: CertifiedIssuer<'static, KeyPair>,
}

impl Authority {
    /// A new one, whose certificate is in `ca.pem`.
    pub fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let folder = tempfile::tempdir().unwrap();
        params.distinguished_name.push(DnType::CommonName, format!("authority of {}", folder.path().display()));
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        std::fs::write(folder.path().join("ca.pem"), issuer.pem()).unwrap();
        Self { folder, issuer }
    }

    /// A file of its folder.
    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A certificate for names, valid until a year.
    pub fn issue(&self, names: &[&str], until: i32) -> (rcgen::Certificate, KeyPair) {
        let names = names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
        let mut params = CertificateParams::new(names).unwrap();
        params.not_before = date_time_ymd(2000, 1, 1);
        params.not_after = date_time_ymd(until, 1, 1);
        let key = KeyPair::generate().unwrap();
        (params.signed_by(&key, &self.issuer).unwrap(), key)
    }

    /// Writes such a certificate and its key to `NAME.pem` and `NAME.key`, and both in DER to `NAME.der`, `NAME.key.der`.
    pub fn issue_files(&self, name: &str, names: &[&str], until: i32) {
        let (certificate, key) = self.issue(names, until);
        let write = |ending: &str, bytes: &[u8]| std::fs::write(self.file(&format!("{name}.{ending}")), bytes).unwrap();
        write("pem", certificate.pem().as_bytes());
        write("key", key.serialize_pem().as_bytes());
        write("der", certificate.der());
        write("key.der", &key.serialize_der());
    }

    /// A server's settings with such a certificate; with `clients`, only for clients whose certificate this authority
    /// signed.
    pub fn server_config(
        &self,
        (certificate, key): &(rcgen::Certificate, KeyPair),
        clients: bool,
    ) -> Arc<rustls::ServerConfig> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder =
            rustls::ServerConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions();
        let builder = if clients {
            let mut roots = RootCertStore::empty();
            roots.add(self.issuer.der().clone()).unwrap();
            let verifier = WebPkiClientVerifier::builder_with_provider(roots.into(), provider).build().unwrap();
            builder.unwrap().with_client_cert_verifier(verifier)
        } else {
            builder.unwrap().with_no_client_auth()
        };
        let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        Arc::new(builder.with_single_cert(vec![certificate.der().clone()], key).unwrap())
    }
}
