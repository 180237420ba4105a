//! Where the mean latency goes: what the client knows around what the server knows.

use maud::{Markup, html};

use crate::measure::summary::{LevelSummary, ServerSummary};
use crate::report::draw::{Anchor, Axis, Colour, Frame, KINDS, Scale, axes, dim, n, picture, text};
use crate::report::figures::common::{Shown, chosen, level, time, with_requests};
use crate::result::Setup;

const LEFT: f64 = 84.0;
const BAR: f64 = 18.0;
const PITCH: f64 = 27.0;

/// A part of the mean latency.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Part {
    /// What it is.
    pub name: &'static str,
    /// Its mean, in nanoseconds.
    pub ns: f64,
    /// Its colour's number.
    colour: usize,
}

/// The parts of a level's mean service time, in the order of a request, including the unexplained rest. `None` if the
/// server does not report its part.
pub fn parts(setup: &Setup, level: &LevelSummary) -> Option<Vec<Part>> {
    let server = level.server.as_ref().filter(|_| setup.entries.len() < 2 && !setup.decoupled)?;
    let client = &level.client;
    let total = client.service_time().mean_ns();
    let waited = client.open_loop.as_ref().map(|open| open.schedule_delay.mean_ns());
    let inside = server_parts(server);
    let told: f64 = inside.iter().map(|part| part.ns).sum();
    let request = mean(server.delta.success).max(told);
    let (send, receive) = if setup.times_transfers { (client.send_ns, client.receive_ns) } else { (0.0, 0.0) };
    let rest = (total - send - receive - request).max(0.0);
    let part = |name, ns, colour| Part { name, ns, colour };
    let mut all = vec![part("waiting to be sent", waited.unwrap_or(0.0), 3), part("client send", send, 6)];
    all.extend(inside);
    all.push(part("server, other", (request - told).max(0.0), 4));
    all.push(part("client receive", receive, 7));
    all.push(part(if setup.times_transfers { "network and other" } else { "outside the server" }, rest, 5));
    all.retain(|part| part.ns > 0.0);
    Some(all)
}

/// The server's parts; for an ensemble, model by model.
fn server_parts(server: &ServerSummary) -> Vec<Part> {
    let part = |name, ns, colour| Part { name, ns, colour };
    if server.composing.is_empty() {
        let delta = &server.delta;
        return vec![
            part("queue", mean(delta.queue), 1),
            part("cache", per(delta.cache_hit.ns.saturating_add(delta.cache_miss.ns), delta.success.count), 4),
            part("compute input", mean(delta.compute_input), 2),
            part("compute infer", mean(delta.compute_infer), 0),
            part("compute output", mean(delta.compute_output), 2),
        ];
    }
    let all = server.composing.iter().flat_map(server_parts);
    let mut sums = [part("queue", 0.0, 1), part("cache", 0.0, 4), part("compute", 0.0, 0)];
    for one in all {
        let place = match one.name {
            "queue" => 0,
            "cache" => 1,
            _ => 2,
        };
        sums[place].ns += one.ns;
    }
    sums.to_vec()
}

fn mean(counted: crate::model::statistics::CountedTime) -> f64 {
    per(counted.ns, counted.count)
}

fn per(ns: u64, count: u64) -> f64 {
    if count == 0 { 0.0 } else { ns as f64 / count as f64 }
}

/// A bar for each level.
pub fn draw(shown: &Shown<'_>) -> Option<Markup> {
    let levels = chosen(with_requests(shown.result));
    let told = |(_, level): (usize, &LevelSummary)| Some((self::level(level), parts(&shown.result.setup, level)?));
    let bars: Vec<(String, Vec<Part>)> = levels.into_iter().filter_map(told).collect();
    let sum = |parts: &[Part]| parts.iter().map(|part| part.ns).sum::<f64>();
    let most = bars.iter().map(|(_, parts)| sum(parts)).fold(0.0, f64::max);
    if most <= 0.0 {
        return None;
    }
    let names = names(&bars);
    let frame = Frame {
        left: LEFT,
        top: 26.0 + 24.0 * names.len().div_ceil(3) as f64,
        width: 470.0,
        height: PITCH * bars.len() as f64,
    };
    let x = Scale::from_zero([most].into_iter());
    let axis = Axis { scale: x, ticks: x.ticks(5), label: &time, title: "" };
    let none = Axis { scale: x, ticks: Vec::new(), label: &time, title: "" };
    let content = html! {
        (legend(&names))
        (axes(&frame, &axis, &none))
        @for (number, (name, parts)) in bars.iter().enumerate() {
            @let top = frame.top + PITCH * number as f64 + (PITCH - BAR) / 2.0;
            (dim(LEFT - 7.0, top + 13.0, Anchor::End, name))
            (bar(&frame, x, top, parts))
            (text(frame.x(x.place(sum(parts))) + 6.0, top + 13.0, Anchor::Start, &time(sum(parts))))
        }
    };
    Some(picture(frame.bottom() + 34.0, "Where the mean latency goes, a bar for each level", &content))
}

fn bar(frame: &Frame, x: Scale, top: f64, parts: &[Part]) -> Markup {
    let mut from = 0.0;
    let places: Vec<(f64, f64, &Part)> = parts
        .iter()
        .map(|part| {
            let left = from;
            from += part.ns;
            (frame.x(x.place(left)), frame.x(x.place(from)), part)
        })
        .collect();
    html! {
        @for (left, right, part) in places {
            @let colour = KINDS[part.colour];
            rect class={ "part f" (colour.class) } x=(n(left)) y=(n(top)) width=(n((right - left).max(0.3))) height=(n(BAR))
                fill=(colour.light) stroke="#ffffff" stroke-width="0.8" {
                title { (part.name) ": " (time(part.ns)) }
            }
        }
    }
}

/// The parts that occur.
fn names(bars: &[(String, Vec<Part>)]) -> Vec<(&'static str, Colour)> {
    let mut all: Vec<(&'static str, Colour)> = Vec::new();
    for part in bars.iter().flat_map(|(_, parts)| parts) {
        if all.iter().all(|(name, _)| *name != part.name) {
            all.push((part.name, KINDS[part.colour]));
        }
    }
    all
}

/// In rows of three.
fn legend(names: &[(&'static str, Colour)]) -> Markup {
    html! {
        @for (number, (name, colour)) in names.iter().enumerate() {
            @let (x, y) = (8.0 + 212.0 * (number % 3) as f64, 16.0 + 24.0 * (number / 3) as f64);
            rect class={ "f" (colour.class) } x=(n(x)) y=(n(y - 9.0)) width="11" height="11" rx="2" fill=(colour.light) {}
            (text(x + 17.0, y, Anchor::Start, name))
        }
    }
}
