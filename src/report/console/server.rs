//! The server's counters for a level, model by model, and its metrics.

use std::fmt::Write as _;
use std::time::Duration;

use crate::number::{percent, significant};
use crate::result::Setup;
use crate::result::server::ServerTimes;
use crate::result::summary::{GpuMetrics, HostMetrics, LevelSummary, ServerSummary};
use crate::result::timeline::WindowRow;
use crate::server_load;
use crate::server_metrics::{self, gpu_name};
use crate::stdio::shown;

/// Beyond this number, GPUs are not listed one by one.
const MAX_GPUS: usize = 16;
/// A time is that of some windows if it differs by no more than this share.
const SPAN_TOLERANCE: f64 = 0.05;
/// The service of servers of language models.
const OPENAI: &str = "OPENAI";

/// A note if the server's counters could not be read at the windows' edges.
pub fn span(level: &LevelSummary) -> String {
    let Some(span) = level.server_span else { return String::new() };
    let (counted, windows) = (span.as_millis(), level.client.duration.as_millis());
    let why = match others_between(level, span) {
        true => "windows that were measured again lie between these",
        false => "reading them took too long; raise --measurement-interval",
    };
    format!("    [WARNING] The server's counts are those of {counted} msec, not of the windows' {windows}: {why}\n")
}

/// Whether the server counted over the level's windows from the first to the last, between which are some that do not count.
fn others_between(level: &LevelSummary, span: Duration) -> bool {
    let counted = |row: &&WindowRow| row.counted;
    let (Some(first), Some(last)) = (level.windows.iter().find(counted), level.windows.iter().rfind(counted)) else {
        return false;
    };
    let others = level.windows.iter().filter(|row| !row.counted && first.start < row.start && row.start < last.start);
    let all = (last.start - first.start) + last.duration;
    others.count() > 0 && span.abs_diff(all) <= all.mul_f64(SPAN_TOLERANCE)
}

/// The server's block; with several models, `named` ones.
pub fn server(server: &ServerSummary, named: bool) -> String {
    let name = if named {
        format!("    Model: {}, version: {}\n", shown(&server.name), shown(&server.version))
    } else {
        String::new()
    };
    format!("  Server: \n{name}{}", model(server, 0))
}

/// One model at a depth below the root, and the models that it calls.
fn model(server: &ServerSummary, depth: usize) -> String {
    let indent = " ".repeat(4 + 2 * depth);
    let delta = &server.delta;
    let mut text = String::new();
    let _ = writeln!(text, "{indent}Inference count: {}", delta.inferences);
    // Some servers count requests, but not the batches that they ran.
    if delta.executions > 0 || delta.inferences == 0 || server.cached || !server.composing.is_empty() {
        let _ = writeln!(text, "{indent}Execution count: {}", delta.executions);
    }
    if server.cached {
        let _ = writeln!(text, "{indent}Cache hit count: {}", delta.cache_hit.count);
        let _ = writeln!(text, "{indent}Cache miss count: {}", delta.cache_miss.count);
    }
    let _ = writeln!(text, "{indent}Successful request count: {}", delta.success.count);
    if delta.fail.count > 0 {
        let _ = writeln!(text, "{indent}Failed on server count: {}", delta.fail.count);
    }
    if depth > 0 && delta.success.count == 0 {
        // It has no times, only zeros.
        return text + &composing(server, depth);
    }
    let times = server.times();
    let _ = writeln!(text, "{indent}Avg request latency: {} usec ({})", times.request_us, parts(server, &times));
    if server.cached {
        text += &cache(server, &times, 6 + 4 * depth);
    }
    if server.several_versions {
        let _ = writeln!(text, "{indent}[WARNING] Other versions were busy too; choose one with -x");
    }
    text + &composing(server, depth)
}

fn parts(server: &ServerSummary, times: &ServerTimes) -> String {
    let ServerTimes { overhead_us, queue_us, compute_us, compute_or_cache_us, .. } = times;
    let start = format!("overhead {overhead_us} usec + queue {queue_us} usec");
    if server.cached {
        format!("{start} + cache hit/miss {compute_or_cache_us} usec")
    } else if server.composing.is_empty() {
        format!("{start} + {}", compute(server))
    } else {
        format!("{start} + compute {compute_us} usec")
    }
}

fn compute(server: &ServerSummary) -> String {
    format!(
        "compute input {} usec + compute infer {} usec + compute output {} usec",
        server.delta.compute_input.average_us(),
        server.delta.compute_infer.average_us(),
        server.delta.compute_output.average_us()
    )
}

fn cache(server: &ServerSummary, times: &ServerTimes, indent: usize) -> String {
    let indent = " ".repeat(indent);
    let miss = times.cache_miss_us + times.compute_us;
    let detail = if server.composing.is_empty() {
        format!("(cache lookup/insertion {} usec + {})", times.cache_miss_us, compute(server))
    } else {
        String::new()
    };
    format!(
        "{indent}Average Cache Hit Latency: {} usec\n{indent}Average Cache Miss Latency: {miss} usec {detail}\n",
        times.cache_hit_us
    )
}

fn composing(server: &ServerSummary, depth: usize) -> String {
    if server.composing.is_empty() {
        return String::new();
    }
    let indent = " ".repeat(2 + 2 * depth);
    let mut text = format!("\n{indent}Composing models: \n");
    let models = server.composing.iter().map(|part| {
        format!("{indent}{}, version: {}\n{}", shown(&part.name), shown(&part.version), model(part, depth + 1))
    });
    text += &models.collect::<Vec<_>>().join("\n");
    text
}

/// Metrics of GPUs, of the machine and of the server's load, if they were collected.
pub fn metrics(setup: &Setup, level: &LevelSummary) -> String {
    let mut text = String::new();
    let host = level.host.as_ref().map(host_lines).unwrap_or_default();
    if let Some(gpus) = &level.gpus {
        // The pages of servers of language models tell nothing of GPUs or machines.
        if !(setup.service_kind == OPENAI && gpus.is_empty() && host.is_empty()) {
            text += "\n  Server Prometheus Metrics: \n";
            text += &gpu_lines(setup, gpus);
        }
    }
    let of_all = level.host.and_then(|host| host.gpu_utilization).filter(|_| !level.hosts.is_empty());
    if let Some(share) = of_all {
        let _ = writeln!(text, "    Avg Utilization of all GPUs: {}", percent(share));
    }
    text += &host;
    if let Some(load) = level.host.and_then(|host| host.load) {
        let _ = writeln!(text, "  Server load: {}", server_load::text(&load));
    }
    if !level.hosts.is_empty() {
        text += "    Of each server:\n";
    }
    for (address, host) in setup.servers.iter().zip(&level.hosts) {
        let _ = writeln!(text, "      {}: {}", shown(address), server_metrics::text(host));
    }
    let lacking = lacking(level.gpus.as_deref().unwrap_or_default());
    // perf_analyzer's callers do not know this line.
    if !lacking.is_empty() && !setup.detail.as_upstream {
        let _ = writeln!(text, "    Note: missing in the server's metrics of GPUs: {}", lacking.join(", "));
    }
    text
}

/// A figure of GPUs, and whether one has it.
type GpuFigure = (&'static str, fn(&GpuMetrics) -> bool);

/// What the server's page does not tell of each of its GPUs.
fn lacking(gpus: &[GpuMetrics]) -> Vec<&'static str> {
    let figures: [GpuFigure; 4] = [
        ("utilization", |gpu| gpu.utilization.is_some()),
        ("power usage", |gpu| gpu.power_watts.is_some()),
        ("memory usage", |gpu| gpu.memory_used_bytes.is_some()),
        ("total memory", |gpu| gpu.memory_total_bytes.is_some()),
    ];
    figures.into_iter().filter(|(_, is_there)| !gpus.iter().all(is_there)).map(|(name, _)| name).collect()
}

fn gpu_lines(setup: &Setup, gpus: &[GpuMetrics]) -> String {
    if gpus.len() > MAX_GPUS {
        return format!("    {} GPUs: too many to list here; see the CSV file (-f, --verbose-csv)\n", gpus.len());
    }
    let list = |title: &str, value: &dyn Fn(&GpuMetrics) -> Option<String>| {
        let mut text = format!("    {title}:\n");
        for gpu in gpus {
            if let Some(value) = value(gpu) {
                let _ = writeln!(text, "      {} : {value}", shown(&gpu_name(setup, gpu)));
            }
        }
        text
    };
    let bytes = |value: u64| format!("{value} bytes");
    list("Avg GPU Utilization", &|gpu| gpu.utilization.map(|value| format!("{}%", significant(100.0 * value))))
        + &list("Avg GPU Power Usage", &|gpu| gpu.power_watts.map(|value| format!("{} watts", significant(value))))
        + &list("Max GPU Memory Usage", &|gpu| gpu.memory_used_bytes.map(bytes))
        + &list("Total GPU Memory", &|gpu| gpu.memory_total_bytes.map(bytes))
}

fn host_lines(host: &HostMetrics) -> String {
    let mut text = String::new();
    if let Some(share) = host.cpu_utilization {
        let _ = writeln!(text, "    Avg CPU Utilization: {}", percent(share));
    }
    if let (Some(used), Some(total)) = (host.cpu_memory_used_bytes, host.cpu_memory_total_bytes) {
        let _ = writeln!(text, "    Max CPU Memory Usage: {used} of {total} bytes");
    }
    if let (Some(mean), Some(most)) = (host.pending_requests, host.pending_requests_max) {
        let _ = writeln!(text, "    Pending requests: avg {}, max {}", significant(mean), significant(most));
    }
    if let Some(mean) = host.first_response_ms {
        let _ = writeln!(text, "    Avg time to first response: {} ms", significant(mean));
    }
    if let Some(count) = host.cancelled_requests {
        let _ = writeln!(text, "    Requests that the server cancelled: {}", significant(count));
    }
    if let Some(seconds) = host.model_load_seconds {
        let _ = writeln!(text, "    Load of the model: {} s", significant(seconds));
    }
    text
}
