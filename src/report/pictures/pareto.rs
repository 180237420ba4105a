//! Candidates of a search: throughput against latency, and the Pareto front.

use maud::{Markup, html};

use crate::draw::{Arms, Axis, Frame, Mark, Polyline, Scale, Scales, axes, n, near, of_kind, picture, spread};
use crate::number::{rate, time};
use crate::result::{CandidateResult, TuneFigures, TuneResult};
use crate::stats::Interval;
use crate::terms::asked;

const FRAME: Frame = Frame { left: 84.0, top: 48.0, width: 450.0, height: 270.0 };
/// Arms this many times as far as any point are on the axes; longer ones are cut off and marked.
const REACH: f64 = 2.0;
/// How much room a name needs.
const ROOM: f64 = 90.0;
/// The colours of the winner, the present configuration and all others.
const KINDS: [usize; 3] = [2, 1, 5];
/// Their marks: a diamond, a square and a circle.
const SHAPES: [usize; 3] = [3, 1, 0];

/// A candidate in the picture.
struct Point<'a> {
    candidate: &'a CandidateResult,
    figures: &'a TuneFigures,
    at: (f64, f64),
}

impl Point<'_> {
    /// Which of the kinds it is: the winner, the present configuration or another.
    fn kind(&self, result: &TuneResult) -> usize {
        match self.candidate.number {
            number if result.verdict.winner == Some(number) => 0,
            0 => 1,
            _ => 2,
        }
    }

    fn is_named(&self, result: &TuneResult) -> bool {
        self.candidate.number == 0 || result.verdict.winner == Some(self.candidate.number)
    }
}

/// The picture; `None` if nothing was measured.
pub fn draw(result: &TuneResult) -> Option<Markup> {
    let candidates = || result.candidates.iter().filter_map(|candidate| Some((candidate, candidate.figures.as_ref()?)));
    candidates().next()?;
    let (x, y) = (scale_of_rates(result), scale_of_latencies(result));
    let position = |figures: &TuneFigures| {
        (FRAME.x(x.position(figures.means.throughput)), FRAME.y(y.position(figures.means.latency_ns)))
    };
    let mut points: Vec<Point<'_>> =
        candidates().map(|(candidate, figures)| Point { candidate, figures, at: position(figures) }).collect();
    // Named points are drawn on top of all others.
    points.sort_by_key(|point| point.is_named(result));
    let front = frontier(&points);
    let title = format!("p{} latency", result.percentile);
    let horizontal = Axis { scale: x, ticks: x.ticks(6), label: &rate, title: "throughput, inferences/s" };
    let upright = Axis { scale: y, ticks: y.ticks(6), label: &time, title: &title };
    let content = html! {
        (axes(&FRAME, &horizontal, &upright))
        @if front.len() > 1 { (Polyline { colour: of_kind(KINDS[2]), width: 1.2, dashes: "5 3" }.through(&front)) }
        @for point in &points { (draw_point(point, result, Scales { x, y })) }
        (names(&points, result))
    };
    Some(picture(372.0, "Latency against throughput, a point for each candidate", &content))
}

/// The values of candidates, and the ends of those arms that are drawn.
fn with_arms(
    result: &TuneResult,
    value: fn(&TuneFigures) -> f64,
    arm: fn(&TuneFigures) -> Option<Interval>,
) -> Vec<f64> {
    let all = || result.candidates.iter().filter_map(|candidate| Some((candidate.number, candidate.figures.as_ref()?)));
    let mut values: Vec<f64> = all().map(|(_, figures)| value(figures)).collect();
    let named = all().filter(|(number, _)| *number == 0 || result.verdict.winner == Some(*number));
    values.extend(near(&values, named.filter_map(|(_, figures)| arm(figures)), REACH));
    values
}

fn scale_of_rates(result: &TuneResult) -> Scale {
    let values = with_arms(result, |figures| figures.means.throughput, |figures| figures.throughput_interval);
    Scale::from_zero(values.into_iter())
}

fn scale_of_latencies(result: &TuneResult) -> Scale {
    let values = with_arms(result, |figures| figures.means.latency_ns, |figures| figures.latency_interval);
    Scale::of_latencies(values.into_iter())
}

/// The Pareto front of the candidates that meet the constraints, in steps: between two of them, nothing is known to be
/// better than the worse value of either.
fn frontier(points: &[Point<'_>]) -> Vec<(f64, f64)> {
    let value = |point: &Point<'_>| (point.figures.means.throughput, point.figures.means.latency_ns);
    let mut able: Vec<&Point<'_>> = points.iter().filter(|point| point.candidate.meets).collect();
    able.sort_by(|left, right| value(right).0.total_cmp(&value(left).0).then(value(left).1.total_cmp(&value(right).1)));
    let mut least = f64::INFINITY;
    let mut steps: Vec<(f64, f64)> = Vec::new();
    for point in able {
        let (_, latency) = value(point);
        if latency < least {
            least = latency;
            steps.extend(steps.last().map(|(_, up)| (point.at.0, *up)));
            steps.push(point.at);
        }
    }
    steps
}

fn draw_point(point: &Point<'_>, result: &TuneResult, scales: Scales) -> Markup {
    let Scales { x, y } = scales;
    let (kind, named) = (point.kind(result), point.is_named(result));
    let colour = of_kind(KINDS[kind]);
    let (at, up) = point.at;
    let mark =
        Mark { shape: SHAPES[kind], colour, hollow: !point.candidate.meets, times: if named { 1.2 } else { 0.85 } };
    html! {
        @if let Some(arm) = point.figures.throughput_interval.filter(|_| named) {
            (Arms { frame: &FRAME, scale: x, colour }.level(up, arm))
        }
        @if let Some(arm) = point.figures.latency_interval.filter(|_| named) {
            (Arms { frame: &FRAME, scale: y, colour }.upright(at, arm))
        }
        (mark.at(at, up, &tip(point, result)))
    }
}

fn tip(point: &Point<'_>, result: &TuneResult) -> String {
    let values = result.settings.iter().zip(&point.candidate.values);
    let values: Vec<String> = values.map(|(setting, value)| format!("{setting} {}", asked(value))).collect();
    let means = &point.figures.means;
    format!(
        "#{}: {}; {}/s, {}; {}",
        point.candidate.number,
        values.join(", "),
        rate(means.throughput),
        time(means.latency_ns),
        point.candidate.status.name()
    )
}

/// The winner and the present configuration by name: beside their points, and those at the right edge behind it.
fn names(points: &[Point<'_>], result: &TuneResult) -> Markup {
    let is_inside = |point: &&Point<'_>| point.at.0 + ROOM < FRAME.right();
    let (inside, outside): (Vec<_>, Vec<_>) =
        points.iter().filter(|point| point.is_named(result)).partition(|point| is_inside(point));
    let spread_out = |points: &[&Point<'_>]| {
        let heights: Vec<f64> = points.iter().map(|point| point.at.1).collect();
        spread(&heights, 22.0, FRAME.top..=FRAME.bottom())
    };
    html! {
        // Above the arms.
        @for (point, height) in inside.iter().zip(spread_out(&inside)) { (name(point, result, point.at.0 + 8.0, height - 8.0)) }
        @for (point, height) in outside.iter().zip(spread_out(&outside)) { (name(point, result, FRAME.right() + 8.0, height + 4.0)) }
    }
}

fn name(point: &Point<'_>, result: &TuneResult, x: f64, y: f64) -> Markup {
    let words = if point.candidate.number == 0 { "yours" } else { "winner" };
    let colour = of_kind(KINDS[point.kind(result)]);
    html! {
        text class={ "halo f" (colour.class) } x=(n(x)) y=(n(y)) fill=(colour.light) font-weight="600" stroke="#ffffff" stroke-width="3"
            paint-order="stroke" { (words) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draw::BEYOND;
    use crate::tune::sample;

    #[test]
    fn nobody_on_the_line_is_beaten_in_both() {
        let result = sample::result();
        let figures = |rate: f64, ms: f64| {
            let mut figures = result.candidates[0].figures.clone().unwrap();
            (figures.means.throughput, figures.means.latency_ns) = (rate, ms * 1e6);
            figures
        };
        let all = [(100.0, 1.0, true), (300.0, 3.0, true), (200.0, 4.0, true), (300.0, 5.0, true), (900.0, 0.1, false)]
            .map(|(rate, ms, meets)| (CandidateResult { meets, ..result.candidates[0].clone() }, figures(rate, ms)));
        let points: Vec<Point<'_>> = all
            .iter()
            .map(|(candidate, figures)| Point {
                candidate,
                figures,
                at: (figures.means.throughput, figures.means.latency_ns / 1e6),
            })
            .collect();
        assert_eq!(frontier(&points), [(300.0, 3.0), (100.0, 3.0), (100.0, 1.0)]);
    }

    #[test]
    fn axes_have_every_arm_or_mark_it() {
        let drawn = |high: f64| {
            let mut result = sample::result();
            let figures = result.candidates[0].figures.as_mut().unwrap();
            let low = figures.means.throughput;
            figures.throughput_interval = Some(Interval { low, high: high * low });
            (draw(&result).unwrap().into_string().contains(BEYOND), scale_of_rates(&result).holds(high * low))
        };
        assert_eq!([1.0, 1.9, 90.0].map(drawn), [(false, true), (false, true), (true, false)]);
    }

    #[test]
    fn who_was_measured_is_a_point() {
        let drawn = draw(&sample::result()).unwrap().into_string();
        assert_eq!(drawn.matches("class=\"mark ").count(), 3, "{drawn}");
        assert!(drawn.contains("#2") && drawn.contains("instance_group[].count 3"), "{drawn}");
        assert!(drawn.contains(">yours<") && drawn.contains(">winner<"), "{drawn}");
        let nothing = crate::result::TuneResult { candidates: Vec::new(), ..sample::result() };
        assert!(draw(&nothing).is_none());
    }
}
