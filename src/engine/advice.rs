//! What the user can do about a server that cannot be reached.

use std::env;
use std::ffi::{OsStr, OsString};

use crate::Endpoint;
use crate::backend::{ConnectionFault, ErrorCode, InferError};
use crate::failure::OWN_AUTHORITY;
use crate::wire::http1::{IS_TLS, NOT_HTTP};

/// What to change if client and server disagree on TLS over HTTP; `None` for other errors. Waiting longer does not help
/// here.
pub fn https(error: &InferError) -> Option<String> {
    tls(error, "--ssl-https-ca-certificates-file")
}

/// As [`https`], over gRPC.
pub fn grpcs(error: &InferError) -> Option<String> {
    tls(error, "--ssl-grpc-root-certifications-file")
}

/// Whether what answers speaks something else than HTTP/1, to which waiting longer does not help either.
pub fn is_other_protocol(error: &InferError) -> bool {
    error.message.contains(NOT_HTTP)
}

/// Whether that may be HTTP/2.
pub fn is_http2(error: &InferError) -> bool {
    is_other_protocol(error) && !error.message.contains(IS_TLS)
}

/// What to do about a server over gRPC at `endpoint` that cannot be reached; `None` for other errors.
pub fn no_grpc(error: &InferError, endpoint: &Endpoint) -> Option<String> {
    use ConnectionFault::{Failed, Refused, TimedOut};
    // What answers, in another protocol, is said by the error itself.
    let is_unreached =
        matches!(error.code, ErrorCode::Connection(Refused | TimedOut | Failed)) && !error.message.contains("HTTP/2");
    grpcs(error).or_else(|| is_unreached.then(|| reach_it(&endpoint.host, env::var_os)))
}

/// What to do about a server that no connection reaches.
fn reach_it(host: &str, variable: impl Fn(&'static str) -> Option<OsString>) -> String {
    let advice = "start it, name it with -u HOST:PORT, or wait for it with --server-wait SECONDS";
    let is_set = |name: &&'static str| variable(name).is_some_and(|value| !value.is_empty());
    let names = ["http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "grpc_proxy"];
    let is_excepted = ["no_proxy", "NO_PROXY"].into_iter().filter_map(&variable).any(|list| excepts(&list, host));
    // Other clients go through it, and may well reach the server.
    let proxy = names.into_iter().find(is_set).filter(|_| !is_excepted);
    proxy.map_or_else(|| advice.to_owned(), |name| format!("{advice} ({name} is not heeded: connections are direct)"))
}

/// Whether the environment's list of names, with those below them, has this one.
fn excepts(list: &OsStr, host: &str) -> bool {
    let list = list.to_string_lossy();
    let mut names = list.split(',').map(|name| name.trim().trim_start_matches('.')).filter(|name| !name.is_empty());
    let is_below = |name: &str| host.strip_suffix(name).is_some_and(|above| above.is_empty() || above.ends_with('.'));
    names.any(|name| name == "*" || is_below(name))
}

/// What to do about a server at `endpoint` that does not answer over HTTP.
pub fn no_answer(error: &InferError, endpoint: &Endpoint) -> String {
    use ConnectionFault::{Closed, Reset};
    if let Some(advice) = https(error) {
        advice
    } else if error.message.contains(IS_TLS) {
        "use https:// in -u".to_owned()
    } else if is_other_protocol(error) {
        "name its HTTP port with -u HOST:PORT".to_owned()
    } else if endpoint.secure && matches!(error.code, ErrorCode::Connection(Closed | Reset)) {
        "does that port speak TLS? name one that does, use http:// in -u, or show the certificate that it wants of clients"
            .to_owned()
    } else {
        reach_it(&endpoint.host, env::var_os)
    }
}

/// `authorities` is the flag for trusted certificates.
fn tls(error: &InferError, authorities: &str) -> Option<String> {
    let checks = "; --ssl-https-verify-peer 0 and --ssl-https-verify-host 0 accept any certificate";
    let why = &error.message;
    if error.code != ErrorCode::Tls {
        None
    } else if why.contains("UnknownIssuer") || why.contains(OWN_AUTHORITY) {
        Some(format!("name the authority that signed the server's certificate with {authorities} FILE{checks}"))
    } else if why.contains("not valid for name") {
        Some(format!("name the server with -u as its certificate does{checks}"))
    } else if why.contains("invalid peer certificate") {
        Some(format!("the server needs another certificate{checks}"))
    } else if why.contains("NoApplicationProtocol") {
        Some("what listens there speaks TLS, but another protocol: name the right port with -u HOST:PORT".to_owned())
    } else if why.contains("ProtocolVersion") || why.contains("peer is incompatible") {
        Some("the server must offer TLS 1.2 or 1.3, with a cipher that has forward secrecy".to_owned())
    } else {
        Some("see whether the server speaks TLS at that port, and which certificates it wants of clients".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proxy_that_is_not_heeded_is_named() {
        let proxy = || Some("http://proxy:3128".into());
        let advice = |set: &'static str| reach_it("gpu.example.com", |name| (name == set).then(proxy).flatten());
        assert!(advice("").ends_with("--server-wait SECONDS"), "{}", advice(""));
        let warning = "(https_proxy is not heeded: connections are direct)";
        assert!(advice("https_proxy").ends_with(warning));
        let beside = |excepted: &'static str| {
            reach_it("gpu.example.com", |name| match name {
                "https_proxy" => proxy(),
                "no_proxy" => Some(excepted.into()),
                _ => None,
            })
        };
        for excepted in ["*", "localhost, .example.com", "gpu.example.com"] {
            assert!(beside(excepted).ends_with("--server-wait SECONDS"), "{excepted}");
        }
        for excepted in ["localhost,127.0.0.1", "ample.com", ","] {
            assert!(beside(excepted).ends_with(warning), "{excepted}");
        }
    }

    #[test]
    fn what_a_server_says_against_a_handshake_has_an_advice() {
        let advice = |why: &str| grpcs(&InferError::new(ErrorCode::Tls, why)).unwrap_or_default();
        for (why, words) in [
            ("received fatal alert: NoApplicationProtocol", "another protocol"),
            ("received fatal alert: ProtocolVersion", "TLS 1.2 or 1.3"),
            ("peer is incompatible: NoCipherSuitesInCommon", "TLS 1.2 or 1.3"),
            ("received fatal alert: CertificateRequired", "which certificates it wants"),
            ("invalid peer certificate: UnknownIssuer", "--ssl-grpc-root-certifications-file FILE"),
        ] {
            assert!(advice(why).contains(words), "{why}: {}", advice(why));
        }
        assert_eq!(grpcs(&InferError::new("Unavailable", "NoApplicationProtocol")), None);
    }
}
