//! What pictures and tables share: results and their names, and the format of numbers.

use maud::{Markup, html};

use crate::measure::summary::{LevelLoad, LevelSummary};
use crate::report::draw::{Anchor, coloured, of_kind};
use crate::report::number::significant;
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
    pub fn of(name: &str, result: &'a RunResult) -> Self {
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
    let name = |one: &Shown<'_>| match one.name.char_indices().nth(MAX_LETTERS) {
        // The ends of file names differ more often than their beginnings.
        Some(_) => format!(
            "…{}",
            one.name.chars().rev().take(MAX_LETTERS).collect::<Vec<_>>().iter().rev().collect::<String>()
        ),
        None => one.name.clone(),
    };
    html! { @if results.len() > 1 {
        g.t2 { @for (number, one) in results.iter().enumerate().take(4) {
            (coloured(84.0 + 138.0 * number as f64, 16.0, Anchor::Start, of_kind(number), &format!("{} {}", letter(number), name(one))))
        } }
    } }
}

/// A time in a suitable unit: `850 ns`, `12.3 µs`, `4 ms`, `1.25 s`.
pub fn time(ns: f64) -> String {
    let (value, unit) = match ns.abs() {
        0.0 => return "0".to_owned(),
        ns if ns < 999.5 => (ns, "ns"),
        ns if ns < 999_500.0 => (ns / 1e3, "µs"),
        ns if ns < 999_500_000.0 => (ns / 1e6, "ms"),
        ns => (ns / 1e9, "s"),
    };
    format!("{} {unit}", short(if ns < 0.0 { -value } else { value }))
}

/// Three significant digits, with thousands separated: `1 240`, `12.3`, `0.05`.
pub fn short(value: f64) -> String {
    if !value.is_finite() {
        return "–".to_owned();
    }
    let size = value.abs();
    if size >= 999.5 {
        return thousands(value.round());
    }
    let decimals = match size {
        size if size >= 99.95 => 0,
        size if size >= 9.995 => 1,
        size if size >= 0.9995 || size == 0.0 => 2,
        _ => return significant(format!("{value:.2e}").parse().unwrap_or(value)),
    };
    let text = format!("{value:.decimals$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

fn thousands(value: f64) -> String {
    let digits = format!("{:.0}", value.abs());
    let mut text = String::new();
    for (number, digit) in digits.chars().enumerate() {
        if number > 0 && (digits.len() - number) % 3 == 0 {
            // A narrow no-break space.
            text.push('\u{202f}');
        }
        text.push(digit);
    }
    if value < 0.0 { format!("−{text}") } else { text }
}

/// Rates with `k` and `M`, for axes.
pub fn rate(value: f64) -> String {
    match value.abs() {
        size if size >= 1e6 => format!("{}M", short(value / 1e6)),
        size if size >= 1e4 => format!("{}k", short(value / 1e3)),
        _ => short(value),
    }
}

/// The name of a level in pictures, with its batch size if requests carry several inferences.
pub fn level(level: &LevelSummary) -> String {
    match level.client.batch_size {
        0 | 1 => load(level.load),
        size => format!("{} (b {size})", load(level.load)),
    }
}

/// The name of a load in pictures and tables, with what tells the level apart from others of it.
pub fn full_name(of: LevelLoad, distinction: Distinction) -> String {
    let Distinction { batch_size, repetition, input_bytes } = distinction;
    let batch = batch_size.map(|size| format!(", batch {size}"));
    let repetition = repetition.map(|number| format!(", no. {number}"));
    let bytes = input_bytes.map(|bytes| format!(", {bytes} B"));
    [Some(load(of)), batch, repetition, bytes].into_iter().flatten().collect()
}

/// The name of a load in pictures.
pub fn load(load: LevelLoad) -> String {
    match load {
        LevelLoad::Concurrency(concurrency) => format!("c {concurrency}"),
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
    all.into_iter().enumerate().filter(|(number, _)| keeps(*number)).map(|(_, one)| one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        let times = [0.0, 850.0, 12_345.0, 4e6, 999_999.0, 1.25e9, 123_456_789.0].map(time);
        assert_eq!(times, ["0", "850 ns", "12.3 µs", "4 ms", "1 ms", "1.25 s", "123 ms"]);
        assert_eq!(
            [1_240.0, 99.96, 0.05, 1.0, 12.34, f64::NAN].map(short),
            ["1\u{202f}240", "100", "0.05", "1", "12.3", "–"]
        );
        assert_eq!([950.0, 12_000.0, 2.5e6].map(rate), ["950", "12k", "2.5M"]);
    }

    #[test]
    fn few_of_many_levels_are_chosen() {
        assert_eq!(chosen((0..5).collect::<Vec<_>>()), [0, 1, 2, 3, 4]);
        let few = chosen((0..50).collect::<Vec<_>>());
        assert_eq!((few.len(), few[0], few[11]), (12, 0, 49));
    }
}
