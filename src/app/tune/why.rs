//! Why the winner wins: where requests spend their time, and the effect of each step of its settings.

use std::collections::BTreeMap;

use crate::app::tune::figures::FROM_CACHE;
use crate::app::tune::members::bottleneck;
use crate::app::tune::rate;
use crate::app::tune::searched::{CompletedTrial, Search};
use crate::result::{CandidateResult, Figures};
use crate::terms::asked;
use crate::tune::{Answer, Phase};

/// The reasons, a sentence each.
pub fn why(search: &Search<'_>, answer: &Answer, candidates: &[CandidateResult]) -> Vec<String> {
    let number = answer.winner().unwrap_or(0);
    let winner = candidates.iter().find(|candidate| candidate.number == number);
    // The first reason is told with the answer.
    let mut lines: Vec<String> = winner.and_then(from_cache).into_iter().chain(searched_first(search)).collect();
    if let Some(winner) = winner {
        lines.extend(in_the_server(search, winner));
        lines.extend(steps(search, winner, candidates));
    }
    lines.extend(disturbed(search));
    lines
}

/// The model that held requests up before anything was changed.
fn searched_first(search: &Search<'_>) -> Option<String> {
    let late = search.planner.space().dimensions.iter().any(|dimension| dimension.is_late);
    let members = &search.completed.first().filter(|_| late)?.measured.members;
    let first = bottleneck(members)?;
    let all: f64 = members.iter().map(|member| member.queue_us + member.compute_us).sum();
    Some(format!(
        "in yours, requests wait {:.1} ms for {} and it computes {:.1} ms, of {:.1} ms in all models: its settings were searched first",
        first.queue_us / 1e3,
        first.model,
        first.compute_us / 1e3,
        all / 1e3
    ))
}

fn in_the_server(search: &Search<'_>, winner: &CandidateResult) -> Option<String> {
    let figures = winner.figures.as_ref()?;
    let Figures { queue_us, compute_us, executed_batch, .. } = figures.means;
    let times = format!("{:.1} ms in the queue, {:.1} ms of computing", queue_us / 1e3, compute_us / 1e3);
    if executed_batch > 0.0 {
        let mut settings = search.search.iter().zip(&winner.values);
        let largest = settings.find(|(searched, _)| searched.setting.to_string() == "max_batch_size");
        let of_largest =
            largest.and_then(|(_, value)| value.as_u64()).map_or_else(String::new, |largest| format!(" of {largest}"));
        return Some(format!("batches of {executed_batch:.1}{of_largest} were executed; {times}"));
    }
    (queue_us + compute_us > 0.0).then(|| format!("{times}, of all models that it calls"))
}

/// Identical requests measure a response cache, which no setting of the model changes.
fn from_cache(winner: &CandidateResult) -> Option<String> {
    let share = winner.figures.as_ref()?.means.named.get(FROM_CACHE)?;
    let remedy = "name data that it has not seen (--input-data), or turn it off in the model's configuration";
    Some(format!(
        "the server's response cache answered {:.0} % of the requests, and not the model: {remedy}",
        share * 100.0
    ))
}

/// Each neighbour of the winner that was measured beside it.
fn steps(search: &Search<'_>, winner: &CandidateResult, candidates: &[CandidateResult]) -> Vec<String> {
    let all = search.planner.candidates();
    let Some(indexes) = &all[winner.number].place else { return Vec::new() };
    let neighbours = (0..indexes.len()).flat_map(|dimension| {
        let count = search.search[dimension].values.len();
        let steps = [indexes[dimension].checked_sub(1), Some(indexes[dimension] + 1).filter(|index| *index < count)];
        steps.into_iter().flatten().map(move |index| (dimension, index))
    });
    let line = |(dimension, index): (usize, usize)| {
        let mut other = indexes.clone();
        other[dimension] = index;
        let position = all.iter().position(|candidate| candidate.place.as_ref() == Some(&other))?;
        let other = candidates.iter().find(|candidate| candidate.number == position)?;
        step(search, dimension, winner, other)
    };
    neighbours.filter_map(line).collect()
}

/// The result of a neighbour, as a sentence: over the rounds that both were measured in, so that it agrees with what
/// was decided from them.
fn step(search: &Search<'_>, dimension: usize, winner: &CandidateResult, other: &CandidateResult) -> Option<String> {
    let setting = format!("{} {}", search.search[dimension].setting, asked(&other.values[dimension]));
    if other.figures.is_none() {
        return other.reason.as_ref().map(|reason| format!("{setting}: {reason}"));
    }
    let (winner_figures, other_figures) =
        (by_round(search.completed, winner.number), by_round(search.completed, other.number));
    let shared: Vec<usize> = winner_figures.keys().filter(|round| other_figures.contains_key(round)).copied().collect();
    let percentile = search.plan.percentile();
    let change = |figure: fn(&Figures) -> f64| {
        let ratio = |round: &usize| (figure(other_figures[round]) / figure(winner_figures[round])).ln();
        let mean = shared.iter().map(ratio).sum::<f64>() / shared.len() as f64;
        format!("{:+.0} %", (mean.exp() - 1.0) * 100.0)
    };
    if shared.is_empty() {
        return None;
    }
    let (rate, latency) = (change(|figures| figures.throughput), change(|figures| figures.latency_ns));
    let means = other.figures.as_ref().map(|figures| &figures.means);
    let missed = match other.meets {
        true => String::new(),
        false => format!(", which misses {}", rate::demand(search.plan, means)),
    };
    Some(format!("{setting}: throughput {rate}, p{percentile} {latency}{missed}"))
}

/// A candidate's figures in the rounds of the confirmation, or in those before it where it has none there.
fn by_round(all: &[CompletedTrial], number: usize) -> BTreeMap<usize, &Figures> {
    let candidate_trials = all
        .iter()
        .filter(|completed| completed.trial.candidate == number && completed.trial.phase != Phase::Calibration);
    candidate_trials.map(|completed| (completed.trial.round, &completed.measured.figures)).collect()
}

/// How much others used the machine.
fn disturbed(search: &Search<'_>) -> Option<String> {
    let (disturbed, all, worst) = search.disturbances();
    worst.map(|worst| format!("{disturbed} of {all} measurements were disturbed; at worst, {worst}"))
}
