//! Failures over time, by reason: stacked bars.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use maud::{Markup, html};

use crate::backend::InferError;
use crate::draw::{Anchor, Axis, Colour, Frame, KINDS, Scale, axes, dim, n, picture, text};
use crate::number::{rate, short};
use crate::pictures::common::Shown;
use crate::pictures::time_axis::TimeAxis;
use crate::result::summary::LevelSummary;
use crate::result::timeline::Slice;
use crate::shortened;
use crate::stdio::shown;

const FRAME: Frame = Frame { left: 84.0, top: 48.0, width: 526.0, height: 170.0 };
/// A level with fewer windows is drawn by its slices, which are shorter.
const FEW_WINDOWS: usize = 24;
/// Beyond this number, bars are merged into columns.
const MAX_COLUMNS: usize = 200;
/// Reasons with their own colour; all others share one.
const MAX_REASONS: usize = 6;
/// Letters of a reason that fit, and that fit on a phone.
const MAX_LETTERS: [usize; 2] = [72, 44];
/// From here on, letters are about twice as wide as those of Europe.
const WIDE: char = '\u{2e80}';
/// Distance from one reason to the next: letters are larger on a phone.
const PITCH: f64 = 22.0;
/// Colours of the reasons, chosen for contrast with each other and the page, not in the order of other pictures.
const COLOURS: [Colour; MAX_REASONS] = [KINDS[1], KINDS[0], KINDS[4], KINDS[3], KINDS[2], KINDS[7]];
const OTHERS: Colour = KINDS[5];

/// A span of time, and the failures of each reason in it; those of all others are last.
struct Bar {
    from: f64,
    to: f64,
    counts: Vec<f64>,
}

/// Failures a second by reason; `None` if no request failed, or the times are not known.
pub fn draw(shown: &Shown<'_>) -> Option<Markup> {
    let axis = TimeAxis::new(shown)?;
    let reasons = reasons(&axis);
    let bars = columns(&axis, axis.levels.iter().flat_map(|level| bars(&axis, level, &reasons)).collect());
    let highest = bars.iter().map(|bar| bar.counts.iter().sum::<f64>() / (bar.to - bar.from)).fold(0.0, f64::max);
    if highest <= 0.0 {
        return None;
    }
    let y = Scale::from_zero([highest].into_iter());
    let upright = Axis { scale: y, ticks: y.ticks(4), label: &rate, title: "failures/s" };
    let horizontal = Axis { scale: axis.scale, ticks: axis.scale.ticks(7), label: &|at| axis.label(at), title: "" };
    let sums: Vec<f64> = (0..=reasons.len()).map(|at| bars.iter().filter_map(|bar| bar.counts.get(at)).sum()).collect();
    let height = FRAME.bottom() + 30.0 + PITCH * sums.iter().filter(|sum| **sum > 0.0).count() as f64;
    let content = html! {
        (axis.background(&FRAME, true))
        (axes(&FRAME, &horizontal, &upright))
        @for (number, data) in paths(&axis, y, &bars, sums.len()).iter().enumerate() {
            @let colour = colour(number, reasons.len());
            @if !data.is_empty() { path class={ "f" (colour.class) } d=(data) fill=(colour.light) shape-rendering="crispEdges" {} }
        }
        (legend(&reasons, &sums))
    };
    Some(picture(height, "Failures over time, by reason", &content))
}

/// The picture if no request failed, because a script that asks for it should get one.
pub fn none() -> Markup {
    picture(40.0, "No request failed", &dim(84.0, 24.0, Anchor::Start, "No request failed."))
}

fn colour(number: usize, reasons: usize) -> Colour {
    if number < reasons { COLOURS[number % COLOURS.len()] } else { OTHERS }
}

/// The most frequent reasons of all levels.
fn reasons<'a>(axis: &TimeAxis<'a>) -> Vec<&'a InferError> {
    let mut all: Vec<(&InferError, u64)> = Vec::new();
    for level in &axis.levels {
        for (index, reason) in level.timeline.reasons.iter().enumerate() {
            let count = level.windows.iter().filter_map(|row| row.failed_for.get(index)).sum();
            match all.iter_mut().find(|(other, _)| *other == reason) {
                Some((_, sum)) => *sum += count,
                None => all.push((reason, count)),
            }
        }
    }
    all.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    all.into_iter().take(MAX_REASONS).map(|(reason, _)| reason).collect()
}

fn bars(axis: &TimeAxis<'_>, level: &LevelSummary, reasons: &[&InferError]) -> Vec<Bar> {
    let counts = |failed: u64, by_reason: &[u64]| {
        let mut counts = vec![0.0; reasons.len() + 1];
        for (reason, count) in level.timeline.reasons.iter().zip(by_reason) {
            let index = reasons.iter().position(|other| *other == reason).unwrap_or(reasons.len());
            counts[index] += *count as f64;
        }
        counts[reasons.len()] += failed.saturating_sub(by_reason.iter().sum()) as f64;
        counts
    };
    if level.windows.len() >= FEW_WINDOWS || level.timeline.slices.is_empty() {
        let row = |from: f64, seconds: f64, counts| Bar { from, to: from + seconds, counts };
        let rows = level.windows.iter().filter(|row| !row.duration.is_zero());
        return rows
            .map(|window| {
                row(
                    axis.seconds(window.start),
                    window.duration.as_secs_f64(),
                    counts(window.failed, &window.failed_for),
                )
            })
            .collect();
    }
    let mut from = level.windows.first().map_or(0.0, |row| axis.seconds(row.start));
    let slices = level.timeline.slices.iter().filter(|slice| slice.duration_s > 0.0);
    let bar = |slice: &Slice| {
        let bar = Bar { from, to: from + slice.duration_s, counts: counts(slice.failed, &slice.failed_for) };
        from = bar.to;
        bar
    };
    slices.map(bar).collect()
}

/// The bars, merged into columns if there are too many: sums, so that nothing is lost.
fn columns(axis: &TimeAxis<'_>, bars: Vec<Bar>) -> Vec<Bar> {
    if bars.len() <= MAX_COLUMNS {
        return bars;
    }
    let mut joined: BTreeMap<usize, Bar> = BTreeMap::new();
    for bar in bars {
        let column = (axis.scale.position(bar.from) * MAX_COLUMNS as f64) as usize;
        match joined.get_mut(&column) {
            Some(sum) => {
                sum.to = sum.to.max(bar.to);
                sum.counts.iter_mut().zip(&bar.counts).for_each(|(count, more)| *count += more);
            }
            None => drop(joined.insert(column, bar)),
        }
    }
    joined.into_values().collect()
}

/// The rectangles of all bars for each reason, stacked on those of the reasons before.
fn paths(axis: &TimeAxis<'_>, y: Scale, bars: &[Bar], reasons: usize) -> Vec<String> {
    let mut paths = vec![String::new(); reasons];
    for bar in bars {
        let (left, right) = (FRAME.x(axis.scale.position(bar.from)), FRAME.x(axis.scale.position(bar.to)));
        let (seconds, mut below) = (bar.to - bar.from, 0.0);
        for (path, count) in paths.iter_mut().zip(&bar.counts).filter(|(_, count)| **count > 0.0) {
            let (low, high) = (FRAME.y(y.position(below)), FRAME.y(y.position(below + count / seconds)));
            below += count / seconds;
            let (wide, tall) = (n((right - left).max(1.0)), n((low - high).max(0.5)));
            let _ = write!(path, "M{} {}h{wide}v{tall}h-{wide}z", n(left), n(high));
        }
    }
    paths
}

/// The legend: the reason of each colour, from the bottom of the bars up, and how often it occurred.
fn legend(reasons: &[&InferError], sums: &[f64]) -> Markup {
    let words = |number: usize| match reasons.get(number) {
        Some(reason) => shown(&reason.to_string()).into_owned(),
        None => "for other reasons".to_owned(),
    };
    let entries = sums.iter().enumerate().filter(|(_, sum)| **sum > 0.0);
    html! {
        @for (line, (number, sum)) in entries.enumerate() {
            @let (top, colour) = (FRAME.bottom() + 44.0 + PITCH * line as f64, colour(number, reasons.len()));
            rect class={ "f" (colour.class) } x="84" y=(n(top - 9.0)) width="11" height="11" fill=(colour.light) {}
            (dim(78.0, top, Anchor::End, &short(*sum)))
            @let [long, short] = MAX_LETTERS.map(|letters| fitting(&words(number), letters));
            @if long == short { (text(102.0, top, Anchor::Start, &long)) } @else {
                g.t2 { (text(102.0, top, Anchor::Start, &long)) }
                g.t1 display="none" { (text(102.0, top, Anchor::Start, &short)) }
            }
        }
    }
}

/// As much of a text as has room where this many letters have.
fn fitting(text: &str, letters: usize) -> String {
    let wide = text.chars().take(letters).filter(|letter| *letter >= WIDE).count();
    shortened::beginning(text, letters - wide / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_stay_within_their_picture() {
        let cut = |text: &str| fitting(text, MAX_LETTERS[0]).chars().count();
        assert_eq!(cut(&"HTTP 502: <html> <head>".repeat(9)), 72);
        assert_eq!(cut(&"\u{30e2}\u{30c7}".repeat(90)), 36, "twice as wide");
        assert_eq!(fitting("HTTP 500: \u{30e2}", 44), "HTTP 500: \u{30e2}");
    }
}
