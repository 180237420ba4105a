//! Candidates of a search: throughput against latency, and the Pareto front.

use maud::{Markup, html};

use crate::draw::{
    Anchor, Axis, Colour, Frame, Polyline, Scale, Scales, axes, coloured, dim, n, of_kind, picture, spread,
};
use crate::number::{rate, time};
use crate::result::{CandidateResult, TuneFigures, TuneResult};
use crate::terms::asked;

const FRAME: Frame = Frame { left: 84.0, top: 48.0, width: 450.0, height: 270.0 };
/// The colours of the winner, the present configuration and all others.
const KINDS: [usize; 3] = [2, 1, 5];

/// A candidate in the picture.
struct Point<'a> {
    candidate: &'a CandidateResult,
    figures: &'a TuneFigures,
    at: (f64, f64),
}

impl Point<'_> {
    fn colour(&self, result: &TuneResult) -> Colour {
        of_kind(match self.candidate.number {
            number if result.verdict.winner == Some(number) => KINDS[0],
            0 => KINDS[1],
            _ => KINDS[2],
        })
    }

    fn is_named(&self, result: &TuneResult) -> bool {
        self.candidate.number == 0 || result.verdict.winner == Some(self.candidate.number)
    }
}

/// The picture; `None` if nothing was measured.
pub fn draw(result: &TuneResult) -> Option<Markup> {
    let candidates = || result.candidates.iter().filter_map(|candidate| Some((candidate, candidate.figures.as_ref()?)));
    candidates().next()?;
    let x = Scale::from_zero(candidates().map(|(_, figures)| figures.means.throughput));
    let y =
        Scale::of_latencies(candidates().map(|(_, figures)| figures.means.latency_ns).collect::<Vec<_>>().into_iter());
    let position = |figures: &TuneFigures| {
        (FRAME.x(x.position(figures.means.throughput)), FRAME.y(y.position(figures.means.latency_ns)))
    };
    let mut points: Vec<Point<'_>> =
        candidates().map(|(candidate, figures)| Point { candidate, figures, at: position(figures) }).collect();
    // Named points are drawn on top of all others.
    points.sort_by_key(|point| point.is_named(result));
    let title = format!("p{} latency", result.percentile);
    let horizontal = Axis { scale: x, ticks: x.ticks(6), label: &rate, title: "throughput, inferences/s" };
    let upright = Axis { scale: y, ticks: y.ticks(6), label: &time, title: &title };
    let content = html! {
        (legend(result))
        (axes(&FRAME, &horizontal, &upright))
        (Polyline { colour: of_kind(KINDS[2]), width: 1.2, dashes: "5 3" }.through(&frontier(&points)))
        @for point in &points { (draw_point(point, result, Scales { x, y })) }
        (names(&points, result))
    };
    Some(picture(372.0, "Latency against throughput, a point for each candidate", &content))
}

fn legend(result: &TuneResult) -> Markup {
    let winner = result.verdict.winner.filter(|winner| *winner != 0);
    html! {
        g.t2 {
            (coloured(FRAME.left, 16.0, Anchor::Start, of_kind(KINDS[1]), "0 yours"))
            @if let Some(winner) = winner {
                (coloured(FRAME.left + 90.0, 16.0, Anchor::Start, of_kind(KINDS[0]), &format!("{winner} the one to take")))
            }
            (dim(FRAME.right(), 16.0, Anchor::End, "dashed: no other is better in both"))
        }
    }
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
    let colour = point.colour(result);
    let (lines, areas) = (format!("s{}", colour.class), format!("f{}", colour.class));
    let (at, up) = point.at;
    let hollow = !point.candidate.meets;
    html! {
        @if let Some(interval) = point.figures.throughput_interval.filter(|_| point.is_named(result)) {
            @let (low, high) = (FRAME.x(x.position(interval.low)), FRAME.x(x.position(interval.high)));
            line class=(lines) x1=(n(low)) x2=(n(high)) y1=(n(up)) y2=(n(up)) stroke=(colour.light) stroke-width="1.2" {}
        }
        @if let Some(interval) = point.figures.latency_interval.filter(|_| point.is_named(result)) {
            @let (low, high) = (FRAME.y(y.position(interval.low)), FRAME.y(y.position(interval.high)));
            line class=(lines) x1=(n(at)) x2=(n(at)) y1=(n(low)) y2=(n(high)) stroke=(colour.light) stroke-width="1.2" {}
        }
        circle class=(if hollow { format!("hollow {lines}") } else { areas.clone() }) cx=(n(at)) cy=(n(up))
            r=(if point.is_named(result) { "4.2" } else { "3" }) fill=(if hollow { "#ffffff" } else { colour.light })
            stroke=[hollow.then_some(colour.light)] { title { (tip(point, result)) } }
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

/// Labels for the winner and the present configuration, on the right, at their height.
fn names(points: &[Point<'_>], result: &TuneResult) -> Markup {
    let named: Vec<&Point<'_>> = points.iter().filter(|point| point.is_named(result)).collect();
    let heights: Vec<f64> = named.iter().map(|point| point.at.1).collect();
    let places = spread(&heights, 22.0, FRAME.top..=FRAME.bottom());
    html! {
        @for (point, height) in named.iter().zip(places) {
            (coloured(FRAME.right() + 8.0, height + 4.0, Anchor::Start, point.colour(result), &format!("#{}", point.candidate.number)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
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
    fn who_was_measured_is_a_point() {
        let drawn = draw(&sample::result()).unwrap().into_string();
        assert_eq!(drawn.matches("<circle").count(), 3, "{drawn}");
        assert!(drawn.contains("#2") && drawn.contains("instance_group[].count 3"), "{drawn}");
        let nothing = crate::result::TuneResult { candidates: Vec::new(), ..sample::result() };
        assert!(draw(&nothing).is_none());
    }
}
