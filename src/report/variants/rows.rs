//! Variants in a CSV file.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::number::significant;
use crate::result::rounds::{Figure, Round, ServerPart};
use crate::result::variants::{Bandwidth, Cell, Comparison, FigureChange, VariantsResult};
use crate::terms::Statistic;
use crate::{Table, is_special, load_name, load_value};

/// A column of a figure: the end of its title, and the content of its cells.
type FigureColumn = (&'static str, fn(&FigureChange) -> Option<String>);

/// Columns of a change, after the figure's own value.
const CHANGE: [FigureColumn; 7] = [
    ("ratio", |figure| Some(significant(figure.ratio))),
    ("ratio low", |figure| Some(significant(figure.interval?.low))),
    ("ratio high", |figure| Some(significant(figure.interval?.high))),
    ("p", |figure| Some(significant(figure.p))),
    ("detectable", |figure| Some(significant(figure.detectable?))),
    ("verdict", |figure| Some(figure.verdict.to_string())),
    ("rounds to decide", |figure| Some(figure.rounds_to_decide?.to_string())),
];

/// The CSV files: variants, and their rounds beside them, unless the first is a pipe or a device.
pub fn files(path: &Path, result: &VariantsResult) -> Vec<(PathBuf, Table)> {
    let mut all = vec![(path.to_owned(), rows(result))];
    if let Some(name) = path.file_name().filter(|_| !is_special(path)) {
        let mut beside = OsString::from("rounds.");
        beside.push(name);
        all.push((path.with_file_name(beside), rounds(result)));
    }
    all
}

/// A row for each variant in each round, in the order in which they were measured.
pub(super) fn rounds(result: &VariantsResult) -> Table {
    let all = || 0..result.variants.len();
    let units = result.cells.iter().flat_map(|cell| all().flat_map(|variant| cell.units(variant)));
    let figures = Figure::in_table(units);
    let fixed =
        ["Input Bytes", "Start", "Round", "Place", "Variant", "Counts", "Disturbed", "Requests", "Failed Requests"];
    let mut header = vec![load_column(result).to_owned()];
    header.extend(fixed.map(str::to_owned));
    header.extend(figures.iter().map(|figure| column(*figure)));
    header.push("Problem".to_owned());
    let mut table = vec![header];
    for cell in &result.cells {
        for round in &cell.rounds {
            let of_round =
                |(index, variant): (usize, &usize)| Turn { cell, round, position: index + 1, variant: *variant };
            let turns = round.order.iter().enumerate().map(of_round);
            table.extend(turns.filter_map(|turn| turn.row(result, &figures)));
        }
    }
    table
}

/// A variant in a round.
struct Turn<'a> {
    cell: &'a Cell,
    round: &'a Round,
    /// Where in the round it was measured, from 1.
    position: usize,
    variant: usize,
}

impl Turn<'_> {
    fn row(&self, result: &VariantsResult, figures: &[Figure]) -> Option<Vec<String>> {
        let unit = self.round.units.get(self.variant)?.as_ref()?;
        let yes = |is: bool| if is { "yes" } else { "no" }.to_owned();
        let bytes = self.cell.input_bytes.get(self.variant).copied().flatten();
        let mut row = vec![
            self.cell.loads.get(self.variant).map(|load| load_value(*load)).unwrap_or_default(),
            whole(bytes),
            self.round.start.to_string(),
            self.round.number.to_string(),
            self.position.to_string(),
            result.variants[self.variant].name.clone(),
            yes(self.round.counted(self.variant).is_some()),
            yes(unit.disturbed),
            unit.requests.to_string(),
            unit.failed.to_string(),
        ];
        let value =
            |figure: &Figure| unit.get(*figure).map(|value| significant(in_unit(*figure, value))).unwrap_or_default();
        row.extend(figures.iter().map(value));
        row.push(unit.problem.clone().unwrap_or_default());
        Some(row)
    }
}

/// Bytes with all their digits: readers group by them.
fn whole(bytes: Option<f64>) -> String {
    bytes.map(|bytes| bytes.to_string()).unwrap_or_default()
}

fn load_column(result: &VariantsResult) -> &'static str {
    result.cells.first().and_then(|cell| cell.loads.first()).map_or("Concurrency", |load| load_name(*load))
}

/// The rows of a CSV file: one for each variant at each level, and for each size of a matrix. Times are in
/// microseconds; missing values are empty.
pub(super) fn rows(result: &VariantsResult) -> Table {
    // Also what the reference alone lacks, because it failed or its server counts nothing.
    let all = || 0..result.variants.len();
    let figures = Figure::in_table(result.cells.iter().flat_map(|cell| all().flat_map(|variant| cell.units(variant))));
    let load = load_column(result);
    let fixed = [load, "Input Bytes", "Variant", "Flags", "Rounds", "Failed Requests"];
    let bytes = ["Output Bytes", "Input MB/Second", "Output MB/Second"];
    let mut header: Vec<String> = fixed.into_iter().chain(bytes).map(str::to_owned).collect();
    for &figure in &figures {
        header.push(column(figure));
        header.extend(CHANGE.iter().map(|(end, _)| format!("{figure} {end}")));
    }
    header.push("Problem".to_owned());
    let mut table = vec![header];
    for cell in &result.cells {
        let comparisons = result.comparisons(cell);
        for number in 0..result.variants.len() {
            let comparison = comparisons.iter().find(|comparison| comparison.variant == number);
            table.push(row(result, cell, number, comparison, &figures));
        }
    }
    table
}

fn row(
    result: &VariantsResult,
    cell: &Cell,
    number: usize,
    comparison: Option<&Comparison>,
    figures: &[Figure],
) -> Vec<String> {
    let variant = &result.variants[number];
    let value_of = |figure| cell.value(number, figure, result.reading());
    let bytes = cell.input_bytes[number];
    let Bandwidth { input, output } = cell.bandwidth(number, result.reading());
    let show = |value: Option<f64>| value.map(significant).unwrap_or_default();
    let rounds = comparison.map_or_else(|| cell.units(number).count(), |comparison| comparison.rounds);
    let mut row = vec![
        cell.loads.get(number).map(|load| load_value(*load)).unwrap_or_default(),
        whole(bytes),
        variant.name.clone(),
        variant.flags.clone(),
        rounds.to_string(),
        cell.failures(number).hits.to_string(),
        whole(cell.output_bytes.get(number).copied().flatten()),
        show(input.map(|bytes| bytes / 1e6)),
        show(output.map(|bytes| bytes / 1e6)),
    ];
    for &figure in figures {
        let change = comparison.and_then(|all| all.figures.iter().find(|change| change.figure == figure));
        row.push(show(value_of(figure).map(|value| in_unit(figure, value))));
        row.extend(CHANGE.iter().map(|(_, fill)| change.and_then(fill).unwrap_or_default()));
    }
    let units = cell.rounds.iter().filter_map(|round| round.units[number].as_ref()?.problem.as_deref());
    row.push(variant.problem.as_deref().or(units.into_iter().next()).unwrap_or_default().to_owned());
    row
}

/// The title of a figure's own column, which is upstream's if upstream has the figure.
fn column(figure: Figure) -> String {
    match figure {
        Figure::Client(Statistic::Throughput) => "Inferences/Second".to_owned(),
        Figure::Client(Statistic::MeanLatency) => "Avg latency".to_owned(),
        Figure::Client(statistic) => format!("{} latency", statistic.name()),
        Figure::Server(ServerPart::ServerQueue) => "Server Queue".to_owned(),
        Figure::Server(ServerPart::ServerCompute) => "Server Compute".to_owned(),
    }
}

/// Rates a second, times in microseconds.
pub fn in_unit(figure: Figure, value: f64) -> f64 {
    if figure.more_is_better() { value } else { value / 1e3 }
}
