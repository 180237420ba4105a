//! gRPC against a real Triton.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::Value;
use triton_bench::backend::{
    Backend, ClientSpec, Completion, CompletionSink, Next, OutputPlan, Parameter, ParameterValue, Request,
    RequestOptions, Response, SequencePosition, SlotId,
};
use triton_bench::backends::kserve::trace_settings::{TraceControl, values};
use triton_bench::backends::kserve_grpc::GrpcBackend;
use triton_bench::backends::kserve_http::HttpBackend;
use triton_bench::clock::Stamp;
use triton_bench::data::{InputTensor, Payload, PayloadId};
use triton_bench::model::{CorrelationForm, DataType, ModelId, Scheduler};
use triton_bench::plan::{Compression, ConnectionPlan, Protocol, TensorFormat, Tls, TraceSettings};
use triton_bench::shm::{Placement, Region};

use crate::support::load::{Run, RunSpec};
use crate::support::{Model, Program, Repository, TritonServer};

const LIMIT: Duration = Duration::from_secs(30);

/// Answers 40 000 values with themselves: more than any initial window holds.
fn identity(name: &str) -> Model {
    Model::identity(name).tensors(
        "input [{ name: \"INPUT0\" data_type: TYPE_FP32 dims: [40000] }]\n\
         output [{ name: \"OUTPUT0\" data_type: TYPE_FP32 dims: [40000] }]",
    )
}

/// Answers each request three times, and then says in a response of its own that it is done.
fn decoupled() -> Model {
    Model::identity("decoupled")
        .batches(0)
        .with("model_transaction_policy { decoupled: true }")
        .parameter("repeat", "3")
        .parameter("final", "null")
}

fn connection(server: &TritonServer, streaming: bool, compression: Compression) -> ConnectionPlan {
    ConnectionPlan {
        protocol: Protocol::Grpc { streaming, compression },
        // By name, as in the certificate.
        url: server.url("grpc").replace("127.0.0.1", "localhost"),
        headers: vec![("X-Test".to_owned(), "1".to_owned())],
        tls: Tls::default(),
        server_wait: LIMIT,
        reconnect: false,
        renew: false,
        metrics_url: None,
        client_timeout: None,
    }
}

fn connect(server: &TritonServer, streaming: bool, compression: Compression) -> GrpcBackend {
    GrpcBackend::connect(&connection(server, streaming, compression)).unwrap()
}

/// Requests to the identity model, whose tensors are larger than any initial window.
fn large(slots: usize, requests: i64) -> RunSpec {
    let values = (0..40_000).map(|value| value as f32).collect();
    RunSpec { slots, requests, values, ..RunSpec::default() }
}

#[test]
fn answers_are_the_inputs_in_every_form() {
    let repository = Repository::of(&[identity("identity")]);
    let Some(server) = TritonServer::start(&repository) else { return };
    let expected: Vec<u8> = large(1, 1).values.iter().flat_map(|value| value.to_le_bytes()).collect();
    let mut requests = 0;
    for streaming in [false, true] {
        for compression in [Compression::None, Compression::Gzip, Compression::Deflate] {
            for (inputs, outputs) in
                [(Placement::Pageable, Placement::Pageable), (Placement::System, Placement::System)]
            {
                let backend = connect(&server, streaming, compression);
                let spec = RunSpec { watch: true, inputs, outputs, ..large(4, 20) };
                let mut run = Run::open(&backend, "identity", &spec).unwrap();
                let counter = run.finish(LIMIT);
                assert_eq!((counter.succeeded(), counter.texts().as_str()), (20, ""));
                for outputs in &*counter.outputs.lock().unwrap() {
                    assert_eq!((outputs[0].name.as_str(), outputs[0].shape.as_slice()), ("OUTPUT0", &[1, 40_000][..]));
                    assert!(outputs[0].bytes == expected, "{streaming} {compression:?} {inputs:?}");
                }
                requests += 20;
            }
        }
    }
    let backend = connect(&server, false, Compression::None);
    assert!(backend.capabilities().statistics);
    let statistics = backend.statistics(&ModelId::latest("identity")).unwrap();
    let counted = &statistics.models[&("identity".to_owned(), "1".to_owned())];
    assert_eq!((counted.inferences, counted.success.count), (requests, requests));
    assert!(counted.success.ns > 0 && counted.queue.count == requests);
}

/// Settings of every kind, none of which the native backend minds.
const MANY_SETTINGS: &str = "dynamic_batching { preferred_batch_size: [2, 4] max_queue_delay_microseconds: 100 priority_levels: 2 \
    default_priority_level: 1 priority_queue_policy { key: 1 value { timeout_action: DELAY default_timeout_microseconds: 5000 } } \
    default_queue_policy { max_queue_size: 100 } } version_policy { all { } } metric_tags { key: \"t\" value: \"\" } \
    optimization { priority: PRIORITY_MAX input_pinned_memory { enable: false } execution_accelerators { \
    cpu_execution_accelerator: [ { name: \"openvino\" parameters { key: \"a\" value: \"b\" } } ] } } response_cache { enable: false }";

#[test]
fn a_configuration_has_the_same_hash_in_process_and_over_both_protocols() {
    let rich = Model::identity("rich").with(MANY_SETTINGS);
    let sequences = Model::identity("sequences").with(
        "sequence_batching { direct { minimum_slot_utilization: 0.3 } control_input [ { name: \"START\" \
         control [ { kind: CONTROL_SEQUENCE_START fp32_false_true: [0, 1] } ] } ] }",
    );
    let repository = Repository::of(&[Model::identity("plain"), rich, sequences]);
    let Some(server) = TritonServer::start(&repository) else { return };
    let grpc = connect(&server, false, Compression::None);
    let formats = (TensorFormat::Served, TensorFormat::Served);
    let protocol = Protocol::Http { inputs: formats.0, outputs: formats.1, compression: Compression::None };
    let over_http =
        ConnectionPlan { protocol, url: server.url("http"), ..connection(&server, false, Compression::None) };
    let http = HttpBackend::connect(&over_http).unwrap();
    let mut hashes = Vec::new();
    for model in ["plain", "rich", "sequences"] {
        let [grpc_config, http_config] =
            [&grpc as &dyn Backend, &http].map(|backend| backend.model(&ModelId::latest(model)).unwrap().config);
        assert_eq!(grpc_config, http_config, "{model}");
        let summary = repository.path().join("summary.json");
        let run = Program::on(&repository, model).args("--request-count 5 --summary-file").arg(&summary).run();
        let document: Value = serde_json::from_str(&std::fs::read_to_string(&summary).expect(&run.stderr)).unwrap();
        assert_eq!(document["models"][0]["config_hash"].as_str(), grpc_config.hash.as_deref(), "{model}");
        let backend = &document["server"]["backends"][0];
        assert!(backend["library"].as_str().is_some_and(|path| path.ends_with("libtriton_bench.so")), "{backend}");
        assert_eq!(backend["sha256"].as_str().map(str::len), Some(64), "{backend}");
        hashes.push(grpc_config.hash.unwrap());
    }
    hashes.dedup();
    assert_eq!(hashes.len(), 3);
}

#[test]
fn failures_and_decoupled_answers_are_told_as_they_are() {
    let repository = Repository::of(&[identity("failing").parameter("fail_every", "5"), decoupled()]);
    let Some(server) = TritonServer::start(&repository) else { return };
    for (streaming, code) in [(false, "Internal"), (true, "Inference failed")] {
        let backend = connect(&server, streaming, Compression::None);
        let mut run = Run::open(&backend, "failing", &large(3, 50)).unwrap();
        let counter = run.finish(LIMIT);
        assert_eq!((counter.succeeded(), counter.failed()), (40, 10));
        assert_eq!(counter.codes().into_keys().collect::<Vec<_>>(), [code]);
        assert!(counter.texts().contains("failed as configured"));
    }
    let backend = connect(&server, true, Compression::None);
    assert!(backend.model(&ModelId::latest("decoupled")).unwrap().decoupled);
    let spec = RunSpec { slots: 3, requests: 10, watch: true, ..RunSpec::default() };
    let mut run = Run::open(&backend, "decoupled", &spec).unwrap();
    let counter = run.finish(LIMIT);
    assert_eq!((counter.succeeded(), counter.texts().as_str()), (10, ""));
    let outputs = counter.outputs.lock().unwrap();
    assert_eq!(outputs.iter().filter(|response| !response.is_empty()).count(), 30);
    assert_eq!(outputs.iter().filter(|response| response.is_empty()).count(), 10);
    drop(outputs);
    let mut run = Run::open(&connect(&server, false, Compression::None), "decoupled", &spec).unwrap();
    assert_eq!(run.finish(LIMIT).codes().into_keys().collect::<Vec<_>>(), ["Unsupported"]);
    let connection =
        ConnectionPlan { server_wait: Duration::from_secs(60), ..connection(&server, false, Compression::None) };
    // A server that loads nothing any more is not waited for.
    let asked = Instant::now();
    let error = GrpcBackend::connect(&connection).unwrap().model(&ModelId::latest("nobody")).unwrap_err();
    let error = error.to_string();
    assert!(error.contains("there is no model 'nobody' (the server has decoupled, failing)"), "{error}");
    assert!(error.contains("unknown model"), "{error}");
    assert!(asked.elapsed() < Duration::from_secs(20), "{:?}", asked.elapsed());
}

/// Sums that come back, and the errors.
#[derive(Default)]
struct Sums(Mutex<(Vec<i32>, Vec<String>)>);

impl CompletionSink for Sums {
    fn response(&self, _: SlotId, response: &Response<'_>) {
        response.outputs.visit(&mut |output| {
            let sum = i32::from_le_bytes(output.bytes.try_into().unwrap());
            self.0.lock().unwrap().0.push(sum);
        });
    }

    fn complete(&self, _: SlotId, completion: &Completion<'_>) -> Next {
        self.0.lock().unwrap().1.extend(completion.error.map(ToString::to_string));
        Next::Idle
    }
}

#[test]
fn sequences_keep_their_place_and_parameters_arrive() {
    let text = "control_input [{ name: \"ID\" control [{ kind: CONTROL_SEQUENCE_CORRID data_type: TYPE_STRING }] }]";
    let by_text = Model::identity("by_text")
        .tensors(
            "input [{ name: \"INPUT0\" data_type: TYPE_INT32 dims: [1] }]\n\
             output [{ name: \"OUTPUT0\" data_type: TYPE_INT32 dims: [1] }]",
        )
        .with(&format!("sequence_batching {{ max_sequence_idle_microseconds: 5000000 {text} }}"))
        .parameter("accumulate", "true");
    let repository = Repository::of(&[Model::accumulator("sequence").batches(4), by_text.batches(4)]);
    let Some(server) = TritonServer::start(&repository) else { return };
    for (streaming, name, correlation) in [
        (false, "sequence", CorrelationForm::Number),
        (true, "sequence", CorrelationForm::Number),
        (false, "by_text", CorrelationForm::Text),
    ] {
        let backend = connect(&server, streaming, Compression::None);
        let model = backend.model(&ModelId::latest(name)).unwrap();
        assert_eq!((model.scheduler, model.correlation), (Scheduler::Sequence, correlation));
        let input = InputTensor {
            name: "INPUT0".into(),
            datatype: DataType::Int32,
            shape: [1, 1].into(),
            region: Arc::new(Region::filled(Placement::Pageable, &7_i32.to_le_bytes()).unwrap()),
            offset: 0,
            len: 4,
        };
        let payload = Payload {
            model: 0,
            batch: 1,
            stream: 0,
            step: 0,
            inputs: vec![input],
            parameters: Vec::new(),
            expected: None,
        };
        let parameter = Parameter { name: "custom".to_owned(), value: ParameterValue::Text("x".to_owned()) };
        let parameters = vec![parameter];
        let options = RequestOptions { correlation: None, parameters, priority: 1, timeout_us: 5_000_000 };
        let spec = ClientSpec {
            outputs: OutputPlan { placements: Placement::Pageable.into(), variable_bytes: 64 },
            options: Arc::new(options),
            watch_responses: true,
            ..ClientSpec::new([model].into(), [payload].into())
        };
        let sums = Arc::new(Sums::default());
        let mut client = backend.open_client(spec, Arc::clone(&sums) as Arc<dyn CompletionSink>).unwrap();
        for step in 0..9 {
            let id = u64::MAX - step / 3;
            let id = if streaming { id >> 2 } else { id };
            let position = SequencePosition { id, start: step % 3 == 0, end: step % 3 == 2 };
            client.submit(SlotId(0), Request { payload: PayloadId(0), sequence: Some(position) }).unwrap();
            assert_eq!(client.drain(LIMIT), 0);
        }
        let (sums, errors) = &*sums.0.lock().unwrap();
        assert_eq!((sums.as_slice(), errors.len()), (&[7, 14, 21, 7, 14, 21, 7, 14, 21][..], 0), "{errors:?}");
    }
}

#[test]
fn timed_a_server_that_is_killed_ends_every_request_at_once() {
    let repository = Repository::of(&[identity("slow").parameter("delay_us", "20000")]);
    let Some(mut server) = TritonServer::start(&repository) else { return };
    for streaming in [true, false] {
        let backend = connect(&server, streaming, Compression::None);
        let trace = TraceSettings { levels: Some(Vec::new()), rate: Some(500), count: None, log_frequency: None };
        backend.put_traces("slow", &values(&trace)).unwrap();
        let spec = RunSpec { outputs: Placement::System, ..large(6, 1_000_000) };
        let mut run = Run::open(&backend, "slow", &spec).unwrap();
        run.begin();
        run.drive(Duration::from_millis(200));
        assert!(run.counter.succeeded() > 0);
        if streaming {
            run.stop();
            assert!(run.drive(LIMIT));
            continue;
        }
        server.kill();
        let begin = Instant::now();
        while run.counter.failed() < 6 && begin.elapsed() < LIMIT {
            run.client.drive(Stamp::now().plus(10_000_000)).unwrap();
        }
        run.stop();
        assert!(run.drive(Duration::from_secs(1)));
        assert!(begin.elapsed() < Duration::from_secs(2));
        assert!(run.counter.texts().contains("Connection"), "{}", run.counter.texts());
    }
}

#[test]
fn encrypted_connections_carry_the_same_and_check_the_server() {
    let files = tempfile::tempdir().unwrap();
    let path = |name: &str| files.path().join(name);
    let issued = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    std::fs::write(path("cert.pem"), issued.cert.pem()).unwrap();
    std::fs::write(path("key.pem"), issued.signing_key.serialize_pem()).unwrap();
    let flag = |name: &str, file: &str| format!("--grpc-{name}={}", path(file).display());
    let flags = [
        "--grpc-use-ssl=true".to_owned(),
        flag("server-cert", "cert.pem"),
        flag("server-key", "key.pem"),
        flag("root-cert", "cert.pem"),
    ];
    let repository = Repository::of(&[identity("identity")]);
    let flags = flags.each_ref().map(String::as_str);
    let Some(server) = TritonServer::start_with(&repository, &flags) else { return };
    for streaming in [false, true] {
        let tls = Tls { enabled: true, ca_certificates: Some(path("cert.pem")), ..Tls::default() };
        let connection = ConnectionPlan { tls, ..connection(&server, streaming, Compression::None) };
        let backend = GrpcBackend::connect(&connection).unwrap();
        let mut run = Run::open(&backend, "identity", &RunSpec { watch: true, ..large(4, 40) }).unwrap();
        let counter = run.finish(LIMIT);
        assert_eq!((counter.succeeded(), counter.texts().as_str()), (40, ""));
        assert!(counter.outputs.lock().unwrap().iter().all(|response| response[0].bytes.len() == 160_000));
    }
    let tls = Tls { enabled: true, ..Tls::default() };
    let stranger = ConnectionPlan { tls, server_wait: Duration::ZERO, ..connection(&server, false, Compression::None) };
    let error = GrpcBackend::connect(&stranger).err().unwrap().to_string();
    assert!(error.contains("TLS error") || error.contains("trusted certificates"), "{error}");
}
