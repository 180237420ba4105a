//! Reports: each a function from the plan and the summaries to text, and the files that hold them.

pub mod compare;
pub mod console;
pub mod csv;
pub mod export;
mod file;
mod file_name;
mod generation;
pub mod matrix;
mod number;
mod partial;
pub mod periodic;
pub mod progress;
pub mod remarks;
pub mod requirements;
mod restarts;
#[cfg(test)]
pub(crate) mod sample;
pub mod summary;
pub mod traces;
#[cfg(test)]
mod upstream;

use crate::measure::precision::PERCENTILES;
use crate::measure::summary::LevelLoad;

pub use file::{Interrupts, SafeFile, check_new, check_writable, is_same_file};
pub use number::significant;
pub use partial::remove_partial_files;

/// The percentiles of a report in ascending order: the usual ones and the one asked for.
fn percentiles(asked: Option<f64>) -> Vec<f64> {
    let mut all = PERCENTILES.to_vec();
    all.extend(asked);
    all.sort_by(f64::total_cmp);
    all.dedup();
    all
}

/// A header and its rows.
type Table = Vec<Vec<String>>;

/// What the levels of a run vary, as the final lines and the first CSV column name it.
fn load_name(load: LevelLoad) -> &'static str {
    match load {
        LevelLoad::Concurrency(_) => "Concurrency",
        LevelLoad::RequestRate(_) | LevelLoad::Schedule(_) => "Request Rate",
    }
}

/// How messages call a level.
pub fn level_name(load: LevelLoad) -> String {
    format!("{} {}", load_name(load).to_lowercase(), load_value(load))
}

/// The level's value.
fn load_value(load: LevelLoad) -> String {
    match load {
        LevelLoad::Concurrency(concurrency) => concurrency.to_string(),
        LevelLoad::RequestRate(rate) | LevelLoad::Schedule(rate) => significant(rate),
    }
}
