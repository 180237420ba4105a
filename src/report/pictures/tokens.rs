//! Pictures of language models: the times of tokens over load, and what all users have together against what each of
//! them has.

use maud::{Markup, html};

use crate::draw::{
    Anchor, Axis, Colour, Frame, Labels, Mark, Polyline, Scale, Spot, axes, coloured, dash, n, of_kind, picture, spread,
};
use crate::number::{rate, short, time};
use crate::pictures::common::{Legend, Shown, letter, level, with_requests};
use crate::result::RunResult;
use crate::result::figures::FigureAt;
use crate::result::outcome::Outcome;
use crate::result::summary::{LevelLoad, LevelSummary};
use crate::terms::{self, FigureName, TAIL};

const FRAME: Frame = Frame { left: 84.0, top: 48.0, width: 450.0, height: 250.0 };
/// The height without a legend.
const HEIGHT: f64 = 352.0;

/// A line of points.
struct Line<'a> {
    name: String,
    colour: Colour,
    /// The number of its marks.
    shape: usize,
    dashes: &'static str,
    points: Vec<Point<'a>>,
}

/// A level with its values on both axes, in the units of these.
#[derive(Clone, Copy)]
struct Point<'a> {
    level: &'a LevelSummary,
    x: f64,
    y: f64,
}

fn value(level: &LevelSummary, key: &'static str, percentile: Option<f64>) -> Option<f64> {
    let point = percentile.map(terms::Point::Percentile);
    Some(FigureAt::new(FigureName { key, point }).value(level)?.value)
}

/// Time to first token and inter token latency over the load: the median and the percentile that the run is judged by,
/// the 99th if it is not judged by one; of several results only that.
pub fn times(shown: &[Shown<'_>]) -> Option<Markup> {
    let first = shown.first()?;
    let high = first.result.setup.measurement.percentile.filter(|percentile| *percentile != 50.0).unwrap_or(TAIL);
    let percentiles = if shown.len() > 1 { vec![high] } else { vec![50.0, high] };
    let mut lines = Vec::new();
    for (number, run) in shown.iter().enumerate() {
        for (kind, key, short) in [(0, "ttft", "TTFT"), (1, "itl", "ITL")] {
            for (order, percentile) in percentiles.iter().enumerate() {
                let mut points: Vec<_> = with_requests(run.result)
                    .into_iter()
                    .filter_map(|(_, level)| {
                        Some(Point { level, x: level.load.number(), y: value(level, key, Some(*percentile))? })
                    })
                    .collect();
                points.sort_by(|left, right| left.x.total_cmp(&right.x));
                let several = shown.len() > 1;
                lines.push(Line {
                    name: if several {
                        format!("{} {short}", letter(number))
                    } else {
                        format!("{short} p{percentile}")
                    },
                    colour: of_kind(if several { number } else { kind }),
                    shape: if several { number } else { kind },
                    dashes: dash(if several { kind } else { order }),
                    points,
                });
            }
        }
    }
    let words = unit_of_loads(&lines);
    let y = Scale::of_latencies(lines.iter().flat_map(|line| line.points.iter().map(|point| point.y)));
    let title = if shown.len() > 1 { format!("time, p{high}") } else { "time".to_owned() };
    drawn(
        shown,
        &lines,
        &Axes { y, upright: &time, title: &title, words, name: "Times of tokens over the load", names_levels: false },
    )
}

/// What the numbers of loads are; stages may have loads of several kinds.
fn unit_of_loads(lines: &[Line<'_>]) -> &'static str {
    let mut all = lines.iter().flat_map(|line| &line.points).map(|point| match point.level.load {
        LevelLoad::Concurrency(_) => "load, requests outstanding",
        LevelLoad::Streams(_) => "load, streams",
        LevelLoad::RequestRate(_) | LevelLoad::Schedule(_) => "load, requests/s",
    });
    let first = all.next().unwrap_or("load");
    if all.all(|other| other == first) { first } else { "load" }
}

/// Tokens a second of all users together, against those of each of them.
pub fn interactivity(shown: &[Shown<'_>]) -> Option<Markup> {
    let lines = shown.iter().enumerate().map(|(number, run)| Line {
        name: if shown.len() > 1 { letter(number) } else { String::new() },
        colour: of_kind(number),
        shape: number,
        dashes: dash(number),
        points: users(run.result),
    });
    let lines: Vec<Line<'_>> = lines.collect();
    let y = Scale::from_zero(lines.iter().flat_map(|line| line.points.iter().map(|point| point.y)));
    let words = "interactivity, tokens/s of each user";
    let title = "throughput, tokens/s of all users";
    drawn(
        shown,
        &lines,
        &Axes { y, upright: &rate, title, words, name: "Throughput against interactivity", names_levels: true },
    )
}

/// The levels with both rates, in their order.
fn users(result: &RunResult) -> Vec<Point<'_>> {
    let point = |(_, level)| {
        let x = value(level, "output_token_throughput_per_user", None)?;
        Some(Point { level, x, y: value(level, "output_token_throughput", None)? })
    };
    with_requests(result).into_iter().filter_map(point).collect()
}

/// What the axes of a picture say.
struct Axes<'a> {
    y: Scale,
    upright: &'a dyn Fn(f64) -> String,
    title: &'a str,
    words: &'a str,
    name: &'a str,
    /// Whether points have the names of their levels: where the load is an axis, that says it.
    names_levels: bool,
}

fn drawn(shown: &[Shown<'_>], lines: &[Line<'_>], layout: &Axes<'_>) -> Option<Markup> {
    let lines: Vec<&Line<'_>> = lines.iter().filter(|line| !line.points.is_empty()).collect();
    let longest = lines.iter().max_by_key(|line| line.points.len())?;
    let (x, y) = (Scale::from_zero(lines.iter().flat_map(|line| line.points.iter().map(|point| point.x))), layout.y);
    let horizontal = Axis { scale: x, ticks: x.ticks(6), label: &short, title: layout.words };
    let upright = Axis { scale: y, ticks: y.ticks(6), label: layout.upright, title: layout.title };
    let position = |point: &Point<'_>| (FRAME.x(x.position(point.x)), FRAME.y(y.position(point.y)));
    let ends: Vec<f64> = lines.iter().filter_map(|line| line.points.last()).map(|point| position(point).1).collect();
    let names = spread(&ends, 22.0, FRAME.top..=FRAME.bottom());
    let legend = Legend { results: shown, marked: true };
    let content = html! {
        (axes(&FRAME, &horizontal, &upright))
        @for line in &lines {
            (Polyline { colour: line.colour, width: 1.5, dashes: line.dashes }.through(
                &line.points.iter().map(position).collect::<Vec<_>>()))
            @for point in &line.points {
                @let (at, up) = position(point);
                (dot(line, point, at, up, layout))
            }
        }
        @for (line, height) in lines.iter().zip(names) {
            (coloured(FRAME.right() + 8.0, height + 4.0, Anchor::Start, line.colour, &line.name))
        }
        @if layout.names_levels { (level_names(longest, &position)) }
        (legend.below(HEIGHT))
    };
    Some(picture(HEIGHT + legend.height(), layout.name, &content))
}

/// The names of levels beside their points, the ends first; those without room are left out.
fn level_names(line: &Line<'_>, position: &dyn Fn(&Point<'_>) -> (f64, f64)) -> Markup {
    let mut labels = Labels::within(FRAME.left, FRAME.right() + 6.0);
    line.points.iter().map(position).for_each(|(at, up)| labels.avoid(at, up));
    let mut points: Vec<&Point<'_>> = line.points.iter().collect();
    points.rotate_right(1);
    let mut names = Vec::new();
    for point in points {
        let (at, up) = position(point);
        let beside = [(at - 8.0, Anchor::End), (at + 8.0, Anchor::Start)];
        let heights = [up + 4.0, up - 8.0, up + 17.0].into_iter().filter(|y| (FRAME.top..FRAME.bottom()).contains(y));
        let spots: Vec<Spot> = heights
            .flat_map(|y| beside.map(|(x, anchor)| Spot { x, y, anchor }))
            .filter(|spot| spot.x > FRAME.left)
            .collect();
        let name = level(point.level);
        names.extend(labels.place(&name, &spots).map(|(spot, hidden)| (spot, hidden, name)));
    }
    html! { @for (Spot { x, y, anchor }, hidden, name) in &names {
        text.dim.halo.t2[*hidden] x=(n(*x)) y=(n(*y)) text-anchor=(anchor.name()) fill="#5b6672" stroke="#ffffff"
            stroke-width="3" paint-order="stroke" { (name) }
    } }
}

fn dot(line: &Line<'_>, point: &Point<'_>, at: f64, up: f64, layout: &Axes<'_>) -> Markup {
    let hollow = !Outcome::new(point.level).is_valid();
    let (level, value) = (level(point.level), (layout.upright)(point.y));
    let mark = Mark { shape: line.shape, colour: line.colour, hollow, times: 1.0 };
    mark.at(at, up, &format!("{level}: {} {value} at {}", line.name, short(point.x)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Generated;
    use crate::result::setup::sample as plans;
    use crate::result::summary::sample;

    #[test]
    fn names_of_levels_keep_clear_of_each_other() {
        let levels = [1, 2, 4].map(|load| sample::level(LevelLoad::Concurrency(load), 100, 9_000_000));
        let points = levels.iter().map(|level| Point { level, x: 300.0, y: 100.0 }).collect();
        let line = Line { name: String::new(), colour: of_kind(0), shape: 0, dashes: "", points };
        let crowded = level_names(&line, &|_| (300.0, 100.0)).into_string();
        let spots: std::collections::BTreeSet<&str> =
            crowded.split("<text").skip(1).map(|tag| tag.split('>').next().unwrap()).collect();
        assert_eq!((spots.len(), crowded.matches("<text").count()), (3, 3), "{crowded}");
        let before = level_names(&line, &|_| (FRAME.left + 2.0, 100.0)).into_string();
        assert!(!before.contains("\"end\""), "{before}");
    }

    #[test]
    fn levels_with_tokens_are_points_and_others_have_no_picture() {
        let level = |load: u32| {
            let mut summary = sample::level(LevelLoad::Concurrency(load), 100, 9_000_000);
            let mut generated = Generated::empty();
            generated.first_token = sample::distribution(100, 2_000_000 * u64::from(load));
            generated.inter_token = sample::distribution(100, 1_000_000);
            (generated.tokens, generated.counted) = (700, 100);
            summary.client.generated = Some(Box::new(generated));
            summary
        };
        let result = plans::result(&plans::setup(), &[level(1), level(2), level(4)]);
        let drawn = times(&[Shown::new("a", &result)]).unwrap().into_string();
        assert_eq!(drawn.matches("class=\"mark ").count(), 12, "{drawn}");
        assert!(drawn.contains("TTFT p99") && drawn.contains("ITL p50") && drawn.contains("requests outstanding"));
        let both = times(&[Shown::new("old", &result), Shown::new("new", &result)]).unwrap().into_string();
        assert!(both.contains(">A old<") && both.contains(">B new<") && both.contains(">B ITL<"), "{both}");
        assert!(both.contains(">time, p99<") && !both.contains("ITL p50"), "{both}");
        let of_load = |load| LevelSummary { load, ..level(4) };
        let (streams, rate) = (of_load(LevelLoad::Streams(2)), of_load(LevelLoad::RequestRate(200.0)));
        for (levels, words) in [
            (vec![streams], ">load, streams<"),
            (vec![rate.clone()], ">load, requests/s<"),
            (vec![level(4), rate], ">load<"),
        ] {
            let drawn = times(&[Shown::new("a", &plans::result(&plans::setup(), &levels))]).unwrap().into_string();
            assert!(drawn.contains(words), "{words}: {drawn}");
        }
        let plain = plans::result(&plans::setup(), &[sample::level(LevelLoad::Concurrency(1), 100, 9_000_000)]);
        assert!(times(&[Shown::new("a", &plain)]).is_none() && interactivity(&[Shown::new("a", &plain)]).is_none());
    }
}
