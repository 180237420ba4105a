//! `--variant` and `--matrix`: several variants of one run, measured in rounds that take turns, and compared.

mod field;
mod memory;
mod messages;
mod probe;
mod sequel;
mod sizes;
mod starts;
mod subject;
mod transports;

use std::cmp::Ordering;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use crate::app::conclude;
use crate::app::context::RunContext;
use crate::app::phase;
use crate::app::progress::Parts;
use crate::app::resume::EarlierRun;
use crate::app::screen::Screen;
use crate::app::settings;
use crate::app::variants::field::Field;
use crate::app::variants::messages::{about, matrix_name, part, say_kept};
use crate::app::variants::sequel::{Beginning, Sequel};
use crate::app::variants::starts::Start;
use crate::app::variants::subject::Subject;
use crate::app::write;
use crate::backends::Connect;
use crate::clock::Stamp;
use crate::error::{Error, Result};
use crate::exit::{self, Codes};
use crate::gate;
use crate::measure::bare;
use crate::measure::rounds::{Interleaving, Turn, interleave};
use crate::plan::{Matrix, Plan, Variant};
use crate::report::{self, Interrupts};
use crate::result::RunResult;
use crate::result::bare::BareCopies;
use crate::result::rounds::{Figure, Round};
use crate::result::variants::{Cell, VariantIdentity, VariantsResult};
use crate::stdio::note;
use crate::terms::{OnDisturbance, Rounds, Statistic};

/// Measures every variant, or every row of a matrix, and reports the differences. Returns the exit code.
///
/// # Errors
/// If a variant, or the first row of a matrix, cannot be measured at all, or the result cannot be written.
pub fn run(plan: &Plan, rounds: Rounds, codes: Codes, interrupts: Interrupts, connect: Connect) -> Result<u8> {
    let field = match &plan.matrix {
        Some(kind) => Field::Matrix(plan, kind),
        None => Field::Variants(&plan.variants),
    };
    check_levels(&plan.variants)?;
    check_libraries(&plan.variants)?;
    let earlier = EarlierRun::read(plan)?;
    if field.is_embedded() {
        phase::loading();
    }
    let screen = Screen::new();
    let context = RunContext { screen: &screen, interrupts, codes, connect, ranks: None };
    let mut comparison = Comparison { field, plan, rounds, context, earlier, result: None, began: None, printed: 0 };
    let ended = comparison.measure();
    let Some(mut result) = comparison.result.take() else {
        return ended.map(|()| exit::INTERRUPTED);
    };
    let has_rounds = |variants: &VariantsResult| variants.cells.iter().any(|cell| !cell.rounds.is_empty());
    let has_rounds = result.variants.as_ref().is_some_and(has_rounds);
    if ended.is_ok() && !has_rounds && comparison.is_interrupted() {
        note!("no round had been measured yet, so there is nothing to report");
        return Ok(exit::INTERRUPTED);
    }
    result.interrupted = comparison.is_interrupted();
    gate::judge_variants(&mut result, &plan.gate, ended.is_err() || comparison.is_interrupted());
    let printed = conclude(&result, codes, &screen);
    let written = if ended.is_ok() || has_rounds { write(plan, interrupts, &result, None) } else { Ok(()) };
    ended.and(written)?;
    printed?;
    Ok(result.exit_code(codes))
}

/// Levels are compared one by one, so each variant needs the same number.
fn check_levels(variants: &[Variant]) -> Result<()> {
    let Some((first, others)) = variants.split_first() else { return Ok(()) };
    let levels = |variant: &Variant| variant.plan.load.mode.separate_levels().unwrap_or(1);
    let expected = levels(first);
    let Some(other) = others.iter().find(|other| levels(other) != expected) else { return Ok(()) };
    let (name, number) = (&other.name, levels(other));
    let rule = format!("it has levels: {number}, and '{}' has {expected}; they are compared one by one", first.name);
    Err(Error::usage(format!("--variant '{name}': {rule}, so give each as many")))
}

/// A process can load only one library of the server.
fn check_libraries(variants: &[Variant]) -> Result<()> {
    let mut embedded = variants.iter().filter(|variant| variant.plan.target.service.is_embedded());
    let directory = |variant: &Variant| variant.plan.target.server.directory.clone();
    let Some(first) = embedded.next() else { return Ok(()) };
    let Some(other) = embedded.find(|other| directory(other) != directory(first)) else { return Ok(()) };
    let (name, path) = (&other.name, directory(other));
    Err(Error::usage(format!(
        "--variant '{name}': --triton-server-directory {} is not that of '{}', and a process can load only one \
            Triton: measure each release in its own run, and compare the results with triton-bench compare",
        path.display(),
        first.name
    )))
}

/// One of the cells of the result: a level with an input size.
#[derive(Clone, Copy)]
struct CellPlace {
    /// From zero on.
    number: usize,
    /// How many cells there are.
    total: usize,
    /// Which level it is.
    level: usize,
    /// Bytes of input, if it is not the flags that decide.
    size: Option<u64>,
}

/// A running comparison.
struct Comparison<'a> {
    field: Field<'a>,
    plan: &'a Plan,
    rounds: Rounds,
    context: RunContext<'a>,
    /// What an earlier run has finished.
    earlier: EarlierRun,
    /// The result so far.
    result: Option<RunResult>,
    /// When the first round began.
    began: Option<Stamp>,
    /// How many cells have been printed.
    printed: usize,
}

impl Comparison<'_> {
    fn at_start(&mut self, start: Start, servers: &field::Servers) -> Result<()> {
        for (size_number, size) in self.field.sizes().into_iter().enumerate() {
            let subjects = match self.field.open(servers, size, self.context) {
                Err(_) if self.is_interrupted() => return Ok(()),
                subjects => subjects?,
            };
            if self.result.is_none() {
                if !phase::ready() {
                    return Ok(());
                }
                self.begin(&subjects)?;
            }
            let measured = self.at_size(&subjects, start, size_number, size);
            // In reverse order: each restores the settings that it found on a server.
            let closed = subjects.into_iter().rev().map(Subject::close).fold(Ok(()), Error::both);
            measured.and(closed)?;
            if self.is_interrupted() {
                break;
            }
        }
        Ok(())
    }

    /// Prints what is going to be measured.
    fn begin(&mut self, subjects: &[Subject]) -> Result<()> {
        let Some(preview) = subjects.first().and_then(|first| first.preview.as_ref()) else {
            return Err(Error::usage("there is nothing to measure"));
        };
        let mut notes: Vec<&String> = Vec::new();
        for note in subjects.iter().filter_map(|subject| subject.preview.as_ref()).flat_map(|preview| &preview.notes) {
            if !notes.contains(&note) {
                note!("{note}");
                notes.push(note);
            }
        }
        let flags = |name: &str| self.plan.variants.iter().find(|variant| variant.name == name);
        let identity = |subject: &Subject| VariantIdentity {
            name: subject.name.clone(),
            flags: flags(&subject.name).map(|variant| variant.flags.clone()).unwrap_or_default(),
            problem: subject.open.as_ref().err().map(ToString::to_string),
        };
        let measurement = &self.plan.measurement;
        let latency = measurement.percentile.map(Statistic::Percentile).or(self.plan.gate.latency());
        let variants = VariantsResult {
            matrix: self.plan.matrix.as_ref().map(|kind| matrix_name(kind).to_owned()),
            variants: subjects.iter().map(identity).collect(),
            rounds: self.rounds,
            starts: measurement.restarts,
            seed: self.plan.seed,
            primary: Figure::Client(latency.unwrap_or(Statistic::MeanLatency)),
            cells: self.earlier.cells().to_vec(),
        };
        let mut setup = (*preview.setup).clone();
        (setup.command_line, setup.flags) =
            (self.plan.invocation.command_line.clone(), self.plan.invocation.flags.clone());
        self.earlier.check(&setup)?;
        self.earlier.check_variants(&variants.variants)?;
        self.context.screen.print(&settings::settings(self.plan, &setup))?;
        self.context.screen.print(&report::variants::heading(&variants, measurement))?;
        self.announce(subjects);
        for variant in &variants.variants {
            if let Some(problem) = &variant.problem {
                note!("--matrix: {}: {problem}", variant.name);
            }
        }
        self.result = Some(RunResult { variants: Some(variants), ..RunResult::new(Arc::new(setup)) });
        Ok(())
    }

    /// Logs how much is to be measured and how long that takes, where windows have a length.
    fn announce(&self, subjects: &[Subject]) {
        let usable: Vec<&Subject> = subjects.iter().filter(|subject| subject.open.is_ok()).collect();
        let levels =
            usable.iter().filter_map(|subject| subject.preview.as_ref()).map(|preview| preview.loads.len()).max();
        let cells = levels.unwrap_or(0) * self.field.sizes().len();
        let round_time = usable.iter().map(|subject| subject.turn()).sum::<Option<Duration>>();
        let of_rounds =
            |round_time: Duration| round_time.saturating_mul(u32::try_from(self.rounds.count).unwrap_or(u32::MAX));
        if self.rounds.until_decided.is_none() && cells > 1 {
            let time = round_time
                .map(|round_time| of_rounds(round_time).saturating_mul(cells as u32 * self.plan.measurement.restarts));
            self.context.screen.done(&messages::extent(cells, usable.len(), time));
        }
    }

    fn at_size(&mut self, subjects: &[Subject], start: Start, size_number: usize, size: Option<u64>) -> Result<()> {
        let levels =
            subjects.iter().filter_map(|subject| subject.preview.as_ref()).map(|preview| preview.loads.len()).max();
        let levels = levels.unwrap_or(0);
        for level in 0..levels {
            let cell = size_number * levels + level;
            let cell_place = CellPlace { number: cell, total: levels * self.field.sizes().len(), level, size };
            self.add_cell(subjects, cell_place);
            self.rounds_of(subjects, cell_place, start);
            if Some(start.number) == start.total {
                self.print_cells(cell + 1)?;
            }
            if self.is_interrupted() {
                break;
            }
        }
        Ok(())
    }

    /// Adds the cell with that number, unless an earlier start or an earlier run has.
    fn add_cell(&mut self, subjects: &[Subject], cell_place: CellPlace) {
        let CellPlace { number, level, size, .. } = cell_place;
        let cells =
            self.result.as_ref().and_then(|result| result.variants.as_ref()).map(|variants| variants.cells.len());
        if cells.is_none_or(|cells| cells > number) {
            return;
        }
        let first = subjects.iter().find_map(|subject| subject.preview.as_ref());
        let loads = subjects.iter().filter_map(|subject| Some(subject.preview.as_ref().or(first)?.loads[level]));
        let tensors = |subject: &Subject| subject.preview.as_ref().map(|preview| preview.tensors).unwrap_or_default();
        let input_bytes: Vec<_> = subjects.iter().map(|subject| tensors(subject).input).collect();
        let is_study = self.plan.matrix.is_some();
        let output = |subject: &Subject| {
            tensors(subject).output.or_else(|| if is_study { subject.output_bytes(self.context) } else { None })
        };
        let output_bytes: Vec<_> = subjects.iter().map(output).collect();
        let bare = if is_study { self.bare(&input_bytes, &output_bytes) } else { None };
        let (loads, rounds) = (loads.collect(), Vec::new());
        let cell = Cell { loads, size, input_bytes, output_bytes, bare, window_times: 1, measured_s: 0.0, rounds };
        if let Some(variants) = self.result.as_mut().and_then(|result| result.variants.as_mut()) {
            variants.cells.push(cell);
        }
    }

    /// The bounds of a cell: what this machine does with the same tensors alone.
    fn bare(&self, input: &[Option<f64>], output: &[Option<f64>]) -> Option<BareCopies> {
        let first_bytes = |all: &[Option<f64>]| all.iter().copied().flatten().next().map(|bytes| bytes.round() as u64);
        let over_network = matches!(self.plan.matrix, Some(Matrix::Transports { .. }));
        bare::measure(first_bytes(input)?, first_bytes(output).filter(|_| over_network))
    }

    /// Measures the missing rounds of a cell, and keeps them as they come.
    fn rounds_of(&mut self, subjects: &[Subject], cell_place: CellPlace, start: Start) {
        let CellPlace { number: cell, total: cells, level, .. } = cell_place;
        let part = part(start, cell_place);
        let time = self.time_of(start, cells);
        let Start { number: start, total: starts } = start;
        let (context, plan) = (self.context, self.plan);
        let Some(result) = self.result.as_mut() else { return };
        let usable: Vec<usize> = (0..subjects.len()).filter(|&number| subjects[number].open.is_ok()).collect();
        let interleaving = Interleaving {
            rounds: self.rounds,
            subjects: usable.len(),
            seed: plan.seed,
            replaces: plan.measurement.on_disturbance == Some(OnDisturbance::Replace),
            start,
        };
        let counted = self.rounds.until_decided.is_none().then_some(self.rounds.count);
        let position = |round: usize| {
            // Disturbed rounds are measured again.
            let total = counted.map(|count| format!("/{}", count.max(round + 1))).unwrap_or_default();
            let round = format!("round {}{total}", round + 1);
            part.iter().cloned().chain([round]).collect::<Vec<_>>().join(", ")
        };
        let turns = counted.unwrap_or(1) * usable.len();
        let total = starts.unwrap_or(1) as usize * cells * turns;
        let earlier_cells = (start as usize - 1) * cells + cell;
        let there = result.variants.as_ref().map(|variants| variants.cells[cell].rounds.clone()).unwrap_or_default();
        let rounds_at = |when: Ordering| there.iter().filter(move |round| round.start.cmp(&start) == when);
        let kept = interleaving.kept(rounds_at(Ordering::Equal).map_while(|round| gather(round, &usable)));
        say_kept(&part, kept.len());
        let mut turn_number = earlier_cells * turns + kept.len().min(counted.unwrap_or(1) - 1) * usable.len();
        let sequel = Sequel::new(plan, result, cell, Beginning { kept: kept.len(), time });
        let take = |turn: Turn| {
            let subject = &subjects[usable[turn.subject]];
            let at = format!("{}, {}", position(turn.round), subject.name);
            context.screen.at(&at, counted.map(|_| Parts { over: turn_number, total }));
            turn_number = (turn_number + 1).min((earlier_cells + 1) * turns - 1);
            let taken = subject.measure(level, sequel.times(), context);
            sequel.lengthen(taken.times);
            taken.measured
        };
        let all = |rounds: &[Round]| spread(rounds, &usable, subjects.len());
        let keep = |rounds: &[Round]| {
            if let Some(variants) = &mut result.variants {
                variants.starts = variants.starts.max(start);
                let (before, after) = (rounds_at(Ordering::Less).cloned(), rounds_at(Ordering::Greater).cloned());
                variants.cells[cell].measured_s = sequel.measured_s();
                variants.cells[cell].window_times = sequel.times();
                variants.cells[cell].rounds = before.chain(all(rounds)).chain(after).collect();
                context.screen.log(&format!("{} is done", position(rounds.len() - 1)));
            }
            report::summary::save(plan.output.summary.as_deref(), context.interrupts, result);
            sequel.see(rounds);
        };
        interleave(&interleaving, kept, take, keep, |rounds| sequel.is_wanted(all(rounds)));
        if !part.is_empty() && context.interrupts.load(Relaxed) == 0 {
            context.screen.end_part();
            context.screen.done(&format!("{}{} is done", part.join(", "), about(result, cell, cells)));
        }
        context.screen.at("", None);
    }

    fn is_interrupted(&self) -> bool {
        self.context.interrupts.load(Relaxed) > 0
    }
}

/// A round of all subjects, reduced to those that could be opened; `None` if it is of others.
fn gather(round: &Round, usable: &[usize]) -> Option<Round> {
    let index_of = |number: &usize| usable.iter().position(|usable| usable == number);
    let order = round.order.iter().map(index_of).collect::<Option<_>>()?;
    let units = usable.iter().map(|&number| round.units[number].clone()).collect();
    Some(Round { order, units, ..round.clone() })
}

/// Rounds of the subjects that could be opened, expanded to all.
fn spread(rounds: &[Round], usable: &[usize], all: usize) -> Vec<Round> {
    let of_all = |round: &Round| {
        let mut units = vec![None; all];
        for (unit, &number) in round.units.iter().zip(usable) {
            units[number].clone_from(unit);
        }
        Round { order: round.order.iter().map(|&number| usable[number]).collect(), units, ..round.clone() }
    };
    rounds.iter().map(of_all).collect()
}
