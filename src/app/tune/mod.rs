//! `tune`: loads candidates one after the other as the planner asks for them, measures them, and reports what is
//! proven.

mod assignment;
mod description;
mod entry;
mod figures;
mod files;
mod goal;
mod isolated;
mod load;
mod loading;
mod means;
mod members;
mod outcome;
mod outstanding;
mod rate;
mod record;
#[cfg(test)]
mod sample;
mod searched;
mod space;
mod subject;
mod thinning;
mod trial_runner;
mod verdict;
mod why;

use std::collections::VecDeque;
use std::time::Duration;

use serde_json::Value;

use crate::affinity;
use crate::app::context::RunContext;
use crate::app::screen::Screen;
use crate::app::tune::entry::Entry;
use crate::app::tune::isolated::Isolated;
use crate::app::tune::means::{Means, assignment};
use crate::app::tune::record::{Record, Step};
use crate::app::tune::searched::CompletedTrial;
use crate::app::tune::subject::Subject;
use crate::app::{check_devices, ending, limit_replies, phase, signals};
use crate::backends::Connect;
use crate::clock::Stamp;
use crate::error::{Error, Result};
use crate::exit::{self, Codes};
use crate::limits;
use crate::plan::{Searched, Setting, TunePlan};
use crate::report::tune::Places;
use crate::report::{self, Interrupts};
use crate::result::{Figures, TrialFigures, TuneResult};
use crate::stdio::{self, note};
use crate::tune::{Found, Observation, Phase, Planner, Settings, Trial};

/// Bounds of the shortest measurement, in seconds.
const UNIT_S: (f64, f64) = (0.25, 2.0);
/// Requests that a measurement should have for its 99th percentile to mean something.
const REQUESTS: f64 = 200.0;

/// Searches. Returns the exit code.
///
/// # Errors
/// Whatever keeps the search from starting, or its results from being written.
pub fn tune(mut plan: TunePlan, connect: Connect) -> Result<u8> {
    report::tune::check(&plan.folder(), record::FILE)?;
    if plan.resume && !plan.is_budget_given {
        let had = record::budget_of(&plan.folder())?;
        plan.budget = had.map_or(plan.budget, Duration::from_secs_f64);
    }
    affinity::pin_this_process(plan.run.load.cpus.as_deref())?;
    limits::note_address_space();
    let interrupts = signals::watch()?;
    limits::watch_address_space()?;
    ending::clean_up_after_others();
    limit_replies(&plan.run);
    check_devices(&plan.run)?;
    if plan.run.target.service.is_embedded() {
        phase::loading();
    }
    let outcome = match plan.trial {
        true => isolated::answer(&plan, connect, interrupts),
        false => search(&plan, connect, interrupts),
    };
    outcome.or_else(|error| if phase::was_disturbed() { Ok(exit::INTERRUPTED) } else { Err(error) })
}

fn search(plan: &TunePlan, connect: Connect, interrupts: Interrupts) -> Result<u8> {
    plan.run.notes.iter().for_each(|note| note!("{note}"));
    files::prepare(plan)?;
    let screen = Screen::new();
    let context = RunContext { screen: &screen, interrupts, codes: Codes::Own, connect, ranks: None };
    let isolated = plan.isolate.then(|| Isolated::new(plan, interrupts));
    let subject = match &isolated {
        // The model is not loaded in this process, where a crash would end the whole search.
        Some(isolated) if plan.run.target.service.is_embedded() => Subject::with(plan, context, isolated.read()?),
        _ => Subject::open(plan, context)?,
    };
    if !phase::ready() {
        return Ok(exit::INTERRUPTED);
    }
    let search = settings(plan, &subject)?;
    note_batcher(&search, &subject);
    let means = Means { subject, isolated, interrupts };
    let mut search_run = RunningSearch::begin(plan, &search, means)?;
    screen.print(&description::settings(plan, &search, search_run.planner.space().size()))?;
    let ended = search_run.run();
    // An interrupt from here on did not end the search.
    let result = search_run.result();
    let restored = search_run.means.subject.restore();
    let printed = screen.print(&report::tune::table(&result));
    let answer = search_run.planner.answer();
    let configurations = search_run.configurations(answer.winner().unwrap_or(0));
    let output = &plan.run.output;
    let folder = plan.folder();
    let places = Places { folder: &folder, csv: output.csv.as_deref(), summary: output.summary.as_deref() };
    let files = report::tune::write(&places, interrupts, &result, &configurations);
    stdio::say(format_args!("{} is in {}\n", outcome::left(&answer), folder.display()));
    [ended, restored, files, printed].into_iter().fold(Ok(()), Error::both)?;
    match outcome::obstacle(search_run.planner.candidates()).filter(|_| !result.interrupted) {
        Some(obstacle) => Err(Error::server(format!("tune: {obstacle}"))),
        None => Ok(outcome::exit_code(&answer, result.interrupted)),
    }
}

/// Says that candidates with larger batches get what forms them: it may be that, and not the size, which pays.
fn note_batcher(search: &[Searched], subject: &Subject<'_>) {
    for Searched { setting, values } in search {
        let Setting::Model(model, path) = setting else { continue };
        let Some(base) = subject.base(model.as_deref()).filter(|base| !assignment::has_scheduler(base)) else {
            continue;
        };
        let largest = base["max_batch_size"].as_u64().unwrap_or(0).max(1);
        let is_larger = |value: &Value| value.as_u64().is_some_and(|size| size > largest);
        if path.to_string() == "max_batch_size" && values.iter().any(is_larger) {
            note!(
                "{setting}: candidates above {largest} get dynamic_batching {{}}, too, without which no batch would form"
            );
        }
    }
}

/// The settings to search: those that were asked for, or those that suit the model.
fn settings(plan: &TunePlan, subject: &Subject<'_>) -> Result<Vec<Searched>> {
    if !plan.search.is_empty() {
        let unknown = plan.search.iter().find_map(|searched| match &searched.setting {
            Setting::Model(Some(model), _) if subject.base(Some(model)).is_none() => Some(model),
            _ => None,
        });
        return match unknown {
            Some(model) => Err(Error::usage(format!(
                "--search {model}:…: '{}' calls no model of that name; name one that it calls (--bls-composing-models names those of a BLS model)",
                plan.run.target.model
            ))),
            None => Ok(plan.search.clone()),
        };
    }
    let mut usual = subject.base(None).map(space::usual).unwrap_or_default();
    usual.extend(space::usual_of_parts(subject.base(None).unwrap_or(&Value::Null), subject.parts()));
    space::fit_requests(&mut usual, plan.run.data.batch_size);
    let present = |setting: &Setting| space::in_force(setting, plan, subject.bases());
    thinning::thin(&mut usual, present).iter().for_each(|thinned| note!("{thinned}"));
    match usual.is_empty() {
        true => Err(Error::usage("tune: there is nothing to search in this model; name settings with --search")),
        false => Ok(usual),
    }
}

/// The shortest measurement: as long as the present configuration takes for enough requests.
fn unit(plan: &TunePlan, budget_s: f64, present: &Figures) -> Duration {
    let most = UNIT_S.1.min(budget_s / 60.0).max(UNIT_S.0);
    let needed = (REQUESTS / request_rate(present).max(1.0)).clamp(UNIT_S.0, most);
    plan.unit.unwrap_or(Duration::from_secs_f64(needed))
}

/// A running search.
struct RunningSearch<'a> {
    plan: &'a TunePlan,
    search: &'a [Searched],
    means: Means<'a>,
    planner: Planner,
    completed: Vec<CompletedTrial>,
    record: Record,
    /// Steps that an earlier search has already measured.
    recorded: VecDeque<Step>,
    phase: Option<Phase>,
    /// Whether the server is gone.
    is_deserted: bool,
}

impl<'a> RunningSearch<'a> {
    fn begin(plan: &'a TunePlan, search: &'a [Searched], means: Means<'a>) -> Result<Self> {
        let (folder, interrupts) = (plan.folder(), means.interrupts);
        let current_head = description::head(plan, search, means.subject.bases());
        let (record, steps, first) = if plan.resume {
            let (head, steps) = record::read(&folder, &current_head)?;
            (Record::resume(&folder, &head, interrupts)?, steps, head.budget_s)
        } else {
            (Record::begin(&folder, &current_head, interrupts)?, Vec::new(), None)
        };
        let budget_s = first.unwrap_or(plan.budget.as_secs_f64());
        let unit_s = plan.unit.map_or(UNIT_S.0, |unit| unit.as_secs_f64());
        let space = space::space(search, plan, means.subject.bases());
        let settings = Settings { budget_s, margin: plan.margin, seed: plan.run.seed, unit_s };
        Ok(Self {
            plan,
            search,
            means,
            planner: Planner::new(space, settings),
            completed: Vec::new(),
            record,
            recorded: steps.into(),
            phase: None,
            is_deserted: false,
        })
    }

    /// Measures what the planner asks for, to the end.
    fn run(&mut self) -> Result<()> {
        while !self.means.is_interrupted() {
            self.extend_budget()?;
            let Some(trial) = self.planner.next_trial() else { break };
            self.announce(&trial);
            let recorded_entry = match self.recorded.pop_front() {
                Some(Step::Trial(entry)) if entry.trial == trial => Some(*entry),
                _ => None,
            };
            let entry = match recorded_entry {
                Some(entry) => entry,
                None => {
                    // From here on this search differs from the recorded one.
                    self.recorded.clear();
                    let Some(entry) = self.measure(&trial) else { break };
                    entry
                }
            };
            if entry.line.is_none() && entry.observation.found.is_err() && self.is_broken_off() {
                break;
            }
            self.planner.observe(&trial, &entry.observation);
            self.record.add(&entry)?;
            if let Some(measured) = entry.measured {
                let violation = entry.observation.found.as_ref().map_or(0.0, |found| found.violation);
                self.means.subject.reached(&trial, &measured, violation);
                if trial.again {
                    // It takes the place of the disturbed one.
                    self.completed.pop();
                }
                if self.completed.is_empty() {
                    self.planner.set_unit(unit(self.plan, self.planner.budget(), &measured.figures).as_secs_f64());
                }
                self.completed.push(CompletedTrial { trial, measured });
            }
        }
        Ok(())
    }

    /// Extends the budget: where the recorded search extended it, and after all recorded steps to what was asked for.
    fn extend_budget(&mut self) -> Result<()> {
        while let Some(Step::Budget(budget_s)) = self.recorded.front() {
            let budget_s = *budget_s;
            self.recorded.pop_front();
            self.planner.extend_budget(budget_s);
            self.record.extend(budget_s, true)?;
        }
        let budget_s = self.plan.budget.as_secs_f64();
        if !self.recorded.is_empty() || budget_s <= self.planner.budget() {
            return Ok(());
        }
        let (had, spent) = (self.planner.budget(), self.planner.spent());
        note!(
            "--resume: the search continues with {budget_s:.0} s instead of {had:.0} s, of which {spent:.0} s are spent"
        );
        self.planner.extend_budget(budget_s);
        self.record.extend(budget_s, false)
    }

    /// Measures a candidate; `None` if the time that is left is not enough for one that has been measured before.
    fn measure(&mut self, trial: &Trial) -> Option<Entry> {
        let started = Stamp::now();
        let left = Duration::from_secs_f64((self.planner.budget() - self.planner.spent()).max(0.0));
        let tried = self.means.run_trial(self.search, self.place(trial.candidate), trial, left);
        let took = Stamp::now() - started;
        let measured = match tried.transpose() {
            Some(measured) => measured,
            None if took >= left && self.has_measured(trial.candidate) => return None,
            None => Err(isolated::late(took)),
        };
        let seconds = took.as_secs_f64();
        let found = measured.as_ref().map(|measured| self.found(measured)).map_err(ToString::to_string);
        Some(Entry { trial: *trial, observation: Observation { seconds, found }, measured: measured.ok(), line: None })
    }

    /// Whether a trial failed because the search is over: the user has interrupted, or the server is gone.
    fn is_broken_off(&mut self) -> bool {
        if let Some(error) = self.means.lost_server() {
            note!("the search ends here, because the server is gone: {error}");
            self.is_deserted = true;
        }
        self.is_deserted || self.means.is_interrupted()
    }

    fn has_measured(&self, candidate: usize) -> bool {
        self.completed.iter().any(|completed| completed.trial.candidate == candidate)
    }

    /// What the planner is told of a measurement.
    fn found(&self, measured: &TrialFigures) -> Found {
        let root = &self.plan.run.target.model.name;
        let bottleneck = members::bottleneck(&measured.members);
        Found {
            disturbed: measured.disturbance.is_some(),
            bottleneck: bottleneck.and_then(|member| members::group(self.search, root, &member.model)),
            ..goal::found(self.plan, &measured.figures)
        }
    }

    /// The point of a candidate; `None` for the present configuration, whatever its point is.
    fn place(&self, candidate: usize) -> Option<Vec<usize>> {
        let indexes = self.planner.candidates()[candidate].place.clone();
        indexes.filter(|_| candidate != 0)
    }

    /// Reports progress.
    fn announce(&mut self, trial: &Trial) {
        if self.phase == Some(trial.phase) {
            return;
        }
        self.phase = Some(trial.phase);
        let doing = match trial.phase {
            Phase::Calibration => "searching along each setting",
            Phase::Race => "racing",
            Phase::Step => "searching around the best",
            Phase::Confirmation => "confirming the best against your configuration",
        };
        let open = self.planner.candidates().iter().filter(|candidate| candidate.is_open()).count();
        let candidates = if open == 1 { "candidate" } else { "candidates" };
        note!("{doing}: {open} {candidates}, {:.0} of {:.0} s", self.planner.spent(), self.planner.budget());
    }

    fn result(&self) -> TuneResult {
        outcome::result(&searched::Search {
            plan: self.plan,
            search: self.search,
            planner: &self.planner,
            completed: &self.completed,
            bases: self.means.subject.bases(),
            interrupted: self.is_deserted || self.means.is_interrupted(),
        })
    }

    /// The winner's configuration, and those of the models that it calls and that it changes.
    fn configurations(&self, winner: usize) -> Vec<(String, Value)> {
        let (subject, assignment) = (&self.means.subject, assignment(self.search, self.place(winner)));
        let root =
            subject.base(None).map(|base| (self.plan.run.target.model.name.clone(), assignment.configure(None, base)));
        let parts = subject.parts().filter_map(|(name, base)| {
            let changed = assignment.configure(Some(name), base);
            (changed != *base).then(|| (name.to_owned(), changed))
        });
        root.into_iter().chain(parts).collect()
    }
}

/// Requests a second.
fn request_rate(figures: &Figures) -> f64 {
    figures.throughput / figures.batch_size.max(1) as f64
}
