//! From what the levels came to, to the exit code.

use crate::exit;
use crate::measure::complaint::{Complaint, Verdict};
use crate::measure::summary::{Ending, LevelSummary};
use crate::plan::LoadMode;

/// The gravest thing that can be said of the run. A sweep goes to saturation and past it on purpose, so what the last two of
/// its rates came to is no fault.
pub fn exit_code(mode: &LoadMode, levels: &[LevelSummary]) -> u8 {
    let levels = match mode {
        LoadMode::Sweep { points, .. } => &levels[..levels.len().min((*points as usize).saturating_sub(1))],
        _ => levels,
    };
    let any = |test: &dyn Fn(&LevelSummary) -> bool| levels.iter().any(test);
    let first_is_over = levels.first().is_some_and(|level| level.ending == Ending::OverThreshold);
    if any(&|level| level.ending == Ending::Failed) {
        exit::NO_VALID_REQUESTS
    } else if any(&|level| level.ending == Ending::Unstable) {
        exit::UNSTABLE
    } else if first_is_over {
        exit::OVER_THRESHOLD
    } else if any(&load_was_not_delivered) {
        exit::INVALID_LOAD
    } else {
        exit::OK
    }
}

/// Whether the level's numbers are those of another load than the one that was asked for.
fn load_was_not_delivered(level: &LevelSummary) -> bool {
    let Verdict::Invalid(complaints) = &level.verdict else { return false };
    let undelivered = |complaint: &Complaint| {
        matches!(
            complaint,
            Complaint::RateNotReached(..)
                | Complaint::Overloaded(..)
                | Complaint::HeldBack(_)
                | Complaint::IssuersLate(_)
        )
    };
    level.ending != Ending::Interrupted && complaints.iter().any(undelivered)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::summary::{LevelLoad, sample};
    use crate::plan::{Distribution, Spacing};

    fn level(ending: Ending, complaints: &[Complaint]) -> LevelSummary {
        let verdict = if complaints.is_empty() { Verdict::Valid } else { Verdict::Invalid(complaints.to_vec()) };
        LevelSummary { ending, verdict, ..sample::level(LevelLoad::Concurrency(1), 100, 1_000) }
    }

    fn code(levels: &[LevelSummary]) -> u8 {
        exit_code(&LoadMode::FixedSchedule, levels)
    }

    #[test]
    fn a_sweep_may_end_in_saturation() {
        let distribution = Distribution::Constant;
        let mode = LoadMode::Sweep { spacing: Spacing::Linear, points: 3, distribution };
        let stable = || level(Ending::Stable, &[]);
        let past = || level(Ending::Unstable, &[Complaint::Overloaded(2.0, 1.0)]);
        assert_eq!(exit_code(&mode, &[stable(), stable(), past(), past()]), exit::OK);
        assert_eq!(exit_code(&mode, &[stable(), past(), past(), past()]), exit::UNSTABLE);
        assert_eq!(exit_code(&mode, &[stable()]), exit::OK);
    }

    #[test]
    fn the_gravest_level_decides() {
        let stable = level(Ending::Stable, &[]);
        let unstable = level(Ending::Unstable, &[Complaint::Unstable]);
        let failed = level(Ending::Failed, &[Complaint::Nothing]);
        let late = level(Ending::Stable, &[Complaint::IssuersLate(0.5)]);
        let over = level(Ending::OverThreshold, &[]);
        assert_eq!(code(std::slice::from_ref(&stable)), exit::OK);
        assert_eq!(code(&[stable.clone(), unstable.clone()]), exit::UNSTABLE);
        assert_eq!(code(&[unstable, failed]), exit::NO_VALID_REQUESTS);
        assert_eq!(code(&[late]), exit::INVALID_LOAD);
        assert_eq!(code(&[stable, over.clone()]), exit::OK, "a search ends at its threshold");
        assert_eq!(code(&[over]), exit::OVER_THRESHOLD, "no level is within the threshold");
        assert_eq!(code(&[]), exit::OK);
    }
}
