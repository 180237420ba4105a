//! The answer to what a run was asked, in a sentence and as values: console, pages, tables, JUnit and Python say the same.
//!
//! What was asked follows from the flags: a limit asks for the most load within it, a range for its knee, variants for
//! how they differ.

mod changes;
mod command;
mod knee;
mod levels;
mod periodic;
mod phrases;
mod study;
mod within;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::checked::{Judgement, STILL_UNDER_WAY};
use crate::figures::FigureAt;
use crate::number::{binary, counted, plain, significant};
use crate::stats::{Bounds, Interval};
use crate::summary::{LevelLoad, MissingStarts};
use crate::tune::CandidateStatus;
use crate::unit::between;
use crate::{Checked, Distinction, RunResult, Setup, TuneResult, Unit};

pub use changes::compared;
pub use knee::{Knee, knee};
pub use phrases::speech;
pub use within::most_within;

/// How many times longer an undecided gate should be measured, and how long it is if nobody says so, in seconds.
const LONGER_GATE: u64 = 4;
const USUAL_GATE_S: f64 = 60.0;

/// What a run was asked, and the answer.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Answer {
    /// What was asked.
    pub question: Question,
    /// The answer in a sentence.
    pub words: String,
    /// The figures in it.
    pub figures: Vec<ReportedFigure>,
    /// How sure it is.
    pub sure: Sureness,
    /// What is missing if it is not sure; if it is, what is wrong with the load for certain.
    pub missing: Option<Missing>,
    /// What the requirements came to, if there are any.
    pub gate: Option<GateAnswer>,
}

/// What flags ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Question {
    /// What a load comes to.
    Level,
    /// The most load within a latency.
    MostLoad,
    /// Where a range bends, and the least latency.
    Knee,
    /// The highest rate that is sustained.
    Saturation,
    /// How others differ from the first.
    Change,
    /// Which way of carrying tensors is fastest.
    Study,
    /// Which configuration to take.
    Configuration,
}

/// How sure an answer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Sureness {
    /// At 95 % confidence.
    Sure,
    /// What was measured says so, but leaves other answers open.
    Undecided,
    /// Nothing that could be answered from was measured.
    NotMeasured,
}

/// A figure of an answer.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ReportedFigure {
    /// Its key in the catalogue.
    pub key: String,
    /// Of what: a level, a variant, a result.
    #[serde(rename = "of")]
    pub subject: String,
    /// What the value is.
    pub unit: Unit,
    /// Its value.
    pub value: f64,
    /// Its 95 % confidence interval, if that is known.
    pub interval: Option<Interval>,
}

/// What is missing for an answer to be sure.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Missing {
    /// What.
    #[serde(rename = "what")]
    pub problem: String,
    /// The command that would probably settle it.
    pub command: Option<String>,
    /// How long that would take.
    pub seconds: Option<u64>,
    /// Whether it is certain: not what the answer leaves open, but what is wrong with what it stands on.
    #[serde(skip)]
    pub is_certain: bool,
}

/// What a gate came to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct GateAnswer {
    /// Whether the run passes.
    pub passed: bool,
    /// What it came to: a run that does not pass may be undecided.
    pub outcome: Judgement,
    /// The one condition that decided, and its value.
    pub words: String,
}

/// What stands for a secret in a command.
const HIDDEN: char = '…';

impl Answer {
    /// One that is sure.
    fn sure(question: Question, words: String, figures: Vec<ReportedFigure>) -> Self {
        Self { question, words, figures, sure: Sureness::Sure, missing: None, gate: None }
    }

    /// The same as far as it goes, with what is missing.
    fn lacks(self, mut missing: Missing) -> Self {
        if missing.command.as_ref().is_some_and(|command| command.contains(HIDDEN)) {
            missing.problem += " (fill in what … hides)";
        }
        Self { sure: Sureness::Undecided, missing: Some(missing), ..self }
    }

    /// The same, with something to know about the load that takes nothing from it: more of the same would change nothing.
    fn notes(self, missing: Missing) -> Self {
        Self { sure: self.sure, ..self.lacks(missing) }
    }

    /// The same, no longer sure; what it lacks already stays.
    fn also_lacks(self, missing: Missing) -> Self {
        match self.missing {
            Some(_) => Self { sure: Sureness::Undecided, ..self },
            None => self.lacks(missing),
        }
    }

    /// Everything in one line: gate, answer, and what is missing.
    pub fn line(&self) -> String {
        let gate = self.gate.as_ref().map(|gate| format!("{}. ", gate.words)).unwrap_or_default();
        let missing =
            self.missing.as_ref().map(|missing| format!("; {}: {}", missing.label().to_lowercase(), missing.text()));
        format!("{gate}{}{}", self.words, missing.unwrap_or_default())
    }
}

impl Missing {
    /// Without a command that would settle it.
    fn new(problem: impl Into<String>) -> Self {
        Self { problem: problem.into(), command: None, seconds: None, is_certain: false }
    }

    /// The same, of which there is no doubt.
    fn certain(self) -> Self {
        Self { is_certain: true, ..self }
    }

    /// What the sentence about it begins with.
    pub fn label(&self) -> &'static str {
        if self.is_certain { "Note" } else { "Not sure" }
    }

    /// What is missing, with how long it would take.
    pub fn text(&self) -> String {
        let time = self.seconds.map(|seconds| match seconds {
            0..=119 => format!(" (about {seconds} s)"),
            _ => format!(" (about {} min)", seconds.div_ceil(60)),
        });
        self.problem.clone() + &time.unwrap_or_default()
    }
}

impl RunResult {
    /// The answer to what the run was asked; none where nothing was measured yet.
    pub fn answer(&self) -> Option<Answer> {
        let answer = match (&self.variants, &self.sweep, &self.periodic) {
            (Some(variants), ..) if variants.matrix.is_some() => study::winners(variants, &self.setup),
            (Some(variants), ..) => {
                changes::of_variants(variants, &self.setup, !self.requirements.is_empty()).map(|answer| Answer {
                    // What a gate was asked it has answered.
                    missing: answer.missing.filter(|_| !self.is_decided()),
                    ..answer
                })
            }
            (None, Some(found), _) => Some(levels::saturation(self, found)),
            (None, None, Some(periodic)) => periodic::answer(periodic),
            (None, None, None) => levels::answer(self),
        };
        let answer = Answer { gate: gate(&self.requirements), ..answer? };
        let is_doubtful = answer.missing.as_ref().is_none_or(|missing| !missing.is_certain);
        let answer = match self.breaking_off().filter(|_| answer.sure != Sureness::NotMeasured) {
            Some(problem) if is_doubtful => answer.lacks(Missing::new(problem).certain()),
            Some(problem) => answer.also_lacks(Missing::new(problem).certain()),
            None => answer,
        };
        let answer = match self.failed_start().filter(|_| answer.sure == Sureness::Sure) {
            Some(problem) => answer.also_lacks(Missing::new(problem).certain()),
            None => answer,
        };
        let is_open = answer.gate.as_ref().is_some_and(|gate| gate.outcome == Judgement::Undecided && !gate.passed);
        match is_open && answer.sure == Sureness::Sure {
            true => Some(answer.also_lacks(self.longer_gate())),
            false => Some(answer),
        }
    }

    /// The start of the server that failed (`--restarts`), if one did: what was measured at others says nothing of it.
    fn failed_start(&self) -> Option<String> {
        let missing = self.levels.iter().find_map(|level| level.missing_starts.as_ref())?;
        let MissingStarts { planned, measured, reason, .. } = missing;
        Some(format!("start {} of {planned} failed: {reason}", measured + 1))
    }

    /// Why the run does not have all that was asked for, if it was broken off.
    fn breaking_off(&self) -> Option<&'static str> {
        match (self.interrupted, self.server_gone && !self.is_whole()) {
            (true, _) => Some("the run was broken off before it had measured everything"),
            (_, true) => Some("the server went away before everything was measured"),
            _ => None,
        }
    }

    /// What an undecided gate lacks: more of the same.
    fn longer_gate(&self) -> Missing {
        if self.requirements.iter().filter(|checked| checked.open).all(|checked| checked.vague_baseline) {
            let problem =
                "the baseline knows too little of the figure: make it anew, measured longer, or with --restarts";
            return Missing::new(problem);
        }
        let Setup { measurement, mode, .. } = &*self.setup;
        let is_joint = self.levels.iter().any(|level| level.ranks.len() > 1);
        let flag = match measurement.request_count {
            Some(count) => Some(("--request-count", (LONGER_GATE * count).to_string())),
            None if measurement.restarts > 1 => {
                Some(("--restarts", (LONGER_GATE * u64::from(measurement.restarts)).to_string()))
            }
            // Such loads are not measured on for a condition.
            None if self.variants.is_none() && (is_joint || !mode.has_windows()) => None,
            None => {
                let spent = self.requirements.iter().filter_map(|checked| checked.measured_s).fold(0.0, f64::max);
                Some(("--gate-time", format!("{}s", (LONGER_GATE as f64 * spent.max(USUAL_GATE_S)).ceil())))
            }
        };
        let time = measurement.level_time.map(|most| LONGER_GATE * most.as_secs_f64().ceil() as u64);
        let time = time.map(|seconds| ("--max-level-time", format!("{seconds}s")));
        let command = flag.map(|changed| {
            command::command(&self.setup, &[changed].into_iter().chain(time.clone()).collect::<Vec<_>>())
        });
        Missing {
            command,
            ..Missing::new("a condition is neither met nor missed for sure; measured longer, it may be")
        }
    }

    /// Whether there are requirements, and each is certainly met or missed.
    fn is_decided(&self) -> bool {
        let is_decided = |checked: &Checked| !checked.open && checked.outcome != Judgement::Undecided;
        !self.requirements.is_empty() && self.requirements.iter().all(is_decided)
    }
}

impl TuneResult {
    /// The settings of the best configuration, as far as they differ from yours, with what to do with them; none if yours stays.
    fn recommended(&self) -> Option<String> {
        let has = |status| self.candidates.iter().find(move |candidate| candidate.status == status);
        let ahead = || has(CandidateStatus::Ahead).filter(|ahead| self.verdict.winner == Some(ahead.number));
        let best = has(CandidateStatus::Winner).map(|winner| ("Take", winner));
        let (advice, winner) = best.or_else(|| ahead().map(|ahead| ("Ahead is", ahead)))?;
        let yours = self.candidates.iter().find(|candidate| candidate.number == 0).map(|yours| &yours.values);
        let values = self.settings.iter().zip(&winner.values).enumerate();
        let changed = values.filter(|(index, (_, value))| yours.and_then(|yours| yours.get(*index)) != Some(*value));
        let all: Vec<String> = changed.map(|(_, (name, value))| format!("{name} {value}")).collect();
        (!all.is_empty()).then(|| format!("{advice} {}", all.join(", ")))
    }

    /// The answer to a search.
    pub fn answer(&self) -> Answer {
        let bottleneck = self.why.first().map(|why| format!("; {}", why.trim_end_matches('.'))).unwrap_or_default();
        let sentence = self.verdict.sentence.trim_end_matches('.');
        let words = match self.recommended() {
            Some(settings) => format!("{settings}: {}{bottleneck}", lower_first(sentence)),
            None => format!("{sentence}{bottleneck}"),
        };
        let gain = self.verdict.gain.map(|value| ReportedFigure {
            key: self.objective.clone(),
            subject: self.verdict.winner.map(|winner| format!("#{winner}")).unwrap_or_default(),
            unit: Unit::Ratio,
            value,
            interval: self.verdict.interval,
        });
        let sure = match self.verdict.name.as_str() {
            "better" | "kept" | "meets" | "none_meets" => Sureness::Sure,
            "nothing" => Sureness::NotMeasured,
            _ => Sureness::Undecided,
        };
        let figures = gain.into_iter().collect();
        Answer { question: Question::Configuration, words, figures, sure, missing: None, gate: None }
    }
}

/// The sentence as the second part of one.
fn lower_first(sentence: &str) -> String {
    let mut letters = sentence.chars();
    letters.next().map(|first| first.to_lowercase().chain(letters).collect()).unwrap_or_default()
}

/// The condition that decided: of those that fail the first, else of those that are undecided the first, else the first.
fn gate(all: &[Checked]) -> Option<GateAnswer> {
    let failed = all.iter().find(|checked| !checked.passes && !checked.open);
    let open = all.iter().find(|checked| checked.open);
    let undecided = all.iter().find(|checked| checked.outcome == Judgement::Undecided);
    let decided = failed.or(open).or(undecided).or(all.first())?;
    let at_load = decided.level.map(|load| format!(" at {}", at(load, decided.distinction))).unwrap_or_default();
    let variant = decided.variant.as_ref().map(|name| format!(" of {name}")).unwrap_or_default();
    let value = decided.value.map(|value| format!(": {}", against_bound(decided, value)));
    let note = decided.note.as_deref();
    // The value alone does not say why it is not known.
    let waiting = note.filter(|note| decided.value.is_some() && *note == STILL_UNDER_WAY);
    let waiting = waiting.and_then(|note| note.strip_prefix("undecided: ")).map(|note| format!("; {note}"));
    let note = note.filter(|_| decided.value.is_none()).map(|note| format!(": {note}"));
    let passed = failed.is_none() && open.is_none();
    let word = match (passed, failed.is_some(), decided.outcome == Judgement::Undecided) {
        (true, _, true) => "Passed, undecided",
        (true, _, false) => "Passed",
        (false, true, _) => "Failed",
        (false, false, _) => "Undecided",
    };
    let others = if passed && all.len() > 1 { format!(", and {} more", all.len() - 1) } else { String::new() };
    let value = value.or(note).unwrap_or_default();
    let outcome = match (passed, failed.is_some()) {
        (true, _) => decided.outcome,
        (false, true) => Judgement::Failed,
        (false, false) => Judgement::Undecided,
    };
    let waiting = waiting.unwrap_or_default();
    let words = format!("{word}: {}{at_load}{variant}{value}{waiting}{others}", decided.text);
    Some(GateAnswer { passed, outcome, words })
}

/// A requirement's value with its interval. What would look like the bound has the digits that tell it from that.
fn against_bound(checked: &Checked, value: f64) -> String {
    let unit = checked.unit;
    let show = |value: f64| {
        let is_like = |bound: f64| bound != value && unit.show(bound) == unit.show(value);
        if checked.bound.is_some_and(is_like) { unit.show_exactly(value) } else { unit.show(value) }
    };
    // What is above the bound is shown to be by its lower end.
    let is_above = checked.bound.is_some_and(|bound| value > bound);
    let range = match (checked.interval, checked.bounds) {
        (Some(interval), _) => format!(" ({})", between(&show(interval.low), &show(interval.high))),
        (None, Bounds { low: Some(low), .. }) if is_above => format!(" (at least {})", show(low)),
        (None, Bounds { high: Some(high), .. }) => format!(" (at most {})", show(high)),
        (None, Bounds { low: Some(low), .. }) => format!(" (at least {})", show(low)),
        (None, Bounds { .. }) => String::new(),
    };
    format!("{}{}{range}", show(value), checked.relation())
}

/// A level in a sentence: `concurrency 4, batch size 2`.
fn at(load: LevelLoad, distinction: Distinction) -> String {
    let Distinction { batch_size, repetition, input_bytes } = distinction;
    let load = match load {
        LevelLoad::Concurrency(concurrency) => format!("concurrency {concurrency}"),
        LevelLoad::Streams(streams) => counted(streams.into(), "stream"),
        // Loads that were asked for may differ in their sixth digit.
        LevelLoad::RequestRate(rate) if rate < 1e6 => format!("{} requests/s", significant(rate)),
        // All requests of a schedule are due at one moment.
        LevelLoad::Schedule(rate) if rate <= 0.0 => "a single burst".to_owned(),
        LevelLoad::RequestRate(rate) | LevelLoad::Schedule(rate) => format!("{} requests/s", plain(rate)),
    };
    let batch = batch_size.map(|size| format!("batch size {size}"));
    let repetition = repetition.map(|number| format!("repetition {number}"));
    let bytes = input_bytes.map(|bytes| format!("inputs of {}", binary(bytes)));
    [Some(load), batch, repetition, bytes].into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// A figure with its interval, for an answer.
fn reported(subject: String, figure: FigureAt, value: f64, interval: Option<Interval>) -> ReportedFigure {
    ReportedFigure { key: figure.key(), subject, unit: figure.figure.unit, value, interval }
}

#[cfg(test)]
mod tests;
