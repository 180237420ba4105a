//! Variants in the result file.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Serialize, Serializer};

use crate::figures::FigureAt;
use crate::rounds::Figure;
use crate::terms::Rounds;
use crate::variants::{Cell, Comparison, VariantIdentity, VariantsResult};

/// A cell in a file: what was measured, and what follows from it.
#[derive(Serialize, JsonSchema)]
struct CellFile<'a> {
    #[serde(flatten)]
    cell: &'a Cell,
    /// The figures of each variant over the rounds that count, by their keys; times in nanoseconds.
    figures: Vec<BTreeMap<String, f64>>,
    /// Every variant but the first, compared with the first.
    comparisons: Vec<Comparison>,
}

/// The whole in a file.
#[derive(Serialize, JsonSchema)]
pub struct VariantsFile<'a> {
    /// What is varied, if the program chose it: the word of `--matrix`.
    matrix: &'a Option<String>,
    /// The variants; the first is the reference.
    variants: &'a [VariantIdentity],
    /// How they took turns, and which changes count as no change.
    rounds: Rounds,
    /// How often the servers were started.
    starts: u32,
    /// Seed of permutation tests.
    seed: u64,
    /// The main figure: the mean latency, or the requested percentile.
    primary: Figure,
    /// Levels and, for a matrix, input sizes.
    cells: Vec<CellFile<'a>>,
}

impl<'a> VariantsFile<'a> {
    /// The file's representation.
    pub fn new(result: &'a VariantsResult) -> Self {
        let variants = || 0..result.variants.len();
        let cell = |cell: &'a Cell| CellFile {
            cell,
            figures: variants().map(|variant| result.figures(cell, variant)).collect(),
            comparisons: result.comparisons(cell),
        };
        Self {
            matrix: &result.matrix,
            variants: &result.variants,
            rounds: result.rounds,
            starts: result.starts,
            seed: result.seed,
            primary: result.primary,
            cells: result.cells.iter().map(cell).collect(),
        }
    }
}

impl VariantsResult {
    /// The figures of a variant in a cell, by their keys.
    pub fn figures(&self, cell: &Cell, variant: usize) -> BTreeMap<String, f64> {
        let reading = self.reading();
        let figure_value = |figure: Figure| Some((figure.to_string(), cell.value(variant, figure, reading)?));
        let bandwidth = cell.bandwidth(variant, reading);
        let bytes = [("input_bandwidth", bandwidth.input), ("output_bandwidth", bandwidth.output)];
        let bytes = bytes.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?)));
        // Those that only requirements are about.
        let named: BTreeSet<&str> =
            cell.units(variant).flat_map(|unit| &unit.named).map(|named| named.key.as_str()).collect();
        let named = named.into_iter().filter_map(|key| Some((key.to_owned(), cell.named(variant, key, reading)?)));
        let measured = Figure::of_all(cell.units(variant)).into_iter().filter_map(figure_value);
        named.chain(measured).chain(bytes).collect()
    }
}

impl VariantsResult {
    /// The figures of the catalogue that a variant has in a cell.
    pub fn reported(&self) -> Vec<FigureAt> {
        let mut keys = BTreeSet::new();
        for cell in &self.cells {
            keys.extend((0..self.variants.len()).flat_map(|variant| self.figures(cell, variant).into_keys()));
        }
        keys.iter().filter_map(|key| FigureAt::named(key)).collect()
    }
}

impl Serialize for VariantsResult {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        VariantsFile::new(self).serialize(serializer)
    }
}
