//! Section "Server on the network": how it is reached, traced and monitored.

use std::time::Duration;

use clap::{ArgAction, Args};

use crate::error::{Error, Result};
use crate::exit::Codes;
use crate::parsers::header;
use crate::plan::{
    Compression, ConnectionPlan, MetricsPlan, Protocol, ServiceKind, Spread, TensorFormat, TraceLevel, TraceSettings,
};
use crate::tls::TlsArgs;
use crate::values::{MS, US, filled, integer, last_of_each, one_of, period, size, time, whole};

/// Words of compression.
const COMPRESSIONS: &[(&str, Compression)] =
    &[("none", Compression::None), ("gzip", Compression::Gzip), ("deflate", Compression::Deflate)];
/// Words of tensor formats.
const FORMATS: &[(&str, TensorFormat)] = &[("binary", TensorFormat::Binary), ("json", TensorFormat::Json)];

/// Words of spreading.
const SPREADS: &[(&str, Spread)] =
    &[("round-robin", Spread::RoundRobin), ("least-outstanding", Spread::LeastOutstanding), ("sticky", Spread::Sticky)];

/// How a server on the network is reached, traced and watched.
#[derive(Args, Debug)]
#[command(next_help_heading = "Server on the network")]
pub struct ServerArgs {
    /// Address of the server: host:port, or a URL. Repeat it, or separate them by commas, to spread requests over several
    /// (--spread), with figures of each. With --matrix transports, its HTTP address, with gRPC on the next
    /// port, or both as HTTP,GRPC. Default: localhost:8000, with gRPC localhost:8001; for tfserving localhost:8500,
    /// with HTTP localhost:8501
    #[arg(short = 'u', long, value_name = "URL", value_parser = filled)]
    url: Vec<String>,

    /// How requests are spread over several servers: in turn, to the one with the fewest of our requests, or all of a slot
    /// (a concurrent user) to one. Sequences and sessions always stay on one server
    #[arg(long, value_name = "round-robin|least-outstanding|sticky", default_value = "round-robin",
        value_parser = one_of(SPREADS))]
    spread: Spread,

    /// Protocol. Default: http; grpc with tfserving, and with Triton where -u is grpc://HOST
    #[arg(short = 'i', long, value_name = "http|grpc",
        value_parser = one_of(&[("http", Wire::Http), ("grpc", Wire::Grpc)]))]
    protocol: Option<Wire>,

    /// A header of every request, over gRPC a metadata entry; repeat it for more. Of one name the last counts. Default:
    /// none
    #[arg(short = 'H', long, value_name = "NAME:VALUE", value_parser = header)]
    header: Vec<(String, String)>,

    /// gRPC: one stream per slot instead of one call per request; decoupled models need it. Implies --async. Default:
    /// off
    #[arg(long)]
    streaming: bool,

    /// gRPC: compression of messages
    #[arg(long, value_name = "none|gzip|deflate", default_value = "none", value_parser = one_of(COMPRESSIONS))]
    grpc_compression_algorithm: Compression,

    /// HTTP: compression of requests, also accepted for responses
    #[arg(long, value_name = "none|gzip|deflate", default_value = "none", value_parser = one_of(COMPRESSIONS))]
    http_compression: Compression,

    /// HTTP: how inputs are sent. Default: binary if the server supports it, else json
    #[arg(long, value_name = "binary|json", value_parser = one_of(FORMATS))]
    input_tensor_format: Option<TensorFormat>,

    /// HTTP: how outputs are requested. Default: binary if the server supports it, else json
    #[arg(long, value_name = "binary|json", value_parser = one_of(FORMATS))]
    output_tensor_format: Option<TensorFormat>,

    /// How long to wait for the server and the model to be ready, in seconds or as in 500ms
    #[arg(long, value_name = "SECONDS", default_value = "5", value_parser = seconds)]
    server_wait: Duration,

    /// Whether requests share connections, or each makes a connection of its own, whose time (TLS and the beginning of HTTP/2
    /// included) is part of its latency, as for clients that do not keep connections
    #[arg(long, action = ArgAction::Set, value_name = "new|keep", default_value = "keep",
        value_parser = connections)]
    connections: bool,

    /// Goes on while no connection can be made, until one can, instead of ending the level. Default: off
    #[arg(long)]
    reconnect: bool,

    /// Timeout of a request, in microseconds or as in 20ms; then the client abandons it, and it counts as failed. Over
    /// gRPC this is the call's deadline, which the server is sent too. Default: no limit
    #[arg(long, value_name = "US", value_parser = period(US, US))]
    client_timeout_us: Option<Duration>,

    /// Maximum size of a response in bytes, decompressed; a request with a larger one fails. If all outputs of the
    /// model have fixed sizes, those set the limit. A single event of a stream has 16 MiB unless this is given.
    /// Default: 2147483647
    #[arg(long, value_name = "BYTES", value_parser = whole::<u64>(1, 1 << 40))]
    max_reply_bytes: Option<u64>,

    /// Maximum memory for all responses that are being received, in bytes or as in 512M or 8G; the request whose response
    /// exceeds it fails. Default: a quarter of the free memory
    #[arg(long, value_name = "SIZE", value_parser = size)]
    max_reply_memory: Option<u64>,

    /// Collects the server's own metrics: of Triton GPU load, power, memory and more; with --service-kind openai, of vLLM,
    /// SGLang and TGI, requests that run and wait and the share of the KV cache in use. Default: off
    #[arg(long)]
    collect_metrics: bool,

    /// URL of the server's metrics; with torchserve, also the source of its models' counters. With several servers repeat it
    /// for each -u, in their order. Default: port 8002 of the server's host, path /metrics; with openai the server's own
    /// port; with torchserve none
    #[arg(long, value_name = "URL", value_parser = filled)]
    metrics_url: Vec<String>,

    /// Time between two readings of the metrics, in milliseconds or as in 2s
    #[arg(long, value_name = "MS", default_value = "1000", value_parser = period(MS, MS))]
    metrics_interval: Duration,

    /// What the server traces of each request; repeat it for both. In this process only TIMESTAMPS, written to
    /// --trace-file. Default: the server's setting; in this process OFF
    #[arg(long, value_name = "OFF|TIMESTAMPS|TENSORS", value_parser = one_of(&[
        ("OFF", None), ("TIMESTAMPS", Some(TraceLevel::Timestamps)), ("TENSORS", Some(TraceLevel::Tensors))]))]
    trace_level: Vec<Option<TraceLevel>>,

    /// Traces one in N requests. Default: the server's setting; in this process as many as cost 1% of a processor
    #[arg(long, value_name = "N", value_parser = whole::<u64>(1, u64::from(u32::MAX)))]
    trace_rate: Option<u64>,

    /// Maximum number of traces, by the server or in --trace-file; -1: no limit. Default: the server's setting; in this
    /// process -1
    #[arg(long, value_name = "N", value_parser = trace_count)]
    trace_count: Option<i64>,

    /// Traces per file that the server writes; 0 writes one file when it stops. Default: the server's setting
    #[arg(long, value_name = "N", value_parser = whole::<u64>(0, u64::from(u32::MAX)))]
    log_frequency: Option<u64>,

    #[command(flatten)]
    tls: TlsArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wire {
    Http,
    Grpc,
}

impl ServerArgs {
    /// How each server of that kind is reached, at least one.
    ///
    /// # Errors
    /// If the addresses are of another protocol than the one that is asked for, or of several.
    pub fn connections(&self, service: ServiceKind, codes: Codes) -> Result<Vec<ConnectionPlan>> {
        let urls: Vec<&str> = match codes {
            Codes::Own => self.url.iter().flat_map(|urls| urls.split(',')).collect(),
            // Of several, its last one counts.
            Codes::PerfAnalyzers => self.url.last().into_iter().map(String::as_str).collect(),
        };
        let wire = self.wire(service, &urls)?;
        let connections: Vec<_> = match urls[..] {
            [] => vec![self.connection(service, wire, None)],
            _ => urls.into_iter().map(|url| self.connection(service, wire, Some(url))).collect(),
        };
        let pages = match codes {
            Codes::Own => &self.metrics_url[..],
            Codes::PerfAnalyzers => self.metrics_url.last().map_or(&[][..], std::slice::from_ref),
        };
        let pages = pages.iter().cloned().map(Some).chain(std::iter::repeat(None));
        Ok(connections
            .into_iter()
            .zip(pages)
            .map(|(plan, metrics_url)| ConnectionPlan { metrics_url, ..plan })
            .collect())
    }

    /// The protocol of all servers: that of -i, else what Triton's addresses say, else the usual one.
    fn wire(&self, service: ServiceKind, urls: &[&str]) -> Result<Wire> {
        match service {
            ServiceKind::DynamicGrpc => return Ok(Wire::Grpc),
            ServiceKind::TfServing => return Ok(self.protocol.unwrap_or(Wire::Grpc)),
            ServiceKind::Triton => {}
            _ => return Ok(self.protocol.unwrap_or(Wire::Http)),
        }
        let of_schemes = |schemes: &[&str]| {
            let is_meant = |url: &&&str| {
                let scheme = url.split_once("://").map_or("", |(scheme, _)| scheme);
                schemes.iter().any(|name| name.eq_ignore_ascii_case(scheme))
            };
            urls.iter().find(is_meant).map(|url| without_secrets(url))
        };
        let Some(grpc) = of_schemes(&["grpc", "grpcs"]) else { return Ok(self.protocol.unwrap_or(Wire::Http)) };
        match (self.protocol, of_schemes(&["http", "https"])) {
            (Some(Wire::Http), _) => Err(Error::usage(format!(
                "-u '{grpc}' is an address for gRPC, but -i http asks for HTTP: leave out -i, or give the server's HTTP address"
            ))),
            (None, Some(http)) => Err(Error::usage(format!(
                "-u '{grpc}' is an address for gRPC and -u '{http}' one for HTTP, but all servers are reached over one protocol: give \
                    addresses of the same, or name it with -i"
            ))),
            _ => Ok(Wire::Grpc),
        }
    }

    /// How requests are spread over several servers.
    pub fn spread(&self) -> Spread {
        self.spread
    }

    /// How a server of that kind is reached over that protocol at that address, or at the usual one.
    fn connection(&self, service: ServiceKind, wire: Wire, url: Option<&str>) -> ConnectionPlan {
        let protocol = match wire {
            Wire::Http => Protocol::Http {
                inputs: self.input_tensor_format.unwrap_or_default(),
                outputs: self.output_tensor_format.unwrap_or_default(),
                compression: self.http_compression,
            },
            Wire::Grpc => Protocol::Grpc { streaming: self.streaming, compression: self.grpc_compression_algorithm },
        };
        let named = |url: &str| if wire == Wire::Grpc { without_resolver(url).to_owned() } else { url.to_owned() };
        let url = url.map_or_else(|| format!("localhost:{}", service.port(&protocol)), named);
        let tls = match wire {
            Wire::Http => self.tls.https(&url),
            Wire::Grpc => self.tls.grpc(&url),
        };
        ConnectionPlan {
            protocol,
            url,
            metrics_url: None,
            headers: self.headers(wire),
            tls,
            server_wait: self.server_wait,
            reconnect: self.reconnect,
            renew: self.connections,
            client_timeout: self.client_timeout_us,
        }
    }

    /// Headers of every request. Over HTTP/1.1, whoever keeps no connections must say so.
    fn headers(&self, wire: Wire) -> Vec<(String, String)> {
        // Neither protocol tells names apart by their case.
        let mut headers = last_of_each(&self.header, |(name, _)| name.to_ascii_lowercase());
        let must_say = self.connections && wire == Wire::Http;
        if must_say && !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("connection")) {
            headers.push(("Connection".to_owned(), "close".to_owned()));
        }
        headers
    }

    /// `-u` as it was given, if it was.
    pub fn url(&self) -> Option<String> {
        (!self.url.is_empty()).then(|| self.url.join(","))
    }

    /// Whether requests go through a stream.
    pub fn streaming(&self) -> bool {
        self.streaming
    }

    /// `--max-reply-bytes`, if it was given.
    pub fn max_reply_bytes(&self) -> Option<u64> {
        self.max_reply_bytes
    }

    /// `--max-reply-memory`, if it was given.
    pub fn max_reply_memory(&self) -> Option<u64> {
        self.max_reply_memory
    }

    /// How the server's metrics are collected, if they are.
    pub fn metrics(&self) -> Option<MetricsPlan> {
        self.collect_metrics.then_some(MetricsPlan { interval: self.metrics_interval })
    }

    /// Trace settings, if any was given.
    pub fn trace(&self) -> Option<TraceSettings> {
        let levels = (!self.trace_level.is_empty()).then(|| {
            let mut levels: Vec<TraceLevel> = Vec::new();
            for level in self.trace_level.iter().flatten() {
                if !levels.contains(level) {
                    levels.push(*level);
                }
            }
            levels
        });
        let settings =
            TraceSettings { levels, rate: self.trace_rate, count: self.trace_count, log_frequency: self.log_frequency };
        let nothing = TraceSettings { levels: None, rate: None, count: None, log_frequency: None };
        (settings != nothing).then_some(settings)
    }
}

/// The host and port of one of gRPC's own names, such as `dns:///host:8001`, which its clients take.
fn without_resolver(url: &str) -> &str {
    if let Some(name) = url.strip_prefix("dns://") {
        // The name server that may come first is not asked.
        return name.split_once('/').map_or(name, |(_, host)| host);
    }
    let port_follows = |address: &&str| address.contains(':');
    let short = url.strip_prefix("dns:").filter(port_follows);
    ["ipv4:", "ipv6:"].iter().find_map(|resolver| url.strip_prefix(resolver)).or(short).unwrap_or(url)
}

/// An address as it may be shown: without credentials and without a query, which may hold some.
fn without_secrets(url: &str) -> String {
    let address = url.split(['?', '#']).next().unwrap_or_default();
    match (address.split_once("://"), address.rsplit_once('@')) {
        (Some((scheme, _)), Some((_, host))) => format!("{scheme}://...@{host}"),
        _ => address.to_owned(),
    }
}

/// Whether each request makes a connection; other programs have a flag of this name for a number.
fn connections(text: &str) -> Result<bool, String> {
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(
            "it must be one of new, keep; -c N is the number of requests outstanding, --max-connections N that of \
            connections"
                .to_owned(),
        );
    }
    one_of(&[("new", true), ("keep", false)])(text)
}

fn seconds(text: &str) -> Result<Duration, String> {
    time(text, Duration::from_secs(1))
}

/// A number of traces; -1 is no bound.
fn trace_count(text: &str) -> Result<i64, String> {
    let rule = |_| "it must be a whole number of at least 0, or -1 for no bound".to_owned();
    if text == "-1" { Ok(-1) } else { integer(text, 0, i64::MAX as u64).map_err(rule) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        server: ServerArgs,
    }

    /// The protocols of the servers, as words of -i.
    fn protocols(service: ServiceKind, line: &str) -> Result<Vec<&'static str>, String> {
        let words = ["x"].into_iter().chain(line.split_whitespace());
        let line = <Line as clap::Parser>::try_parse_from(words).unwrap();
        let all = line.server.connections(service, Codes::Own).map_err(|error| error.to_string())?;
        let word = |plan: ConnectionPlan| if let Protocol::Grpc { .. } = plan.protocol { "grpc" } else { "http" };
        Ok(all.into_iter().map(word).collect())
    }

    #[test]
    fn addresses_of_triton_say_the_protocol() {
        let triton = |line| protocols(ServiceKind::Triton, line);
        for line in ["-u grpc://h:8001", "-u GRPCS://h", "-i grpc -u grpc://h", "-i grpc -u http://h", "-i grpc"] {
            assert_eq!(triton(line), Ok(vec!["grpc"]), "{line}");
        }
        for line in ["", "-u h:8000", "-u https://h", "-i http -u h"] {
            assert_eq!(triton(line), Ok(vec!["http"]), "{line}");
        }
        assert_eq!(triton("-u grpc://h:1,i:2"), Ok(vec!["grpc", "grpc"]));
        for (line, parts) in [
            ("-i http -u grpc://h:8001", ["-u 'grpc://h:8001'", "-i http"]),
            ("-u grpc://h:1 -u http://i:2", ["-u 'grpc://h:1'", "-u 'http://i:2'"]),
            ("-i http -u grpc://me:secret@h:1?x=y", ["-u 'grpc://...@h:1'", "-i http"]),
        ] {
            let error = triton(line).unwrap_err();
            assert!(parts.iter().all(|part| error.contains(part)), "{line}: {error}");
        }
    }

    #[test]
    fn addresses_of_others_do_not_say_the_protocol() {
        assert_eq!(protocols(ServiceKind::OpenAi, "-u grpc://h"), Ok(vec!["http"]));
        assert_eq!(protocols(ServiceKind::TfServing, "-i http -u grpc://h"), Ok(vec!["http"]));
    }
}
