//! Builds the result of a search from the planner's answer and all measurements.

use serde_json::Value;

use crate::app::tune::rate;
use crate::app::tune::searched::{CompletedTrial, Search};
use crate::app::tune::space::in_force;
use crate::app::tune::verdict::verdict;
use crate::app::tune::why::why;
use crate::exit;
use crate::plan::Searched;
use crate::result::{CandidateResult, CandidateStatus, TUNE_VERSION, TrialFigures, TuneFigures, TuneResult};
use crate::stats::Interval;
use crate::terms::Statistic;
use crate::tune::{Answer, Beside, Candidate, Phase, Reason, Status, median};

/// The result.
pub fn result(search: &Search<'_>) -> TuneResult {
    let (answer, beside) = (search.planner.answer(), search.planner.beside_best());
    let all = search.planner.candidates().iter().enumerate();
    let mut candidates: Vec<CandidateResult> =
        all.map(|(number, candidate)| one(search, &answer, &beside, number, candidate)).collect();
    let winner = answer.winner();
    let score = |candidate: &CandidateResult| {
        let figures = candidate.figures.as_ref()?;
        Some(match search.plan.objective {
            Statistic::Throughput => figures.means.throughput,
            Statistic::MeanLatency => -figures.means.mean_ns,
            Statistic::Percentile(percentile) => -figures.means.latency_at(percentile),
        })
    };
    // The winner first, then candidates that meet the constraints and were not dropped, each group by its score.
    let standing = |candidate: &CandidateResult| {
        let class = match candidate.status {
            _ if winner == Some(candidate.number) => 0,
            CandidateStatus::Yours
            | CandidateStatus::NotWorse
            | CandidateStatus::Undecided
            | CandidateStatus::Worse => 1,
            CandidateStatus::Dropped => 2,
            CandidateStatus::Failed => 3,
            _ => 4,
        };
        (class, !candidate.meets)
    };
    candidates.sort_by(|left, right| {
        let by_score = score(right).partial_cmp(&score(left)).unwrap_or(std::cmp::Ordering::Equal);
        standing(left).cmp(&standing(right)).then(by_score).then(left.number.cmp(&right.number))
    });
    let plan = search.plan;
    TuneResult {
        schema: TUNE_VERSION,
        program: format!("triton-bench {}", env!("CARGO_PKG_VERSION")),
        model: plan.run.target.model.to_string(),
        objective: plan.objective.name(),
        constraints: plan.constraints.iter().map(|constraint| constraint.text.clone()).collect(),
        percentile: plan.percentile(),
        load: plan.load_words(),
        margin: plan.margin,
        budget_s: plan.budget.as_secs_f64(),
        spent_s: search.planner.spent(),
        settings: search.search.iter().map(|searched| searched.setting.to_string()).collect(),
        space: search.planner.space().size(),
        verdict: verdict(search, &answer, &candidates),
        why: why(search, &answer, &candidates),
        candidates,
        interrupted: search.interrupted,
    }
}

/// Whose configuration the folder of a search holds.
pub fn left(answer: &Answer) -> &'static str {
    match (answer, answer.winner()) {
        (_, None | Some(0)) => "Your configuration",
        (Answer::Unconfirmed(..), _) => "The best so far, which was not confirmed,",
        _ => "The winner",
    }
}

fn one(
    search: &Search<'_>,
    answer: &Answer,
    beside: &[Beside],
    number: usize,
    candidate: &Candidate,
) -> CandidateResult {
    let values = match (&candidate.place, number) {
        (Some(indexes), 1..) => {
            search.search.iter().zip(indexes).map(|(searched, index)| searched.values[*index].clone()).collect()
        }
        _ => search.search.iter().map(|searched| present(search, searched)).collect(),
    };
    let completed: Vec<&CompletedTrial> =
        search.completed.iter().filter(|completed| completed.trial.candidate == number).collect();
    let all: Vec<&TrialFigures> = completed.iter().map(|completed| &completed.measured).collect();
    let confirming: Vec<&TrialFigures> = completed
        .iter()
        .filter(|completed| completed.trial.phase == Phase::Confirmation)
        .map(|completed| &completed.measured)
        .collect();
    let confirmed = !confirming.is_empty();
    let figures = TuneFigures::new(if confirmed { &confirming } else { &all }, &all);
    let violations = candidate.violations(|trial| !confirmed || trial.phase == Phase::Confirmation);
    let meets = !violations.is_empty() && median(&violations) <= 0.0;
    let beside = beside.iter().find(|beside| beside.number == number).copied();
    let confirmed = confirmed.then_some(Confirmed { meets, beside });
    let demand = rate::demand(search.plan, figures.as_ref().map(|figures| &figures.means));
    let (status, reason) = status_of(answer, &Judged { number, candidate, confirmed, demand });
    CandidateResult { number, values, status, reason, meets, figures }
}

/// The value of a setting in the configuration as it was found.
fn present(search: &Search<'_>, searched: &Searched) -> Value {
    in_force(&searched.setting, search.plan, search.bases).unwrap_or_default()
}

/// What the confirmation shows of a candidate.
#[derive(Clone, Copy)]
struct Confirmed {
    /// Whether it meets the constraints.
    meets: bool,
    /// How it compares with the best.
    beside: Option<Beside>,
}

/// A candidate, and what is to be said of it.
struct Judged<'a> {
    number: usize,
    candidate: &'a Candidate,
    confirmed: Option<Confirmed>,
    /// What it misses if it misses something.
    demand: &'a str,
}

fn status_of(answer: &Answer, judged: &Judged<'_>) -> (CandidateStatus, Option<String>) {
    let Judged { number, candidate, confirmed, demand } = *judged;
    let is = |status: CandidateStatus, reason: Option<String>| (status, reason);
    match &candidate.status {
        Status::Failed(reason) => return is(CandidateStatus::Failed, Some(reason.clone())),
        Status::RuledOut(reason) => return is(CandidateStatus::RuledOut, Some(reason.sentence(demand))),
        _ => {}
    }
    let missed = confirmed.filter(|confirmed| !confirmed.meets).map(|_| format!("misses {demand}"));
    if number == 0 {
        return is(CandidateStatus::Yours, missed);
    }
    if answer.winner() == Some(number) {
        return is(
            if matches!(answer, Answer::Unconfirmed(..)) { CandidateStatus::Ahead } else { CandidateStatus::Winner },
            None,
        );
    }
    let beside = confirmed.and_then(|confirmed| confirmed.beside);
    let behind = |beside: Beside| Reason::Worse(beside.share).sentence(demand);
    let worse = beside.filter(|beside| beside.is_worse == Some(true)).map(behind);
    if let Some(reason) = missed.or(worse) {
        return is(CandidateStatus::Worse, Some(reason));
    }
    let undecided = beside.filter(|beside| beside.is_worse.is_none());
    match (&candidate.status, confirmed.is_some(), candidate.trials.is_empty()) {
        // After an earlier confirmation, a race may have shown that others are better.
        (Status::Open | Status::Dropped { is_shown: false, .. }, true, _) => match undecided {
            Some(beside) => is(CandidateStatus::Undecided, Some(against_best(&beside))),
            None => is(CandidateStatus::NotWorse, None),
        },
        (Status::Dropped { reason, .. }, _, true) => is(CandidateStatus::NotMeasured, Some(reason.sentence(demand))),
        (Status::Dropped { rung: 0, reason, .. }, ..) => is(CandidateStatus::Dropped, Some(reason.sentence(demand))),
        (Status::Dropped { rung, reason, .. }, ..) => {
            is(CandidateStatus::Dropped, Some(format!("rung {rung}: {}", reason.sentence(demand))))
        }
        (_, _, true) => is(CandidateStatus::NotMeasured, None),
        _ => is(CandidateStatus::Dropped, Some("no time to measure it again".to_owned())),
    }
}

/// How a candidate compares with the best, where that is not decided.
fn against_best(beside: &Beside) -> String {
    let change = |factor: f64| format!("{:+.1}", (factor - 1.0) * 100.0);
    let Interval { low, high } = beside.interval;
    match low > 0.0 && high.is_finite() {
        true => format!("{} % [{}, {}] against the best", change(beside.share), change(low), change(high)),
        false => "measured too seldom to tell".to_owned(),
    }
}

/// The exit code of a search.
pub fn exit_code(answer: &Answer, interrupted: bool) -> u8 {
    match answer {
        Answer::NoneMeets(_) | Answer::TooShort { meets: false, .. } => exit::UNSTABLE,
        Answer::Nothing if interrupted => exit::INTERRUPTED,
        Answer::Nothing => exit::NO_VALID_REQUESTS,
        _ => exit::OK,
    }
}

/// What keeps all other candidates from being measured, if nothing else was found out about them.
pub fn obstacle(candidates: &[Candidate]) -> Option<String> {
    let (yours, others) = candidates.split_first()?;
    if matches!(yours.status, Status::Failed(_)) {
        // Then nothing could be measured at all, and the verdict says so.
        return None;
    }
    let is_out = |candidate: &Candidate| matches!(candidate.status, Status::Failed(_) | Status::RuledOut(_));
    let reason = others.iter().find_map(|candidate| match &candidate.status {
        Status::Failed(reason) => Some(reason),
        _ => None,
    })?;
    let all = others.iter().all(|candidate| is_out(candidate) && candidate.trials.is_empty());
    all.then(|| format!("none of the {} other candidates could be measured: {reason}", others.len()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tune::{Found, Gain, Observation, Planner, Settings, Space};

    const GAIN: Gain = Gain { factor: 1.2, interval: Interval { low: 1.1, high: 1.3 } };

    #[test]
    fn a_search_in_which_all_others_fail_tells_why() {
        let with = |status: Status| Candidate { status, ..Candidate::new(None) };
        let failed = || with(Status::Failed("no such parameter".to_owned()));
        let all = obstacle(&[with(Status::Open), failed(), failed()]).unwrap();
        assert_eq!(all, "none of the 2 other candidates could be measured: no such parameter");
        assert_eq!(obstacle(&[failed(), with(Status::Open), failed()]), None, "one is open");
        assert_eq!(obstacle(&[with(Status::Open)]), None, "there is no other");
    }

    #[test]
    fn what_is_recommended_meets_the_constraints() {
        let code = |answer: Answer| exit_code(&answer, false);
        assert_eq!(code(Answer::NoneMeets(3)), 2);
        assert_eq!([true, false].map(|meets| code(Answer::TooShort { needed_s: 9.0, meets })), [0, 2]);
        assert_eq!([Answer::NoneMeets(3), Answer::Unconfirmed(3, GAIN)].map(|answer| exit_code(&answer, true)), [2, 0]);
        assert_eq!([false, true].map(|interrupted| exit_code(&Answer::Nothing, interrupted)), [3, 130]);
    }

    fn status(
        answer: &Answer,
        number: usize,
        candidate: &Candidate,
        confirmed: Option<Confirmed>,
    ) -> (CandidateStatus, Option<String>) {
        status_of(answer, &Judged { number, candidate, confirmed, demand: "a constraint" })
    }

    #[test]
    fn who_was_not_confirmed_is_no_winner() {
        let outcome = |answer: &Answer| (status(answer, 3, &Candidate::new(None), None).0, left(answer));
        let so_far = "The best so far, which was not confirmed,";
        assert_eq!(outcome(&Answer::Unconfirmed(3, GAIN)), (CandidateStatus::Ahead, so_far));
        assert_eq!(outcome(&Answer::Meets(3)), (CandidateStatus::Winner, "The winner"));
        let too_short = Answer::TooShort { needed_s: 9.0, meets: true };
        for yours in [too_short, Answer::Kept(None), Answer::NoneMeets(3), Answer::Nothing] {
            assert_eq!(left(&yours), "Your configuration", "{yours:?}");
        }
    }

    #[test]
    fn who_was_never_measured_was_not_worse() {
        let gone = Status::Dropped { rung: 1, reason: Reason::NoTime, is_shown: true };
        let outcome = status(&Answer::Kept(None), 4, &Candidate { status: gone, ..Candidate::new(None) }, None);
        assert_eq!(outcome, (CandidateStatus::NotMeasured, Some("no time to measure it".to_owned())));
    }

    /// A candidate that was measured.
    fn seen(status: Status) -> Candidate {
        let mut planner =
            Planner::new(Space::default(), Settings { budget_s: 30.0, margin: 0.02, seed: 1, unit_s: 0.25 });
        let trial = planner.next_trial().unwrap();
        let found = Ok(Found { score: 0.0, violation: -1.0, disturbed: false, bottleneck: None });
        planner.observe(&trial, &Observation { seconds: 0.3, found });
        Candidate { status, ..planner.candidates()[0].clone() }
    }

    #[test]
    fn who_was_confirmed_and_is_worse_is_called_that() {
        let outcome =
            |confirmed: Confirmed, found: Status| status(&Answer::Kept(None), 4, &seen(found), Some(confirmed));
        let worse = |reason: &str| (CandidateStatus::Worse, Some(reason.to_owned()));
        let beside = |share: f64, is_worse: Option<bool>| {
            let interval = Interval { low: share * 0.9, high: share * 1.1 };
            Some(Beside { number: 4, share, interval, is_worse })
        };
        let near = Confirmed { meets: true, beside: beside(1.0, Some(false)) };
        let far = Confirmed { beside: beside(0.4, Some(true)), ..near };
        assert_eq!(outcome(far, Status::Open), worse("60.0 % worse than the best"));
        assert_eq!(outcome(Confirmed { meets: false, ..near }, Status::Open), worse("misses a constraint"));
        assert_eq!(outcome(near, Status::Open), (CandidateStatus::NotWorse, None));
        let open = Confirmed { beside: beside(0.5, None), ..near };
        let numbers = "-50.0 % [-55.0, -45.0] against the best";
        assert_eq!(
            outcome(open, Status::Open),
            (CandidateStatus::Undecided, Some(numbers.to_owned())),
            "not that it is not worse"
        );
        let dropped = |is_shown: bool| Status::Dropped { rung: 1, reason: Reason::FarBehind(0.4), is_shown };
        assert_eq!(outcome(near, dropped(false)), (CandidateStatus::NotWorse, None));
        assert_eq!(
            outcome(near, dropped(true)),
            (CandidateStatus::Dropped, Some("rung 1: far behind, at 40 % of the best".to_owned()))
        );
    }
}
