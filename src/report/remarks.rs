//! perf_analyzer's messages on standard error about a level that it does not report. Tools look for these sentences:
//! Model Analyzer lengthens its windows and tries again when it finds one, and otherwise gives the level up.

use crate::number::msec;
use crate::result::reasons::{InvalidReason, Verdict};
use crate::result::summary::{Ending, LevelLoad, LevelSummary};
use crate::stdio::shown;
use crate::terms::MeasurementPlan;

/// perf_analyzer's sentence about an unsuccessful level, if it has one.
pub fn remark(plan: &MeasurementPlan, level: &LevelSummary) -> Option<String> {
    match level.ending {
        // A queue that grows throughout the level does not become stable in larger windows.
        Ending::Unstable if is_overloaded(level) => None,
        Ending::Unstable => Some(unstable(plan, level.load)),
        Ending::OverThreshold => {
            let limit = msec(plan.latency_threshold.unwrap_or_default());
            Some(format!("Measured latency went over the set limit of {limit} msec."))
        }
        // If requests failed, a larger window does not help.
        Ending::Failed if has(level, |reason| *reason == InvalidReason::NoneEnded) => {
            Some("No valid requests recorded within time interval. Please use a larger time window.".to_owned())
        }
        _ => None,
    }
}

/// perf_analyzer's sentences about a level whose requests failed.
pub fn failure(level: &LevelSummary) -> Option<String> {
    let (error, _) = level.client.errors.first().filter(|_| level.ending == Ending::Failed)?;
    Some(format!(
        "Failed to maintain requested inference load. Worker thread(s) failed to generate concurrent requests.\n\
         Thread [0] had error: {}",
        shown(&error.to_string().replace(['\n', '\r'], " "))
    ))
}

fn unstable(plan: &MeasurementPlan, load: LevelLoad) -> String {
    const FAILED: &str = "Failed to obtain stable measurement";
    let LevelLoad::Concurrency(concurrency) = load else { return format!("{FAILED}.") };
    format!(
        "{FAILED} within {} measurement windows for concurrency {concurrency}. Please try to increase the {}.",
        plan.most_windows(),
        plan.window.flag()
    )
}

fn is_overloaded(level: &LevelSummary) -> bool {
    has(level, |reason| matches!(reason, InvalidReason::Overloaded(..) | InvalidReason::HeldBack(_)))
}

fn has(level: &LevelSummary, reason: impl Fn(&InvalidReason) -> bool) -> bool {
    matches!(&level.verdict, Verdict::Invalid(reasons) if reasons.iter().any(reason))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::backend::InferError;
    use crate::result::summary::sample;
    use crate::terms::WindowRule;

    #[test]
    fn failed_requests_are_told_in_perf_analyzers_words() {
        let mut level = sample::level(LevelLoad::Concurrency(4), 100, 1_000);
        level.client.errors = vec![(InferError::new("HTTP 500", "no\nsuch \u{1b}model"), 3)];
        assert_eq!(failure(&level), None, "the level did not fail");
        level.ending = Ending::Failed;
        let text = failure(&level).unwrap();
        assert!(text.starts_with("Failed to maintain requested inference load."), "{text}");
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines.len() == 2 && lines[1].starts_with("Thread [0] had error: "), "{text}");
        assert!(lines[1].contains("no such") && !text.contains('\u{1b}'), "{text}");
    }

    #[test]
    fn perf_analyzers_sentences() {
        let limit = Some(Duration::from_millis(20));
        let mut plan = MeasurementPlan { max_trials: 7, latency_threshold: limit, ..sample::plan() };
        let mut level = sample::level(LevelLoad::Concurrency(4), 100, 1_000);
        let mut remark_of = |plan: &MeasurementPlan, load, ending| {
            (level.load, level.ending) = (load, ending);
            remark(plan, &level).unwrap_or_default()
        };
        let (closed, open) = (LevelLoad::Concurrency(4), LevelLoad::RequestRate(4.0));
        assert_eq!(remark_of(&plan, closed, Ending::Stable), "");
        assert_eq!(
            remark_of(&plan, closed, Ending::Unstable),
            "Failed to obtain stable measurement within 7 measurement windows for concurrency 4. \
             Please try to increase the --measurement-interval."
        );
        assert_eq!(remark_of(&plan, open, Ending::Unstable), "Failed to obtain stable measurement.");
        assert_eq!(
            remark_of(&plan, open, Ending::OverThreshold),
            "Measured latency went over the set limit of 20 msec."
        );
        plan.window = WindowRule::Count(50);
        assert!(remark_of(&plan, closed, Ending::Unstable).ends_with("increase the --measurement-request-count."));
        assert_eq!(remark_of(&plan, closed, Ending::Failed), "", "some requests succeeded");
        level.ending = Ending::Failed;
        level.verdict = Verdict::Invalid(vec![InvalidReason::NoneEnded]);
        assert!(remark(&plan, &level).is_some_and(|text| text.ends_with("Please use a larger time window.")));
        level.verdict = Verdict::Invalid(vec![InvalidReason::Nothing]);
        assert_eq!(remark(&plan, &level), None);
        level.ending = Ending::Unstable;
        assert!(remark(&plan, &level).is_some());
        level.verdict = Verdict::Invalid(vec![InvalidReason::Overloaded(300.0, 40.0), InvalidReason::Unstable(None)]);
        assert_eq!(remark(&plan, &level), None);
    }
}
