//! Changes from the first result, or variant, to the others: ratios with their intervals beside a band that counts as
//! no change.

use maud::{Markup, html};

use crate::draw::{Anchor, Arms, Axis, Frame, Mark, Scale, Tick, axes, coloured, dim, n, of_kind, picture, text};
use crate::number::short;
use crate::pictures::common::{Shown, figure_name, full_name, letter};
use crate::result::Unit;
use crate::result::compare::{Change, Direction, changes};
use crate::result::figures::FigureAt;
use crate::result::rounds::Figure;
use crate::result::variants::{FigureChange, VariantsResult};
use crate::shortened;
use crate::stats::Interval;
use crate::stdio::shown;
use crate::terms::{FEW_PERCENTILES, Point};

/// Changes up to this share count as no change.
pub const MARGIN: f64 = 0.05;
/// Arms end at this ratio, and are marked there.
const FURTHEST: f64 = 1000.0;
/// Maximum number of rows.
const MAX_ROWS: usize = 60;
/// Letters of a name in a heading.
const LETTERS: usize = 24;
const PITCH: f64 = 22.0;
const TOP: f64 = 40.0;

/// A row: what is compared with the reference, and the change.
struct Row {
    /// What it and its neighbours are about, above them.
    group: String,
    /// The figure.
    words: String,
    /// The number, from 0, of what is compared.
    other: usize,
    ratio: f64,
    interval: Option<Interval>,
    verdict: Direction,
}

/// A row for throughput, mean, median and p99 of every level: for the variants of a single result, otherwise for levels
/// that the results have in common.
pub fn draw(results: &[Shown<'_>]) -> Option<Markup> {
    let (first, others) = results.split_first()?;
    let asked: Vec<f64> = first.result.setup.measurement.asked_percentiles().collect();
    match (&first.result.variants, others.is_empty()) {
        (Some(variants), true) => {
            let reference = variants.variants.first().map(|first| shown(&first.name).into_owned()).unwrap_or_default();
            picture_of(of_variants(variants, &asked), &reference, variants.rounds.margin)
        }
        _ => picture_of(of_results(first, others, &asked), &format!("{} {}", letter(0), first.name), MARGIN),
    }
}

/// Whether a figure is drawn: of the percentiles only the few of tables with many figures, and those that the run was asked
/// for; no bandwidths, which change as the throughput does.
fn is_reported(figure_at: FigureAt, asked: &[f64]) -> bool {
    match figure_at.point {
        _ if figure_at.figure.unit == Unit::BytesPerSecond => false,
        Some(Point::Percentile(percentile)) => FEW_PERCENTILES.contains(&percentile) || asked.contains(&percentile),
        _ => true,
    }
}

fn of_results(first: &Shown<'_>, others: &[Shown<'_>], asked: &[f64]) -> Vec<Row> {
    let mut rows = Vec::new();
    for (other, run) in others.iter().enumerate() {
        for change in changes(first.result, run.result, MARGIN) {
            let level = full_name(change.load, change.distinction);
            let group = format!("{} {}, {level}", letter(other + 1), shortened::beginning(&run.name, LETTERS));
            let drawn = change.figures.into_iter().filter(|change| is_reported(change.figure_at, asked));
            rows.extend(drawn.map(|change| {
                let Change { figure_at, ratio, interval, verdict, .. } = change;
                Row { group: group.clone(), words: figure_name(figure_at), other, ratio, interval, verdict }
            }));
        }
    }
    rows
}

fn of_variants(result: &VariantsResult, asked: &[f64]) -> Vec<Row> {
    let mut rows = Vec::new();
    for cell in &result.cells {
        for compared in result.comparisons(cell) {
            let other = compared.variant - 1;
            let level = cell.loads.get(compared.variant).map(|load| full_name(*load, cell.distinction()));
            let group = format!(
                "{}, {}",
                shortened::beginning(&shown(&result.variants[compared.variant].name), LETTERS),
                level.unwrap_or_default()
            );
            rows.extend(compared.figures.into_iter().filter_map(|change| {
                let Figure::Client(statistic) = change.figure else { return None };
                let figure_at = FigureAt::of_statistic(statistic);
                let FigureChange { ratio, interval, verdict, .. } = change;
                let row = Row { group: group.clone(), words: figure_name(figure_at), other, ratio, interval, verdict };
                is_reported(figure_at, asked).then_some(row)
            }));
        }
    }
    rows
}

fn picture_of(mut rows: Vec<Row>, reference: &str, margin: f64) -> Option<Markup> {
    rows.retain(|row| row.ratio > 0.0);
    let left_out = rows.len().saturating_sub(MAX_ROWS);
    rows.truncate(MAX_ROWS);
    let spread = rows.iter().flat_map(|row| {
        let ends = row.interval.map_or([row.ratio; 2], |interval| [interval.low, interval.high]);
        ends.map(|ratio| ratio.ln().abs())
    });
    let most = spread.fold((1.0 + 2.0 * margin).ln(), f64::max).min(FURTHEST.ln());
    if rows.is_empty() {
        return None;
    }
    let lines = Lines::new(&rows);
    let frame = Frame { left: 182.0, top: TOP, width: 240.0, height: PITCH * lines.count as f64 };
    let x = Scale::Log { low: (-most * 1.05).exp(), high: (most * 1.05).exp() };
    let title = format!("change from {}", shortened::beginning(reference, LETTERS));
    let axis = Axis { scale: x, ticks: ticks(most), label: &percent, title: &title };
    let none = Axis { scale: x, ticks: Vec::new(), label: &percent, title: "" };
    let band = [1.0 / (1.0 + margin), 1.0 + margin].map(|ratio| frame.x(x.position(ratio)));
    let content = html! {
        rect.idle x=(n(band[0])) y=(n(frame.top)) width=(n(band[1] - band[0])) height=(n(frame.height)) fill="#dfe3e8" {}
        (dim((band[0] + band[1]) / 2.0, frame.top - 8.0, Anchor::Middle, "counts as no change"))
        (axes(&frame, &axis, &none))
        @for (line, row) in lines.headings.iter().map(|(line, row)| (line, &rows[*row])) {
            (Mark::of_line(row.other + 1).at(8.0, lines.middle(*line), ""))
            (coloured(18.0, lines.middle(*line) + 4.0, Anchor::Start, of_kind(row.other + 1), &row.group))
        }
        @for (line, row) in lines.rows.iter().zip(&rows) { (draw_row(&frame, x, lines.middle(*line), row)) }
        @let verb = if left_out == 1 { "is" } else { "are" };
        @if left_out > 0 { (dim(4.0, frame.bottom() + 42.0, Anchor::Start, &format!("{left_out} more {verb} left out"))) }
    };
    Some(picture(frame.bottom() + 56.0, "Ratios to the first, with 95 % intervals", &content))
}

/// Which line of the picture has what.
struct Lines {
    count: usize,
    /// The line of each row.
    rows: Vec<usize>,
    /// Lines with the group of what follows, and the first row of that.
    headings: Vec<(usize, usize)>,
}

impl Lines {
    fn new(rows: &[Row]) -> Self {
        let mut lines = Self { count: 0, rows: Vec::new(), headings: Vec::new() };
        for (number, row) in rows.iter().enumerate() {
            if number == 0 || row.group != rows[number - 1].group {
                lines.headings.push((lines.count, number));
                lines.count += 1;
            }
            lines.rows.push(lines.count);
            lines.count += 1;
        }
        lines
    }

    fn middle(&self, line: usize) -> f64 {
        TOP + PITCH * (line as f64 + 0.5)
    }
}

/// Round changes, symmetric.
fn ticks(most: f64) -> Vec<Tick> {
    let all = [0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 4.0, 9.0, 99.0, 999.0];
    let wanted: Vec<f64> = all.into_iter().filter(|share| f64::ln(1.0 + share) <= most * 1.05).collect();
    // Keeps the second away from the middle.
    let far = |share: &&f64| (1.0 + **share).ln() > most * 0.55;
    let (last, earlier) = wanted.split_last().map_or((None, &[][..]), |(last, earlier)| (Some(last), earlier));
    let second = earlier.iter().rev().find(|share| far(share) && (1.0 + **share).ln() < most * 0.6);
    let few = last.into_iter().chain(second).flat_map(|share| [1.0 + share, 1.0 / (1.0 + share)]);
    std::iter::once(1.0).chain(few).map(|value| Tick { value, minor: false }).collect()
}

fn percent(ratio: f64) -> String {
    match 100.0 * (ratio - 1.0) {
        percent if percent.abs() < 0.05 => "0 %".to_owned(),
        percent if percent > 900.5 => format!("× {}", short(ratio)),
        percent if percent < -90.5 => format!("÷ {}", short(1.0 / ratio)),
        percent => format!("{percent:+.0} %"),
    }
}

/// A change in few letters: `+1.3 %`, `+130 %`, `× 13.1`.
pub fn change(ratio: f64) -> String {
    match 100.0 * (ratio - 1.0) {
        percent if percent >= 1000.0 => format!("× {}", short(ratio)),
        percent if percent >= 99.95 => format!("{percent:+.0} %"),
        percent if percent.abs() < 0.05 => "0.0 %".to_owned(),
        percent => format!("{percent:+.1} %"),
    }
}

fn draw_row(frame: &Frame, x: Scale, at: f64, row: &Row) -> Markup {
    let Row { words, other, ratio, interval, verdict, .. } = row;
    let colour = of_kind(other + 1);
    html! {
        (text(frame.left - 8.0, at + 4.0, Anchor::End, words))
        @if let Some(interval) = interval { (Arms { frame, scale: x, colour }.level(at, *interval)) }
        (Mark::of_line(other + 1).at(frame.x(x.position(*ratio)), at, ""))
        (coloured(frame.right() + 8.0, at + 4.0, Anchor::Start, colour, &format!("{} {verdict}", change(*ratio))))
    }
}

#[cfg(test)]
mod tests {
    use super::{change, draw, percent};
    use crate::pictures::common::Shown;
    use crate::result::RunResult;
    use crate::result::setup::sample as plans;
    use crate::result::summary::{LevelLoad, sample as levels};
    use crate::stats::Interval;
    use crate::variants::sample;

    #[test]
    fn sizes_are_headings_and_arms_beyond_the_axis_are_marked() {
        let study = sample::study(&[64, 1 << 20]);
        let result = RunResult { variants: Some(study), ..plans::result(&plans::setup(), &[]) };
        let drawn = draw(&[Shown::new("a", &result)]).unwrap().into_string();
        assert_eq!(drawn.matches("C API + shared memory, c 1, 64 B").count(), 1, "{drawn}");
        assert!(drawn.contains(">throughput<") && !drawn.contains("beyond the axis"), "{drawn}");
        let row = |high: f64| super::Row {
            group: String::new(),
            words: "p99".to_owned(),
            other: 0,
            ratio: 2.0,
            interval: Some(Interval { low: 1.0, high }),
            verdict: crate::result::compare::Direction::Undecided,
        };
        let drawn = |high| super::picture_of(vec![row(high)], "A", 0.05).unwrap().into_string();
        assert!(!drawn(500.0).contains("beyond the axis"), "an arm as long as this is on the axis");
        assert!(drawn(1e7).contains("beyond the axis"));
    }

    #[test]
    fn rows_of_several_results_say_whose_they_are() {
        let of = |ms: u64| {
            let mut level = levels::level(LevelLoad::Concurrency(1), 1_000, ms * 1_000_000);
            level.client.tensors.input = Some(64.0);
            plans::result(&plans::setup(), &[level])
        };
        let [old, new, next] = [1, 2, 3].map(of);
        let shown = [Shown::new("old", &old), Shown::new("new", &new), Shown::new("next", &next)];
        let drawn = draw(&shown).unwrap().into_string();
        assert!(
            drawn.contains(">B new, c 1<") && drawn.contains(">C next, c 1<") && drawn.contains(">change from A old<"),
            "{drawn}"
        );
        assert_eq!(drawn.matches(">mean latency<").count(), 2, "{drawn}");
        assert!(!drawn.contains("bandwidth") && !drawn.contains(">in<"), "it changes as the throughput does: {drawn}");
        let of_kind = |kind: usize| drawn.matches(&format!("mark f{kind}\"")).count();
        assert!(of_kind(1) > 2 && of_kind(1) == of_kind(2), "a shape for each: {drawn}");
    }

    #[test]
    fn changes_are_short() {
        assert_eq!(
            [0.001, 0.1, 0.5, 1.0, 3.0, 10.0, 100.0].map(percent),
            ["÷ 1\u{202f}000", "-90 %", "-50 %", "0 %", "+200 %", "+900 %", "× 100"]
        );
        let changes = [0.5, 0.9996, 1.0, 1.0126, 2.3, 13.06].map(change);
        assert_eq!(changes, ["-50.0 %", "0.0 %", "0.0 %", "+1.3 %", "+130 %", "× 13.1"]);
    }
}
