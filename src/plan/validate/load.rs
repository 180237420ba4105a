//! Rules of the load.

use crate::exit::Codes;
use crate::terms::MAX_LEVELS;
use crate::validate::Rule;
use crate::validate::facts::{endless, loads, shown_range};
use crate::{Calls, DataSource, Draft, ServiceKind};

/// Rules of the load.
pub(super) const RULES: &[Rule] = &[
    Rule {
        broken: |draft| draft.given.has("--warm-up") && (draft.plan.matrix.is_some() || draft.plan.rounds.is_some()),
        message: |draft| {
            format!(
                "{} comes before the first level, and variants take turns: warm up each of their rounds with --warmup-duration",
                draft.given.show("--warm-up")
            )
        },
    },
    Rule {
        broken: |draft| loads(draft).len() > 1,
        message: |draft| format!("{} are different loads: choose one of them", loads(draft).join(" and ")),
    },
    Rule {
        broken: |draft| draft.given.has("--paced") && draft.plan.load.mode.pace().is_none(),
        message: |draft| {
            let other = draft.plan.load.mode.flag();
            format!(
                "{} paces the streams of --concurrency-range, and {other} is another load: leave one out",
                draft.given.show("--paced")
            )
        },
    },
    Rule {
        broken: |draft| draft.given.has("--paced") && draft.plan.target.openai.sessions,
        message: |draft| {
            format!(
                "{}: a turn of a conversation waits for the answer before it, so it cannot leave when it is due: leave it out",
                draft.given.show("--paced")
            )
        },
    },
    Rule {
        broken: |draft| draft.given.has("--async") && draft.given.has("--sync"),
        message: |_| "--async and --sync contradict each other: choose one".into(),
    },
    Rule {
        broken: |draft| {
            let is_grpc = draft.plan.target.service != ServiceKind::OpenAi;
            is_grpc && draft.given.has("--streaming") && draft.given.has("--sync")
        },
        message: |_| "--streaming is asynchronous and cannot go with --sync: leave one out".into(),
    },
    Rule {
        // perf_analyzer takes its default, and so does the program under its name.
        broken: |draft| {
            let length = draft.given.value("--sequence-length").and_then(|length| length.parse::<i64>().ok());
            draft.codes == Codes::Own && length.is_some_and(|length| length < 1)
        },
        message: |draft| {
            let length = draft.given.value("--sequence-length").unwrap_or_default();
            format!("--sequence-length '{length}': it must be a whole number from 1 to {}", u32::MAX)
        },
    },
    Rule {
        broken: |draft| draft.given.has("--wait") && draft.plan.load.calls == Calls::Asynchronous,
        message: |draft| {
            format!(
                "{} is for synchronous threads, but this load is asynchronous: leave it out",
                draft.given.show("--wait")
            )
        },
    },
    Rule {
        broken: |draft| draft.plan.data.batch_sizes.len() > 1 && !draft.plan.load.mode.is_range(),
        message: |draft| {
            format!(
                "{} are several batch sizes, which are measured with --concurrency-range or --request-rate-range: name one",
                draft.given.show("-b")
            )
        },
    },
    Rule {
        broken: |draft| {
            let exports = draft.plan.output.exports_requests();
            draft.plan.data.batch_sizes.len() > 1 && (exports || draft.plan.rounds.is_some())
        },
        message: |draft| {
            format!(
                "{} are several batch sizes, but --profile-export-file, --requests-file, --variant and --matrix take one: name one, or leave that flag out",
                draft.given.show("-b")
            )
        },
    },
    Rule {
        broken: is_reversed,
        message: |draft| format!("the highest concurrency ({}) must not be below the first", draft.given.show("-c")),
    },
    Rule {
        broken: |draft| endless(draft) && draft.plan.measurement.latency_threshold.is_none(),
        message: |draft| {
            format!(
                "{} has no end, so --latency-threshold must be given and above 0: it ends the range",
                shown_range(draft)
            )
        },
    },
    Rule { broken: |draft| too_fine(draft).is_some(), message: |draft| too_fine(draft).unwrap_or_default() },
    Rule {
        broken: |draft| {
            let (first, last) = (draft.given.values("--stage").next(), draft.given.value("--stage"));
            [first, last].into_iter().flatten().any(is_pause)
        },
        message: |_| "--stage pause:TIME is a rest between two stages: write it between them".into(),
    },
    Rule {
        broken: |draft| draft.given.has("--stage-edges") && !draft.given.has("--stage"),
        message: |draft| format!("{} is about stages: add --stage", draft.given.show("--stage-edges")),
    },
    Rule {
        broken: |draft| waits_on_connections(draft).is_some(),
        message: |draft| {
            let flag = draft.given.show("--max-connections");
            let of_requests = match waits_on_connections(draft) {
                Some(u32::MAX) | None => String::new(),
                Some(requests) => format!(" of {requests}"),
            };
            format!(
                "{flag}: each{of_requests} threads that wait for their answers has a connection of its own: add --async"
            )
        },
    },
    Rule {
        broken: |draft| draft.plan.load.max_connections.is_some() && draft.plan.load.mode.overlaps(),
        message: |draft| {
            let flag = draft.given.show("--max-connections");
            format!("{flag}: stages that overlap need connections at the same time: add --stage-edges drain")
        },
    },
    Rule {
        broken: |draft| draft.given.has("--burstiness") && !is_gamma(draft),
        message: |draft| {
            format!("{} shapes gamma gaps: add --request-distribution gamma", draft.given.show("--burstiness"))
        },
    },
    Rule {
        broken: |draft| {
            is_gamma(draft) && !draft.given.has("--request-rate-range") && !draft.plan.load.mode.has_parts()
        },
        message: |_| "--request-distribution gamma needs a load with a rate: add --request-rate-range".into(),
    },
    Rule {
        broken: |draft| draft.given.has("--trace-speed") && !draft.given.has("--trace-replay"),
        message: |draft| format!("{} needs --trace-replay", draft.given.show("--trace-speed")),
    },
    Rule {
        broken: |draft| draft.given.has("--trace-speed") && draft.plan.load.mode.has_replays(),
        message: |draft| {
            format!("{}: each --stage replay:SPEED has its own: leave it out", draft.given.show("--trace-speed"))
        },
    },
    Rule {
        broken: |draft| draft.plan.load.mode.has_replays() && !draft.given.has("--trace-replay"),
        message: |_| "--stage replay:SPEED plays a recorded trace: name its file with --trace-replay".into(),
    },
    Rule {
        broken: |draft| {
            !draft.given.among(&["--trace-input", "--trace-parameter"]).is_empty()
                && draft.given.among(&["--trace-replay", "--trace-lengths"]).is_empty()
        },
        message: |draft| {
            let flags = draft.given.among(&["--trace-input", "--trace-parameter"]).join(" and ");
            format!(
                "{flags} takes token counts from a trace: add --trace-replay, or --trace-lengths under another load"
            )
        },
    },
    Rule {
        broken: |draft| {
            draft.given.has("--trace-lengths") && draft.given.among(&["--trace-input", "--trace-parameter"]).is_empty()
        },
        message: |draft| {
            let flag = draft.given.show("--trace-lengths");
            format!("{flag}: nothing uses these lengths: add --trace-input or --trace-parameter")
        },
    },
    Rule {
        broken: |draft| {
            let others = ["--trace-replay", "--fixed-schedule", "--session-concurrency"];
            draft.given.has("--trace-lengths") && !draft.given.among(&others).is_empty()
        },
        message: |draft| {
            let other =
                draft.given.among(&["--trace-replay", "--fixed-schedule", "--session-concurrency"]).join(" and ");
            format!("{other} has requests of its own lengths: leave out --trace-lengths")
        },
    },
    Rule {
        broken: |draft| {
            draft.given.has("--trace-input") && !matches!(draft.plan.data.source, DataSource::Zero | DataSource::Random)
        },
        message: |draft| {
            format!(
                "{} makes inputs of many lengths, for generated data only: leave out --input-data",
                draft.given.show("--trace-input")
            )
        },
    },
    Rule {
        broken: |draft| !draft.plan.target.mix.is_empty() && draft.plan.load.mode.is_fixed_schedule(),
        message: |_| {
            "--fixed-schedule plays the data of one model and cannot go with --model-mix: replay a trace instead".into()
        },
    },
    Rule {
        broken: |draft| draft.given.has("--max-outstanding") && !draft.plan.load.mode.has_schedule(),
        message: |draft| {
            format!(
                "{} limits open loops (rates and schedules); here --concurrency-range sets how many are outstanding",
                draft.given.show("--max-outstanding")
            )
        },
    },
    Rule {
        broken: |draft| draft.given.has("--sync") && draft.plan.load.mode.is_periodic(),
        message: |_| "--periodic-concurrency-range is asynchronous and cannot go with --sync: leave that out".into(),
    },
    Rule {
        broken: |draft| {
            draft.plan.load.mode.is_periodic()
                && matches!(draft.plan.target.service, ServiceKind::Triton | ServiceKind::OpenAi)
                && !draft.given.has("--streaming")
        },
        message: |draft| {
            let flags =
                if draft.plan.target.service == ServiceKind::OpenAi { "--streaming" } else { "-i grpc --streaming" };
            format!("--periodic-concurrency-range over the network needs streams: add {flags}")
        },
    },
    Rule {
        broken: |draft| match (&draft.plan.load.cpus, &draft.plan.load.worker_cpus) {
            (Some(all), Some(workers)) => workers.iter().any(|processor| !all.contains(processor)),
            _ => false,
        },
        message: |draft| format!("{} must be among {}", draft.given.show("--worker-cpus"), draft.given.show("--cpus")),
    },
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
