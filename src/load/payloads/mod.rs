//! The payloads of a run: those of every entry of a mix in one table, and where each entry's are.

mod body;
pub mod conversations;
mod replay;
pub mod timestamps;

use std::mem;
use std::sync::Arc;

use crate::Turn;
use crate::data::{Corpus, CorpusSpec, Payload, PayloadId};
use crate::error::{Error, Result};
use crate::input_source::PayloadIndex;
use crate::model::ModelSpec;
use crate::payloads::body::Body;
use crate::plan::{MixEntry, Plan};
use crate::recorded::Recorded;
use crate::shm::Allowance;

/// What requests may carry.
#[derive(Default)]
pub struct Payloads {
    /// Settings of the data that had no effect.
    pub warnings: Vec<String>,
    /// The line that says what was read for the first model, if it came from files.
    pub announcement: Option<String>,
    /// Whether files say how long sequences are.
    pub from_files: bool,
    /// The model of every entry.
    pub models: Vec<ModelSpec>,
    /// Request bodies of all entries.
    pub table: Vec<Payload>,
    /// Which of them are an entry's.
    pub indexes: Vec<PayloadIndex>,
    /// Conversations, if the load plays them.
    pub sessions: Vec<Vec<Turn>>,
    /// When each payload is due, if the data say so.
    pub offsets_ms: Vec<u64>,
}

impl Payloads {
    /// Reads or generates the data of `models`, each given once, and packs them for every entry of the mix, with the token
    /// counts that were recorded.
    ///
    /// # Errors
    /// If the data cannot be read or do not fit a model.
    pub fn make(plan: &Plan, models: &[ModelSpec], recorded: &Recorded) -> Result<Self> {
        let rows = &recorded.rows;
        let memory = Allowance::new(plan.data.max_input_memory);
        let mut bodies = Vec::new();
        let mut payloads = Self { warnings: idle_shapes(plan, models).collect(), ..Self::default() };
        for (number, model) in models.iter().enumerate() {
            let corpus = load(plan, &memory, models, model, recorded)?;
            payloads.warnings.extend_from_slice(corpus.warnings());
            payloads.from_files |= corpus.from_files();
            if number == 0 {
                payloads.announcement = corpus.announcement();
            }
            let mut body = Body::pack(plan, model, corpus)?;
            if plan.load.mode.is_fixed_schedule() {
                payloads.offsets_ms = timestamps::take(&mut body.payloads)?;
            }
            if let Some(tokens) = plan.load.tokens() {
                (body.payloads, body.index.cycle) = replay::by_row(model, &body, tokens, rows)?;
            }
            bodies.push(body);
        }
        let whole = [MixEntry { model: models[0].id.clone(), share: 1.0, parameters: Vec::new() }];
        let entries = if plan.target.mix.is_empty() { whole.as_slice() } else { plan.target.mix.as_slice() };
        for (position, entry) in entries.iter().enumerate() {
            let number = models.iter().position(|model| model.id == entry.model).unwrap_or(0);
            let again = entries[position + 1..].iter().any(|later| later.model == entry.model);
            let body = if again { bodies[number].clone() } else { mem::take(&mut bodies[number]) };
            payloads.add(&models[number], body, entry)?;
        }
        if plan.target.openai.sessions {
            let at_least = plan.load.mode.sessions().unwrap_or(1) as usize;
            payloads.sessions = conversations::group(&mut payloads.table, at_least)?;
            let kinds = conversations::turns(&payloads.sessions).len().max(1);
            payloads.models = vec![models[0].clone(); kinds];
        }
        Ok(payloads)
    }

    /// Adds what an entry of the mix may carry.
    fn add(&mut self, model: &ModelSpec, mut body: Body, entry: &MixEntry) -> Result<()> {
        let first = u32::try_from(self.table.len())
            .ok()
            .filter(|first| first.checked_add(body.payloads.len() as u32).is_some());
        let first =
            first.ok_or_else(|| Error::input("--model-mix: there are more distinct requests than can be numbered"))?;
        for payload in &mut body.payloads {
            payload.model = self.models.len();
            let parameters = mem::take(&mut payload.parameters);
            let others =
                entry.parameters.iter().filter(|extra| parameters.iter().all(|parameter| parameter.name != extra.name));
            payload.parameters = others.cloned().collect();
            payload.parameters.extend(parameters);
        }
        for PayloadId(id) in body.index.cycle.iter_mut().chain(body.index.streams.iter_mut().flatten()) {
            *id += first;
        }
        self.models.push(model.clone());
        self.indexes.push(body.index);
        // There may be millions, which must not be in memory twice.
        match self.table.is_empty() {
            true => self.table = body.payloads,
            false => self.table.append(&mut body.payloads),
        }
        Ok(())
    }
}

fn has(model: &ModelSpec, name: &str) -> bool {
    model.inputs.iter().any(|input| input.name == name)
}

/// `--shape` for inputs that no model has. Callers of perf_analyzer have one command for several models.
fn idle_shapes(plan: &Plan, models: &[ModelSpec]) -> impl Iterator<Item = String> {
    let names = plan.data.shapes.iter().map(|(name, _)| name).filter(|_| plan.output.as_upstream);
    let idle = names.filter(|name| !models.iter().any(|model| has(model, name)));
    idle.map(|name| format!("--shape {name} has no effect: there is no input of this name"))
}

fn load(
    plan: &Plan,
    memory: &Arc<Allowance>,
    models: &[ModelSpec],
    model: &ModelSpec,
    recorded: &Recorded,
) -> Result<Corpus> {
    // Each of several models takes the settings meant for it; a setting meant for none is refused.
    let is_tolerant = plan.output.as_upstream;
    let meant = |name: &str| has(model, name) || !(is_tolerant || models.iter().any(|other| has(other, name)));
    let mut shapes: Vec<_> = plan.data.shapes.iter().filter(|(name, _)| meant(name)).cloned().collect();
    let random_ranges: Vec<_> = plan.data.random_ranges.iter().filter(|range| meant(&range.input)).cloned().collect();
    let model = if plan.load.mode.is_fixed_schedule() { &timestamps::with_input(model)? } else { model };
    if let Some(input) = plan.load.tokens().and_then(|tokens| tokens.input.as_ref()) {
        shapes.extend(replay::longest_shape(model, input, &recorded.rows));
    }
    let base = plan.data.corpus_spec(plan.seed, memory);
    let (lengths, blocks) = (&recorded.lengths[..], recorded.blocks.as_ref());
    let spec = CorpusSpec {
        shapes: &shapes,
        random_ranges: &random_ranges,
        lengths,
        blocks,
        requests: plan.most_requests(),
        stages: plan.load.stages_of_turns(),
        ..base
    };
    let corpus = Corpus::load(&spec, model);
    if models.len() > 1 { corpus.map_err(|error| error.context(format!("model '{}'", model.id))) } else { corpus }
}
