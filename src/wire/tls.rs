//! [`TlsClient`]: the TLS flags as a client configuration.

mod certificate;
mod der;

use std::fmt::Debug;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, SubjectPublicKeyInfoDer, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{
    CertificateError, ClientConfig, ClientConnection, DigitallySignedStruct, Error as TlsError, InconsistentKeys,
    RootCertStore, SignatureScheme,
};

use self::certificate::Certificate;
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
        let builder = ClientConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .map_err(|error| Error::machine(format!("TLS: {error}")))?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier));
        let mut config = match (&settings.client_certificate, &settings.private_key) {
            (None, None) => builder.with_no_client_auth(),
            (Some(certificate), Some(key)) => {
                let shown = identity(read_chain(certificate)?, read_key(key)?, &provider).map_err(|error| {
                    let (chain, key) = (certificate.path.display(), key.path.display());
                    Error::input(format!("client certificate '{chain}' and private key '{key}': {error}"))
                })?;
                builder.with_client_cert_resolver(Arc::new(SingleCertAndKey::from(shown)))
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

/// A certificate and its key. Whether they belong together, rustls does not say of old certificates.
fn identity(
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
    provider: &CryptoProvider,
) -> Result<CertifiedKey, TlsError> {
    let Some(old) = chain.first().and_then(|first| Certificate::old(first)) else {
        return CertifiedKey::from_der(chain, key, provider);
    };
    let key = provider.key_provider.load_private_key(key)?;
    if key.public_key().is_some_and(|public| *public != *old.key) {
        return Err(InconsistentKeys::KeyMismatch.into());
    }
    Ok(CertifiedKey::new(chain, key))
}

/// Checks the server's certificate as far as the flags ask for. As with upstream's flags, its name is still checked if
/// only the check of its issuer is switched off.
///
/// A certificate that is itself in the trusted list is accepted even if it is an authority's (self-signed certificates
/// often are): the user named it. So is one of an authority that is trusted. Old ones are checked here, because rustls refuses them.
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

    /// Whether the only objection in `error` is that a certificate belongs to an authority, and it is itself trusted, or one that is
    /// has signed it: `openssl req -x509` makes authorities of servers. That check comes after the one of the validity dates and
    /// before that of the name.
    fn is_trusted_authority(&self, certificate: &CertificateDer<'_>, error: &TlsError) -> bool {
        let TlsError::InvalidCertificate(CertificateError::Other(other)) = error else { return false };
        other.0.to_string() == "CaUsedAsEndEntity"
            && Certificate::read(certificate).is_some_and(|certificate| self.is_trusted(&certificate))
    }

    fn is_trusted(&self, certificate: &Certificate<'_>) -> bool {
        let trusted = self.trusted.iter().map(|trusted| &trusted[..]);
        certificate.is_trusted(trusted, self.provider.signature_verification_algorithms.all)
    }

    /// Checks an old certificate, but for its name.
    fn check_old(&self, old: &Certificate<'_>, now: UnixTime) -> Result<(), TlsError> {
        if !self.is_trusted(old) {
            return Err(CertificateError::UnknownIssuer.into());
        }
        old.check_time(now).map_err(TlsError::from)
    }

    /// Checks the name of a certificate that is good otherwise, if that is asked for.
    fn check_name(&self, certificate: &CertificateDer<'_>, name: &ServerName<'_>) -> Result<(), TlsError> {
        if !self.check_host {
            return Ok(());
        }
        let read = Certificate::read(certificate);
        if read.as_ref().is_some_and(|certificate| certificate.is_of(name)) {
            return Ok(());
        }
        match read.and_then(|certificate| certificate.name()) {
            Some(presented) => {
                let (expected, presented) = (name.to_owned(), vec![presented.to_owned()]);
                Err(CertificateError::NotValidForNameContext { expected, presented }.into())
            }
            None => rustls::client::verify_server_name(&ParsedCertificate::try_from(certificate)?, name),
        }
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
        if let Some(peer) = &self.peer {
            match Certificate::old(certificate) {
                Some(old) => self.check_old(&old, now)?,
                None => match peer.verify_server_cert(certificate, intermediates, name, ocsp, now) {
                    Err(error) if !is_name_mismatch(&error) && !self.is_trusted_authority(certificate, &error) => {
                        return Err(error);
                    }
                    Ok(verified) => return Ok(verified),
                    // The name is checked last.
                    Err(_) => {}
                },
            }
        }
        self.check_name(certificate, name).map(|()| ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, TlsError> {
        let algorithms = &self.provider.signature_verification_algorithms;
        let Some(old) = Certificate::old(certificate) else {
            return rustls::crypto::verify_tls12_signature(message, certificate, signed, algorithms);
        };
        let of_scheme = algorithms.mapping.iter().filter(|(scheme, _)| *scheme == signed.scheme);
        let mut possible = of_scheme.flat_map(|(_, algorithms)| *algorithms);
        match possible.any(|algorithm| old.has_signed(*algorithm, message, signed.signature())) {
            true => Ok(HandshakeSignatureValid::assertion()),
            false => Err(CertificateError::BadSignature.into()),
        }
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, TlsError> {
        let algorithms = &self.provider.signature_verification_algorithms;
        match Certificate::old(certificate) {
            None => rustls::crypto::verify_tls13_signature(message, certificate, signed, algorithms),
            Some(old) => {
                let key = SubjectPublicKeyInfoDer::from(old.key);
                rustls::crypto::verify_tls13_signature_with_raw_key(message, &key, signed, algorithms)
            }
        }
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
