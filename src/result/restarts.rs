//! `--restarts`: the results of a level at each start of the model, and how much they differ.
//!
//! An interval from inside one run cannot know what differs between runs: the placement of memory, which thread serves
//! whom. So the interval here has a restart as its unit, and the variance of the restarts is split into what the runs'
//! own intervals explain and the rest (Kalibera and Jones, "Rigorous Benchmarking in Reasonable Time", 2013, with two
//! levels).

use crate::figures::{self, FigureAt};
use crate::statistic::{CONFIDENCE, standard_error, value};
use crate::stats::{ALIKE_IF_UNKNOWN, Interval, batch_means};
use crate::summary::{AcrossStarts, AtStarts, ClientSummary, LevelSummary, Restarts, StatisticEstimate};
use crate::terms::{MeasurementPlan, Statistic};

/// The result of one start.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Figure {
    value: f64,
    /// Its standard error within the run, where that is known.
    error: Option<f64>,
}

/// The combined result of these measurements of one level, each after its own start; `None` for fewer than two. Throughput and
/// the chosen latency come first, and then whatever else the level has an interval of: a baseline may be asked for it.
pub fn restarts(levels: &[LevelSummary], percentile: Option<f64>) -> Option<Restarts> {
    let latency = percentile.map_or(Statistic::MeanLatency, Statistic::Percentile);
    let mut wanted = vec![Statistic::Throughput, latency];
    for interval in levels.iter().flat_map(|level| &level.intervals) {
        if !wanted.contains(&interval.statistic) {
            wanted.push(interval.statistic);
        }
    }
    let figures = wanted.into_iter().map(|statistic| {
        let figures: Vec<Figure> =
            levels.iter().map(|level| figure(statistic, &level.client, &level.intervals)).collect();
        across_starts(statistic, &figures)
    });
    (levels.len() > 1).then(|| Restarts { starts: levels.len(), figures: figures.collect() })
}

/// Further figures of these measurements of one level, each after its own start, that all of them have; none of fewer than two.
pub fn at_starts(levels: &[LevelSummary], plan: &MeasurementPlan) -> Vec<AtStarts> {
    let further = figures::all(plan).into_iter().filter(|figure| figure.statistic().is_none() && levels.len() > 1);
    let at_starts = |figure: FigureAt| {
        let values = levels.iter().map(|level| figure.value(level).map(|found| found.value));
        let cases = levels.iter().map(|level| figure.cases(&level.client)).collect();
        let as_one = levels.iter().map(|level| as_one(figure, level)).fold(1.0, f64::max);
        Some(AtStarts { key: figure.key(), values: values.collect::<Option<_>>()?, cases, as_one })
    };
    further.filter_map(at_starts).collect()
}

/// How many requests count as one in a share at a start.
fn as_one(figure: FigureAt, level: &LevelSummary) -> f64 {
    match (figure.figure.key, level.bursts) {
        ("errors", Some(bursts)) => bursts.failed,
        ("goodput_share", Some(bursts)) => bursts.good,
        _ => ALIKE_IF_UNKNOWN,
    }
}

fn figure(statistic: Statistic, client: &ClientSummary, intervals: &[StatisticEstimate]) -> Figure {
    let value = value(statistic, client);
    let interval = StatisticEstimate::find(intervals, statistic);
    Figure { value, error: interval.map(|interval| standard_error(value, interval)) }
}

fn across_starts(statistic: Statistic, figures: &[Figure]) -> AcrossStarts {
    let values: Vec<f64> = figures.iter().map(|figure| figure.value).collect();
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let interval = batch_means(&values, CONFIDENCE).map(|interval| Interval { low: interval.low.max(0.0), ..interval });
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (n - 1.0).max(1.0);
    let errors: Option<Vec<f64>> = figures.iter().map(|figure| figure.error).collect();
    let within = errors.map(|errors| errors.iter().map(|error| error.powi(2)).sum::<f64>() / n);
    let share = within.map(|within| if variance > 0.0 { (1.0 - within / variance).max(0.0) } else { 0.0 });
    AcrossStarts { statistic, values, mean, interval, share }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::summary::{LevelLoad, sample};

    /// Starts with these throughputs, each known to 10/s within its run.
    fn starts(throughputs: &[u64]) -> Vec<LevelSummary> {
        let level = |requests: &u64| {
            let value = *requests as f64;
            let bounds = Interval { low: value - 10.0, high: value + 10.0 };
            let interval = |statistic, interval| StatisticEstimate::new(statistic, interval);
            let intervals = vec![interval(Statistic::Throughput, Some(bounds)), interval(Statistic::MeanLatency, None)];
            LevelSummary { intervals, ..sample::level(LevelLoad::Concurrency(1), *requests, 1_000_000) }
        };
        throughputs.iter().map(level).collect()
    }

    #[test]
    fn starts_that_differ_more_than_their_runs_explain() {
        let far = restarts(&starts(&[900, 1_000, 1_100]), None).unwrap();
        let [throughput, latency] = &far.figures[..] else { panic!("{far:?}") };
        assert_eq!(throughput.values, [900.0, 1_000.0, 1_100.0]);
        // Standard deviation 100, t(0.975, 2) = 4.30265.
        let interval = throughput.interval.unwrap();
        assert!((interval.high - 1_248.414).abs() < 0.01 && (interval.low - 751.586).abs() < 0.01, "{interval:?}");
        assert!(throughput.share.unwrap() > 0.99 && (far.starts, throughput.mean) == (3, 1_000.0));
        assert_eq!((latency.statistic, latency.share), (Statistic::MeanLatency, None), "the runs do not tell");
        assert!((latency.mean / 1e6 - 1.0).abs() < 1e-3);
    }

    #[test]
    fn failures_and_named_figures_of_all_starts_are_kept() {
        let plan = sample::plan();
        let level = |failed: u64, good: Option<u64>| {
            let mut level = sample::level(LevelLoad::Concurrency(1), 1_000 - failed, 1_000_000);
            (level.client.failed, level.client.good) = (failed, good);
            level
        };
        let levels = [level(0, Some(900)), level(30, Some(870)), level(3, Some(890))];
        let all = at_starts(&levels, &plan);
        let found = |key: &str| all.iter().find(|figure| figure.key == key);
        let errors = found("errors").unwrap();
        assert_eq!((&errors.values[..], errors.cases.as_deref()), (&[0.0, 0.03, 0.003][..], Some(&[1_000; 3][..])));
        assert_eq!((found("goodput_share").unwrap().values[1], found("ttft_avg")), (0.87, None));
        assert_eq!(found("goodput").unwrap().cases, None);
        assert!(found("throughput").is_none() && found("p99").is_none(), "those of `restarts`");
        assert!(at_starts(&levels[..1], &plan).is_empty());
        let partly = [level(0, Some(900)), level(0, None)];
        assert!(at_starts(&partly, &plan).iter().all(|figure| figure.key != "goodput_share"));
    }

    #[test]
    fn starts_that_differ_as_much_as_chance_lets_them() {
        let near = restarts(&starts(&[998, 1_000, 1_002]), None).unwrap();
        assert_eq!(near.figures[0].share, Some(0.0));
        assert_eq!(restarts(&starts(&[5, 5]), None).unwrap().figures[0].share, Some(0.0));
        assert_eq!(restarts(&starts(&[5]), None), None);
        let wide = restarts(&starts(&[5, 500]), Some(99.0)).unwrap();
        assert_eq!(
            (wide.figures[0].interval.unwrap().low, wide.figures[1].statistic),
            (0.0, Statistic::Percentile(99.0))
        );
    }
}
