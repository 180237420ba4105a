//! The servers of `scripts/compare-upstream services`. They answer as fast as they can and compute nothing, so that the
//! client is what gets measured. TorchServe, OpenAI chat completions and KServe over HTTP/1.1 (one thread per
//! connection), TensorFlow Serving and KServe over gRPC (the `h2` crate on one thread). Prints both ports and runs
//! until it is killed. `GET /count` returns the number of inferences served.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use bytes::Bytes;
use h2::RecvStream;
use h2::server::SendResponse;
use http::{HeaderMap, HeaderValue, Request, Response};

/// Elements of the model's only input `x` and output `y`, FP32.
const ELEMENTS: u8 = 16;
static INFERENCES: AtomicU64 = AtomicU64::new(0);

fn main() -> std::io::Result<()> {
    let (http, grpc) = (TcpListener::bind("127.0.0.1:0")?, TcpListener::bind("127.0.0.1:0")?);
    println!("{} {}", http.local_addr()?.port(), grpc.local_addr()?.port());
    thread::spawn(move || {
        for socket in http.incoming().map_while(Result::ok) {
            // A connection that breaks is the client's affair.
            thread::spawn(move || drop(answer_http(socket)));
        }
    });
    serve_grpc(grpc)
}

fn answer_http(mut socket: TcpStream) -> std::io::Result<()> {
    socket.set_nodelay(true)?;
    let tensor = br#"{"model_name":"m","model_version":"1","outputs":[{"name":"y","datatype":"FP32","shape":[1,16],"parameters":{"binary_data_size":64}}]}"#;
    let field = format!("Inference-Header-Content-Length: {}\r\n", tensor.len());
    let inferred = reply(&field, &[&tensor[..], &[0; 64]].concat());
    let predicted = reply("", &[b'5'; 64]);
    let chat = br#"{"id":"1","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"five"},"finish_reason":"stop"}],"usage":{"prompt_tokens":9,"completion_tokens":1,"total_tokens":10}}"#;
    let completed = reply("Content-Type: application/json\r\n", chat);
    let (mut held, mut buffer) = (Vec::new(), vec![0; 1 << 16]);
    loop {
        let (head, length) = loop {
            if let Some(whole) = whole(&held) {
                break whole;
            }
            match socket.read(&mut buffer)? {
                0 => return Ok(()),
                count => held.extend_from_slice(&buffer[..count]),
            }
        };
        let line = &held[..head];
        if line.starts_with(b"POST ") {
            INFERENCES.fetch_add(1, Ordering::Relaxed);
            let path = &line[b"POST ".len()..];
            socket.write_all(match path {
                _ if path.starts_with(b"/predictions/") => &predicted,
                _ if path.starts_with(b"/v1/") => &completed,
                _ => &inferred,
            })?;
        } else {
            socket.write_all(&answer_to(&String::from_utf8_lossy(line)))?;
        }
        held.drain(..length);
    }
}

/// Where the head of a request that is there ends, and where the request does.
fn whole(held: &[u8]) -> Option<(usize, usize)> {
    let head = held.windows(4).position(|four| four == b"\r\n\r\n")? + 4;
    let text = std::str::from_utf8(&held[..head]).ok()?;
    let length = text.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok())?
    });
    let end = head + length.unwrap_or(0);
    (held.len() >= end).then_some((head, end))
}

fn reply(fields: &str, body: &[u8]) -> Vec<u8> {
    let head = format!("HTTP/1.1 200 OK\r\n{fields}Content-Length: {}\r\n\r\n", body.len());
    [head.as_bytes(), body].concat()
}

/// Answers to questions over HTTP.
fn answer_to(head: &str) -> Vec<u8> {
    let path = head.split(' ').nth(1).unwrap_or_default();
    let body = match path.rsplit('/').next().unwrap_or_default() {
        "count" => INFERENCES.load(Ordering::Relaxed).to_string(),
        "v2" => r#"{"name":"answers","version":"1","extensions":["binary_tensor_data"]}"#.to_owned(),
        "config" => r#"{"name":"m","max_batch_size":8,"input":[],"output":[]}"#.to_owned(),
        "m" => r#"{"name":"m","versions":["1"],"platform":"answers","inputs":[{"name":"x","datatype":"FP32","shape":[-1,16]}],"outputs":[{"name":"y","datatype":"FP32","shape":[-1,16]}]}"#.to_owned(),
        _ => String::new(),
    };
    reply("", body.as_bytes())
}

fn serve_grpc(listener: TcpListener) -> std::io::Result<()> {
    listener.set_nonblocking(true)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let local = tokio::task::LocalSet::new();
    local.block_on(&runtime, async move {
        let listener = tokio::net::TcpListener::from_std(listener)?;
        loop {
            let (socket, _) = listener.accept().await?;
            socket.set_nodelay(true)?;
            tokio::task::spawn_local(async move {
                let Ok(mut connection) = h2::server::handshake(socket).await else { return };
                while let Some(Ok((request, answering))) = connection.accept().await {
                    tokio::task::spawn_local(answer_grpc(request, answering));
                }
            });
        }
    })
}

async fn answer_grpc(request: Request<RecvStream>, mut answering: SendResponse<Bytes>) {
    let (head, mut body) = request.into_parts();
    while let Some(Ok(chunk)) = body.data().await {
        let _ = body.flow_control().release_capacity(chunk.len());
    }
    let message = message(head.uri.path().rsplit('/').next().unwrap_or_default());
    let response = Response::builder().status(200).header("content-type", "application/grpc").body(());
    let Some(Ok(mut stream)) = response.ok().map(|response| answering.send_response(response, false)) else { return };
    let status = if message.is_some() { "0" } else { "12" };
    if let Some(message) = message {
        let prefixed = [&[0], &(message.len() as u32).to_be_bytes()[..], &message].concat();
        let _ = stream.send_data(prefixed.into(), false);
    }
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", HeaderValue::from_static(status));
    let _ = stream.send_trailers(trailers);
}

/// The answer to a call of either protocol.
fn message(method: &str) -> Option<Vec<u8>> {
    let shape = [&[0xff; 9][..], &[1, ELEMENTS]].concat();
    let described = |name: &[u8]| [field(1, name), field(2, b"FP32"), field(3, &shape)].concat();
    let data = [0; 4 * ELEMENTS as usize];
    let dims = |first: &[u8]| [field(2, first), field(2, &[8, ELEMENTS])].concat();
    let open = [&[8][..], &[0xff; 9], &[1]].concat();
    Some(match method {
        "ServerReady" | "ModelReady" => vec![8, 1],
        "ServerMetadata" => field(1, b"answers"),
        "ModelMetadata" => {
            [field(1, b"m"), field(2, b"1"), field(4, &described(b"x")), field(5, &described(b"y"))].concat()
        }
        "ModelConfig" => field(1, &[field(1, b"m"), vec![4 << 3, 8]].concat()),
        "ModelInfer" => {
            INFERENCES.fetch_add(1, Ordering::Relaxed);
            let output = [field(1, b"y"), field(2, b"FP32"), field(3, &[1, ELEMENTS])].concat();
            [field(1, b"m"), field(5, &output), field(6, &data)].concat()
        }
        "GetModelMetadata" => {
            let info = |name: &[u8]| [field(1, name), vec![2 << 3, 1], field(3, &dims(&open))].concat();
            let tensor = |tag, name: &[u8]| field(tag, &[field(1, name), field(2, &info(name))].concat());
            let definition = [tensor(1, b"x"), tensor(2, b"y")].concat();
            let map = field(1, &[field(1, b"serving_default"), field(2, &definition)].concat());
            let any = [field(1, b"type.googleapis.com/tensorflow.serving.SignatureDefMap"), field(2, &map)].concat();
            field(2, &[field(1, b"signature_def"), field(2, &any)].concat())
        }
        "Predict" => {
            INFERENCES.fetch_add(1, Ordering::Relaxed);
            let tensor = [vec![1 << 3, 1], field(2, &dims(&[8, 1])), field(5, &data)].concat();
            field(1, &[field(1, b"y"), field(2, &tensor)].concat())
        }
        _ => return None,
    })
}

/// A field of bytes.
fn field(number: u8, content: &[u8]) -> Vec<u8> {
    let length = content.len();
    let length = if length < 128 { vec![length as u8] } else { vec![(length & 127 | 128) as u8, (length >> 7) as u8] };
    [&[number << 3 | 2][..], &length, content].concat()
}
