//! Compares two results.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::figures::{CATALOGUE, FigureAt, Value, at_points};
use crate::level::Distinction;
use crate::outcome::{Outcome, is_comparable};
use crate::ratio::{Figures, Side, Starts, bounds_of_ratio, ratio};
use crate::statistic::{CONFIDENCE, percentiles};
use crate::stats::{Bounds, Clustered, Interval, share_difference};
use crate::summary::{LevelLoad, LevelSummary};
use crate::terms::Flag;
use crate::{RunResult, Setup};

/// What became of a level from one result to the other.
#[derive(Clone, Debug, PartialEq)]
pub struct LevelChange {
    /// Its load.
    pub load: LevelLoad,
    /// What tells it apart from other levels of the reference with this load.
    pub distinction: Distinction,
    /// Its figures; none if one of the levels is not valid.
    pub figures: Vec<Change>,
    /// How the shares of its requests that failed differ; none if none failed, or one of the levels is not valid.
    pub errors: Option<ErrorsChange>,
    /// What both levels came to.
    pub outcomes: [Outcome; 2],
}

/// The change in a figure.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// Which one.
    pub figure_at: FigureAt,
    /// Its values, in its unit.
    pub values: [f64; 2],
    /// The later value as a share of the earlier one.
    pub ratio: f64,
    /// Where the true ratio lies, at 95 % confidence: of these two runs, or of any starts of the server where one of them was
    /// measured at several; none if too little is known.
    pub interval: Option<Interval>,
    /// Whether the interval covers how much starts of the server differ.
    pub across_starts: bool,
    /// What that means.
    pub verdict: Direction,
}

/// Change in the share of failed requests.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ErrorsChange {
    /// The reference's share, 0 to 1.
    pub reference: f64,
    /// The variant's.
    pub value: f64,
    /// The 95 % confidence interval of the difference (Newcombe).
    pub interval: Option<Interval>,
    /// What that means; no margin is applied.
    pub verdict: Direction,
}

impl ErrorsChange {
    /// That from a reference's failures to another's; none where neither has any.
    pub fn new(reference: Clustered, other: Clustered) -> Option<Self> {
        let (theirs, ours) = (reference.proportion, other.proportion);
        if theirs.hits + ours.hits == 0 {
            return None;
        }
        let interval = share_difference(other, reference, CONFIDENCE);
        let verdict = match interval {
            Some(interval) if interval.low > 0.0 => Direction::Worse,
            Some(interval) if interval.high < 0.0 => Direction::Better,
            _ => Direction::Undecided,
        };
        Some(Self { reference: theirs.share(), value: ours.share(), interval, verdict })
    }
}

/// What the intervals of changes hold for, as a sentence without its end.
pub fn reach<'a>(levels: impl IntoIterator<Item = &'a LevelChange>) -> &'static str {
    match levels.into_iter().flat_map(|level| &level.figures).any(|change| change.across_starts) {
        true => "Across starts of the server, as far as the results have several (--restarts)",
        false => "Within these two runs only: the same server, started again, may differ by more (--restarts)",
    }
}

/// What a change means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// Worse by more than the margin, for sure.
    Worse,
    /// Better by more than the margin, for sure.
    Better,
    /// Within the margin, for sure.
    Same,
    /// Not known.
    Undecided,
}

impl fmt::Display for Direction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Worse => "worse",
            Self::Better => "better",
            Self::Same => "same",
            Self::Undecided => "undecided",
        })
    }
}

/// The differences between two setups that give their figures different meanings.
pub fn differences(first: &Setup, second: &Setup) -> Vec<String> {
    [differences_of_work(first, second), differences_of_machines(first, second)].concat()
}

/// The differences in what was measured.
pub fn differences_of_work(first: &Setup, second: &Setup) -> Vec<String> {
    let models = |setup: &Setup| setup.models.iter().map(|model| model.name.clone()).collect::<Vec<_>>().join(", ");
    let values = |setup: &Setup| {
        [
            ("models", models(setup)),
            ("service", setup.service().to_owned()),
            ("batch size", setup.batch_size.to_string()),
            ("latency", setup.headline.words().to_owned()),
            ("calls", if setup.synchronous { "synchronous" } else { "asynchronous" }.to_owned()),
        ]
    };
    unequal(values(first), values(second))
}

/// The differences between the machines.
pub fn differences_of_machines(first: &Setup, second: &Setup) -> Vec<String> {
    let values = |setup: &Setup| {
        let host = &setup.host;
        [("processor", host.processor.clone().unwrap_or_default()), ("processors", host.processors.to_string())]
    };
    unequal(values(first), values(second))
}

fn unequal<const N: usize>(first: [(&str, String); N], second: [(&str, String); N]) -> Vec<String> {
    let pairs = first.into_iter().zip(second).filter(|((_, first), (_, second))| first != second);
    pairs.map(|((name, first), (_, second))| format!("{name}: '{first}' and '{second}'")).collect()
}

/// Flags that say what is done with a result, and nothing of what was measured.
const OF_REPORTS: [&str; 11] = [
    "--baseline",
    "--gate-time",
    "--live",
    "--metrics-listen",
    "--otlp-endpoint",
    "--report-parts",
    "--report-prefix",
    "--require",
    "--undecided",
    "--verbose-csv",
    "-v",
];

/// Flags that one of two runs was given at least, and that have another value in the other: what was measured may differ in them.
pub fn differing_flags(first: &Setup, second: &Setup) -> Vec<String> {
    let value = |setup: &Setup, name: &str| match setup.flags.iter().find(|flag| flag.name == name) {
        None => "not given".to_owned(),
        Some(flag) if flag.values.is_empty() => "given".to_owned(),
        Some(flag) => format!("'{}'", flag.values.join(" ")),
    };
    let is_told = |flag: &&Flag| flag.given && !flag.file && !OF_REPORTS.contains(&flag.name.as_str());
    let mut names: Vec<&str> = Vec::new();
    for flag in first.flags.iter().chain(&second.flags).filter(is_told) {
        if !names.contains(&flag.name.as_str()) {
            names.push(&flag.name);
        }
    }
    let differs = |name: &&str| value(first, name) != value(second, name);
    let difference = |name: &str| format!("{name}: {} and {}", value(first, name), value(second, name));
    names.into_iter().filter(differs).map(difference).collect()
}

/// The changes of every level that both results have; changes up to `margin` count as none.
pub fn changes(reference: &RunResult, other: &RunResult, margin: f64) -> Vec<LevelChange> {
    let asked = [reference, other].into_iter().flat_map(|result| result.setup.measurement.asked_percentiles());
    let percentiles = percentiles(asked);
    let change = |(baseline, earlier): (&LevelSummary, &[LevelSummary])| {
        let levels = [baseline, other.counterpart(baseline, earlier)?];
        let (figures, errors) = match levels.iter().all(|level| is_comparable(level)) {
            true => (figures(levels, &percentiles, margin), errors(levels)),
            false => (Vec::new(), None),
        };
        let distinction = reference.distinction(baseline, earlier);
        Some(LevelChange { load: baseline.load, distinction, figures, errors, outcomes: levels.map(Outcome::new) })
    };
    reference.levels_with_earlier().filter_map(change).collect()
}

/// How the failures of two levels differ.
fn errors(levels: [&LevelSummary; 2]) -> Option<ErrorsChange> {
    let [reference, other] = levels.map(|level| Figures::new(level).failures());
    ErrorsChange::new(reference, other)
}

/// Figures that are not compared by their ratio: shares that are often 0 have none, and bytes a second are the throughput once more,
/// without an interval.
const NOT_COMPARED: [&str; 3] = ["errors", "input_bandwidth", "output_bandwidth"];

/// Every figure that tells of the server and that both levels have, but for some.
fn figures(levels: [&LevelSummary; 2], percentiles: &[f64], margin: f64) -> Vec<Change> {
    let is_compared = |figure_at: &FigureAt| !NOT_COMPARED.contains(&figure_at.figure.key);
    let all = at_points(CATALOGUE, percentiles).into_iter().filter(is_compared);
    all.filter_map(|figure_at| figure(figure_at, levels, margin)).collect()
}

fn figure(figure_at: FigureAt, levels: [&LevelSummary; 2], margin: f64) -> Option<Change> {
    let more_is_better = figure_at.figure.more_is_better?;
    let [reference, other] = [value(figure_at, levels[0])?, value(figure_at, levels[1])?];
    let starts = across_starts(figure_at, levels);
    // The intervals of shares have in them how starts differ.
    let is_by_starts = |level: &&LevelSummary| Figures::new(level).at_starts(&figure_at.key()).is_some();
    let across_starts = starts.is_some() || levels.iter().any(is_by_starts);
    let (ratio, interval) = starts.unwrap_or_else(|| {
        // As wide as bounds may be, they are of use only where they decide.
        let tells = |interval: &Interval| direction(more_is_better, Some(*interval), margin) != Direction::Undecided;
        let bounded = || by_bounds(figure_at, levels).filter(tells);
        let interval = ratio(other.estimate(), reference.estimate()).or_else(bounded);
        (if reference.value > 0.0 { other.value / reference.value } else { f64::NAN }, interval)
    });
    let verdict = direction(more_is_better, interval, margin);
    Some(Change { figure_at, values: [reference.value, other.value], ratio, interval, across_starts, verdict })
}

/// A figure over all starts of the server, if there were several.
fn value(figure_at: FigureAt, level: &LevelSummary) -> Option<Value> {
    figure_at.at_all_starts(level).or_else(|| figure_at.value(level))
}

/// One side of a ratio.
fn side(figure_at: FigureAt, level: &LevelSummary) -> Option<Side> {
    let figures = Figures::new(level);
    if let Some(statistic) = figure_at.statistic() {
        return figures.side(statistic);
    }
    let Value { value, interval, bounds } = value(figure_at, level)?;
    let bounds = interval.map_or(bounds, |interval| Some(interval).into());
    let all = figures.at_starts(&figure_at.key()).filter(|all| all.cases.is_none());
    (value > 0.0).then(|| Side { value, bounds, starts: all.and_then(|all| Starts::of(&all.values)) })
}

/// An end of an interval at 95 % confidence is so many times as far away as a bound that holds by itself.
const END_TO_BOUND: f64 = 1.96 / 1.645;

/// The interval of a figure's ratio where those of the figure are not known: from what bounds it in either level, as a gate has it.
fn by_bounds(figure_at: FigureAt, levels: [&LevelSummary; 2]) -> Option<Interval> {
    let statistic = figure_at.statistic()?;
    let was_asked = |level: &LevelSummary| level.intervals.iter().any(|found| found.statistic == statistic);
    let [reference, other] = levels.map(|level| side(figure_at, level).filter(|_| was_asked(level)));
    let (_, Bounds { low, high }) = bounds_of_ratio(&other?, &reference?, END_TO_BOUND);
    Some(Interval { low: low?, high: high? })
}

/// The ratio of a figure and its interval where one of the levels was measured at several starts of the server: a gate's rule.
fn across_starts(figure_at: FigureAt, levels: [&LevelSummary; 2]) -> Option<(f64, Option<Interval>)> {
    let [denominator, numerator] = [side(figure_at, levels[0])?, side(figure_at, levels[1])?];
    if numerator.starts.is_none() && denominator.starts.is_none() {
        return None;
    }
    let (ratio, Bounds { low, high }) = bounds_of_ratio(&numerator, &denominator, 1.0);
    Some((ratio, low.zip(high).map(|(low, high)| Interval { low, high })))
}

/// The meaning of a ratio's interval, for a figure of which more is better, or less. Two one-sided tests: it counts as
/// the same if the whole interval is within the margin, on a logarithmic scale.
pub(super) fn direction(more_is_better: bool, interval: Option<Interval>, margin: f64) -> Direction {
    let Some(Interval { low, high }) = interval else { return Direction::Undecided };
    let (above, below) = (1.0 + margin, 1.0 / (1.0 + margin));
    let (more, less) = match more_is_better {
        true => (Direction::Better, Direction::Worse),
        false => (Direction::Worse, Direction::Better),
    };
    if low > above {
        more
    } else if high < below {
        less
    } else if below <= low && high <= above {
        Direction::Same
    } else {
        Direction::Undecided
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::restarts::restarts;
    use crate::setup::sample as plans;
    use crate::statistic::value;
    use crate::summary::{AtStarts, Ending, Headline, StatisticEstimate, sample};
    use crate::tensors::TensorBytes;
    use crate::terms::{PERCENTILES, Statistic};

    /// Requests of this many nanoseconds, known to within `half`.
    fn level(concurrency: u32, ns: u64, half: f64) -> LevelSummary {
        let mut level = sample::level(LevelLoad::Concurrency(concurrency), 1_000_000_000_000 / ns, ns);
        let percentiles = PERCENTILES.map(Statistic::Percentile);
        for statistic in [Statistic::Throughput, Statistic::MeanLatency].into_iter().chain(percentiles) {
            let value = value(statistic, &level.client);
            let interval = Some(Interval { low: value * (1.0 - half), high: value * (1.0 + half) });
            level.intervals.push(StatisticEstimate::new(statistic, interval));
        }
        level
    }

    fn verdicts(first: LevelSummary, second: LevelSummary) -> Vec<Direction> {
        let result = |level| plans::result(&plans::setup(), &[level]);
        let changes = changes(&result(first), &result(second), 0.05);
        changes[0].figures.iter().map(|figure| figure.verdict).collect()
    }

    #[test]
    fn what_is_sure_is_said_and_the_rest_is_undecided() {
        use Direction::{Better, Same, Undecided, Worse};
        assert!(verdicts(level(1, 1_000_000, 0.01), level(1, 1_000_000, 0.01)).iter().all(|word| *word == Same));
        assert!(verdicts(level(1, 1_000_000, 0.01), level(1, 1_200_000, 0.01)).iter().all(|word| *word == Worse));
        assert!(verdicts(level(1, 1_200_000, 0.01), level(1, 1_000_000, 0.01)).iter().all(|word| *word == Better));
        assert!(verdicts(level(1, 1_000_000, 0.1), level(1, 1_100_000, 0.1)).iter().all(|word| *word == Undecided));
        let unknown = LevelSummary { intervals: Vec::new(), ..level(1, 1_000_000, 0.0) };
        assert!(verdicts(unknown, level(1, 9_000_000, 0.01)).iter().all(|word| *word == Undecided));
    }

    #[test]
    fn bounds_tell_what_is_far_apart_where_no_interval_is_known() {
        let bounded = |ns: u64| {
            let mut level = level(1, ns, 0.01);
            for estimate in &mut level.intervals {
                let value = value(estimate.statistic, &level.client);
                estimate.interval = None;
                estimate.bounds = match estimate.statistic {
                    Statistic::Throughput => Bounds::default(),
                    // From above nothing is known of the tail.
                    Statistic::Percentile(percentile) if percentile > 90.0 => Bounds { low: Some(value), high: None },
                    _ => Bounds { low: Some(0.9 * value), high: Some(1.1 * value) },
                };
            }
            level
        };
        let word = |changes: &[LevelChange], statistic| {
            let is_meant = |change: &&Change| change.figure_at.statistic() == Some(statistic);
            changes[0].figures.iter().find(is_meant).map(|change| change.verdict)
        };
        let result = |ns| plans::result(&plans::setup(), &[bounded(ns)]);
        let twice = changes(&result(1_000_000), &result(2_000_000), 0.05);
        let expected = [
            (Statistic::Throughput, Direction::Worse),
            (Statistic::MeanLatency, Direction::Worse),
            (Statistic::Percentile(50.0), Direction::Worse),
            (Statistic::Percentile(99.0), Direction::Undecided),
        ];
        for (statistic, verdict) in expected {
            assert_eq!(word(&twice, statistic), Some(verdict), "{statistic}");
        }
        let close = changes(&result(1_000_000), &result(1_100_000), 0.05);
        assert_eq!(word(&close, Statistic::MeanLatency), Some(Direction::Undecided));
    }

    /// Each run knows its figures to within 1 %; starts are 15 % apart.
    #[test]
    fn what_starts_of_the_server_explain_is_no_change() {
        let started = |nanoseconds: u64| {
            let starts = [90, 100, 105].map(|percent| level(1, nanoseconds * percent / 100, 0.01));
            LevelSummary { restarts: restarts(&starts, None), ..level(1, nanoseconds, 0.01) }
        };
        let words = |first, second, word| verdicts(first, second).iter().filter(|verdict| **verdict == word).count();
        assert_eq!(words(started(1_000_000), level(1, 1_100_000, 0.01), Direction::Undecided), 6);
        assert_eq!(words(level(1, 1_000_000, 0.01), started(1_100_000), Direction::Undecided), 6);
        assert_eq!(words(level(1, 1_000_000, 0.01), level(1, 1_100_000, 0.01), Direction::Worse), 6);
        assert_eq!(words(started(1_000_000), started(3_000_000), Direction::Worse), 6);
    }

    #[test]
    fn further_figures_are_compared_over_all_starts() {
        let at = |values: &[f64]| {
            let mut level = level(1, 1_000_000, 0.01);
            level.client.good = Some(level.client.requests);
            let (key, values) = ("goodput".to_owned(), values.to_vec());
            level.at_starts = vec![AtStarts { key, values, cases: None, as_one: 1.0 }];
            plans::result(&plans::setup(), &[level])
        };
        let changed = |first: &[f64], second: &[f64]| {
            let found = changes(&at(first), &at(second), 0.05);
            found[0].figures.iter().find(|change| change.figure_at.key() == "goodput").unwrap().clone()
        };
        // The first start is the exception.
        let change = changed(&[100.0, 101.0, 99.0, 100.0], &[100.0, 50.0, 50.0, 50.0, 50.0, 50.0, 50.0, 50.0]);
        assert!((change.values[1] - 56.25).abs() < 1e-9 && change.across_starts, "{change:?}");
        assert!((change.ratio - 0.545).abs() < 0.001 && change.verdict == Direction::Worse, "{change:?}");
        let change = changed(&[100.0, 101.0, 99.0, 100.0], &[100.0, 80.0, 120.0]);
        assert_eq!((change.across_starts, change.verdict), (true, Direction::Undecided), "{change:?}");
    }

    #[test]
    fn levels_are_matched_and_what_is_not_valid_is_not_compared() {
        let reference =
            plans::result(&plans::setup(), &[level(1, 1_000, 0.1), level(2, 1_000, 0.1), level(3, 1_000, 0.1)]);
        let failed = LevelSummary { ending: Ending::Failed, ..level(3, 1_000, 0.1) };
        let other = plans::result(&plans::setup(), &[failed, level(2, 1_000, 0.1)]);
        let changes = changes(&reference, &other, 0.05);
        assert_eq!(changes.iter().map(|change| change.figures.len()).collect::<Vec<_>>(), [6, 0]);
        assert_eq!(changes[1].outcomes, [Outcome::Valid, Outcome::Failed]);
    }

    #[test]
    fn a_repeated_load_is_compared_with_the_same_repetition() {
        let stages = [level(1, 1_000_000, 0.01), level(2, 1_000_000, 0.01), level(1, 3_000_000, 0.01)];
        let result = plans::result(&plans::setup(), &stages);
        let found = changes(&result, &result, 0.05);
        let is_same = |change: &LevelChange| change.figures.iter().all(|figure| figure.verdict == Direction::Same);
        assert!(found.len() == 3 && found.iter().all(is_same), "{found:?}");
        let repetitions: Vec<_> = found.iter().map(|change| change.distinction.repetition).collect();
        assert_eq!(repetitions, [Some(1), None, Some(2)]);
        let shorter = plans::result(&plans::setup(), &stages[..2]);
        assert_eq!(changes(&result, &shorter, 0.05).len(), 2, "the third stage has no counterpart");
    }

    #[test]
    fn percentiles_that_a_run_was_asked_for_are_compared() {
        let mut setup = plans::setup();
        setup.measurement.percentile = Some(99.9);
        let reference = plans::result(&setup, &[level(1, 1_000_000, 0.01)]);
        let changes = changes(&reference, &plans::result(&plans::setup(), &reference.levels), 0.05);
        assert!(
            changes[0].figures.iter().any(|figure| figure.figure_at.statistic() == Some(Statistic::Percentile(99.9)))
        );
    }

    #[test]
    fn failures_are_compared_though_none_may_have_failed_before() {
        let failing = |failed: u64| {
            let mut level = level(1, 1_000_000, 0.01);
            (level.client.failed, level.client.requests) = (failed, 1_000_000 - failed);
            plans::result(&plans::setup(), &[level])
        };
        let change = |first: u64, second: u64| changes(&failing(first), &failing(second), 0.05)[0].errors;
        assert_eq!(change(0, 0), None);
        let found = change(0, 9_000).unwrap();
        assert_eq!((found.reference, found.value, found.verdict), (0.0, 0.009, Direction::Worse));
        assert!(found.interval.is_some_and(|interval| interval.low > 0.008 && interval.high < 0.01), "{found:?}");
        assert_eq!(change(9_000, 0).unwrap().verdict, Direction::Better);
        assert_eq!(change(1, 2).unwrap().verdict, Direction::Undecided);
    }

    #[test]
    fn bytes_a_second_are_not_compared_beside_the_throughput() {
        let mut sized = level(1, 1_000_000, 0.01);
        sized.client.tensors = TensorBytes { input: Some(64.0), output: Some(64.0) };
        let result = plans::result(&plans::setup(), &[sized]);
        let found = changes(&result, &result, 0.05);
        assert!(found[0].figures.iter().all(|figure| figure.interval.is_some()), "{found:?}");
    }

    #[test]
    fn flags_that_differ_are_named_unless_they_are_about_reports() {
        let flag = |name: &str, value: &str, given| {
            let values = Some(value.to_owned()).filter(|value| !value.is_empty()).into_iter().collect();
            Flag { name: name.to_owned(), values, given, file: name == "-f" }
        };
        let with = |flags: &[Flag]| Setup { flags: flags.to_vec(), ..plans::setup() };
        let first = with(&[flag("--shape", "x:4", true), flag("-p", "5000", false), flag("-f", "a.csv", true)]);
        let others = [flag("--shape", "x:8", true), flag("-p", "100", true), flag("-f", "b.csv", true)];
        let second = with(&[&others[..], &[flag("--require", "p99<1s", true), flag("--streaming", "", true)]].concat());
        let expected = ["--shape: 'x:4' and 'x:8'", "-p: '5000' and '100'", "--streaming: not given and given"];
        assert_eq!(differing_flags(&first, &second), expected);
        assert!(differing_flags(&first, &first).is_empty());
    }

    #[test]
    fn what_is_not_alike_is_named() {
        let setup = plans::setup();
        assert!(differences(&setup, &setup).is_empty());
        let other = Setup { batch_size: 4, ..plans::setup() };
        assert_eq!(differences(&setup, &other), ["batch size: '1' and '4'"]);
        let (service_kind, headline) = ("OPENAI".to_owned(), Headline::ResponseTime);
        let other = Setup { service_kind, headline, ..plans::setup() };
        let setup = Setup { service_kind: "TRITON_C_API".to_owned(), headline: Headline::ServiceTime, ..setup };
        let expected = [
            "service: 'Triton in process' and 'OpenAI API'",
            "latency: 'from the send to the last response' and 'from the intended send to the last response'",
        ];
        assert_eq!(differences(&setup, &other), expected, "in words, not by keys");
    }
}
