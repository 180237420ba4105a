//! Latency against the share of requests that took no longer, on a scale that gives every further nine the same width.

use std::ops::RangeInclusive;

use maud::{Markup, html};

use crate::draw::{
    Anchor, Axis, Colour, Frame, Labels, Polyline, Scale, Scales, Spot, Tick, WIDTH, axes, coloured, dash, dim, n,
    of_kind, of_order, picture, spread,
};
use crate::number::time;
use crate::pictures::common::{Legend, MAX_LEVELS, Shown, chosen, letter, level, with_requests};
use crate::result::summary::{Distribution, LevelSummary};

const FRAME: Frame = Frame { left: 84.0, top: 48.0, width: 450.0, height: 270.0 };
/// The height without a legend.
const HEIGHT: f64 = 372.0;
/// Points of a line.
const PLACES: usize = 120;
/// With this probability the interval of a percentile from order statistics has no upper end.
const OPEN_ABOVE: f64 = 0.025;

/// A line.
struct Curve<'a> {
    name: String,
    colour: Colour,
    dashes: &'static str,
    times: &'a Distribution,
    /// From the actual send, if the other runs from the intended one.
    service: Option<&'a Distribution>,
}

/// A line for each level of the results.
pub fn draw(shown: &[Shown<'_>]) -> Option<Markup> {
    let curves = curves(shown);
    let most = curves.iter().map(|curve| curve.times.count()).max()?;
    let all = curves.iter().flat_map(|curve| [Some(curve.times), curve.service]).flatten();
    let ends = all.flat_map(|times| [times.histogram.min() as f64, times.percentile_ns(100.0) as f64]);
    let y = Scale::of_latencies(ends.collect::<Vec<_>>().into_iter());
    let x = Scale::Log { low: 1.0, high: (most as f64).max(100.0) };
    let horizontal =
        Axis { scale: x, ticks: shares(most as f64), label: &share, title: "share of requests that took no longer" };
    let upright = Axis { scale: y, ticks: y.ticks(7), label: &time, title: "latency" };
    let alone = curves.len() == 1;
    let legend = Legend { results: shown, marked: false };
    let content = html! {
        (axes(&FRAME, &horizontal, &upright))
        @for curve in &curves { (draw_curve(curve, Scales { x, y }, alone)) }
        (names(&curves, y))
        (legend.below(HEIGHT))
    };
    Some(picture(HEIGHT + legend.height(), "Latency by percentile, a line for each level", &content))
}

fn curves<'a>(shown: &[Shown<'a>]) -> Vec<Curve<'a>> {
    let mut curves = Vec::new();
    let capacity = (MAX_LEVELS / shown.len().max(1)).max(1);
    for (number, run) in shown.iter().enumerate() {
        let mut levels = chosen(with_requests(run.result));
        if shown.len() > 1 {
            // The last ones matter.
            levels.drain(..levels.len().saturating_sub(capacity));
        }
        let count = levels.len();
        for (index, (_, level)) in levels.into_iter().enumerate() {
            let colour = if shown.len() > 1 { of_kind(number) } else { of_order(index, count) };
            let name = match shown.len() {
                1 => self::level(level),
                _ => format!("{} {}", letter(number), self::level(level)),
            };
            curves.push(Curve {
                name,
                colour,
                dashes: dash(index),
                times: &level.client.latency,
                service: service(level),
            });
        }
    }
    curves
}

/// The service time, if it differs from the latency.
fn service(level: &LevelSummary) -> Option<&Distribution> {
    let open = level.client.open_loop.as_ref()?;
    (open.response_time.sum_ns == level.client.latency.sum_ns).then_some(&open.service_time)
}

/// 0 %, 50 %, then one more nine each.
fn shares(most: f64) -> Vec<Tick> {
    let nines =
        std::iter::successors(Some(10.0), |value| Some(value * 10.0)).take_while(|value| *value <= most * 1.001);
    let minor = |value: f64| value == 2.0 || value == 4.0 || value == 20.0;
    [1.0, 2.0, 4.0, 20.0].into_iter().chain(nines).map(|value| Tick { value, minor: minor(value) }).collect()
}

/// `99.9 %` at 1/(1 − q) = 1000.
fn share(value: f64) -> String {
    let percent = 100.0 - 100.0 / value;
    let decimals = (value.log10() - 2.0).ceil().max(0.0) as usize;
    format!("{percent:.decimals$} %")
}

fn places(times: &Distribution, scales: Scales, shown: RangeInclusive<f64>) -> Vec<(f64, f64)> {
    let (Scales { x, y }, (from, to)) = (scales, shown.into_inner());
    let mut places: Vec<(f64, f64)> = Vec::new();
    for step in 0..=PLACES {
        let at = from * (to / from).powf(step as f64 / PLACES as f64);
        let up = FRAME.y(y.position(times.percentile_ns(100.0 - 100.0 / at) as f64));
        let point = (FRAME.x(x.position(at)), up);
        // Of a level stretch, only its ends.
        if let [.., before_last, last] = places[..]
            && (before_last.1 - up).abs() < 0.05
            && (last.1 - up).abs() < 0.05
        {
            places.pop();
        }
        places.push(point);
    }
    places
}

fn draw_curve(curve: &Curve<'_>, scales: Scales, alone: bool) -> Markup {
    let Curve { colour, dashes, times, .. } = curve;
    let count = (times.count() as f64).max(2.0);
    // Beyond this, chance alone decides how high the line is.
    let limit = (count / -OPEN_ABOVE.ln()).clamp(1.0, count);
    let main = places(times, scales, 1.0..=limit);
    html! {
        @if let Some(service) = curve.service {
            @let below = places(service, scales, 1.0..=count);
            @if alone { (waiting(curve, &below, &places(times, scales, 1.0..=count))) }
            (Polyline { colour: *colour, width: 1.0, dashes: "2 2" }.through(&below))
        }
        (Polyline { colour: *colour, width: 2.0, dashes }.through(&main))
        (Polyline { colour: *colour, width: 1.5, dashes: "1 3" }.through(&places(times, scales, limit..=count)))
    }
}

/// The area between the two lines of an open loop.
fn waiting(curve: &Curve<'_>, below: &[(f64, f64)], above: &[(f64, f64)]) -> Markup {
    let around = above.iter().chain(below.iter().rev()).map(|(x, y)| format!("{},{}", n(*x), n(*y)));
    let points: Vec<String> = around.collect();
    let class = format!("f{}", curve.colour.class);
    html! {
        polygon class=(class) points=(points.join(" ")) fill=(curve.colour.light) fill-opacity="0.18" {}
        (dim(FRAME.left + 10.0, FRAME.top + 14.0, Anchor::Start, "shaded: waiting to be sent"))
    }
}

fn names(curves: &[Curve<'_>], y: Scale) -> Markup {
    // Where a line ends: one request in all lies beyond.
    let end = |times: &Distribution| times.percentile_ns(100.0 - 100.0 / (times.count() as f64).max(2.0)) as f64;
    let last = |curve: &Curve<'_>| FRAME.y(y.position(end(curve.times)));
    let wanted: Vec<f64> = curves.iter().map(last).collect();
    let places = spread(&wanted, 22.5, FRAME.top - 2.0..=FRAME.bottom() - 4.0);
    let mut labels = Labels::within(0.0, WIDTH);
    let spot = |height: f64| Spot { x: FRAME.right() + 8.0, y: height + 4.0, anchor: Anchor::Start };
    html! {
        @for (curve, height) in curves.iter().zip(places) {
            @if let Some((Spot { x, y, anchor }, hidden)) = labels.place(&curve.name, &[spot(height)]) {
                g.t2[hidden] { (coloured(x, y, anchor, curve.colour, &curve.name)) }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::setup::sample as plans;
    use crate::result::summary::{LevelLoad, sample};

    #[test]
    fn a_line_has_its_name_where_it_ends() {
        let mut level = sample::level(LevelLoad::Concurrency(1), 200, 1_000_000);
        level.client.latency.histogram.record(20_000_000).unwrap();
        let result = plans::result(&plans::setup(), &[level]);
        let drawn = draw(&[Shown::new("r", &result)]).unwrap().into_string();
        let y = |text: &str| {
            text.chars().take_while(|c| c.is_ascii_digit() || *c == '.').collect::<String>().parse::<f64>()
        };
        let name = y(drawn.split(">c 1<").next().unwrap().rsplit(" y=\"").next().unwrap()).unwrap();
        let line = drawn.split("<path").last().unwrap().split(" d=\"").nth(1).unwrap().split('"').next().unwrap();
        let end = y(line.rsplit(' ').next().unwrap()).unwrap();
        assert!((name - 4.0 - end).abs() < 1.0, "{name} {end}: {drawn}");
    }
}
