//! Rules of the measurement.

use crate::Draft;
use crate::exit::Codes;
use crate::terms::Picture;
use crate::validate::Rule;
use crate::validate::facts::{endless, has_several_levels, lacks_levels, loads, names_an_end, searches, shown_range};

/// Flags of files that hold single requests.
const EXPORTS: &[&str] = &["--profile-export-file", "--requests-file"];

/// Rules of the measurement.
pub(super) const RULES: &[Rule] = &[
    Rule {
        broken: |draft| {
            draft.given.has("--metrics-listen") && (draft.plan.matrix.is_some() || draft.plan.rounds.is_some())
        },
        message: |draft| {
            format!(
                "{} shows one load, and variants take turns: leave it out, or measure one at a time",
                draft.given.show("--metrics-listen")
            )
        },
    },
    Rule {
        broken: |draft| {
            draft.given.has("--otlp-endpoint")
                && (draft.plan.matrix.is_some() || draft.plan.rounds.is_some() || draft.plan.load.mode.is_periodic())
        },
        message: |draft| {
            format!(
                "{} hands over levels, which variants and periodic loads do not have: leave it out",
                draft.given.show("--otlp-endpoint")
            )
        },
    },
    Rule {
        broken: |draft| {
            draft.plan.gate.needs_baseline() && draft.plan.gate.baseline.is_none() && draft.plan.rounds.is_none()
        },
        message: |draft| format!("{} compares with a baseline: add --baseline FILE", draft.given.show("--require")),
    },
    Rule {
        broken: |draft| !draft.plan.gate.requirements.is_empty() && draft.plan.load.mode.is_periodic(),
        message: |_| {
            "--require is judged on levels, which --periodic-concurrency-range does not have: leave one out".into()
        },
    },
    Rule {
        broken: |draft| searches(draft) && !draft.plan.load.mode.is_range(),
        message: |_| "--binary-search needs a range: add --concurrency-range or --request-rate-range".into(),
    },
    Rule {
        broken: |draft| {
            let is_range = has_several_levels(draft) || names_an_end(draft);
            searches(draft) && (endless(draft) || !is_range)
        },
        message: |draft| format!("--binary-search needs a range with an end, but got {}", shown_range(draft)),
    },
    Rule {
        broken: |draft| searches(draft) && draft.plan.measurement.latency_threshold.is_none(),
        message: |_| "--binary-search looks for the highest level within a limit: add --latency-threshold".into(),
    },
    Rule {
        broken: |draft| draft.plan.measurement.request_count.is_some() && draft.plan.load.mode.is_fixed_schedule(),
        message: |_| "--fixed-schedule sends what its data defines: leave out --request-count".into(),
    },
    Rule {
        broken: |draft| draft.plan.measurement.request_count.is_some() && draft.plan.load.mode.has_parts(),
        message: |draft| {
            format!("{} says itself how many requests are sent: leave out --request-count", loads(draft).join(" "))
        },
    },
    Rule {
        broken: |draft| threads_without_warm_up(draft).is_some(),
        message: |draft| {
            let threads = threads_without_warm_up(draft).unwrap_or_default();
            format!(
                "{} leaves threads without a request: there are {threads} of them, so give at least {threads}, or lower \
                 --max-threads",
                draft.given.show("--warmup-request-count")
            )
        },
    },
    Rule {
        broken: |draft| too_few_requests(draft),
        message: |draft| {
            format!(
                "{} is below the level that it has to reach: {}",
                draft.given.show("--request-count"),
                shown_range(draft)
            )
        },
    },
    Rule {
        broken: |draft| draft.plan.measurement.warmup_requests > 0 && !draft.plan.measurement.warmup.is_zero(),
        message: |_| "--warmup-request-count and --warmup-duration both say how long to warm up: choose one".into(),
    },
    Rule {
        broken: |draft| !draft.plan.measurement.warmup.is_zero() && draft.plan.load.mode.is_periodic(),
        message: |_| "--periodic-concurrency-range starts from an idle server: leave out --warmup-duration".into(),
    },
    Rule {
        broken: |draft| !draft.plan.measurement.warmup.is_zero() && draft.plan.load.mode.is_recorded(),
        message: |draft| {
            format!(
                "{} cannot go with {}, whose requests are counted: use --warmup-request-count, which takes the first \
                 of them",
                draft.given.show("--warmup-duration"),
                loads(draft).join(" ")
            )
        },
    },
    Rule {
        broken: |draft| draft.plan.measurement.precision.is_some() && draft.plan.measurement.request_count.is_some(),
        message: |_| "--precision decides how many requests are sent: leave out --request-count".into(),
    },
    Rule {
        broken: |draft| draft.plan.measurement.precision.is_some() && !draft.plan.load.mode.has_windows(),
        message: |draft| {
            format!(
                "{} decides how long a level lasts, but {} ends by itself: leave one out",
                draft.given.show("--precision"),
                loads(draft).join(" ")
            )
        },
    },
    Rule {
        broken: |draft| draft.plan.measurement.restarts > 1 && draft.plan.load.mode.separate_levels().is_none(),
        message: |draft| {
            format!(
                "{} repeats levels one by one, which {} does not have: leave one out",
                draft.given.show("--restarts"),
                loads(draft).join(" ")
            )
        },
    },
    Rule {
        broken: |draft| draft.plan.matrix.is_some() && !draft.plan.target.service.is_embedded(),
        message: |draft| {
            format!(
                "{} starts from Triton in this process: use --service-kind triton_c_api",
                draft.given.show("--matrix")
            )
        },
    },
    Rule {
        broken: |draft| {
            draft.plan.matrix.is_some()
                && !draft.given.among(&["--shared-memory", "--input-memory", "--output-memory"]).is_empty()
        },
        message: |draft| {
            format!("{} goes through the placements of tensors itself: name none", draft.given.show("--matrix"))
        },
    },
    Rule {
        broken: |draft| {
            draft.plan.matrix.is_some() && (endless(draft) || searches(draft) || !draft.plan.load.mode.is_range())
        },
        message: |draft| {
            format!(
                "{} measures every level of --concurrency-range or --request-rate-range, which must have an end",
                draft.given.show("--matrix")
            )
        },
    },
    Rule {
        broken: |draft| {
            let chooses = endless(draft) || searches(draft) || draft.plan.load.mode.separate_levels().is_none();
            draft.plan.rounds.is_some() && chooses
        },
        message: |draft| {
            let flags = loads(draft).into_iter().chain(draft.given.among(&["--binary-search"]));
            format!(
                "{} chooses its own levels, and variants are compared level by level: give a range with an end, as in \
                 --concurrency-range 1:8",
                flags.collect::<Vec<_>>().join(" ")
            )
        },
    },
    Rule {
        broken: |draft| lacks_levels(draft) && draft.given.has("--report-dir"),
        message: |_| {
            "--report-dir holds files on levels, which variants and --periodic-concurrency-range do not have: leave it \
             out"
            .into()
        },
    },
    Rule {
        broken: |draft| draft.plan.rounds.is_some() && draft.plan.output.exports_requests(),
        message: |draft| {
            let flags = draft.given.among(EXPORTS).join(" and ");
            format!("{flags}: holds the requests of one variant: leave it out, or --variant and --matrix")
        },
    },
    Rule {
        broken: |draft| draft.plan.rounds.is_some() && draft.plan.tracing.has_files(),
        message: |draft| {
            let flags = draft.given.among(&["--trace-export", "--trace-file"]).join(" and ");
            format!("{flags}: holds the traces of one variant: leave it out, or --variant and --matrix")
        },
    },
    Rule {
        broken: |draft| unsupported_picture(draft).is_some(),
        message: |draft| {
            let picture = unsupported_picture(draft);
            let word = picture.map_or("", Picture::name);
            if picture.is_some_and(Picture::is_of_variants) {
                let needs = if word == "rounds" { "rounds" } else { "several sizes: add --matrix and --matrix-sizes" };
                return format!(
                    "--svg {word}: shows {needs}, which this run does not have: leave it out, or measure variants"
                );
            }
            match draft.plan.rounds {
                Some(_) => {
                    format!("--svg {word}: shows levels; variants have others: --svg comparison:FILE or rounds:FILE")
                }
                None => format!(
                    "--svg {word}: shows variants, or several results: add --variant or --baseline, or make it \
                     afterwards with triton-bench report A.json B.json --svg {word}:FILE"
                ),
            }
        },
    },
    Rule {
        broken: |draft| !draft.plan.matrix_sizes.is_empty() && draft.plan.matrix.is_none(),
        message: |draft| format!("{} is for --matrix: add that, or leave it out", draft.given.show("--matrix-sizes")),
    },
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
