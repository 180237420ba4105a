//! Pictures of studies of memory and transports: latency and bandwidth over the size of tensors, a line for each way, and
//! what the machine does without a server as the bound.

use maud::{Markup, html};

use crate::draw::{
    Anchor, Arms, Axis, Colour, Frame, Mark, Polyline, Scale, Scales, Tick, axes, coloured, dash, of_kind, picture,
    spread,
};
use crate::number::{bandwidth, binary, time};
use crate::result::variants::{Cell, VariantsResult};
use crate::stats::{Bounds, Interval};
use crate::variants::{brief, levels_of};

const FRAME: Frame = Frame { left: 84.0, top: 48.0, width: 400.0, height: 280.0 };
/// Arms further than this from any point are cut off and marked.
const REACH: f64 = 10.0;
/// Bounds further than this from any way are not on the axis: their lines end at the edge. Times of small copies are very far.
const BOUND_REACH: [f64; 2] = [3.0, 30.0];
/// The ways of a study of transports: as many with tensors in requests as in shared memory.
const TRANSPORTS: usize = 3;

/// Which of the two pictures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OverSize {
    /// How long a request takes.
    Latency,
    /// Bytes of inputs a second.
    Bandwidth,
}

/// A line of points.
struct Line {
    name: String,
    colour: Colour,
    /// The number of its marks.
    shape: usize,
    dashes: &'static str,
    is_bound: bool,
    points: Vec<Point>,
}

/// A value at a size.
#[derive(Clone, Copy)]
struct Point {
    size: f64,
    value: f64,
    interval: Option<Interval>,
}

/// The picture of one level of a study, by its number; none if it was not measured with several sizes.
pub fn draw(result: &VariantsResult, level: usize, quantity: OverSize) -> Option<Markup> {
    result.matrix.as_ref()?;
    let load = *levels_of(result).get(level)?;
    let mut cells: Vec<&Cell> = result.cells.iter().filter(|cell| cell.loads.first() == Some(&load)).collect();
    // They were measured in the order in which they were asked for.
    cells.sort_by_key(|cell| cell.size);
    let lines: Vec<Line> = ways(result, &cells, quantity).into_iter().chain(bounds(&cells, quantity)).collect();
    let mut sizes: Vec<u64> = cells.iter().filter_map(|cell| cell.size).collect();
    sizes.dedup();
    let (first, last) = (*sizes.first()? as f64, *sizes.last()? as f64);
    if first >= last || lines.iter().all(|line| line.is_bound) {
        return None;
    }
    let x = Scale::Log { low: first / 1.4, high: last * 1.4 };
    let y = upright(&lines, quantity)?;
    let ticks = sizes.iter().map(|size| Tick { value: *size as f64, minor: false }).collect();
    let size = |size: f64| binary(size as u64);
    let (title, name, show): (_, _, &dyn Fn(f64) -> String) = match quantity {
        OverSize::Latency => ("latency of a request", "Latency over the size of tensors", &time),
        OverSize::Bandwidth => ("bytes of inputs a second", "Bandwidth over the size of tensors", &bandwidth),
    };
    let horizontal = Axis { scale: x, ticks, label: &size, title: "size of each input" };
    // A narrow screen has no room for the seconds, which the title says.
    let label = |value: f64| show(value).trim_end_matches("/s").to_owned();
    let upright = Axis { scale: y, ticks: y.ticks(6), label: &label, title };
    let scales = Scales { x, y };
    let content = html! {
        (axes(&FRAME, &horizontal, &upright))
        @for line in &lines { (draw_line(line, scales, show)) }
        (names(&lines, scales))
    };
    Some(picture(384.0, name, &content))
}

fn ways(result: &VariantsResult, cells: &[&Cell], quantity: OverSize) -> Vec<Line> {
    let line = |number: usize| {
        let point = |cell: &&Cell| {
            let size = cell.size? as f64;
            match quantity {
                OverSize::Latency => {
                    let (value, bounds) = cell.estimate(number, result.primary, result.reading())?;
                    Some(Point { size, value, interval: both(bounds) })
                }
                OverSize::Bandwidth => {
                    let value = cell.bandwidth(number, result.reading()).input?;
                    Some(Point { size, value, interval: None })
                }
            }
        };
        let shared = result.matrix.as_deref() == Some("transports") && number >= TRANSPORTS;
        Line {
            name: brief(&result.variants[number].name),
            colour: of_kind(if shared { number - TRANSPORTS } else { number }),
            shape: number,
            dashes: dash(usize::from(shared)),
            is_bound: false,
            points: cells.iter().filter_map(point).collect(),
        }
    };
    (0..result.variants.len()).map(line).filter(|line| !line.points.is_empty()).collect()
}

fn both(bounds: Bounds) -> Option<Interval> {
    Some(Interval { low: bounds.low?, high: bounds.high? })
}

/// What one thread does alone.
fn bounds(cells: &[&Cell], quantity: OverSize) -> Vec<Line> {
    let line = |name: &str, dashes, ns: fn(&Cell) -> Option<f64>| {
        let point = |cell: &&Cell| {
            let (size, ns) = (cell.size? as f64, ns(cell)?);
            let bytes = cell.input_bytes.iter().flatten().next()?;
            let value = if quantity == OverSize::Latency { ns } else { bytes * 1e9 / ns };
            Some(Point { size, value, interval: None })
        };
        let points = cells.iter().filter_map(point).collect();
        Line { name: name.to_owned(), colour: of_kind(5), shape: 0, dashes, is_bound: true, points }
    };
    let all = [
        line("memcpy", "2 3", |cell| Some(cell.bare?.memcpy_ns)),
        line("loopback", "9 3 2 3", |cell| cell.bare?.loopback_ns),
    ];
    all.into_iter().filter(|line| !line.points.is_empty()).collect()
}

/// The vertical scale: it has every point of a way, its arms unless they are very long, and bounds that are not far away.
fn upright(lines: &[Line], quantity: OverSize) -> Option<Scale> {
    let span = |values: &mut dyn Iterator<Item = f64>| {
        let positive = values.filter(|value| value.is_finite() && *value > 0.0);
        positive.fold((f64::MAX, 0.0_f64), |(low, high), value| (low.min(value), high.max(value)))
    };
    let points =
        |is_bound: bool| lines.iter().filter(move |line| line.is_bound == is_bound).flat_map(|line| &line.points);
    let (least, most) = span(&mut points(false).map(|point| point.value));
    let near = |value: f64, by: f64| value.clamp(least / by, most * by);
    let arms = points(false).flat_map(|point| point.interval).flat_map(|interval| [interval.low, interval.high]);
    let arms = arms.map(|value| near(value, REACH));
    let bounds = points(true).map(|point| near(point.value, BOUND_REACH[usize::from(quantity == OverSize::Bandwidth)]));
    let (low, high) = span(&mut points(false).map(|point| point.value).chain(arms).chain(bounds));
    (high > 0.0).then(|| Scale::log(low, high))
}

fn draw_line(line: &Line, scales: Scales, show: &dyn Fn(f64) -> String) -> Markup {
    let Scales { x, y } = scales;
    let places: Vec<(f64, f64)> =
        line.points.iter().map(|point| (FRAME.x(x.position(point.size)), y.share(point.value))).collect();
    let arms = Arms { frame: &FRAME, scale: y, colour: line.colour };
    let mark = Mark { shape: line.shape, colour: line.colour, hollow: false, times: 1.0 };
    html! {
        (Polyline { colour: line.colour, width: if line.is_bound { 1.2 } else { 1.6 }, dashes: line.dashes }
            .through(&within(&places)))
        @for point in line.points.iter().filter(|_| !line.is_bound) {
            @let at = FRAME.x(x.position(point.size));
            @if let Some(interval) = point.interval { (arms.upright(at, interval)) }
            @let tip = format!("{} at {}: {}", line.name, binary(point.size as u64), show(point.value));
            (mark.at(at, FRAME.y(y.position(point.value)), &tip))
        }
    }
}

/// The part of a line that is between the lower and the upper edge; `places` have shares of the height.
fn within(places: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let inside = |share: f64| (0.0..=1.0).contains(&share);
    let mut kept: Vec<(f64, f64)> = Vec::new();
    for (number, &(at, share)) in places.iter().enumerate() {
        if number > 0 {
            let (before, from) = places[number - 1];
            let edge = [0.0, 1.0].into_iter().find(|edge| (from - edge) * (share - edge) < 0.0);
            kept.extend(edge.map(|edge| (before + (at - before) * (edge - from) / (share - from), FRAME.y(edge))));
        }
        if inside(share) {
            kept.push((at, FRAME.y(share)));
        }
    }
    kept
}

/// The names at the ends of the lines.
fn names(lines: &[Line], scales: Scales) -> Markup {
    let end = |line: &Line| line.points.last().map_or(FRAME.bottom(), |point| FRAME.y(scales.y.position(point.value)));
    let ends: Vec<f64> = lines.iter().map(end).collect();
    let places = spread(&ends, 22.0, FRAME.top..=FRAME.bottom());
    html! {
        @for (line, height) in lines.iter().zip(places) {
            (coloured(FRAME.right() + 8.0, height + 4.0, Anchor::Start, line.colour, &line.name))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::bare::BareCopies;
    use crate::variants::sample;

    #[test]
    fn every_way_and_bound_is_a_line_over_the_sizes() {
        let mut study = sample::study(&[64, 4096, 1 << 20]);
        let drawn = draw(&study, 0, OverSize::Latency).unwrap().into_string();
        assert_eq!(drawn.matches("class=\"mark ").count(), 6, "{drawn}");
        for part in [">64 B<", ">1 MiB<", ">memcpy<", ">C API + shm<", "latency of a request"] {
            assert!(drawn.contains(part), "{part}: {drawn}");
        }
        assert!(!drawn.contains("loopback"), "{drawn}");
        study.cells.iter_mut().for_each(|cell| {
            cell.bare = Some(BareCopies { memcpy_ns: 2.0, loopback_ns: Some(9e3) });
        });
        let drawn = draw(&study, 0, OverSize::Bandwidth).unwrap().into_string();
        assert!(drawn.contains(">loopback<") && drawn.contains(" GB<"), "{drawn}");
        assert!(draw(&study, 1, OverSize::Bandwidth).is_none(), "there is one level");
        study.cells.truncate(1);
        assert!(draw(&study, 0, OverSize::Latency).is_none(), "one size is no line");
        let drawn = |sizes: &[u64]| draw(&sample::study(sizes), 0, OverSize::Latency).map(Markup::into_string);
        assert_eq!(drawn(&[1 << 20, 64, 4096]), drawn(&[64, 4096, 1 << 20]), "in whatever order they were asked for");
    }

    #[test]
    fn a_line_ends_where_it_leaves_the_frame() {
        let up = |share: f64| FRAME.y(share);
        assert_eq!(within(&[(0.0, -1.0), (10.0, 1.0)]), [(5.0, up(0.0)), (10.0, up(1.0))]);
        assert_eq!(within(&[(0.0, -1.0), (10.0, -0.5)]), []);
        assert_eq!(within(&[(0.0, 0.5), (10.0, 1.5)]), [(0.0, up(0.5)), (5.0, up(1.0))]);
    }
}
