//! Rules of the measurement.

use crate::exit::Codes;
use crate::terms::Picture;
use crate::validate::facts::{endless, has_several_levels, lacks_levels, loads, names_an_end, searches};
use crate::validate::{Rule, made, rule};
use crate::{Draft, ServiceKind};

/// Rules of the measurement.
pub(super) const RULES: &[Rule] = &[
    rule(
        |draft| draft.given.has("--metrics-listen") && (draft.plan.matrix.is_some() || draft.plan.rounds.is_some()),
        "{--metrics-listen} shows one load, and variants take turns: leave it out, or measure one at a time",
    ),
    rule(
        |draft| {
            draft.given.has("--otlp-endpoint")
                && (draft.plan.matrix.is_some() || draft.plan.rounds.is_some() || draft.plan.load.mode.is_periodic())
        },
        "{--otlp-endpoint} hands over levels, which variants and periodic loads do not have: leave it out",
    ),
    rule(
        |draft| draft.plan.gate.needs_baseline() && draft.plan.gate.baseline.is_none() && draft.plan.rounds.is_none(),
        "{--require} compares with a baseline: add --baseline FILE",
    ),
    rule(
        |draft| !draft.plan.gate.requirements.is_empty() && draft.plan.load.mode.is_periodic(),
        "--require is judged on levels, which --periodic-concurrency-range does not have: leave one out",
    ),
    rule(
        |draft| searches(draft) && !draft.plan.load.mode.is_range(),
        "--binary-search needs a range: add --concurrency-range or --request-rate-range",
    ),
    rule(
        |draft| {
            let is_range = has_several_levels(draft) || names_an_end(draft);
            searches(draft) && (endless(draft) || !is_range)
        },
        "--binary-search needs a range with an end, but got {range}",
    ),
    rule(
        |draft| searches(draft) && draft.plan.measurement.latency_threshold.is_none(),
        "--binary-search looks for the highest level within a limit: add --latency-threshold",
    ),
    rule(
        |draft| draft.plan.measurement.request_count.is_some() && draft.plan.load.mode.is_fixed_schedule(),
        "--fixed-schedule sends what its data defines: leave out --request-count",
    ),
    rule(
        |draft| draft.plan.measurement.request_count.is_some() && draft.plan.load.mode.has_parts(),
        "{load} says itself how many requests are sent: leave out --request-count",
    ),
    made(|draft| {
        let threads = threads_without_warm_up(draft)?;
        Some(format!(
            "{} leaves threads without a request: there are {threads} of them, so give at least {threads}, or lower \
             --max-threads",
            draft.given.show("--warmup-request-count")
        ))
    }),
    rule(too_few_requests, "{--request-count} is below the level that it has to reach: {range}"),
    rule(
        |draft| draft.plan.measurement.warmup_requests > 0 && !draft.plan.measurement.warmup.is_zero(),
        "--warmup-request-count and --warmup-duration both say how long to warm up: choose one",
    ),
    rule(
        |draft| !draft.plan.measurement.warmup.is_zero() && draft.plan.load.mode.is_periodic(),
        "--periodic-concurrency-range starts from an idle server: leave out --warmup-duration",
    ),
    rule(
        |draft| !draft.plan.measurement.warmup.is_zero() && draft.plan.load.mode.is_recorded(),
        "{--warmup-duration} cannot go with {load}, whose requests are counted: use --warmup-request-count, which \
         takes the first of them",
    ),
    rule(
        |draft| draft.plan.measurement.precision.is_some() && draft.plan.measurement.request_count.is_some(),
        "--precision decides how many requests are sent: leave out --request-count",
    ),
    rule(
        |draft| draft.plan.measurement.precision.is_some() && !draft.plan.load.mode.has_windows(),
        "{--precision} decides how long a level lasts, but {load} ends by itself: leave one out",
    ),
    rule(
        |draft| draft.plan.measurement.restarts > 1 && draft.plan.load.mode.separate_levels().is_none(),
        "{--restarts} repeats levels one by one, which {load} does not have: leave one out",
    ),
    rule(
        |draft| {
            let service = draft.plan.target.service;
            let runs = service == ServiceKind::Triton && draft.given.has("-u");
            draft.plan.matrix.is_some() && !service.is_embedded() && !runs
        },
        "{--matrix} starts from Triton in this process: use --service-kind triton_c_api, or name one that runs with -u",
    ),
    rule(
        |draft| {
            draft.plan.matrix.is_some()
                && !draft.given.among(&["--shared-memory", "--input-memory", "--output-memory"]).is_empty()
        },
        "{--matrix} goes through the placements of tensors itself: name none",
    ),
    rule(
        |draft| draft.plan.matrix.is_some() && (endless(draft) || searches(draft) || !draft.plan.load.mode.is_range()),
        "{--matrix} measures every level of --concurrency-range or --request-rate-range, which must have an end",
    ),
    made(|draft| {
        let chooses = endless(draft) || searches(draft) || draft.plan.load.mode.separate_levels().is_none();
        (draft.plan.rounds.is_some() && chooses).then(|| {
            let flags = loads(draft).into_iter().chain(draft.given.among(&["--binary-search"]));
            format!(
                "{} chooses its own levels, and variants are compared level by level: give a range with an end, as in \
                 --concurrency-range 1:8",
                flags.collect::<Vec<_>>().join(" ")
            )
        })
    }),
    rule(
        |draft| lacks_levels(draft) && draft.given.has("--report-dir"),
        "--report-dir holds files on levels, which variants and --periodic-concurrency-range do not have: leave it out",
    ),
    rule(
        |draft| draft.plan.rounds.is_some() && draft.plan.output.exports_requests(),
        "{--profile-export-file|--requests-file}: holds the requests of one variant: leave it out, or --variant and \
         --matrix",
    ),
    rule(
        |draft| draft.plan.rounds.is_some() && draft.plan.tracing.has_files(),
        "{--trace-export|--trace-file}: holds the traces of one variant: leave it out, or --variant and --matrix",
    ),
    made(|draft| {
        let picture = unsupported_picture(draft)?;
        let word = picture.name();
        Some(match draft.plan.rounds {
            _ if picture == Picture::Rounds => {
                format!("--svg {word}: shows rounds, which this run does not have: leave it out, or measure variants")
            }
            _ if picture.is_of_variants() => format!(
                "--svg {word}: shows several sizes: add --matrix and --matrix-sizes, which this run does not have: \
                 leave it out, or measure variants"
            ),
            Some(_) => {
                format!("--svg {word}: shows levels; variants have others: --svg comparison:FILE or rounds:FILE")
            }
            None => format!(
                "--svg {word}: shows variants, or several results: add --variant or --baseline, or make it \
                 afterwards with triton-bench report A.json B.json --svg {word}:FILE"
            ),
        })
    }),
    rule(
        |draft| !draft.plan.matrix_sizes.is_empty() && draft.plan.matrix.is_none(),
        "{--matrix-sizes} is for --matrix: add that, or leave it out",
    ),
];

/// A picture that the run's result cannot contain, whatever the outcome: variants have rounds in place of levels.
fn unsupported_picture(draft: &Draft) -> Option<Picture> {
    let (varies, compares) = (draft.plan.rounds.is_some(), draft.plan.gate.baseline.is_some());
    let mut figures = draft.plan.output.pages.figures.iter().map(|file| file.figure);
    figures.find(|figure| match figure {
        Picture::Comparison => !(varies || compares),
        Picture::Sizes | Picture::Bandwidth => draft.plan.matrix_sizes.len() < 2,
        Picture::Rounds => !varies,
        _ => varies,
    })
}

/// How many threads share a rate, if that is more than there are warm-up requests: perf_analyzer deals requests to its
/// threads, and one that gets none never ends. A load of a concurrency has fewer threads in that case, and a schedule
/// that is played once is warmed up by its first entries, however few.
fn threads_without_warm_up(draft: &Draft) -> Option<u64> {
    let (load, requests) = (&draft.plan.load, draft.plan.measurement.warmup_requests);
    let rate = load.mode.has_windows() && load.mode.has_schedule();
    let sequences = if draft.given.has("--num-of-sequences") { load.sequences.concurrent } else { usize::MAX };
    let threads = load.max_threads.min(sequences) as u64;
    (rate && requests > 0 && requests < threads).then_some(threads)
}

/// Whether fewer requests are asked for than the level has outstanding; perf_analyzer refuses fewer than it sends in a second,
/// too.
fn too_few_requests(draft: &Draft) -> bool {
    let Some(count) = draft.plan.measurement.request_count else { return false };
    let mode = &draft.plan.load.mode;
    // A level of a range cannot have more outstanding than it has requests; where the range has no end, its first level counts.
    mode.concurrency().is_some_and(|range| count < u64::from(range.end.unwrap_or(0).max(range.start)))
        || draft.codes == Codes::PerfAnalyzers
            && mode.rate().is_some_and(|range| (count as f64) < range.end.unwrap_or(0.0).max(range.start).floor())
}
