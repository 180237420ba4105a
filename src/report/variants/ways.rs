//! A study's rows, one for each way, as every output shows them.

use crate::result::rounds::Figure;
use crate::result::summary::LevelLoad;
use crate::result::variants::{Bandwidth, Cell, FigureChange, VariantsResult};
use crate::terms::Statistic;

/// A way that tensors took, in a cell.
pub struct Way<'a> {
    /// Its name.
    pub name: &'a str,
    /// Why it was not measured, if so.
    pub problem: Option<&'a str>,
    /// Inferences a second.
    pub rate: Option<f64>,
    /// Bytes a second.
    pub bandwidth: Bandwidth,
    /// The main latency, in nanoseconds.
    pub latency_ns: Option<f64>,
    /// Its ratio to the first way's.
    pub change: Option<FigureChange>,
}

/// All ways of a cell, the reference first.
pub fn ways<'a>(result: &'a VariantsResult, cell: &Cell) -> Vec<Way<'a>> {
    let (reading, comparisons) = (result.reading(), result.comparisons(cell));
    let all = result.variants.iter().enumerate();
    all.map(|(number, variant)| {
        let rate = cell.value(number, Figure::Client(Statistic::Throughput), reading);
        let compared = comparisons.iter().find(|comparison| comparison.variant == number);
        Way {
            name: &variant.name,
            problem: variant.problem.as_deref().filter(|_| rate.is_none()),
            rate,
            bandwidth: cell.bandwidth(number, reading),
            latency_ns: cell.value(number, result.primary, reading),
            change: compared
                .and_then(|comparison| comparison.figures.iter().find(|figure| figure.figure == result.primary))
                .copied(),
        }
    })
    .collect()
}

/// The main latency, in a word: `p99`, `average`.
pub fn latency_word(result: &VariantsResult) -> String {
    match result.primary {
        Figure::Client(Statistic::Percentile(percentile)) => format!("p{percentile}"),
        _ => "average".to_owned(),
    }
}

/// A way's name where there is little space.
pub fn brief(name: &str) -> String {
    name.replace("shared memory", "shm")
}

/// The loads of the reference, each once, in the order in which they were measured.
pub fn levels_of(result: &VariantsResult) -> Vec<LevelLoad> {
    let mut loads: Vec<LevelLoad> = Vec::new();
    for load in result.cells.iter().filter_map(|cell| cell.loads.first()) {
        if !loads.contains(load) {
            loads.push(*load);
        }
    }
    loads
}

/// That windows were longer than asked for, and why; none if they were not.
pub fn longer(result: &VariantsResult, cell: &Cell) -> Option<String> {
    let goes_on = result.rounds.until_decided.is_some();
    let why = if goes_on {
        "shorter ones have too few requests for what is to be decided"
    } else {
        "shorter ones had too few requests"
    };
    (cell.window_times > 1).then(|| format!("windows grew to {} times the length asked for: {why}", cell.window_times))
}
