//! [`TlsClient`]: the TLS flags as a client configuration.

use std::fmt::Debug;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{
    CertificateError, ClientConfig, ClientConnection, DigitallySignedStruct, Error as TlsError, RootCertStore,
    SignatureScheme,
};

use crate::error::{Error, Result};

/// TLS settings of either protocol.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tls {
    /// Encrypt even if the URL has no `https`.
    pub enabled: bool,
    /// Accept any certificate.
    pub skip_peer_verification: bool,
    /// Accept a certificate for another host.
    pub skip_host_verification: bool,
    /// Authorities to trust (PEM) instead of the system's.
    pub ca_certificates: Option<PathBuf>,
    /// The client's certificate chain.
    pub client_certificate: Option<CredentialFile>,
    /// The client's private key.
    pub private_key: Option<CredentialFile>,
}

/// A certificate or key file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CredentialFile {
    /// Where it is.
    pub path: PathBuf,
    /// DER instead of PEM.
    pub der: bool,
}

/// A TLS client configuration, read from files once.
#[derive(Clone)]
pub struct TlsClient {
    config: Arc<ClientConfig>,
}

impl TlsClient {
    /// Reads the files that `settings` name. `protocols` is offered by ALPN (`http/1.1`, `h2`).
    ///
    /// # Errors
    /// An input error that names the file and what is wrong with it.
    pub fn new(settings: &Tls, protocols: &[&str]) -> Result<Self> {
        let provider = Arc::new(ring::default_provider());
        let verifier = Verifier::new(settings, &provider)?;
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| Error::machine(format!("TLS: {error}")))?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier));
        let mut config = match (&settings.client_certificate, &settings.private_key) {
            (None, None) => builder.with_no_client_auth(),
            (Some(certificate), Some(key)) => {
                builder.with_client_auth_cert(read_chain(certificate)?, read_key(key)?).map_err(|error| {
                    let (chain, key) = (certificate.path.display(), key.path.display());
                    Error::input(format!("client certificate '{chain}' and private key '{key}': {error}"))
                })?
            }
            (Some(credential), None) | (None, Some(credential)) => {
                return Err(Error::usage(format!(
                    "'{}': a client certificate and its private key are only useful together; pass both or neither",
                    credential.path.display()
                )));
            }
        };
        config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
        Ok(Self { config: Arc::new(config) })
    }

    /// A session with `host`, before its handshake.
    ///
    /// # Errors
    /// If `host` is neither a DNS name nor an address.
    pub fn session(&self, host: &str) -> io::Result<ClientConnection> {
        let name = ServerName::try_from(host.to_owned())
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, format!("'{host}': {error}")))?;
        ClientConnection::new(self.config.clone(), name)
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
    }
}

fn read_file(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).map_err(|error| Error::input(format!("'{}': {error}", path.display())))
}

fn read_chain(file: &CredentialFile) -> Result<Vec<CertificateDer<'static>>> {
    let bytes = read_file(&file.path)?;
    if file.der { Ok(vec![CertificateDer::from(bytes)]) } else { pem_certificates(&file.path, &bytes) }
}

fn pem_certificates(path: &Path, bytes: &[u8]) -> Result<Vec<CertificateDer<'static>>> {
    let refuse = |why: String| Error::input(format!("'{}': {why}; expected certificates in PEM", path.display()));
    let certificates: Vec<_> =
        CertificateDer::pem_slice_iter(bytes).collect::<Result<_, _>>().map_err(|error| refuse(error.to_string()))?;
    if certificates.is_empty() {
        return Err(refuse("no certificate in it".to_owned()));
    }
    Ok(certificates)
}

fn read_key(file: &CredentialFile) -> Result<PrivateKeyDer<'static>> {
    let bytes = read_file(&file.path)?;
    let refuse = |why: String| Error::input(format!("private key '{}': {why}", file.path.display()));
    if file.der {
        PrivateKeyDer::try_from(bytes).map_err(|why| refuse(format!("{why}; expected PKCS#8, PKCS#1 or SEC1 in DER")))
    } else {
        PrivateKeyDer::from_pem_slice(&bytes)
            .map_err(|error| refuse(format!("{error}; expected an unencrypted key in PEM")))
    }
}

/// Checks the server's certificate as far as the flags ask for. As with upstream's flags, its name is still checked if
/// only the check of its issuer is switched off.
///
/// A certificate that is itself in the trusted list is accepted even if it is an authority's (self-signed certificates
/// often are): the user named it.
#[derive(Debug)]
struct Verifier {
    /// Absent if any certificate will do.
    peer: Option<Arc<WebPkiServerVerifier>>,
    trusted: Vec<CertificateDer<'static>>,
    check_host: bool,
    provider: Arc<CryptoProvider>,
}

impl Verifier {
    fn new(settings: &Tls, provider: &Arc<CryptoProvider>) -> Result<Self> {
        let check_host = !settings.skip_host_verification;
        if settings.skip_peer_verification {
            return Ok(Self { peer: None, trusted: Vec::new(), check_host, provider: provider.clone() });
        }
        let trusted = match &settings.ca_certificates {
            Some(path) => pem_certificates(path, &read_file(path)?)?,
            None => rustls_native_certs::load_native_certs().certs,
        };
        let mut roots = RootCertStore::empty();
        let (taken, _) = roots.add_parsable_certificates(trusted.iter().cloned());
        if taken == 0 {
            return Err(match &settings.ca_certificates {
                Some(path) => Error::input(format!("'{}': none of its certificates can be used", path.display())),
                None => {
                    Error::machine("this machine has no trusted certificates; name some with the CA certificates flag")
                }
            });
        }
        let peer = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider.clone())
            .build()
            .map_err(|error| Error::machine(format!("TLS: {error}")))?;
        Ok(Self { peer: Some(peer), trusted, check_host, provider: provider.clone() })
    }

    /// Whether the only objection in `error` is that a certificate which is itself trusted belongs to an authority.
    /// That check comes after the one of the validity dates and before that of the name.
    fn is_named_authority(&self, certificate: &CertificateDer<'_>, error: &TlsError) -> bool {
        let TlsError::InvalidCertificate(CertificateError::Other(other)) = error else { return false };
        other.0.to_string() == "CaUsedAsEndEntity" && self.trusted.iter().any(|trusted| trusted == certificate)
    }
}

fn is_name_mismatch(error: &TlsError) -> bool {
    matches!(
        error,
        TlsError::InvalidCertificate(
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. }
        )
    )
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, TlsError> {
        let check_name = || {
            if self.check_host {
                rustls::client::verify_server_name(&ParsedCertificate::try_from(certificate)?, name)?;
            }
            Ok(ServerCertVerified::assertion())
        };
        let Some(peer) = &self.peer else { return check_name() };
        match peer.verify_server_cert(certificate, intermediates, name, ocsp, now) {
            Err(error) if !self.check_host && is_name_mismatch(&error) => Ok(ServerCertVerified::assertion()),
            Err(error) if self.is_named_authority(certificate, &error) => check_name(),
            other => other,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, TlsError> {
        rustls::crypto::verify_tls12_signature(
            message,
            certificate,
            signed,
            &self.provider.signature_verification_algorithms,
        )
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, TlsError> {
        rustls::crypto::verify_tls13_signature(
            message,
            certificate,
            signed,
            &self.provider.signature_verification_algorithms,
        )
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
