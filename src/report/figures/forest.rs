//! What changed from the first result to the others: ratios with their intervals beside a band that counts as no change.

use maud::{Markup, html};

use crate::plan::Statistic;
use crate::report::draw::{Anchor, Axis, Frame, Polyline, Scale, Tick, axes, coloured, dim, n, of_kind, picture, text};
use crate::report::figures::common::{Shown, level};
use crate::result::compare::{Change, changes};

/// Changes up to this share count as none.
pub const MARGIN: f64 = 0.05;
/// Most rows.
const MOST_ROWS: usize = 60;
const PITCH: f64 = 22.0;
const TOP: f64 = 40.0;

/// A row: which level and result, and what changed.
struct Row {
    level: String,
    other: usize,
    change: Change,
}

/// A row for throughput, mean, median and p99 of every level that both have.
pub fn draw(shown: &[Shown<'_>]) -> Option<Markup> {
    let (first, others) = shown.split_first()?;
    let mut rows = Vec::new();
    for (other, one) in others.iter().enumerate() {
        for change in changes(first.result, one.result, MARGIN) {
            let name = level(change.load);
            let told = |change: &Change| match change.of {
                Statistic::Percentile(percentile) => percentile == 50.0 || percentile == 99.0,
                _ => true,
            };
            let figures = change.figures.into_iter().filter(|change| told(change) && change.ratio > 0.0);
            rows.extend(figures.map(|change| Row { level: name.clone(), other, change }));
        }
    }
    rows.truncate(MOST_ROWS);
    let spread = rows.iter().flat_map(|row| {
        let known = row.change.interval.map_or([row.change.ratio; 2], |known| [known.low, known.high]);
        known.map(|ratio| ratio.ln().abs())
    });
    let most = spread.fold((1.0 + 2.0 * MARGIN).ln(), f64::max).min(10_f64.ln());
    if rows.is_empty() {
        return None;
    }
    let frame = Frame { left: 182.0, top: TOP, width: 240.0, height: PITCH * rows.len() as f64 };
    let x = Scale::Log { low: (-most * 1.05).exp(), high: (most * 1.05).exp() };
    let axis = Axis { scale: x, ticks: ticks(most), label: &percent, title: "change" };
    let none = Axis { scale: x, ticks: Vec::new(), label: &percent, title: "" };
    let band = [1.0 / (1.0 + MARGIN), 1.0 + MARGIN].map(|ratio| frame.x(x.place(ratio)));
    let content = html! {
        rect.idle x=(n(band[0])) y=(n(frame.top)) width=(n(band[1] - band[0])) height=(n(frame.height)) fill="#dfe3e8" {}
        (dim((band[0] + band[1]) / 2.0, frame.top - 8.0, Anchor::Middle, "counts as no change"))
        (axes(&frame, &axis, &none))
        @for (number, row) in rows.iter().enumerate() {
            (draw_row(&frame, x, frame.top + PITCH * (number as f64 + 0.5), (row, others.len() > 1, &others[row.other].name)))
        }
    };
    Some(picture(frame.bottom() + 56.0, "Ratios to the first result, with 95 % intervals", &content))
}

/// Round changes, both ways alike.
fn ticks(most: f64) -> Vec<Tick> {
    let all = [0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 4.0, 9.0];
    let wanted: Vec<f64> = all.into_iter().filter(|share| f64::ln(1.0 + share) <= most * 1.05).collect();
    // The second stays away from the middle.
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

fn draw_row(frame: &Frame, x: Scale, at: f64, (row, several, name): (&Row, bool, &str)) -> Markup {
    let Row { level, other, change } = row;
    let colour = of_kind(other + 1);
    let words = format!("{level} {}", change.of.word());
    let place = |ratio: f64| frame.x(x.place(ratio));
    let verdict = format!("{:+.1} % {}", 100.0 * (change.ratio - 1.0), change.verdict);
    html! {
        g {
            @if several { title { (name) } }
            (text(frame.left - 8.0, at + 4.0, Anchor::End, &words))
            @if let Some(known) = change.interval {
                (Polyline { colour, width: 2.0, dashes: "" }.through(&[(place(known.low), at), (place(known.high), at)]))
            }
            circle class={ "f" (colour.class) } cx=(n(place(change.ratio))) cy=(n(at)) r="4" fill=(colour.light) {}
            (coloured(frame.right() + 8.0, at + 4.0, Anchor::Start, colour, &verdict))
        }
    }
}
