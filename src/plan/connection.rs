//! How a server on the network is reached.

use std::time::Duration;

use crate::wire::Tls;
use crate::wire::coding::Compression;

/// How a server on the network is reached.
#[derive(Clone, Debug)]
pub struct ConnectionPlan {
    /// Which protocol.
    pub protocol: Protocol,
    /// `host:port`, or a URL with scheme and path prefix, as given.
    pub url: String,
    /// Where the server's metrics are; `None` is port 8002 of its host, of language models its own, of TorchServe nowhere.
    pub metrics_url: Option<String>,
    /// Headers (metadata over gRPC) of every request.
    pub headers: Vec<(String, String)>,
    /// TLS settings.
    pub tls: Tls,
    /// How long to wait for the server to become ready.
    pub server_wait: Duration,
    /// Whether lost connections are remade.
    pub reconnect: bool,
    /// Whether each request has a connection of its own.
    pub renew: bool,
    /// How long an answer may take before the client gives the request up and counts it as failed.
    pub client_timeout: Option<Duration>,
}

/// How requests are spread over several servers. Those of a sequence or of a session go to one, whatever it says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Spread {
    /// One server after the other.
    #[default]
    RoundRobin,
    /// To the server that has the fewest of our requests.
    LeastOutstanding,
    /// Each slot's requests to one server.
    Sticky,
}

impl Spread {
    /// Its value of `--spread`.
    pub fn name(self) -> &'static str {
        match self {
            Self::RoundRobin => "round-robin",
            Self::LeastOutstanding => "least-outstanding",
            Self::Sticky => "sticky",
        }
    }
}

/// Which protocol, with its own options.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// KServe v2 over HTTP/1.1.
    Http {
        /// How inputs are sent.
        inputs: TensorFormat,
        /// How outputs are asked for.
        outputs: TensorFormat,
        /// Compression of request bodies, and what is accepted for replies.
        compression: Compression,
    },
    /// KServe v2 over gRPC.
    Grpc {
        /// One bidirectional stream per client instead of a call per request.
        streaming: bool,
        /// Compression of messages.
        compression: Compression,
    },
}

impl Protocol {
    /// Compression of what is sent.
    pub fn compression(&self) -> Compression {
        match self {
            Self::Http { compression, .. } | Self::Grpc { compression, .. } => *compression,
        }
    }

    /// Whether requests go through a stream; over HTTP there is none.
    pub fn streams(&self) -> bool {
        matches!(self, Self::Grpc { streaming: true, .. })
    }

    /// How inputs and outputs travel; over gRPC there is one way.
    pub fn tensor_formats(&self) -> (TensorFormat, TensorFormat) {
        match self {
            Self::Http { inputs, outputs, .. } => (*inputs, *outputs),
            Self::Grpc { .. } => (TensorFormat::Binary, TensorFormat::Binary),
        }
    }
}

/// How tensors travel over HTTP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TensorFormat {
    /// Binary if the server lists that extension, otherwise JSON.
    #[default]
    Served,
    /// In binary, behind the JSON.
    Binary,
    /// As JSON numbers and strings.
    Json,
}
