//! The answer of a study of memory or transports: which way is fastest, by size.

use crate::answer::changes::rounds;
use crate::answer::{Answer, Missing, Question, ReportedFigure, at, reported};
use crate::compare::Direction;
use crate::figures::FigureAt;
use crate::number::binary;
use crate::rounds::Figure;
use crate::summary::LevelLoad;
use crate::terms::Statistic;
use crate::variants::{Cell, FigureChange, VariantsResult};
use crate::{Distinction, Setup, Unit};

/// The fastest of a cell.
struct Winner<'a> {
    name: &'a str,
    cell: &'a Cell,
    /// The load, if there are several.
    level: Option<String>,
    latency_ns: f64,
    /// Bytes of inputs a second.
    bandwidth: Option<f64>,
    /// Those that are known to be as fast.
    equals: Vec<&'a str>,
    /// How many others are not known to be slower: their intervals overlap.
    rivals: usize,
    /// What is known of them, if they are compared in pairs.
    open: Vec<FigureChange>,
}

impl Winner<'_> {
    /// Its name, and those of its equals.
    fn names(&self) -> String {
        match self.equals.split_last() {
            Some((last, others)) => format!("{} and {last}", [&[self.name], others].concat().join(", ")),
            None => self.name.to_owned(),
        }
    }

    /// The load behind a size, or alone.
    fn at_level(&self) -> String {
        let before = if self.cell.size.is_some() { "," } else { " at" };
        self.level.as_ref().map(|level| format!("{before} {level}")).unwrap_or_default()
    }
}

/// Whether the same ways are the fastest at a load, whichever of equals comes first.
fn are_alike(left: &Winner<'_>, right: &Winner<'_>) -> bool {
    let names = |winner: &Winner<'_>| {
        let mut names = [&[winner.name], &winner.equals[..]].concat();
        names.sort_unstable();
        names.join("\n")
    };
    left.level == right.level && names(left) == names(right)
}

/// The fastest of every cell, load by load and from the smallest size up: they were measured in the order in which they were asked for.
fn in_order(result: &VariantsResult) -> Vec<Winner<'_>> {
    let mut loads: Vec<LevelLoad> = Vec::new();
    for load in result.cells.iter().filter_map(|cell| cell.loads.first()) {
        if !loads.contains(load) {
            loads.push(*load);
        }
    }
    let mut all: Vec<Winner<'_>> = result.cells.iter().filter_map(|cell| winner(result, cell)).collect();
    let order = |cell: &Cell| loads.iter().position(|load| cell.loads.first() == Some(load));
    all.sort_by_key(|winner| (order(winner.cell), winner.cell.size));
    for winner in all.iter_mut().filter(|_| loads.len() > 1) {
        winner.level = winner.cell.loads.first().map(|load| at(*load, Distinction::default()));
    }
    all
}

/// The fastest way at each size; sizes with the same one are taken together.
pub(super) fn winners(result: &VariantsResult, setup: &Setup) -> Option<Answer> {
    let Figure::Client(primary) = result.primary else { return None };
    let all = in_order(result);
    let latency = match primary {
        Statistic::MeanLatency => "mean latency".to_owned(),
        statistic => statistic.name(),
    };
    let figure = FigureAt::of_statistic(primary);
    let figures: Vec<ReportedFigure> = figures(&all, figure);
    let mut parts: Vec<String> = Vec::new();
    for run in all.chunk_by(are_alike) {
        let (first, last) = (&run[0], &run[run.len() - 1]);
        let (names, level) = (first.names(), first.at_level());
        let shown = figure.figure.unit.show(first.latency_ns);
        parts.push(match (first.cell.size, last.cell.size) {
            (Some(from), Some(to)) if from != to => {
                let most = last.bandwidth.map(|bytes| format!(" ({})", Unit::BytesPerSecond.show(bytes)));
                format!("{names} from {} to {}{level}{}", binary(from), binary(to), most.unwrap_or_default())
            }
            (Some(size), _) => format!("{names} at {}{level} ({latency} {shown})", binary(size)),
            (None, _) => format!("{names}{level} ({latency} {shown})"),
        });
    }
    if parts.is_empty() {
        return None;
    }
    let answer = Answer::sure(Question::Study, format!("Fastest: {}", parts.join("; ")), figures);
    let close = all.iter().filter(|winner| winner.rivals > 0).count();
    if close == 0 {
        return Some(answer);
    }
    let problem = format!("in {close} of {} cells another is not known to be slower", all.len());
    // That which needs most rounds decides the last.
    let open = all.iter().flat_map(|winner| &winner.open).max_by_key(|change| change.rounds_to_decide);
    let more =
        open.filter(|change| change.rounds_to_decide.is_some()).map(|change| rounds(result, change, setup, false));
    Some(answer.lacks(match more {
        Some(missing) => Missing { problem: format!("{problem}; {}", missing.problem), ..missing },
        None => Missing::new(format!("{problem}; more --rounds tell")),
    }))
}

/// The latency of every winner, the ends first, and how much the last one moved.
fn figures(all: &[Winner<'_>], latency: FigureAt) -> Vec<ReportedFigure> {
    let to_figure = |winner: &Winner<'_>| reported(size_name(winner), latency, winner.latency_ns, None);
    let bandwidth = FigureAt::named("input_bandwidth");
    let most = all.last().and_then(|last| Some(reported(size_name(last), bandwidth?, last.bandwidth?, None)));
    let (first, others) = all.split_first().map_or((None, all), |(first, others)| (Some(first), others));
    let (last, middle) = others.split_last().map_or((None, others), |(last, middle)| (Some(last), middle));
    first.into_iter().chain(last).map(to_figure).chain(most).chain(middle.iter().map(to_figure)).collect()
}

fn size_name(winner: &Winner<'_>) -> String {
    let size = winner.cell.size.map(|bytes| format!(" at {}", binary(bytes))).unwrap_or_default();
    format!("{}{size}{}", winner.name, winner.at_level())
}

fn winner<'a>(result: &'a VariantsResult, cell: &'a Cell) -> Option<Winner<'a>> {
    let estimate = |number| cell.estimate(number, result.primary, result.reading());
    let all: Vec<(usize, f64)> =
        (0..result.variants.len()).filter_map(|number| Some((number, estimate(number)?.0))).collect();
    let &(best, latency_ns) = all.iter().min_by(|left, right| left.1.total_cmp(&right.1))?;
    let highest = estimate(best)?.1.high.unwrap_or(f64::INFINITY);
    let comparisons = result.comparisons(cell);
    // Against the reference, pairs tell more than the two intervals.
    let paired = |number: usize| {
        let other = if best == 0 { number } else { best };
        let found = comparisons.iter().find(|comparison| comparison.variant == other && (best == 0 || number == 0))?;
        found.figures.iter().find(|figure| figure.figure == result.primary).copied()
    };
    let (mut equals, mut open, mut rivals) = (Vec::new(), Vec::new(), 0);
    for number in all.iter().map(|(number, _)| *number).filter(|number| *number != best) {
        let change = paired(number);
        match change.map(|change| change.verdict) {
            Some(Direction::Worse | Direction::Better) => {}
            Some(Direction::Same) => equals.extend(result.variants.get(number).map(|variant| variant.name.as_str())),
            Some(Direction::Undecided) => rivals += 1,
            None if estimate(number).and_then(|(_, bounds)| bounds.low).is_some_and(|low| low > highest) => {}
            None => rivals += 1,
        }
        open.extend(change.filter(|change| change.verdict == Direction::Undecided));
    }
    let name = &result.variants.get(best)?.name;
    let bandwidth = cell.bandwidth(best, result.reading()).input;
    Some(Winner { name, cell, level: None, latency_ns, bandwidth, equals, rivals, open })
}
