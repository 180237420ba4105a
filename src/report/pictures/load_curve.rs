//! Latency against throughput: a point for each level, with crosses as wide as their confidence intervals.

use maud::{Markup, html};

use crate::draw::{
    Anchor, Arms, Axis, Frame, Labels, Mark, Polyline, Scale, Scales, Spot, axes, coloured, dash, n, near, of_kind,
    picture, spread,
};
use crate::number::{rate, time};
use crate::pictures::common::{Legend, Shown, figure_name, letter, level, with_requests};
use crate::result::figures::FigureAt;
use crate::result::outcome::Outcome;
use crate::result::statistic::value;
use crate::result::summary::{LevelSummary, StatisticEstimate};
use crate::result::{RunResult, answer};
use crate::terms::{Statistic, TAIL};

const FRAME: Frame = Frame { left: 84.0, top: 48.0, width: 450.0, height: 250.0 };
/// The height without a legend.
const HEIGHT: f64 = 352.0;
/// Arms this many times as far as any point are on the axes; longer ones are cut off and marked.
const REACH: f64 = 2.0;

/// A line of points.
struct Curve<'a> {
    name: String,
    statistic: Statistic,
    /// Of its colour, dashes and marks.
    number: usize,
    /// Whether levels follow from each other, which stages do not.
    joined: bool,
    levels: Vec<&'a LevelSummary>,
}

impl<'a> Curve<'a> {
    /// Its levels by batch size: those of different sizes do not follow from each other.
    fn parts(&self) -> impl Iterator<Item = &[&'a LevelSummary]> {
        self.levels.chunk_by(|left, right| left.client.batch_size == right.client.batch_size)
    }

    /// Where a level is in the picture.
    fn position(&self, level: &LevelSummary, scales: Scales) -> (f64, f64) {
        let Scales { x, y } = scales;
        (FRAME.x(x.position(level.client.throughput())), FRAME.y(y.position(value(self.statistic, &level.client))))
    }
}

/// For one result the median and the 99th percentile, or the percentile that it is judged by; for several only that, a
/// line for each.
pub fn draw(shown: &[Shown<'_>]) -> Option<Markup> {
    let curves = curves(shown);
    if curves.iter().all(|curve| curve.levels.is_empty()) {
        return None;
    }
    let mut limits: Vec<Limit> = shown.iter().filter_map(Limit::new).collect();
    limits.dedup();
    let scales = scales(&curves, &limits);
    let Scales { x, y } = scales;
    let horizontal = Axis { scale: x, ticks: x.ticks(6), label: &rate, title: "throughput, inferences/s" };
    let upright = Axis { scale: y, ticks: y.ticks(6), label: &time, title: "latency" };
    let mut labels = Labels::within(FRAME.left, FRAME.right() + 6.0);
    let points = curves.iter().flat_map(|curve| curve.levels.iter().map(|level| curve.position(level, scales)));
    points.for_each(|(x, y)| labels.avoid(x, y));
    let legend = Legend { results: shown, marked: true };
    let content = html! {
        (axes(&FRAME, &horizontal, &upright))
        @for limit in &limits { (threshold(&mut labels, y, limit)) }
        @for curve in &curves { (draw_curve(curve, scales)) }
        @if let [run] = shown { (ring(run.result, &curves, scales)) }
        (names(&curves, scales))
        (level_names(&mut labels, named_curves(&curves, shown.len()), scales))
        (legend.below(HEIGHT))
    };
    Some(picture(HEIGHT + legend.height(), "Latency against throughput, a point for each level", &content))
}

/// Both axes have every point, the limits, and the arms unless they are very long.
fn scales(curves: &[Curve<'_>], limits: &[Limit]) -> Scales {
    let all = || curves.iter().flat_map(|curve| curve.levels.iter().map(move |level| (curve.statistic, level)));
    let arms = |statistic: Statistic, level: &LevelSummary| StatisticEstimate::find(&level.intervals, statistic);
    let mut rates: Vec<f64> = all().map(|(_, level)| level.client.throughput()).collect();
    rates.extend(near(&rates, all().filter_map(|(_, level)| arms(Statistic::Throughput, level)), REACH));
    let mut latencies: Vec<f64> = all().map(|(statistic, level)| value(statistic, &level.client)).collect();
    latencies.extend(near(&latencies, all().filter_map(|(statistic, level)| arms(statistic, level)), REACH));
    latencies.extend(limits.iter().map(|limit| limit.ns));
    Scales { x: Scale::from_zero(rates.into_iter()), y: Scale::of_latencies(latencies.into_iter()) }
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
            name: if statistic == Statistic::MeanLatency { "mean".to_owned() } else { statistic.name() },
            statistic,
            number,
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
        number,
        joined: joined(run),
        levels: levels(run.result),
    };
    shown.iter().enumerate().map(curve).collect()
}

/// A threshold, and the latency that it applies to.
#[derive(PartialEq)]
struct Limit {
    ns: f64,
    key: String,
}

impl Limit {
    fn new(run: &Shown<'_>) -> Option<Self> {
        let plan = &run.result.setup.measurement;
        let key = figure_name(FigureAt::of_statistic(plan.key_latency()));
        Some(Self { ns: plan.latency_threshold?.as_nanos() as f64, key })
    }
}

fn threshold(labels: &mut Labels, y: Scale, limit: &Limit) -> Markup {
    let at = FRAME.y(y.position(limit.ns));
    let words = format!("threshold for {}: {}", limit.key, time(limit.ns));
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
    let (statistic, colour) = (curve.statistic, of_kind(curve.number));
    let parts = curve.parts().map(|part| part.iter().map(|level| curve.position(level, scales)).collect::<Vec<_>>());
    let latencies = Arms { frame: &FRAME, scale: y, colour };
    let rates = Arms { frame: &FRAME, scale: x, colour };
    html! {
        @for places in parts.filter(|_| curve.joined) {
            (Polyline { colour, width: 1.5, dashes: dash(curve.number) }.through(&places))
        }
        @for level in &curve.levels {
            @let (at, up) = curve.position(level, scales);
            @if let Some(arm) = StatisticEstimate::find(&level.intervals, statistic) { (latencies.upright(at, arm)) }
            @if let Some(arm) = StatisticEstimate::find(&level.intervals, Statistic::Throughput) { (rates.level(up, arm)) }
            @let mark = Mark { hollow: !Outcome::new(level).is_valid(), ..Mark::of_line(curve.number) };
            (mark.at(at, up, &tip(level, statistic)))
        }
    }
}

/// The knee of levels that follow from each other, as the answer has it: by the latency that the run is judged by, among the levels
/// that the server kept up with. A range that ends before it bends has none yet, and that of a sweep of rates is reported
/// beside its saturation.
fn knee(result: &RunResult) -> Option<&LevelSummary> {
    let measured: Vec<&LevelSummary> = with_requests(result).into_iter().map(|(_, level)| level).collect();
    let is_kept = |level: &&LevelSummary| {
        !matches!(Outcome::new(level), Outcome::Undelivered | Outcome::Overloaded | Outcome::Failed)
    };
    let kept: Vec<&LevelSummary> = measured.iter().copied().filter(is_kept).collect();
    let among = if kept.is_empty() { &measured } else { &kept };
    let found = answer::knee(among, result.setup.measurement.key_latency())?.level;
    let is_bent = measured.iter().any(|level| level.load.number() > found.load.number());
    (is_bent && result.setup.mode.stages().is_empty()).then_some(found)
}

/// A ring around the knee, on all lines.
fn ring(result: &RunResult, curves: &[Curve<'_>], scales: Scales) -> Markup {
    let Some(knee) = knee(result) else { return html! {} };
    let colour = of_kind(5);
    html! { @for curve in curves {
        @let (at, up) = curve.position(knee, scales);
        circle class={ "knee s" (colour.class) } cx=(n(at)) cy=(n(up)) r="7.5" fill="none" stroke=(colour.light)
            stroke-width="1.2" { title { "the knee: " (self::level(knee)) } }
    } }
}

fn tip(level: &LevelSummary, statistic: Statistic) -> String {
    let outcome = Outcome::new(level);
    let latency = time(value(statistic, &level.client));
    let (name, figure) = (self::level(level), figure_name(FigureAt::of_statistic(statistic)));
    format!("{name}: {} infer/s, {figure} {latency}, {outcome}", rate(level.client.throughput()))
}

/// On the right, at the height of each line's last point.
fn names(curves: &[Curve<'_>], scales: Scales) -> Markup {
    let last = |curve: &Curve<'_>| curve.levels.last().map_or(FRAME.top, |level| curve.position(level, scales).1);
    let places = spread(&curves.iter().map(last).collect::<Vec<_>>(), 22.0, FRAME.top..=FRAME.bottom());
    html! {
        @for (curve, height) in curves.iter().zip(places) {
            (coloured(FRAME.right() + 8.0, height + 4.0, Anchor::Start, of_kind(curve.number), &curve.name))
        }
    }
}

/// The lines whose points are named: of a single result the highest, because all have the same levels.
fn named_curves<'a, 'l>(curves: &'a [Curve<'l>], results: usize) -> &'a [Curve<'l>] {
    if results > 1 { curves } else { &curves[curves.len().saturating_sub(1)..] }
}

/// The load of each point, the ends of all lines first; those without room are left out.
fn level_names(labels: &mut Labels, curves: &[Curve<'_>], scales: Scales) -> Markup {
    let is_inside = |curve: &Curve<'_>, number: usize| number > 0 && number + 1 < curve.levels.len();
    let points = curves.iter().flat_map(|curve| {
        curve.levels.iter().enumerate().map(move |(number, level)| (is_inside(curve, number), curve, *level))
    });
    let mut points: Vec<(bool, &Curve<'_>, &LevelSummary)> = points.collect();
    points.sort_by_key(|(is_inside, ..)| *is_inside);
    let mut names = Vec::new();
    for (_, curve, level) in points {
        let (at, up) = curve.position(level, scales);
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
    use crate::draw::BEYOND;
    use crate::level_name;
    use crate::result::setup::sample as plans;
    use crate::result::summary::{LevelLoad, sample};
    use crate::stats::Interval;

    fn result(requests: u64, arms: &[(Statistic, Interval)]) -> RunResult {
        let mut level = sample::level(LevelLoad::Concurrency(1), requests, 10_000_000);
        level.intervals = arms.iter().map(|(statistic, arm)| StatisticEstimate::new(*statistic, Some(*arm))).collect();
        plans::result(&plans::setup(), &[level])
    }

    #[test]
    fn lines_of_several_results_have_names_and_shapes() {
        let [first, second, third] = [100, 200, 300].map(|requests| result(requests, &[]));
        let shown = [Shown::new("old", &first), Shown::new("new", &second), Shown::new("next", &third)];
        let drawn = draw(&shown).unwrap().into_string();
        for name in [">A old<", ">B new<", ">C next<", ">A p99<", ">B p99<", ">C p99<"] {
            assert_eq!(drawn.matches(name).count(), 1, "{name}: {drawn}");
        }
        // A point and an entry of the legend: circles, squares, triangles.
        let of_kind = |kind: usize| drawn.split("<path").filter(|tag| tag.contains(&format!("mark f{kind}\""))).count();
        assert_eq!([0, 1, 2].map(of_kind), [2, 2, 2], "{drawn}");
        assert!(drawn.contains("viewBox=\"0 0 640 410\""), "there is room for the legend: {drawn}");
        assert!(!draw(&shown[..1]).unwrap().into_string().contains(">A "));
    }

    #[test]
    fn points_of_every_result_are_named() {
        let result = |ms: u64, loads: [u32; 2]| {
            let level = |load: u32| {
                sample::level(LevelLoad::Concurrency(load), u64::from(load) * 100, ms * u64::from(load) * 1_000_000)
            };
            plans::result(&plans::setup(), &loads.map(level))
        };
        let (old, new) = (result(10, [1, 4]), result(40, [2, 8]));
        let drawn = draw(&[Shown::new("old", &old), Shown::new("new", &new)]).unwrap().into_string();
        for name in [">c 1<", ">c 4<", ">c 2<", ">c 8<"] {
            assert_eq!(drawn.matches(name).count(), 1, "{name}: {drawn}");
        }
        let alone = draw(&[Shown::new("old", &old)]).unwrap().into_string();
        assert_eq!(alone.matches(">c 4<").count(), 1, "its lines have the same levels: {alone}");
    }

    #[test]
    fn axes_have_every_arm_or_mark_it() {
        let p99 = Statistic::Percentile(99.0);
        let rate = Interval { low: 90.0, high: 140.0 };
        let drawn = |high: f64| {
            let latency = Interval { low: 9e6, high };
            draw(&[Shown::new("r", &result(100, &[(Statistic::Throughput, rate), (p99, latency)]))])
                .unwrap()
                .into_string()
        };
        let near = drawn(16e6);
        assert!(!near.contains(BEYOND) && near.contains(">150<"), "{near}");
        let far = drawn(1e9);
        assert_eq!(far.matches(BEYOND).count(), 1, "{far}");
    }

    #[test]
    fn a_threshold_is_that_of_the_latency_that_its_own_result_is_judged_by() {
        let judged = |percentile| {
            let mut setup = plans::setup();
            setup.measurement.percentile = percentile;
            setup.measurement.latency_threshold = percentile.map(|_| std::time::Duration::from_millis(35));
            plans::result(&setup, &[sample::level(LevelLoad::Concurrency(1), 100, 10_000_000)])
        };
        let (mean, tail) = (judged(None), judged(Some(95.0)));
        let drawn = draw(&[Shown::new("a", &mean), Shown::new("b", &tail)]).unwrap().into_string();
        assert!(drawn.contains("threshold for p95: 35 ms") && !drawn.contains("threshold for mean"), "{drawn}");
    }

    #[test]
    fn the_knee_has_the_most_throughput_for_its_latency() {
        // Three servers: throughput grows to 300 a second, and from there on only the latency does.
        let level =
            |load: u32, requests: u64, ms: u64| sample::level(LevelLoad::Concurrency(load), requests, ms * 1_000_000);
        let levels = [level(1, 100, 10), level(2, 200, 10), level(3, 300, 10), level(4, 300, 14), level(8, 300, 27)];
        let found = |levels: &[LevelSummary]| {
            let result = plans::result(&plans::setup(), levels);
            let ringed = knee(&result).map(|level| level_name(level.load));
            let words = result.answer().unwrap().words;
            let named = words.strip_prefix("Knee: ").and_then(|words| words.split_once(" at ")?.1.split_once(" ("));
            assert_eq!(ringed, named.map(|(name, _)| name.to_owned()), "as the answer has it: {words}");
            assert_eq!(draw(&[Shown::new("a", &result)]).unwrap().into_string().contains("\"knee "), ringed.is_some());
            ringed
        };
        assert_eq!(found(&levels).as_deref(), Some("concurrency 3"));
        assert_eq!(found(&levels[..3]), None, "more load would tell where it bends");
        assert_eq!(found(&levels[..2]), None);
        // Its mean, by which it is judged, is worse than its median.
        let mut wide = levels.clone();
        wide[2].client.latency = sample::distribution(200, 10_000_000);
        wide[2].client.latency.histogram.record_n(200_000_000, 100).unwrap();
        wide[2].client.latency.sum_ns += 100 * 200_000_000;
        assert_eq!(found(&wide).as_deref(), Some("concurrency 4"));
    }
}
