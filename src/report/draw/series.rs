//! Lines, and reducing them to the points worth drawing.

use std::fmt::Write as _;
use std::ops::RangeInclusive;

use crate::draw::basics::{Colour, Frame, n};
use crate::draw::scale::Scales;

use maud::{Markup, html};

/// Beyond this number, points become the largest and the smallest of each column: never an average, which hides peaks.
const MAX_POINTS: usize = 400;

/// A line through positions in a frame.
pub struct Polyline<'a> {
    /// Its colour.
    pub colour: Colour,
    /// Its width.
    pub width: f64,
    /// Its dash pattern as in the attribute; solid if empty.
    pub dashes: &'a str,
}

impl Polyline<'_> {
    /// Through `places`.
    pub fn through(&self, places: &[(f64, f64)]) -> Markup {
        self.path(&path(places))
    }

    /// Along a path's data.
    pub fn path(&self, data: &str) -> Markup {
        let class = format!("s{}", self.colour.class);
        let dashes = (!self.dashes.is_empty()).then_some(self.dashes);
        html! {
            @if !data.is_empty() {
                path class=(class) d=(data) fill="none" stroke=(self.colour.light) stroke-width=(n(self.width))
                    stroke-linejoin="round" stroke-dasharray=[dashes] {}
            }
        }
    }
}

/// Dash patterns that distinguish neighbouring levels without colours.
pub fn dash(number: usize) -> &'static str {
    ["", "8 3", "5 2 1.5 2", "14 4"][number % 4]
}

fn path(places: &[(f64, f64)]) -> String {
    let mut data = String::new();
    for (number, (x, y)) in places.iter().enumerate() {
        let _ = write!(data, "{}{} {}", if number == 0 { 'M' } else { 'L' }, n(*x), n(*y));
    }
    data
}

/// A step for each interval `(from, to, value)`, in order; gaps between them are left open.
pub fn step_path(frame: &Frame, scales: Scales, stretches: &[(f64, f64, f64)]) -> String {
    let Scales { x, y } = scales;
    let (mut data, mut last) = (String::new(), f64::NAN);
    for (from, to, value) in stretches {
        let (left, right, at) = (frame.x(x.position(*from)), frame.x(x.position(*to)), frame.y(y.position(*value)));
        let abuts = (left - last).abs() < 0.7;
        let _ = if abuts { write!(data, "V{}", n(at)) } else { write!(data, "M{} {}", n(left), n(at)) };
        let _ = write!(data, "H{}", n(right));
        last = right;
    }
    data
}

/// The same intervals; if there are more than [`MAX_POINTS`], merged into columns of time, for each of which `choose`
/// picks a value.
pub fn peaks(stretches: Vec<(f64, f64, f64)>, choose: fn(f64, f64) -> f64) -> Vec<(f64, f64, f64)> {
    let (Some(first), Some(last)) = (stretches.first(), stretches.last()) else { return stretches };
    if stretches.len() <= MAX_POINTS {
        return stretches;
    }
    let (begin, length) = (first.0, (last.1 - first.0) / MAX_POINTS as f64);
    let column = |from: f64| ((from - begin) / length) as usize;
    let mut joined: Vec<(f64, f64, f64)> = Vec::with_capacity(MAX_POINTS);
    for (from, to, value) in stretches {
        match joined.last_mut() {
            Some(last) if column(last.0) == column(from) => *last = (last.0, to, choose(last.2, value)),
            _ => joined.push((from, to, value)),
        }
    }
    joined
}

/// Positions at least `apart` from each other, as near to the wanted ones as that allows, within these; in
/// the order of `wanted`.
pub fn spread(wanted: &[f64], apart: f64, within: RangeInclusive<f64>) -> Vec<f64> {
    let (low, high) = within.into_inner();
    let mut order: Vec<usize> = (0..wanted.len()).collect();
    order.sort_by(|left, right| wanted[*left].total_cmp(&wanted[*right]));
    let mut places = wanted.to_vec();
    let mut least = low;
    for index in &order {
        places[*index] = places[*index].max(least);
        least = places[*index] + apart;
    }
    let mut most = high;
    for index in order.iter().rev() {
        places[*index] = places[*index].min(most);
        most = places[*index] - apart;
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draw::scale::Scale;

    #[test]
    fn peaks_are_kept_whatever_is_left_out() {
        let many: Vec<_> =
            (0..20_000).map(|k| (f64::from(k), f64::from(k + 1), f64::from(u8::from(k == 7_777)))).collect();
        let few = peaks(many, f64::max);
        assert!(few.len() <= MAX_POINTS + 1 && few.iter().any(|(_, _, value)| *value == 1.0), "{}", few.len());
        assert_eq!((few[0].0, few.last().unwrap().1), (0.0, 20_000.0));
        assert_eq!(peaks(vec![(0.0, 1.0, 2.0)], f64::max), [(0.0, 1.0, 2.0)]);
    }

    #[test]
    fn labels_do_not_overlap() {
        assert_eq!(spread(&[50.0, 52.0, 10.0], 12.0, 0.0..=60.0), [48.0, 60.0, 10.0]);
        let close = spread(&[5.0; 4], 10.0, 0.0..=100.0);
        assert_eq!(close, [5.0, 15.0, 25.0, 35.0]);
    }

    #[test]
    fn steps_leave_gaps_open() {
        let frame = Frame { left: 0.0, top: 0.0, width: 100.0, height: 10.0 };
        let scale = Scale::Linear { low: 0.0, high: 10.0 };
        let data =
            step_path(&frame, Scales { x: scale, y: scale }, &[(0.0, 1.0, 5.0), (1.0, 2.0, 10.0), (5.0, 6.0, 0.0)]);
        assert_eq!(data, "M0 5H10V0H20M50 10H60");
    }
}
