//! Where a server's metrics are read: over HTTP, whatever protocol the requests take.

use std::sync::Arc;

use crate::backends::http::control::{Control, Patience};
use crate::backends::http::headers::Headers;
use crate::backends::net::{Connector, Endpoint, TlsClient};
use crate::error::{Error, Result};
use crate::plan::Connection;

/// Port of Triton's metrics.
const PORT: u16 = 8002;
/// Their path.
const PATH: &str = "/metrics";

/// Where a server's metrics are read.
pub struct MetricsSource {
    control: Control,
    path: String,
}

impl MetricsSource {
    /// The metrics at `url`; by default at Triton's metrics port on the host of `server`. Nothing is read yet.
    ///
    /// # Errors
    /// Where the address or a certificate is wrong.
    pub fn new(connection: &Connection, server: &Endpoint, url: Option<&str>) -> Result<Self> {
        let endpoint = match url {
            Some(url) => Endpoint::parse(url, PORT).map_err(|error| error.context("--metrics-url"))?,
            None => Endpoint { secure: false, port: PORT, prefix: PATH.to_owned(), ..server.clone() },
        };
        let path = if endpoint.prefix.is_empty() { PATH.to_owned() } else { endpoint.prefix.clone() };
        let secure = endpoint.secure;
        let tls = secure.then(|| TlsClient::new(&connection.tls, &["http/1.1"])).transpose()?;
        let connector = Arc::new(Connector::new(endpoint, tls));
        Ok(Self { control: Control::new(connector, Headers::default()), path })
    }

    /// The metrics in Prometheus' text format.
    ///
    /// # Errors
    /// Where the server cannot be reached, or refuses, with its reason.
    pub fn read(&self) -> Result<String> {
        let unread = |error| self.control.error("metrics", &error);
        let answer = self.control.get(&self.path, Patience::Sample).map_err(unread)?;
        if let Some(refusal) = answer.refusal() {
            return Err(unread(refusal));
        }
        String::from_utf8(answer.body).map_err(|_| Error::server("the server's metrics are not UTF-8"))
    }
}
