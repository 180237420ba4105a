//! What a trial came to: the figures of its level that a search compares.

use crate::app::tune::members;
use crate::model::statistics::CountedTime;
use crate::plan::{Figure, Requirement, TunePlan};
use crate::result::figures::FigureAt;
use crate::result::remark::Remark;
use crate::result::summary::{LevelSummary, ServerSummary};
use crate::result::{Figures, LatencyAt, TrialFigures};

/// The figure of the share of requests that a response cache answered, where that is nearly all of them.
pub const FROM_CACHE: &str = "answered_from_cache";

/// What a level came to.
pub fn trial_figures(level: &LevelSummary, plan: &TunePlan, concurrency: Option<u32>) -> TrialFigures {
    let found = measured(level, plan);
    let throughput = concurrency.map_or(found.throughput, |concurrency| closed_throughput(level, concurrency));
    TrialFigures {
        figures: Figures { throughput, concurrency, ..found },
        disturbance: level.disturbances.worst,
        members: level.server.as_ref().map(members::members).unwrap_or_default(),
        ..TrialFigures::default()
    }
}

/// Inferences a second of a closed loop, by Little's law: requests outstanding, divided by the time of a request and
/// the turn-around to the next. A request takes until its last response, wherever the latency that is shown ends.
/// Counting what ends in a window that holds a few batches is wrong by as much as a batch at its edges.
fn closed_throughput(level: &LevelSummary, concurrency: u32) -> f64 {
    let client = &level.client;
    let each_ns = client.service_time().mean_ns() + client.turnaround_ns;
    if each_ns > 0.0 {
        f64::from(concurrency) * client.batch_size as f64 * 1e9 / each_ns * (1.0 - client.failed_share())
    } else {
        0.0
    }
}

fn measured(level: &LevelSummary, plan: &TunePlan) -> Figures {
    let client = &level.client;
    let at = |percentile: f64| LatencyAt { percentile, latency_ns: client.latency.percentile_ns(percentile) as f64 };
    let (queue_us, compute_us, executed_batch) = level.server.as_ref().map_or_else(Default::default, in_the_server);
    let constrained = plan.constraints.iter().filter_map(|constraint| named(constraint, level));
    Figures {
        throughput: client.throughput(),
        latency_ns: at(plan.percentile()).latency_ns,
        percentiles: plan.percentiles().into_iter().map(at).collect(),
        mean_ns: client.latency.mean_ns(),
        errors: client.failed_share(),
        queue_us,
        compute_us,
        executed_batch,
        batch_size: client.batch_size,
        named: constrained.chain(from_cache(level)).collect(),
        ..Figures::default()
    }
}

/// The figure of the catalogue that a constraint is about, if it is not one of those that every model has.
fn named(constraint: &Requirement, level: &LevelSummary) -> Option<(String, f64)> {
    let Figure::Named(name) = constraint.figure else { return None };
    let figure = FigureAt::new(name);
    Some((figure.key(), figure.value(level)?.value))
}

fn from_cache(level: &LevelSummary) -> Option<(String, f64)> {
    let remarks = level.server.as_ref()?.cache_remarks();
    let share = |remark: &Remark| remark.total.map(|total| remark.count as f64 / total.max(1) as f64);
    Some((FROM_CACHE.to_owned(), remarks.iter().filter_map(share).reduce(f64::max)?))
}

/// Microseconds in the queue and of computing, and the average batch. For a model that calls others the times are
/// theirs, and there is no single batch size.
fn in_the_server(server: &ServerSummary) -> (f64, f64, f64) {
    if !server.composing.is_empty() {
        let times = server.times();
        return (times.queue_us as f64, times.compute_us as f64, 0.0);
    }
    let delta = &server.delta;
    let us = |time: CountedTime| if time.count > 0 { time.ns as f64 / time.count as f64 / 1e3 } else { 0.0 };
    let batch = if delta.executions > 0 { delta.inferences as f64 / delta.executions as f64 } else { 0.0 };
    (us(delta.queue), us(delta.compute()), batch)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::statistics::ModelStatistics;
    use crate::result::summary::sample::{self, distribution};
    use crate::result::summary::{DecoupledSummary, LevelLoad};

    /// Four outstanding, each of which has its first response after 10 ms and its last after 100.
    #[test]
    fn a_request_takes_its_place_until_its_last_response() {
        let mut level = sample::level(LevelLoad::Concurrency(4), 40, 10_000_000);
        level.client.decoupled = Some(DecoupledSummary {
            first_response: distribution(40, 10_000_000),
            gap: distribution(40, 90_000_000),
            last_response: distribution(40, 100_000_000),
        });
        let throughput = closed_throughput(&level, 4);
        assert!((throughput - 40.0).abs() < 1e-9, "{throughput}");
    }

    #[test]
    fn what_a_cache_answers_is_a_figure_if_it_is_nearly_all() {
        let of_cache = |hits: u64| {
            let mut level = sample::level(LevelLoad::Concurrency(4), 40, 10_000_000);
            let counted = |count: u64| CountedTime { count, ns: count };
            let (cache_hit, cache_miss) = (counted(hits), counted(1_000 - hits));
            let delta = ModelStatistics { cache_hit, cache_miss, ..ModelStatistics::default() };
            let (name, version) = ("m".to_owned(), "1".to_owned());
            let composing = Vec::new();
            level.server =
                Some(ServerSummary { name, version, delta, cached: true, several_versions: false, composing });
            from_cache(&level).map(|(_, share)| share)
        };
        assert_eq!([of_cache(0), of_cache(400), of_cache(999)], [None, None, Some(0.999)]);
    }
}
