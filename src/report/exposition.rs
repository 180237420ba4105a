//! The figures of a run while it goes on, in Prometheus' text format.

use std::fmt::Write as _;

use crate::distinct;
use crate::result::summary::LevelLoad;

/// Latency quantiles of the page: they are labels, which the dashboards of its readers name.
const QUANTILES: [f64; 4] = [0.5, 0.9, 0.99, 0.999];

/// What a run has come to so far.
#[derive(Clone, Debug)]
pub struct Exposition {
    /// The model.
    pub model: String,
    /// The service, as `--service-kind` calls it.
    pub service: &'static str,
    /// Loads that have begun, warm-ups included.
    pub loads: u64,
    /// The load under way.
    pub load: Option<LevelLoad>,
    /// Each server.
    pub servers: Vec<ServerFigures>,
}

/// What one server has come to so far.
#[derive(Clone, Debug)]
pub struct ServerFigures {
    /// Its address.
    pub address: String,
    /// Requests of the run that succeeded.
    pub succeeded: u64,
    /// That failed.
    pub failed: u64,
    /// That were cancelled as asked.
    pub cancelled: u64,
    /// Latencies of those that succeeded, in seconds, together.
    pub seconds: f64,
    /// Inferences a second, since the load under way began.
    pub throughput: f64,
    /// Its latency quantiles in seconds, in the page's order; none before the first answer.
    pub quantiles: Option<[f64; QUANTILES.len()]>,
}

impl ServerFigures {
    /// Quantiles of `percentile_ns`, which tells one in nanoseconds.
    pub fn quantiles_of(percentile_ns: impl Fn(f64) -> u64) -> [f64; QUANTILES.len()] {
        QUANTILES.map(|quantile| percentile_ns(quantile * 100.0) as f64 / 1e9)
    }
}

/// The page.
pub fn page(exposition: &Exposition) -> String {
    let Exposition { model, service, loads, load, servers } = exposition;
    let model = label(model);
    let mut page = Page(String::new());
    page.metric("info", "gauge", "The program and what it measures.");
    page.sample(
        "info",
        &format!("version=\"{}\",service=\"{service}\",model=\"{model}\"", env!("CARGO_PKG_VERSION")),
        1.0,
    );
    page.metric("loads_total", "counter", "Loads that have begun: levels, stages and warm-ups.");
    page.sample("loads_total", "", *loads as f64);
    if let Some(load) = load {
        page.metric("load", "gauge", "The load under way: requests outstanding, or requests a second.");
        page.sample("load", &format!("kind=\"{}\"", load.kind()), load.number());
    }
    // Prometheus refuses a page that has a series twice.
    let labels = distinct(servers.iter().map(|server| server.address.as_str()));
    let labels = labels.iter().map(|address| format!("server=\"{}\",model=\"{model}\"", label(address)));
    let servers: Vec<_> = servers.iter().zip(labels).collect();
    page.metric("requests_total", "counter", "Requests that are over, by outcome.");
    for (server, labels) in &servers {
        let counts = [("succeeded", server.succeeded), ("failed", server.failed), ("cancelled", server.cancelled)];
        for (outcome, count) in counts {
            page.sample("requests_total", &format!("{labels},outcome=\"{outcome}\""), count as f64);
        }
    }
    page.metric("throughput", "gauge", "Successful inferences a second, since the load under way began.");
    for (server, labels) in &servers {
        page.sample("throughput", labels, server.throughput);
    }
    page.metric("latency_seconds", "summary", "Latency of successful requests; quantiles of the load under way.");
    for (server, labels) in &servers {
        for (quantile, seconds) in QUANTILES.iter().zip(server.quantiles.into_iter().flatten()) {
            page.sample("latency_seconds", &format!("{labels},quantile=\"{quantile}\""), seconds);
        }
        page.sample("latency_seconds_sum", labels, server.seconds);
        page.sample("latency_seconds_count", labels, server.succeeded as f64);
    }
    page.0
}

/// A page in the making.
struct Page(String);

impl Page {
    fn metric(&mut self, name: &str, kind: &str, help: &str) {
        let _ = write!(self.0, "# HELP triton_bench_{name} {help}\n# TYPE triton_bench_{name} {kind}\n");
    }

    fn sample(&mut self, name: &str, labels: &str, value: f64) {
        let (open, close) = if labels.is_empty() { ("", "") } else { ("{", "}") };
        let _ = writeln!(self.0, "triton_bench_{name}{open}{labels}{close} {value}");
    }
}

/// The value of a label, escaped.
fn label(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use ::wire::prometheus::sample;

    #[test]
    fn every_line_is_what_prometheus_reads() {
        let server = |address: &str, quantiles| ServerFigures {
            address: address.to_owned(),
            succeeded: 10,
            failed: 2,
            cancelled: 0,
            seconds: 0.5,
            throughput: 12.5,
            quantiles,
        };
        let exposition = Exposition {
            model: "a \"b\" \\c".to_owned(),
            service: "triton",
            loads: 3,
            load: Some(LevelLoad::RequestRate(12.5)),
            servers: vec![server("h:1", Some([0.001, 0.002, 0.003, 0.004])), server("h:2", None), server("h:2", None)],
        };
        let page = page(&exposition);
        let samples: Vec<_> =
            page.lines().filter(|line| !line.starts_with('#')).map(|line| sample(line).unwrap()).collect();
        let values = |name: &str, server: &str| {
            let is_own = |sample: &&_| -> bool {
                let sample: &::wire::prometheus::MetricSample<'_> = sample;
                sample.name == format!("triton_bench_{name}")
                    && sample.label("server").is_none_or(|address| address == server)
            };
            samples.iter().filter(is_own).map(|sample| sample.value).collect::<Vec<_>>()
        };
        assert_eq!(values("requests_total", "h:1"), [10.0, 2.0, 0.0]);
        assert_eq!(values("latency_seconds", "h:1"), [0.001, 0.002, 0.003, 0.004]);
        assert_eq!((values("latency_seconds", "h:2"), values("latency_seconds_count", "h:2")), (vec![], vec![10.0]));
        assert_eq!(values("requests_total", "h:2 #2"), [10.0, 2.0, 0.0], "no series is there twice");
        assert_eq!((values("load", ""), values("loads_total", "")), (vec![12.5], vec![3.0]));
        assert!(samples.iter().all(|sample| sample.label("model").is_none_or(|model| model == "a \"b\" \\c")));
        assert_eq!(page.matches("# TYPE").count(), page.matches("# HELP").count());
    }
}
