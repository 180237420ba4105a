//! Rules of the load.

use crate::exit::Codes;
use crate::terms::MAX_LEVELS;
use crate::validate::facts::{endless, loads};
use crate::validate::{Rule, made, rule};
use crate::{Calls, DataSource, Draft, ServiceKind};

/// Rules of the load.
pub(super) const RULES: &[Rule] = &[
    rule(
        |draft| draft.given.has("--warm-up") && (draft.plan.matrix.is_some() || draft.plan.rounds.is_some()),
        "{--warm-up} comes before the first level, and variants take turns: warm up each of their rounds with \
         --warmup-duration",
    ),
    rule(
        // aiperf's and vLLM's users give both, where one bounds the other.
        |draft| draft.codes == Codes::Own && loads(draft) == ["--concurrency-range", "--request-rate-range"],
        "{load} are different loads: choose one of them; beside a rate, --max-outstanding N bounds the requests under way",
    ),
    rule(|draft| loads(draft).len() > 1, "{load} are different loads: choose one of them"),
    made(|draft| {
        (draft.given.has("--paced") && draft.plan.load.mode.pace().is_none()).then(|| {
            let other = draft.plan.load.mode.flag();
            format!(
                "{} paces the streams of --concurrency-range, and {other} is another load: leave one out",
                draft.given.show("--paced")
            )
        })
    }),
    rule(
        |draft| draft.given.has("--paced") && draft.plan.target.openai.sessions,
        "{--paced}: a turn of a conversation waits for the answer before it, so it cannot leave when it is due: \
         leave it out",
    ),
    rule(
        |draft| draft.given.has("--async") && draft.given.has("--sync"),
        "--async and --sync contradict each other: choose one",
    ),
    rule(
        |draft| {
            let is_grpc = draft.plan.target.service != ServiceKind::OpenAi;
            is_grpc && draft.given.has("--streaming") && draft.given.has("--sync")
        },
        "--streaming is asynchronous and cannot go with --sync: leave one out",
    ),
    // perf_analyzer takes its default, and so does the program under its name.
    made(|draft| {
        let length = draft.given.value("--sequence-length")?;
        let is_short = draft.codes == Codes::Own && length.parse::<i64>().is_ok_and(|length| length < 1);
        is_short.then(|| format!("--sequence-length '{length}': it must be a whole number from 1 to {}", u32::MAX))
    }),
    rule(
        |draft| draft.given.has("--wait") && draft.plan.load.calls == Calls::Asynchronous,
        "{--wait} is for synchronous threads, but this load is asynchronous: leave it out",
    ),
    rule(
        |draft| draft.plan.data.batch_sizes.len() > 1 && !draft.plan.load.mode.is_range(),
        "{-b} are several batch sizes, which are measured with --concurrency-range or --request-rate-range: name one",
    ),
    rule(
        |draft| {
            let exports = draft.plan.output.exports_requests();
            draft.plan.data.batch_sizes.len() > 1 && (exports || draft.plan.rounds.is_some())
        },
        "{-b} are several batch sizes, but --profile-export-file, --requests-file, --variant and --matrix take one: \
         name one, or leave that flag out",
    ),
    rule(is_reversed, "the highest concurrency ({-c}) must not be below the first"),
    rule(
        |draft| endless(draft) && draft.plan.measurement.latency_threshold.is_none(),
        "{range} has no end, so --latency-threshold must be given and above 0: it ends the range",
    ),
    made(too_fine),
    rule(
        |draft| {
            let (first, last) = (draft.given.values("--stage").next(), draft.given.value("--stage"));
            [first, last].into_iter().flatten().any(is_pause)
        },
        "--stage pause:TIME is a rest between two stages: write it between them",
    ),
    rule(
        |draft| draft.given.has("--stage-edges") && !draft.given.has("--stage"),
        "{--stage-edges} is about stages: add --stage",
    ),
    made(|draft| {
        let of_requests = match waits_on_connections(draft)? {
            u32::MAX => String::new(),
            requests => format!(" of {requests}"),
        };
        let flag = draft.given.show("--max-connections");
        Some(format!(
            "{flag}: each{of_requests} threads that wait for their answers has a connection of its own: add --async"
        ))
    }),
    rule(
        |draft| draft.plan.load.max_connections.is_some() && draft.plan.load.mode.overlaps(),
        "{--max-connections}: stages that overlap need connections at the same time: add --stage-edges drain",
    ),
    rule(
        |draft| draft.given.has("--burstiness") && !is_gamma(draft),
        "{--burstiness} shapes gamma gaps: add --request-distribution gamma",
    ),
    rule(
        |draft| is_gamma(draft) && !draft.given.has("--request-rate-range") && !draft.plan.load.mode.has_parts(),
        "--request-distribution gamma needs a load with a rate: add --request-rate-range",
    ),
    rule(
        |draft| draft.given.has("--trace-speed") && !draft.given.has("--trace-replay"),
        "{--trace-speed} needs --trace-replay",
    ),
    rule(
        |draft| draft.given.has("--trace-speed") && draft.plan.load.mode.has_replays(),
        "{--trace-speed}: each --stage replay:SPEED has its own: leave it out",
    ),
    rule(
        |draft| draft.plan.load.mode.has_replays() && !draft.given.has("--trace-replay"),
        "--stage replay:SPEED plays a recorded trace: name its file with --trace-replay",
    ),
    rule(
        |draft| {
            !draft.given.among(&["--trace-input", "--trace-parameter"]).is_empty()
                && draft.given.among(&["--trace-replay", "--trace-lengths"]).is_empty()
        },
        "{--trace-input|--trace-parameter} takes token counts from a trace: add --trace-replay, or --trace-lengths \
         under another load",
    ),
    rule(
        |draft| {
            draft.given.has("--trace-lengths") && draft.given.among(&["--trace-input", "--trace-parameter"]).is_empty()
        },
        "{--trace-lengths}: nothing uses these lengths: add --trace-input or --trace-parameter",
    ),
    rule(
        |draft| {
            let others = ["--trace-replay", "--fixed-schedule", "--session-concurrency"];
            draft.given.has("--trace-lengths") && !draft.given.among(&others).is_empty()
        },
        "{--trace-replay|--fixed-schedule|--session-concurrency} has requests of its own lengths: leave out \
         --trace-lengths",
    ),
    rule(
        |draft| {
            draft.given.has("--trace-input") && !matches!(draft.plan.data.source, DataSource::Zero | DataSource::Random)
        },
        "{--trace-input} makes inputs of many lengths, for generated data only: leave out --input-data",
    ),
    rule(
        |draft| !draft.plan.target.mix.is_empty() && draft.plan.load.mode.is_fixed_schedule(),
        "--fixed-schedule plays the data of one model and cannot go with --model-mix: replay a trace instead",
    ),
    rule(
        |draft| draft.given.has("--max-outstanding") && !draft.plan.load.mode.has_schedule(),
        "{--max-outstanding} limits open loops (rates and schedules); here --concurrency-range sets how many are \
         outstanding",
    ),
    rule(
        |draft| draft.given.has("--sync") && draft.plan.load.mode.is_periodic(),
        "--periodic-concurrency-range is asynchronous and cannot go with --sync: leave that out",
    ),
    made(|draft| {
        let flags = match draft.plan.target.service {
            ServiceKind::Triton => "-i grpc --streaming",
            ServiceKind::OpenAi => "--streaming",
            _ => return None,
        };
        (draft.plan.load.mode.is_periodic() && !draft.given.has("--streaming"))
            .then(|| format!("--periodic-concurrency-range over the network needs streams: add {flags}"))
    }),
    rule(
        |draft| match (&draft.plan.load.cpus, &draft.plan.load.worker_cpus) {
            (Some(all), Some(workers)) => workers.iter().any(|processor| !all.contains(processor)),
            _ => false,
        },
        "{--worker-cpus} must be among {--cpus}",
    ),
];

/// How many requests have a waiting thread each, if there may be fewer connections than that; the largest number if a
/// range has no end.
fn waits_on_connections(draft: &Draft) -> Option<u32> {
    let load = &draft.plan.load;
    let most = load.max_connections?;
    let waits = load.calls != Calls::Asynchronous;
    let is_endless = load.mode.concurrency().is_some_and(|range| range.end.is_none());
    let peak = if is_endless { Some(u32::MAX) } else { load.mode.peak_concurrency() };
    peak.filter(|requests| waits && *requests as usize > most)
}

fn is_pause(stage: &str) -> bool {
    stage.split(':').next().is_some_and(|kind| kind.eq_ignore_ascii_case("pause"))
}

fn is_gamma(draft: &Draft) -> bool {
    draft.given.value("--request-distribution").is_some_and(|word| word.eq_ignore_ascii_case("gamma"))
}

/// What is wrong with the step of rates that are measured one after another, if they would have no end in practice.
fn too_fine(draft: &Draft) -> Option<String> {
    let range = draft.plan.load.mode.rate()?;
    if draft.plan.measurement.binary_search || !range.listed.is_empty() || range.end == Some(range.start) {
        return None;
    }
    let makes = if range.start + range.step <= range.start {
        "is too small to raise the rate".to_owned()
    } else if range.count() > MAX_LEVELS {
        format!("makes more than {MAX_LEVELS} levels")
    } else {
        return None;
    };
    Some(format!("{}: its step {makes}: take a larger one", draft.given.show("--request-rate-range")))
}

/// Whether `-t` and `-c` make a range that runs backwards.
fn is_reversed(draft: &Draft) -> bool {
    draft.plan.load.mode.concurrency().is_some_and(|range| range.end.is_some_and(|end| end < range.start))
}
