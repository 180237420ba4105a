//! How often each latency occurred over time: shows modes and stalls that percentiles hide.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use maud::{Markup, html};

use crate::draw::{Anchor, Axis, Frame, HEAT, Scale, axes, dim, n, picture};
use crate::number::{short, time};
use crate::pictures::common::Shown;
use crate::pictures::time_axis::TimeAxis;
use crate::result::timeline::lower_edge_ns;

const FRAME: Frame = Frame { left: 84.0, top: 48.0, width: 516.0, height: 240.0 };
const MAX_COLUMNS: usize = 200;
const MAX_ROWS: usize = 64;

/// Requests a second by column and row.
struct Cells {
    /// Start and end of each column, in seconds.
    columns: BTreeMap<usize, (f64, f64)>,
    /// Requests by row and column.
    counts: BTreeMap<(usize, usize), f64>,
    /// Latency classes per row.
    classes: u32,
    /// The first class.
    first: u32,
    rows: usize,
}

/// A map of the whole run.
pub fn draw(shown: &Shown<'_>) -> Option<Markup> {
    let axis = TimeAxis::new(shown)?;
    let cells = cells(&axis)?;
    let (low, high) = (cells.edge(0), cells.edge(cells.rows));
    let y = Scale::Log { low, high };
    let upright = Axis { scale: y, ticks: y.ticks(6), label: &time, title: "latency" };
    let horizontal = Axis { scale: axis.scale, ticks: axis.scale.ticks(7), label: &|at| axis.label(at), title: "" };
    let (paths, most) = cells.paths(&axis);
    let content = html! {
        (axis.background(&FRAME, true))
        (axes(&FRAME, &horizontal, &upright))
        @for (colour, data) in HEAT.iter().zip(&paths) {
            @if !data.is_empty() { path class={ "f" (colour.class) } d=(data) fill=(colour.light) shape-rendering="crispEdges" {} }
        }
        (legend(most))
    };
    Some(picture(350.0, "How often each latency occurred over time", &content))
}

fn cells(axis: &TimeAxis<'_>) -> Option<Cells> {
    let slices =
        || axis.levels.iter().flat_map(|level| &level.timeline.slices).filter(|slice| !slice.counts.is_empty());
    let first = slices().map(|slice| slice.first).min()?;
    let last = slices().map(|slice| slice.first + slice.counts.len() as u32).max()?;
    let classes = (last - first).div_ceil(MAX_ROWS as u32).max(1);
    let rows = (last - first).div_ceil(classes) as usize;
    let mut cells = Cells { columns: BTreeMap::new(), counts: BTreeMap::new(), classes, first, rows };
    for level in &axis.levels {
        let mut from = axis.seconds(level.windows[0].start);
        for slice in &level.timeline.slices {
            let column = (axis.scale.position(from + slice.duration_s / 2.0) * MAX_COLUMNS as f64) as usize;
            let to = from + slice.duration_s;
            let span = cells.columns.entry(column).or_insert((from, to));
            *span = (span.0.min(from), span.1.max(to));
            for (class, count) in (slice.first..).zip(&slice.counts).filter(|(_, count)| **count > 0) {
                let row = ((class - first) / classes) as usize;
                *cells.counts.entry((row, column)).or_default() += *count as f64;
            }
            from = to;
        }
    }
    Some(cells)
}

impl Cells {
    /// The lower edge of a row.
    fn edge(&self, row: usize) -> f64 {
        lower_edge_ns(f64::from(self.first) + row as f64 * f64::from(self.classes))
    }

    /// A path for each colour, from few requests a second up, and the highest rate.
    fn paths(&self, axis: &TimeAxis<'_>) -> (Vec<String>, f64) {
        let span = |column: &usize| self.columns[column];
        let density = |column: &usize, count: f64| {
            let (from, to) = span(column);
            count / (to - from).max(1e-9)
        };
        let densities: Vec<f64> = self.counts.iter().map(|((_, column), count)| density(column, *count)).collect();
        let most = densities.iter().copied().fold(0.0, f64::max);
        let least = densities.iter().copied().fold(f64::MAX, f64::min).max(most / 1e4);
        let step = (most / least).ln() / HEAT.len() as f64;
        let mut paths = vec![String::new(); HEAT.len()];
        let height = FRAME.height / self.rows as f64;
        // A run of neighbours of one colour is one rectangle.
        let mut open: Option<(usize, usize, f64, f64)> = None;
        let mut close = |run: (usize, usize, f64, f64)| {
            let (row, class, left, right) = run;
            let top = FRAME.bottom() - (row + 1) as f64 * height;
            let (wide, high) = (n((right - left).max(0.6)), n(height + 0.05));
            let _ = write!(paths[class], "M{} {}h{wide}v{high}h-{wide}z", n(left), n(top));
        };
        for ((row, column), count) in &self.counts {
            let share = if step > 0.0 { (density(column, *count) / least).ln() / step } else { 7.0 };
            let class = (share.max(0.0) as usize).min(HEAT.len() - 1);
            let (from, to) = span(column);
            let (left, right) = (FRAME.x(axis.scale.position(from)), FRAME.x(axis.scale.position(to)));
            match &mut open {
                Some((r, c, _, end)) if *r == *row && *c == class && (left - *end).abs() < 0.3 => *end = right,
                _ => {
                    open.replace((*row, class, left, right)).into_iter().for_each(&mut close);
                }
            }
        }
        open.into_iter().for_each(&mut close);
        (paths, most)
    }
}

fn legend(most: f64) -> Markup {
    let (side, top) = (16.0, FRAME.bottom() + 34.0);
    let left = FRAME.right() - side * HEAT.len() as f64;
    html! {
        (dim(left - 6.0, top + 10.0, Anchor::End, "few"))
        @for (number, colour) in HEAT.iter().enumerate() {
            rect class={ "f" (colour.class) } x=(n(left + side * number as f64)) y=(n(top)) width=(n(side)) height="11"
                fill=(colour.light) {}
        }
        text.dim.t2 x=(n(left - 40.0)) y=(n(top + 10.0)) text-anchor="end" fill="#5b6672" {
            "requests/s in a cell, up to " (short(most))
        }
    }
}
