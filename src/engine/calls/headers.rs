//! The header fields of calls.

use std::time::Duration;

use crate::Endpoint;
use crate::error::{Error, Result};
use crate::http1::USER_AGENT;
use crate::plan::{Compression, ConnectionPlan};
use crate::wire::coding;

/// Header fields, names in lower case.
pub type Fields = Vec<(String, String)>;

/// What all calls to one server share.
#[derive(Clone, Debug)]
pub struct CallHeaders {
    service: String,
    scheme: &'static str,
    authority: String,
    prefix: String,
    metadata: Fields,
}

impl CallHeaders {
    /// For calls to `service`, with its package, at `endpoint`, with the metadata of `connection`.
    ///
    /// # Errors
    /// A usage error where a metadata name or value cannot be sent.
    pub fn new(service: &str, endpoint: &Endpoint, connection: &ConnectionPlan) -> Result<Self> {
        let headers: Fields =
            connection.headers.iter().map(|(name, value)| checked(name, value)).collect::<Result<_>>()?;
        // Gateways choose the service by it, as HTTP's do by the field of that name.
        let (hosts, metadata): (Fields, Fields) = headers.into_iter().partition(|(name, _)| name == "host");
        if hosts.iter().any(|(_, host)| host.is_empty() || host.contains([' ', '/', '@'])) {
            return Err(Error::usage("-H host: over gRPC it is the name of a host, with or without a port"));
        }
        let authority = hosts.into_iter().map(|(_, host)| host).next_back().unwrap_or_else(|| endpoint.authority());
        let scheme = if endpoint.secure { "https" } else { "http" };
        let service = service.to_owned();
        Ok(Self { service, scheme, authority, prefix: endpoint.prefix.clone(), metadata })
    }

    /// The header fields of a call to `method`. Without an `encoding` neither side compresses; with one, even
    /// [`Compression::None`], the server may compress, as gRPC's libraries allow it to.
    pub fn fields(&self, method: &str, encoding: Option<Compression>, deadline: Option<Duration>) -> Fields {
        let accepted = if encoding.is_some() { "identity, deflate, gzip" } else { "identity" };
        let mut fields: Fields = [
            (":method", "POST"),
            (":scheme", self.scheme),
            (":path", &format!("{}/{}/{method}", self.prefix, self.service)),
            (":authority", &self.authority),
            ("te", "trailers"),
            ("content-type", "application/grpc"),
            ("user-agent", USER_AGENT),
            ("grpc-accept-encoding", accepted),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into();
        if let Some(name) = encoding.and_then(coding::name) {
            fields.push(("grpc-encoding".to_owned(), name.to_owned()));
        }
        if let Some(deadline) = deadline {
            fields.push(("grpc-timeout".to_owned(), timeout(deadline)));
        }
        fields.extend(self.metadata.iter().cloned());
        fields
    }
}

/// A duration in the format of `grpc-timeout`: at most eight digits and a unit. Rounded up.
fn timeout(duration: Duration) -> String {
    const MOST: u128 = 99_999_999;
    let units = [("n", 1), ("u", 1_000), ("m", 1_000_000), ("S", 1_000_000_000)];
    let scaled = units.iter().map(|(unit, ns)| (unit, duration.as_nanos().div_ceil(*ns)));
    let (unit, value) = scaled.into_iter().find(|(_, value)| *value <= MOST).unwrap_or((&"S", MOST));
    format!("{value}{unit}")
}

/// Checks that HTTP/2 can carry the name and value of a metadata entry.
fn checked(name: &str, value: &str) -> Result<(String, String)> {
    // The value is not shown: it may be a credential.
    let refuse = |rule: &str| Err(Error::usage(format!("-H: {rule}")));
    let lower = name.to_ascii_lowercase();
    let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_-.".contains(&byte);
    if lower.is_empty() || !lower.bytes().all(allowed) {
        return refuse("a metadata name over gRPC holds letters, digits, '_', '-' and '.' only");
    }
    let reserved = ["te", "content-type", "user-agent", "connection", "transfer-encoding"];
    if reserved.contains(&lower.as_str()) || (lower.starts_with("grpc-")) {
        return refuse("this name is gRPC's own and set by the client; choose another");
    }
    let value = value.trim_matches(' ');
    if !value.bytes().all(|byte| (0x20..0x7f).contains(&byte)) {
        return refuse(
            "a metadata value over gRPC holds printable ASCII only; encode others in base64 under a name that ends in -bin",
        );
    }
    Ok((lower, value.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Protocol, Tls};

    #[test]
    fn timeouts_fit_into_eight_digits() {
        assert_eq!(timeout(Duration::from_millis(50)), "50000000n");
        assert_eq!(timeout(Duration::from_millis(100)), "100000u");
        assert_eq!(timeout(Duration::from_secs(99_999)), "99999000m");
        assert_eq!(timeout(Duration::MAX), "99999999S");
    }

    #[test]
    fn a_host_is_the_authority_that_gateways_choose_by() {
        let endpoint = Endpoint::parse("127.0.0.1:80", 8001).unwrap();
        let authority = |headers: &[(&str, &str)]| {
            let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
            let connection = ConnectionPlan {
                protocol: Protocol::Grpc { streaming: false, compression: Compression::None },
                url: String::new(),
                metrics_url: None,
                headers,
                tls: Tls::default(),
                server_wait: Duration::ZERO,
                reconnect: false,
                renew: false,
                client_timeout: None,
            };
            let fields = CallHeaders::new("s", &endpoint, &connection).unwrap().fields("m", None, None);
            assert!(fields.iter().all(|(name, _)| name != "host"));
            fields.into_iter().find(|(name, _)| name == ":authority").unwrap().1
        };
        assert_eq!(authority(&[("x", "y")]), "127.0.0.1:80");
        assert_eq!(authority(&[("Host", "model.default.example.com"), ("x", "y")]), "model.default.example.com");
    }

    #[test]
    fn metadata_is_lowered_and_checked() {
        assert_eq!(checked("X-Key", " a b").unwrap(), ("x-key".to_owned(), "a b".to_owned()));
        for (name, value) in
            [("", "v"), ("a b", "v"), (":path", "v"), ("grpc-timeout", "1S"), ("a", "\n"), ("a", "\u{e4}")]
        {
            assert!(checked(name, value).is_err(), "{name:?} {value:?}");
        }
    }
}
