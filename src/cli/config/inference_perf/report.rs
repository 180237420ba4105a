//! `report`, `storage` and `metrics`: outputs and where they go.

use crate::config::fields::{Fields, text};
use crate::config::flags::Flags;
use crate::config::inference_perf::service::Service;
use crate::config::yaml::{Fault, Node, Place, Value};

/// Default folder of reports.
const FOLDER: &str = "reports-{timestamp}";

/// Files of a folder of reports, whether they are written by default, and their keywords in `--report-parts`.
const PARTS: &[(&str, bool, &str)] = &[
    ("summary", true, "summary"),
    ("per_stage", true, "stages"),
    ("per_adapter", true, "adapters"),
    ("per_adapter_stage", false, "adapter-stages"),
    ("per_request", false, "requests"),
];

/// Figures of goodput, and their names in `--goodput`.
const FIGURES: &[(&str, &str)] =
    &[("request_latency", "latency"), ("ttft", "ttft"), ("itl", "itl"), ("tpot", "tpot"), ("ntpot", "ntpot")];

/// Reads `report`; `has_tokens` where answers are generated text.
///
/// # Errors
/// What is not theirs, or has no counterpart.
pub fn report(node: Option<&Node>, has_tokens: bool, flags: &mut Flags) -> Result<(), Fault> {
    let empty = Node { at: Place::FIRST, value: Value::Null };
    let mut report = Fields::new("report", node.unwrap_or(&empty))?;
    let lifecycle = report.section("request_lifecycle")?;
    requests(lifecycle.unwrap_or(Fields::new("report.request_lifecycle", &empty)?), flags)?;
    if let Some(mut goodput) = report.section("goodput")? {
        let mut limits = goodput.section("constraints")?.unwrap_or(Fields::new("report.goodput.constraints", &empty)?);
        for (theirs, ours) in FIGURES {
            match limits.positive(theirs)? {
                Some(seconds) if has_tokens || *ours == "latency" => {
                    flags.at_key(&limits, theirs).add("goodput", format!("{ours}<{seconds}s"));
                }
                Some(_) => flags.note(format!("{}: answers have no tokens here (--tokens-from)", limits.name(theirs))),
                None => {}
            }
        }
        limits.finish()?;
        goodput.finish()?;
    }
    let sessions = "sessions have files of the whole run and of its stages, and none of each session";
    let prometheus = "there is nothing to write without a Prometheus server";
    for (section, lacking, why) in
        [("prometheus", &["summary", "per_stage"][..], prometheus), ("session_lifecycle", &["per_session"], sessions)]
    {
        let Some(mut other) = report.section(section)? else { continue };
        for key in ["summary", "per_stage", "per_session"] {
            if other.switch(key)? == Some(true) && lacking.contains(&key) {
                flags.note(format!("report.{section}.{key}: {why}"));
            }
        }
        other.finish()?;
    }
    report.finish()
}

fn requests(mut fields: Fields<'_>, flags: &mut Flags) -> Result<(), Fault> {
    let mut parts = Vec::new();
    for (key, usual, part) in PARTS {
        parts.extend(fields.switch(key)?.unwrap_or(*usual).then_some(*part));
    }
    flags.at_key(&fields, "").add("report-parts", if parts.is_empty() { "none".to_owned() } else { parts.join(",") });
    let percentiles: Vec<&str> = fields.list("percentiles")?.iter().filter_map(text).collect();
    if !percentiles.is_empty() {
        flags.at_key(&fields, "percentiles").add("percentiles", percentiles.join(","));
    }
    if fields.switch("use_server_output_tokens")? == Some(false) {
        flags.note("report.request_lifecycle.use_server_output_tokens: the server's token counts are used anyway");
    }
    if fields.whole("max_error_messages", 0)?.is_some() {
        flags.note(
            "report.request_lifecycle.max_error_messages: every reason is counted, with the first message of each",
        );
    }
    flags.notes.extend(
        fields.no_effect("per_request_fields", "no effect; --profile-export-file writes requests with their contents"),
    );
    fields.finish()
}

/// Reads `storage`.
///
/// # Errors
/// What is not theirs, or has no counterpart.
pub fn storage(node: Option<&Node>, flags: &mut Flags) -> Result<(), Fault> {
    let empty = Node { at: Place::FIRST, value: Value::Null };
    let mut storage = Fields::new("storage", node.unwrap_or(&empty))?;
    let (mut path, mut at) = (FOLDER, storage.place("local_storage"));
    if let Some(mut local) = storage.section("local_storage")? {
        (path, at) = (local.text("path")?.unwrap_or(FOLDER), local.place("path"));
        if let Some(prefix) = local.text("report_file_prefix")? {
            flags.at_key(&local, "report_file_prefix").add("report-prefix", prefix);
        }
        local.finish()?;
    }
    flags.at(at).add("report-dir", path);
    let rule = "no effect: reports are written into a folder, which the store's own program can copy";
    flags.notes.extend(
        ["google_cloud_storage", "simple_storage_service"].iter().filter_map(|key| storage.no_effect(key, rule)),
    );
    storage.finish()
}

/// Reads `metrics`. Its URL is of a Prometheus server, from which inference-perf asks what that has read from the model server;
/// we read the model server ourselves.
///
/// # Errors
/// What is not theirs.
pub fn metrics(node: Option<&Node>, service: Service, flags: &mut Flags) -> Result<(), Fault> {
    let Some(node) = node else { return Ok(()) };
    let mut metrics = Fields::new("metrics", node)?;
    metrics.choice("type", &["prometheus", "default"])?;
    if let Some(mut prometheus) = metrics.section("prometheus")? {
        prometheus.pass_over(&["url", "scrape_interval", "google_managed", "filters", "token", "headers"]);
        prometheus.finish()?;
    }
    if service == Service::OpenAi {
        flags.at_key(&metrics, "type").switch("collect-metrics");
        flags.note(
            "metrics: read from the model server's own page (--metrics-url, else /metrics of -u); no Prometheus server is queried",
        );
    } else {
        flags.note(
            "metrics: no effect, because Prometheus servers are not queried; Triton's own metrics come with --collect-metrics",
        );
    }
    metrics.finish()
}
