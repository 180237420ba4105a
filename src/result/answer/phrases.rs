//! What an answer says of one level: its name, its figures, what is wrong with it.

use crate::advice::{Setting, longer};
use crate::answer::command::command;
use crate::answer::{Answer, Missing, Question, ReportedFigure, reported};
use crate::backend::InferError;
use crate::figures::{FigureAt, Value};
use crate::outcome::Outcome;
use crate::reasons::{InvalidReason, Verdict};
use crate::record::FURTHER_REASONS;
use crate::summary::{Ending, LevelLoad, LevelSummary, OpenLoopSummary};
use crate::terms::{FigureName, MeasurementPlan, Point, Statistic};
use crate::{Setup, Unit};

/// Measured longer, an interval is narrower by the root of it: with this much more it probably excludes a limit.
pub(super) const MARGIN: f64 = 1.3;
/// Fewest and most times longer that a command asks for.
pub(super) const LONGER: (f64, f64) = (2.0, 20.0);
/// How many times as many requests may tell what so many do not.
const MORE: f64 = 10.0;
/// So many requests would tell how well a figure is known, if the time in which they came were long enough.
const MANY: u64 = 5_000;
/// How many times as many requests as a percentile just has a meaning of make it one that is worth having.
const SPARE: f64 = 2.0;
/// A load whose windows do not agree is not kept up with where less than this share of what was sent was completed.
const MOSTLY_COMPLETED: f64 = 0.95;
/// A server that a rate is too much for is never idle: one request is under way at least, and more of them where several are served
/// at a time. Where fewer are, its answers take longer and longer, and no queue grows.
const NEVER_IDLE: f64 = 0.9;
/// Numbers of requests are whole, 100 / (100 - 99.9) is not.
const NEARLY: f64 = 1e-6;

/// A level, and its name in a sentence.
#[derive(Clone)]
pub(super) struct Named<'a> {
    pub(super) level: &'a LevelSummary,
    pub(super) name: String,
}

/// Whether the load was sent, and the server kept up with it. Where requests arrive on a schedule, a latency that goes on to rise
/// is a queue that grows.
pub(super) fn kept_up(level: &LevelSummary) -> bool {
    let is_scheduled = !matches!(level.load, LevelLoad::Concurrency(_));
    let is_short = |open: &OpenLoopSummary| open.completed_rate < MOSTLY_COMPLETED * open.achieved_rate;
    let is_busy = |open: &OpenLoopSummary| open.achieved_rate * open.service_time.mean_ns() / 1e9 >= NEVER_IDLE;
    let open_loop = level.client.open_loop.as_ref();
    let lags = level.ending == Ending::Unstable && open_loop.is_some_and(is_short);
    let falls_behind = lags
        || matches!(&level.verdict, Verdict::Invalid(reasons) if reasons.iter().any(InvalidReason::is_a_growing_latency))
            && is_scheduled
            && open_loop.is_none_or(is_busy);
    !falls_behind && !matches!(Outcome::new(level), Outcome::Undelivered | Outcome::Overloaded | Outcome::Failed)
}

/// What is said of language models: the times to the first token and between tokens, and how much of it is good.
pub fn speech(level: &LevelSummary, plan: &MeasurementPlan) -> Option<String> {
    let parts = speech_figures(plan).into_iter().filter_map(|figure| {
        let value = found(figure, level)?.value;
        let shown = figure.figure.unit.show(value);
        Some(match figure.figure.key {
            "goodput_share" => format!("{shown} good"),
            "output_token_throughput" => shown,
            _ => format!("{} {shown}", figure.short()),
        })
    });
    level.client.generated.as_ref().filter(|generated| generated.with_tokens() > 0)?;
    Some(parts.collect::<Vec<_>>().join(", "))
}

fn speech_figures(plan: &MeasurementPlan) -> Vec<FigureAt> {
    let point = Some(Point::Percentile(plan.tail()));
    let figure_at = |key, point| FigureAt::new(FigureName { key, point });
    vec![
        figure_at("ttft", point),
        figure_at("itl", point),
        figure_at("output_token_throughput", None),
        figure_at("goodput_share", None),
    ]
}

/// The figures of a level in an answer.
pub(super) fn figures(named: &Named<'_>, setup: &Setup) -> Vec<ReportedFigure> {
    let all = [FigureAt::of_statistic(Statistic::Throughput), key(setup)].into_iter();
    let further = speech_figures(&setup.measurement);
    let found = |figure: FigureAt| {
        let Value { value, interval, .. } = found(figure, named.level)?;
        Some(reported(named.name.clone(), figure, value, interval))
    };
    all.chain(further).filter_map(found).collect()
}

/// The latency that the run is judged by.
pub(super) fn key(setup: &Setup) -> FigureAt {
    FigureAt::of_statistic(setup.measurement.key_latency())
}

/// Its name in a sentence.
pub(super) fn title(setup: &Setup) -> String {
    setup.measurement.percentile.map_or_else(|| "mean latency".to_owned(), |percentile| format!("p{percentile}"))
}

/// A figure of a level; over all starts of the server, if there were several: what one of them was is not what another will be.
pub(super) fn found(figure: FigureAt, level: &LevelSummary) -> Option<Value> {
    figure.at_all_starts(level).or_else(|| figure.value(level))
}

pub(super) fn shown(figure: FigureAt, level: &LevelSummary) -> String {
    found(figure, level).map_or_else(|| "nothing".to_owned(), |found| figure.figure.unit.show(found.value))
}

/// `41 ms (39 to 44 ms)`.
pub(super) fn with_interval(figure: FigureAt, level: &LevelSummary) -> String {
    let shown = shown(figure, level);
    match interval(figure, level).filter(|interval| *interval != shown) {
        Some(interval) => format!("{shown} ({interval})"),
        None => shown,
    }
}

/// The same where it stands in brackets: `39 to 44 ms`.
pub(super) fn between(figure: FigureAt, level: &LevelSummary) -> String {
    interval(figure, level).unwrap_or_else(|| shown(figure, level))
}

fn interval(figure: FigureAt, level: &LevelSummary) -> Option<String> {
    let interval = found(figure, level)?.interval?;
    let starts = level.restarts.as_ref().filter(|_| figure.at_all_starts(level).is_some());
    let starts = starts.map(|all| format!(" over {} starts", all.starts)).unwrap_or_default();
    Some(figure.figure.unit.show_between(interval.low.max(0.0), interval.high) + &starts)
}

/// The answer, with what is wrong with the level that it stands on.
pub(super) fn unless_wrong(answer: Answer, named: &Named<'_>, setup: &Setup) -> Answer {
    let is_known = is_known(named.level, answer.question);
    match reason(named, setup).or_else(|| few(&answer.words, named, setup)) {
        Some(missing) if is_known => answer.notes(missing),
        Some(missing) => answer.lacks(missing),
        None => answer,
    }
}

/// Whether nobody doubts what a level that is not valid came to. What was asked is what the load comes to, or which one is too much:
/// that is known then, unless the load failed because a client broke.
pub(super) fn is_known(level: &LevelSummary, question: Question) -> bool {
    let broke_off = matches!(&level.verdict, Verdict::Invalid(reasons) if reasons.contains(&InvalidReason::BrokenOff));
    match Outcome::new(level) {
        Outcome::Overloaded => true,
        Outcome::Failed => question == Question::Level && !broke_off,
        _ => false,
    }
}

/// What is missing where a percentile of generated texts that the words show is no more than the slowest of too few requests.
fn few(words: &str, named: &Named<'_>, setup: &Setup) -> Option<Missing> {
    named.level.client.generated.as_ref().filter(|generated| generated.with_tokens() > 0)?;
    let is_shown = |figure: &FigureAt| figure.figure.has_points() && words.contains(&figure.short());
    let mut all: Vec<FigureAt> = speech_figures(&setup.measurement).into_iter().filter(is_shown).collect();
    // Its name is a part of theirs.
    all.extend(Some(key(setup)).filter(|key| all.is_empty() && is_shown(key)));
    let Few { name, samples, enough } =
        all.into_iter().filter_map(|figure| Few::of(figure, named.level)).min_by_key(|few| few.samples)?;
    let slowest = if samples == 1 { "only request".to_owned() } else { format!("slowest of {samples} requests") };
    let problem = format!("{name} at {} is that of the {slowest}; {enough} tell more", named.name);
    // Others have the requests that they have.
    let more = || with(longer(&setup.measurement, enough / samples as f64), named, setup);
    Some(Missing { command: setup.mode.has_windows().then(more), ..Missing::new(problem) })
}

/// A percentile of too few requests.
struct Few {
    name: String,
    samples: u64,
    /// Requests that tell more.
    enough: f64,
}

impl Few {
    fn of(figure: FigureAt, level: &LevelSummary) -> Option<Self> {
        let Some(Point::Percentile(percentile)) = figure.point else { return None };
        let samples = figure.figure.times(&level.client)?.count();
        let least = (100.0 / (100.0 - percentile) - NEARLY).ceil();
        ((samples as f64) < least).then(|| Self { name: figure.short(), samples, enough: SPARE * least })
    }
}

/// What is missing where a level has too few requests to tell how well one of these figures is known.
pub(super) fn vague(figures: &[FigureAt], named: &Named<'_>, setup: &Setup) -> Option<Missing> {
    let is_vague = |figure: &&FigureAt| found(**figure, named.level).is_some_and(|found| found.interval.is_none());
    let figure = figures.iter().find(is_vague)?;
    let client = &named.level.client;
    let requests = match client.requests {
        1 => "1 request does not".to_owned(),
        // It is not for too few of them.
        MANY.. => format!("{} of measuring do not", Unit::Nanoseconds.show(client.duration.as_nanos() as f64)),
        count => format!("{count} requests do not"),
    };
    let figure_name = if *figure == key(setup) { title(setup) } else { figure.short() };
    let problem = format!("{requests} tell how well {figure_name} is known at {}", named.name);
    // Others have the requests that they have.
    let more = || with(longer(&setup.measurement, MORE), named, setup);
    let command = setup.mode.has_windows().then(more);
    let problem = if command.is_some() { problem + "; more may" } else { problem };
    Some(Missing { command, ..Missing::new(problem) })
}

/// Why most requests of a level failed that did, as the server says; none where none did.
pub(super) fn failure(level: &LevelSummary) -> Option<String> {
    // Those that are not listed may be the most, and say nothing.
    let weight = |(error, count): &&(InferError, u64)| (error.message != FURTHER_REASONS, *count);
    let (error, _) = level.client.errors.iter().max_by_key(weight)?;
    Some(shortened(&error.to_string()))
}

/// As much of an error as an answer has room for.
pub(super) fn shortened(text: &str) -> String {
    const KEPT: usize = 120;
    let short: String = text.chars().take(KEPT).collect();
    if short.len() < text.len() { short + "…" } else { short }
}

/// What is wrong with a level, what would settle it, and the command for that.
pub(super) fn reason(named: &Named<'_>, setup: &Setup) -> Option<Missing> {
    let Verdict::Invalid(reasons) = &named.level.verdict else { return None };
    let outcome = Outcome::new(named.level);
    // What made the outcome what it is, whatever else there is.
    let first = reasons.iter().find(|reason| Outcome::of_reason(reason) == outcome).or(reasons.first())?;
    let remedy = first.remedy(&setup.measurement, named.level.disturbances.disturbed > 0);
    let text = match outcome {
        Outcome::Failed => format!("{} failed: {first}; {remedy}", named.name),
        Outcome::Undelivered => format!("the load of {} was not delivered: {first}; {remedy}", named.name),
        // Some reasons are the outcome's own word.
        _ if first.to_string() == outcome.name() => format!("{} is {outcome}; {remedy}", named.name),
        _ => format!("{} is {outcome}: {first}; {remedy}", named.name),
    };
    let setting = |reason: &InvalidReason| reason.setting(&setup.measurement);
    // Of a figure that is not known at all nobody can say how many requests would tell it, but a percentile needs some in any case.
    let is_unknown = matches!(first, InvalidReason::Unsettled(_, None));
    let samples = reasons.iter().find(|reason| is_unknown && matches!(reason, InvalidReason::TooFewSamples(..)));
    let setting = setting(first).or_else(|| samples.and_then(setting));
    let command = setting.map(|setting| with(setting, named, setup));
    let missing = Missing { command, ..Missing::new(text) };
    Some(if outcome.is_certain() { missing.certain() } else { missing })
}

/// The command that measures the load again with another setting.
pub(super) fn with(setting: Setting, named: &Named<'_>, setup: &Setup) -> String {
    // The very load, which has more digits than its name.
    let load = (setup.mode.flag(), named.level.load.number().to_string());
    let load = Some(load).filter(|_| setup.mode.is_range()).into_iter();
    // The run's own flags have their long names, and this one takes the place of one of them.
    let window = setup.measurement.window;
    let flag = if setting.flag == window.short_flag() { window.flag() } else { setting.flag };
    let time = setting.level_time_s.map(|seconds| ("--max-level-time", format!("{seconds}s")));
    command(setup, &load.chain([(flag, setting.value.to_string())]).chain(time).collect::<Vec<_>>())
}
