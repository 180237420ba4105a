//! Latency against throughput: a point for each level, with crosses as wide as their confidence intervals.

use maud::{Markup, html};

use crate::draw::{
    Anchor, Axis, Colour, Frame, Labels, Polyline, Scale, Scales, Spot, axes, coloured, dash, n, of_kind, picture,
    spread,
};
use crate::figures::common::{Shown, legend, letter, level, with_requests};
use crate::number::{rate, time};
use crate::result::outcome::Outcome;
use crate::result::statistic::value;
use crate::result::summary::{LevelSummary, StatisticEstimate};
use crate::result::{RunResult, answer};
use crate::terms::{Statistic, TAIL};

const FRAME: Frame = Frame { left: 84.0, top: 48.0, width: 450.0, height: 250.0 };

/// A line of points.
struct Curve<'a> {
    name: String,
    statistic: Statistic,
    colour: Colour,
    dashes: &'static str,
    /// Whether levels follow from each other, which stages do not.
    joined: bool,
    levels: Vec<&'a LevelSummary>,
}

impl<'a> Curve<'a> {
    /// Its levels by batch size: those of different sizes do not follow from each other.
    fn parts(&self) -> impl Iterator<Item = &[&'a LevelSummary]> {
        self.levels.chunk_by(|left, right| left.client.batch_size == right.client.batch_size)
    }
}

/// For one result the median and the 99th percentile, or the percentile that it is judged by; for several only that, a
/// line for each.
pub fn draw(shown: &[Shown<'_>]) -> Option<Markup> {
    let curves = curves(shown);
    if curves.iter().all(|curve| curve.levels.is_empty()) {
        return None;
    }
    let latencies =
        curves.iter().flat_map(|curve| curve.levels.iter().map(|level| value(curve.statistic, &level.client)));
    let limits = shown.iter().filter_map(|run| run.result.setup.measurement.latency_threshold);
    let mut limits: Vec<f64> = limits.map(|limit| limit.as_nanos() as f64).collect();
    limits.dedup();
    let key = shown.first().and_then(|run| run.result.setup.measurement.percentile);
    let key = key.map_or(Statistic::MeanLatency, Statistic::Percentile).name();
    let y = Scale::of_latencies(latencies.chain(limits.iter().copied()));
    let x =
        Scale::from_zero(curves.iter().flat_map(|curve| curve.levels.iter().map(|level| level.client.throughput())));
    let horizontal = Axis { scale: x, ticks: x.ticks(6), label: &rate, title: "throughput, inferences/s" };
    let upright = Axis { scale: y, ticks: y.ticks(6), label: &time, title: "latency" };
    let mut labels = Labels::within(FRAME.left, FRAME.right() + 6.0);
    let position = |curve: &Curve<'_>, level: &LevelSummary| {
        (FRAME.x(x.position(level.client.throughput())), FRAME.y(y.position(value(curve.statistic, &level.client))))
    };
    let points = curves.iter().flat_map(|curve| curve.levels.iter().map(|level| position(curve, level)));
    points.for_each(|(x, y)| labels.avoid(x, y));
    let scales = Scales { x, y };
    let content = html! {
        (legend(shown))
        (axes(&FRAME, &horizontal, &upright))
        @for limit in &limits { (threshold(&mut labels, y, *limit, &key)) }
        @for curve in &curves { (draw_curve(curve, scales)) }
        @if let [_] = shown { (ring(&curves, scales)) }
        (names(&curves, y))
        (level_names(&mut labels, &curves, scales))
    };
    Some(picture(352.0, "Latency against throughput, a point for each level", &content))
}

fn curves<'a>(shown: &[Shown<'a>]) -> Vec<Curve<'a>> {
    let levels = |result: &'a RunResult| {
        let mut all: Vec<&LevelSummary> = with_requests(result).into_iter().map(|(_, level)| level).collect();
        if result.setup.measurement.binary_search {
            // In the order of loads, not in that of the search.
            all.sort_by(|left, right| left.load.number().total_cmp(&right.load.number()));
        }
        all
    };
    let joined = |run: &Shown<'_>| run.result.setup.mode.stages().is_empty();
    if let [run] = shown {
        let asked = run.result.setup.measurement.percentile.filter(|percentile| *percentile != 50.0);
        let high = Statistic::Percentile(asked.unwrap_or(TAIL));
        // A threshold applies to the mean if no percentile is asked for.
        let plan = &run.result.setup.measurement;
        let mean = plan.latency_threshold.is_some() && plan.percentile.is_none();
        let mean = mean.then_some(Statistic::MeanLatency);
        let all = [Some(Statistic::Percentile(50.0)), mean, Some(high)].into_iter().flatten();
        let curve = |(number, statistic): (usize, Statistic)| Curve {
            name: statistic.name(),
            statistic,
            colour: of_kind(number),
            dashes: dash(number),
            joined: joined(run),
            levels: levels(run.result),
        };
        return all.enumerate().map(curve).collect();
    }
    let asked = shown.first().and_then(|run| run.result.setup.measurement.percentile);
    let statistic = Statistic::Percentile(asked.unwrap_or(TAIL));
    let curve = |(number, run): (usize, &Shown<'a>)| Curve {
        name: format!("{} {}", letter(number), statistic.name()),
        statistic,
        colour: of_kind(number),
        dashes: dash(number),
        joined: joined(run),
        levels: levels(run.result),
    };
    shown.iter().enumerate().map(curve).collect()
}

/// The threshold line, and the latency that it applies to.
fn threshold(labels: &mut Labels, y: Scale, limit: f64, key: &str) -> Markup {
    let at = FRAME.y(y.position(limit));
    let words = format!("threshold for {key}: {}", time(limit));
    let (left, right) = (FRAME.left + 6.0, FRAME.right() - 6.0);
    let spot = |x: f64, y: f64, anchor: Anchor| Spot { x, y, anchor };
    let spots =
        [spot(left, at - 6.0, Anchor::Start), spot(left, at + 14.0, Anchor::Start), spot(right, at - 6.0, Anchor::End)];
    html! {
        line.limit x1=(n(FRAME.left)) x2=(n(FRAME.right())) y1=(n(at)) y2=(n(at)) stroke="#b42318" stroke-width="1.5"
            stroke-dasharray="6 4" {}
        @if let Some((Spot { x, y, anchor }, hidden)) = labels.place(&words, &spots) {
            text.alarm.t2[hidden] x=(n(x)) y=(n(y)) text-anchor=(anchor.name()) fill="#b42318" { (words) }
        }
    }
}

fn draw_curve(curve: &Curve<'_>, scales: Scales) -> Markup {
    let Scales { x, y } = scales;
    let Curve { statistic, colour, dashes, .. } = curve;
    let position = |level: &LevelSummary| {
        (FRAME.x(x.position(level.client.throughput())), FRAME.y(y.position(value(*statistic, &level.client))))
    };
    let parts = curve.parts().map(|part| part.iter().map(|level| position(level)).collect::<Vec<(f64, f64)>>());
    let (lines, areas) = (format!("s{}", colour.class), format!("f{}", colour.class));
    html! {
        @for places in parts.filter(|_| curve.joined) {
            (Polyline { colour: *colour, width: 1.5, dashes }.through(&places))
        }
        @for level in &curve.levels {
            @let (at, up) = position(level);
            @if let Some(interval) = StatisticEstimate::find(&level.intervals, *statistic) {
                @let (low, high) = (FRAME.y(y.position(interval.low)), FRAME.y(y.position(interval.high)));
                line class=(lines) x1=(n(at)) x2=(n(at)) y1=(n(low)) y2=(n(high)) stroke=(colour.light) stroke-width="1.2" {}
            }
            @if let Some(interval) = StatisticEstimate::find(&level.intervals, Statistic::Throughput) {
                @let (low, high) = (FRAME.x(x.position(interval.low)), FRAME.x(x.position(interval.high)));
                line class=(lines) x1=(n(low)) x2=(n(high)) y1=(n(up)) y2=(n(up)) stroke=(colour.light) stroke-width="1.2" {}
            }
            @let hollow = !Outcome::new(level).is_valid();
            circle class=(if hollow { format!("hollow {lines}") } else { areas.clone() }) cx=(n(at)) cy=(n(up)) r="3.6"
                fill=(if hollow { "#ffffff" } else { colour.light }) stroke=[hollow.then_some(colour.light)] {
                title { (tip(level, *statistic)) }
            }
        }
    }
}

/// The knee of a line whose levels follow from each other; that of a sweep of rates is reported beside its saturation.
fn knee<'a>(curve: &Curve<'a>) -> Option<&'a LevelSummary> {
    answer::knee(&curve.levels, curve.statistic).filter(|_| curve.joined).map(|knee| knee.level)
}

/// A ring around the knee of the first line, on all lines.
fn ring(curves: &[Curve<'_>], scales: Scales) -> Markup {
    let Scales { x, y } = scales;
    let Some(knee) = curves.first().and_then(knee) else { return html! {} };
    let colour = of_kind(5);
    html! { @for curve in curves {
        circle class=(format!("s{}", colour.class)) cx=(n(FRAME.x(x.position(knee.client.throughput()))))
            cy=(n(FRAME.y(y.position(value(curve.statistic, &knee.client))))) r="7.5" fill="none" stroke=(colour.light) stroke-width="1.2" {
            title { "the knee: " (self::level(knee)) }
        }
    } }
}

fn tip(level: &LevelSummary, statistic: Statistic) -> String {
    let outcome = Outcome::new(level);
    let latency = time(value(statistic, &level.client));
    format!("{}: {}/s, {} {latency}, {outcome}", self::level(level), rate(level.client.throughput()), statistic.name())
}

/// On the right, at the height of each line's last point.
fn names(curves: &[Curve<'_>], y: Scale) -> Markup {
    let last = |curve: &Curve<'_>| {
        curve.levels.last().map_or(FRAME.top, |level| FRAME.y(y.position(value(curve.statistic, &level.client))))
    };
    let places = spread(&curves.iter().map(last).collect::<Vec<_>>(), 22.0, FRAME.top..=FRAME.bottom());
    html! {
        @for (curve, height) in curves.iter().zip(places) {
            (coloured(FRAME.right() + 8.0, height + 4.0, Anchor::Start, curve.colour, &curve.name))
        }
    }
}

/// At the highest line, the load of each point, the ends first; those without room are left out.
fn level_names(labels: &mut Labels, curves: &[Curve<'_>], scales: Scales) -> Markup {
    let Scales { x, y } = scales;
    let Some(highest) = curves.last() else { return html! {} };
    let mut levels: Vec<&LevelSummary> = highest.levels.clone();
    levels.rotate_right(1);
    let mut names = Vec::new();
    for level in levels {
        let (at, up) = (
            FRAME.x(x.position(level.client.throughput())),
            FRAME.y(y.position(value(highest.statistic, &level.client))),
        );
        let (above, below) = ((up - 7.0).max(FRAME.top - 2.0), (up + 16.0).min(FRAME.bottom() - 4.0));
        let spot =
            |y: f64, anchor: Anchor| Spot { x: if anchor == Anchor::End { at - 7.0 } else { at + 7.0 }, y, anchor };
        // At the left edge there is no room before the point, and at the right edge none behind it.
        let before = [above, below].map(|y| spot(y, Anchor::End)).into_iter().filter(|_| at > FRAME.left + 60.0);
        let behind = [above, below].map(|y| spot(y, Anchor::Start)).into_iter().filter(|_| at < FRAME.right() - 60.0);
        let spots: Vec<Spot> = before.chain(behind).collect();
        let name = self::level(level);
        names.extend(labels.place(&name, &spots).map(|(spot, hidden)| (spot, hidden, name)));
    }
    html! { @for (Spot { x, y, anchor }, hidden, name) in &names {
        text.dim.halo.t2[*hidden] x=(n(*x)) y=(n(*y)) text-anchor=(anchor.name()) fill="#5b6672" stroke="#ffffff"
            stroke-width="3" paint-order="stroke" { (name) }
    } }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::summary::{LevelLoad, sample};

    #[test]
    fn the_knee_has_the_most_throughput_for_its_latency() {
        // Three servers: throughput grows to 300 a second, and from there on only the latency does.
        let level =
            |load: u32, requests: u64, ms: u64| sample::level(LevelLoad::Concurrency(load), requests, ms * 1_000_000);
        let levels = [level(1, 100, 10), level(2, 200, 10), level(3, 300, 10), level(4, 300, 14), level(8, 300, 27)];
        let curve = |levels: &'static [LevelSummary], joined: bool| Curve {
            name: String::new(),
            statistic: Statistic::Percentile(50.0),
            colour: of_kind(0),
            dashes: "",
            joined,
            levels: levels.iter().collect(),
        };
        let levels: &'static [LevelSummary] = Box::leak(Box::new(levels));
        assert_eq!(knee(&curve(levels, true)).map(|level| level.load), Some(LevelLoad::Concurrency(3)));
        assert!(knee(&curve(levels, false)).is_none() && knee(&curve(&levels[..2], true)).is_none());
    }
}
