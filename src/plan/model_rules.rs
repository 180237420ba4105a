//! Rules and defaults that depend on the models' tensors and schedulers.

use crate::error::{Error, Result};
use crate::model::{ModelSpec, TensorSpec};
use crate::terms::TokenInput;
use crate::{DataSource, ModelNote, Plan, ServiceKind};
use ::data::OptionalInputs;

/// One rule: the message where it is broken, which follows the model's name.
type Rule = fn(&Plan, &ModelSpec) -> Option<String>;

impl Plan {
    /// Checks the plan against every model that requests go to.
    ///
    /// # Errors
    /// The message of the first broken rule: the model, the flags, their values, the rule.
    pub fn check_models(&self, models: &[ModelSpec]) -> Result<()> {
        models.iter().try_for_each(|model| self.check_model(model))
    }

    /// Whether threads wait for answers in closed loops of requests to `models`.
    pub fn is_synchronous(&self, models: &[ModelSpec]) -> bool {
        self.load.calls.wait(models.iter().any(|model| model.sequences))
    }

    /// Whether a flag, or a model whose requests belong together, asks for calls that do not wait for answers. An open loop
    /// by itself does not, as perf_analyzer has it.
    pub fn asks_for_asynchronous_calls(&self, models: &[ModelSpec]) -> bool {
        let is_given = |name: &str| self.invocation.flags.iter().any(|flag| flag.given && flag.name == name);
        let by_model = models.iter().any(|model| model.sequences) && !is_given("--sync");
        by_model || is_given("--async") || is_given("--streaming")
    }

    /// Notes on the flags that need all models.
    pub fn notes_on<'a>(&'a self, models: &'a [ModelSpec]) -> impl Iterator<Item = &'a str> {
        let unused = |note: &&ModelNote| !models.iter().any(|model| (note.used)(model));
        self.model_notes.iter().filter(unused).map(|note| note.text.as_str())
    }

    fn check_model(&self, model: &ModelSpec) -> Result<()> {
        match RULES.iter().find_map(|rule| rule(self, model)) {
            Some(message) => Err(Error::usage(format!("model '{}': {message}; see --help", model.id))),
            None => Ok(()),
        }
    }
}

const RULES: &[Rule] = &[
    |plan, model| {
        let broken = plan.data.batch_size > 1 && model.max_batch_size == 0;
        broken.then(|| format!("-b {}: the model does not batch, so the batch size must be 1", plan.data.batch_size))
    },
    |plan, model| {
        let (size, most) = (plan.data.batch_size, model.max_batch_size);
        // Scripts look for the server's words, which it would refuse each request with.
        (size > 1 && size > most).then(|| format!("-b {size}: inference request batch-size must be <= {most}"))
    },
    |plan, model| {
        let size = plan.data.batch_size;
        (size > 1 && model.sequences).then(|| format!("-b {size}: requests of sequence models have a batch size of 1"))
    },
    |plan, model| {
        let broken = model.decoupled && plan.target.service == ServiceKind::Triton && !streams(plan);
        broken.then(|| "it is decoupled, which over the network needs streams: add -i grpc --streaming".into())
    },
    |plan, model| {
        (plan.load.mode.is_periodic() && !answers_in_parts(plan, model)).then(|| {
            "--periodic-concurrency-range needs several responses to a request: the model must be decoupled".into()
        })
    },
    |plan, model| {
        (plan.load.mode.is_periodic() && model.sequences)
            .then(|| "--periodic-concurrency-range sends requests on their own, but it takes sequences".into())
    },
    |plan, model| {
        (model.sequences && !plan.load.calls.wait(true) && is_endless(plan)).then(|| {
            "--concurrency-range without an end cannot go with --async for sequence models: give an end".into()
        })
    },
    |plan, model| {
        let (ids, sequences) = (plan.load.sequences.ids, sequences(plan));
        (model.sequences && ids < sequences).then(|| {
            format!("--sequence-id-range holds {ids} IDs, but {sequences} sequences are active at once: widen it")
        })
    },
    |plan, model| {
        let requests = plan.measurement.warmup_requests;
        (model.sequences && plan.load.mode.is_fixed_schedule() && requests > 0).then(|| {
            format!(
                "--warmup-request-count {requests}: a fixed schedule of a sequence cannot begin in its middle; leave it out"
            )
        })
    },
    |plan, model| {
        let is_shared = plan.load.ranks.part.is_shared();
        (model.sequences && plan.load.mode.is_fixed_schedule() && is_shared).then(|| {
            "a fixed schedule is one sequence, which several processes cannot share: use one, or --ranks separate"
                .into()
        })
    },
    |plan, model| {
        let (sequences, size) = (plan.load.sequences.concurrent, plan.load.ranks.part.size);
        (model.sequences && has_too_few_sequences(plan)).then(|| {
            format!(
                "--num-of-sequences {sequences}: {size} processes share them, and each needs one; give at least {size}"
            )
        })
    },
    |plan, model| {
        (model.sequences && plan.load.tokens().is_some())
            .then(|| "--trace-input and --trace-parameter are for requests on their own, not for sequences".into())
    },
    unusable_token_input,
    open_input,
    |plan, model| Some(no_input("--optional-inputs", &unknown_optional(plan, model)?, model)),
    |plan, model| Some(no_input("--random-range", &unknown_range(plan, model)?, model)),
];

fn no_input(flag: &str, name: &str, model: &ModelSpec) -> String {
    let names: Vec<&str> = model.inputs.iter().map(|input| input.name.as_str()).collect();
    format!("{flag} {name}: there is no such input; there are {}", names.join(", "))
}

/// Whether processes would be left without a sequence.
fn has_too_few_sequences(plan: &Plan) -> bool {
    let mode = &plan.load.mode;
    mode.has_schedule()
        && !mode.is_closed()
        && mode.pace().is_none()
        && plan.load.sequences.concurrent < plan.load.ranks.part.size
}

fn streams(plan: &Plan) -> bool {
    plan.target.connection.protocol.streams()
}

/// Whether a request may have several responses.
fn answers_in_parts(plan: &Plan, model: &ModelSpec) -> bool {
    model.decoupled || plan.target.service == ServiceKind::OpenAi && plan.target.openai.streaming
}

fn is_endless(plan: &Plan) -> bool {
    plan.load.mode.is_closed() && plan.load.mode.is_endless()
}

/// Number of concurrent sequences. Stages follow each other without a pause, so each needs its own IDs.
fn sequences(plan: &Plan) -> u64 {
    let scheduled = plan.load.sequences.concurrent as u64;
    let mode = &plan.load.mode;
    if !mode.stages().is_empty() {
        return mode.stages().iter().map(|stage| stage.concurrency().map_or(scheduled, u64::from)).sum();
    }
    let endless = mode.concurrency().map(|range| range.start);
    mode.peak_concurrency().or(endless).map_or(scheduled, u64::from)
}

fn token_input(plan: &Plan) -> Option<&TokenInput> {
    plan.load.tokens()?.input.as_ref()
}

/// Why a trace cannot decide the length of the input.
fn unusable_token_input(plan: &Plan, model: &ModelSpec) -> Option<String> {
    let name = &token_input(plan)?.name;
    let Some(input) = model.inputs.iter().find(|input| input.name == *name) else {
        return Some(no_input("--trace-input", name, model));
    };
    let free = input.shape.iter().filter(|&&dim| dim < 0).count();
    (free != 1).then(|| {
        format!(
            "--trace-input {name}: the input has the shape {:?}, but exactly one dimension must be free (-1)",
            input.shape
        )
    })
}

/// What is missing for an input that needs generated data but has no defined shape. Data files can bring shapes.
fn open_input(plan: &Plan, model: &ModelSpec) -> Option<String> {
    // Files may give their own shapes; what they leave open is reported when they are read.
    if !matches!(plan.data.source, DataSource::Zero | DataSource::Random) {
        return None;
    }
    let by_trace = |name: &str| token_input(plan).is_some_and(|input| input.name == name);
    let has_shape = |name: &str| by_trace(name) || plan.data.shapes.iter().any(|(input, _)| input == name);
    let spec_takes =
        |input: &TensorSpec| plan.data.optional_inputs.takes(input) || model.inputs.iter().all(|input| input.optional);
    let is_open = |input: &&TensorSpec| input.shape.iter().any(|&dim| dim < 0) && !has_shape(&input.name);
    let TensorSpec { name, shape, .. } = model.inputs.iter().filter(|input| spec_takes(input)).find(is_open)?;
    // The beginning is perf_analyzer's, which scripts look for.
    Some(format!(
        "input {name} contains dynamic shape, provide shapes to send along with the request: input '{name}' has the shape \
         {shape:?}, add --shape {name}:DIM,… with a number for each -1"
    ))
}

/// An input named by `--optional-inputs` that the model does not have, or not as an optional one.
fn unknown_optional(plan: &Plan, model: &ModelSpec) -> Option<String> {
    let OptionalInputs::Named(names) = &plan.data.optional_inputs else { return None };
    let is_input = |name: &str| model.inputs.iter().any(|input| input.name == name);
    // In a mix, the input may be another model's.
    if !plan.target.mix.is_empty() { None } else { names.iter().find(|name| !is_input(name)).cloned() }
}

/// An input named by `--random-range` that the model does not have.
fn unknown_range(plan: &Plan, model: &ModelSpec) -> Option<String> {
    let is_input = |name: &str| model.inputs.iter().any(|input| input.name == name);
    // In a mix, the input may be another model's.
    if !plan.target.mix.is_empty() {
        return None;
    }
    plan.data.random_ranges.iter().map(|range| &range.input).find(|name| !is_input(name)).cloned()
}
