//! Changes from the first result, or variant, to the others: ratios with their intervals beside a band that counts as
//! no change.

use maud::{Markup, html};

use crate::measure::rounds::Figure;
use crate::plan::Point;
use crate::report::draw::{Anchor, Axis, Frame, Polyline, Scale, Tick, axes, coloured, dim, n, of_kind, picture, text};
use crate::report::figures::common::{Shown, full_name};
use crate::report::number::short;
use crate::result::compare::{Change, Direction, changes};
use crate::result::figures::FigureAt;
use crate::result::variants::{FigureChange, VariantsResult};
use crate::stats::Interval;
use crate::stdio::shown;

/// Changes up to this share count as no change.
pub const MARGIN: f64 = 0.05;
/// Maximum number of rows.
const MAX_ROWS: usize = 60;
const PITCH: f64 = 22.0;
const TOP: f64 = 40.0;

/// A row: what is compared with the reference, and the change.
struct Row {
    /// Level and figure.
    words: String,
    /// The number, from 0, of what is compared, and its name.
    other: usize,
    name: String,
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
        (Some(variants), true) => picture_of(of_variants(variants, &asked), variants.rounds.margin),
        _ => picture_of(of_results(first, others, &asked), MARGIN),
    }
}

/// Whether a figure is drawn: of the percentiles only the median, the 99th, and those that the run was asked for.
fn is_told(point: Option<Point>, asked: &[f64]) -> bool {
    match point {
        Some(Point::Percentile(percentile)) => [50.0, 99.0].contains(&percentile) || asked.contains(&percentile),
        _ => true,
    }
}

fn of_results(first: &Shown<'_>, others: &[Shown<'_>], asked: &[f64]) -> Vec<Row> {
    let mut rows = Vec::new();
    for (other, one) in others.iter().enumerate() {
        for change in changes(first.result, one.result, MARGIN) {
            let level = full_name(change.load, change.distinction);
            rows.extend(change.figures.into_iter().filter(|change| is_told(change.of.point, asked)).map(|change| {
                let Change { of, ratio, interval, verdict, .. } = change;
                Row {
                    words: format!("{level} {}", of.short()),
                    other,
                    name: one.name.clone(),
                    ratio,
                    interval,
                    verdict,
                }
            }));
        }
    }
    rows
}

fn of_variants(result: &VariantsResult, asked: &[f64]) -> Vec<Row> {
    let mut rows = Vec::new();
    for cell in &result.cells {
        for compared in result.comparisons(cell) {
            let (other, several) = (compared.variant - 1, result.variants.len() > 2);
            let name = result.variants[compared.variant].name.clone();
            let level = cell.loads.get(compared.variant).map(|load| full_name(*load, cell.distinction()));
            let level = level.unwrap_or_default();
            let level = if several { format!("{}: {level}", shown(&name)) } else { level };
            rows.extend(compared.figures.into_iter().filter_map(|change| {
                let Figure::Client(of) = change.of else { return None };
                let FigureChange { ratio, interval, verdict, .. } = change;
                let words = format!("{level} {}", of.word());
                is_told(FigureAt::of_statistic(of).point, asked).then(|| Row {
                    words,
                    other,
                    name: name.clone(),
                    ratio,
                    interval,
                    verdict,
                })
            }));
        }
    }
    rows
}

fn picture_of(mut rows: Vec<Row>, margin: f64) -> Option<Markup> {
    rows.retain(|row| row.ratio > 0.0);
    rows.truncate(MAX_ROWS);
    let spread = rows.iter().flat_map(|row| {
        let known = row.interval.map_or([row.ratio; 2], |known| [known.low, known.high]);
        known.map(|ratio| ratio.ln().abs())
    });
    let most = spread.fold((1.0 + 2.0 * margin).ln(), f64::max).min(10_f64.ln());
    if rows.is_empty() {
        return None;
    }
    let frame = Frame { left: 182.0, top: TOP, width: 240.0, height: PITCH * rows.len() as f64 };
    let x = Scale::Log { low: (-most * 1.05).exp(), high: (most * 1.05).exp() };
    let axis = Axis { scale: x, ticks: ticks(most), label: &percent, title: "change" };
    let none = Axis { scale: x, ticks: Vec::new(), label: &percent, title: "" };
    let band = [1.0 / (1.0 + margin), 1.0 + margin].map(|ratio| frame.x(x.place(ratio)));
    let content = html! {
        rect.idle x=(n(band[0])) y=(n(frame.top)) width=(n(band[1] - band[0])) height=(n(frame.height)) fill="#dfe3e8" {}
        (dim((band[0] + band[1]) / 2.0, frame.top - 8.0, Anchor::Middle, "counts as no change"))
        (axes(&frame, &axis, &none))
        @for (number, row) in rows.iter().enumerate() {
            (draw_row(&frame, x, frame.top + PITCH * (number as f64 + 0.5), row))
        }
    };
    Some(picture(frame.bottom() + 56.0, "Ratios to the first, with 95 % intervals", &content))
}

/// Round changes, symmetric.
fn ticks(most: f64) -> Vec<Tick> {
    let all = [0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 4.0, 9.0];
    let wanted: Vec<f64> = all.into_iter().filter(|share| f64::ln(1.0 + share) <= most * 1.05).collect();
    // Keeps the second away from the middle.
    let far = |share: &&f64| (1.0 + **share).ln() > most * 0.55;
    let (last, rest) = wanted.split_last().map_or((None, &[][..]), |(last, rest)| (Some(last), rest));
    let second = rest.iter().rev().find(|share| far(share) && (1.0 + **share).ln() < most * 0.6);
    let few = last.into_iter().chain(second).flat_map(|share| [1.0 + share, 1.0 / (1.0 + share)]);
    std::iter::once(1.0).chain(few).map(|value| Tick { value, minor: false }).collect()
}

fn percent(ratio: f64) -> String {
    let percent = 100.0 * (ratio - 1.0);
    if percent.abs() < 0.05 { "0 %".to_owned() } else { format!("{percent:+.0} %") }
}

/// A change in few letters: `+1.3 %`, `+130 %`, `× 13.1`.
fn change(ratio: f64) -> String {
    match 100.0 * (ratio - 1.0) {
        percent if percent >= 1000.0 => format!("× {}", short(ratio)),
        percent if percent >= 99.95 => format!("{percent:+.0} %"),
        percent => format!("{percent:+.1} %"),
    }
}

fn draw_row(frame: &Frame, x: Scale, at: f64, row: &Row) -> Markup {
    let Row { words, other, name, ratio, interval, verdict } = row;
    let colour = of_kind(other + 1);
    let place = |ratio: f64| frame.x(x.place(ratio));
    let verdict = format!("{} {verdict}", change(*ratio));
    html! {
        g {
            title { (name) }
            (text(frame.left - 8.0, at + 4.0, Anchor::End, words))
            @if let Some(known) = interval {
                (Polyline { colour, width: 2.0, dashes: "" }.through(&[(place(known.low), at), (place(known.high), at)]))
            }
            circle class={ "f" (colour.class) } cx=(n(place(*ratio))) cy=(n(at)) r="4" fill=(colour.light) {}
            (coloured(frame.right() + 8.0, at + 4.0, Anchor::Start, colour, &verdict))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::change;

    #[test]
    fn changes_are_short() {
        assert_eq!([0.5, 1.0, 1.0126, 2.3, 13.06].map(change), ["-50.0 %", "+0.0 %", "+1.3 %", "+130 %", "× 13.1"]);
    }
}
