//! The rounds of variants: what each came to in every round, and how that compares with the reference in the same round.

use maud::{Markup, html};

use crate::draw::{
    Anchor, Arms, Axis, Frame, Mark, Polyline, Scale, Tick, axes, coloured, dim, grid, n, of_kind, picture, spread,
};
use crate::number::{rate, short, time};
use crate::pictures::common::variant_figure;
use crate::result::rounds::{Figure, Round};
use crate::result::variants::{Cell, VariantsResult};
use crate::shortened;
use crate::stats::Interval;
use crate::stdio::shown;
use crate::variants::brief;

const VALUES: Frame = Frame { left: 84.0, top: 48.0, width: 400.0, height: 170.0 };
const RATIOS: Frame = Frame { left: 84.0, top: 262.0, width: 400.0, height: 130.0 };
/// Letters of a name beside the picture.
const LETTERS: usize = 11;

/// A variant's dot in a round.
struct Dot {
    variant: usize,
    /// The number of the round in the picture, from 1.
    round: usize,
    value: f64,
    counts: bool,
}

/// What all rounds together say of a variant.
struct Sum {
    variant: usize,
    ratio: f64,
    interval: Option<Interval>,
}

/// The picture of one cell, for the run's main figure; none if there are no rounds.
pub fn draw(result: &VariantsResult, cell: &Cell) -> Option<Markup> {
    let figure = result.primary;
    let (values, ratios) = (dots(cell, figure), ratios(cell, figure));
    let sums = sums(result, cell);
    let last = cell.rounds.len();
    if values.is_empty() {
        return None;
    }
    let x = Scale::Linear { low: 0.3, high: last as f64 + 1.7 };
    let every = last.div_ceil(8).max(1);
    let ticks = (1..=last).step_by(every).map(|round| Tick { value: round as f64, minor: round != 1 && last > 8 });
    let horizontal = Axis { scale: x, ticks: ticks.collect(), label: &short, title: "round" };
    let bare = Axis { scale: x, ticks: Vec::new(), label: &short, title: "" };
    let y = tight(values.iter().map(|dot| dot.value));
    let label: &dyn Fn(f64) -> String = if figure.more_is_better() { &rate } else { &time };
    let title = format!("{}, in each round", variant_figure(figure));
    let upright = Axis { scale: y, ticks: value_ticks(y), label, title: &title };
    let below = ratio_scale(&ratios, &sums);
    let reference = result.variants.first().map(|first| shown(&first.name).into_owned()).unwrap_or_default();
    let title = format!("ratio to {} in the same round", brief(&reference));
    let shares = Axis { scale: below, ticks: ratio_ticks(below), label: &short, title: &title };
    let content = html! {
        (axes(&VALUES, &bare, &upright))
        (pairs(&values, x, y))
        @for dot in &values { (draw_dot(&VALUES, dot, x, y)) }
        (names(result, &values, y))
        @if !ratios.is_empty() {
            (axes(&RATIOS, &horizontal, &shares))
            (even(below))
            @for dot in &ratios { (draw_dot(&RATIOS, dot, x, below)) }
            (all(&sums, x.position(last as f64 + 1.0), below))
        } @else { (grid(&RATIOS, &shares)) }
    };
    Some(picture(448.0, "Every round, and its ratio to the reference", &content))
}

fn dots(cell: &Cell, figure: Figure) -> Vec<Dot> {
    each(cell, |round, variant| round.units.get(variant)?.as_ref().filter(|unit| unit.problem.is_none())?.get(figure))
}

fn ratios(cell: &Cell, figure: Figure) -> Vec<Dot> {
    let value = |round: &Round, variant: usize| round.units.get(variant)?.as_ref()?.get(figure);
    each(cell, |round, variant| if variant == 0 { None } else { Some(value(round, variant)? / value(round, 0)?) })
}

fn each(cell: &Cell, value: impl Fn(&Round, usize) -> Option<f64>) -> Vec<Dot> {
    let of_round = |(number, round): (usize, &Round)| {
        let dot =
            |variant| Some(Dot { variant, round: number + 1, value: value(round, variant)?, counts: !round.set_aside });
        (0..round.units.len()).filter_map(dot).collect::<Vec<_>>()
    };
    cell.rounds.iter().enumerate().flat_map(of_round).collect()
}

fn sums(result: &VariantsResult, cell: &Cell) -> Vec<Sum> {
    let sum = |variant| {
        let paired = cell.ratio(variant, result.primary, result.reading())?;
        Some(Sum { variant, ratio: paired.ratio, interval: paired.interval })
    };
    (1..result.variants.len()).filter_map(sum).collect()
}

/// It has every ratio, 1, and the intervals as far as they are not much longer.
fn ratio_scale(ratios: &[Dot], sums: &[Sum]) -> Scale {
    let values = ratios.iter().map(|dot| dot.value).chain([1.0]);
    let (least, most) = values.fold((f64::MAX, 0.0_f64), |(low, high), value| (low.min(value), high.max(value)));
    let arms = sums.iter().filter_map(|sum| sum.interval).flat_map(|interval| [interval.low, interval.high]);
    let arms = arms.map(|value| value.clamp(least / 2.0, most * 2.0));
    let (least, most) = arms.fold((least, most), |(low, high), value| (low.min(value), high.max(value)));
    tight([least, most].into_iter())
}

/// Logarithmic and no longer than the values need: rounds that are alike are to be told apart.
fn tight(values: impl Iterator<Item = f64>) -> Scale {
    let (least, most) = values.fold((f64::MAX, 0.0_f64), |(low, high), value| (low.min(value), high.max(value)));
    let room = (most / least).powf(0.08).max(1.01);
    Scale::Log { low: least / room, high: most * room }
}

/// Round values over decades; else the ends and the middle.
fn value_ticks(scale: Scale) -> Vec<Tick> {
    let Scale::Log { low, high } = scale else { return Vec::new() };
    if high / low > 8.0 {
        return scale.ticks(4);
    }
    [0.08, 0.5, 0.92].map(|share| Tick { value: low * (high / low).powf(share), minor: false }).to_vec()
}

/// Round values over decades; else 1, and the ends in round numbers.
fn ratio_ticks(scale: Scale) -> Vec<Tick> {
    let Scale::Log { low, high } = scale else { return Vec::new() };
    if high / low > 8.0 {
        return scale.ticks(4).into_iter().map(|tick| Tick { minor: false, ..tick }).collect();
    }
    let digits = |value: f64| short(value).parse::<f64>().unwrap_or(value);
    let ends = [digits(low * (high / low).powf(0.08)), digits(high / (high / low).powf(0.08))];
    let far = |value: &f64| (value.ln() / (high / low).ln()).abs() > 0.12;
    [1.0].into_iter().chain(ends.into_iter().filter(far)).map(|value| Tick { value, minor: false }).collect()
}

/// A line between what was measured in the same round.
fn pairs(values: &[Dot], x: Scale, y: Scale) -> Markup {
    let line = |round: &[Dot]| {
        let heights: Vec<f64> = round.iter().map(|dot| VALUES.y(y.position(dot.value))).collect();
        let (top, low) = heights.iter().fold((f64::MAX, 0.0_f64), |(top, low), up| (top.min(*up), low.max(*up)));
        let at = VALUES.x(x.position(round[0].round as f64));
        html! { line.edge x1=(n(at)) x2=(n(at)) y1=(n(top)) y2=(n(low)) stroke="#7b8794" stroke-opacity="0.55" {} }
    };
    html! { @for round in values.chunk_by(|left, right| left.round == right.round) { (line(round)) } }
}

fn draw_dot(frame: &Frame, dot: &Dot, x: Scale, y: Scale) -> Markup {
    let mark = Mark { hollow: !dot.counts, ..Mark::of_line(dot.variant) };
    mark.at(frame.x(x.position(dot.round as f64)), frame.y(y.position(dot.value)), "")
}

/// The line of no change.
fn even(scale: Scale) -> Markup {
    let up = RATIOS.y(scale.position(1.0));
    Polyline { colour: of_kind(0), width: 1.2, dashes: "5 3" }.through(&[(RATIOS.left, up), (RATIOS.right(), up)])
}

/// All rounds together: a ratio with its interval, behind the last round.
fn all(sums: &[Sum], share: f64, scale: Scale) -> Markup {
    let middle = RATIOS.x(share);
    let step = 26.0 / sums.len().max(1) as f64;
    let at = |number: usize| middle + step * (number as f64 + 0.5) - 13.0;
    html! {
        @for (number, sum) in sums.iter().enumerate() {
            @let mark = Mark { times: 1.25, ..Mark::of_line(sum.variant) };
            @if let Some(interval) = sum.interval { (Arms { frame: &RATIOS, scale, colour: mark.colour }.upright(at(number), interval)) }
            (mark.at(at(number), RATIOS.y(scale.position(sum.ratio)), ""))
        }
        (dim(middle, RATIOS.bottom() + 20.0, Anchor::Middle, "all"))
        (ratio_names(sums, scale))
    }
}

fn ratio_names(sums: &[Sum], scale: Scale) -> Markup {
    let wanted: Vec<f64> = sums.iter().map(|sum| RATIOS.y(scale.position(sum.ratio))).collect();
    let places = spread(&wanted, 22.0, RATIOS.top..=RATIOS.bottom());
    html! { @for (sum, height) in sums.iter().zip(places) {
        (coloured(RATIOS.right() + 8.0, height + 4.0, Anchor::Start, of_kind(sum.variant), &format!("× {}", short(sum.ratio))))
    } }
}

fn names(result: &VariantsResult, values: &[Dot], y: Scale) -> Markup {
    let last = |variant: usize| values.iter().rev().find(|dot| dot.variant == variant);
    let ends: Vec<(usize, f64)> = (0..result.variants.len())
        .filter_map(|variant| Some((variant, VALUES.y(y.position(last(variant)?.value)))))
        .collect();
    let places = spread(&ends.iter().map(|(_, up)| *up).collect::<Vec<_>>(), 22.0, VALUES.top..=VALUES.bottom());
    let name = |variant: usize| shortened::beginning(&brief(&shown(&result.variants[variant].name)), LETTERS);
    html! { @for ((variant, _), height) in ends.iter().zip(places) {
        (coloured(VALUES.right() + 8.0, height + 4.0, Anchor::Start, of_kind(*variant), &name(*variant)))
    } }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::variants::sample;

    #[test]
    fn ratios_over_decades_have_round_marks() {
        let marks = |low, high| ratio_ticks(Scale::Log { low, high }).iter().map(|tick| tick.value).collect::<Vec<_>>();
        assert_eq!(marks(0.4, 90.0), [1.0, 3.0, 10.0, 30.0]);
        assert_eq!(marks(0.8, 1.6).len(), 3);
        assert_eq!(marks(0.8, 1.6)[0], 1.0);
    }

    #[test]
    fn every_round_is_a_pair_of_dots_and_a_ratio() {
        let mut study = sample::study(&[64]);
        study.cells[0].rounds[1].set_aside = true;
        let drawn = draw(&study, &study.cells[0]).unwrap().into_string();
        assert_eq!(drawn.matches("class=\"mark ").count(), 8 * 3 + 1, "{drawn}");
        let shapes = [0, 1].map(|kind| drawn.matches(&format!("mark f{kind}\"")).count());
        assert!(
            shapes.into_iter().all(|count| count > 5) && drawn.contains(">mean latency, in each round<"),
            "{drawn}"
        );
        assert_eq!(drawn.matches("hollow").count(), 3, "{drawn}");
        assert!(drawn.contains("× 2<") && drawn.contains("ratio to C API in the same round"), "{drawn}");
        study.cells[0].rounds.clear();
        assert!(draw(&study, &study.cells[0]).is_none());
    }
}
