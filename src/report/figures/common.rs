//! What pictures and tables share: results and their names, and the format of numbers.

use maud::{Markup, html};

use crate::draw::{Anchor, coloured, of_kind};
use crate::number::short;
use crate::result::summary::{LevelLoad, LevelSummary};
use crate::result::{Distinction, RunResult};
use crate::stdio::shown;

/// Maximum number of levels drawn as lines at once.
pub const MAX_LEVELS: usize = 12;

/// Letters of a result's name in a picture.
const MAX_LETTERS: usize = 18;

/// A result, and its name beside others.
pub struct Shown<'a> {
    /// Its name, with all special characters escaped.
    pub name: String,
    /// The result.
    pub result: &'a RunResult,
}

impl<'a> Shown<'a> {
    /// A result with this name.
    pub fn new(name: &str, result: &'a RunResult) -> Self {
        Self { name: shown(name).into_owned(), result }
    }
}

/// The letter of a result in pictures of several: A, B, C…
pub fn letter(number: usize) -> String {
    u8::try_from(number)
        .ok()
        .filter(|number| *number < 26)
        .map_or_else(|| format!("#{}", number + 1), |number| char::from(b'A' + number).to_string())
}

/// The legend of letters above a picture of several results.
pub fn legend(results: &[Shown<'_>]) -> Markup {
    let name = |run: &Shown<'_>| match run.name.char_indices().nth(MAX_LETTERS) {
        // The ends of file names differ more often than their beginnings.
        Some(_) => format!(
            "…{}",
            run.name.chars().rev().take(MAX_LETTERS).collect::<Vec<_>>().iter().rev().collect::<String>()
        ),
        None => run.name.clone(),
    };
    html! { @if results.len() > 1 {
        g.t2 { @for (number, run) in results.iter().enumerate().take(4) {
            (coloured(84.0 + 138.0 * number as f64, 16.0, Anchor::Start, of_kind(number), &format!("{} {}", letter(number), name(run))))
        } }
    } }
}

/// The name of a level in pictures, with its batch size if requests carry several inferences.
pub fn level(level: &LevelSummary) -> String {
    match level.client.batch_size {
        0 | 1 => load(level.load),
        size => format!("{} (b {size})", load(level.load)),
    }
}

/// The name of a load in pictures and tables, with what tells the level apart from others of it.
pub fn full_name(level_load: LevelLoad, distinction: Distinction) -> String {
    let Distinction { batch_size, repetition, input_bytes } = distinction;
    let batch = batch_size.map(|size| format!(", batch {size}"));
    let repetition = repetition.map(|number| format!(", no. {number}"));
    let bytes = input_bytes.map(|bytes| format!(", {bytes} B"));
    [Some(load(level_load)), batch, repetition, bytes].into_iter().flatten().collect()
}

/// The name of a load in pictures.
pub fn load(load: LevelLoad) -> String {
    match load {
        LevelLoad::Concurrency(concurrency) => format!("c {concurrency}"),
        LevelLoad::Streams(streams) => format!("s {streams}"),
        LevelLoad::RequestRate(rate) | LevelLoad::Schedule(rate) => format!("{}/s", short(rate)),
    }
}

/// The levels that have requests, with their numbers.
pub fn with_requests(result: &RunResult) -> Vec<(usize, &LevelSummary)> {
    result.levels.iter().enumerate().filter(|(_, level)| level.client.requests > 0).collect()
}

/// If there are more than [`MAX_LEVELS`], that many spread evenly, including the first and the last.
pub fn chosen<T>(all: Vec<T>) -> Vec<T> {
    let count = all.len();
    let keeps = |number: usize| {
        count <= MAX_LEVELS
            || (0..MAX_LEVELS).any(|k| (k * (count - 1) + (MAX_LEVELS - 1) / 2) / (MAX_LEVELS - 1) == number)
    };
    all.into_iter().enumerate().filter(|(number, _)| keeps(*number)).map(|(_, item)| item).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_of_many_levels_are_chosen() {
        assert_eq!(chosen((0..5).collect::<Vec<_>>()), [0, 1, 2, 3, 4]);
        let few = chosen((0..50).collect::<Vec<_>>());
        assert_eq!((few.len(), few[0], few[11]), (12, 0, 49));
    }
}
