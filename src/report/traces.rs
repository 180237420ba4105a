//! Summaries of a server's traces, in the format of Triton's own summary script.

use std::fmt::Write as _;
use std::path::Path;

use serde_json::json as value;

use crate::chrome::{Group, Slice};
use crate::number::percent;
use crate::stage_heads;
use crate::stdio::shown;
use ::traces::{Frontend, ModelSpans, ModelStages, StageFigures, Trace};

/// One model's averages, in whole microseconds.
pub fn summary(sum: &ModelSpans) -> String {
    let mut text =
        format!("Summary for {} ({}): trace count = {}\n", shown(&sum.model), shown(&sum.version), sum.count);
    let (spans, count) = (&sum.spans, sum.count.max(1));
    let mut line = |depth: usize, label: &str, ns: u64| {
        let _ = writeln!(text, "{}{label} (avg): {}us", "\t".repeat(depth), ns / count / 1000);
    };
    let remainder =
        |whole: u64, parts: &[Option<u64>]| parts.iter().flatten().fold(whole, |left, part| left.saturating_sub(*part));
    if let Some(total) = spans.total {
        let (request, receive) = match sum.frontend {
            Frontend::Grpc => ("GRPC infer request", "Wait/Read"),
            _ => ("HTTP infer request", "Receive"),
        };
        line(0, request, total);
        line(1, receive, spans.receive.unwrap_or(0));
        line(1, "Send", spans.send.unwrap_or(0));
        line(1, "Overhead", remainder(total, &[spans.receive, spans.send, spans.handler]));
    }
    let handler = spans.handler.unwrap_or(0);
    line(1, "Handler", handler);
    // An ensemble has no queue or execution of its own.
    if let Some(compute) = spans.compute {
        line(2, "Overhead", remainder(handler, &[spans.queue, spans.compute]));
        line(2, "Queue", spans.queue.unwrap_or(0));
        line(2, "Compute", compute);
        for (part, ns) in [("Input", spans.input), ("Infer", spans.infer), ("Output", spans.output)] {
            if let Some(ns) = ns {
                line(3, part, ns);
            }
        }
    }
    text
}

/// One trace: its moments, and the whole microseconds between them.
pub fn moments(trace: &Trace) -> String {
    let mut text = format!("{} ({}):\n", shown(&trace.model), shown(&trace.version));
    let mut before = None;
    for moment in &trace.moments {
        if let Some(before) = before {
            let _ = writeln!(text, "\t\t{}us", (moment.ns - before) / 1000);
        }
        let _ = writeln!(text, "\t{}", shown(&moment.name));
        before = Some(moment.ns);
    }
    text
}

/// One model's stages: a row each, and the slowest traces.
pub fn table(model: &ModelStages) -> String {
    let protocol = match model.protocol {
        "none" => String::new(),
        some => format!(", {some}"),
    };
    let (name, version) = (shown(&model.model), shown(&model.version));
    let mut text = format!("Stages of {name} ({version}){protocol}, us:\n\t{:16}{}\n", "Stage", stage_heads(10));
    for StageFigures { name, mean_us, p50_us, p90_us, p95_us, p99_us, share } in &model.stages {
        let times = [mean_us, p50_us, p90_us, p95_us, p99_us].map(|us| format!("{us:>10.1}")).concat();
        let _ = writeln!(text, "\t{name:16}{times}{:>10}", percent(*share));
    }
    for slow in &model.slowest {
        let id = slow.id.map_or_else(|| "without id".to_owned(), |id| id.to_string());
        let stages: Vec<String> = slow.stages.iter().map(|(name, us)| format!("{name} {us:.1}")).collect();
        let _ = writeln!(text, "\tSlow: trace {id}: {:.1}us ({})", slow.latency_us, stages.join(", "));
    }
    text
}

/// The stages of a file's models as a line of JSON.
pub fn json(file: &Path, models: &[ModelStages]) -> String {
    format!("{}\n", value!({"file": file.display().to_string(), "models": models}))
}

/// A trace's moments as slices: from each moment to the next, inside one from the first to the last.
pub fn groups(traces: &[Trace]) -> Vec<Group> {
    let group = |trace: &Trace| {
        let (first, last) = (trace.moments.first()?, trace.moments.last()?);
        let name = format!("{} ({})", trace.model, trace.version);
        let whole = Slice { name: name.clone(), span: (first.ns, last.ns) };
        let steps = trace.moments.windows(2).map(|pair| Slice {
            name: format!("{} to {}", pair[0].name, pair[1].name),
            span: (pair[0].ns, pair[1].ns),
        });
        let about = value!({"trace": trace.id, "parent": trace.parent});
        Some(Group { process: name, slices: std::iter::once(whole).chain(steps).collect(), about })
    };
    traces.iter().filter_map(group).collect()
}
