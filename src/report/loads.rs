//! Loads in words: the place where a further load gets its own.

use std::fmt::Write as _;
use std::time::Duration;

use crate::number::{counted, msec, significant};
use crate::terms::{GapDistribution, LoadMode, Ramp, Range, Stage, StageEdges, StageLength, StageLoad, TokenInput};

/// What it is, in a few words.
pub fn kind(mode: &LoadMode) -> &'static str {
    match mode {
        LoadMode::Concurrency(_) => "requests kept outstanding",
        LoadMode::Paced { .. } => "paced streams",
        LoadMode::RequestRate { .. } => "requests at a rate",
        LoadMode::Intervals(_) | LoadMode::FixedSchedule | LoadMode::TraceReplay { .. } => "requests on a schedule",
        LoadMode::Periodic(_) => "periodic load",
        LoadMode::Sessions(_) => "conversations",
        LoadMode::Stages { .. } => "stages",
        LoadMode::Sweep { .. } => "a sweep of rates",
    }
}

/// The line in place of windows if the load ends by itself.
pub fn measured_as(mode: &LoadMode) -> Option<&'static str> {
    match mode {
        LoadMode::FixedSchedule | LoadMode::TraceReplay { .. } => Some("  Measuring the load as a whole\n"),
        LoadMode::Stages { .. } => Some("  Measuring each stage as a whole\n"),
        LoadMode::Sessions(_) => Some("  Playing every session once\n"),
        LoadMode::Periodic(_) => Some("  Measuring each batch of requests\n"),
        _ => None,
    }
}

/// The end of the range, if there is one, and how a rate is kept.
pub fn settings(mode: &LoadMode, limit: Option<Duration>) -> String {
    let mut text = String::new();
    let threshold = msec(limit.unwrap_or_default());
    let latency = format!("  Latency limit: {threshold} msec\n");
    match mode {
        LoadMode::Concurrency(range) if range.end != Some(range.start) => {
            text += &latency;
            if let Some(end) = range.end {
                let _ = writeln!(text, "  Concurrency limit: {end} concurrent requests");
            }
        }
        LoadMode::Paced { range, interval } => text += &paced(range, *interval, &latency),
        LoadMode::RequestRate { range, distribution } => {
            if range.end != Some(range.start) {
                text += &latency;
                if let Some(end) = range.end {
                    let _ = writeln!(text, "  Request Rate limit: {} requests per seconds", significant(end));
                }
            }
            text += &gaps(*distribution);
        }
        LoadMode::Stages { stages, distribution, edges, .. } => {
            let drains = if *edges == StageEdges::Drain { ", each begun when the one before is answered" } else { "" };
            let _ = writeln!(text, "  Stages: {}{drains}", stages.len());
            text += &gaps(*distribution);
        }
        LoadMode::Sweep { points, distribution, .. } => {
            let _ = writeln!(text, "  Sweep to saturation, then {}", counted(u64::from(*points), "rate"));
            text += &gaps(*distribution);
        }
        LoadMode::Intervals(file) => {
            let _ = writeln!(text, "  Using the intervals of {}", file.display());
        }
        LoadMode::Sessions(sessions) => {
            let _ = writeln!(text, "  Sessions at a time: {sessions}");
        }
        LoadMode::FixedSchedule => text += "  Using the schedule of the input data\n",
        LoadMode::TraceReplay { file, speed, tokens } => {
            let _ = writeln!(text, "  Replaying {} at {} times its speed", file.display(), significant(*speed));
            if let Some(TokenInput { name, longest }) = &tokens.input {
                let _ = writeln!(text, "  Context tokens: length of {name}, at most {longest}");
            }
            if let Some(name) = &tokens.parameter {
                let _ = writeln!(text, "  Generated tokens: request parameter {name}");
            }
        }
        LoadMode::Periodic(periodic) => {
            let _ = writeln!(
                text,
                "  Concurrency: {}, {} more every {}, {} in all",
                periodic.start,
                periodic.step,
                counted(u64::from(periodic.request_period), "response"),
                periodic.end
            );
        }
        LoadMode::Concurrency(_) => {}
    }
    text
}

/// Where a range of streams ends, and how they are paced.
fn paced(range: &Range<u32>, interval: Duration, latency: &str) -> String {
    let latency = if range.end == Some(range.start) { "" } else { latency };
    let end = range.end.filter(|end| *end != range.start);
    let limit = end.map(|end| format!("  Streams limit: {end} concurrent streams\n")).unwrap_or_default();
    format!("{latency}{limit}  Each stream sends a request every {interval:?}, answered or not\n")
}

/// A stage in words.
pub fn stage(stage: &Stage) -> String {
    let load = match stage.load {
        StageLoad::Concurrency(requests) => format!("concurrency {requests}"),
        StageLoad::RequestRate(rate) => format!("{} requests/sec", significant(rate)),
        StageLoad::Ramp(Ramp { from, to }) => format!("{} to {} requests/sec", significant(from), significant(to)),
        StageLoad::Replay { speed } => format!("the trace at {} times its speed", significant(speed)),
        StageLoad::Sessions { .. } => "sessions".to_owned(),
    };
    match stage.length {
        StageLength::Time(time) => format!("{load} for {} s", significant(time.as_secs_f64())),
        StageLength::Requests(requests) => format!("{load} for {}", counted(requests, "request")),
        StageLength::Sessions(_) | StageLength::Recorded => load,
    }
}

/// How gaps between sends are drawn.
fn gaps(distribution: GapDistribution) -> String {
    let name = match distribution {
        GapDistribution::Constant => "uniform".to_owned(),
        GapDistribution::Poisson => "poisson".to_owned(),
        GapDistribution::Gamma(shape) => format!("gamma ({})", significant(shape)),
    };
    format!("  Using {name} distribution on request generation\n")
}
