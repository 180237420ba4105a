//! A small closed loop over one client, for backend tests: every request is counted from submission to completion.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use triton_bench::backend::{
    Backend, Client, ClientSpec, Completion, CompletionSink, Next, Oddities, OutputPlan, OutputView, ReplyRule,
    Request, RequestOptions, Response, SequencePosition, SlotId,
};
use triton_bench::clock::Stamp;
use triton_bench::data::{InputTensor, Payload, PayloadId};
use triton_bench::model::{DataType, ModelId, ModelSpec};
use triton_bench::shm::{Placement, Region};

/// What was seen of an output.
#[derive(Clone, Debug, PartialEq)]
pub struct ObservedOutput {
    /// Name.
    pub name: String,
    /// Shape.
    pub shape: Vec<i64>,
    /// Elements.
    pub bytes: Vec<u8>,
}

/// Counts completions and issues until a quota is used up.
pub struct Counter {
    quota: AtomicI64,
    submitted: AtomicU64,
    /// Successful completions.
    pub good: AtomicU64,
    /// Failures by code and message.
    pub failures: Mutex<BTreeMap<(String, String), u64>>,
    /// Outputs of every watched response.
    pub outputs: Mutex<Vec<Vec<ObservedOutput>>>,
    /// Service times in nanoseconds.
    pub latencies: Mutex<Vec<u64>>,
    sequences: bool,
    busy: Mutex<BTreeMap<u32, bool>>,
}

impl Counter {
    fn next(&self) -> Option<Request> {
        let left = self.quota.fetch_sub(1, Ordering::SeqCst);
        if left <= 0 {
            return None;
        }
        let number = self.submitted.fetch_add(1, Ordering::SeqCst);
        let sequence = self.sequences.then(|| SequencePosition {
            id: number / 3 + 1,
            start: number.is_multiple_of(3),
            end: number % 3 == 2,
        });
        Some(Request { payload: PayloadId(0), sequence })
    }

    fn take(&self, slot: SlotId) -> Option<Request> {
        let request = self.next()?;
        let was = self.busy.lock().unwrap().insert(slot.0, true);
        assert_ne!(was, Some(true), "slot {} was busy", slot.0);
        Some(request)
    }

    /// Failures by code.
    pub fn codes(&self) -> BTreeMap<String, u64> {
        let mut codes = BTreeMap::new();
        for ((code, _), count) in &*self.failures.lock().unwrap() {
            *codes.entry(code.clone()).or_default() += count;
        }
        codes
    }

    /// All failures' texts.
    pub fn texts(&self) -> String {
        self.failures.lock().unwrap().keys().map(|(code, text)| format!("{code}: {text}\n")).collect()
    }

    /// How many requests failed.
    pub fn failed(&self) -> u64 {
        self.codes().values().sum()
    }

    /// How many succeeded.
    pub fn succeeded(&self) -> u64 {
        self.good.load(Ordering::SeqCst)
    }
}

impl CompletionSink for Counter {
    fn response(&self, _slot: SlotId, response: &Response<'_>) {
        let mut observed = Vec::new();
        response.outputs.visit(&mut |view: OutputView<'_>| {
            let (name, shape, bytes) = (view.name.to_owned(), view.shape.to_vec(), view.bytes.to_vec());
            observed.push(ObservedOutput { name, shape, bytes });
        });
        self.outputs.lock().unwrap().push(observed);
    }

    fn complete(&self, slot: SlotId, completion: &Completion<'_>) -> Next {
        assert_eq!(self.busy.lock().unwrap().insert(slot.0, false), Some(true), "slot {} completed twice", slot.0);
        assert!(completion.sent <= completion.first_response && completion.first_response <= completion.last_response);
        match completion.error {
            None => {
                assert!(completion.send_end.is_some_and(|end| completion.sent <= end));
                self.good.fetch_add(1, Ordering::SeqCst);
                self.latencies.lock().unwrap().push(completion.last_response.since(completion.sent));
            }
            Some(error) => {
                *self.failures.lock().unwrap().entry((error.code.to_string(), error.message.clone())).or_default() += 1;
            }
        }
        self.take(slot).map_or(Next::Idle, Next::Issue)
    }
}

/// A client under a closed loop.
pub struct Run {
    /// What was counted.
    pub counter: Arc<Counter>,
    /// The client.
    pub client: Box<dyn Client>,
    /// What was odd about answers that counted.
    pub oddities: Arc<Oddities>,
    slots: usize,
}

/// How a [`Run`] is made.
#[derive(Clone)]
pub struct RunSpec {
    /// Requests outstanding.
    pub slots: usize,
    /// Most connections, where they are bounded.
    pub connections: Option<usize>,
    /// Requests in all.
    pub requests: i64,
    /// Whether outputs are looked at.
    pub watch: bool,
    /// Which answers count.
    pub replies: ReplyRule,
    /// Whether requests belong to sequences of three.
    pub sequences: bool,
    /// Where inputs are.
    pub inputs: Placement,
    /// Where outputs go.
    pub outputs: Placement,
    /// Common options.
    pub options: RequestOptions,
    /// Elements of the only input, FP32 with a batch dimension of 1.
    pub values: Vec<f32>,
}

impl Default for RunSpec {
    fn default() -> Self {
        Self {
            connections: None,
            slots: 1,
            requests: 20,
            watch: false,
            replies: ReplyRule::default(),
            sequences: false,
            inputs: Placement::Pageable,
            outputs: Placement::Pageable,
            options: RequestOptions::default(),
            values: (0..16).map(|value| value as f32).collect(),
        }
    }
}

/// The payload of a [`RunSpec`] for the first input of a model.
pub fn payload(spec: &RunSpec, model: &ModelSpec) -> Payload {
    let bytes: Vec<u8> = spec.values.iter().flat_map(|value| value.to_le_bytes()).collect();
    let input = &model.inputs[0];
    let mut shape = vec![spec.values.len() as i64];
    if model.max_batch_size > 0 {
        shape.insert(0, 1);
    }
    Payload {
        model: 0,
        batch: 1,
        stream: 0,
        step: 0,
        inputs: vec![InputTensor {
            name: input.name.as_str().into(),
            datatype: DataType::Fp32,
            shape: shape.into(),
            region: Arc::new(Region::filled(spec.inputs, &bytes).unwrap()),
            offset: 0,
            len: bytes.len(),
        }],
        parameters: Vec::new(),
        expected: None,
    }
}

impl Run {
    /// Opens a client for a model.
    pub fn open(backend: &dyn Backend, model: &str, spec: &RunSpec) -> triton_bench::error::Result<Self> {
        let model = backend.model(&ModelId::latest(model))?;
        let counter = Arc::new(Counter {
            quota: AtomicI64::new(spec.requests),
            submitted: AtomicU64::new(0),
            good: AtomicU64::new(0),
            failures: Mutex::default(),
            outputs: Mutex::default(),
            latencies: Mutex::default(),
            sequences: spec.sequences,
            busy: Mutex::default(),
        });
        let (payloads, models) = (Arc::from([payload(spec, &model)]), Arc::from([model]));
        let client_spec = ClientSpec {
            outputs: OutputPlan { placements: spec.outputs.into(), variable_bytes: 1024 },
            slots: spec.slots,
            load_slots: spec.slots,
            connections: spec.connections,
            options: Arc::new(spec.options.clone()),
            watch_responses: spec.watch,
            replies: spec.replies,
            drain_limit: Duration::from_millis(200),
            ..ClientSpec::new(models, payloads)
        };
        let oddities = Arc::clone(&client_spec.oddities);
        let client = backend.open_client(client_spec, counter.clone())?;
        Ok(Self { counter, client, oddities, slots: spec.slots })
    }

    /// Submits in every slot.
    pub fn begin(&mut self) {
        for slot in 0..self.slots as u32 {
            if let Some(request) = self.counter.take(SlotId(slot)) {
                self.client.submit(SlotId(slot), request).unwrap();
            }
        }
    }

    /// Drives until every slot is idle or the time is over; tells whether they are.
    pub fn drive(&mut self, limit: Duration) -> bool {
        let end = Instant::now() + limit;
        while self.counter.busy.lock().unwrap().values().any(|&busy| busy) {
            if Instant::now() >= end {
                return false;
            }
            self.client.drive(Stamp::now().plus(60_000_000)).unwrap();
        }
        true
    }

    /// Issues nothing more.
    pub fn stop(&self) {
        self.counter.quota.store(0, Ordering::SeqCst);
    }

    /// Runs to the end.
    ///
    /// # Panics
    /// Where requests are missing after `limit`.
    pub fn finish(&mut self, limit: Duration) -> &Counter {
        self.begin();
        assert!(self.drive(limit), "requests are missing: {} good, {}", self.counter.succeeded(), self.counter.texts());
        assert_eq!(self.counter.submitted.load(Ordering::SeqCst), self.counter.succeeded() + self.counter.failed());
        &self.counter
    }
}
