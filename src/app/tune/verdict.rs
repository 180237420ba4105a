//! The verdict of a search in words.

use crate::app::tune::rate;
use crate::app::tune::searched::Search;
use crate::plan::TunePlan;
use crate::result::{CandidateResult, Figures, TuneVerdict};
use crate::stats::Interval;
use crate::terms::Statistic;
use crate::tune::{Answer, Gain, Status};

/// The answer, with what its sentence names of the candidates.
pub fn verdict(search: &Search<'_>, answer: &Answer, candidates: &[CandidateResult]) -> TuneVerdict {
    let sentences = Sentences { search, candidates };
    let (name, winner, gain, sentence) = match answer {
        Answer::Better(number, gain) => ("better", Some(*number), Some(*gain), sentences.better(*number, gain)),
        Answer::Kept(Some((number, gain))) => ("kept", Some(0), Some(*gain), sentences.kept_beside(*number, gain)),
        Answer::Kept(None) => {
            ("kept", Some(0), None, format!("{}: no other passed the confirmation", sentences.none()))
        }
        Answer::Meets(number) => ("meets", Some(*number), None, sentences.meets(*number)),
        Answer::NoneMeets(number) => {
            let (name, sentence) = sentences.none_meets(*number);
            (name, None, None, sentence)
        }
        Answer::Unconfirmed(number, gain) => {
            ("unconfirmed", Some(*number), Some(*gain), sentences.unconfirmed(*number, gain))
        }
        Answer::TooShort { needed_s, meets } => {
            ("too_short", answer.winner(), None, sentences.too_short(*needed_s, *meets))
        }
        Answer::Nothing => ("nothing", None, None, sentences.nothing().to_owned()),
    };
    TuneVerdict {
        name: name.to_owned(),
        winner,
        gain: gain.map(|gain| gain.factor),
        interval: gain.map(|gain| gain.interval),
        sentence,
    }
}

struct Sentences<'a, 'b> {
    search: &'a Search<'b>,
    candidates: &'a [CandidateResult],
}

impl Sentences<'_, '_> {
    fn plan(&self) -> &TunePlan {
        self.search.plan
    }

    fn none(&self) -> String {
        format!("No configuration shown to be better than yours by {}", percent(self.plan().margin))
    }

    /// How the objective changes from yours to another.
    fn change(&self, gain: &Gain) -> String {
        let share = |factor: f64| format!("{:+.1}", (factor - 1.0) * 100.0);
        let Interval { low, high } = gain.interval;
        match self.plan().objective {
            Statistic::Throughput => format!("throughput {} % [{}, {}]", share(gain.factor), share(low), share(high)),
            // A factor of improvement divides the latency.
            statistic => format!(
                "{} latency {} % [{}, {}]",
                statistic.name(),
                share(1.0 / gain.factor),
                share(1.0 / high),
                share(1.0 / low)
            ),
        }
    }

    /// With how many requests outstanding a candidate was measured, where the search has chosen that.
    fn load(&self, number: usize) -> String {
        let result = self.candidates.iter().find(|candidate| candidate.number == number);
        let load = result.and_then(|candidate| candidate.figures.as_ref()?.means.concurrency);
        match load.filter(|_| self.plan().searches_load()) {
            Some(load) => format!(" with {load} outstanding"),
            None => String::new(),
        }
    }

    fn better(&self, number: usize, gain: &Gain) -> String {
        let loads = match self.load(number) {
            load if load.is_empty() => String::new(),
            load => format!("; #{number}{load}, yours{}", self.load(0)),
        };
        format!("Better than yours: {}{loads}", self.change(gain))
    }

    fn kept_beside(&self, number: usize, gain: &Gain) -> String {
        let bound = ((gain.interval.high - 1.0) * 100.0).max(0.0);
        let (none, best) = (self.none(), self.change(gain));
        let loads = match self.load(0) {
            load if load.is_empty() => String::new(),
            load => format!("; yours{load}, #{number}{}", self.load(number)),
        };
        format!("{none}: the best other, #{number}, is at {best}; there is at most {bound:.1} % to gain{loads}")
    }

    fn meets(&self, number: usize) -> String {
        let theirs = match (self.plan().constraints.is_empty(), self.sends_rate(number)) {
            (true, false) => "works",
            (true, true) => "keeps up with the rate",
            (false, false) => "meets the constraints",
            (false, true) => "meets the constraints and keeps up with the rate",
        };
        let yours = match &self.search.planner.candidates()[0].status {
            Status::Failed(reason) => format!("yours could not be measured: {reason}"),
            _ => "yours does not".to_owned(),
        };
        format!("#{number} {theirs}{}; {yours}", self.load(number))
    }

    /// On a machine that others used, what met no constraint might meet it alone.
    fn none_meets(&self, number: usize) -> (&'static str, String) {
        let (demand, to_meet) = match self.falls_behind(number) || self.plan().constraints.is_empty() {
            true => ("keeps up with the rate", "keep up with the rate"),
            false => ("meets the constraints", "meet the constraints"),
        };
        match self.search.disturbances() {
            (disturbed, all, Some(worst)) if 2 * disturbed >= all => {
                let advice = format!("#{number} is nearest; search again on a quiet machine");
                ("none_seen", format!("No candidate was seen to {to_meet}, while {worst}: {advice}"))
            }
            _ => ("none_meets", format!("No candidate {demand}; #{number} is nearest")),
        }
    }

    fn means(&self, number: usize) -> Option<&Figures> {
        let result = self.candidates.iter().find(|candidate| candidate.number == number);
        result.and_then(|candidate| candidate.figures.as_ref()).map(|figures| &figures.means)
    }

    /// Whether a candidate was measured at a rate, with which it has to keep up.
    fn sends_rate(&self, number: usize) -> bool {
        self.means(number).is_some_and(|means| means.named.contains_key(rate::KEPT_UP))
    }

    fn falls_behind(&self, number: usize) -> bool {
        self.means(number).is_some_and(rate::falls_behind)
    }

    fn unconfirmed(&self, number: usize, gain: &Gain) -> String {
        let shown = format!("#{number} was better than yours in the same rounds: {}", self.change(gain));
        format!("{shown}{}; it was not confirmed: {}", self.load(number), self.broken_off())
    }

    fn too_short(&self, needed_s: f64, meets: bool) -> String {
        let reason = self.broken_off();
        let (misses, to_meet) = match self.falls_behind(0) {
            true => ("does not keep up with the rate", "keep up with it"),
            false => ("misses the constraints", "meet them"),
        };
        match (meets, self.search.interrupted) {
            (true, true) => format!("Yours stays: {reason} before another was shown to be better"),
            (true, false) => format!("Not enough time: yours stays; `--budget {}` would do", budget(needed_s)),
            (false, true) => format!("Yours {misses}: {reason} before another was shown to {to_meet}"),
            (false, false) => format!(
                "Not enough time: yours {misses}, and no other was shown to {to_meet}; `--budget {}` would do",
                budget(needed_s)
            ),
        }
    }

    fn broken_off(&self) -> &'static str {
        if self.search.interrupted { "the search was interrupted" } else { "there was no time" }
    }

    fn nothing(&self) -> &'static str {
        if self.search.interrupted {
            "Interrupted before anything was measured"
        } else {
            "Nothing could be measured: no candidate works"
        }
    }
}

/// A budget that is easy to type, and no less.
fn budget(seconds: f64) -> String {
    let step = if seconds <= 60.0 { 10.0 } else { 30.0 };
    format!("{:.0}s", (seconds / step).ceil() * step)
}

/// 0.02 as `2 %`.
fn percent(share: f64) -> String {
    format!("{} %", (share * 1e8).round() / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::tune::sample::plan;
    use crate::app::tune::searched::CompletedTrial;
    use crate::result::CandidateStatus;
    use crate::result::disturbance::{Cause, Disturbance};
    use crate::result::{TrialFigures, TuneFigures};
    use crate::tune::{Observation, Phase, Planner, Settings, Space, Trial};

    /// The word and the sentence of an answer, where yours failed for a reason or was measured under a disturbance.
    fn verdict_of(flags: &str, answer: &Answer, trouble: (Option<&str>, Option<Disturbance>)) -> (String, String) {
        let plan = plan(flags);
        let mut planner =
            Planner::new(Space::default(), Settings { budget_s: 30.0, margin: 0.02, seed: 1, unit_s: 0.25 });
        let trial = planner.next_trial().unwrap();
        if let Some(reason) = trouble.0 {
            planner.observe(&trial, &Observation { seconds: 0.3, found: Err(reason.to_owned()) });
        }
        let named = flags.contains("--at-rate").then(|| (rate::KEPT_UP.to_owned(), 0.8));
        let figures = |load: u32| TrialFigures {
            figures: Figures {
                concurrency: Some(load),
                named: named.clone().into_iter().collect(),
                ..Figures::default()
            },
            disturbance: trouble.1,
            ..TrialFigures::default()
        };
        let candidate = |number: usize, load: u32| CandidateResult {
            number,
            values: Vec::new(),
            status: CandidateStatus::NotMeasured,
            reason: None,
            meets: true,
            figures: TuneFigures::new(&[&figures(load)], &[]),
        };
        let trial = Trial { phase: Phase::Race, ..trial };
        let completed = [CompletedTrial { trial, measured: figures(8) }];
        let interrupted = flags.is_empty() && matches!(answer, Answer::TooShort { meets: false, .. });
        let search =
            Search { plan: &plan, search: &[], planner: &planner, completed: &completed, bases: &[], interrupted };
        let verdict = verdict(&search, answer, &[candidate(0, 8), candidate(3, 12)]);
        (verdict.name, verdict.sentence)
    }

    const GAIN: Gain = Gain { factor: 1.2, interval: Interval { low: 1.1, high: 1.3 } };
    const AS_IT_WAS: (Option<&str>, Option<Disturbance>) = (None, None);

    #[test]
    fn verdicts_say_what_is_so() {
        let verdict = |flags: &str, answer: Answer| verdict_of(flags, &answer, AS_IT_WAS);
        let (word, text) = verdict("", Answer::TooShort { needed_s: 33.0, meets: true });
        assert_eq!((&*word, &*text), ("too_short", "Not enough time: yours stays; `--budget 40s` would do"));
        let (_, text) = verdict("--constraint p99<5ms", Answer::TooShort { needed_s: 61.0, meets: false });
        assert!(text.contains("yours misses the constraints") && text.contains("`--budget 90s` would do"), "{text}");
        let (word, text) = verdict("", Answer::Unconfirmed(3, GAIN));
        let shown = "#3 was better than yours in the same rounds: throughput +20.0 % [+10.0, +30.0]";
        assert_eq!((&*word, text), ("unconfirmed", format!("{shown}; it was not confirmed: there was no time")));
        let (_, text) = verdict_of("", &Answer::Meets(3), (Some("out of memory"), None));
        assert_eq!(text, "#3 works; yours could not be measured: out of memory");
        let (word, text) = verdict_of("", &Answer::Nothing, (Some("out of memory"), None));
        assert!(word == "nothing" && !text.contains("constraint"), "{text}");
        let (_, text) = verdict("", Answer::TooShort { needed_s: 40.0, meets: false });
        assert!(text.contains("interrupted") && !text.contains("--budget"), "{text}");
    }

    #[test]
    fn a_load_that_was_chosen_is_named() {
        let sentence = |flags: &str, answer: Answer| verdict_of(flags, &answer, AS_IT_WAS).1;
        assert_eq!(
            sentence("--constraint p99<5ms", Answer::Better(3, GAIN)),
            "Better than yours: throughput +20.0 % [+10.0, +30.0]; #3 with 12 outstanding, yours with 8 outstanding"
        );
        let text = sentence("--constraint p99<5ms", Answer::Meets(3));
        assert_eq!(text, "#3 meets the constraints with 12 outstanding; yours does not");
        assert!(!sentence("--constraint p99<5ms --at-concurrency 8", Answer::Better(3, GAIN)).contains("outstanding"));
    }

    #[test]
    fn who_falls_behind_a_rate_is_said_to() {
        let sentence = |flags: &str, answer: Answer| verdict_of(flags, &answer, AS_IT_WAS).1;
        for flags in ["--at-rate 100", "--at-rate 100 --constraint p99<5ms"] {
            let none = sentence(flags, Answer::NoneMeets(3));
            assert_eq!(none, "No candidate keeps up with the rate; #3 is nearest");
            let short = sentence(flags, Answer::TooShort { needed_s: 40.0, meets: false });
            assert!(
                short.contains("yours does not keep up with the rate, and no other was shown to keep up"),
                "{short}"
            );
        }
        let taken = sentence("--at-rate 100", Answer::Meets(3));
        assert_eq!(taken, "#3 keeps up with the rate; yours does not");
    }

    /// What misses a constraint beside others may meet it alone.
    #[test]
    fn on_a_busy_machine_nothing_is_said_to_miss_for_good() {
        let busy = (None, Some(Disturbance::new(Cause::Others, 0.3)));
        let (word, text) = verdict_of("--constraint p99<5ms", &Answer::NoneMeets(3), busy);
        assert!(word == "none_seen" && text.contains("other processes used 30%"), "{text}");
        assert!(!text.contains("No candidate meets"), "{text}");
        let (word, text) = verdict_of("--constraint p99<5ms", &Answer::NoneMeets(3), AS_IT_WAS);
        assert_eq!((&*word, &*text), ("none_meets", "No candidate meets the constraints; #3 is nearest"));
    }
}
