//! `--otlp-endpoint`: hands a run's figures to a collector when the run ends.

use std::sync::Arc;
use std::time::Duration;

use crate::engine::http1::{Headers, Patience, Questions};
use crate::engine::{Connector, Endpoint};
use crate::error::Result;
use crate::plan::{Plan, Tls};
use crate::report::otlp;
use crate::result::RunResult;
use crate::wire::TlsClient;

const FLAG: &str = "--otlp-endpoint";
/// Port of OTLP over HTTP.
const PORT: u16 = 4318;
/// Where a collector takes metrics, below its address.
const PATH: &str = "/v1/metrics";
/// How long a collector may take. The figures are in the other outputs by then.
const PATIENCE: Patience = Patience::Within(Duration::from_secs(10));

/// Fails if the plan's address is none.
///
/// # Errors
/// What is wrong with it.
pub fn check(plan: &Plan) -> Result<()> {
    plan.output.otlp_endpoint.as_ref().map_or(Ok(()), |url| Endpoint::parse_flag(FLAG, url, PORT).map(drop))
}

/// Hands over the figures of all levels, if the plan asks for it.
///
/// # Errors
/// If the collector cannot be reached, or refuses them.
pub fn send(plan: &Plan, result: &RunResult) -> Result<()> {
    let (Some(url), Some(body)) = (&plan.output.otlp_endpoint, otlp::request(result)) else { return Ok(()) };
    let endpoint = Endpoint::parse_flag(FLAG, url, PORT)?;
    // The flags about TLS are for the server that is measured.
    let tls = endpoint.secure.then(|| TlsClient::new(&Tls::default(), &["http/1.1"])).transpose()?;
    let path = format!("{}{PATH}", endpoint.prefix.trim_end_matches('/'));
    let collector = Questions::new(Arc::new(Connector::new(endpoint, tls)), Headers::default());
    let failed = |error| collector.error(&format!("{FLAG}: POST {path}"), &error);
    let answer = collector.post(&path, &body, PATIENCE).map_err(failed)?;
    answer.refusal().map_or(Ok(()), |refusal| Err(failed(refusal)))
}
