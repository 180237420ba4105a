//! Answers from levels: what one comes to, the knee of a range, the saturation of a sweep; the most within a limit is beside it.

use crate::advice::longer;
use crate::answer::command::beyond;
use crate::answer::knee::{Knee, knee};
use crate::answer::phrases::{
    LONGER, MARGIN, Named, between, failure, figures, found, is_known, kept_up, key, reason, shown, speech, title,
    unless_wrong, vague, with, with_interval,
};
use crate::answer::within::{standing, unless_certain, within};
use crate::answer::{Answer, Missing, Question, Sureness, at, reported};
use crate::figures::FigureAt;
use crate::number::plain;
use crate::outcome::Outcome;
use crate::summary::{Ending, LevelSummary};
use crate::sweep::{RESOLUTION, SweepResult};
use crate::terms::{FigureName, Statistic};
use crate::{RunResult, Setup};

/// The share of good requests from which on a load is called good.
const MOSTLY: f64 = 0.95;

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
        ([_], [named]) => Some(single(named, result)),
        (_, measured) if result.setup.mode.pace().is_some() => Some(streams(result, measured)),
        (_, measured) if measured.iter().all(|named| named.level.client.good.is_some()) => Some(good(result, measured)),
        (_, measured) if result.setup.mode.rate().is_some() => Some(rates(result, measured)),
        (_, measured) if result.setup.mode.is_range() => Some(range(result, measured)),
        (all, measured) => Some(slowest(&result.setup, all, measured)),
    }
}

/// Nothing succeeded.
fn nothing(first: &Named<'_>, setup: &Setup) -> Answer {
    let why = failure(first.level).map(|why| format!(" ({why})")).unwrap_or_default();
    let words = format!("Nothing was measured: no request succeeded at {}{why}", first.name);
    let missing = reason(first, setup);
    Answer { sure: Sureness::NotMeasured, missing, ..Answer::sure(Question::Level, words, Vec::new()) }
}

/// What one load comes to, and how that stands to a limit.
fn single(named: &Named<'_>, result: &RunResult) -> Answer {
    let setup = &result.setup;
    let words = what_it_comes_to(named, setup);
    let failure = failure(named.level).filter(|_| Outcome::new(named.level) == Outcome::Failed);
    // A load that was not what was asked for says nothing about the limit.
    let is_asked = setup.measurement.latency_threshold.is_some() && kept_up(named.level);
    let limit = named.level.limit.filter(|_| is_asked);
    let words = match (failure, limit) {
        (Some(why), _) => {
            let words = words.strip_prefix("At ").map(|words| format!("at {words}")).unwrap_or(words);
            format!("Failed: {why}; before, {words}")
        }
        (None, Some(check)) => format!("{words}: {} {}", title(setup), standing(check)),
        (None, None) => words,
    };
    let answer = Answer::sure(Question::Level, words, figures(named, setup));
    match limit {
        Some(_) => unless_certain(answer, named, result),
        None => unless_vague(unless_wrong(answer, named, setup), named, setup),
    }
}

/// The answer, unless too few requests tell how well a level's figures are known. Of language models it says others.
fn unless_vague(answer: Answer, named: &Named<'_>, setup: &Setup) -> Answer {
    if answer.missing.is_some() || speech(named.level, &setup.measurement).is_some() {
        return answer;
    }
    // How much an open loop sends is given.
    let client = &named.level.client;
    let is_given = client.open_loop.is_some() && client.failed + client.cancelled == 0;
    let rate = Some(FigureAt::of_statistic(Statistic::Throughput)).filter(|_| !is_given);
    let figures: Vec<FigureAt> = [key(setup)].into_iter().chain(rate).collect();
    match vague(&figures, named, setup) {
        Some(missing) => answer.lacks(missing),
        None => answer,
    }
}

fn what_it_comes_to(named: &Named<'_>, setup: &Setup) -> String {
    match speech(named.level, &setup.measurement) {
        Some(speech) => format!("At {}: {speech}", named.name),
        None => {
            let throughput = with_interval(FigureAt::of_statistic(Statistic::Throughput), named.level);
            let latency = with_interval(key(setup), named.level);
            let good = FigureAt::new(FigureName { key: "goodput_share", point: None });
            let good = found(good, named.level).map(|found| format!(", {} good", good.figure.unit.show(found.value)));
            format!("{throughput} at {}, {} {latency}{}", named.name, title(setup), good.unwrap_or_default())
        }
    }
}

/// The slowest of loads that follow each other, of which `measured` had requests.
fn slowest(setup: &Setup, all: &[Named<'_>], measured: &[Named<'_>]) -> Answer {
    let latency = |named: &&Named<'_>| named.level.client.key_latency_ns(setup.measurement.percentile);
    let by_latency = |left: &&Named<'_>, right: &&Named<'_>| latency(left).total_cmp(&latency(right));
    let slowest = measured.iter().max_by(by_latency).unwrap_or(&measured[0]);
    let invalid = |named: &&Named<'_>| !Outcome::new(named.level).is_valid();
    let others: Vec<&Named<'_>> = all.iter().filter(invalid).collect();
    let exceptions = others.iter().map(|named| format!("{}: {}", named.name, Outcome::new(named.level).name()));
    let unmeasured = setup.mode.stages().len().saturating_sub(all.len());
    let exceptions: Vec<String> =
        exceptions.chain((unmeasured > 0).then(|| format!("{unmeasured} not measured"))).collect();
    // What is open comes before what nobody doubts.
    let is_another = |named: &Named<'_>| !std::ptr::eq(named.level, slowest.level);
    let gravity = |named: &&Named<'_>| (is_known(named.level, Question::Level), is_another(named));
    let worst = others.iter().copied().min_by_key(gravity);
    let words = format!(
        "{} of {} loads are valid{}; the slowest is {}: {} {}",
        all.len() - others.len(),
        all.len() + unmeasured,
        if exceptions.is_empty() { String::new() } else { format!(" ({})", exceptions.join(", ")) },
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
    let best = found.as_ref().and_then(|knee| named(knee.level)).unwrap_or(most);
    let load = |level: &LevelSummary| level.load.number();
    // Throughput and latency are as good at the end as anywhere: more load would tell where they bend.
    let is_beyond = found.as_ref().is_some_and(|knee| all.iter().all(|named| load(named.level) <= load(knee.level)));
    let label = match found {
        Some(_) if is_beyond => "No knee yet",
        Some(_) => "Knee",
        None => "Most throughput",
    };
    let rate = FigureAt::of_statistic(Statistic::Throughput);
    let beside = speech(best.level, &setup.measurement)
        .unwrap_or_else(|| format!("{} {}", title(setup), between(key(setup), best.level)));
    let mut words = format!("{label}: {} at {} ({beside})", shown(rate, best.level), best.name);
    if let Some(knee) = found.filter(Knee::is_open) {
        let ends = [knee.lowest, knee.highest].map(|level| named(level).map_or("", |named| &named.name));
        words += &format!("; as far as is known it may be anywhere from {} to {}", ends[0], ends[1]);
    }
    let mut figures = figures(best, setup);
    if let Some(least) = least_latency(among.iter(), best, setup) {
        words += &of_least(least, setup);
        figures.extend(self::figures(least, setup));
    }
    match unless_wrong(Answer::sure(Question::Knee, words, figures), best, setup) {
        answer if is_beyond && answer.missing.is_none() => answer.lacks(beyond(setup)),
        answer => unless_vague(answer, best, setup),
    }
}

/// The highest of several rates that the server kept up with, and the least latency.
fn rates(result: &RunResult, all: &[Named<'_>]) -> Answer {
    let setup = &result.setup;
    let number = |named: &&Named<'_>| named.level.load.number();
    let by_rate = |left: &&Named<'_>, right: &&Named<'_>| number(left).total_cmp(&number(right));
    // Above one that is too much, another was kept up with by chance.
    let is_too_much = |named: &&Named<'_>| Outcome::new(named.level) == Outcome::Overloaded;
    let too_much = all.iter().filter(is_too_much).map(|named| number(&named)).fold(f64::INFINITY, f64::min);
    let kept = || all.iter().filter(|named| kept_up(named.level) && number(named) < too_much);
    let best = kept().max_by(by_rate).or_else(|| all.iter().min_by(by_rate)).unwrap_or(&all[0]);
    let above = all.iter().filter(|named| !kept_up(named.level) && number(named) > number(&best)).min_by(by_rate);
    let beside = speech(best.level, &setup.measurement)
        .unwrap_or_else(|| format!("{} {}", title(setup), between(key(setup), best.level)));
    let mut words = match (kept().count(), above) {
        (0, _) => format!("No rate was kept up with, not even {} ({beside})", best.name),
        (_, Some(above)) => {
            let outcome = Outcome::new(above.level);
            format!("Highest rate kept up with: {} ({beside}); {}: {outcome}", best.name, above.name)
        }
        (_, None) => format!("Every rate was kept up with, up to {} ({beside})", best.name),
    };
    let mut figures = figures(best, setup);
    if let Some(least) = least_latency(kept(), best, setup) {
        words += &of_least(least, setup);
        figures.extend(self::figures(least, setup));
    }
    unless_wrong(Answer::sure(Question::MostLoad, words, figures), best, setup)
}

fn of_least(least: &Named<'_>, setup: &Setup) -> String {
    format!("; least {}: {} at {}", title(setup), shown(key(setup), least.level), least.name)
}

/// The load with the least of the latencies that the run is judged by, if that is not the `best` load: of several that are not known to
/// differ the smallest, because the rest is chance. The least of those that settled is none beside a best load that did not.
fn least_latency<'a, 'l>(
    all: impl Iterator<Item = &'l Named<'a>>,
    best: &Named<'_>,
    setup: &Setup,
) -> Option<&'l Named<'a>>
where
    'a: 'l,
{
    let latency = |named: &Named<'_>| named.level.client.key_latency_ns(setup.measurement.percentile);
    let number = |named: &&Named<'_>| named.level.load.number();
    let is_less = |least: &&Named<'_>| best.level.ending != Ending::Unstable || latency(least) < latency(best);
    let interval = |named: &Named<'_>| key(setup).value(named.level).and_then(|found| found.interval);
    let settled: Vec<&Named<'a>> = all.filter(|named| named.level.ending != Ending::Unstable).collect();
    let least = *settled.iter().min_by(|left, right| latency(left).total_cmp(&latency(right)))?;
    let is_as_low = |named: &&Named<'a>| match (interval(named), interval(least)) {
        (Some(theirs), Some(its)) => theirs.low <= its.high,
        _ => named.name == least.name,
    };
    let smallest = settled.into_iter().filter(is_as_low).min_by(|left, right| number(left).total_cmp(&number(right)));
    smallest.filter(|least| least.name != best.name).filter(is_less)
}

/// The most load of which nearly every request is within its limits (`--goodput`).
fn good(result: &RunResult, all: &[Named<'_>]) -> Answer {
    let setup = &result.setup;
    let figure = |key| FigureAt::new(FigureName { key, point: None });
    let value = |key, named: &Named<'_>| found(figure(key), named.level).map_or(0.0, |found| found.value);
    let by_goodput = |left: &&Named<'_>, right: &&Named<'_>| value("goodput", left).total_cmp(&value("goodput", right));
    let is_good = |named: &&Named<'_>| kept_up(named.level) && value("goodput_share", named) >= MOSTLY;
    let most_good = all.iter().filter(is_good).max_by(by_goodput);
    let best = most_good.or_else(|| all.iter().max_by(by_goodput)).unwrap_or(&all[0]);
    let (rate, share) = (shown(figure("goodput"), best.level), shown(figure("goodput_share"), best.level));
    let beside = speech(best.level, &setup.measurement)
        .unwrap_or_else(|| format!("{share} good, {} {}", title(setup), between(key(setup), best.level)));
    let (are_all_good, mostly) = (all.iter().all(|named| is_good(&named)), MOSTLY * 100.0);
    let words = match (most_good.is_some(), are_all_good) {
        (true, false) => format!("Most good load: {rate} at {} ({beside})", best.name),
        (true, true) => format!("At least {rate} are good, at {} ({beside})", best.name),
        (false, _) => {
            format!("No load was kept up with and {mostly:.0} % good; most is at {}: {rate} ({beside})", best.name)
        }
    };
    let goodput = found(figure("goodput"), best.level);
    let goodput = goodput.map(|found| reported(best.name.clone(), figure("goodput"), found.value, found.interval));
    let figures = goodput.into_iter().chain(figures(best, setup)).collect();
    let answer = Answer::sure(Question::MostLoad, words, figures);
    let decides = |named: &&Named<'_>| named.name == best.name || value("goodput", named) > value("goodput", best);
    let open = all.iter().filter(decides).find_map(|named| hardly_good(named, setup));
    match (open.filter(|_| reason(best, setup).is_none()), are_all_good) {
        (Some(open), _) => answer.lacks(open),
        (None, true) => answer.lacks(beyond(setup)),
        (None, false) => unless_wrong(answer, best, setup),
    }
}

/// What is missing where too few requests tell whether a load that was kept up with is good.
fn hardly_good(named: &Named<'_>, setup: &Setup) -> Option<Missing> {
    let share = FigureAt::new(FigureName { key: "goodput_share", point: None });
    let found = found(share, named.level).filter(|_| kept_up(named.level))?;
    let interval = found.interval.filter(|interval| interval.low < MOSTLY && MOSTLY <= interval.high)?;
    let times = (interval.high - interval.low) / 2.0 / (found.value - MOSTLY).abs().max(f64::EPSILON);
    let setting = longer(&setup.measurement, (MARGIN * times.powi(2)).clamp(LONGER.0, LONGER.1));
    let (percent, shown) = (MOSTLY * 100.0, with_interval(share, named.level));
    let problem = format!("it is not known whether {percent:.0} % are good at {}: {shown}", named.name);
    Some(Missing { command: Some(with(setting, named, setup)), ..Missing::new(problem) })
}

/// The most streams that the server kept up with: how much load they are follows from their number.
fn streams(result: &RunResult, all: &[Named<'_>]) -> Answer {
    let setup = &result.setup;
    let kept = all.iter().filter(|named| kept_up(named.level));
    let by_number =
        |left: &&Named<'_>, right: &&Named<'_>| left.level.load.number().total_cmp(&right.level.load.number());
    let Some(best) = kept.max_by(by_number) else {
        let least = all.iter().min_by(by_number).unwrap_or(&all[0]);
        let words = format!("The server kept no streams in time, not even {}", least.name);
        return unless_wrong(Answer::sure(Question::MostLoad, words, figures(least, setup)), least, setup);
    };
    let beside = format!("{} {}", title(setup), between(key(setup), best.level));
    let is_most = all.iter().any(|named| named.level.load.number() > best.level.load.number());
    let number = plain(best.level.load.number());
    let answer = |words| unless_wrong(Answer::sure(Question::MostLoad, words, figures(best, setup)), best, setup);
    if is_most {
        return answer(format!("Most streams kept in time: {number} ({beside})"));
    }
    let streams = if best.level.load.number() == 1.0 { "stream" } else { "streams" };
    answer(format!("At least {number} {streams} kept in time ({beside})")).lacks(beyond(setup))
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
    let by_load = |left: &&LevelSummary, right: &&LevelSummary| left.load.number().total_cmp(&right.load.number());
    let highest = result.levels.iter().filter(below).max_by(by_load);
    let figures = highest.map(|level| Named { level, name: at(level.load, crate::Distinction::default()) });
    let figures = figures.map(|named| self::figures(&named, &result.setup)).unwrap_or_default();
    let answer = Answer::sure(Question::Saturation, words, figures);
    let sustained = result.levels.iter().filter(|level| kept_up(level)).map(|level| level.load.number());
    let sustained = sustained.filter(|rate| *rate <= found.saturation * 1.001).fold(0.0, f64::max);
    if sustained < found.saturation * (1.0 - RESOLUTION) {
        let words = format!("Saturation: about {} requests/s ({above}{knee})", plain(found.saturation));
        let problem = match sustained > 0.0 {
            true => format!("measured longer, nothing above {} requests/s was sustained", plain(sustained)),
            false => "measured longer, no rate was sustained".to_owned(),
        };
        return Answer { words, ..answer }.lacks(Missing::new(problem));
    }
    if found.unsustained.is_some() {
        return answer;
    }
    answer.lacks(Missing::new("the server sustained every rate that this client could send").certain())
}
