//! Reports: each turns the plan and the summaries into text; and the files that hold them.

#![deny(unsafe_code, clippy::print_stderr, clippy::print_stdout)]
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]
#![warn(missing_docs)]

mod breakdown;
pub mod chrome;
pub mod compare;
pub mod console;
pub mod csv;
mod draw;
pub mod export;
pub mod exposition;
mod file;
mod file_name;
mod generation;
pub mod headline;
pub mod html;
mod inert;
pub mod lifecycle;
mod lines;
#[cfg(feature = "live")]
pub mod live;
pub mod loads;
pub mod markdown;
pub mod otlp;
mod partial;
pub mod periodic;
pub mod pictures;
pub mod progress;
pub mod raster;
pub mod remarks;
pub mod requirements;
mod restarts;
mod sequences;
mod server_load;
mod server_metrics;
mod sessions;
mod shortened;
pub mod summary;
#[cfg(any(test, feature = "testing"))]
pub mod tests;
mod times;
pub mod trace_file;
pub mod traces;
pub mod tune;
pub mod variants;

use ::{backend, data, model, record, result, stats, terms};
use base::{clock, error, inbox, machine, stdio};

use std::collections::BTreeMap;
use std::iter;

use crate::result::statistic;
use crate::result::summary::{LevelLoad, LevelSummary};
use crate::result::{Distinction, Setup, number};
use crate::terms::{MeasurementPlan, PERCENTILES};

pub use crate::result::number::significant;
#[cfg(any(test, feature = "testing"))]
pub use file::scratch;
pub use file::{Interrupts, SafeFile, check_new, check_writable, is_same_file, is_special};
pub use partial::{new_folder, put_in_place, remove_partial_files};

/// The percentiles of a report: the usual ones and the one that the run is judged by in ascending order, as in
/// perf_analyzer, then those that were asked for in addition.
pub fn percentiles(plan: &MeasurementPlan) -> Vec<f64> {
    let mut all = statistic::percentiles(plan.percentile);
    let further: Vec<f64> = plan.percentiles.iter().copied().filter(|asked| !all.contains(asked)).collect();
    all.extend(further);
    all
}

/// The names, of which those that were there before bear their number: one server may be named twice, for more connections.
fn distinct<'a>(names: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut times = BTreeMap::new();
    names
        .map(|name| {
            let time = times.entry(name).and_modify(|time| *time += 1).or_insert(1);
            if *time > 1 { format!("{name} #{time}") } else { name.to_owned() }
        })
        .collect()
}

/// The heads of a stage's figures, each this wide.
fn stage_heads(width: usize) -> String {
    let percentiles = PERCENTILES.map(|percentile| format!("p{percentile}"));
    let heads = iter::once("mean".to_owned()).chain(percentiles).chain(["share".to_owned()]);
    heads.map(|head| format!("{head:>width$}")).collect()
}

/// A header and its rows.
type Table = Vec<Vec<String>>;

/// What the levels of a run vary, as named in the final lines and the first CSV column.
fn load_name(load: LevelLoad) -> &'static str {
    match load {
        LevelLoad::Concurrency(_) => "Concurrency",
        LevelLoad::Streams(_) => "Streams",
        LevelLoad::RequestRate(_) | LevelLoad::Schedule(_) => "Request Rate",
    }
}

/// Whether levels may differ in their batch size, as far as the run got.
fn has_several_batch_sizes<'a>(setup: &Setup, levels: impl IntoIterator<Item = &'a LevelSummary>) -> bool {
    let mut sizes = levels.into_iter().map(|level| level.client.batch_size);
    let first = sizes.next();
    setup.detail.batch_sizes || sizes.any(|size| Some(size) != first)
}

/// A level's name in messages.
pub fn level_name(load: LevelLoad) -> String {
    if is_burst(load) {
        return "a single burst".to_owned();
    }
    format!("{} {}", load_name(load).to_lowercase(), load_value(load))
}

/// Whether all requests of a schedule are due at one moment, so that they have no rate.
fn is_burst(load: LevelLoad) -> bool {
    matches!(load, LevelLoad::Schedule(rate) if rate <= 0.0)
}

/// The same, with what tells it apart from others of this load: `concurrency 4, batch size 2`.
pub fn full_level_name(load: LevelLoad, distinction: Distinction) -> String {
    let Distinction { batch_size, repetition, input_bytes } = distinction;
    let batch = batch_size.map(|size| format!(", batch size {size}"));
    let repetition = repetition.map(|number| format!(", repetition {number}"));
    let bytes = input_bytes.map(|bytes| format!(", inputs of {}", number::binary(bytes)));
    [Some(level_name(load)), batch, repetition, bytes].into_iter().flatten().collect()
}

/// An amount of memory in a suitable unit: `49 MiB`, `23.5 GiB`.
fn memory(bytes: u64) -> String {
    const UNITS: [(&str, u32); 4] = [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)];
    match UNITS.into_iter().find(|(_, power)| bytes >> power > 0) {
        Some((unit, power)) => format!("{} {unit}", number::plain(bytes as f64 / 2_f64.powi(power as i32))),
        None => format!("{bytes} B"),
    }
}

/// The level's value.
fn load_value(load: LevelLoad) -> String {
    match load {
        LevelLoad::Concurrency(number) | LevelLoad::Streams(number) => number.to_string(),
        LevelLoad::RequestRate(rate) | LevelLoad::Schedule(rate) => significant(rate),
    }
}
