//! [`FinishedStage`]: a stage whose time has passed, and its results.

use crate::clock::Stamp;
use crate::machine::pauses;
use crate::machine::usage::Usage;
use crate::measure::backlog::settle_rates;
use crate::measure::counters::Counted;
use crate::measure::decision::{check_with, complete};
use crate::measure::disturbance::Disturbance;
use crate::measure::history::WindowSet;
use crate::measure::level::LevelRun;
use crate::measure::log::Log;
use crate::measure::measurement::Measurement;
use crate::measure::metrics::MetricsFold;
use crate::measure::remark::Remark;
use crate::measure::slicer::Slicer;
use crate::measure::stages::RunningStage;
use crate::measure::summary::{Disturbances, Ending, LevelSummary};
use crate::measure::verdict::{Evidence, judge};
use crate::measure::window::summarize;

/// A stage whose time has passed; only the server's counters are still being read.
pub(super) struct FinishedStage {
    pub(super) stage: RunningStage,
    pub(super) end: Stamp,
    pub(super) ending: Ending,
    pub(super) readings: Option<MetricsFold>,
    pub(super) disturbance: Option<Disturbance>,
    pub(super) usage: (Option<Usage>, Option<Usage>),
    /// Number of the stage that runs already.
    pub(super) next: Option<usize>,
}

impl FinishedStage {
    /// What this process saw of the stage, and what others took from it.
    pub(super) fn window(&mut self, measurement: &Measurement<'_>) -> (WindowSet, Option<Disturbance>) {
        let (stage, start) = (&self.stage, self.stage.load.started());
        (measurement.settle)();
        let mut client = summarize(stage.level.recorder.close(), start, self.end - start, &stage.level.facts);
        settle_rates(&mut client, stage.load.sends(), &stage.trend.get());
        let blocks = stage.slicer.replace(Slicer::new(self.end, Stamp::NEVER)).blocks(&client);
        (WindowSet { client, readings: self.readings.take(), blocks, ranks: Vec::new() }, self.disturbance)
    }

    /// Sums the stage up, whose only window is `window`.
    pub(super) fn summarize(
        &self,
        measurement: &Measurement<'_>,
        (window, disturbance): (WindowSet, Option<Disturbance>),
        counted: Option<Counted>,
    ) -> (LevelSummary, Evidence) {
        let (stage, plan, start) = (&self.stage, measurement.plan, self.stage.load.started());
        window.blocks.each().last().into_iter().for_each(|block| measurement.watcher.block(block));
        let mut log = Log::default();
        log.push(&window.client, &window.blocks, disturbance, plan);
        let (client, intervals) = (&window.client, window.intervals(plan));
        let ending = match self.ending {
            Ending::Complete if measurement.exceeds_errors(client.requests, client.failed) => Ending::Failed,
            other => other,
        };
        let limit = check_with(plan, client, &intervals);
        let ending = if ending == Ending::Complete { complete(limit) } else { ending };
        let mut summary = window.summarize(&measurement.models, stage.level.load, counted, (ending, limit, intervals));
        let LevelRun { tracing, facts, recorder, .. } = &stage.level;
        tracing.fill(&mut summary, self.end, facts, *recorder.spec());
        summary.disturbances = Disturbances::of_one(disturbance);
        (summary.windows, summary.course) = log.finish(start, 1);
        (summary.client_usage, summary.server_usage) = self.usage;
        (summary.threads, summary.connections) = (Some(facts.issuers), measurement.backend.connections());
        // The server's counts of a stage have requests of its neighbours in them.
        summary.remarks = Remark::of_replies(&stage.load.oddities()).collect();
        let evidence = self.evidence(measurement);
        summary.verdict = judge(&summary, &evidence);
        (summary, evidence)
    }

    /// The evidence for its verdict besides the summary.
    pub(super) fn evidence(&self, measurement: &Measurement<'_>) -> Evidence {
        Evidence {
            percentile: measurement.plan.percentile,
            disagreement: None,
            precision: measurement.plan.precision,
            max_errors: measurement.plan.max_errors,
            gap_variation: self.stage.level.gap_variation,
            outstanding: None,
            held_back: self.stage.load.report().held_back,
            still: pauses::between(self.stage.load.started(), self.end),
        }
    }
}
