//! Where a level's requests spent their time: from traced requests one by one, otherwise from the server's averages.

mod averages;
mod stages;
mod weighted;

use std::iter;
use std::sync::Arc;

use crate::backend::ModelName;
use crate::clock::Stamp;
use crate::measure::breakdown::Breakdown;
use crate::measure::summary::{Headline, LevelSummary};
use crate::record::{KeptTrace, RecorderSpec, TraceLog};
use stages::{Ends, Tables};

/// What is traced of a load's requests.
#[derive(Clone, Default)]
pub struct Tracing {
    /// Where traced requests are kept, where any are.
    pub log: Option<Arc<TraceLog>>,
    /// Whether the level's summary has a breakdown of the time.
    pub breakdown: bool,
    /// Whether it has the cost of an inference on this machine.
    pub cost: bool,
}

impl Tracing {
    /// Fills in where the time of `level` went, whose last window ended at `end`, if that was asked for. `headline` and `spec` say
    /// where its latency begins and ends.
    pub(super) fn fill(&self, level: &mut LevelSummary, end: Stamp, headline: Headline, spec: RecorderSpec) {
        if self.breakdown && level.client.requests > 0 {
            let ends = Ends { from_intended: headline == Headline::ResponseTime, to_wakeup: spec.until_wakeup };
            let traced = self.traced(ends, (level.client.start, end));
            level.breakdown = with_averages(traced, level);
        }
    }

    /// From the traces of requests that ended within these stamps.
    fn traced(&self, ends: Ends, (start, end): (Stamp, Stamp)) -> Vec<Breakdown> {
        let Some(log) = &self.log else { return Vec::new() };
        let is_in = |trace: &&KeptTrace| trace.succeeded && (start..end).contains(&ends.end(trace));
        log.gather();
        let mut found = log.with_kept(|all| Tables::of(all.iter().filter(is_in), ends).breakdowns());
        let lost = log.take_lost();
        found.iter_mut().for_each(|breakdown| breakdown.lost = lost);
        found
    }
}

/// Those of traced requests, and averages for models of which none was traced.
fn with_averages(traced: Vec<Breakdown>, level: &LevelSummary) -> Vec<Breakdown> {
    // As traces have it.
    let cut = |name: &str| ModelName::of(name.as_bytes()).text();
    let mut others = averages(level);
    others.retain(|one| traced.iter().all(|known| known.model != cut(&one.model)));
    traced.into_iter().chain(others).collect()
}

fn averages(level: &LevelSummary) -> Vec<Breakdown> {
    let servers = level.server.iter().chain(&level.further_servers);
    // Models of a mix have their own entries.
    let clients = level.client.entries.iter().chain(iter::repeat(&level.client));
    servers.zip(clients).map(|(server, client)| averages::of(server, client)).collect()
}

#[cfg(test)]
mod tests;
