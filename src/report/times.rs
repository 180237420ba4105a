//! Distributions of time that only some levels have: one row says how the report, CSV files and the export name each.

use crate::number::whole_us;
use crate::result::summary::{Distribution, LevelSummary};

/// A distribution in `T`, and its names.
pub(super) struct Times<T: 'static> {
    pub(super) line: &'static str,
    pub(super) column: &'static str,
    pub(super) key: &'static str,
    pub(super) distribution: fn(&T) -> &Distribution,
}

/// A column's name, and how a level fills it.
pub(super) type Column = (String, Box<dyn Fn(&LevelSummary) -> String>);

/// What a column says of a distribution.
struct Value {
    title: &'static str,
    ns: fn(&Distribution) -> f64,
}

const VALUES: [Value; 3] = [
    Value { title: "Avg", ns: Distribution::mean_ns },
    Value { title: "p50", ns: |times| times.percentile_ns(50.0) as f64 },
    Value { title: "p99", ns: |times| times.percentile_ns(99.0) as f64 },
];

impl<T> Times<T> {
    /// Its columns, in microseconds, empty where `part` says that a level has none.
    pub(super) fn columns(&self, part: fn(&LevelSummary) -> Option<&T>) -> [Column; 3] {
        let (column, distribution) = (self.column, self.distribution);
        VALUES.map(|Value { title, ns }| -> Column {
            let cell = move |level: &LevelSummary| {
                part(level).map_or_else(String::new, |all| whole_us(ns(distribution(all))).to_string())
            };
            (format!("{title} {column}"), Box::new(cell))
        })
    }
}
