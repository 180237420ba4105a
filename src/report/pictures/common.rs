//! What pictures and tables share: results and their names, and the format of numbers.

use maud::{Markup, html};

use crate::draw::{Anchor, Mark, coloured, of_kind};
use crate::number::{binary, short};
use crate::result::figures::FigureAt;
use crate::result::rounds::{Figure, ServerPart};
use crate::result::summary::{LevelLoad, LevelSummary};
use crate::result::{Distinction, RunResult, Unit};
use crate::stdio::shown;
use crate::terms::{Point, Statistic};
use crate::{is_burst, shortened};

/// Maximum number of levels drawn as lines at once.
pub const MAX_LEVELS: usize = 12;

/// Letters of a result's name in a picture: two of them fit beside each other on a narrow screen.
const MAX_LETTERS: usize = 20;
/// Distance of the legend's lines.
const LEGEND_PITCH: f64 = 24.0;

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

/// The legend below a picture of several results, as long as they are.
pub struct Legend<'a> {
    /// The results.
    pub results: &'a [Shown<'a>],
    /// Whether their points have marks.
    pub marked: bool,
}

impl Legend<'_> {
    /// How much higher it makes a picture.
    pub fn height(&self) -> f64 {
        if self.results.len() > 1 { 10.0 + LEGEND_PITCH * self.results.len().div_ceil(2) as f64 } else { 0.0 }
    }

    /// The legend, below `top`: the letter, the mark and the name of each result.
    pub fn below(&self, top: f64) -> Markup {
        html! { @if self.results.len() > 1 {
            @for (number, run) in self.results.iter().enumerate() {
                @let left = 8.0 + 322.0 * (number % 2) as f64;
                @let baseline = top + 18.0 + LEGEND_PITCH * (number / 2) as f64;
                @if self.marked { (Mark::of_line(number).at(left + 4.0, baseline - 5.0, "")) }
                @let words = format!("{} {}", letter(number), shortened::ending(&run.name, MAX_LETTERS));
                (coloured(if self.marked { left + 16.0 } else { left }, baseline, Anchor::Start, of_kind(number), &words))
            }
        } }
    }
}

/// The name of a figure in pictures and tables: `throughput`, `mean latency`, `p99`, `TTFT p99`, `input bandwidth`.
pub fn figure_name(figure_at: FigureAt) -> String {
    let FigureAt { figure, point } = figure_at;
    match (figure_at.statistic(), point) {
        (Some(Statistic::MeanLatency), _) => "mean latency".to_owned(),
        (None, Some(Point::Mean)) => format!("{} mean", figure.short),
        _ if figure.unit == Unit::BytesPerSecond => figure.title.to_owned(),
        _ => figure_at.short(),
    }
}

/// The same of variants.
pub fn variant_figure(figure: Figure) -> String {
    match figure {
        Figure::Client(statistic) => figure_name(FigureAt::of_statistic(statistic)),
        Figure::Server(ServerPart::ServerQueue) => "queue of the server".to_owned(),
        Figure::Server(ServerPart::ServerCompute) => "compute of the server".to_owned(),
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
pub fn full_name(level_load: LevelLoad, distinction: Distinction) -> String {
    let Distinction { batch_size, repetition, input_bytes } = distinction;
    let batch = batch_size.map(|size| format!(", batch {size}"));
    let repetition = repetition.map(|number| format!(", no. {number}"));
    let bytes = input_bytes.map(|bytes| format!(", {}", binary(bytes)));
    [Some(load(level_load)), batch, repetition, bytes].into_iter().flatten().collect()
}

/// The name of a load in pictures.
pub fn load(load: LevelLoad) -> String {
    match load {
        LevelLoad::Concurrency(concurrency) => format!("c {concurrency}"),
        LevelLoad::Streams(streams) => format!("s {streams}"),
        _ if is_burst(load) => "burst".to_owned(),
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
    fn sizes_are_those_of_the_other_outputs() {
        let of_size = |bytes| Distinction { input_bytes: Some(bytes), ..Distinction::default() };
        let load = LevelLoad::Concurrency(1);
        let names = [65_536, 100].map(|bytes| full_name(load, of_size(bytes)));
        assert_eq!(names, ["c 1, 64 KiB", "c 1, 100 B"]);
        assert_eq!(crate::full_level_name(load, of_size(65_536)), "concurrency 1, inputs of 64 KiB");
    }

    #[test]
    fn what_is_due_at_one_moment_has_no_rate() {
        let none = Distinction::default();
        let names = |load| (full_name(load, none), crate::full_level_name(load, none));
        assert_eq!(names(LevelLoad::Schedule(0.0)), ("burst".to_owned(), "a single burst".to_owned()));
        assert_eq!(names(LevelLoad::Schedule(2.0)), ("2/s".to_owned(), "request rate 2".to_owned()));
    }

    #[test]
    fn figures_have_names_that_say_what_they_are() {
        let named = |text: &str| figure_name(FigureAt::named(text).unwrap());
        let names = ["throughput", "avg", "p99", "ttft", "ttft_p99", "input_bandwidth"].map(named);
        assert_eq!(names, ["throughput", "mean latency", "p99", "TTFT mean", "TTFT p99", "input bandwidth"]);
    }

    #[test]
    fn the_legend_names_every_result() {
        let result = crate::result::setup::sample::result(&crate::result::setup::sample::setup(), &[]);
        let names = ["a", "b", "c", "d", "a-name-of-very-many-letters"];
        let results = names.map(|name| Shown::new(name, &result));
        let legend = Legend { results: &results, marked: true };
        let drawn = legend.below(300.0).into_string();
        assert!(drawn.contains(">A a<") && drawn.contains(">E …f-very-many-letters<"), "{drawn}");
        assert_eq!((drawn.matches("class=\"mark ").count(), legend.height()), (5, 82.0));
        assert!(!drawn.contains("t2"), "narrow screens show it, too");
        let alone = Legend { results: &results[..1], marked: true };
        assert_eq!((alone.below(300.0).into_string(), alone.height()), (String::new(), 0.0));
    }

    #[test]
    fn few_of_many_levels_are_chosen() {
        assert_eq!(chosen((0..5).collect::<Vec<_>>()), [0, 1, 2, 3, 4]);
        let few = chosen((0..50).collect::<Vec<_>>());
        assert_eq!((few.len(), few[0], few[11]), (12, 0, 49));
    }
}
