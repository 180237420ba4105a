//! Summaries of a server's traces, in the form that Triton's own summary script has.

use std::fmt::Write as _;

use crate::stdio::shown;
use crate::traces::{Frontend, ModelSpans, Trace};

/// One model's averages, in whole microseconds.
pub fn summary(sum: &ModelSpans) -> String {
    let mut text =
        format!("Summary for {} ({}): trace count = {}\n", shown(&sum.model), shown(&sum.version), sum.count);
    let (spans, count) = (&sum.spans, sum.count.max(1));
    let mut line = |depth: usize, what: &str, ns: u64| {
        let _ = writeln!(text, "{}{what} (avg): {}us", "\t".repeat(depth), ns / count / 1000);
    };
    let rest =
        |whole: u64, parts: &[Option<u64>]| parts.iter().flatten().fold(whole, |rest, part| rest.saturating_sub(*part));
    if let Some(total) = spans.total {
        let (request, receive) = match sum.frontend {
            Frontend::Grpc => ("GRPC infer request", "Wait/Read"),
            _ => ("HTTP infer request", "Receive"),
        };
        line(0, request, total);
        line(1, receive, spans.receive.unwrap_or(0));
        line(1, "Send", spans.send.unwrap_or(0));
        line(1, "Overhead", rest(total, &[spans.receive, spans.send, spans.handler]));
    }
    let handler = spans.handler.unwrap_or(0);
    line(1, "Handler", handler);
    // An ensemble has no queue and no execution of its own.
    if let Some(compute) = spans.compute {
        line(2, "Overhead", rest(handler, &[spans.queue, spans.compute]));
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
