//! Where the mean latency goes: what the client knows around what the server knows.

use maud::{Markup, html};

use crate::draw::{Anchor, Axis, Colour, Frame, KINDS, Scale, axes, dim, n, picture, text};
use crate::number::time;
use crate::pictures::common::{Shown, chosen, level, with_requests};
use crate::result::Setup;
use crate::result::summary::{LevelSummary, ServerSummary};

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
    let success = server.delta.success;
    let inside = server_parts(server, success.count);
    let inside_ns: f64 = inside.iter().map(|part| part.ns).sum();
    // Models that run beside each other take longer together than the request.
    let request = per(success.ns, success.count).max(inside_ns);
    let (send, receive) = if setup.times_transfers { (client.send_ns, client.receive_ns) } else { (0.0, 0.0) };
    let outside_ns = (total - send - receive - request).max(0.0);
    let part = |name, ns, colour| Part { name, ns, colour };
    let mut all = vec![part("waiting to be sent", waited.unwrap_or(0.0), 3), part("client send", send, 6)];
    all.extend(inside);
    all.push(part("server, other", (request - inside_ns).max(0.0), 4));
    all.push(part("client receive", receive, 7));
    all.push(part(if setup.times_transfers { "network and other" } else { "outside the server" }, outside_ns, 5));
    all.retain(|part| part.ns > 0.0);
    Some(all)
}

/// The server's parts of each of so many requests from outside; for an ensemble, the sums over its models. Requests that
/// were answered from the cache count, too: they are in the mean of the whole.
fn server_parts(server: &ServerSummary, requests: u64) -> Vec<Part> {
    let part = |name, ns, colour| Part { name, ns: per(ns, requests), colour };
    if server.composing.is_empty() {
        let delta = &server.delta;
        return vec![
            part("queue", delta.queue.ns, 1),
            part("cache", delta.cache_hit.ns.saturating_add(delta.cache_miss.ns), 4),
            part("compute input", delta.compute_input.ns, 2),
            part("compute infer", delta.compute_infer.ns, 0),
            part("compute output", delta.compute_output.ns, 2),
        ];
    }
    let all = server.composing.iter().flat_map(|model| server_parts(model, requests));
    let mut sums = [part("queue", 0, 1), part("cache", 0, 4), part("compute", 0, 0)];
    for part in all {
        let index = match part.name {
            "queue" => 0,
            "cache" => 1,
            _ => 2,
        };
        sums[index].ns += part.ns;
    }
    sums.to_vec()
}

fn per(ns: u64, count: u64) -> f64 {
    if count == 0 { 0.0 } else { ns as f64 / count as f64 }
}

/// A bar for each level.
pub fn draw(shown: &Shown<'_>) -> Option<Markup> {
    let levels = chosen(with_requests(shown.result));
    let level_parts =
        |(_, level): (usize, &LevelSummary)| Some((self::level(level), parts(&shown.result.setup, level)?));
    let bars: Vec<(String, Vec<Part>)> = levels.into_iter().filter_map(level_parts).collect();
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
            (text(frame.x(x.position(sum(parts))) + 6.0, top + 13.0, Anchor::Start, &time(sum(parts))))
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
            (frame.x(x.position(left)), frame.x(x.position(from)), part)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::statistics::{CountedTime, ModelStatistics};
    use crate::result::setup::sample as plans;
    use crate::result::summary::{LevelLoad, sample};

    fn at(count: u64, ns: u64) -> CountedTime {
        CountedTime { count, ns }
    }

    fn server(name: &str, delta: ModelStatistics, composing: Vec<ServerSummary>) -> ServerSummary {
        let version = "1".to_owned();
        ServerSummary { name: name.to_owned(), version, delta, cached: true, several_versions: false, composing }
    }

    /// A model that answered 89 of 90 requests from the cache.
    fn cached() -> ServerSummary {
        let delta = ModelStatistics {
            success: at(90, 50_760_000),
            queue: at(90, 450_000),
            compute_input: at(1, 31_787),
            compute_infer: at(1, 48_873_757),
            compute_output: at(1, 155_711),
            cache_hit: at(89, 979_000),
            cache_miss: at(1, 39_970),
            ..ModelStatistics::default()
        };
        server("c", delta, Vec::new())
    }

    /// The parts of requests to `server` that took so long, in whole nanoseconds.
    fn named_parts(server: ServerSummary, latency_ns: u64) -> Vec<(&'static str, u64)> {
        let requests = server.delta.success.count;
        let level = sample::level(LevelLoad::Concurrency(1), requests, latency_ns);
        let level = LevelSummary { server: Some(server), ..level };
        let parts = parts(&plans::setup(), &level).unwrap();
        parts.iter().map(|part| (part.name, part.ns.round() as u64)).collect()
    }

    #[test]
    fn all_parts_are_of_the_mean_request_whether_it_was_computed_or_cached() {
        let expected = [
            ("queue", 5_000),
            ("cache", 11_322),
            ("compute input", 353),
            ("compute infer", 543_042),
            ("compute output", 1_730),
            ("server, other", 2_553),
            ("network and other", 36_000),
        ];
        assert_eq!(named_parts(cached(), 600_000), expected);
    }

    #[test]
    fn the_parts_of_an_ensemble_are_of_its_own_requests() {
        // Each calls the model twice.
        let delta = ModelStatistics { success: at(45, 60_000_000), ..ModelStatistics::default() };
        let expected = [
            ("queue", 10_000),
            ("cache", 22_644),
            ("compute", 1_090_250),
            ("server, other", 210_439),
            ("network and other", 166_667),
        ];
        assert_eq!(named_parts(server("e", delta, vec![cached()]), 1_500_000), expected);
    }
}
