//! Answers about how others differ from the first: variants, and results that are compared.

use crate::answer::command::command;
use crate::answer::phrases::shortened;
use crate::answer::{Answer, Missing, Question, ReportedFigure, Sureness, at, reported};
use crate::compare::{Change, Direction, ErrorsChange, LevelChange};
use crate::figures::FigureAt;
use crate::number::plain;
use crate::outcome::Outcome;
use crate::rounds::Figure;
use crate::stats::{Interval, MIN_PAIRS};
use crate::terms::Statistic;
use crate::variants::{Cell, Comparison, FigureChange, VariantsResult};
use crate::{Setup, Unit};

/// A gate gets this many times the time that its rounds take.
const GATE_SPARE: u64 = 3;

/// What is compared, in a sentence.
struct Pair<'a> {
    /// Which of the two changed, and what it is compared with.
    other: &'a str,
    reference: &'a str,
    /// At which level, if there are several.
    level: Option<String>,
}

/// A change of a figure of which more is better, or less.
#[derive(Clone, Copy)]
struct Changed {
    figure_at: FigureAt,
    ratio: f64,
    interval: Option<Interval>,
    verdict: Direction,
}

/// How every variant differs from the first in the main figure; `gated` if conditions are held against the changes.
pub(super) fn of_variants(result: &VariantsResult, setup: &Setup, gated: bool) -> Option<Answer> {
    let several = result.cells.len() > 1;
    let all: Vec<(&Cell, Comparison)> = result
        .cells
        .iter()
        .flat_map(|cell| result.comparisons(cell).into_iter().map(move |comparison| (cell, comparison)))
        .collect();
    let name = |number: usize| result.variants.get(number).map_or("", |variant| variant.name.as_str());
    let mut sentences = Vec::new();
    let (mut figures, mut open) = (Vec::new(), Vec::new());
    for (cell, comparison) in &all {
        let load = cell.loads.get(comparison.variant).map(|load| at(*load, cell.distinction()));
        let pair = Pair { other: name(comparison.variant), reference: name(0), level: load.filter(|_| several) };
        let Some(change) = comparison.figures.iter().find(|figure| figure.figure == result.primary) else {
            sentences.extend(without_figure(result, cell, comparison, &pair));
            continue;
        };
        let changed = changed(change);
        if change.verdict == Direction::Undecided {
            open.push(change);
        }
        let throughput = throughput_alone(comparison, change);
        let beside = throughput.map(|throughput| throughput_words(self::changed(throughput))).unwrap_or_default();
        let found = Sentence {
            verdict: gravest(change.verdict, throughput.map(|throughput| throughput.verdict)),
            subject: comparison.variant,
            words: sentence(&pair, changed) + &beside,
        };
        sentences.push(found.with_errors(comparison.errors));
        for change in [Some(change), throughput].into_iter().flatten() {
            let changed = self::changed(change);
            figures.extend(values(&pair, changed.figure_at, [change.reference, change.value]));
            figures.push(ratio(&pair, changed));
        }
    }
    let words = joined(sentences)?;
    let answer = Answer::sure(Question::Change, words, figures);
    if answer.figures.is_empty() {
        return Some(Answer { sure: Sureness::NotMeasured, ..answer });
    }
    Some(match open.first() {
        Some(change) => answer.lacks(rounds(result, change, setup, gated)),
        None => answer,
    })
}

/// That a variant has nothing to compare in a cell, and why; none before its first round.
fn without_figure(result: &VariantsResult, cell: &Cell, comparison: &Comparison, pair: &Pair<'_>) -> Option<Sentence> {
    cell.rounds.first()?;
    let units = |variant: usize| cell.rounds.iter().filter_map(move |round| round.units.get(variant)?.as_ref());
    let failure = |variant: usize| {
        let refused = result.variants.get(variant)?.problem.as_deref();
        refused.or_else(|| units(variant).find_map(|unit| unit.problem.as_deref()))
    };
    let why = match comparison.rounds {
        0 => failure(comparison.variant).or(failure(0)).unwrap_or("no round has both"),
        _ => "some rounds have too few requests",
    };
    let Pair { other, reference, level: level_name } = pair;
    let suffix = level_name.as_ref().map(|level_name| format!(" at {level_name}")).unwrap_or_default();
    let words = format!("{other} cannot be compared with {reference}{suffix} ({})", shortened(why));
    Some(Sentence { verdict: Direction::Worse, subject: comparison.variant, words })
}

/// The throughput, where that changed although the main figure did not, or got better while that got worse: larger batches take
/// longer, and bring more.
fn throughput_alone<'a>(comparison: &'a Comparison, main: &FigureChange) -> Option<&'a FigureChange> {
    let is_decided = |change: &FigureChange| matches!(change.verdict, Direction::Better | Direction::Worse);
    let throughput = Figure::Client(Statistic::Throughput);
    let is_news = |change: &FigureChange| change.verdict != main.verdict && is_decided(change);
    comparison.figures.iter().find(|change| change.figure == throughput && is_news(change))
}

/// `, with 302 % more throughput (295 to 310 %)`.
fn throughput_words(change: Changed) -> String {
    let word = if change.ratio > 1.0 { "more" } else { "less" };
    let size = |ratio: f64| plain(100.0 * (ratio - 1.0).abs());
    let range = change.interval.map(|interval| {
        let ends = if change.ratio > 1.0 { [interval.low, interval.high] } else { [interval.high, interval.low] };
        let [from, to] = ends.map(size);
        format!(" ({from} to {to} %)")
    });
    format!(", with {} % {word} throughput{}", size(change.ratio), range.unwrap_or_default())
}

fn changed(change: &FigureChange) -> Changed {
    let statistic = match change.figure {
        Figure::Client(statistic) => statistic,
        Figure::Server(_) => Statistic::MeanLatency,
    };
    let FigureChange { ratio, interval, verdict, .. } = *change;
    Changed { figure_at: FigureAt::of_statistic(statistic), ratio, interval, verdict }
}

/// Nobody waits longer for a change at the margin.
const MOST_SECONDS: u64 = 3600;
/// `--rounds` and `--restarts` take no more.
const MOST_ROUNDS: usize = 10_000;
const MOST_STARTS: usize = 1_000;

/// How many rounds would decide, and how long they would take. To a gate `--rounds` is a limit, and its time decides.
pub(super) fn rounds(result: &VariantsResult, change: &FigureChange, setup: &Setup, gated: bool) -> Missing {
    let counted = |cell: &Cell| cell.rounds.iter().filter(|round| !round.set_aside).count();
    let done = result.cells.iter().map(counted).min().unwrap_or(0);
    let rounds = match change.rounds_to_decide.map(|rounds| rounds.max(MIN_PAIRS)) {
        Some(rounds) => rounds,
        None if done < MIN_PAIRS => MIN_PAIRS,
        None => {
            let text = format!("the change is at the margin of {} %", plain(100.0 * result.rounds.margin));
            return Missing::new(text);
        }
    };
    let (flag, most) = if result.starts > 1 { ("--restarts", MOST_STARTS) } else { ("--rounds", MOST_ROUNDS) };
    let window_s = setup.measurement.window.length().unwrap_or_default().as_secs_f64();
    let turns = rounds * result.variants.len() * result.cells.len();
    let seconds = (window_s > 0.0 && result.starts < 2).then(|| (window_s * turns as f64).ceil() as u64);
    if seconds.is_some_and(|seconds| seconds > MOST_SECONDS) {
        let margin = plain(100.0 * result.rounds.margin);
        return Missing::new(format!("they are too close to the margin of {margin} % to be told apart within an hour"));
    }
    let changed = match seconds.filter(|_| gated) {
        // Some of the rounds will be disturbed.
        Some(seconds) => ("--gate-time", format!("{}s", GATE_SPARE * seconds.max(1))),
        None => (flag, rounds.to_string()),
    };
    let problem = format!("{rounds} {} would probably decide", flag.trim_start_matches('-'));
    if changed.0 == flag && rounds > most {
        return Missing::new(format!("{problem}, which are more than {flag} takes"));
    }
    Missing { command: Some(command(setup, &[changed])), seconds, ..Missing::new(problem) }
}

/// That a level is not valid in both results. One that no longer is weighs most.
fn not_compared(level: &LevelChange, name: &str, [reference, other]: [&str; 2]) -> Option<Sentence> {
    let [before, after] = level.outcomes.map(|outcome| !outcome.is_valid());
    let words = level.outcomes.map(Outcome::name);
    let verdict = if after && !before { Direction::Worse } else { Direction::Undecided };
    let words = format!("{name} is not compared ({} in {reference}, {} in {other})", words[0], words[1]);
    level.figures.is_empty().then_some(Sentence { verdict, subject: 0, words })
}

/// The throughputs of a level in both results and their change, where that is known although the latency's is not.
fn level_throughput_alone(level: &LevelChange, main: &Change) -> Option<([f64; 2], Changed)> {
    let is_decided = |change: &Change| matches!(change.verdict, Direction::Better | Direction::Worse);
    let throughput = FigureAt::of_statistic(Statistic::Throughput);
    let found = level.figures.iter().find(|change| change.figure_at == throughput);
    let found = found.filter(|change| is_decided(change) && change.verdict != main.verdict)?;
    Some((found.values, of_results(found)))
}

fn of_results(change: &Change) -> Changed {
    let Change { figure_at, ratio, interval, verdict, .. } = *change;
    Changed { figure_at, ratio, interval, verdict }
}

/// How a result differs from a reference in the latency that both are judged by; `setup` is the other's. None if they
/// have no level in common.
pub fn compared(changes: &[LevelChange], [reference, other]: [&str; 2], setup: &Setup) -> Option<Answer> {
    let key = FigureAt::of_statistic(setup.measurement.key_latency());
    let mut sentences = Vec::new();
    let (mut figures, mut open) = (Vec::new(), false);
    for level in changes {
        let level_name = at(level.load, level.distinction);
        let Some(change) = level.figures.iter().find(|change| change.figure_at == key) else {
            sentences.extend(not_compared(level, &level_name, [reference, other]));
            continue;
        };
        let pair = Pair { other, reference, level: (changes.len() > 1).then_some(level_name) };
        let changed = of_results(change);
        open |= change.verdict == Direction::Undecided;
        figures.extend([values(&pair, key, change.values), vec![ratio(&pair, changed)]].concat());
        let throughput = level_throughput_alone(level, change);
        let beside = throughput.map(|(_, throughput)| throughput_words(throughput)).unwrap_or_default();
        let verdict = gravest(change.verdict, throughput.map(|(_, throughput)| throughput.verdict));
        let found = Sentence { verdict, subject: 0, words: sentence(&pair, changed) + &beside };
        sentences.push(found.with_errors(level.errors));
        if let Some((rates, throughput)) = throughput {
            figures.extend([values(&pair, throughput.figure_at, rates), vec![ratio(&pair, throughput)]].concat());
        }
    }
    let Some(words) = joined(sentences).filter(|_| !figures.is_empty()) else {
        let words = format!("{other} and {reference} cannot be compared: no level is valid in both");
        let answer = Answer::sure(Question::Change, words, Vec::new());
        return (!changes.is_empty()).then_some(Answer { sure: Sureness::NotMeasured, ..answer });
    };
    let answer = Answer::sure(Question::Change, words, figures);
    if !open {
        return Some(answer);
    }
    let text = "measure both longer, or in turns in one run with --variant, which tells smaller changes".to_owned();
    Some(answer.lacks(Missing::new(text)))
}

/// What a comparison came to.
struct Sentence {
    verdict: Direction,
    /// The number of what was compared with the first.
    subject: usize,
    words: String,
}

impl Sentence {
    /// The same, with how many requests failed where that is known to differ: `, with 0.9 % of requests failed instead of 0 %`.
    fn with_errors(self, errors: Option<ErrorsChange>) -> Self {
        let Some(errors) = errors.filter(|errors| errors.verdict != Direction::Undecided) else { return self };
        let [before, after] = [errors.reference, errors.value].map(|share| plain(100.0 * share));
        let words = format!("{}, with {after} % of requests failed instead of {before} %", self.words);
        let verdict = if errors.verdict == Direction::Worse { errors.verdict } else { self.verdict };
        Self { verdict, words, ..self }
    }
}

/// What weighs more of a figure and of the throughput beside it.
fn gravest(main: Direction, beside: Option<Direction>) -> Direction {
    if main == Direction::Worse { main } else { beside.unwrap_or(main) }
}

/// The gravest first, one of each subject before any has two; those that are too many are counted.
fn joined(mut sentences: Vec<Sentence>) -> Option<String> {
    let weight = |verdict: Direction| match verdict {
        Direction::Worse => 0,
        Direction::Better => 1,
        Direction::Undecided => 2,
        Direction::Same => 3,
    };
    sentences.sort_by_key(|sentence| weight(sentence.verdict));
    let is_first = |(number, sentence): &(usize, &Sentence)| {
        sentences[..*number].iter().all(|earlier| earlier.subject != sentence.subject)
    };
    let (firsts, others): (Vec<_>, Vec<_>) = sentences.iter().enumerate().partition(is_first);
    let shown: Vec<&str> =
        firsts.iter().chain(&others).take(MOST).map(|(_, sentence)| sentence.words.as_str()).collect();
    let remaining = sentences.len().saturating_sub(MOST);
    let more = match remaining {
        0 => String::new(),
        1 => "; and 1 more comparison".to_owned(),
        _ => format!("; and {remaining} more comparisons"),
    };
    (!shown.is_empty()).then(|| shown.join("; ") + &more)
}

/// Most comparisons in a sentence.
const MOST: usize = 3;

/// `new is 10.3 % slower than old (p99, 8.9 to 11.6 %) at concurrency 4`.
fn sentence(pair: &Pair<'_>, change: Changed) -> String {
    let Pair { other, reference, level: level_name } = pair;
    let suffix = level_name.as_ref().map(|level_name| format!(" at {level_name}")).unwrap_or_default();
    let figure_name = change.figure_at.statistic().map_or_else(
        || change.figure_at.short(),
        |statistic| match statistic {
            Statistic::MeanLatency => "mean latency".to_owned(),
            statistic => statistic.name(),
        },
    );
    let signed = |ratio: f64| format!("{}{}", if ratio > 1.0 { "+" } else { "" }, plain(100.0 * (ratio - 1.0)));
    let (less, more) =
        if change.figure_at.figure.unit == Unit::Nanoseconds { ("faster", "slower") } else { ("less", "more") };
    let size = |ratio: f64| plain(100.0 * (ratio - 1.0).abs());
    match (change.verdict, change.interval) {
        (Direction::Worse | Direction::Better, Some(interval)) => {
            let word = if change.ratio > 1.0 { more } else { less };
            let ends = if change.ratio > 1.0 { [interval.low, interval.high] } else { [interval.high, interval.low] };
            let [from, to] = ends.map(size);
            format!(
                "{other} is {} % {word} than {reference} ({figure_name}, {from} to {to} %){suffix}",
                size(change.ratio)
            )
        }
        (Direction::Same, Some(interval)) => {
            let [low, high] = [interval.low, interval.high].map(signed);
            format!("{other} is as fast as {reference} ({figure_name} {low} to {high} %){suffix}")
        }
        (_, interval) => {
            let interval =
                interval.map(|interval| format!(", {} to {} %", signed(interval.low), signed(interval.high)));
            let ratio = if change.ratio.is_finite() { format!("{} %", signed(change.ratio)) } else { "–".to_owned() };
            let interval = interval.unwrap_or_default();
            format!("{other} against {reference} is undecided ({figure_name} {ratio}{interval}){suffix}")
        }
    }
}

fn values(pair: &Pair<'_>, figure_at: FigureAt, [reference, other]: [f64; 2]) -> Vec<ReportedFigure> {
    let name =
        |who: &str| pair.level.as_ref().map_or_else(|| who.to_owned(), |level_name| format!("{who} at {level_name}"));
    vec![reported(name(pair.reference), figure_at, reference, None), reported(name(pair.other), figure_at, other, None)]
}

fn ratio(pair: &Pair<'_>, change: Changed) -> ReportedFigure {
    let suffix = pair.level.as_ref().map(|level_name| format!(" at {level_name}")).unwrap_or_default();
    let subject = format!("{} against {}{suffix}", pair.other, pair.reference);
    ReportedFigure { unit: Unit::Ratio, ..reported(subject, change.figure_at, change.ratio, change.interval) }
}
