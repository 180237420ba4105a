//! The figures at the top of a page: those of its answer, or of each of several results, and whether they can be believed.

use maud::{Markup, html};

use crate::full_level_name;
use crate::html::Page;
use crate::html::parts::percent;
use crate::pictures::{MARGIN, Shown, change, figure_name, letter, rate};
use crate::result::answer::{Answer, ReportedFigure};
use crate::result::compare::{LevelChange, changes};
use crate::result::figures::FigureAt;
use crate::result::outcome::Outcome;
use crate::result::summary::LevelSummary;
use crate::result::{RunResult, Unit};
use crate::shortened;
use crate::stdio::shown;
use crate::terms::Statistic;

/// Most tiles.
const MOST: usize = 6;
/// Most letters of a result's name in a tile.
const LETTERS: usize = 24;

/// What a tile says.
struct Tile {
    name: String,
    value: String,
    note: String,
}

impl Tile {
    fn draw(&self) -> Markup {
        // The sign of a factor is no number with a unit.
        let split = self.value.split_once(' ').filter(|(number, _)| number.contains(|c: char| c.is_ascii_digit()));
        let (number, unit) = split.unwrap_or((&self.value, ""));
        html! {
            div { dt { (self.name) } dd { (number) @if !unit.is_empty() { small { " " (unit) } } } dd.note { (self.note) } }
        }
    }
}

/// The tiles of a page with these answers: how far the figures can be believed is the last.
pub fn tiles(page: &Page<'_>, answers: &[Answer]) -> Markup {
    let figures = match (page.results, answers.first()) {
        ([_], Some(first)) => of_answer(first),
        ([_], None) | ([], _) => Vec::new(),
        (results, _) => of_results(results, page.main),
    };
    let trust = trust(page.results);
    let most = if page.results.len() > 1 { MOST } else { MOST - trust.len() };
    let figures: Vec<&Tile> = figures.iter().take(most).collect();
    let remaining = MOST - figures.len();
    html! { @for tile in figures.into_iter().chain(trust.iter().take(remaining)) { (tile.draw()) } }
}

/// The figures of an answer, each once.
fn of_answer(answer: &Answer) -> Vec<Tile> {
    let is_new = |(number, figure): &(usize, &ReportedFigure)| !answer.figures[..*number].contains(figure);
    answer.figures.iter().enumerate().filter(is_new).map(|(_, figure)| of_figure(figure)).collect()
}

fn of_figure(figure: &ReportedFigure) -> Tile {
    let name = FigureAt::named(&figure.key).map_or_else(|| figure.key.clone(), figure_name);
    let (unit, subject) = (figure.unit, shown(&figure.subject));
    let is_ratio = unit == Unit::Ratio;
    let interval = figure.interval.map(|interval| match is_ratio {
        true => format!(": {} to {}", change(interval.low), change(interval.high)),
        false => format!(": {}", unit.show_between(interval.low, interval.high)),
    });
    Tile {
        name: if is_ratio { format!("{name}, change") } else { name },
        value: if is_ratio { change(figure.value) } else { unit.show(figure.value) },
        note: format!("{subject}{}", interval.unwrap_or_default()),
    }
}

/// A tile for each of several results: the latency that the page's result is judged by, at the highest load where all are
/// valid; where there is none, what each says of itself.
fn of_results(results: &[Shown<'_>], main: usize) -> Vec<Tile> {
    let Some((first, others)) = results.split_first() else { return Vec::new() };
    let key = results.get(main).unwrap_or(first).result.setup.measurement.key_latency();
    let all: Vec<Vec<LevelChange>> = others.iter().map(|run| changes(first.result, run.result, MARGIN)).collect();
    let value = |number: usize, like: &LevelChange, statistic: Statistic| {
        let is_like = |other: &&LevelChange| (other.load, other.distinction) == (like.load, like.distinction);
        let found = all[number.saturating_sub(1)].iter().find(is_like)?;
        let figure = found.figures.iter().find(|figure| figure.figure_at.statistic() == Some(statistic))?;
        Some(figure.values[usize::from(number > 0)])
    };
    let count = results.len();
    let shared =
        all.first().into_iter().flatten().rfind(|level| (0..count).all(|number| value(number, level, key).is_some()));
    let tile = |(number, run): (usize, &Shown<'_>)| {
        let owner = format!("{} {}", letter(number), shortened::beginning(&run.name, LETTERS));
        let Some(level) = shared else { return own(run.result, owner) };
        let name = format!("{owner}: {}", figure_name(FigureAt::of_statistic(key)));
        let rate = value(number, level, Statistic::Throughput).map(|rate| Unit::PerSecond.show(rate) + " at ");
        let note = rate.unwrap_or_default() + &full_level_name(level.load, level.distinction);
        Some(Tile { name, value: Unit::Nanoseconds.show(value(number, level, key)?), note })
    };
    results.iter().enumerate().filter_map(tile).collect()
}

/// The latency in a result's own answer; where it has none, its first figure.
fn own(result: &RunResult, owner: String) -> Option<Tile> {
    let answer = result.answer()?;
    let latency = answer.figures.iter().find(|figure| figure.unit == Unit::Nanoseconds);
    let tile = of_figure(latency.or(answer.figures.first())?);
    Some(Tile { name: format!("{owner}: {}", tile.name), ..tile })
}

/// Whether what is below can be believed, and how much failed, of all results together.
fn trust(results: &[Shown<'_>]) -> Vec<Tile> {
    let levels: Vec<&LevelSummary> = results.iter().flat_map(|run| &run.result.levels).collect();
    if levels.is_empty() {
        return Vec::new();
    }
    let with = |outcome: Outcome| levels.iter().filter(|level| Outcome::new(level) == outcome).count();
    let (valid, over) = (with(Outcome::Valid), with(Outcome::OverThreshold));
    let disturbed = levels.iter().filter(|level| level.disturbances.disturbed > 0).count();
    let failed: u64 = levels.iter().map(|level| level.client.failed).sum();
    let all: u64 = levels.iter().map(|level| level.client.requests + level.client.failed).sum();
    let note = match () {
        () if valid + over < levels.len() => "see below what to change".to_owned(),
        // That is what was asked, and no reason to doubt a figure.
        () if over > 0 => format!("{over} over the limit"),
        () if disturbed > 0 => format!("{disturbed} disturbed by others"),
        () => "all can be believed".to_owned(),
    };
    let suffix = if results.len() > 1 { ", all results" } else { "" };
    let of_requests = match all {
        1 => format!("{failed} of 1 request"),
        _ => format!("{failed} of {} requests", rate(all as f64)),
    };
    vec![
        Tile { name: format!("failed{suffix}"), value: percent(failed, all), note: of_requests },
        Tile { name: format!("valid levels{suffix}"), value: format!("{valid} of {}", levels.len()), note },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::html::headline;
    use crate::result::setup::sample as plans;
    use crate::result::summary::{Ending, LevelLoad, sample};

    fn result(loads: &[u32], ms: u64) -> RunResult {
        let level = |load: &u32| sample::level(LevelLoad::Concurrency(*load), 1_000, u64::from(*load) * ms * 1_000_000);
        plans::result(&plans::setup(), &loads.iter().map(level).collect::<Vec<_>>())
    }

    fn drawn(results: &[Shown<'_>]) -> String {
        let page = Page { results, main: 0 };
        tiles(&page, &headline::answers(&page)).into_string()
    }

    #[test]
    fn every_result_has_its_tile_at_a_load_that_all_have() {
        let [old, new, next] = [result(&[1, 2, 4], 10), result(&[1, 2], 12), result(&[2, 4], 15)];
        let tiles = drawn(&[Shown::new("old", &old), Shown::new("new", &new), Shown::new("next", &next)]);
        for (name, value) in [("A old", "20"), ("B new", "24"), ("C next", "30")] {
            let figure = format!("<dt>{name}: mean latency</dt><dd>{value}<small> ms</small></dd>");
            assert!(tiles.contains(&figure), "{figure}: {tiles}");
        }
        assert_eq!(tiles.matches("infer/s at concurrency 2<").count(), 3, "{tiles}");
        assert!(tiles.contains("valid levels, all results") && tiles.contains("<small> of 7</small>"), "{tiles}");
        let many: Vec<Shown<'_>> = (0..9).map(|number| Shown::new(&number.to_string(), &old)).collect();
        let tiles = drawn(&many);
        assert_eq!(tiles.matches("<dt>").count(), MOST, "{tiles}");
        assert!(tiles.contains("<dt>F 5: mean latency"), "{tiles}");
    }

    #[test]
    fn a_level_over_the_limit_makes_no_figure_doubtful() {
        let mut found = result(&[1, 2, 4], 10);
        found.levels[2].ending = Ending::OverThreshold;
        let tiles = drawn(&[Shown::new("r", &found)]);
        assert!(tiles.contains("2<small> of 3</small>") && tiles.contains("1 over the limit"), "{tiles}");
        found.levels[1].ending = Ending::Failed;
        let tiles = drawn(&[Shown::new("r", &found)]);
        assert!(tiles.contains("1<small> of 3</small>") && tiles.contains("see below what to change"), "{tiles}");
    }

    #[test]
    fn results_without_a_common_load_say_what_each_is_worth() {
        let (old, new) = (result(&[1], 10), result(&[2], 12));
        let tiles = drawn(&[Shown::new("old", &old), Shown::new("new", &new)]);
        assert!(tiles.contains("<dt>A old: mean latency</dt><dd>10<") && tiles.contains("concurrency 1"), "{tiles}");
        assert!(tiles.contains("<dt>B new: mean latency</dt><dd>24<") && tiles.contains("concurrency 2"), "{tiles}");
    }

    #[test]
    fn a_figure_of_several_comparisons_is_there_once() {
        let figure = |subject: &str, unit, value| ReportedFigure {
            key: "avg".to_owned(),
            subject: subject.to_owned(),
            unit,
            value,
            interval: None,
        };
        let base = || figure("base", Unit::Nanoseconds, 5e6);
        let mut answer = result(&[1], 5).answer().unwrap();
        answer.figures = vec![base(), figure("six against base", Unit::Ratio, 1.198), base()];
        let tiles: String = of_answer(&answer).iter().map(|tile| tile.draw().into_string()).collect();
        assert_eq!(tiles.matches("<dt>mean latency</dt><dd>5<small> ms</small>").count(), 1, "{tiles}");
        assert!(tiles.contains("<dt>mean latency, change</dt><dd>+19.8<small> %</small>"), "{tiles}");
        assert!(!tiles.contains("avg") && !tiles.contains("1.198"), "{tiles}");
    }
}
