//! Section "TLS": encryption of either protocol.

use std::path::PathBuf;

use clap::{ArgAction, Args};

use crate::plan::{CredentialFile, Tls};
use crate::values::{boolean, file, one_of, whole};

/// Words of file forms: whether it is DER.
const FORMS: &[(&str, bool)] = &[("PEM", false), ("DER", true)];

/// Encryption of either protocol.
#[derive(Args, Debug)]
#[command(next_help_heading = "TLS")]
pub struct TlsArgs {
    /// gRPC: uses TLS. Default: false
    #[arg(long, action = ArgAction::Set, value_name = "true|false", num_args = 0..=1, require_equals = true,
        default_value = "false",
        hide_default_value = true, default_missing_value = "true", value_parser = boolean)]
    ssl_grpc_use_ssl: bool,

    /// gRPC: trusted certificate authorities, PEM. Default: the system's
    #[arg(long, value_name = "FILE", value_parser = file)]
    ssl_grpc_root_certifications_file: Option<PathBuf>,

    /// gRPC: the client's private key, PEM. Default: none
    #[arg(long, value_name = "FILE", value_parser = file)]
    ssl_grpc_private_key_file: Option<PathBuf>,

    /// gRPC: the client's certificate chain, PEM. Default: none
    #[arg(long, value_name = "FILE", value_parser = file)]
    ssl_grpc_certificate_chain_file: Option<PathBuf>,

    /// HTTPS and gRPC: whether to verify the server's certificate; 0 accepts any
    #[arg(long, value_name = "0|1", default_value = "1", value_parser = whole::<u8>(0, 1))]
    ssl_https_verify_peer: u8,

    /// HTTPS and gRPC: whether the certificate must match the host name; 0 accepts any
    #[arg(long, value_name = "0|1|2", default_value = "2", value_parser = whole::<u8>(0, 2))]
    ssl_https_verify_host: u8,

    /// HTTPS: trusted certificate authorities, PEM. Default: the system's
    #[arg(long, value_name = "FILE", value_parser = file)]
    ssl_https_ca_certificates_file: Option<PathBuf>,

    /// HTTPS: the client's certificate. Default: none
    #[arg(long, value_name = "FILE", value_parser = file)]
    ssl_https_client_certificate_file: Option<PathBuf>,

    /// HTTPS: format of the client's certificate
    #[arg(long, action = ArgAction::Set, value_name = "PEM|DER", default_value = "PEM", value_parser = one_of(FORMS))]
    ssl_https_client_certificate_type: bool,

    /// HTTPS: the client's private key. Default: none
    #[arg(long, value_name = "FILE", value_parser = file)]
    ssl_https_private_key_file: Option<PathBuf>,

    /// HTTPS: format of the private key
    #[arg(long, action = ArgAction::Set, value_name = "PEM|DER", default_value = "PEM", value_parser = one_of(FORMS))]
    ssl_https_private_key_type: bool,
}

impl TlsArgs {
    /// Settings of HTTP, which encrypts where the URL says so.
    pub fn https(&self, url: &str) -> Tls {
        let credential = |path: &Option<PathBuf>, der| path.clone().map(|path| CredentialFile { path, der });
        Tls {
            enabled: encrypted(url),
            skip_peer_verification: self.ssl_https_verify_peer == 0,
            skip_host_verification: self.ssl_https_verify_host == 0,
            ca_certificates: self.ssl_https_ca_certificates_file.clone(),
            client_certificate: credential(
                &self.ssl_https_client_certificate_file,
                self.ssl_https_client_certificate_type,
            ),
            private_key: credential(&self.ssl_https_private_key_file, self.ssl_https_private_key_type),
        }
    }

    /// Settings of gRPC, which encrypts where the flag or the URL says so. It has no flags of its own for certificates that another
    /// host's name is in, or that nobody has signed.
    pub fn grpc(&self, url: &str) -> Tls {
        let credential = |path: &Option<PathBuf>| path.clone().map(|path| CredentialFile { path, der: false });
        Tls {
            enabled: self.ssl_grpc_use_ssl || encrypted(url),
            skip_peer_verification: self.ssl_https_verify_peer == 0,
            skip_host_verification: self.ssl_https_verify_host == 0,
            ca_certificates: self.ssl_grpc_root_certifications_file.clone(),
            client_certificate: credential(&self.ssl_grpc_certificate_chain_file),
            private_key: credential(&self.ssl_grpc_private_key_file),
        }
    }
}

fn encrypted(url: &str) -> bool {
    url.get(..8).is_some_and(|scheme| scheme.eq_ignore_ascii_case("https://"))
}
