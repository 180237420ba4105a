//! The answer of a study of memory or transports: which way is fastest, by size.

use crate::Unit;
use crate::answer::{Answer, Missing, Question, ReportedFigure, Sureness, reported};
use crate::compare::Direction;
use crate::figures::FigureAt;
use crate::number::binary;
use crate::rounds::Figure;
use crate::terms::Statistic;
use crate::variants::{Cell, VariantsResult};

/// The fastest of a cell.
struct Winner<'a> {
    name: &'a str,
    cell: &'a Cell,
    latency_ns: f64,
    /// Bytes of inputs a second.
    bandwidth: Option<f64>,
    /// Others that are not known to be slower: their intervals overlap.
    rivals: usize,
}

/// The fastest way at each size; sizes with the same one are taken together.
pub(super) fn winners(result: &VariantsResult) -> Option<Answer> {
    let Figure::Client(primary) = result.primary else { return None };
    let all: Vec<Winner<'_>> = result.cells.iter().filter_map(|cell| winner(result, cell)).collect();
    let latency = match primary {
        Statistic::MeanLatency => "mean latency".to_owned(),
        statistic => statistic.name(),
    };
    let figure = FigureAt::of_statistic(primary);
    let figures: Vec<ReportedFigure> = figures(&all, figure);
    let mut parts: Vec<String> = Vec::new();
    for run in all.chunk_by(|left, right| left.name == right.name) {
        let (first, last) = (&run[0], &run[run.len() - 1]);
        let shown = figure.figure.unit.show(first.latency_ns);
        parts.push(match (first.cell.size, last.cell.size) {
            (Some(from), Some(to)) if from != to => {
                let most = last.bandwidth.map(|bytes| format!(" ({})", Unit::BytesPerSecond.show(bytes)));
                format!("{} from {} to {}{}", first.name, binary(from), binary(to), most.unwrap_or_default())
            }
            (Some(size), _) => format!("{} at {} ({latency} {shown})", first.name, binary(size)),
            (None, _) => format!("{} ({latency} {shown})", first.name),
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
    let text = format!("in {close} of {} cells another is not known to be slower; more --rounds tell", all.len());
    Some(Answer { sure: Sureness::Undecided, missing: Some(Missing::new(text)), ..answer })
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
    winner.cell.size.map_or_else(|| winner.name.to_owned(), |bytes| format!("{} at {}", winner.name, binary(bytes)))
}

fn winner<'a>(result: &'a VariantsResult, cell: &'a Cell) -> Option<Winner<'a>> {
    let estimate = |number| cell.estimate(number, result.primary, result.reading());
    let all: Vec<(usize, f64)> =
        (0..result.variants.len()).filter_map(|number| Some((number, estimate(number)?.0))).collect();
    let &(best, latency_ns) = all.iter().min_by(|left, right| left.1.total_cmp(&right.1))?;
    let highest = estimate(best)?.1.high.unwrap_or(f64::INFINITY);
    let comparisons = result.comparisons(cell);
    let is_slower = |number: usize| {
        // Against the reference, pairs tell more than the two intervals.
        let other = if best == 0 { number } else { best };
        let paired = comparisons.iter().find(|comparison| comparison.variant == other && (best == 0 || number == 0));
        let verdict =
            paired.and_then(|comparison| comparison.figures.iter().find(|figure| figure.figure == result.primary));
        match verdict.map(|figure| figure.verdict) {
            Some(verdict) => matches!(verdict, Direction::Worse | Direction::Better),
            None => estimate(number).and_then(|(_, bounds)| bounds.low).is_some_and(|low| low > highest),
        }
    };
    let rivals = all.iter().filter(|(number, _)| *number != best && !is_slower(*number)).count();
    let name = &result.variants.get(best)?.name;
    let bandwidth = cell.bandwidth(best, result.reading()).input;
    Some(Winner { name, cell, latency_ns, bandwidth, rivals })
}
