//! A breakdown from averages alone: the client's measurements of every request, and the server's counters.

use crate::result::breakdown::{Breakdown, RequestStage, Source};
use crate::result::summary::{ClientSummary, ServerSummary};
use crate::terms::PERCENTILES;

/// Where the time of `client`'s requests to `server` went, on average.
pub(super) fn breakdown(server: &ServerSummary, client: &ClientSummary) -> Breakdown {
    let latency_ns = client.latency.mean_ns();
    let share = |ns: f64| if latency_ns > 0.0 { ns / latency_ns } else { 0.0 };
    let client_stage = |name: &str, ns: f64| RequestStage {
        name: name.to_owned(),
        model: None,
        depth: 0,
        mean_ns: ns,
        percentiles_ns: None,
        share: share(ns),
    };
    let mut stages = Vec::new();
    let delay = client.open_loop.as_ref().map(|times| latency_ns - times.service_time.mean_ns());
    stages.extend(delay.filter(|ns| *ns > 0.0).map(|ns| client_stage("schedule delay", ns)));
    stages.push(client_stage("send", client.send_ns));
    of_model(server, server.delta.success.count, 0, !server.composing.is_empty(), &mut stages);
    stages.push(client_stage("receive", client.receive_ns));
    stages.iter_mut().for_each(|stage| stage.share = share(stage.mean_ns));
    // What a model does while the models that it calls are at work is counted twice.
    let explained: f64 = stages.iter().map(|stage| stage.mean_ns).sum();
    let percentiles_ns = Some(PERCENTILES.map(|percentile| client.latency.percentile_ns(percentile)));
    Breakdown {
        model: server.name.clone(),
        source: Source::Statistics,
        traced: 0,
        one_in: None,
        lost: 0,
        cut: 0,
        unexplained: client_stage("unexplained", (latency_ns - explained).max(0.0)),
        latency: RequestStage { percentiles_ns, ..client_stage("latency", latency_ns) },
        stages,
        wake_up: None,
        slowest: None,
    }
}

/// Adds the stages of a model and of those that it calls, per request of the `requests` from outside.
fn of_model(server: &ServerSummary, requests: u64, depth: usize, several: bool, stages: &mut Vec<RequestStage>) {
    let delta = &server.delta;
    let per_request = |ns: u64| ns as f64 / requests.max(1) as f64;
    let parts = [
        ("queue", delta.queue.ns),
        ("cache", delta.cache_hit.ns.saturating_add(delta.cache_miss.ns)),
        ("compute input", delta.compute_input.ns),
        ("compute", delta.compute_infer.ns),
        ("compute output", delta.compute_output.ns),
    ];
    // An ensemble's own counters are those of its parts.
    for (name, ns) in parts.into_iter().filter(|_| server.composing.is_empty()) {
        if name == "cache" && ns == 0 {
            continue;
        }
        let model = several.then(|| server.name.clone());
        stages.push(RequestStage {
            name: name.to_owned(),
            model,
            depth,
            mean_ns: per_request(ns),
            percentiles_ns: None,
            share: 0.0,
        });
    }
    server.composing.iter().for_each(|part| of_model(part, requests, depth + 1, several, stages));
}
