//! A TensorFlow Serving gRPC server on the `h2` crate: it describes its models itself, and answers predictions (inferences of
//! KServe and calls of the tests' own service, too) with whatever a test supplies.

use std::future::poll_fn;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use h2::server::SendResponse;
use h2::{RecvStream, SendStream};
use http::{HeaderMap, HeaderValue, Request, Response};
use tokio::net::{TcpListener, TcpStream};

use super::messages::{available, metadata};

/// A call as it came.
#[derive(Clone, Debug)]
pub struct Call {
    /// Which prediction, counted from 0.
    pub ordinal: usize,
    /// The method's path.
    pub path: String,
    /// Header fields.
    pub headers: HeaderMap,
    /// The message, without its prefix.
    pub message: Vec<u8>,
}

/// What a call is answered with.
#[derive(Clone, Debug)]
pub enum Reply {
    /// A message, and success.
    Message(Vec<u8>),
    /// A status and its text.
    Status(u32, String),
    /// A message after a pause.
    Late(Duration, Vec<u8>),
}

type Script = dyn Fn(&Call) -> Reply + Send + Sync;
type Other = dyn Fn(&Call) -> Option<Reply> + Send + Sync;

struct Shared {
    predict: Box<Script>,
    /// Answers to questions; where it has none, the server's own.
    questions: Box<Other>,
    predictions: AtomicUsize,
    others: Mutex<Vec<Call>>,
}

/// A running server; it runs until the test's process ends.
pub struct Server {
    address: String,
    shared: Arc<Shared>,
}

impl Server {
    /// Answers predictions by `predict`, and knows a model with one input `x` and one output `y`, FP32 [-1,2].
    pub fn start(predict: impl Fn(&Call) -> Reply + Send + Sync + 'static) -> Self {
        Self::answering(|_| None, predict)
    }

    /// The same, with other answers to questions.
    pub fn answering(
        questions: impl Fn(&Call) -> Option<Reply> + Send + Sync + 'static,
        predict: impl Fn(&Call) -> Reply + Send + Sync + 'static,
    ) -> Self {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let shared = Arc::new(Shared {
            predict: Box::new(predict),
            questions: Box::new(questions),
            predictions: AtomicUsize::new(0),
            others: Mutex::default(),
        });
        let served = Arc::clone(&shared);
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            let local = tokio::task::LocalSet::new();
            local.block_on(&runtime, async move {
                let listener = TcpListener::from_std(listener).unwrap();
                loop {
                    let (socket, _) = listener.accept().await.unwrap();
                    socket.set_nodelay(true).unwrap();
                    tokio::task::spawn_local(converse(socket, Arc::clone(&served)));
                }
            });
        });
        Self { address, shared }
    }

    /// `host:port`.
    pub fn url(&self) -> &str {
        &self.address
    }

    /// Predictions received so far.
    pub fn predictions(&self) -> usize {
        self.shared.predictions.load(Ordering::SeqCst)
    }

    /// Calls that were no predictions.
    pub fn others(&self) -> Vec<Call> {
        self.shared.others.lock().unwrap().clone()
    }
}

async fn converse(socket: TcpStream, shared: Arc<Shared>) {
    let Ok(mut connection) = h2::server::handshake(socket).await else { return };
    while let Some(Ok((request, answering))) = connection.accept().await {
        tokio::task::spawn_local(answer(request, answering, Arc::clone(&shared)));
    }
}

async fn answer(request: Request<RecvStream>, answering: SendResponse<Bytes>, shared: Arc<Shared>) {
    let (head, body) = request.into_parts();
    let message = whole(body).await;
    let length = u32::from_be_bytes(message[1..5].try_into().unwrap()) as usize;
    assert_eq!(message.len(), 5 + length, "a request is one message");
    let path = head.uri.path().to_owned();
    let mut call = Call { ordinal: 0, path, headers: head.headers, message: message[5..].to_vec() };
    let reply = if is_prediction(&call.path) {
        call.ordinal = shared.predictions.fetch_add(1, Ordering::SeqCst);
        (shared.predict)(&call)
    } else {
        shared.others.lock().unwrap().push(call.clone());
        (shared.questions)(&call).unwrap_or_else(|| usual(&call.path))
    };
    match reply {
        Reply::Message(message) => finish(answering, Some(&message), 0, "").await,
        Reply::Status(status, text) => finish(answering, None, status, &text).await,
        Reply::Late(pause, message) => {
            tokio::time::sleep(pause).await;
            finish(answering, Some(&message), 0, "").await;
        }
    }
}

/// Whether a call is what is measured.
fn is_prediction(path: &str) -> bool {
    ["Service/Predict", "Service/ModelInfer", "Service/ModelStreamInfer", "Echo/Say"]
        .iter()
        .any(|end| path.ends_with(end))
}

fn usual(path: &str) -> Reply {
    match path {
        "/tensorflow.serving.ModelService/GetModelStatus" => Reply::Message(available()),
        "/tensorflow.serving.PredictionService/GetModelMetadata" => {
            Reply::Message(metadata("serving_default", &[("x", 1, Some(&[-1, 2]))], &[("y", 1, Some(&[-1, 2]))]))
        }
        _ => Reply::Status(12, "no such method".to_owned()),
    }
}

async fn whole(mut body: RecvStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    while let Some(Ok(chunk)) = body.data().await {
        bytes.extend_from_slice(&chunk);
        let _ = body.flow_control().release_capacity(chunk.len());
    }
    bytes
}

async fn finish(mut answering: SendResponse<Bytes>, message: Option<&[u8]>, status: u32, text: &str) {
    let head = Response::builder().status(200).header("content-type", "application/grpc").body(()).unwrap();
    let Ok(mut stream) = answering.send_response(head, false) else { return };
    if let Some(message) = message {
        let prefixed = [&[0], &(message.len() as u32).to_be_bytes()[..], message].concat();
        send(&mut stream, prefixed.into()).await;
    }
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", HeaderValue::from(status));
    if !text.is_empty() {
        trailers.insert("grpc-message", HeaderValue::from_str(text).unwrap());
    }
    let _ = stream.send_trailers(trailers);
}

async fn send(stream: &mut SendStream<Bytes>, mut bytes: Bytes) {
    while !bytes.is_empty() {
        stream.reserve_capacity(bytes.len());
        let Some(Ok(capacity)) = poll_fn(|context| stream.poll_capacity(context)).await else { return };
        if stream.send_data(bytes.split_to(capacity.min(bytes.len())), false).is_err() {
            return;
        }
    }
}
