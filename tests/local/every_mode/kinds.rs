//! A scripted server of each kind, which records its requests and answers after a chosen time.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::grpc_faults::peer::{field, output};
use crate::support::Program;
use crate::support::http_server::{Act, HttpServer, Received, reply};
use crate::tfserving::messages::{bytes, find, response, tensor};
use crate::tfserving::server::{Call, Reply, Server};
use crate::{dynamic_grpc, openai, other_servers, tfserving};

/// Kinds of service, with each of their protocols.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    KserveHttp,
    KserveGrpc,
    KserveStreams,
    TfServingGrpc,
    TfServingRest,
    TorchServe,
    DynamicGrpc,
    OpenAi,
    OpenAiStreams,
}

use Kind::*;

/// All of them.
pub const KINDS: &[Kind] = &[
    KserveHttp,
    KserveGrpc,
    KserveStreams,
    TfServingGrpc,
    TfServingRest,
    TorchServe,
    DynamicGrpc,
    OpenAi,
    OpenAiStreams,
];

impl Kind {
    /// Whether requests travel over gRPC.
    pub fn is_grpc(self) -> bool {
        matches!(self, KserveGrpc | KserveStreams | TfServingGrpc | DynamicGrpc)
    }

    /// Its word in the result file.
    pub fn name(self) -> &'static str {
        match self {
            KserveHttp | KserveGrpc | KserveStreams => "TRITON",
            TfServingGrpc | TfServingRest => "TENSORFLOW_SERVING",
            TorchServe => "TORCHSERVE",
            DynamicGrpc => "DYNAMIC_GRPC",
            OpenAi | OpenAiStreams => "OPENAI",
        }
    }

    /// The flags that choose it.
    fn flags(self) -> &'static str {
        match self {
            KserveHttp => "-b 1",
            KserveGrpc => "-b 1 -i grpc",
            KserveStreams => "-b 1 -i grpc --streaming",
            TfServingGrpc => "--service-kind tfserving -b 1",
            TfServingRest => "--service-kind tfserving -b 1 -i http",
            TorchServe => "--service-kind torchserve",
            DynamicGrpc => "--service-kind dynamic_grpc --grpc-method demo.Echo/Say",
            OpenAi => "--service-kind openai --endpoint v1/chat/completions",
            OpenAiStreams => "--service-kind openai --endpoint v1/chat/completions --streaming",
        }
    }
}

/// A request as the server saw it.
#[derive(Clone)]
pub struct ServedRequest {
    /// When it came.
    pub came: Instant,
    /// When its answer left, or was to leave.
    pub left: Instant,
    /// Its path, header fields and body, as text.
    pub text: String,
}

/// How long an answer takes, given how many requests the server has, this one among them.
pub type Pace = fn(usize) -> Duration;

/// No time.
pub const NONE: Pace = |_| Duration::ZERO;

/// A server's record of its requests, and its answer times.
#[derive(Clone)]
struct Book(Arc<Mutex<Vec<ServedRequest>>>, Pace);

impl Book {
    /// Records a request, and returns how long its answer should take.
    fn note(&self, text: String) -> Duration {
        let mut served = self.0.lock().unwrap();
        let came = Instant::now();
        let beside = served.iter().rev().take(1000).filter(|other| other.left > came).count();
        let pause = (self.1)(beside + 1);
        served.push(ServedRequest { came, left: came + pause, text });
        pause
    }
}

enum Running {
    Http(HttpServer),
    Grpc(Server),
}

/// A server of a kind, with the data that its requests are made of.
pub struct Service {
    pub kind: Kind,
    running: Running,
    served: Arc<Mutex<Vec<ServedRequest>>>,
    folder: tempfile::TempDir,
}

impl Service {
    pub fn start(kind: Kind, pace: Pace) -> Self {
        let served = Arc::default();
        let book = Book(Arc::clone(&served), pace);
        let running = if kind.is_grpc() { Running::Grpc(grpc(kind, book)) } else { Running::Http(http(kind, book)) };
        let service = Self { kind, running, served, folder: tempfile::tempdir().unwrap() };
        std::fs::write(service.file("picture"), "a picture").unwrap();
        service.write_data(&[0; 4]);
        service
    }

    /// Where it is: `host:port`.
    pub fn url(&self) -> String {
        match &self.running {
            Running::Http(server) => server.url(),
            Running::Grpc(server) => server.url().to_owned(),
        }
    }

    /// A file of its folder.
    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes input data of so many steps, each with its time in milliseconds.
    pub fn write_data(&self, times: &[u64]) {
        let steps = times.iter().map(|time| {
            let mut step = self.step();
            if times.iter().any(|time| *time > 0) {
                step["timestamp"] = json!([time]);
            }
            step
        });
        let steps: Vec<Value> = steps.collect();
        std::fs::write(self.file("data.json"), json!({ "data": steps }).to_string()).unwrap();
    }

    /// Writes so many conversations of so many turns.
    pub fn write_sessions(&self, sessions: usize, turns: usize) {
        let steps: Vec<Value> = (0..sessions * turns)
            .map(|number| {
                let mut step = self.step();
                step["session_id"] = json!([format!("session {}", number / turns)]);
                step
            })
            .collect();
        std::fs::write(self.file("data.json"), json!({ "data": steps }).to_string()).unwrap();
    }

    fn step(&self) -> Value {
        match self.kind {
            KserveHttp => json!({"IN": [1.0, 2.0, 3.0, 4.0]}),
            KserveGrpc | KserveStreams => json!({"I": [1, 2, 3, 4]}),
            TfServingGrpc | TfServingRest => json!({"x": [1.0, 2.0]}),
            TorchServe => json!({"TORCHSERVE_INPUT": [self.file("picture")]}),
            DynamicGrpc => json!({"message_generator": dynamic_grpc::generator(&[b"hi"])}),
            OpenAi | OpenAiStreams => json!({"payload": [serde_json::from_str::<Value>(openai::CHAT).unwrap()]}),
        }
    }

    /// The program on model `m` of it.
    pub fn program(&self, flags: &str) -> Program {
        self.program_at(&self.url(), &format!("-m m {flags}"))
    }

    /// The program at another address, on whatever model the flags name.
    pub fn program_at(&self, url: &str, flags: &str) -> Program {
        let program = Program::new().args("--on-disturbance mark --server-wait 30 -u").arg(url).args(self.kind.flags());
        program.arg("--input-data").arg(self.file("data.json")).args(flags)
    }

    /// The requests that it had.
    pub fn served(&self) -> Vec<ServedRequest> {
        self.served.lock().unwrap().clone()
    }

    /// How many these are.
    pub fn count(&self) -> usize {
        self.served.lock().unwrap().len()
    }
}

fn http(kind: Kind, book: Book) -> HttpServer {
    let server = HttpServer::start(move |request: &Received| {
        let text = format!("{}{}", request.head, String::from_utf8_lossy(&request.body));
        thread::sleep(book.note(text));
        match kind {
            KserveHttp => kserve(request),
            TfServingRest => tfserving::rest::good(request),
            TorchServe => vec![Act::Send(reply("200 OK", "", b"tabby"))],
            OpenAiStreams => {
                let events = [openai::content("a"), openai::content("b"), openai::DONE.to_owned()];
                vec![Act::Send(openai::stream(&events))]
            }
            _ => openai::answer(request),
        }
    });
    match kind {
        KserveHttp => other_servers::http::lack(&server),
        TfServingRest => tfserving::rest::usual(&server),
        _ => {}
    }
    server
}

/// What a KServe server answers: the input of a request, from the model that it names.
fn kserve(request: &Received) -> Vec<Act> {
    let model = if request.head.contains("/other/") { "other" } else { "m" };
    let output = json!({"name": "OUT", "shape": [1, 4], "datatype": "FP32", "data": [1, 2, 3, 4]});
    let body = json!({"model_name": model, "outputs": [output]}).to_string();
    vec![Act::Send(reply("200 OK", "Content-Type: application/json\r\n", body.as_bytes()))]
}

fn grpc(kind: Kind, book: Book) -> Server {
    let answer = match kind {
        TfServingGrpc => response(&[("y", tensor(1, &[1, 2], &bytes(5, &[0; 8])))]),
        DynamicGrpc => b"fine".to_vec(),
        _ => output("O", "UINT8", &[1, 4], &[1, 2, 3, 4]),
    };
    let predict = move |call: &Call| {
        let text = format!("{} {:?} {}", call.path, call.headers, String::from_utf8_lossy(&call.message));
        let pause = book.note(text);
        let named = match kind {
            KserveGrpc | KserveStreams => field(1, &find(&call.message, 1).unwrap()),
            _ => Vec::new(),
        };
        Reply::Late(pause, [named, answer.clone()].concat())
    };
    Server::answering(move |call| (kind != TfServingGrpc).then(|| foreign(&call.path)), predict)
}

/// What a KServe server without extensions says of itself.
fn foreign(path: &str) -> Reply {
    let tensor = other_servers::grpc::tensor;
    let ends = |end: &str| path.ends_with(end);
    match () {
        () if ends("ServerMetadata") => Reply::Message(field(1, b"mlserver")),
        () if ends("ModelMetadata") => {
            Reply::Message([field(1, b"m"), field(4, &tensor("I")), field(5, &tensor("O"))].concat())
        }
        () if ends("Ready") || ends("Live") => Reply::Message(vec![8, 1]),
        () => Reply::Status(12, "no".to_owned()),
    }
}
