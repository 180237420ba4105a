//! HTTP against a real Triton.

use std::time::{Duration, Instant};

use triton_bench::backend::{Backend, Parameter, ParameterValue, RequestOptions};
use triton_bench::backends::kserve::trace_settings::{TraceControl, values};
use triton_bench::backends::kserve_http::HttpBackend;
use triton_bench::model::{CorrelationForm, ModelId};
use triton_bench::plan::{Compression, ConnectionPlan, Protocol, TensorFormat, Tls, TraceLevel, TraceSettings};
use triton_bench::shm::Placement;

use crate::support::load::{Run, RunSpec};
use crate::support::{Model, Repository, TritonServer};

const LIMIT: Duration = Duration::from_secs(20);

/// Echoes any number of values.
fn echo(name: &str) -> Model {
    Model::identity(name).tensors(
        "input [{ name: \"INPUT0\" data_type: TYPE_FP32 dims: [-1] }]\n\
         output [{ name: \"OUTPUT0\" data_type: TYPE_FP32 dims: [-1] }]",
    )
}

fn connection(server: &TritonServer) -> ConnectionPlan {
    ConnectionPlan {
        protocol: Protocol::Http {
            inputs: TensorFormat::Served,
            outputs: TensorFormat::Served,
            compression: Compression::None,
        },
        url: server.url("http"),
        headers: Vec::new(),
        tls: Tls::default(),
        server_wait: Duration::from_secs(60),
        reconnect: false,
        renew: false,
        metrics_url: Some(format!("http://{}/metrics", server.metrics())),
        client_timeout: None,
    }
}

fn connect(server: &TritonServer) -> HttpBackend {
    HttpBackend::connect(&connection(server)).unwrap()
}

fn bytes_of(spec: &RunSpec) -> Vec<u8> {
    spec.values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// Every output must be the input.
fn echoes(backend: &HttpBackend, model: &str, spec: &RunSpec) {
    let mut run = Run::open(backend, model, &RunSpec { watch: true, ..spec.clone() }).unwrap();
    let counter = run.finish(LIMIT);
    assert_eq!(counter.succeeded() as i64, spec.requests, "{}", counter.texts());
    let (expected, outputs) = (bytes_of(spec), counter.outputs.lock().unwrap());
    assert_eq!(outputs.len() as i64, spec.requests);
    for output in outputs.iter() {
        assert_eq!(output.len(), 1);
        assert_eq!((output[0].name.as_str(), &output[0].shape[..]), ("OUTPUT0", &[1, spec.values.len() as i64][..]));
        assert!(output[0].bytes == expected, "an output differs from its input");
    }
}

#[test]
fn inputs_come_back_in_every_form() {
    let repository = Repository::of(&[echo("identity")]);
    let Some(server) = TritonServer::start(&repository) else { return };
    let values: Vec<f32> = (0..5000).map(|value| value as f32 / 7.0).collect();
    for compression in [Compression::None, Compression::Gzip, Compression::Deflate] {
        let (binary, json) = (TensorFormat::Binary, TensorFormat::Json);
        for (inputs, outputs) in [(binary, binary), (json, binary), (binary, json), (json, json)] {
            let protocol = Protocol::Http { inputs, outputs, compression };
            let backend = HttpBackend::connect(&ConnectionPlan { protocol, ..connection(&server) }).unwrap();
            for (slots, count) in [(1, 16), (4, 16), (1, 5000), (4, 5000)] {
                let spec = RunSpec { slots, requests: 20, values: values[..count].to_vec(), ..RunSpec::default() };
                echoes(&backend, "identity", &spec);
            }
        }
    }
    // JSON has no words for these; Triton writes some all the same.
    let protocol =
        Protocol::Http { inputs: TensorFormat::Served, outputs: TensorFormat::Json, compression: Compression::None };
    let backend = HttpBackend::connect(&ConnectionPlan { protocol, ..connection(&server) }).unwrap();
    let values = vec![f32::NAN, f32::INFINITY, 1.0, f32::NEG_INFINITY];
    echoes(&backend, "identity", &RunSpec { values, ..RunSpec::default() });
    let large = RunSpec { slots: 2, requests: 6, values: vec![1.5; 1 << 20], ..RunSpec::default() };
    echoes(&connect(&server), "identity", &large);
}

#[test]
fn sequences_parameters_and_counters_arrive() {
    let sequence = echo("sequence").with("sequence_batching { max_sequence_idle_microseconds: 5000000 }");
    let repository = Repository::of(&[echo("identity"), sequence]);
    let Some(server) = TritonServer::start(&repository) else { return };
    let backend = connect(&server);
    for correlation in [CorrelationForm::Number, CorrelationForm::Text] {
        let parameters = vec![Parameter { name: "color".to_owned(), value: ParameterValue::Text("blue".to_owned()) }];
        let options = RequestOptions { correlation: Some(correlation), parameters, timeout_us: 0, priority: 0 };
        echoes(&backend, "sequence", &RunSpec { requests: 30, sequences: true, options, ..RunSpec::default() });
    }
    let model = ModelId::latest("identity");
    let before = backend.statistics(&model).unwrap();
    echoes(&backend, "identity", &RunSpec { slots: 4, requests: 100, ..RunSpec::default() });
    let delta = backend.statistics(&model).unwrap().since(&before);
    let counted = &delta.models[&("identity".to_owned(), "1".to_owned())];
    assert_eq!((counted.inferences, counted.success.count), (100, 100));
    let mut is_found = false;
    let wanted = "nv_inference_request_success{model=\"identity\",version=\"1\"}";
    backend.metrics(0, &mut |line| is_found |= line.starts_with(wanted)).unwrap();
    assert!(is_found);
}

#[test]
fn failures_and_unknown_models_carry_the_servers_words() {
    let repository = Repository::of(&[echo("failing").parameter("fail_every", "5")]);
    let Some(server) = TritonServer::start(&repository) else { return };
    let backend = connect(&server);
    let mut run = Run::open(&backend, "failing", &RunSpec { slots: 4, requests: 100, ..RunSpec::default() }).unwrap();
    let counter = run.finish(LIMIT);
    assert_eq!((counter.succeeded(), counter.codes().get("HTTP 500")), (80, Some(&20)), "{}", counter.texts());
    assert!(counter.texts().contains("request 5"), "{}", counter.texts());
    // A server that loads nothing any more is not waited for.
    let patient = ConnectionPlan { server_wait: Duration::from_secs(60), ..connection(&server) };
    let asked = Instant::now();
    let error = HttpBackend::connect(&patient).unwrap().model(&ModelId::latest("nothing")).unwrap_err();
    let error = error.to_string();
    assert!(error.contains("there is no model 'nothing'") && error.contains("unknown model: 'nothing'"), "{error}");
    assert!(error.contains("(the server has failing)"), "{error}");
    assert!(asked.elapsed() < Duration::from_secs(20), "{:?}", asked.elapsed());
}

fn get(server: &TritonServer, path: &str) -> String {
    let answer = server.get(path).expect("the server answers");
    answer.split_once("\r\n\r\n").unwrap().1.to_owned()
}

#[test]
fn shared_memory_is_used_and_given_back() {
    let repository = Repository::of(&[echo("identity")]);
    let Some(server) = TritonServer::start(&repository) else { return };
    let backend = connect(&server);
    let status = "/v2/systemsharedmemory/status";
    for (inputs, outputs) in [
        (Placement::System, Placement::Pageable),
        (Placement::Pageable, Placement::System),
        (Placement::System, Placement::System),
    ] {
        for slots in [1, 5] {
            let spec = RunSpec { slots, requests: 50, inputs, outputs, ..RunSpec::default() };
            let mut run = Run::open(&backend, "identity", &spec).unwrap();
            assert_ne!(get(&server, status), "[]");
            assert_eq!(run.finish(LIMIT).succeeded(), 50);
            drop(run);
            echoes(&backend, "identity", &spec);
        }
    }
    drop(backend);
    // A region that the server has not let go of yet is listed until it has.
    let end = Instant::now() + Duration::from_secs(5);
    while get(&server, status) != "[]" {
        assert!(Instant::now() < end, "left behind: {}", get(&server, status));
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn traces_are_refused_with_a_reason_or_set() {
    let repository = Repository::of(&[echo("identity")]);
    let Some(server) = TritonServer::start(&repository) else { return };
    let backend = connect(&server);
    let rate = TraceSettings { levels: None, rate: Some(17), count: Some(-1), log_frequency: Some(3) };
    backend.put_traces("identity", &values(&rate)).unwrap();
    let settings: serde_json::Value = serde_json::from_str(&get(&server, "/v2/models/identity/trace/setting")).unwrap();
    assert_eq!((&settings["trace_rate"], &settings["log_frequency"]), (&"17".into(), &"3".into()), "{settings}");
    let level =
        TraceSettings { levels: Some(vec![TraceLevel::Timestamps]), rate: None, count: None, log_frequency: None };
    let error = backend.put_traces("identity", &values(&level)).unwrap_err().to_string();
    assert!(error.contains("trace settings of model 'identity'") && error.contains("HTTP 400"), "{error}");
}

#[test]
fn timed_a_server_killed_under_load_leaves_a_report() {
    let repository = Repository::of(&[echo("identity")]);
    for slots in [1, 8] {
        let Some(mut server) = TritonServer::start(&repository) else { return };
        let backend = connect(&server);
        let spec = RunSpec { slots, requests: i64::MAX, ..RunSpec::default() };
        let mut run = Run::open(&backend, "identity", &spec).unwrap();
        run.begin();
        run.drive(Duration::from_millis(300));
        server.kill();
        let killed = Instant::now();
        run.drive(Duration::from_millis(300));
        run.stop();
        assert!(run.drive(LIMIT));
        assert!(backend.statistics(&ModelId::latest("identity")).is_err());
        assert!(killed.elapsed() < Duration::from_secs(2));
        assert!(run.counter.succeeded() > 0);
        assert!(run.counter.codes().contains_key("Connection refused"), "{}", run.counter.texts());
    }
}
