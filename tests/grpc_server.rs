//! gRPC against a real `tritonserver` with the native test backend. Needs `TRITON_SERVER_DIRECTORY` and the backend's
//! library where `cargo build --workspace` puts it; `scripts/test` provides both. Without them the tests say so and pass.

#[path = "support/load.rs"]
#[allow(dead_code)]
mod load;
#[path = "support/ports.rs"]
mod ports;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use load::{Run, RunSpec};
use triton_bench::backend::{
    Backend, ClientSpec, Completion, CompletionSink, CorrelationForm, Next, OutputPlan, Parameter, ParameterValue,
    Request, RequestOptions, Response, SequencePosition, SlotId,
};
use triton_bench::backends::grpc::GrpcBackend;
use triton_bench::clock::Stamp;
use triton_bench::data::{InputTensor, Payload, PayloadId};
use triton_bench::model::{DataType, ModelId, Scheduler};
use triton_bench::plan::{Compression, Connection, Protocol, Tls, TraceSettings};
use triton_bench::shm::{Placement, Region};

const LIMIT: Duration = Duration::from_secs(30);

const IDENTITY: &str = r#"backend: "bench" max_batch_size: 8
input [{ name: "INPUT0" data_type: TYPE_FP32 dims: [40000] }] output [{ name: "OUTPUT0" data_type: TYPE_FP32 dims: [40000] }]
instance_group [{ kind: KIND_CPU }]"#;
const FAILING: &str = r#"parameters { key: "fail_every" value { string_value: "5" } }"#;
const SLOW: &str = r#"parameters { key: "delay_us" value { string_value: "20000" } }"#;
const DECOUPLED: &str = r#"backend: "bench"
input [{ name: "INPUT0" data_type: TYPE_FP32 dims: [16] }] output [{ name: "OUTPUT0" data_type: TYPE_FP32 dims: [16] }]
instance_group [{ kind: KIND_CPU }] model_transaction_policy { decoupled: true }
parameters { key: "repeat" value { string_value: "3" } } parameters { key: "final" value { string_value: "null" } }"#;
const SEQUENCE: &str = r#"backend: "bench" max_batch_size: 4
input [{ name: "INPUT0" data_type: TYPE_INT32 dims: [1] }] output [{ name: "OUTPUT0" data_type: TYPE_INT32 dims: [1] }]
instance_group [{ kind: KIND_CPU }] sequence_batching { max_sequence_idle_microseconds: 5000000 }
parameters { key: "accumulate" value { string_value: "true" } }"#;

/// A server of its own for a test, stopped when it is dropped.
struct Server {
    process: Child,
    port: u16,
    _repository: tempfile::TempDir,
}

impl Server {
    /// `None`, with a note, where there is no server to start.
    fn start(models: &[(&str, String)], flags: &[String]) -> Option<Self> {
        let library = std::env::current_exe().ok()?.parent()?.parent()?.join("libtriton_bench.so");
        let directory = std::env::var_os("TRITON_SERVER_DIRECTORY").map(PathBuf::from);
        let (Some(directory), true) = (directory, library.is_file()) else {
            eprintln!("not run: set TRITON_SERVER_DIRECTORY and build the workspace ({})", library.display());
            return None;
        };
        let repository = tempfile::tempdir().unwrap();
        for (name, config) in models {
            write_model(&repository.path().join(name), config, &library);
        }
        let [port, http] = ports::free_ports();
        let process = Command::new(directory.join("bin/tritonserver"))
            .arg(format!("--model-repository={}", repository.path().display()))
            .arg(format!("--backend-directory={}", directory.join("backends").display()))
            .args([format!("--grpc-port={port}"), format!("--http-port={http}")])
            .args(["--allow-metrics=false", "--log-info=false", "--log-warning=false", "--exit-timeout-secs=1"])
            .args(flags)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        Some(Self { process, port, _repository: repository })
    }

    fn connection(&self, streaming: bool, compression: Compression) -> Connection {
        Connection {
            protocol: Protocol::Grpc { streaming, compression },
            url: format!("localhost:{}", self.port),
            headers: vec![("X-Test".to_owned(), "1".to_owned())],
            tls: Tls::default(),
            server_wait: LIMIT,
            reconnect: false,
            client_timeout: None,
        }
    }

    fn connect(&self, streaming: bool, compression: Compression) -> GrpcBackend {
        GrpcBackend::connect(&self.connection(streaming, compression), None).unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn write_model(folder: &Path, config: &str, library: &Path) {
    std::fs::create_dir_all(folder.join("1")).unwrap();
    std::fs::write(folder.join("config.pbtxt"), config).unwrap();
    std::os::unix::fs::symlink(library, folder.join("1/libtriton_bench.so")).unwrap();
}

/// Requests to the identity model, whose tensors are larger than any initial window.
fn large(slots: usize, requests: i64) -> RunSpec {
    let values = (0..40_000).map(|value| value as f32).collect();
    RunSpec { slots, requests, values, ..RunSpec::default() }
}

fn model(name: &'static str, parts: &[&str]) -> (&'static str, String) {
    (name, parts.join("\n"))
}

#[test]
fn answers_are_the_inputs_in_every_form() {
    let Some(server) = Server::start(&[model("identity", &[IDENTITY])], &[]) else { return };
    let expected: Vec<u8> = large(1, 1).values.iter().flat_map(|value| value.to_le_bytes()).collect();
    let mut requests = 0;
    for streaming in [false, true] {
        for compression in [Compression::None, Compression::Gzip, Compression::Deflate] {
            for (inputs, outputs) in
                [(Placement::Pageable, Placement::Pageable), (Placement::System, Placement::System)]
            {
                let backend = server.connect(streaming, compression);
                let spec = RunSpec { watch: true, inputs, outputs, ..large(4, 20) };
                let mut run = Run::open(&backend, "identity", &spec).unwrap();
                let counter = run.finish(LIMIT);
                assert_eq!((counter.succeeded(), counter.texts().as_str()), (20, ""));
                for seen in &*counter.outputs.lock().unwrap() {
                    assert_eq!((seen[0].name.as_str(), seen[0].shape.as_slice()), ("OUTPUT0", &[1, 40_000][..]));
                    assert!(seen[0].bytes == expected, "{streaming} {compression:?} {inputs:?}");
                }
                requests += 20;
            }
        }
    }
    let backend = server.connect(false, Compression::None);
    assert!(backend.capabilities().statistics);
    let statistics = backend.statistics(&ModelId::latest("identity")).unwrap();
    let counted = &statistics.models[&("identity".to_owned(), "1".to_owned())];
    assert_eq!((counted.inferences, counted.success.count), (requests, requests));
    assert!(counted.success.ns > 0 && counted.queue.count == requests);
}

#[test]
fn failures_and_decoupled_answers_are_told_as_they_are() {
    let Some(server) = Server::start(&[model("failing", &[IDENTITY, FAILING]), model("decoupled", &[DECOUPLED])], &[])
    else {
        return;
    };
    for (streaming, code) in [(false, "Internal"), (true, "Inference failed")] {
        let backend = server.connect(streaming, Compression::None);
        let mut run = Run::open(&backend, "failing", &large(3, 50)).unwrap();
        let counter = run.finish(LIMIT);
        assert_eq!((counter.succeeded(), counter.failed()), (40, 10));
        assert_eq!(counter.codes().into_keys().collect::<Vec<_>>(), [code]);
        assert!(counter.texts().contains("failed as configured"));
    }
    let backend = server.connect(true, Compression::None);
    assert!(backend.model(&ModelId::latest("decoupled")).unwrap().decoupled);
    let spec = RunSpec { slots: 3, requests: 10, watch: true, ..RunSpec::default() };
    let mut run = Run::open(&backend, "decoupled", &spec).unwrap();
    let counter = run.finish(LIMIT);
    assert_eq!((counter.succeeded(), counter.texts().as_str()), (10, ""));
    let outputs = counter.outputs.lock().unwrap();
    assert_eq!(outputs.iter().filter(|seen| !seen.is_empty()).count(), 30);
    assert_eq!(outputs.iter().filter(|seen| seen.is_empty()).count(), 10);
    drop(outputs);
    let mut run = Run::open(&server.connect(false, Compression::None), "decoupled", &spec).unwrap();
    assert_eq!(run.finish(LIMIT).codes().into_keys().collect::<Vec<_>>(), ["Unsupported"]);
    let connection =
        Connection { server_wait: Duration::from_millis(10), ..server.connection(false, Compression::None) };
    let impatient = GrpcBackend::connect(&connection, None).unwrap();
    let error = impatient.model(&ModelId::latest("nobody")).unwrap_err().to_string();
    assert!(error.contains("nobody") && error.contains("unknown model"), "{error}");
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
    let by_text = SEQUENCE.replace("sequence_batching {", &format!("sequence_batching {{ {text} "));
    let models = [model("sequence", &[SEQUENCE]), ("by_text", by_text)];
    let Some(server) = Server::start(&models, &[]) else { return };
    for (streaming, name, correlation) in [
        (false, "sequence", CorrelationForm::Number),
        (true, "sequence", CorrelationForm::Number),
        (false, "by_text", CorrelationForm::Text),
    ] {
        let backend = server.connect(streaming, Compression::None);
        let model = backend.model(&ModelId::latest(name)).unwrap();
        assert_eq!(model.scheduler, Scheduler::Sequence);
        let input = InputTensor {
            name: "INPUT0".into(),
            datatype: DataType::Int32,
            shape: vec![1, 1],
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
        let options = RequestOptions { correlation, parameters, priority: 1, timeout_us: 5_000_000 };
        let spec = ClientSpec {
            models: [model].into(),
            payloads: [payload].into(),
            outputs: OutputPlan { placements: Placement::Pageable.into(), variable_bytes: 64 },
            slots: 1,
            load_slots: 1,
            options: Arc::new(options),
            watch_responses: true,
            cancels: false,
            drain_limit: Duration::from_secs(1),
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
fn a_server_that_is_killed_ends_every_request_at_once() {
    let Some(mut server) = Server::start(&[model("slow", &[IDENTITY, SLOW])], &[]) else { return };
    for streaming in [true, false] {
        let backend = server.connect(streaming, Compression::None);
        let trace = TraceSettings { levels: Some(Vec::new()), rate: Some(500), count: None, log_frequency: None };
        backend.set_trace(&ModelId::latest("slow"), &trace).unwrap();
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
        server.process.kill().unwrap();
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
    let Some(server) = Server::start(&[model("identity", &[IDENTITY])], &flags) else { return };
    for streaming in [false, true] {
        let tls = Tls { enabled: true, ca_certificates: Some(path("cert.pem")), ..Tls::default() };
        let connection = Connection { tls, ..server.connection(streaming, Compression::None) };
        let backend = GrpcBackend::connect(&connection, None).unwrap();
        let mut run = Run::open(&backend, "identity", &RunSpec { watch: true, ..large(4, 40) }).unwrap();
        let counter = run.finish(LIMIT);
        assert_eq!((counter.succeeded(), counter.texts().as_str()), (40, ""));
        assert!(counter.outputs.lock().unwrap().iter().all(|seen| seen[0].bytes.len() == 160_000));
    }
    let tls = Tls { enabled: true, ..Tls::default() };
    let stranger = Connection { tls, server_wait: Duration::ZERO, ..server.connection(false, Compression::None) };
    let error = GrpcBackend::connect(&stranger, None).err().unwrap().to_string();
    assert!(error.contains("TLS error") || error.contains("trusted certificates"), "{error}");
}
