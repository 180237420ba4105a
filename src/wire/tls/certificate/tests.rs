//! Handshakes between two ends in memory.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{ServerConfig, ServerConnection, SupportedProtocolVersion, version};

use super::*;
use crate::{CredentialFile, Tls, TlsClient};

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tls/test_certificates").join(name)
}

fn der(name: &str) -> CertificateDer<'static> {
    CertificateDer::from_pem_file(file(name)).unwrap()
}

fn trusting(authority: &str) -> Tls {
    Tls { ca_certificates: Some(file(authority)), ..Tls::default() }
}

/// A server that shows a certificate, of `localhost`'s key.
fn server(certificate: &str, version: &'static SupportedProtocolVersion) -> ServerConnection {
    let provider = rustls::crypto::ring::default_provider();
    let key = PrivateKeyDer::from_pem_file(file("localhost.key")).unwrap();
    // As it is: rustls would not show an old one.
    let shown = CertifiedKey::new(vec![der(certificate)], provider.key_provider.load_private_key(key).unwrap());
    let builder = ServerConfig::builder_with_provider(provider.into()).with_protocol_versions(&[version]).unwrap();
    let config = builder.with_no_client_auth().with_cert_resolver(Arc::new(SingleCertAndKey::from(shown)));
    ServerConnection::new(Arc::new(config)).unwrap()
}

/// Shakes hands with `host`, which shows a certificate; says why not.
fn shake(tls: &Tls, host: &str, certificate: &str) -> Result<(), String> {
    let outcomes = [&version::TLS12, &version::TLS13].map(|version| {
        let mut client = TlsClient::new(tls, &[]).unwrap().session(host).unwrap();
        let mut server = server(certificate, version);
        while client.is_handshaking() || server.is_handshaking() {
            let mut bytes = Vec::new();
            client.write_tls(&mut bytes).unwrap();
            server.read_tls(&mut &bytes[..]).unwrap();
            server.process_new_packets().map_err(|error| error.to_string())?;
            bytes.clear();
            server.write_tls(&mut bytes).unwrap();
            client.read_tls(&mut &bytes[..]).unwrap();
            client.process_new_packets().map_err(|error| error.to_string())?;
        }
        Ok(())
    });
    assert_eq!(outcomes[0], outcomes[1], "{certificate} as {host}");
    outcomes[0].clone()
}

fn refused(outcome: Result<(), String>, why: &str) {
    let error = outcome.unwrap_err();
    assert!(error.contains(why), "{error}");
}

#[test]
fn certificates_without_alternative_names_are_those_of_their_subject() {
    for certificate in ["localhost.pem", "nameless.pem"] {
        assert_eq!(shake(&trusting("ca.pem"), "localhost", certificate), Ok(()), "{certificate}");
        assert_eq!(shake(&trusting("ca.pem"), "LOCALHOST", certificate), Ok(()), "{certificate}");
        refused(shake(&trusting("ca.pem"), "127.0.0.1", certificate), "not valid for name \"127.0.0.1\"");
        let any_host = Tls { skip_host_verification: true, ..trusting("ca.pem") };
        assert_eq!(shake(&any_host, "127.0.0.1", certificate), Ok(()), "{certificate}");
        refused(shake(&trusting("self.pem"), "localhost", certificate), "UnknownIssuer");
        let any_peer = Tls { skip_peer_verification: true, ..Tls::default() };
        assert_eq!(shake(&any_peer, "localhost", certificate), Ok(()), "{certificate}");
        refused(shake(&any_peer, "example.org", certificate), "not valid for name \"example.org\"");
        let anyone = Tls { skip_host_verification: true, ..any_peer };
        assert_eq!(shake(&anyone, "example.org", certificate), Ok(()), "{certificate}");
    }
}

#[test]
fn an_old_certificate_may_be_trusted_itself_and_is_refused_where_its_time_is_over() {
    assert_eq!(shake(&trusting("self.pem"), "localhost", "self.pem"), Ok(()));
    refused(shake(&trusting("self.pem"), "other", "self.pem"), "not valid for name \"other\"");
    refused(shake(&trusting("ca.pem"), "localhost", "self.pem"), "UnknownIssuer");
    refused(shake(&trusting("ca.pem"), "localhost", "expired.pem"), "xpired");
    let any_host = Tls { skip_host_verification: true, ..trusting("ca.pem") };
    refused(shake(&any_host, "localhost", "expired.pem"), "xpired");
}

/// As `openssl req -x509 -CA` makes them.
#[test]
fn a_server_may_be_an_authority_of_one_that_is_trusted() {
    assert_eq!(shake(&trusting("ca.pem"), "localhost", "authority.pem"), Ok(()));
    assert_eq!(shake(&trusting("authority.pem"), "localhost", "authority.pem"), Ok(()));
    refused(shake(&trusting("ca.pem"), "other", "authority.pem"), "not valid for name \"other\"");
    refused(shake(&trusting("self.pem"), "localhost", "authority.pem"), "CaUsedAsEndEntity");
}

#[test]
fn a_changed_certificate_is_nobodys() {
    let (whole, authority) = (der("localhost.pem"), der("ca.pem"));
    let algorithms = rustls::crypto::ring::default_provider().signature_verification_algorithms.all;
    let is_trusted = |bytes: &[u8]| {
        let read = Certificate::old(bytes);
        read.is_some_and(|certificate| certificate.is_trusted(std::iter::once(authority.as_ref()), algorithms))
    };
    assert!(is_trusted(&whole) && Certificate::old(&authority).is_none());
    for at in 0..whole.len() {
        let mut changed = whole.to_vec();
        changed[at] ^= 1;
        assert!(!is_trusted(&changed), "byte {at}");
        assert!(!is_trusted(&whole[..at]), "cut at {at}");
    }
}

#[test]
fn a_client_shows_an_old_certificate_with_its_key_and_no_other() {
    let shown = |key: &str| {
        let path = |name: &str| Some(CredentialFile { path: file(name), der: false });
        let tls = Tls { client_certificate: path("client.pem"), private_key: path(key), ..trusting("ca.pem") };
        TlsClient::new(&tls, &[]).map(drop).map_err(|error| error.to_string())
    };
    assert_eq!(shown("client.key"), Ok(()));
    refused(shown("localhost.key"), "client certificate");
}

#[test]
fn names_are_compared_as_hosts_are() {
    let bytes = der("localhost.pem");
    let certificate = Certificate::read(&bytes).unwrap();
    // The subject's last member.
    let named = |name: &str| {
        let value = [&[0x0c, name.len() as u8][..], name.as_bytes()].concat();
        let member = [&[0x06, 3][..], COMMON_NAME, &value].concat();
        let member = [&[0x30, member.len() as u8][..], &member].concat();
        [&[0x31, member.len() as u8][..], &member].concat()
    };
    for (name, host, is_it) in [
        ("a.example.org", "A.example.org", true),
        ("a.example.org", "a.example.org.", true),
        ("*.example.org", "a.example.org", true),
        ("*.example.org", "a.b.example.org", false),
        ("*.example.org", "example.org", false),
        ("*.org", "example.org", false),
        ("10.0.0.1", "10.0.0.1", true),
        ("*.0.0.1", "10.0.0.1", false),
        ("", "a", false),
    ] {
        let subject = named(name);
        let changed = Certificate { subject: &subject, ..Certificate::read(&bytes).unwrap() };
        assert_eq!(changed.is_of(&ServerName::try_from(host).unwrap()), is_it, "{name} and {host}");
    }
    assert_eq!(certificate.name(), Some("localhost"));
}

#[test]
fn times_are_seconds_since_1970() {
    let second = |tag, text: &str| seconds(&Element { tag, contents: text.as_bytes(), whole: &[] });
    for (text, expected) in [
        ("700101000000Z", Some(0)),
        ("000229120000Z", Some(951_825_600)),
        ("491231235959Z", Some(2_524_607_999)),
        ("500101000000Z", Some(0)),
        ("20000101000000Z", None),
        ("7001010000Z", None),
        ("70010100000+Z", None),
    ] {
        assert_eq!(second(tag::UTC_TIME, text), expected, "{text}");
    }
    assert_eq!(second(tag::GENERALIZED_TIME, "21000101000000Z"), Some(4_102_444_800));
    assert_eq!(second(tag::SEQUENCE, "21000101000000Z"), None);
}
