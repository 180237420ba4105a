//! What a result says of its run: what the plan asks for, and what the server and its models make of it.

use jiff::Timestamp;

use crate::backend::Backend;
use crate::clock::Stamp;
use crate::error::Result;
use crate::load::Turn;
use crate::load::payloads::conversations;
use crate::measure::calibrate::client_cost_ns;
use crate::model::ModelSpec;
use crate::plan::{MixEntry, Plan};
use crate::result::summary::{EntrySummary, Headline};
use crate::result::{Detail, Host, ModelIdentity, Program, Setup};
use crate::terms::{DecoupledLatency, LatencyOrigin};

/// What requests go to.
pub struct Served<'a> {
    /// How they reach it.
    pub backend: &'a dyn Backend,
    /// The models that they are for.
    pub models: &'a [ModelSpec],
    /// Those, and every model that they call.
    pub all_models: &'a [ModelSpec],
    /// The conversations that are played, if any are.
    pub sessions: &'a [Vec<Turn>],
}

/// The setup of a run.
///
/// # Errors
/// If the client's own cost cannot be measured.
pub fn setup(plan: &Plan, served: &Served<'_>) -> Result<Setup> {
    let Served { backend, models, all_models, sessions } = *served;
    let capabilities = backend.capabilities();
    Ok(Setup {
        program: Program::this(),
        command_line: plan.invocation.command_line.clone(),
        flags: plan.invocation.flags.clone(),
        began: Timestamp::now(),
        began_stamp: Stamp::now(),
        host: Host::this(),
        measurement: plan.measurement.clone(),
        mode: plan.load.mode.clone(),
        batch_size: plan.data.batch_size,
        max_threads: plan.load.max_threads,
        max_outstanding: plan.load.max_outstanding,
        max_connections: plan.load.max_connections,
        seed: plan.seed,
        detail: Detail {
            verbose_csv: plan.output.verbose_csv,
            as_upstream: plan.output.as_upstream,
            batch_sizes: plan.data.batch_sizes.len() > 1,
            verbosity: plan.output.verbosity,
        },
        synchronous: plan.is_synchronous(models),
        service_kind: capabilities.service_kind.to_owned(),
        client_times: capabilities.client_times,
        times_transfers: capabilities.client_times.is_some(),
        server: backend.server(),
        servers: backend.servers().to_vec(),
        models: all_models.iter().map(ModelIdentity::new).collect(),
        decoupled: models.iter().any(|model| model.decoupled),
        sequences: models.iter().any(|model| model.sequences),
        headline: headline(plan, models),
        client_cost_ns: client_cost_ns()?,
        entries: match sessions {
            [] => entries(&plan.target.mix),
            sessions => named(conversations::turns(sessions)),
        },
        turns: !sessions.is_empty(),
    })
}

/// Turns of conversations, reported like the entries of a mix.
fn named(turns: Vec<(String, f64)>) -> Vec<EntrySummary> {
    turns.into_iter().map(|(name, share)| EntrySummary { name, share }).collect()
}

/// The entries of a mix of several, with their names in reports.
fn entries(mix: &[MixEntry]) -> Vec<EntrySummary> {
    let named = mix.iter().map(|entry| EntrySummary { name: entry.to_string(), share: entry.share });
    if mix.len() > 1 { named.collect() } else { Vec::new() }
}

fn headline(plan: &Plan, models: &[ModelSpec]) -> Headline {
    let open = plan.load.mode.has_schedule();
    let decoupled = models.iter().any(|model| model.decoupled);
    if decoupled && plan.measurement.decoupled_latency == DecoupledLatency::First {
        Headline::FirstResponse
    } else if open && plan.measurement.latency_from == LatencyOrigin::Intended {
        Headline::ResponseTime
    } else {
        Headline::ServiceTime
    }
}
