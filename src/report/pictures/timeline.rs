//! What happened over time: rates, latencies, lateness and failures, one band above the other.

use maud::{Markup, html};

use crate::draw::{
    Anchor, Axis, Colour, Frame, KINDS, Polyline, Scale, Scales, axes, coloured, grid, n, peaks, picture, spread,
    step_path,
};
use crate::is_burst;
use crate::number::{rate, time};
use crate::pictures::common::Shown;
use crate::pictures::time_axis::TimeAxis;
use crate::result::summary::{LevelLoad, LevelSummary};

/// The first band.
const FRAME: Frame = Frame { left: 84.0, top: 48.0, width: 466.0, height: 110.0 };
/// Distance from one band to the next.
const PITCH: f64 = 160.0;
/// A level with fewer windows is drawn by its slices, which are shorter.
const FEW_WINDOWS: usize = 24;

/// A span of time and a value.
type Stretch = (f64, f64, f64);

/// A line over time.
struct Series {
    name: &'static str,
    colour: Colour,
    width: f64,
    dashes: &'static str,
    stretches: Vec<Stretch>,
}

/// Lines on one scale.
struct Band {
    title: &'static str,
    scale: Scale,
    label: fn(f64) -> String,
    series: Vec<Series>,
}

/// A span of a level's time, from a window or a slice of it.
#[derive(Default)]
struct TimeSlice {
    from: f64,
    to: f64,
    completed: f64,
    failed: f64,
    p50: Option<f64>,
    p99: Option<f64>,
    max: f64,
    late: Option<f64>,
}

/// Draws the bands that have something to show.
pub fn draw(shown: &Shown<'_>) -> Option<Markup> {
    let axis = TimeAxis::new(shown)?;
    let bands = bands(&axis);
    let height = PITCH * bands.len() as f64 + 32.0;
    let ticks = axis.scale.ticks(7);
    let content = html! {
        @for (number, band) in bands.iter().enumerate() {
            @let frame = Frame { top: FRAME.top + PITCH * number as f64, ..FRAME };
            @let upright = Axis { scale: band.scale, ticks: band.scale.ticks(4), label: &band.label, title: band.title };
            (axis.background(&frame, number == 0))
            @if number + 1 == bands.len() {
                (axes(&frame, &Axis { scale: axis.scale, ticks: ticks.clone(), label: &|at| axis.label(at), title: "" }, &upright))
            } @else {
                (grid(&frame, &upright))
            }
            @for series in &band.series { (line(&frame, &axis, band.scale, series)) }
            (names(&frame, band))
            @if number == 0 { (marks(&frame, &axis)) }
        }
    };
    Some(picture(height, "Rate, latency and lateness over time", &content))
}

fn bands(axis: &TimeAxis<'_>) -> Vec<Band> {
    let samples: Vec<TimeSlice> = axis.levels.iter().flat_map(|level| samples(axis, level)).collect();
    let series = |name, number: usize, width, value: &dyn Fn(&TimeSlice) -> Option<f64>| Series {
        name,
        colour: KINDS[number],
        width,
        dashes: "",
        stretches: samples.iter().filter_map(|sample| Some((sample.from, sample.to, value(sample)?))).collect(),
    };
    let highest = |all: &[Series]| {
        let values: Vec<f64> = all.iter().flat_map(|series| series.stretches.iter().map(|stretch| stretch.2)).collect();
        values.into_iter()
    };
    let mut rates = vec![series("done", 0, 1.6, &|sample| Some(sample.completed))];
    let asked = Series { dashes: "5 3", stretches: asked(axis), ..series("asked", 5, 1.2, &|_| None) };
    rates.extend(Some(asked).filter(|asked| !asked.stretches.is_empty()));
    let latencies = vec![
        series("max", 5, 0.8, &|sample| Some(sample.max).filter(|max| *max > 0.0)),
        series("p99", 1, 1.4, &|sample| sample.p99),
        series("p50", 0, 1.6, &|sample| sample.p50),
    ];
    let late = vec![series("latest", 3, 1.4, &|sample| sample.late)];
    let failed = vec![series("failed", 1, 1.6, &|sample| Some(sample.failed))];
    let mut bands =
        vec![Band { title: "requests/s", scale: Scale::from_zero(highest(&rates)), label: rate, series: rates }];
    // Where no request succeeded there is none.
    if latencies.iter().any(|series| !series.stretches.is_empty()) {
        let scale = Scale::of_latencies(highest(&latencies));
        bands.push(Band { title: "latency", scale, label: time, series: latencies });
    }
    if late.iter().any(|series| !series.stretches.is_empty()) {
        let scale = Scale::of_latencies(highest(&late));
        bands.push(Band { title: "sent late by", scale, label: time, series: late });
    }
    if samples.iter().any(|sample| sample.failed > 0.0) {
        bands.push(Band {
            title: "failures/s",
            scale: Scale::from_zero(highest(&failed)),
            label: rate,
            series: failed,
        });
    }
    bands
}

fn samples(axis: &TimeAxis<'_>, level: &LevelSummary) -> Vec<TimeSlice> {
    if level.windows.len() >= FEW_WINDOWS || level.timeline.slices.is_empty() {
        return level
            .windows
            .iter()
            .map(|row| {
                let (from, seconds) = (axis.seconds(row.start), row.duration.as_secs_f64());
                let at = |name: &str| row.percentiles_ns.get(name).map(|ns| *ns as f64).filter(|ns| *ns > 0.0);
                TimeSlice {
                    from,
                    to: from + seconds,
                    completed: row.rate,
                    failed: if seconds > 0.0 { row.failed as f64 / seconds } else { 0.0 },
                    p50: at("50"),
                    p99: at("99"),
                    max: row.max_ns as f64,
                    late: row.late_ns.map(|ns| ns as f64),
                }
            })
            .collect();
    }
    let mut from = level.windows.first().map_or(0.0, |row| axis.seconds(row.start));
    let slices = level.timeline.slices.iter().filter(|slice| slice.duration_s > 0.0).map(|slice| {
        let sample = TimeSlice {
            from,
            to: from + slice.duration_s,
            completed: slice.requests() as f64 / slice.duration_s,
            failed: slice.failed as f64 / slice.duration_s,
            p50: slice.quantile_ns(0.5),
            p99: slice.quantile_ns(0.99),
            max: slice.max_ns as f64,
            late: slice.late_ns.map(|ns| ns as f64),
        };
        from = sample.to;
        sample
    });
    slices.collect()
}

/// The requested rate, if there is one.
fn asked(axis: &TimeAxis<'_>) -> Vec<Stretch> {
    let stretch = |level: &&LevelSummary| {
        let rate = match level.load {
            LevelLoad::Concurrency(_) => return None,
            _ if is_burst(level.load) => return None,
            LevelLoad::Streams(_) => level.client.open_loop.as_ref()?.requested_rate,
            LevelLoad::RequestRate(rate) | LevelLoad::Schedule(rate) => rate,
        };
        let (first, last) = (level.windows.first()?, level.windows.last()?);
        Some((axis.seconds(first.start), axis.seconds(last.start.plus_duration(last.duration)), rate))
    };
    axis.levels.iter().filter_map(stretch).collect()
}

fn line(frame: &Frame, axis: &TimeAxis<'_>, scale: Scale, series: &Series) -> Markup {
    let scales = Scales { x: axis.scale, y: scale };
    let data = if series.name == "done" {
        // Both envelopes: a rate that broke down must be as visible as one that shot up.
        let low = step_path(frame, scales, &peaks(series.stretches.clone(), f64::min));
        let high = step_path(frame, scales, &peaks(series.stretches.clone(), f64::max));
        if low == high { high } else { high + &low }
    } else {
        step_path(frame, scales, &peaks(series.stretches.clone(), f64::max))
    };
    Polyline { colour: series.colour, width: series.width, dashes: series.dashes }.path(&data)
}

fn names(frame: &Frame, band: &Band) -> Markup {
    let last =
        |series: &Series| series.stretches.last().map_or(frame.top, |stretch| frame.y(band.scale.position(stretch.2)));
    let wanted: Vec<f64> = band.series.iter().map(last).collect();
    let places = spread(&wanted, 22.0, frame.top..=frame.bottom());
    html! {
        @for (series, height) in band.series.iter().zip(places) {
            (coloured(frame.right() + 8.0, height + 4.0, Anchor::Start, series.colour, series.name))
        }
    }
}

/// A mark below disturbed windows.
fn marks(frame: &Frame, axis: &TimeAxis<'_>) -> Markup {
    let disturbed = axis.levels.iter().flat_map(|level| &level.windows).filter(|row| row.disturbance.is_some());
    let mut stretches: Vec<(f64, f64)> = Vec::new();
    for row in disturbed {
        let edges = [row.start, row.start.plus_duration(row.duration)];
        let [from, to] = edges.map(|at| frame.x(axis.scale.position(axis.seconds(at))));
        match stretches.last_mut() {
            Some(last) if from - last.1 < 1.0 => last.1 = to,
            _ => stretches.push((from, to)),
        }
    }
    let data = stretches.iter().map(|(from, to)| {
        let wide = n((to - from).max(1.0));
        format!("M{} {}h{wide}v4h-{wide}z", n(*from), n(frame.bottom() + 1.0))
    });
    let data: String = data.collect();
    html! { @if !data.is_empty() { path.alarm d=(data) fill="#b42318" { title { "disturbed windows" } } } }
}
