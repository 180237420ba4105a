//! The answer of a load that grows: how first responses, and the times between responses, change from its first batch to its
//! last.

use crate::PeriodicResult;
use crate::answer::{Answer, Missing, Question, ReportedFigure, Sureness, reported};
use crate::figures::{FigureAt, value_at};
use crate::outcome::Outcome;
use crate::record::Distribution;
use crate::record::PeriodicBatch;
use crate::terms::Point;

/// What is said of each batch.
struct BatchFigure {
    /// Its key in the catalogue.
    key: &'static str,
    title: &'static str,
    times: fn(&PeriodicBatch) -> &Distribution,
    /// The largest of them where that is known exactly: percentiles are coarse.
    most_ns: fn(&PeriodicBatch) -> Option<u64>,
}

const FIGURES: [BatchFigure; 2] = [
    BatchFigure {
        key: "first_response_p99",
        title: "first response p99",
        times: |batch| &batch.first_response,
        most_ns: |_| None,
    },
    BatchFigure {
        key: "response_gap_p99",
        title: "gap between responses p99",
        times: |batch| &batch.gap,
        most_ns: |batch| Some(batch.gap_max_ns),
    },
];
const POINT: Point = Point::Percentile(99.0);

/// The answer of a periodic load; none before its first batch is over.
pub(super) fn answer(result: &PeriodicResult) -> Option<Answer> {
    let answered: Vec<&PeriodicBatch> = result.batches.iter().filter(|batch| batch.responses > 0).collect();
    let (Some(first), Some(last)) = (answered.first(), answered.last()) else {
        let words = "Nothing was measured: no request succeeded".to_owned();
        let nothing = Answer::sure(Question::Level, words, Vec::new());
        return (result.requests.sent > 0).then_some(Answer { sure: Sureness::NotMeasured, ..nothing });
    };
    let ends = if first.concurrency == last.concurrency { vec![*last] } else { vec![*first, *last] };
    let outstanding: Vec<String> = ends.iter().map(|batch| batch.concurrency.to_string()).collect();
    let figures = FIGURES.into_iter().filter_map(|BatchFigure { key, title, times, most_ns }| {
        let figure = FigureAt::named(key).filter(|_| ends.iter().all(|batch| times(batch).count() > 0))?;
        let value = |batch: &&PeriodicBatch| {
            most_ns(batch).map_or(f64::INFINITY, |most| most as f64).min(value_at(POINT, times(batch)))
        };
        let values: Vec<f64> = ends.iter().map(value).collect();
        let shown: Vec<String> = values.iter().map(|value| figure.figure.unit.show(*value)).collect();
        let to_figure = |(batch, value): (&&PeriodicBatch, f64)| {
            reported(format!("concurrency {}", batch.concurrency), figure, value, None)
        };
        let figures: Vec<ReportedFigure> = ends.iter().zip(values).map(to_figure).collect();
        Some((format!("{title} {}", shown.join(" to ")), figures))
    });
    let (words, figures): (Vec<String>, Vec<Vec<ReportedFigure>>) = figures.unzip();
    let from = if ends.len() > 1 { "From" } else { "At" };
    let words = format!("{from} {} outstanding: {}", outstanding.join(" to "), words.join(", "));
    Some(unless_broken_off(Answer::sure(Question::Level, words, figures.concat()), result.outcome))
}

fn unless_broken_off(answer: Answer, outcome: Outcome) -> Answer {
    let missing = Missing::new(format!("the load is {outcome}"));
    match outcome {
        Outcome::Valid => answer,
        outcome if outcome.is_certain() => answer.lacks(missing.certain()),
        _ => answer.lacks(missing),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::LoadReport;
    use crate::summary::sample::distribution;

    fn batch(concurrency: usize, ms: u64) -> PeriodicBatch {
        let (first_response, gap) = (distribution(10, ms * 1_000_000), distribution(90, ms * 100_000));
        PeriodicBatch { concurrency, requests: 10, responses: 100, first_response, gap, gap_max_ns: ms * 200_000 }
    }

    fn result(batches: Vec<PeriodicBatch>, outcome: Outcome) -> PeriodicResult {
        let requests = LoadReport { sent: 40, completed: 40, failed: 0, outstanding: 0, held_back: 0 };
        PeriodicResult { batches, requests, errors: Vec::new(), remarks: Vec::new(), outcome }
    }

    #[test]
    fn a_load_that_grows_is_answered_by_its_ends() {
        let found = answer(&result(vec![batch(10, 20), batch(20, 30), batch(30, 50)], Outcome::Valid)).unwrap();
        let words =
            "From 10 to 30 outstanding: first response p99 20 ms to 50 ms, gap between responses p99 2 ms to 5 ms";
        assert_eq!((&*found.words, found.sure), (words, Sureness::Sure));
        assert_eq!(found.figures.len(), 4);
        let single = answer(&result(vec![batch(10, 20)], Outcome::Interrupted)).unwrap();
        assert!(single.words.starts_with("At 10 outstanding: first response p99 20 ms,"), "{}", single.words);
        assert_eq!(single.missing.unwrap().problem, "the load is interrupted");
        let exact = PeriodicBatch { gap_max_ns: 1_500_000, ..batch(10, 20) };
        let words = answer(&result(vec![exact], Outcome::Valid)).unwrap().words;
        assert!(words.ends_with("gap between responses p99 1.5 ms"), "no gap is longer than the longest: {words}");
        let none = PeriodicBatch { responses: 0, ..batch(10, 20) };
        assert_eq!(answer(&result(vec![none], Outcome::Failed)).unwrap().sure, Sureness::NotMeasured);
    }
}
