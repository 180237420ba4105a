//! How variants differ: the tables of `--variant` and `--matrix`, at most 80 columns wide except for names from
//! outside, and their rows in CSV files.

mod rows;
#[cfg(test)]
pub(super) mod sample;
mod ways;

pub use rows::{files, in_unit};
pub use ways::{Way, brief, latency_word, levels_of, longer, ways};

use std::fmt::Write as _;

use crate::level_name;
use crate::lines::wrapped;
use crate::number::{binary, counted, plain, significant};
use crate::result::compare::Direction;
use crate::result::rounds::{Figure, ServerPart};
use crate::result::variants::{Bandwidth, Cell, Comparison, ErrorsChange, FigureChange, VariantsResult};
use crate::shortened;
use crate::stats::{Interval, MIN_PAIRS};
use crate::stdio::shown;
use crate::terms::{MeasurementPlan, Order, Statistic};

/// Columns that names of variants may take in a line of prose.
const NAME: usize = 24;
/// Columns of a row's name in the table of a matrix.
const WAY: usize = 11;

/// `1 round`, `6 rounds`.
fn rounds_of(count: usize) -> String {
    counted(count as u64, "round")
}

/// What is compared, and how; ends with an empty line.
pub fn heading(result: &VariantsResult, plan: &MeasurementPlan) -> String {
    let length = plan.request_count.map_or_else(|| plan.window.to_string(), |count| counted(count, "request"));
    let order = match result.rounds.order {
        Order::Abba => "there and back",
        Order::Random => "in an order that is drawn",
    };
    let starts = if result.starts > 1 { format!(", at {} starts", result.starts) } else { String::new() };
    let (count, margin) = (result.rounds.count, percent(result.rounds.margin));
    let rounds = match result.rounds.until_decided {
        Some(most) => format!("Rounds of {length} each until the requirements are decided, for {most:?} at most"),
        None => format!("{} of {length} each", rounds_of(count)),
    };
    let mut text = wrapped(&format!("  {rounds}, {order}{starts}; changes up to {margin} count as no change"));
    if count < MIN_PAIRS && result.starts < 2 {
        text += &wrapped(&format!("  Fewer than {MIN_PAIRS} rounds cannot tell a difference from chance"));
    }
    if result.matrix.is_none() {
        for (number, variant) in result.variants.iter().enumerate() {
            let role = if number == 0 { " (the reference)" } else { "" };
            let flags = if variant.flags.is_empty() { "as the run".into() } else { shown(&variant.flags) };
            text += &wrapped(&format!("  {}{role}: {flags}", shown(&variant.name)));
        }
    }
    text.push('\n');
    text
}

/// Everything about a cell; ends with an empty line.
pub fn cell(result: &VariantsResult, cell: &Cell) -> String {
    let mut text = match result.matrix {
        Some(_) => table(result, cell),
        None => result.comparisons(cell).iter().map(|comparison| block(result, cell, comparison)).collect(),
    };
    text.extend(
        longer(result, cell).into_iter().chain(remarks(result, cell)).map(|words| wrapped(&format!("  {words}"))),
    );
    text.push('\n');
    text
}

/// One variant against the reference.
fn block(result: &VariantsResult, cell: &Cell, comparison: &Comparison) -> String {
    let [reference, variant] = [0, comparison.variant].map(|number| name(result, number));
    let level = levels(cell, comparison.variant);
    let primary = comparison.figures.iter().find(|figure| figure.figure == result.primary);
    let answer = primary.map_or_else(
        || format!("nothing to compare: {variant} and {reference} share no round"),
        |figure| {
            format!(
                "{variant} is {} ({}, {}{})",
                sentence(figure, &reference),
                title(figure.figure),
                rounds_of(comparison.rounds),
                starts(cell)
            )
        },
    );
    let mut text = wrapped(&format!("{level}: {answer}"));
    if comparison.figures.is_empty() {
        // Often because all requests failed, of which shares can be compared.
        return text + &errors(comparison);
    }
    let _ = writeln!(
        text,
        "  {:<12}{:>9}{:>9}{:>7}{:>16}{:>7}{:>7}",
        "",
        shortened::beginning(&reference, 8),
        shortened::beginning(&variant, 8),
        "ratio",
        "95% interval",
        "p",
        "finds"
    );
    for figure in &comparison.figures {
        let [first, second] = [figure.reference, figure.value].map(|value| compact(in_unit(figure.figure, value)));
        let finds = figure.detectable.map_or_else(|| "-".to_owned(), found);
        let (ratio, range) = (factor(figure.ratio), interval(figure.interval));
        let _ = writeln!(
            text,
            "  {:<12}{first:>9}{second:>9}{ratio:>7}{range:>16}{:>7}{finds:>7}  {}",
            title(figure.figure),
            p_value(figure.p),
            figure.verdict
        );
    }
    text += &errors(comparison);
    text += &undecided(result, &comparison.figures);
    text
}

fn errors(comparison: &Comparison) -> String {
    let Some(errors) = &comparison.errors else { return String::new() };
    let [first, second] = [errors.reference, errors.value].map(share);
    let interval = points(errors);
    wrapped(&format!("  errors: {first} and {second}, 95% interval of the difference {interval}: {}", errors.verdict))
}

/// The least percentage that two digits show.
const LEAST_SHOWN: f64 = 0.01;

/// A share of requests that failed.
pub fn share(share: f64) -> String {
    let percent = 100.0 * share;
    if percent > 0.0 && percent < LEAST_SHOWN { format!("{}%", plain(percent)) } else { format!("{percent:.2}%") }
}

/// The interval of a difference of shares.
pub fn points(errors: &ErrorsChange) -> String {
    errors.interval.map_or_else(
        || "not known".to_owned(),
        |interval| format!("{} to {} points", signed(100.0 * interval.low), signed(100.0 * interval.high)),
    )
}

/// With more digits where two would show none of it.
fn signed(points: f64) -> String {
    let sign = if points > 0.0 { "+" } else { "" };
    if points != 0.0 && points.abs() < LEAST_SHOWN {
        format!("{sign}{}", plain(points))
    } else {
        format!("{points:+.2}")
    }
}

/// At how many starts of the servers a cell was measured, if at several.
fn starts(cell: &Cell) -> String {
    let starts = cell.rounds.iter().map(|round| round.start).max().unwrap_or(1);
    if starts > 1 { format!(" at {starts} starts") } else { String::new() }
}

/// How many rounds would decide what is undecided.
fn undecided(result: &VariantsResult, figures: &[FigureChange]) -> String {
    let open = figures.iter().filter(|figure| figure.verdict == Direction::Undecided);
    let parts: Vec<String> = open
        .map(|figure| match figure.rounds_to_decide {
            Some(rounds) => format!("{} {rounds}", title(figure.figure)),
            None => format!("{} none, it is at the margin", title(figure.figure)),
        })
        .collect();
    let unit = if result.starts > 1 { "Starts" } else { "Rounds" };
    if parts.is_empty() { String::new() } else { wrapped(&format!("  {unit} that would decide: {}", parts.join("; "))) }
}

/// `worse than A: 1.101 times its value, [1.090, 1.112]`.
fn sentence(figure: &FigureChange, reference: &str) -> String {
    let range = figure.interval.map_or_else(String::new, |range| format!(" {}", interval(Some(range))));
    let ratio = factor(figure.ratio);
    match figure.verdict {
        Direction::Worse | Direction::Better => format!("{} than {reference}: {ratio} times{range}", figure.verdict),
        Direction::Same => format!("the same as {reference}: {ratio} times{range}"),
        Direction::Undecided => format!("undecided against {reference}: {ratio} times{range}"),
    }
}

/// The table of a matrix.
fn table(result: &VariantsResult, cell: &Cell) -> String {
    let latency = latency_word(result);
    let size = cell.size.map(|bytes| format!(", inputs of {}", binary(bytes))).unwrap_or_default();
    let rounds = rounds_of(cell.rounds.iter().filter(|round| !round.set_aside).count());
    let (level, first) = (levels(cell, 0), name(result, 0));
    let mut text = wrapped(&format!(
        "{level}{size}: {rounds}; {latency} latency in usec and its ratio to {first}'s; MB of inputs and of \
            outputs a second"
    ));
    let _ = writeln!(
        text,
        "  {:WAY$}{:>9}{:>9}{:>9}{:>9}{:>6}{:>15}",
        "", "infer/sec", "MB/s in", "out", "usec", "ratio", "95% interval"
    );
    for way in ways(result, cell) {
        let name = brief(way.name);
        if let Some(problem) = way.problem {
            let _ = writeln!(text, "  {name:WAY$} not measured: {}", shown(problem));
            continue;
        }
        let show = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), compact);
        let megabytes = |bytes: Option<f64>| show(bytes.map(|bytes| bytes / 1e6));
        let Bandwidth { input, output } = way.bandwidth;
        let (rate, usec) = (show(way.rate), show(way.latency_ns.map(|ns| ns / 1e3)));
        let _ = write!(text, "  {name:WAY$}{rate:>9}{:>9}{:>9}{usec:>9}", megabytes(input), megabytes(output));
        if let Some(change) = way.change {
            let _ = write!(text, "{:>6}{:>15} {}", factor(change.ratio), interval(change.interval), change.verdict);
        }
        text.push('\n');
    }
    text + &bare(cell)
}

/// What the machine does with the same tensors alone.
fn bare(cell: &Cell) -> String {
    let Some(bare) = cell.bare else { return String::new() };
    let usec = |ns: f64| format!("{} usec", compact(ns / 1e3));
    let loopback = bare.loopback_ns.map(|ns| format!("; to and fro over TCP on this machine: {}", usec(ns)));
    wrapped(&format!("  One bare copy of the inputs: {}{}", usec(bare.memcpy_ns), loopback.unwrap_or_default()))
}

/// What there is to say beside the figures of a cell: what failed, and which rounds do not count.
pub fn remarks(result: &VariantsResult, cell: &Cell) -> Vec<String> {
    let mut all = Vec::new();
    for number in 0..result.variants.len() {
        let (name, failed) = (name(result, number), cell.failures(number).hits);
        if failed > 0 {
            all.push(format!("{name}: {} failed", counted(failed, "request")));
        }
        let units = cell.rounds.iter().filter_map(|round| Some((round, round.units[number].as_ref()?)));
        let broken: Vec<_> = units.clone().filter_map(|(round, unit)| Some((round, unit.problem.as_ref()?))).collect();
        if let Some((round, problem)) = broken.first() {
            let count = if broken.len() > 1 { format!(" (and {} more)", broken.len() - 1) } else { String::new() };
            let problem = shown(problem);
            all.push(format!("{name}: failed in round {}{count}, which does not count: {problem}", round.number));
        }
        let mut unlike = units.filter_map(|(_, unit)| unit.remark.as_ref());
        if let Some(first) = unlike.next() {
            let rounds = rounds_of(unlike.count() + 1);
            all.push(format!("{name}: not as asked for in {rounds}: {}", shown(first)));
        }
    }
    let disturbed = |aside: bool| {
        let rounds = cell.rounds.iter().filter(|round| round.set_aside == aside);
        rounds.filter(|round| round.units.iter().flatten().any(|unit| unit.disturbed)).count()
    };
    let (aside, counted, rounds) = (disturbed(true), disturbed(false), cell.rounds.len());
    if aside > 0 {
        all.push(format!("{aside} of {rounds} rounds were disturbed by others: set aside and replaced"));
    }
    if counted > 0 {
        let words = "rounds were disturbed by others, and count: that affects all variants alike";
        all.push(format!("{counted} of {rounds} {words}"));
    }
    for comparison in result.comparisons(cell).iter().filter(|comparison| comparison.order_matters()) {
        let t = comparison.order_effect_t.unwrap_or_default().abs();
        let variant = name(result, comparison.variant);
        let rule = "it matters which of the two is measured first; see docs/results.md";
        all.push(format!("{variant}: {rule} (t = {t:.1})"));
    }
    all
}

/// The name of a cell's level: the reference's, and the variant's if it differs.
fn levels(cell: &Cell, variant: usize) -> String {
    match (cell.loads.first(), cell.loads.get(variant)) {
        (Some(&first), Some(&second)) if first != second => {
            format!("{} against {}", level_name(second), level_name(first))
        }
        (Some(&first), _) => level_name(first),
        (None, _) => String::new(),
    }
}

fn name(result: &VariantsResult, number: usize) -> String {
    shortened::beginning(&shown(&result.variants[number].name), NAME)
}

/// A figure's name in tables, with its unit.
pub fn title(figure: Figure) -> String {
    match figure {
        Figure::Client(Statistic::Throughput) => "infer/sec".to_owned(),
        Figure::Client(statistic) => format!("{} usec", statistic.name()),
        Figure::Server(ServerPart::ServerQueue) => "queue usec".to_owned(),
        Figure::Server(ServerPart::ServerCompute) => "compute usec".to_owned(),
    }
}

/// About five digits.
pub fn compact(value: f64) -> String {
    let digits = match value.abs() {
        value if value >= 1e9 => return format!("{value:.2e}"),
        value if value >= 10_000.0 => 0,
        value if value >= 1_000.0 => 1,
        value if value >= 10.0 => 2,
        _ => 3,
    };
    format!("{value:.digits$}")
}

/// A ratio with three decimals, fewer for large values; a value too large for its column is no answer.
pub fn factor(ratio: f64) -> String {
    match ratio {
        ratio if ratio >= 10_000.0 => ">9999".to_owned(),
        ratio if ratio >= 1_000.0 => format!("{ratio:.0}"),
        ratio if ratio >= 100.0 => format!("{ratio:.1}"),
        ratio if ratio >= 10.0 => format!("{ratio:.2}"),
        _ => format!("{ratio:.3}"),
    }
}

/// An interval of a ratio, in brackets.
pub fn interval(interval: Option<Interval>) -> String {
    interval.map_or_else(
        || "[not known]".to_owned(),
        |interval| format!("[{}, {}]", factor(interval.low), factor(interval.high)),
    )
}

/// The smallest detectable change; beyond ten times is no answer.
fn found(share: f64) -> String {
    if share < 10.0 { format!("{:.1}%", 100.0 * share) } else { ">999%".to_owned() }
}

/// A p-value with four decimals.
pub fn p_value(p: f64) -> String {
    if p < 1e-4 { "<.0001".to_owned() } else { format!("{p:.4}") }
}

fn percent(share: f64) -> String {
    format!("{}%", significant(100.0 * share))
}

#[cfg(test)]
mod tests;
