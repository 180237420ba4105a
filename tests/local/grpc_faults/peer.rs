//! A gRPC server that sends exactly the bytes it is given.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

pub const DATA: u8 = 0;
pub const HEADERS: u8 = 1;
pub const RST_STREAM: u8 = 3;
pub const SETTINGS: u8 = 4;
pub const GOAWAY: u8 = 7;
pub const WINDOW_UPDATE: u8 = 8;
pub const END_STREAM: u8 = 1;
pub const END_HEADERS: u8 = 4;

/// Settings that leave the client room for everything.
pub const WIDE: &[(u16, u32)] = &[(4, 1 << 30)];

pub struct Frame {
    pub kind: u8,
    pub flags: u8,
    pub stream: u32,
    pub payload: Vec<u8>,
}

/// One connection, seen from the server.
pub struct Peer(pub TcpStream);

pub fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut bytes = (payload.len() as u32).to_be_bytes()[1..].to_vec();
    bytes.extend_from_slice(&[kind, flags]);
    bytes.extend_from_slice(&stream.to_be_bytes());
    bytes.extend_from_slice(payload);
    bytes
}

/// A header block of literals that nobody remembers.
pub fn block(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (name, value) in fields {
        bytes.push(0);
        for text in [name, value] {
            assert!(text.len() < 127);
            bytes.push(text.len() as u8);
            bytes.extend_from_slice(text.as_bytes());
        }
    }
    bytes
}

pub fn headers(stream: u32, flags: u8, fields: &[(&str, &str)]) -> Vec<u8> {
    frame(HEADERS, END_HEADERS | flags, stream, &block(fields))
}

pub fn response_headers(stream: u32) -> Vec<u8> {
    headers(stream, 0, &[(":status", "200"), ("content-type", "application/grpc")])
}

pub fn trailers(stream: u32, status: &str) -> Vec<u8> {
    headers(stream, END_STREAM, &[("grpc-status", status)])
}

pub fn message(bytes: &[u8]) -> Vec<u8> {
    [&[0], &(bytes.len() as u32).to_be_bytes()[..], bytes].concat()
}

pub fn data(stream: u32, message: &[u8]) -> Vec<u8> {
    frame(DATA, 0, stream, message)
}

/// A whole successful answer.
pub fn answer(stream: u32, bytes: &[u8]) -> Vec<u8> {
    [response_headers(stream), data(stream, &message(bytes)), trailers(stream, "0")].concat()
}

/// A `ModelInferResponse` that fits the model of the tests: its output `O` with these bytes.
pub fn fitting(bytes: &[u8]) -> Vec<u8> {
    output("O", "UINT8", &[bytes.len() as u8], bytes)
}

/// A `ModelInferResponse` with one output of few bytes.
pub fn output(name: &str, datatype: &str, shape: &[u8], bytes: &[u8]) -> Vec<u8> {
    let described = [field(1, name.as_bytes()), field(2, datatype.as_bytes()), field(3, shape)].concat();
    [field(5, &described), field(6, bytes)].concat()
}

/// A field of few bytes of a protocol buffer.
pub fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    assert!(bytes.len() < 128);
    [&[number << 3 | 2, bytes.len() as u8], bytes].concat()
}

pub fn goaway(last: u32, code: u32, text: &str) -> Vec<u8> {
    frame(GOAWAY, 0, 0, &[&last.to_be_bytes()[..], &code.to_be_bytes(), text.as_bytes()].concat())
}

pub fn window(stream: u32, grant: u32) -> Vec<u8> {
    frame(WINDOW_UPDATE, 0, stream, &grant.to_be_bytes())
}

impl Peer {
    pub fn say(&mut self, bytes: &[u8]) {
        // The client may have gone already; what it made of it is checked on its side.
        let _ = self.0.write_all(bytes);
    }

    pub fn settings(&mut self, entries: &[(u16, u32)]) {
        let entry = |(id, value): &(u16, u32)| [&id.to_be_bytes()[..], &value.to_be_bytes()].concat();
        self.say(&frame(SETTINGS, 0, 0, &entries.iter().flat_map(entry).collect::<Vec<u8>>()));
    }

    /// Takes the client's preface and says our settings.
    pub fn shake_hands(&mut self, entries: &[(u16, u32)]) {
        let mut preface = [0; 24];
        self.0.read_exact(&mut preface).unwrap();
        assert_eq!(&preface, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
        self.settings(entries);
        self.say(&window(0, (1 << 31) - 1 - 65_535));
    }

    /// The next frame; `None` when the client has closed.
    pub fn frame(&mut self) -> Option<Frame> {
        let mut header = [0; 9];
        self.0.read_exact(&mut header).ok()?;
        let mut payload = vec![0; u32::from_be_bytes([0, header[0], header[1], header[2]]) as usize];
        self.0.read_exact(&mut payload).ok()?;
        let stream = u32::from_be_bytes([header[5], header[6], header[7], header[8]]);
        Some(Frame { kind: header[3], flags: header[4], stream, payload })
    }

    /// The next frame of a kind; others are skipped.
    pub fn next_of(&mut self, kind: u8) -> Option<Frame> {
        loop {
            let frame = self.frame()?;
            if frame.kind == kind {
                return Some(frame);
            }
        }
    }

    /// The next request: stream and body, from frames that may belong to several.
    pub fn request(&mut self) -> Option<(u32, Vec<u8>)> {
        let mut body = Vec::new();
        loop {
            let frame = self.next_of(DATA)?;
            body.extend_from_slice(&frame.payload);
            if frame.flags & END_STREAM != 0 {
                return Some((frame.stream, body));
            }
        }
    }

    /// Reads until the client closes.
    pub fn linger(&mut self) {
        while self.frame().is_some() {}
    }

    /// Says the same again and again, until the client hangs up; whether it did in that time. What the client says is not
    /// read.
    pub fn flood(&mut self, bytes: &[u8], limit: Duration) -> bool {
        let chunk = bytes.repeat((64 << 10) / bytes.len().max(1) + 1);
        let end = Instant::now() + limit;
        self.0.set_write_timeout(Some(limit)).unwrap();
        while Instant::now() < end {
            if self.0.write_all(&chunk).is_err() {
                return true;
            }
        }
        false
    }

    /// The same while somebody reads what the client says; with pauses, in which the client has the time to say it.
    pub fn flood_and_read(&mut self, bytes: &[u8], pause: bool, limit: Duration) {
        let mut reading = self.0.try_clone().unwrap();
        thread::spawn(move || std::io::copy(&mut reading, &mut std::io::sink()));
        if !pause {
            self.flood(bytes, limit);
        }
        let (end, some) = (Instant::now() + limit, bytes.repeat(100));
        while Instant::now() < end && self.0.write_all(&some).is_ok() {
            thread::sleep(Duration::from_millis(1));
        }
    }

    pub fn half_close(&mut self) {
        self.0.shutdown(Shutdown::Write).unwrap();
    }
}

/// Starts a server that follows `script` on all connections, which are counted from 0. Returns its address.
pub fn serve_all(script: impl Fn(usize, Peer) + Send + Sync + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let script = std::sync::Arc::new(script);
    thread::spawn(move || {
        for (number, stream) in listener.incoming().enumerate() {
            let stream = stream.unwrap();
            stream.set_nodelay(true).unwrap();
            stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
            let script = std::sync::Arc::clone(&script);
            thread::spawn(move || script(number, Peer(stream)));
        }
    });
    address
}

/// Starts a server that answers the control plane on its first connection and follows `script` on all later ones, which
/// are counted from 0. Returns its address.
pub fn serve(script: impl Fn(usize, Peer) + Send + Sync + 'static) -> (String, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let server = thread::spawn(move || {
        thread::scope(|scope| {
            for (number, stream) in listener.incoming().enumerate().take(8) {
                let stream = stream.unwrap();
                stream.set_nodelay(true).unwrap();
                stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
                let script = &script;
                match number {
                    0 => scope.spawn(move || be_ready(Peer(stream))),
                    _ => scope.spawn(move || script(number - 1, Peer(stream))),
                };
            }
        });
    });
    (address, server)
}

/// What Triton says from 26.05 on where its operator has not allowed it.
pub const NO_SHARED_MEMORY: &str =
    "Client shared memory is disabled. Start the server with '--allow-client-shm=true' to enable.";

/// `ServerReady` is answered with yes, `ServerMetadata` with nothing special, shared memory is
/// refused.
pub fn be_ready(mut peer: Peer) {
    peer.shake_hands(WIDE);
    for body in [&[8, 1][..], &[]] {
        let Some((stream, _)) = peer.request() else { return };
        peer.say(&answer(stream, body));
    }
    // Registrations of shared memory.
    while let Some((stream, _)) = peer.request() {
        let fields = [(":status", "200"), ("grpc-status", "14"), ("grpc-message", NO_SHARED_MEMORY)];
        peer.say(&headers(stream, END_STREAM, &fields));
    }
}
