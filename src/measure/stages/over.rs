//! [`EndingStage`]: a stage that sends nothing more, and its results.

use std::{mem, thread};

use crate::backlog::settle;
use crate::clock::Stamp;
use crate::counters::{Counted, Counters};
use crate::decision::{check_with, complete};
use crate::history::{Conclusion, WindowSet};
use crate::level_run::LevelRun;
use crate::log::Log;
use crate::machine::usage::Usage;
use crate::measurement::{Measurement, Unwatched};
use crate::metrics::MetricsFold;
use crate::record::Completed;
use crate::result::disturbance::Disturbance;
use crate::result::remark::Remark;
use crate::result::summary::{ClientSummary, Disturbances, Ending, LevelSummary};
use crate::slicer::Slicer;
use crate::stages::running::RunningStage;
use crate::stall::{say_given_up, silence_of_a_stage};
use crate::still::{short_pauses, time_that_counts};
use crate::verdict::{Evidence, judge};
use crate::waiting::GRACE;
use crate::window_summary::{about_answers, summarize};

/// A stage that sends nothing more. Its last requests are answered while the next one runs, or nothing does; then what the
/// server counted is read.
pub(super) struct EndingStage {
    pub(super) stage: RunningStage,
    /// When it stopped sending.
    pub(super) stopped: Stamp,
    /// When its last request was over; none while some are under way.
    pub(super) end: Option<Stamp>,
    pub(super) ending: Ending,
    pub(super) readings: Option<MetricsFold>,
    pub(super) disturbance: Option<Disturbance>,
    pub(super) usage: (Option<Usage>, Option<Usage>),
    /// Others were at work meanwhile.
    pub(super) beside_others: bool,
    /// Number of the stage that has begun already.
    pub(super) next: Option<usize>,
    pub(super) reading: CounterReading,
}

/// The reading of the server's counters at a stage's end.
pub(super) enum CounterReading {
    /// Not asked for yet.
    Due,
    /// Under way.
    Asked,
    /// What the server counted, if that is known.
    Read(Option<Counted>),
}

impl EndingStage {
    /// Looks after its last requests, until these are over or given up.
    pub(super) fn poll(&mut self, measurement: &Measurement<'_>, is_interrupted: bool) {
        if self.end.is_some() {
            return;
        }
        // What is shown is the stage that runs.
        let silence = self.stage.look(if self.next.is_some() { &Unwatched } else { measurement.watcher });
        if self.stage.load.is_finished() {
            self.stage.load.settle_if_stranded();
            if self.stage.load.is_stranded() {
                self.end_as(Ending::Failed);
            }
            self.end = Some(self.stage.end());
        } else if is_interrupted {
            self.end_as(Ending::Interrupted);
            self.cut();
        } else if silence >= silence_of_a_stage(self.stage.sampler.slicer.longest()) {
            say_given_up(silence);
            self.stage.load.give_up();
            self.end_as(Ending::Failed);
            self.cut();
        }
    }

    /// Whether it ended before its time, so that its last requests are not waited for.
    pub(super) fn is_cut_short(&self) -> bool {
        self.ending != Ending::Complete && self.stopped < self.stage.planned_end
    }

    /// Ends it with what has been answered so far.
    pub(super) fn cut(&mut self) {
        self.end = Some(self.stage.end());
        thread::sleep(GRACE);
    }

    /// It ends like this, where nothing has ended it before.
    fn end_as(&mut self, ending: Ending) {
        if self.ending == Ending::Complete {
            self.ending = ending;
        }
    }

    /// Takes what was read of the server's counters last, or asks for the reading that is due; returns whether one was. None is
    /// under way.
    pub(super) fn read(&mut self, counters: &mut Counters) -> bool {
        match (&self.reading, self.end) {
            (CounterReading::Asked, end) => {
                // The server cannot tell its requests from those of the next stage.
                let end = end.filter(|_| self.next.is_none()).unwrap_or(self.stopped);
                self.reading = CounterReading::Read(counters.difference(self.stage.load.started(), end));
                false
            }
            (CounterReading::Due, Some(_)) => {
                counters.ask();
                self.reading = CounterReading::Asked;
                true
            }
            _ => false,
        }
    }

    /// Whether everything is there that its results need.
    pub(super) fn is_over(&self) -> bool {
        self.end.is_some() && matches!(self.reading, CounterReading::Read(_))
    }

    /// What the server counted meanwhile, if that is known.
    pub(super) fn counted(&self) -> Option<Counted> {
        if let CounterReading::Read(counted) = &self.reading { counted.clone() } else { None }
    }

    /// What this process saw of the stage, and what others took from it.
    pub(super) fn window(&mut self, measurement: &Measurement<'_>) -> (WindowSet, Option<Disturbance>) {
        let (start, end) = (self.stage.load.started(), self.end());
        (measurement.settle)();
        let stage = &mut self.stage;
        stage.level.recorder.take_back();
        let mut tally = stage.level.recorder.close();
        let early = tally.early.take();
        let mut client = summarize(tally, start, end - start, &stage.level.facts);
        settle(&mut client, &stage.load, &stage.sampler.trend(), early.as_ref());
        let blocks = mem::replace(&mut stage.sampler.slicer, Slicer::new(end, Stamp::NEVER)).blocks(&client);
        (WindowSet::new(client, self.readings.take(), blocks), self.disturbance)
    }

    /// When its last request was over, as far as they are.
    fn end(&self) -> Stamp {
        self.end.unwrap_or(self.stopped)
    }

    /// Sums the stage up, whose only window is `window`.
    pub(super) fn summarize(
        &self,
        measurement: &Measurement<'_>,
        window: WindowSet,
        disturbance: Option<Disturbance>,
    ) -> (LevelSummary, Evidence) {
        let (stage, plan, start) = (&self.stage, measurement.plan, self.stage.load.started());
        if self.next.is_none() {
            window.blocks.each().last().into_iter().for_each(|block| measurement.watcher.block(block));
        }
        let mut log = Log::default();
        log.push(&window.client, &window.blocks, disturbance, plan);
        let (client, intervals) = (&window.client, window.intervals(plan));
        let ending = match self.ending {
            Ending::Complete if measurement.exceeds_errors(client.requests, client.failed) => Ending::Failed,
            other => other,
        };
        let limit = check_with(plan, client, &intervals);
        let ending = if ending == Ending::Complete { complete(limit) } else { ending };
        let conclusion = Conclusion { ending, limit, intervals };
        let mut summary = window.summarize(&measurement.models, stage.level.load, self.counted(), conclusion);
        let LevelRun { tracing, facts, recorder, .. } = &stage.level;
        tracing.fill(&mut summary, self.end(), facts, *recorder.spec());
        summary.disturbances = Disturbances::of_one(disturbance);
        (summary.windows, summary.timeline) = log.finish(start, &summary.disturbances);
        (summary.client_usage, summary.server_usage) = self.usage;
        self.note_client(&mut summary, measurement);
        let evidence = self.evidence(measurement, &summary.client);
        summary.verdict = judge(&summary, &evidence);
        (summary, evidence)
    }

    /// Adds what this process knows of the client's side.
    pub(super) fn note_client(&self, summary: &mut LevelSummary, measurement: &Measurement<'_>) {
        let RunningStage { level, load, .. } = &self.stage;
        (summary.threads, summary.connections) = (Some(level.facts.issuers), measurement.backend.connections());
        // The server's counts of a stage have requests of its neighbours in them.
        let answers = about_answers(summary, measurement.ranks.is_none());
        let short = short_pauses(&summary.client, self.end());
        summary.remarks = Remark::of_replies(&load.oddities()).chain(short).chain(answers).collect();
    }

    /// The evidence for its verdict besides the summary.
    pub(super) fn evidence(&self, measurement: &Measurement<'_>, client: &ClientSummary) -> Evidence {
        Evidence {
            percentile: measurement.plan.percentile,
            disagreement: None,
            precision: measurement.plan.precision,
            max_errors: measurement.plan.max_errors,
            gap_variation: self.stage.level.gap_variation,
            over: Completed::default(),
            flows: None,
            outstanding: None,
            held_back: self.stage.load.report().held_back,
            still: time_that_counts(client, self.end()),
            beside_others: self.beside_others,
        }
    }
}
