//! Builds the result of a search from the planner's answer and all measurements.

use crate::app::tune::space::in_force;
use crate::app::tune::subject::Subject;
use crate::exit;
use crate::plan::{Searched, Statistic, TunePlan, asked};
use crate::result::{CandidateResult, TUNE_VERSION, TuneFigures, TuneResult, TuneVerdict, VisitFigures};
use crate::stats::Interval;
use crate::tune::{Answer, Candidate, Fate, Gain, Phase, Planner, Trial, median};

/// A trial and its figures.
pub struct Seen {
    /// The trial.
    pub trial: Trial,
    /// Its figures.
    pub measured: VisitFigures,
}

/// Everything about a search.
pub struct Search<'a, 'b> {
    /// The plan.
    pub plan: &'a TunePlan,
    /// What was searched.
    pub search: &'a [Searched],
    /// Who searched.
    pub planner: &'a Planner,
    /// What was measured.
    pub seen: &'a [Seen],
    /// The models as they were found.
    pub bases: &'a Subject<'b>,
    /// Whether the search was interrupted.
    pub interrupted: bool,
}

/// The result.
pub fn result(search: &Search<'_, '_>) -> TuneResult {
    let (answer, worse) = (search.planner.answer(), search.planner.shown_worse());
    let all = search.planner.candidates().iter().enumerate();
    let mut candidates: Vec<CandidateResult> = all.map(|numbered| one(search, (&answer, &worse), numbered)).collect();
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
        let class = match candidate.fate.as_str() {
            _ if winner == Some(candidate.number) => 0,
            "yours" | "not worse" | "worse" => 1,
            "dropped" => 2,
            "failed" => 3,
            _ => 4,
        };
        (class, !candidate.meets)
    };
    candidates.sort_by(|one, other| {
        let by_score = score(other).partial_cmp(&score(one)).unwrap_or(std::cmp::Ordering::Equal);
        standing(one).cmp(&standing(other)).then(by_score).then(one.number.cmp(&other.number))
    });
    let plan = search.plan;
    TuneResult {
        schema: TUNE_VERSION,
        program: format!("triton-bench {}", env!("CARGO_PKG_VERSION")),
        model: plan.run.target.model.to_string(),
        objective: plan.objective.word(),
        constraints: plan.constraints.iter().map(|constraint| constraint.text.clone()).collect(),
        percentile: plan.percentile(),
        load: plan.load.to_string(),
        margin: plan.margin,
        budget_s: plan.budget.as_secs_f64(),
        spent_s: search.planner.spent(),
        settings: search.search.iter().map(|searched| searched.setting.to_string()).collect(),
        space: search.planner.space().len(),
        verdict: verdict(plan, &answer, (&search.planner.candidates()[0], search.interrupted)),
        why: why(search, &answer, &candidates),
        candidates,
        interrupted: search.interrupted,
    }
}

/// Whose configuration the folder of a search holds.
pub fn left(answer: &Answer) -> &'static str {
    match (answer, answer.winner()) {
        (_, None | Some(0)) => "Your configuration",
        (Answer::Unconfirmed(_), _) => "The best so far, which was not confirmed,",
        _ => "The winner",
    }
}

fn one(
    search: &Search<'_, '_>,
    (answer, worse): (&Answer, &[(usize, f64)]),
    (number, candidate): (usize, &Candidate),
) -> CandidateResult {
    let values = match (&candidate.place, number) {
        (Some(place), 1..) => {
            search.search.iter().zip(place).map(|(searched, index)| searched.values[*index].clone()).collect()
        }
        _ => search.search.iter().map(|searched| present(search, searched)).collect(),
    };
    let own: Vec<&Seen> = search.seen.iter().filter(|seen| seen.trial.candidate == number).collect();
    let all: Vec<&VisitFigures> = own.iter().map(|seen| &seen.measured).collect();
    let confirming: Vec<&VisitFigures> =
        own.iter().filter(|seen| seen.trial.phase == Phase::Confirmation).map(|seen| &seen.measured).collect();
    let confirmed = !confirming.is_empty();
    let figures = TuneFigures::of(if confirmed { &confirming } else { &all }, &all);
    let violations = candidate.violations(|visit| !confirmed || visit.phase == Phase::Confirmation);
    let meets = !violations.is_empty() && median(&violations) <= 0.0;
    let share = worse.iter().find(|(other, _)| *other == number).map(|(_, share)| *share);
    let confirmed = confirmed.then_some(Confirmed { meets, share });
    let (fate, reason) = fate(answer, (number, candidate), confirmed);
    CandidateResult { number, values, fate, reason, meets, figures }
}

/// The value of a setting in the configuration as it was found.
fn present(search: &Search<'_, '_>, searched: &Searched) -> serde_json::Value {
    in_force(&searched.setting, search.plan, |model| search.bases.base(model)).unwrap_or_default()
}

/// What the confirmation shows of a candidate.
#[derive(Clone, Copy)]
struct Confirmed {
    /// Whether it meets the constraints.
    meets: bool,
    /// How good it is as a share of the best, if it is shown to be worse.
    share: Option<f64>,
}

fn fate(
    answer: &Answer,
    (number, candidate): (usize, &Candidate),
    confirmed: Option<Confirmed>,
) -> (String, Option<String>) {
    let is = |word: &str, reason: Option<String>| (word.to_owned(), reason);
    match &candidate.fate {
        Fate::Failed(reason) => return is("failed", Some(reason.clone())),
        Fate::RuledOut(reason) => return is("ruled out", Some(reason.clone())),
        _ => {}
    }
    let missed = confirmed.filter(|confirmed| !confirmed.meets).map(|_| "misses a constraint".to_owned());
    if number == 0 {
        return is("yours", missed);
    }
    if answer.winner() == Some(number) {
        return is(if matches!(answer, Answer::Unconfirmed(_)) { "ahead" } else { "winner" }, None);
    }
    let behind = |share: f64| format!("{:.1} % worse than the best", (1.0 - share) * 100.0);
    if let Some(reason) = missed.or_else(|| confirmed?.share.map(behind)) {
        return is("worse", Some(reason));
    }
    match (&candidate.fate, confirmed.is_some(), candidate.visits.is_empty()) {
        // After an earlier confirmation, a race may have shown that others are better.
        (Fate::Open | Fate::Dropped { is_shown: false, .. }, true, _) => is("not worse", None),
        (Fate::Dropped { reason, .. }, _, true) => is("not measured", Some(reason.clone())),
        (Fate::Dropped { rung: 0, reason, .. }, ..) => is("dropped", Some(reason.clone())),
        (Fate::Dropped { rung, reason, .. }, ..) => is("dropped", Some(format!("rung {rung}: {reason}"))),
        (_, _, true) => is("not measured", None),
        _ => is("dropped", Some("no time to measure it again".to_owned())),
    }
}

fn verdict(plan: &TunePlan, answer: &Answer, (yours, interrupted): (&Candidate, bool)) -> TuneVerdict {
    let margin = percent(plan.margin);
    let figure = match plan.objective {
        Statistic::Throughput => "throughput".to_owned(),
        statistic => format!("{} latency", statistic.word()),
    };
    let change = |gain: &Gain| {
        let share = |factor: f64| format!("{:+.1}", (factor - 1.0) * 100.0);
        let Interval { low, high } = gain.interval;
        match plan.objective {
            Statistic::Throughput => format!("{figure} {} % [{}, {}]", share(gain.factor), share(low), share(high)),
            // A factor of improvement divides the latency.
            _ => format!("{figure} {} % [{}, {}]", share(1.0 / gain.factor), share(1.0 / high), share(1.0 / low)),
        }
    };
    let none = format!("No configuration shown to be better than yours by {margin}");
    let (word, winner, gain, sentence) = match answer {
        Answer::Better(number, gain) => {
            ("better", Some(*number), Some(*gain), format!("Better than yours: {}", change(gain)))
        }
        Answer::Kept(Some((number, gain))) => {
            let bound = ((gain.interval.high - 1.0) * 100.0).max(0.0);
            let best = change(gain);
            (
                "kept",
                Some(0),
                Some(*gain),
                format!("{none}: the best other, #{number}, is at {best}; there is at most {bound:.1} % to gain"),
            )
        }
        Answer::Kept(None) => ("kept", Some(0), None, format!("{none}: no other passed the confirmation")),
        Answer::Meets(number) => {
            let theirs = if plan.constraints.is_empty() { "works" } else { "meets the constraints" };
            let own = match &yours.fate {
                Fate::Failed(reason) => format!("yours could not be measured: {reason}"),
                _ => "yours does not".to_owned(),
            };
            ("meets", Some(*number), None, format!("#{number} {theirs}; {own}"))
        }
        Answer::NoneMeets(number) => {
            ("none_meets", None, None, format!("No candidate meets the constraints; #{number} is nearest"))
        }
        Answer::Unconfirmed(0) => {
            let rest = "yours was ahead of all that was measured, and there was no time to confirm another against it";
            ("kept", Some(0), None, format!("{none}: {rest}"))
        }
        Answer::Unconfirmed(number) => {
            ("unconfirmed", Some(*number), None, format!("Best so far: #{number}; it was not confirmed against yours"))
        }
        Answer::Nothing => ("nothing", None, None, nothing(interrupted).to_owned()),
    };
    TuneVerdict {
        word: word.to_owned(),
        winner,
        gain: gain.map(|gain| gain.factor),
        interval: gain.map(|gain| gain.interval),
        sentence,
    }
}

fn nothing(interrupted: bool) -> &'static str {
    if interrupted {
        "Interrupted before anything was measured"
    } else {
        "Nothing could be measured: no candidate works"
    }
}

/// The exit code of a search.
pub fn exit_code(answer: &Answer, interrupted: bool) -> u8 {
    match answer {
        Answer::NoneMeets(_) => exit::UNSTABLE,
        Answer::Nothing if interrupted => exit::INTERRUPTED,
        Answer::Nothing => exit::NO_VALID_REQUESTS,
        _ => exit::OK,
    }
}

/// What keeps all other candidates from being measured, if nothing else was found out about them.
pub fn obstacle(candidates: &[Candidate]) -> Option<String> {
    let others = candidates.get(1..).unwrap_or_default();
    let is_out = |candidate: &Candidate| matches!(candidate.fate, Fate::Failed(_) | Fate::RuledOut(_));
    let reason = others.iter().find_map(|candidate| match &candidate.fate {
        Fate::Failed(reason) => Some(reason),
        _ => None,
    })?;
    let all = others.iter().all(|candidate| is_out(candidate) && candidate.visits.is_empty());
    all.then(|| format!("none of the {} other candidates could be measured: {reason}", others.len()))
}

/// 0.02 as `2 %`.
fn percent(share: f64) -> String {
    format!("{} %", (share * 1e8).round() / 1e6)
}

/// Why the winner wins: its batches, and the effect of each step of its settings.
fn why(search: &Search<'_, '_>, answer: &Answer, candidates: &[CandidateResult]) -> Vec<String> {
    let number = answer.winner().unwrap_or(0);
    let Some(winner) = candidates.iter().find(|candidate| candidate.number == number) else { return Vec::new() };
    let Some(figures) = &winner.figures else { return Vec::new() };
    let mut lines = Vec::new();
    let place = search.planner.candidates()[number].place.clone();
    let largest =
        search.search.iter().zip(&winner.values).find(|(searched, _)| searched.setting.to_string() == "max_batch_size");
    let times = format!(
        "{:.1} ms in the queue, {:.1} ms of computing",
        figures.means.queue_us / 1e3,
        figures.means.compute_us / 1e3
    );
    if figures.means.executed_batch > 0.0 {
        let of =
            largest.and_then(|(_, value)| value.as_u64()).map_or_else(String::new, |largest| format!(" of {largest}"));
        lines.push(format!("batches of {:.1}{of} were executed; {times}", figures.means.executed_batch));
    } else if figures.means.queue_us + figures.means.compute_us > 0.0 {
        lines.push(format!("{times}, of all models that it calls"));
    }
    for (dimension, searched) in search.search.iter().enumerate() {
        let Some(place) = &place else { break };
        let beside = |index: usize| {
            let mut other = place.clone();
            other[dimension] = index;
            let position =
                search.planner.candidates().iter().position(|candidate| candidate.place.as_ref() == Some(&other))?;
            candidates.iter().find(|candidate| candidate.number == position)
        };
        let steps = [
            place[dimension].checked_sub(1),
            Some(place[dimension] + 1).filter(|index| *index < searched.values.len()),
        ];
        for other in steps.into_iter().flatten().filter_map(beside) {
            if let Some(line) = step(search.plan, &searched.setting.to_string(), (winner, other), dimension) {
                lines.push(line);
            }
        }
    }
    lines
}

/// The result of a neighbour, as a sentence.
fn step(
    plan: &TunePlan,
    setting: &str,
    (winner, other): (&CandidateResult, &CandidateResult),
    dimension: usize,
) -> Option<String> {
    let (own, theirs) = (winner.figures.as_ref()?, other.figures.as_ref());
    let value = &other.values[dimension];
    let Some(theirs) = theirs else {
        return other.reason.as_ref().map(|reason| format!("{setting} {}: {reason}", asked(value)));
    };
    let share = |one: f64, other: f64| format!("{:+.0} %", (one / other - 1.0) * 100.0);
    let rate = share(theirs.means.throughput, own.means.throughput);
    let latency = share(theirs.means.latency_ns, own.means.latency_ns);
    let missed = if other.meets { "" } else { ", which misses a constraint" };
    Some(format!("{setting} {}: throughput {rate}, p{} {latency}{missed}", asked(value), plan.percentile()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::tune::sample::plan;
    use crate::tune::{Found, Observation, Settings, Space};

    fn sentence(flags: &str, answer: &Answer, fate: Fate) -> (String, String) {
        let yours = Candidate { fate, ..Candidate::new(None) };
        let verdict = verdict(&plan(flags), answer, (&yours, false));
        (verdict.word, verdict.sentence)
    }

    #[test]
    fn a_search_in_which_all_others_fail_tells_why() {
        let with = |fate: Fate| Candidate { fate, ..Candidate::new(None) };
        let failed = || with(Fate::Failed("no such parameter".to_owned()));
        let all = obstacle(&[with(Fate::Open), failed(), failed()]).unwrap();
        assert_eq!(all, "none of the 2 other candidates could be measured: no such parameter");
        assert_eq!(obstacle(&[failed(), with(Fate::Open), failed()]), None, "one is open");
        assert_eq!(obstacle(&[with(Fate::Open)]), None, "there is no other");
    }

    #[test]
    fn verdicts_say_what_is_so() {
        let failed = || Fate::Failed("out of memory".to_owned());
        let (word, text) = sentence("", &Answer::Unconfirmed(0), Fate::Open);
        assert!(word == "kept" && text.starts_with("No configuration shown to be better than yours"), "{text}");
        let (word, text) = sentence("", &Answer::Unconfirmed(3), Fate::Open);
        assert_eq!((word.as_str(), &*text), ("unconfirmed", "Best so far: #3; it was not confirmed against yours"));
        let (_, text) = sentence("", &Answer::Meets(3), failed());
        assert_eq!(text, "#3 works; yours could not be measured: out of memory");
        let (_, text) = sentence("--constraint p99<5ms", &Answer::Meets(3), Fate::Open);
        assert_eq!(text, "#3 meets the constraints; yours does not");
        let (word, text) = sentence("", &Answer::Nothing, failed());
        assert!(word == "nothing" && !text.contains("constraint"), "{text}");
    }

    #[test]
    fn an_interrupt_before_anything_was_measured_says_nothing_of_candidates() {
        let told = |interrupted: bool| {
            let verdict = verdict(&plan(""), &Answer::Nothing, (&Candidate::new(None), interrupted));
            (exit_code(&Answer::Nothing, interrupted), verdict.word, verdict.sentence)
        };
        let nothing = |code: u8, sentence: &str| (code, "nothing".to_owned(), sentence.to_owned());
        assert_eq!(told(true), nothing(130, "Interrupted before anything was measured"));
        assert_eq!(told(false), nothing(3, "Nothing could be measured: no candidate works"));
        let of_measured = [Answer::Unconfirmed(3), Answer::NoneMeets(3)].map(|answer| exit_code(&answer, true));
        assert_eq!(of_measured, [0, 2], "what was measured is reported");
    }

    #[test]
    fn who_was_not_confirmed_is_no_winner() {
        let told = |answer: &Answer| (fate(answer, (3, &Candidate::new(None)), None).0, left(answer));
        let so_far = "The best so far, which was not confirmed,";
        assert_eq!(told(&Answer::Unconfirmed(3)), ("ahead".to_owned(), so_far));
        assert_eq!(told(&Answer::Meets(3)), ("winner".to_owned(), "The winner"));
        for yours in [Answer::Unconfirmed(0), Answer::Kept(None), Answer::NoneMeets(3), Answer::Nothing] {
            assert_eq!(left(&yours), "Your configuration", "{yours:?}");
        }
    }

    #[test]
    fn who_was_never_measured_was_not_worse() {
        let gone = |reason: &str| Candidate {
            fate: Fate::Dropped { rung: 1, reason: reason.to_owned(), is_shown: true },
            ..Candidate::new(None)
        };
        let told = fate(&Answer::Kept(None), (4, &gone("no time to measure it")), None);
        assert_eq!(told, ("not measured".to_owned(), Some("no time to measure it".to_owned())));
    }

    /// A candidate that was measured.
    fn seen(fate: Fate) -> Candidate {
        let mut planner =
            Planner::new(Space::default(), Settings { budget_s: 30.0, margin: 0.02, seed: 1, unit_s: 0.25 });
        let trial = planner.next().unwrap();
        let found = Ok(Found { score: 0.0, violation: -1.0 });
        planner.observe(&trial, &Observation { seconds: 0.3, found });
        Candidate { fate, ..planner.candidates()[0].clone() }
    }

    #[test]
    fn who_was_confirmed_and_is_worse_is_called_that() {
        let told = |confirmed: Confirmed, own: Fate| fate(&Answer::Kept(None), (4, &seen(own)), Some(confirmed));
        let worse = |reason: &str| ("worse".to_owned(), Some(reason.to_owned()));
        let near = Confirmed { meets: true, share: None };
        assert_eq!(told(Confirmed { share: Some(0.4), ..near }, Fate::Open), worse("60.0 % worse than the best"));
        assert_eq!(told(Confirmed { meets: false, ..near }, Fate::Open), worse("misses a constraint"));
        assert_eq!(told(near, Fate::Open), ("not worse".to_owned(), None));
        let dropped = |is_shown: bool| Fate::Dropped { rung: 1, reason: "behind".to_owned(), is_shown };
        assert_eq!(told(near, dropped(false)), ("not worse".to_owned(), None));
        assert_eq!(told(near, dropped(true)), ("dropped".to_owned(), Some("rung 1: behind".to_owned())));
    }
}
