//! Distributions of time that only some levels have: one row says how the report, CSV files and the export name each.

use crate::number::whole_us;
use crate::result::summary::{Distribution, LevelSummary};
use crate::terms::{FEW_PERCENTILES, Point};

/// A distribution in `T`, and its names.
pub(super) struct Times<T: 'static> {
    pub(super) line: &'static str,
    pub(super) column: &'static str,
    pub(super) key: &'static str,
    pub(super) distribution: fn(&T) -> &Distribution,
}

/// A column's name, and how a level fills it.
pub(super) type Column = (String, Box<dyn Fn(&LevelSummary) -> String>);

impl<T> Times<T> {
    /// Its columns, in microseconds, empty where `part` says that a level has none.
    pub(super) fn columns(&self, part: fn(&LevelSummary) -> Option<&T>) -> impl Iterator<Item = Column> {
        let (column, distribution) = (self.column, self.distribution);
        [Point::Mean].into_iter().chain(FEW_PERCENTILES.map(Point::Percentile)).map(move |point| -> Column {
            let title = if point == Point::Mean { "Avg".to_owned() } else { point.name() };
            let ns = move |times: &Distribution| match point {
                Point::Mean => times.mean_ns(),
                Point::Percentile(percentile) => times.percentile_ns(percentile) as f64,
            };
            let cell = move |level: &LevelSummary| {
                part(level).map_or_else(String::new, |all| whole_us(ns(distribution(all))).to_string())
            };
            (format!("{title} {column}"), Box::new(cell))
        })
    }
}
