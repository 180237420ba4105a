//! Where a level's requests spent their time: from traced requests one by one, otherwise from the server's averages.

mod averages;
mod stages;
mod weighted;

use std::sync::Arc;

use crate::backend::ModelName;
use crate::clock::{Stamp, TimeSpan};
use crate::model::ModelId;
use crate::record::{KeptTrace, RecorderSpec, TraceLog};
use crate::result::breakdown::Breakdown;
use crate::result::summary::{ClientSummary, Headline, LevelSummary, ServerSummary};
use crate::window_summary::{WindowFacts, join};
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
    /// Fills in where the time of `level` went, whose last window ended at `end`, if that was asked for. `facts` and
    /// `spec` say where its latency begins and ends.
    pub(super) fn fill(&self, level: &mut LevelSummary, end: Stamp, facts: &WindowFacts, spec: RecorderSpec) {
        if self.breakdown && level.client.requests > 0 {
            let ends = Ends { from_intended: facts.headline == Headline::ResponseTime, to_wakeup: spec.until_wakeup };
            let traced = self.traced(ends, TimeSpan { start: level.client.start, end });
            level.breakdown = with_averages(traced, level, &facts.models);
        }
    }

    /// From the traces of requests that ended within this time.
    fn traced(&self, ends: Ends, span: TimeSpan) -> Vec<Breakdown> {
        let Some(log) = &self.log else { return Vec::new() };
        let is_in = |trace: &&KeptTrace| trace.succeeded && (span.start..span.end).contains(&ends.end(trace));
        log.gather();
        let mut found = log.with_kept(|all| Tables::new(all.iter().filter(is_in), ends).breakdowns());
        let lost = log.take_lost();
        found.iter_mut().for_each(|breakdown| breakdown.lost = lost);
        found
    }
}

/// Those of traced requests, and averages for models of which none was traced; `models` are those of the mix's entries.
fn with_averages(traced: Vec<Breakdown>, level: &LevelSummary, models: &[ModelId]) -> Vec<Breakdown> {
    // As traces have it.
    let cut = |name: &str| ModelName::new(name.as_bytes()).text();
    let mut others = averages(level, models);
    others.retain(|average| traced.iter().all(|breakdown| breakdown.model != cut(&average.model)));
    traced.into_iter().chain(others).collect()
}

/// The server's counters of each model beside what the client measured of the same requests.
fn averages(level: &LevelSummary, models: &[ModelId]) -> Vec<Breakdown> {
    let servers = level.server.iter().chain(&level.further_servers);
    if level.client.entries.is_empty() {
        return servers.map(|server| averages::breakdown(server, &level.client)).collect();
    }
    let (counted, entries) = (counted(level, models), level.client.entries.as_slice());
    servers
        .filter_map(|server| Some(averages::breakdown(server, &client_of(server, &counted, models, entries)?)))
        .collect()
}

/// Each of `models`, and the server's figures of it. The figures are in the same order, but a model that the server did
/// not report has none.
fn counted<'a>(level: &'a LevelSummary, models: &'a [ModelId]) -> Vec<(&'a ModelId, &'a ServerSummary)> {
    let mut servers = level.server.iter().chain(&level.further_servers).peekable();
    let first = |(at, id): &(usize, &ModelId)| !models[..*at].contains(id);
    let distinct = models.iter().enumerate().filter(first).map(|(_, id)| id);
    distinct.filter_map(|id| Some((id, servers.next_if(|server| is_of(server, id))?))).collect()
}

fn is_of(server: &ServerSummary, id: &ModelId) -> bool {
    server.name == id.name && id.version.is_none_or(|version| server.version.parse() == Ok(version))
}

/// What the client measured of the requests that `server` has counted: of all entries that went to that version of the
/// model, with different parameters, or with and without its number.
fn client_of(
    server: &ServerSummary,
    counted: &[(&ModelId, &ServerSummary)],
    models: &[ModelId],
    entries: &[ClientSummary],
) -> Option<ClientSummary> {
    let is_same = |other: &ServerSummary| (&other.name, &other.version) == (&server.name, &server.version);
    let is_own = |id: &ModelId| counted.iter().any(|(model, other)| *model == id && is_same(other));
    let matching = models.iter().zip(entries).filter(|(id, _)| is_own(id)).map(|(_, entry)| entry.clone());
    matching.reduce(|all, entry| join(all, &entry))
}

#[cfg(test)]
mod tests;
