//! State that is made once for a run: the connection to the server, the models, the payloads, the client's own cost.

mod request_files;

use std::sync::Arc;
use std::time::Duration;

use crate::app::setup::{Served, setup};
use crate::app::{composing::with_composing, host_monitor, texts};
use crate::backend::{Backend, ClientSpec, MAX_REPLY_BYTES, OutputPlan, RequestOptions};
use crate::backends::kserve::trace_settings::ChangedTraces;
use crate::backends::{Connect, Connected};
use crate::data::{ConversationTurns, DataSource, Payload, PromptCount, PromptForm, PromptLength, Tolerance};
use crate::error::Result;
use crate::load::input_source::{EntryAssignment, InputSource, PayloadIndex, RunPass};
use crate::load::mix::Mix;
use crate::load::open::default_outstanding;
use crate::load::payloads::Payloads;
use crate::load::recorded::Recorded;
use crate::load::request_streams::LocalRequestStreams;
use crate::load::schedule::Arrivals;
use crate::load::sequence::{SequenceLength, SequenceSpec};
use crate::load::{LoadContext, Turn};
use crate::machine::host_monitor::Machine;
use crate::measure::collect::Collector;
use crate::model::{ModelId, ModelSpec, TensorSpec};
use crate::observe::{Expectations, Observers};
use crate::plan::{Plan, ServiceKind};
use crate::ranks::Part;
use crate::record::{Observer, Recorder, TextLog, TraceLog};
use crate::result::Setup;
use crate::shm::{Placement, free_bytes};
use crate::stdio::note;

/// How long closing a client waits, whose load has already waited.
const CLOSE_LIMIT: Duration = Duration::from_secs(1);

/// Limit on copies of requests on their way to observers, in bytes, in a run of any length.
const MAX_OBSERVED: usize = 1 << 30;

/// A block of consecutive correlation IDs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdBlock {
    /// The smallest.
    pub first: u64,
    /// Their number.
    pub count: u64,
}

/// How a load's requests are assigned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestStreams {
    /// Number of request streams of the input source in this process.
    pub count: usize,
    /// The same in all processes together.
    pub whole: usize,
    /// Which of these are in this process.
    pub part: Part,
    /// How request streams share the first pass through the data.
    pub assignment: EntryAssignment,
    /// Entry of the data that the first request carries.
    pub first_entry: u64,
    /// Correlation IDs that it may use; all of the plan's if absent.
    pub ids: Option<IdBlock>,
}

impl RequestStreams {
    /// `count` request streams, from the beginning of the data, with all IDs.
    pub fn new(count: usize, assignment: EntryAssignment) -> Self {
        Self { count, whole: count, part: Part::WHOLE, assignment, first_entry: 0, ids: None }
    }
}

/// Everything that the levels of a run share.
pub struct Session {
    /// Reads the server's metrics, if asked for; dropped before the backend, so that it ends first.
    pub metrics: Option<Collector>,
    /// Settings changed on the server for the run; also dropped before the backend.
    traces: Option<ChangedTraces>,
    /// The server under test.
    pub backend: Arc<dyn Backend>,
    /// The model of every entry of the mix, or the only model.
    pub models: Arc<[ModelSpec]>,
    /// The models that requests are for, each once.
    pub roots: Vec<ModelId>,
    /// Those, and all models that they call.
    pub all_models: Vec<ModelSpec>,
    /// The plan.
    pub plan: Plan,
    /// What is measured, and how.
    pub setup: Arc<Setup>,
    /// Measures what others take from this machine, unless disturbance is ignored.
    pub host_monitor: Option<Machine>,
    announcement: Option<String>,
    /// Whether data files define the length of sequences.
    has_steps: bool,
    payloads: Arc<[Payload]>,
    indexes: Vec<PayloadIndex>,
    /// The pass through the data that all loads share, if no request may repeat another's.
    pass: Option<RunPass>,
    /// Where traced requests are kept, if there are any.
    pub trace_log: Option<Arc<TraceLog>>,
    /// Where answers go whose tokens are to be counted.
    texts: Option<Arc<TextLog>>,
    /// Conversations, if the load plays them.
    pub conversations: Arc<[Vec<Turn>]>,
    /// When requests are due, if a file or the data say so.
    arrivals: Option<Arrivals>,
}

impl Session {
    /// Connects through `connect`, reads the data, packs them, and measures the client's own cost.
    ///
    /// # Errors
    /// If the server, the model or the data cannot be used.
    pub fn open(plan: Plan, connect: Connect) -> Result<Self> {
        let recorded = Recorded::read(&plan)?;
        let session = Self::with(connect(&plan)?, plan, recorded)?;
        session.note_on_repeats();
        session.plan.notes_on(&session.models).for_each(|note| note!("{note}"));
        Ok(session)
    }

    /// The same with an existing server.
    ///
    /// # Errors
    /// As [`Session::open`].
    pub fn through(server: Connected, plan: Plan) -> Result<Self> {
        let recorded = Recorded::read(&plan)?;
        Self::with(server, plan, recorded)
    }

    fn with(Connected { backend, traces }: Connected, plan: Plan, recorded: Recorded) -> Result<Self> {
        let mut models = plan.target.models().map(|id| backend.model(id)).collect::<Result<Vec<_>>>()?;
        let all_models = with_composing(backend.as_ref(), &mut models, &plan.target.bls_composing)?;
        plan.check_models(&models)?;
        let payloads = Payloads::make(&plan, &models, &recorded)?;
        payloads.warnings.iter().for_each(|warning| note!("{warning}"));
        warn_of_tolerance(&plan, &payloads);
        let arrivals = match plan.load.mode.is_fixed_schedule() {
            true => Some(Arrivals::fixed_ms(&payloads.offsets_ms)?),
            false => recorded.arrivals,
        };
        let (table, with_entries) = (Arc::from(payloads.table), Arc::from(payloads.models));
        backend.prepare(&with_entries, &table)?;
        let served = Served {
            backend: backend.as_ref(),
            models: &models,
            all_models: &all_models,
            sessions: &payloads.sessions,
        };
        let setup = setup(&plan, &served)?;
        let is_unique =
            matches!(&plan.data.source, DataSource::Prompts(prompts) if prompts.count == PromptCount::Unique);
        let pass = is_unique.then(|| RunPass::new(payloads.indexes.len(), plan.load.ranks.part));
        let texts = texts::log(&plan)?;
        let log = traces_of(&plan, backend.as_ref(), traces.as_ref())?;
        Ok(Self {
            metrics: collector(&plan, &backend, &models[0].id.name)?,
            traces,
            backend,
            models: with_entries,
            roots: models.into_iter().map(|model| model.id).collect(),
            all_models,
            host_monitor: host_monitor::open(&plan),
            setup: Arc::new(setup),
            plan,
            announcement: payloads.announcement,
            has_steps: payloads.from_files,
            payloads: table,
            trace_log: log,
            texts,
            pass,
            indexes: payloads.indexes,
            conversations: payloads.sessions.into(),
            arrivals,
        })
    }

    /// Says that prompts which nobody counted are sent again: a server that keeps prefixes answers those sooner.
    fn note_on_repeats(&self) {
        let DataSource::Prompts(prompts) = &self.plan.data.source else { return };
        let is_chosen = prompts.count != PromptCount::Usual || !matches!(prompts.prompt, PromptLength::Drawn(_));
        if is_chosen || prompts.form == PromptForm::Input || prompts.conversations.is_some() {
            return;
        }
        let count = self.payloads.len() as u64;
        if self.plan.most_requests().is_none_or(|requests| requests > count) {
            note!(
                "--prompt-tokens: {count} prompts are sent again and again, which a server that caches prefixes answers \
                 sooner; with --num-prompts unique none is"
            );
        }
    }

    /// The line that says what was read from data files.
    pub fn announcement(&self) -> Option<String> {
        self.announcement.clone()
    }

    /// What requests carry.
    pub fn payloads(&self) -> &[Payload] {
        &self.payloads
    }

    /// Whether conversations are played to their ends.
    pub fn plays_whole_sessions(&self) -> bool {
        let conversations = self.plan.data.source.conversations();
        !self.conversations.is_empty()
            && conversations.is_none_or(|conversations| conversations.turns != ConversationTurns::Endless)
    }

    /// Default limit on outstanding requests of a schedule: as many as half of the free memory can hold the outputs of,
    /// because each request has its own.
    pub fn most_outstanding(&self) -> usize {
        let plan = &self.plan;
        let bytes = |output: &TensorSpec| output.fixed_bytes().unwrap_or(plan.data.output_bytes as u64);
        let request_bytes =
            self.models.iter().map(|model| model.outputs.iter().map(bytes).sum::<u64>()).max().unwrap_or(0);
        default_outstanding(request_bytes.saturating_mul(plan.data.batch_size), free_bytes(plan.data.output_placement))
    }

    /// The observers that the plan asks for.
    ///
    /// # Errors
    /// If the export's file cannot be made.
    pub fn observers(&self) -> Result<Option<Observers>> {
        let plan = &self.plan;
        let files = self.request_files()?;
        let validates = self.payloads.iter().any(|payload| payload.expected.is_some());
        let tolerance = plan.data.tolerance.map(|(relative, absolute)| Tolerance { relative, absolute });
        let expectations = validates.then(|| Expectations { payloads: Arc::clone(&self.payloads), tolerance });
        let finite = plan.measurement.request_count.is_some()
            || plan.load.mode.sessions().is_some()
            || self.arrivals.as_ref().is_some_and(|arrivals| arrivals.len().is_some());
        Observers::start(files, expectations, observed_bytes(finite, free_bytes(Placement::Pageable)))
    }

    /// What requests carry, assigned to `request_streams`.
    ///
    /// # Errors
    /// If there are no data, or too few correlation IDs.
    fn input_source(&self, request_streams: RequestStreams) -> Result<InputSource> {
        let plan = &self.plan;
        let mix = match plan.target.mix.as_slice() {
            [] => Mix::single(),
            entries => Mix::new(&entries.iter().map(|entry| entry.share).collect::<Vec<_>>(), plan.seed)?,
        };
        let local_request_streams = LocalRequestStreams {
            count: request_streams.count,
            all: request_streams.whole,
            part: request_streams.part,
        };
        if !self.setup.sequences {
            let (indexes, RequestStreams { assignment, first_entry, .. }) = (self.indexes.clone(), request_streams);
            return match &self.pass {
                Some(pass) => InputSource::going_on(indexes, mix, local_request_streams, pass),
                None => InputSource::independent(indexes, mix, local_request_streams, assignment, first_entry),
            };
        }
        let sequences = &plan.load.sequences;
        let ids = request_streams.ids.unwrap_or(IdBlock { first: sequences.first_id, count: sequences.ids });
        let spec = SequenceSpec {
            first_id: ids.first,
            ids: ids.count,
            length: match plan.load.mode.is_fixed_schedule() {
                // Each step has its own time.
                true => SequenceLength::Stream,
                false => SequenceLength::new(sequences, self.has_steps),
            },
            seed: plan.seed,
        };
        InputSource::sequences(self.indexes.clone(), mix, spec, local_request_streams)
    }

    /// When requests are due, if a file or the data say so.
    ///
    /// # Panics
    /// In other modes.
    pub fn schedule(&self) -> Arrivals {
        self.arrivals.clone().expect("the plan's mode has a schedule")
    }

    /// The context of a load with such `request_streams`, without a limit on its requests.
    ///
    /// # Errors
    /// As [`Session::input_source`].
    pub fn context(
        &self,
        request_streams: RequestStreams,
        recorder: &Arc<Recorder>,
        observer: Option<Arc<dyn Observer>>,
    ) -> Result<LoadContext> {
        let plan = &self.plan;
        let options = RequestOptions {
            parameters: plan.data.parameters.clone(),
            priority: plan.data.priority,
            timeout_us: plan.data.timeout_us,
            correlation: plan.load.sequences.correlation,
        };
        let client = ClientSpec {
            outputs: OutputPlan { placements: plan.data.output_placements(), variable_bytes: plan.data.output_bytes },
            options: Arc::new(options),
            max_reply_bytes: plan.target.max_reply_bytes.unwrap_or(MAX_REPLY_BYTES),
            replies: plan.data.replies,
            watch_responses: self.setup.decoupled || self.backend.generates() || observer.is_some(),
            connections: plan.load.max_connections,
            cancels: plan.data.cancel_after.is_some(),
            traces: self.trace_log.as_ref().map(|_| plan.tracing.rate),
            drain_limit: CLOSE_LIMIT,
            ..ClientSpec::new(Arc::clone(&self.models), Arc::clone(&self.payloads))
        };
        let (backend, recorder) = (Arc::clone(&self.backend), Arc::clone(recorder));
        Ok(LoadContext {
            wait: plan.load.wait,
            worker_cpus: plan.load.worker_cpus.clone(),
            cancel_after: plan.data.cancel_after,
            answers_at_once: self.has_cache_here(),
            observer,
            traces: self.trace_log.clone(),
            texts: self.texts.clone(),
            ..LoadContext::new(backend, client, self.input_source(request_streams)?, recorder)
        })
    }

    /// Whether a server in this process may answer from its cache.
    fn has_cache_here(&self) -> bool {
        let target = &self.plan.target;
        let is_here = target.service.is_embedded() && !target.server.cache_config.is_empty();
        is_here && self.all_models.iter().any(|model| model.response_cache)
    }

    /// Leaves the server; a server in this process is stopped.
    pub fn close(self) {
        drop(self.metrics);
        drop(self.traces);
        drop(self.backend);
    }
}

/// What reads the server's metrics, if they are to be collected.
fn collector(plan: &Plan, backend: &Arc<dyn Backend>, model: &str) -> Result<Option<Collector>> {
    let Some(wanted) = &plan.target.metrics else { return Ok(None) };
    let backend = Arc::clone(backend);
    match plan.target.service {
        ServiceKind::OpenAi => Collector::start_if_offered(backend, wanted.interval, model),
        // perf_analyzer goes on, and so do its callers.
        _ if plan.output.as_upstream => Collector::start_anyway(backend, wanted.interval, model).map(Some),
        _ => Collector::start(backend, wanted.interval, model).map(Some),
    }
}

/// Where traced requests are kept, if they are wanted and possible; `changed` are the settings changed on a network
/// server.
fn traces_of(plan: &Plan, backend: &dyn Backend, changed: Option<&ChangedTraces>) -> Result<Option<Arc<TraceLog>>> {
    if !plan.tracing.wants_traces() {
        return Ok(None);
    }
    if !plan.target.service.is_embedded() {
        let reader = changed.map_or(Ok(None), ChangedTraces::reader).unwrap_or_else(|error| {
            note!("{error}; the averages of its statistics are shown instead");
            None
        });
        return reader.map(TraceLog::joining).transpose();
    }
    if !backend.traces() {
        note!("this libtritonserver.so cannot trace requests; only averages are shown, and no trace files are written");
        return Ok(None);
    }
    TraceLog::start().map(Some)
}

/// Bytes that copies of requests may take on their way to the export and to the validator: enough that nothing is lost
/// while a disk or a processor is busy for seconds. A run of known size should be exported completely, so it may take
/// more.
fn observed_bytes(finite: bool, free: Option<u64>) -> usize {
    let free = usize::try_from(free.unwrap_or(MAX_OBSERVED as u64)).unwrap_or(usize::MAX);
    if finite { free / 2 } else { (free / 4).min(MAX_OBSERVED) }
}

/// Warns that a tolerance has nothing to apply to: no data give expected outputs.
fn warn_of_tolerance(plan: &Plan, payloads: &Payloads) {
    if plan.data.tolerance.is_some() && payloads.table.iter().all(|payload| payload.expected.is_none()) {
        note!(
            "--validate-tolerance has no effect: the input data has no expected outputs; give \"validation_data\" \
                beside \"data\" in JSON, or files or arrays named like the outputs"
        );
    }
}
