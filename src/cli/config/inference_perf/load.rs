//! `load`: when requests leave.

use crate::config::fields::{Fields, text};
use crate::config::flags::Flags;
use crate::config::inference_perf::breakers::Breakers;
use crate::config::inference_perf::service::Service;
use crate::config::yaml::{Fault, Node, Place, Value};

/// Default pause between stages, in seconds.
const INTERVAL: f64 = 1.0;
/// Default number of a worker's outstanding requests.
const WORKER_CONCURRENCY: u64 = 100;
/// The largest numbers of outstanding requests and connections that our flags accept.
const MOST: u64 = 100_000;
/// Minimum number of windows of a level; inference-perf's is one stage.
const WINDOWS: f64 = 3.0;

/// The type whose stages are sessions.
const SESSIONS: &str = "trace_session_replay";

/// The pause between stages.
#[derive(Clone, Copy)]
struct Interval {
    seconds: f64,
    /// Where the file says so.
    at: Place,
}

impl Interval {
    fn read(load: &mut Fields<'_>) -> Result<Self, Fault> {
        Ok(Self { seconds: load.number("interval", 0.0)?.unwrap_or(INTERVAL), at: load.place("interval") })
    }
}

/// What the other sections must know of it.
pub struct Load {
    /// Whether it says which models requests are for.
    pub names_models: bool,
}

impl Load {
    /// Reads the section; `has_lengths` where the data are as long as a trace says.
    ///
    /// # Errors
    /// What is not theirs, or has no counterpart.
    pub fn read(
        node: &Node,
        breakers: &Breakers<'_>,
        service: Service,
        has_lengths: bool,
        flags: &mut Flags,
    ) -> Result<Self, Fault> {
        let mut load = Fields::new("load", node)?;
        let kinds = ["constant", "poisson", "concurrent", "trace_replay", SESSIONS];
        let rule = "it belongs to llm-d-benchmark's priority-mix harness, which is not inference-perf: stages say what is \
            sent (rate, duration), and --model-mix mixes classes of requests";
        load.refuse("duration_seconds", rule)?;
        let kind = load.choice("type", &kinds)?.unwrap_or("constant");
        match kind {
            "concurrent" => concurrent(&mut load, flags)?,
            "trace_replay" => replay(&mut load, node.at, has_lengths, flags)?,
            SESSIONS => sessions(&mut load, flags)?,
            _ => rates(&mut load, kind, flags)?,
        }
        workers(&mut load, kind, service, flags)?;
        patience(&mut load, service, flags)?;
        breakers.choose(load.list("circuit_breakers")?, flags)?;
        let split = load.peek("lora_traffic_split").map(|node| node.at);
        let names_models = adapters(load.list("lora_traffic_split")?, split, flags)?;
        match load.peek("base_seed").map(text) {
            Some(Some("time")) | None => {
                load.take("base_seed");
                flags.add("seed", "time");
            }
            Some(_) => {
                if let Some(seed) = load.whole("base_seed", 0)? {
                    flags.at_key(&load, "base_seed").add("seed", seed);
                }
            }
        }
        load.finish()?;
        Ok(Self { names_models })
    }
}

/// Refuses an empty list of stages, with which inference-perf sends nothing.
fn refuse_no_stages(load: &Fields<'_>, key: &str) -> Result<(), Fault> {
    match load.peek("stages") {
        Some(Node { at, value: Value::List(stages) }) if stages.is_empty() => {
            Err(Fault::new(*at, format!("'load.stages' is empty, so nothing would be sent: give a stage its {key}")))
        }
        _ => Ok(()),
    }
}

/// Stages, with a pause before each but the first.
fn stages(all: &[(String, Place)], interval: Interval, flags: &mut Flags) {
    let Interval { seconds, at: place } = interval;
    for (number, (stage, at)) in all.iter().enumerate() {
        if number > 0 && seconds > 0.0 {
            flags.at(place).add("stage", format!("pause:{seconds}s"));
        }
        flags.at(*at).add("stage", stage);
    }
    if all.len() > 1 {
        flags.add("stage-edges", "drain");
    }
}

fn rates(load: &mut Fields<'_>, kind: &str, flags: &mut Flags) -> Result<(), Fault> {
    let interval = Interval::read(load)?;
    let sweep = load.peek("sweep").map(|node| node.at);
    if sweep.is_none() {
        refuse_no_stages(load, "rate and duration")?;
    }
    let mut all = Vec::new();
    let nodes = load.list("stages")?;
    let stages_at = nodes.first().map(|node| node.at);
    for node in nodes {
        let mut stage = Fields::new("load.stages", node)?;
        let other = "it belongs to stages of the type concurrent";
        stage.refuse("num_requests", other)?;
        stage.refuse("concurrency_level", other)?;
        let missing = |key: &str| Fault::new(node.at, format!("a stage of the type {kind} needs '{key}'"));
        let rate = stage.positive("rate")?.ok_or_else(|| missing("rate"))?;
        let seconds = stage.whole("duration", 1)?.ok_or_else(|| missing("duration"))?;
        stage.finish()?;
        // So many requests leave, of both types, rounded down: what chance decides is when.
        let requests = rate * seconds as f64;
        if requests < 1.0 {
            flags.note(format!("load.stages: {seconds} s at a rate of {rate} send nothing, so that stage is left out"));
            continue;
        }
        let is_even = kind == "constant" && requests.fract() == 0.0;
        let length = if is_even { format!("{seconds}s") } else { format!("{}req", requests as u64) };
        all.push((format!("rate:{rate}:{length}"), node.at));
    }
    let swept = load.section("sweep")?;
    if let (Some(at), Some(_), false) = (sweep, &swept, all.is_empty()) {
        return Err(Fault::new(at, "'load.sweep' finds the rates itself: leave out load.stages or load.sweep"));
    }
    let paced = swept.is_some() || !all.is_empty();
    if let (false, Some(at)) = (paced, stages_at) {
        return Err(Fault::new(at, "'load.stages' sends nothing: no stage's rate times its duration is 1 or more"));
    }
    stages(&all, interval, flags);
    if let Some(mut sweep) = swept {
        let spacing = sweep.choice("type", &["linear", "geometric"])?.unwrap_or("linear");
        let points = sweep.whole("num_stages", 2)?.unwrap_or(5);
        flags.at_key(&sweep, "num_stages").add("sweep", format!("{spacing}:{points}"));
        if let Some(seconds) = sweep.whole("stage_duration", 1)? {
            let window = (seconds as f64 * 1000.0 / WINDOWS).round().max(1.0);
            flags.at_key(&sweep, "stage_duration").add("measurement-interval", window);
            flags.note(
                "load.sweep.stage_duration: a rate is measured in three windows or more, so each has a third of it",
            );
        }
        let found = "no effect, because the search for the highest rate continues until it is known to 3 %";
        flags.notes.extend(
            ["num_requests", "timeout", "saturation_percentile"].iter().filter_map(|key| sweep.no_effect(key, found)),
        );
        sweep.finish()?;
    }
    load.refuse("trace", "its times belong to the type trace_replay, its lengths in data.trace")?;
    if kind == "poisson" && paced {
        flags.at_key(load, "type").add("request-distribution", "poisson");
    }
    Ok(())
}

fn concurrent(load: &mut Fields<'_>, flags: &mut Flags) -> Result<(), Fault> {
    let interval = Interval::read(load)?;
    load.refuse("sweep", "load.sweep is for rates: choose the type constant or poisson")?;
    load.refuse("trace", "choose the type trace_replay for its times, and data.trace for its lengths")?;
    refuse_no_stages(load, "concurrency_level and num_requests")?;
    let mut all = Vec::new();
    for node in load.list("stages")? {
        let mut stage = Fields::new("load.stages", node)?;
        let other = "it belongs to stages of the types constant and poisson";
        stage.refuse("rate", other)?;
        stage.refuse("duration", other)?;
        let missing = |key: &str| Fault::new(node.at, format!("a stage of the type concurrent needs '{key}'"));
        let requests = stage.whole("num_requests", 1)?.ok_or_else(|| missing("num_requests"))?;
        let level = stage.whole("concurrency_level", 1)?.ok_or_else(|| missing("concurrency_level"))?;
        stage.finish()?;
        // More concurrency than requests would be idle.
        all.push((format!("concurrency:{}:{requests}req", level.min(requests)), node.at));
    }
    stages(&all, interval, flags);
    flags.at_key(load, "type").switch("async");
    Ok(())
}

/// Stages of sessions, each of which is played once.
fn sessions(load: &mut Fields<'_>, flags: &mut Flags) -> Result<(), Fault> {
    let interval = Interval::read(load)?;
    load.refuse("sweep", "load.sweep is for rates: choose the type constant or poisson")?;
    load.refuse("trace", "the section data has the traces of sessions")?;
    let mut all = Vec::new();
    for node in load.list("stages")? {
        let mut stage = Fields::new("load.stages", node)?;
        let missing = || Fault::new(node.at, "a stage of the type trace_session_replay needs 'concurrent_sessions'");
        let concurrency = stage.whole("concurrent_sessions", 0)?.ok_or_else(missing)?;
        let count = stage.whole("num_sessions", 1)?.map_or_else(|| "all".to_owned(), |count| count.to_string());
        let rate = stage.positive("session_rate")?.map(|rate| format!(":{rate}")).unwrap_or_default();
        let rule = "no effect: a stage ends with its last session; load.request_timeout limits each request";
        flags.notes.extend(stage.no_effect("timeout", rule));
        stage.finish()?;
        all.push((format!("sessions:{concurrency}:{count}{rate}"), node.at));
    }
    if all.is_empty() {
        all.push(("sessions:1:all".to_owned(), load.place("stages")));
    }
    stages(&all, interval, flags);
    Ok(())
}

/// Stages that replay a trace. Without lengths of a trace, inference-perf only sends as many of its requests as a stage's rate
/// and duration ask for, each when the trace says.
fn replay(load: &mut Fields<'_>, at: Place, has_lengths: bool, flags: &mut Flags) -> Result<(), Fault> {
    load.refuse("sweep", "a trace has its own times: leave one out")?;
    let missing = || Fault::new(at, "load.type trace_replay needs 'load.trace'");
    let node = load.take("trace").ok_or_else(missing)?;
    let file = trace_file("load.trace", node)?;
    let interval = Interval::read(load)?;
    let nodes = load.list("stages")?;
    let counts = if has_lengths { None } else { counts(nodes)? };
    match (counts.as_deref(), nodes) {
        (Some([0]), [stage]) => {
            return Err(Fault::new(stage.at, "'load.stages' sends nothing: its rate times its duration is below 1"));
        }
        (Some([count]), [stage]) => {
            flags.at(stage.at).add("request-count", count);
            flags.note(format!(
                "load.stages: the first {count} requests of the trace are sent, rate × duration: without 'data.trace', \
                 inference-perf sends no more"
            ));
        }
        (Some(counts), _) => flags.notes.extend(notes_of_parts(counts, rows(file))),
        (None, []) => {}
        (None, _) => {
            flags.note("load.stages: a trace has its own times and requests, so each stage replays the whole of it");
        }
    }
    if nodes.len() > 1 {
        let part = |(number, stage): (usize, &Node)| {
            let form = match counts.as_ref().map(|counts| counts[number]) {
                None => "replay:1".to_owned(),
                Some(0) => return None,
                Some(count) => format!("replay:1:{count}req"),
            };
            Some((form, stage.at))
        };
        let replays: Vec<_> = nodes.iter().enumerate().filter_map(part).collect();
        if replays.is_empty() {
            let rule = "'load.stages' sends nothing: no stage's rate times its duration is 1 or more";
            return Err(Fault::new(nodes[0].at, rule));
        }
        stages(&replays, interval, flags);
    }
    flags.at(node.at).add("trace-replay", file);
    Ok(())
}

/// What should be known of stages that send so many of a trace's `rows` requests each.
fn notes_of_parts(counts: &[u64], rows: Option<usize>) -> Vec<String> {
    let shown: Vec<String> = counts.iter().map(u64::to_string).collect();
    let mut notes = vec![format!(
        "load.stages: each stage sends the first requests of the trace, rate × duration of them ({}): without \
         'data.trace', inference-perf sends no more",
        shown.join(", ")
    )];
    if counts.contains(&0) {
        notes.push(
            "load.stages: a stage whose rate times its duration is below 1 sends nothing, so it is left out".to_owned(),
        );
    }
    if let Some(rows) = rows.filter(|rows| counts.iter().any(|count| *count > *rows as u64)) {
        notes.push(format!(
            "load.stages: the trace has {rows} requests, so a stage that asks for more sends these; inference-perf 0.7 \
             breaks off there"
        ));
    }
    notes
}

/// How many requests the stages ask for; nothing if one does not say.
fn counts(nodes: &[Node]) -> Result<Option<Vec<u64>>, Fault> {
    let count = |node: &Node| {
        let mut stage = Fields::new("load.stages", node)?;
        Ok(stage
            .number("rate", 0.0)?
            .zip(stage.number("duration", 0.0)?)
            .map(|(rate, seconds)| (rate * seconds) as u64))
    };
    let all = nodes.iter().map(count).collect::<Result<Option<Vec<_>>, Fault>>()?;
    Ok(all.filter(|all| !all.is_empty()))
}

/// How many requests a trace has, if it can be read: its lines, but for a header.
fn rows(file: &str) -> Option<usize> {
    let text = std::fs::read_to_string(file).ok()?;
    let has_header = !text.trim_start().starts_with(|first: char| first == '{' || first.is_ascii_digit());
    let lines = text.lines().filter(|line| !line.trim().is_empty()).count();
    Some(lines.saturating_sub(usize::from(has_header)))
}

/// The file of a trace.
///
/// # Errors
/// If it is no section of a trace.
pub fn trace_file<'a>(name: &str, node: &'a Node) -> Result<&'a str, Fault> {
    let mut trace = Fields::new(name, node)?;
    let file = trace.text("file")?.ok_or_else(|| Fault::new(node.at, format!("'{name}.file' is missing")))?;
    // The formats are told apart by what the file has.
    trace.choice("format", &["AzurePublicDataset", "BurstGPT", "Mooncake", "Bailian"])?;
    trace.finish()?;
    Ok(file)
}

/// Workers and their limits on outstanding requests and connections; our limits are for all of them together.
fn workers(load: &mut Fields<'_>, kind: &str, service: Service, flags: &mut Flags) -> Result<(), Fault> {
    let workers = load.whole("num_workers", 1)?;
    let (concurrency, connections) =
        (load.whole("worker_max_concurrency", 1)?, load.whole("worker_max_tcp_connections", 1)?);
    if let Some(workers) = workers {
        flags.at_key(load, "num_workers").add("max-threads", workers);
    }
    if concurrency.is_none() && connections.is_none() && workers.is_none() {
        return Ok(());
    }
    let processors = std::thread::available_parallelism().map_or(1, usize::from) as u64;
    let workers = workers.unwrap_or(processors);
    match connections {
        Some(_) if !service.has_connections() => {
            flags.note("load.worker_max_tcp_connections is ignored: there are no connections");
        }
        Some(connections) => {
            let all = connections.saturating_mul(workers).min(MOST);
            flags.at_key(load, "worker_max_tcp_connections").add("max-connections", all);
        }
        None => {}
    }
    if kind == "concurrent" || kind == SESSIONS {
        if concurrency.is_some() && kind == "concurrent" {
            flags.note("load.worker_max_concurrency is ignored with the type concurrent, as in inference-perf");
        }
        return Ok(());
    }
    let all = concurrency.unwrap_or(WORKER_CONCURRENCY).saturating_mul(workers).min(MOST);
    flags.at_key(load, "worker_max_concurrency").add("max-outstanding", all);
    Ok(())
}

/// How long to wait for requests.
fn patience(load: &mut Fields<'_>, service: Service, flags: &mut Flags) -> Result<(), Fault> {
    if let Some(seconds) = load.positive("request_timeout")? {
        // Without a connection that is given up, the request is cancelled.
        let flag = if service.has_connections() { "client-timeout-us" } else { "cancel-after-us" };
        flags.at_key(load, "request_timeout").add(flag, (seconds * 1e6).round());
    }
    if load.peek("request_retries").is_some_and(|node| text(node) != Some("0")) {
        let rule = "a request that fails counts as failed: a retry would turn it into a slow success, and send \
            requests that the load does not ask for; leave it out: --max-errors sets how many may fail, and \
            --reconnect restores lost connections";
        load.refuse("request_retries", rule)?;
    }
    load.take("request_retries");
    if load.number("request_retry_backoff_sec", 0.0)?.is_some() {
        flags.note("load.request_retry_backoff_sec is ignored without load.request_retries");
    }
    let rule = "no effect: a stage ends with its last request, here as there; load.request_timeout limits each";
    flags.notes.extend(load.no_effect("stage_teardown_grace_seconds", rule));
    Ok(())
}

/// Adapters as a mix of models. Returns whether there are any.
fn adapters(list: &[Node], at: Option<Place>, flags: &mut Flags) -> Result<bool, Fault> {
    let mut total = 0.0;
    for node in list {
        let mut adapter = Fields::new("load.lora_traffic_split", node)?;
        let missing = |key: &str| Fault::new(node.at, format!("an adapter needs '{key}'"));
        let name = adapter.text("name")?.ok_or_else(|| missing("name"))?;
        let split = adapter.positive("split")?.ok_or_else(|| missing("split"))?;
        adapter.finish()?;
        if name.is_empty() || name.contains([',', ':', '?']) {
            let rule = "--model-mix takes no names with ',', ':' or '?': rename the adapter";
            return Err(Fault::new(node.at, format!("the name '{name}': {rule}")));
        }
        total += split;
        flags.at(node.at).add("model-mix", format!("{name}:{split}"));
    }
    match at {
        Some(at) if !list.is_empty() && (total - 1.0_f64).abs() > 1e-9 => {
            Err(Fault::new(at, format!("the splits sum up to {total}, not to 1")))
        }
        _ => Ok(!list.is_empty()),
    }
}
