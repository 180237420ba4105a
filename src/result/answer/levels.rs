//! Answers from levels: what one comes to, the most within a limit, the knee of a range, the saturation of a sweep.

use crate::advice::Setting;
use crate::answer::command::{beyond, command};
use crate::answer::knee::{Knee, knee};
use crate::answer::{Answer, Missing, Question, ReportedFigure, Sureness, at, reported};
use crate::figures::{FigureAt, Value};
use crate::number::{plain, time};
use crate::outcome::Outcome;
use crate::reasons::Verdict;
use crate::summary::{Ending, LevelLoad, LevelSummary, LimitCheck};
use crate::sweep::SweepResult;
use crate::terms::{FigureName, MeasurementPlan, Point, Statistic};
use crate::{RunResult, Setup};

/// Measured longer, an interval is narrower by the root of it: with this much more it probably excludes a limit.
const MARGIN: f64 = 1.3;
/// Fewest and most times longer that a command asks for.
const LONGER: (f64, f64) = (2.0, 20.0);

/// The share of good requests from which on a load is called good.
const MOSTLY: f64 = 0.95;
/// A sweep's search knows the highest rate to this share.
const KNOWN_TO: f64 = 0.03;

/// A level, and its name in a sentence.
#[derive(Clone)]
struct Named<'a> {
    level: &'a LevelSummary,
    name: String,
}

/// The answer of levels that were measured.
pub(super) fn answer(result: &RunResult) -> Option<Answer> {
    let all: Vec<Named<'_>> = result
        .levels_with_earlier()
        .map(|(level, earlier)| Named { level, name: at(level.load, result.distinction(level, earlier)) })
        .collect();
    let measured: Vec<Named<'_>> = all.iter().filter(|named| named.level.client.requests > 0).cloned().collect();
    let is_limited = result.setup.measurement.latency_threshold.is_some() && result.setup.mode.has_levels();
    match (&all[..], &measured[..]) {
        ([], _) => None,
        ([first, ..], []) => Some(nothing(first, &result.setup)),
        (_, measured) if is_limited => Some(within(result, measured)),
        ([_], [named]) => Some(single(named, &result.setup)),
        (_, measured) if result.setup.mode.pace().is_some() => Some(streams(result, measured)),
        (_, measured) if measured.iter().all(|named| named.level.client.good.is_some()) => Some(good(result, measured)),
        (_, measured) if result.setup.mode.is_range() => Some(range(result, measured)),
        (all, measured) => Some(slowest(&result.setup, all, measured)),
    }
}

/// Nothing succeeded.
fn nothing(first: &Named<'_>, setup: &Setup) -> Answer {
    let words = format!("Nothing was measured: no request succeeded at {}", first.name);
    let missing = reason(first, setup);
    Answer { sure: Sureness::NotMeasured, missing, ..Answer::sure(Question::Level, words, Vec::new()) }
}

/// What one load comes to.
fn single(named: &Named<'_>, setup: &Setup) -> Answer {
    let words = match speech(named.level, &setup.measurement) {
        Some(speech) => format!("At {}: {speech}", named.name),
        None => {
            let throughput = with_interval(FigureAt::of_statistic(Statistic::Throughput), named.level);
            let latency = with_interval(key(setup), named.level);
            format!("{throughput} at {}, {} {latency}", named.name, title(setup))
        }
    };
    unless_wrong(Answer::sure(Question::Level, words, figures(named, setup)), named, setup)
}

/// The slowest of loads that follow each other, of which `measured` had requests.
fn slowest(setup: &Setup, all: &[Named<'_>], measured: &[Named<'_>]) -> Answer {
    let latency = |named: &&Named<'_>| named.level.client.key_latency_ns(setup.measurement.percentile);
    let by_latency = |left: &&Named<'_>, right: &&Named<'_>| latency(left).total_cmp(&latency(right));
    let slowest = measured.iter().max_by(by_latency).unwrap_or(&measured[0]);
    let invalid = |named: &&Named<'_>| !Outcome::new(named.level).is_valid();
    let worst = all.iter().find(invalid);
    let exception = worst.map(|worst| format!(" ({}: {})", worst.name, Outcome::new(worst.level).name()));
    let words = format!(
        "{} of {} loads are valid{}; the slowest is {}: {} {}",
        all.len() - all.iter().filter(invalid).count(),
        all.len(),
        exception.unwrap_or_default(),
        slowest.name,
        title(setup),
        with_interval(key(setup), slowest.level)
    );
    unless_wrong(Answer::sure(Question::Level, words, figures(slowest, setup)), worst.unwrap_or(slowest), setup)
}

/// Where a range bends, and its least latency.
fn range(result: &RunResult, all: &[Named<'_>]) -> Answer {
    let setup = &result.setup;
    let valid: Vec<Named<'_>> = all.iter().filter(|named| kept_up(named.level)).cloned().collect();
    let among = if valid.is_empty() { all } else { &valid[..] };
    let levels: Vec<&LevelSummary> = among.iter().map(|named| named.level).collect();
    let found = knee(&levels, setup.measurement.key_latency());
    let named = |level: &LevelSummary| among.iter().find(|named| std::ptr::eq(named.level, level));
    let by_rate = |named: &&Named<'_>| named.level.client.throughput();
    let most = among.iter().max_by(|left, right| by_rate(left).total_cmp(&by_rate(right))).unwrap_or(&among[0]);
    let latency = |named: &&Named<'_>| named.level.client.key_latency_ns(setup.measurement.percentile);
    let least = among.iter().min_by(|left, right| latency(left).total_cmp(&latency(right))).unwrap_or(&among[0]);
    let best = found.as_ref().and_then(|knee| named(knee.level)).unwrap_or(most);
    let label = if found.is_some() { "Knee" } else { "Most throughput" };
    let rate = FigureAt::of_statistic(Statistic::Throughput);
    let beside = speech(best.level, &setup.measurement)
        .unwrap_or_else(|| format!("{} {}", title(setup), with_interval(key(setup), best.level)));
    let mut words = format!("{label}: {} at {} ({beside})", shown(rate, best.level), best.name);
    if let Some(knee) = found.filter(Knee::is_open) {
        let ends = [knee.lowest, knee.highest].map(|level| named(level).map_or("", |named| &named.name));
        words += &format!("; as far as is known it may be anywhere from {} to {}", ends[0], ends[1]);
    }
    let mut figures = figures(best, setup);
    if least.name != best.name {
        let value = shown(key(setup), least.level);
        words += &format!("; least {}: {value} at {}", title(setup), least.name);
        figures.extend(self::figures(least, setup));
    }
    unless_wrong(Answer::sure(Question::Knee, words, figures), best, setup)
}

/// The most load of which nearly every request is within its limits (`--goodput`).
fn good(result: &RunResult, all: &[Named<'_>]) -> Answer {
    let setup = &result.setup;
    let figure = |key| FigureAt::new(FigureName { key, point: None });
    let value = |key, named: &Named<'_>| figure(key).value(named.level).map_or(0.0, |found| found.value);
    let by_goodput = |left: &&Named<'_>, right: &&Named<'_>| value("goodput", left).total_cmp(&value("goodput", right));
    let is_good = |named: &&Named<'_>| kept_up(named.level) && value("goodput_share", named) >= MOSTLY;
    let most_good = all.iter().filter(is_good).max_by(by_goodput);
    let best = most_good.or_else(|| all.iter().max_by(by_goodput)).unwrap_or(&all[0]);
    let (rate, share) = (shown(figure("goodput"), best.level), shown(figure("goodput_share"), best.level));
    let beside = speech(best.level, &setup.measurement)
        .unwrap_or_else(|| format!("{share} good, {} {}", title(setup), with_interval(key(setup), best.level)));
    let (are_all_good, mostly) = (all.iter().all(|named| is_good(&named)), MOSTLY * 100.0);
    let words = match (most_good.is_some(), are_all_good) {
        (true, false) => format!("Most good load: {rate} at {} ({beside})", best.name),
        (true, true) => format!("At least {rate} are good, at {} ({beside})", best.name),
        (false, _) => {
            format!("No load was kept up with and {mostly:.0} % good; most is at {}: {rate} ({beside})", best.name)
        }
    };
    let goodput = figure("goodput").value(best.level);
    let goodput = goodput.map(|found| reported(best.name.clone(), figure("goodput"), found.value, found.interval));
    let figures = goodput.into_iter().chain(figures(best, setup)).collect();
    let answer = unless_wrong(Answer::sure(Question::MostLoad, words, figures), best, setup);
    if are_all_good { answer.lacks(beyond(setup)) } else { answer }
}

/// The most streams that the server kept up with: how much load they are follows from their number.
fn streams(result: &RunResult, all: &[Named<'_>]) -> Answer {
    let setup = &result.setup;
    let kept = all.iter().filter(|named| kept_up(named.level));
    let by_number =
        |left: &&Named<'_>, right: &&Named<'_>| left.level.load.number().total_cmp(&right.level.load.number());
    let Some(best) = kept.max_by(by_number) else {
        let words = format!("The server kept no streams in time, not even {}", all[0].name);
        return unless_wrong(Answer::sure(Question::MostLoad, words, figures(&all[0], setup)), &all[0], setup);
    };
    let latency = with_interval(key(setup), best.level);
    let beside = format!("{} {latency}", title(setup));
    let is_most = all.iter().any(|named| named.level.load.number() > best.level.load.number());
    let number = plain(best.level.load.number());
    let answer = |words| unless_wrong(Answer::sure(Question::MostLoad, words, figures(best, setup)), best, setup);
    if is_most {
        return answer(format!("Most streams kept in time: {number} ({beside})"));
    }
    answer(format!("At least {number} streams kept in time ({beside})")).lacks(beyond(setup))
}

/// The most load within a limit.
fn within(result: &RunResult, all: &[Named<'_>]) -> Answer {
    let setup = &result.setup;
    let limit = setup.measurement.latency_threshold.map_or(0.0, |limit| limit.as_nanos() as f64);
    let asked = format!("{} < {}", title(setup), time(limit));
    let Some(best) = most_within(result).and_then(|best| all.iter().find(|named| std::ptr::eq(named.level, best)))
    else {
        let latency = |named: &&Named<'_>| named.level.client.key_latency_ns(setup.measurement.percentile);
        let least = all.iter().min_by(|left, right| latency(left).total_cmp(&latency(right))).unwrap_or(&all[0]);
        let found = with_interval(key(setup), least.level);
        let words = match least.level.limit.is_some_and(|check| !check.over) {
            // It was not measured well enough, or was no load that was asked for.
            true => format!("No load settled within {asked}: {found} at {}", least.name),
            false => format!("No load within {asked}: {found} at {}, the least of all measured", least.name),
        };
        let answer = Answer::sure(Question::MostLoad, words, figures(least, setup));
        return unless_certain(answer, least, result);
    };
    let rate = shown(FigureAt::of_statistic(Statistic::Throughput), best.level);
    let latency_range = range_or_value(key(setup), best.level);
    let beside = speech(best.level, &setup.measurement).map(|speech| format!("; {speech}")).unwrap_or_default();
    let words = match best.level.load {
        LevelLoad::Streams(streams) => {
            format!("Most streams within {asked}: {streams} ({} {latency_range}, {rate}{beside})", title(setup))
        }
        _ => format!("Most load within {asked}: {rate} at {} ({} {latency_range}{beside})", best.name, title(setup)),
    };
    let is_more = |level: &LevelSummary| {
        level.load.number() > best.level.load.number() || level.client.batch_size > best.level.client.batch_size
    };
    let is_over = |named: &Named<'_>| !holds(named.level) && is_more(named.level);
    let answer = Answer::sure(Question::MostLoad, words, figures(best, setup));
    if all.iter().any(is_over) || setup.mode.separate_levels() == Some(1) {
        return unless_certain(answer, best, result);
    }
    let words = match best.level.load {
        LevelLoad::Streams(streams) => {
            format!("At least {streams} streams within {asked} ({} {latency_range}, {rate}{beside})", title(setup))
        }
        _ => format!("At least {rate} within {asked}, at {} ({} {latency_range}{beside})", best.name, title(setup)),
    };
    Answer { words, ..answer }.lacks(beyond(setup))
}

/// Whether a level is within the limit, be it known that it is or how large its latency is. A rate that was not sent, or that the
/// server did not keep up with, says nothing about the rate.
fn holds(level: &LevelSummary) -> bool {
    let is_settled = matches!(level.ending, Ending::Stable | Ending::Complete);
    (is_settled || level.ending == Ending::Unstable && is_surely_below(level)) && kept_up(level)
}

/// Whether the whole interval of the latency is below the limit.
fn is_surely_below(level: &LevelSummary) -> bool {
    level.limit.is_some_and(|check| !check.over && check.certain)
}

fn kept_up(level: &LevelSummary) -> bool {
    !matches!(Outcome::new(level), Outcome::Undelivered | Outcome::Overloaded | Outcome::Failed)
}

/// The highest level within the limit.
pub fn most_within(result: &RunResult) -> Option<&LevelSummary> {
    let held = result.levels.iter().filter(|level| holds(level));
    // Of several batch sizes, the load is what is inferred.
    let is_batched = result.levels.windows(2).any(|pair| pair[0].client.batch_size != pair[1].client.batch_size);
    let load = |level: &LevelSummary| if is_batched { level.client.throughput() } else { level.load.number() };
    held.max_by(|left, right| load(left).total_cmp(&load(right)))
}

/// What a sweep found.
pub(super) fn saturation(result: &RunResult, found: &SweepResult) -> Answer {
    let knee = found.knee.map(|rate| format!("; knee at {}", plain(rate))).unwrap_or_default();
    let above = match found.unsustained {
        Some(rate) => format!("{} was not sustained", plain(rate)),
        None => "no rate was too high".to_owned(),
    };
    let words = format!("Highest sustained rate: {} requests/s ({above}{knee})", plain(found.saturation));
    let below = |level: &&LevelSummary| level.load.number() <= found.saturation * 1.001;
    let last = result.levels.iter().rfind(below);
    let figures = last.map(|level| Named { level, name: at(level.load, crate::Distinction::default()) });
    let figures = figures.map(|named| self::figures(&named, &result.setup)).unwrap_or_default();
    let answer = Answer::sure(Question::Saturation, words, figures);
    let sustained = result.levels.iter().filter(|level| kept_up(level)).map(|level| level.load.number());
    let sustained = sustained.filter(|rate| *rate <= found.saturation * 1.001).fold(0.0, f64::max);
    if sustained < found.saturation * (1.0 - KNOWN_TO) {
        let words = format!("Saturation: about {} requests/s ({above}{knee})", plain(found.saturation));
        let problem = match sustained > 0.0 {
            true => format!("measured longer, nothing above {} requests/s was sustained", plain(sustained)),
            false => "measured longer, no rate was sustained".to_owned(),
        };
        return Answer { words, ..answer }.lacks(Missing { problem, command: None, seconds: None });
    }
    if found.unsustained.is_some() {
        return answer;
    }
    answer.lacks(Missing {
        problem: "the server sustained every rate that this client could send".to_owned(),
        command: None,
        seconds: None,
    })
}

/// What is said of language models: the times to the first token and between tokens, and how much of it is good.
pub fn speech(level: &LevelSummary, plan: &MeasurementPlan) -> Option<String> {
    let parts = speech_figures(plan).into_iter().filter_map(|figure| {
        let value = figure.value(level)?.value;
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
fn figures(named: &Named<'_>, setup: &Setup) -> Vec<ReportedFigure> {
    let all = [FigureAt::of_statistic(Statistic::Throughput), key(setup)].into_iter();
    let further = speech_figures(&setup.measurement);
    let found = |figure: FigureAt| {
        let Value { value, interval, .. } = figure.value(named.level)?;
        Some(reported(named.name.clone(), figure, value, interval))
    };
    all.chain(further).filter_map(found).collect()
}

/// The latency that the run is judged by.
fn key(setup: &Setup) -> FigureAt {
    FigureAt::of_statistic(setup.measurement.key_latency())
}

/// Its name in a sentence.
fn title(setup: &Setup) -> String {
    setup.measurement.percentile.map_or_else(|| "mean latency".to_owned(), |percentile| format!("p{percentile}"))
}

fn shown(figure: FigureAt, level: &LevelSummary) -> String {
    figure.value(level).map_or_else(|| "nothing".to_owned(), |found| figure.figure.unit.show(found.value))
}

/// `41 ms (39 to 44 ms)`.
fn with_interval(figure: FigureAt, level: &LevelSummary) -> String {
    let unit = figure.figure.unit;
    let interval = figure.value(level).and_then(|found| found.interval);
    let interval = interval.map(|interval| format!(" ({})", unit.show_between(interval.low.max(0.0), interval.high)));
    shown(figure, level) + &interval.unwrap_or_default()
}

/// `39 to 44 ms`; the value, or its upper bound, if there is no interval.
fn range_or_value(figure: FigureAt, level: &LevelSummary) -> String {
    let unit = figure.figure.unit;
    let Some(found) = figure.value(level) else { return String::new() };
    match (found.interval, found.bounds.high) {
        (Some(interval), _) => unit.show_between(interval.low, interval.high),
        (None, Some(high)) => format!("{}, at most {}", unit.show(found.value), unit.show(high)),
        (None, None) => unit.show(found.value),
    }
}

/// The answer, with what is wrong with the level that it stands on.
fn unless_wrong(answer: Answer, named: &Named<'_>, setup: &Setup) -> Answer {
    match reason(named, setup) {
        Some(missing) => answer.lacks(missing),
        None => answer,
    }
}

fn reason(named: &Named<'_>, setup: &Setup) -> Option<Missing> {
    let Verdict::Invalid(reasons) = &named.level.verdict else { return None };
    let outcome = Outcome::new(named.level);
    // What made the outcome what it is, whatever else there is.
    let first = reasons.iter().find(|reason| Outcome::of_reason(reason) == outcome).or(reasons.first())?;
    let remedy = first.remedy(&setup.measurement, named.level.disturbances.disturbed > 0);
    let text = format!("{} is {outcome}: {first}; {remedy}", named.name);
    let settles = |setting: Setting| {
        let load = (setup.mode.flag(), plain(named.level.load.number()));
        let load = Some(load).filter(|_| setup.mode.is_range()).into_iter();
        command(setup, &load.chain([(setting.flag, setting.value.to_string())]).collect::<Vec<_>>())
    };
    Some(Missing { problem: text, command: first.setting(&setup.measurement).map(settles), seconds: None })
}

/// The answer, unless the limit is within the interval of the latency: then with how long would settle it.
fn unless_certain(answer: Answer, named: &Named<'_>, result: &RunResult) -> Answer {
    let setup = &result.setup;
    let found = key(setup).value(named.level);
    let contains = |limit: f64| {
        let interval = found.as_ref().and_then(|found| found.interval);
        interval.is_none_or(|interval| interval.low < limit && limit <= interval.high)
    };
    // A level that is invalid for another reason says that one.
    let is_open = |check: &LimitCheck| !check.certain && contains(check.limit.as_nanos() as f64);
    let Some(check) = named.level.limit.filter(is_open).filter(|_| named.level.ending != Ending::Unstable) else {
        return unless_wrong(answer, named, setup);
    };
    let gap = found.map_or(0.0, |found| (found.value - check.limit.as_nanos() as f64).abs());
    let half = found.and_then(|found| found.interval).map_or(0.0, |interval| (interval.high - interval.low) / 2.0);
    let times = ((half / gap.max(1.0)).powi(2) * MARGIN).clamp(LONGER.0, LONGER.1);
    let windows = named.level.windows.iter().map(|row| row.windows).sum::<usize>().max(3);
    let seconds = named.level.client.duration.as_secs_f64() * times;
    let mut changed = vec![("--max-trials", format!("{:.0}", (windows as f64 * times).ceil()))];
    if setup.measurement.level_time.is_some() {
        changed.push(("--max-level-time", format!("{:.0}s", (2.0 * seconds).ceil())));
    }
    if setup.mode.is_range() {
        changed.insert(0, (setup.mode.flag(), plain(named.level.load.number())));
    }
    answer.lacks(Missing {
        problem: format!("the interval of {} at {} contains the limit", title(setup), named.name),
        command: Some(command(setup, &changed)),
        seconds: Some(seconds.ceil() as u64),
    })
}
