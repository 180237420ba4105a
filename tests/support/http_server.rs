//! A byte-level HTTP server: answers KServe's model queries properly, and inferences (completions, too) with whatever a
//! test supplies.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// One thing that the server does with a connection.
#[derive(Clone, Debug)]
pub enum Act {
    /// Sends bytes.
    Send(Vec<u8>),
    /// Sends bytes again and again until nobody takes them.
    Forever(Vec<u8>),
    /// Sends bytes one by one, with a pause after each.
    Trickle(Vec<u8>, Duration),
    /// Begins a TLS record of data and sends so many bytes of it, with a pause after each.
    TrickleRecord(Duration, usize),
    /// Waits.
    Wait(Duration),
    /// Closes its writing half only.
    HalfClose,
    /// Closes the connection.
    Close,
    /// Closes it with a reset.
    Reset,
}

/// A request as it came.
#[derive(Clone, Debug)]
pub struct Received {
    /// Which inference, counted from 0 over all connections.
    pub ordinal: usize,
    /// Everything up to and including the blank line.
    pub head: String,
    /// The body.
    pub body: Vec<u8>,
}

impl Received {
    /// Value of a header field.
    pub fn field(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            key.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }
}

type Script = dyn Fn(&Received) -> Vec<Act> + Send + Sync;

struct Shared {
    script: Box<Script>,
    stop: AtomicBool,
    connections: AtomicUsize,
    inferences: AtomicUsize,
    early: Mutex<Vec<Act>>,
    others: Mutex<Vec<Received>>,
    /// Last part of paths that are answered with this.
    instead: Mutex<Vec<(&'static str, Vec<Act>)>>,
    /// New connections are shaken hands with byte by byte, and never to the end.
    trickles: AtomicBool,
    trickling: AtomicUsize,
    /// What each handshake waits for.
    delay: Mutex<Duration>,
    /// Connections are closed that have been idle for so long.
    patience: Mutex<Option<Duration>>,
    /// Until then nothing is accepted and nothing answered.
    still: Mutex<Option<Instant>>,
    open: Mutex<Vec<TcpStream>>,
    tls: Option<Arc<rustls::ServerConfig>>,
}

impl Shared {
    fn wait_while_still(&self) {
        let still = *self.still.lock().unwrap();
        thread::sleep(still.map_or(Duration::ZERO, |until| until.saturating_duration_since(Instant::now())));
    }

    fn early_acts(&self, head: &str) -> Vec<Act> {
        if is_inference(head) { self.early.lock().unwrap().clone() } else { Vec::new() }
    }
}

/// A running server; stops when dropped.
pub struct HttpServer {
    address: SocketAddr,
    shared: Arc<Shared>,
    acceptor: Option<JoinHandle<()>>,
}

impl HttpServer {
    /// Starts a server whose inferences are answered by `script`.
    pub fn start(script: impl Fn(&Received) -> Vec<Act> + Send + Sync + 'static) -> Self {
        Self::start_with(TcpListener::bind("127.0.0.1:0").unwrap(), None, script)
    }

    /// Starts a server on a socket, under TLS if configured.
    pub fn start_with(
        listener: TcpListener,
        tls: Option<Arc<rustls::ServerConfig>>,
        script: impl Fn(&Received) -> Vec<Act> + Send + Sync + 'static,
    ) -> Self {
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared {
            script: Box::new(script),
            stop: AtomicBool::new(false),
            connections: AtomicUsize::new(0),
            inferences: AtomicUsize::new(0),
            early: Mutex::default(),
            others: Mutex::default(),
            instead: Mutex::default(),
            trickles: AtomicBool::new(false),
            trickling: AtomicUsize::new(0),
            delay: Mutex::default(),
            patience: Mutex::default(),
            still: Mutex::default(),
            open: Mutex::default(),
            tls,
        });
        let acceptor = thread::spawn({
            let shared = shared.clone();
            move || accept(&listener, &shared)
        });
        Self { address, shared, acceptor: Some(acceptor) }
    }

    /// `host:port`.
    pub fn url(&self) -> String {
        self.address.to_string()
    }

    /// Connections accepted so far.
    pub fn connections(&self) -> usize {
        self.shared.connections.load(Ordering::SeqCst)
    }

    /// Inferences received so far.
    pub fn inferences(&self) -> usize {
        self.shared.inferences.load(Ordering::SeqCst)
    }

    /// Does this from now on when an inference's head has come, before its body is read.
    pub fn answer_early(&self, acts: Vec<Act>) {
        *self.shared.early.lock().unwrap() = acts;
    }

    /// Answers requests whose path ends with `last` with these bytes from now on.
    pub fn answer_instead(&self, last: &'static str, bytes: Vec<u8>) {
        self.act_instead(last, vec![Act::Send(bytes)]);
    }

    /// Does this from now on where a request's path ends with `last`.
    pub fn act_instead(&self, last: &'static str, acts: Vec<Act>) {
        let mut instead = self.shared.instead.lock().unwrap();
        instead.retain(|(key, _)| *key != last);
        instead.push((last, acts));
    }

    /// Begins the TLS handshake of every further connection, and sends it byte by byte without end.
    pub fn trickle_handshakes(&self) {
        self.shared.trickles.store(true, Ordering::SeqCst);
    }

    /// Connections whose handshake trickles.
    pub fn trickling(&self) -> usize {
        self.shared.trickling.load(Ordering::SeqCst)
    }

    /// Lets every further connection wait before it is served.
    pub fn delay_connections(&self, delay: Duration) {
        *self.shared.delay.lock().unwrap() = delay;
    }

    /// Closes every further connection once it has been idle for so long.
    pub fn close_idle_after(&self, time: Duration) {
        *self.shared.patience.lock().unwrap() = Some(time);
    }

    /// Accepts and answers nothing for so long.
    pub fn stand_still(&self, time: Duration) {
        *self.shared.still.lock().unwrap() = Some(Instant::now() + time);
    }

    /// Requests that were no inferences.
    pub fn others(&self) -> Vec<Received> {
        self.shared.others.lock().unwrap().clone()
    }

    /// Stops listening and breaks every connection, as a killed process does.
    pub fn kill(&mut self) {
        self.shared.stop.store(true, Ordering::SeqCst);
        let _ = TcpStream::connect(self.address);
        if let Some(acceptor) = self.acceptor.take() {
            acceptor.join().unwrap();
        }
        for stream in self.shared.open.lock().unwrap().drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

impl Drop for HttpServer {
    fn drop(&mut self) {
        self.kill();
    }
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    for stream in listener.incoming() {
        if shared.stop.load(Ordering::SeqCst) {
            return;
        }
        let Ok(stream) = stream else { continue };
        shared.wait_while_still();
        shared.connections.fetch_add(1, Ordering::SeqCst);
        shared.open.lock().unwrap().push(stream.try_clone().unwrap());
        let shared = shared.clone();
        thread::spawn(move || serve(stream, &shared));
    }
}

/// The head of a TLS record that holds 16 KiB of a `kind`, and so many bytes of it, until nobody takes them.
fn trickle(mut stream: &TcpStream, kind: u8, pause: Duration, bytes: usize) {
    let record = [kind, 3, 3, 0x40, 0].into_iter().chain(std::iter::repeat(2));
    for byte in record.take(bytes) {
        if stream.write_all(&[byte]).is_err() {
            return;
        }
        thread::sleep(pause);
    }
}

fn serve(stream: TcpStream, shared: &Shared) {
    let _ = stream.set_nodelay(true);
    stream.set_read_timeout(*shared.patience.lock().unwrap()).unwrap();
    if shared.trickles.load(Ordering::SeqCst) {
        shared.trickling.fetch_add(1, Ordering::SeqCst);
        return trickle(&stream, 0x16, Duration::from_millis(50), usize::MAX);
    }
    let delay = *shared.delay.lock().unwrap();
    thread::sleep(delay);
    match &shared.tls {
        None => exchange(stream.try_clone().unwrap(), &stream, shared),
        Some(config) => {
            let session = rustls::ServerConnection::new(config.clone()).unwrap();
            let wrapped = rustls::StreamOwned::new(session, stream.try_clone().unwrap());
            exchange(wrapped, &stream, shared);
        }
    }
}

fn exchange(mut stream: impl Read + Write, socket: &TcpStream, shared: &Shared) {
    while let Some(mut request) = receive(&mut stream, |head| shared.early_acts(head)) {
        let acts = if is_inference(&request.head) {
            request.ordinal = shared.inferences.fetch_add(1, Ordering::SeqCst);
            shared.wait_while_still();
            (shared.script)(&request)
        } else {
            shared.others.lock().unwrap().push(request.clone());
            let instead = shared.instead.lock().unwrap().clone();
            let path = request.head.split(' ').nth(1).unwrap_or_default();
            let fitting = instead.into_iter().find(|(last, _)| path.ends_with(last)).map(|(_, acts)| acts);
            fitting.unwrap_or_else(|| vec![Act::Send(answer(&request))])
        };
        for act in acts {
            match act {
                Act::Send(bytes) => {
                    if stream.write_all(&bytes).and_then(|()| stream.flush()).is_err() {
                        return;
                    }
                }
                Act::Forever(bytes) => {
                    while stream.write_all(&bytes).and_then(|()| stream.flush()).is_ok() {}
                    return;
                }
                Act::Trickle(bytes, pause) => {
                    for byte in bytes {
                        if stream.write_all(&[byte]).and_then(|()| stream.flush()).is_err() {
                            return;
                        }
                        thread::sleep(pause);
                    }
                }
                Act::TrickleRecord(pause, bytes) => trickle(socket, 0x17, pause, bytes),
                Act::Wait(time) => thread::sleep(time),
                Act::HalfClose => drop(socket.shutdown(Shutdown::Write)),
                Act::Close => return drop(socket.shutdown(Shutdown::Both)),
                Act::Reset => {
                    rustix::net::sockopt::set_socket_linger(socket, Some(Duration::ZERO)).unwrap();
                    let mut open = shared.open.lock().unwrap();
                    open.retain(|other| other.peer_addr().ok() != socket.peer_addr().ok());
                    return;
                }
            }
        }
    }
    let _ = socket.shutdown(Shutdown::Both);
}

/// Whether a request is an inference: of KServe, OpenAI's kind, TorchServe or TensorFlow Serving.
fn is_inference(head: &str) -> bool {
    let parts = [
        "/infer HTTP",
        "/completion",
        "/messages",
        "/embeddings",
        "/responses",
        "/generate",
        "/rerank",
        "/predictions/",
        ":predict HTTP",
    ];
    let line = head.lines().next().unwrap_or_default();
    line.starts_with("POST ") && parts.iter().any(|part| line.contains(part))
}

fn receive(stream: &mut (impl Read + Write), early: impl Fn(&str) -> Vec<Act>) -> Option<Received> {
    let mut bytes = Vec::new();
    let mut buffer = [0; 64 * 1024];
    let head = loop {
        if let Some(at) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break at + 4;
        }
        match stream.read(&mut buffer) {
            // A TLS handshake is no HTTP.
            Ok(count) if count > 0 && buffer[0] != 0x16 => bytes.extend_from_slice(&buffer[..count]),
            _ => return None,
        }
    };
    let body = bytes.split_off(head);
    let mut request = Received { ordinal: 0, head: String::from_utf8(bytes).unwrap(), body };
    for act in early(&request.head) {
        match act {
            Act::Send(bytes) => stream.write_all(&bytes).ok()?,
            Act::Wait(time) => thread::sleep(time),
            _ => return None,
        }
    }
    let length: usize = request.field("content-length").map_or(0, |value| value.parse().unwrap());
    while request.body.len() < length {
        match stream.read(&mut buffer) {
            Ok(count) if count > 0 => request.body.extend_from_slice(&buffer[..count]),
            _ => return None,
        }
    }
    assert_eq!(request.body.len(), length, "bytes beyond the request");
    Some(request)
}

/// A plain reply.
pub fn reply(status: &str, fields: &str, body: &[u8]) -> Vec<u8> {
    let head = format!("HTTP/1.1 {status}\r\n{fields}Content-Length: {}\r\n\r\n", body.len());
    [head.as_bytes(), body].concat()
}

/// JSON and tensors of a proper answer: one output `OUTPUT0`, FP32 `[1,16]`, all zero.
pub fn answer_parts() -> (String, Vec<u8>) {
    let json = r#"{"model_name":"m","model_version":"1","outputs":[{"name":"OUTPUT0","datatype":"FP32","shape":[1,16],"parameters":{"binary_data_size":64}}]}"#;
    (json.to_owned(), vec![0; 64])
}

/// A proper answer.
pub fn good_answer() -> Vec<u8> {
    let (json, tensors) = answer_parts();
    let field =
        format!("Content-Type: application/octet-stream\r\nInference-Header-Content-Length: {}\r\n", json.len());
    reply("200 OK", &field, &[json.as_bytes(), &tensors].concat())
}

fn answer(request: &Received) -> Vec<u8> {
    let path = request.head.split(' ').nth(1).unwrap();
    let body = match path.rsplit('/').next().unwrap() {
        "v2" => r#"{"name":"fake","version":"1","extensions":["statistics","binary_tensor_data"]}"#,
        "config" => r#"{"name":"m","max_batch_size":8,"input":[],"output":[]}"#,
        "stats" => r#"{"model_stats":[{"name":"m","version":"1","inference_count":5,"execution_count":3}]}"#,
        "m" => {
            r#"{"name":"m","versions":["1"],"platform":"bench",
               "inputs":[{"name":"INPUT0","datatype":"FP32","shape":[-1,16]}],
               "outputs":[{"name":"OUTPUT0","datatype":"FP32","shape":[-1,16]}]}"#
        }
        "ping" => r#"{"status": "Healthy"}"#,
        "live" | "ready" | "register" | "unregister" | "setting" => "",
        _ => return reply("404 Not Found", "", br#"{"error":"no such path"}"#),
    };
    reply("200 OK", "", body.as_bytes())
}
