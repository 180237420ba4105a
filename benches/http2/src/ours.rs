//! `triton_bench::wire::h2`.

use std::io::{ErrorKind, IoSlice, Write};
use std::net::TcpStream;

use triton_bench::wire::h2::{Connection, Encoder, Events, HeaderList, Message, Reset, Token};

use crate::{Call, Session};

pub struct Ours {
    connection: Connection,
    headers: Encoder,
    body: Vec<u8>,
    /// Bytes that came before a frame was complete.
    rest: Vec<u8>,
}

impl Ours {
    pub fn new(call: &Call) -> Self {
        let fields = [
            (":method", "POST"),
            (":scheme", "http"),
            (":path", call.path),
            (":authority", &call.authority),
            ("te", "trailers"),
            ("content-type", "application/grpc"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()));
        Self {
            connection: Connection::new(),
            headers: Encoder::new(&fields),
            body: call.body.clone(),
            rest: Vec::new(),
        }
    }
}

impl Session for Ours {
    fn submit(&mut self, slot: usize) {
        let token = Token(slot as u64);
        let stream = self.connection.open(token, self.headers.next_block(self.connection.peer().header_table_size));
        self.connection.send(stream, Message { token, head: &self.body, parts: &[], end: true });
    }

    fn receive(&mut self, bytes: &[u8], done: &mut Vec<usize>) {
        let mut received = Received { done };
        if self.rest.is_empty() {
            let used = self.connection.receive(bytes, &mut received).expect("the server keeps to the protocol");
            self.rest.extend_from_slice(&bytes[used..]);
        } else {
            self.rest.extend_from_slice(bytes);
            let used = self.connection.receive(&self.rest, &mut received).expect("the server keeps to the protocol");
            self.rest.drain(..used);
        }
    }

    fn write(&mut self, mut socket: &TcpStream) -> bool {
        while !self.connection.out().is_empty() {
            let mut slices = [IoSlice::new(&[]); 64];
            let filled = self.connection.out().slices(&mut slices);
            match socket.write_vectored(&slices[..filled]) {
                Ok(count) => self.connection.wrote(count, |_| ()),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return false,
                Err(error) => panic!("the connection broke: {error}"),
            }
        }
        true
    }
}

struct Received<'a> {
    done: &'a mut Vec<usize>,
}

impl Events for Received<'_> {
    fn headers(&mut self, token: Token, headers: &HeaderList, end: bool) {
        if end {
            assert_eq!(headers.get("grpc-status"), Some(&b"0"[..]));
            self.done.push(token.0 as usize);
        } else {
            assert_eq!(headers.get(":status"), Some(&b"200"[..]));
        }
    }

    fn data(&mut self, _: Token, bytes: &[u8], end: bool) {
        assert!(!bytes.is_empty() && !end);
    }

    fn reset(&mut self, _: Token, why: Reset<'_>) {
        panic!("a stream was reset: {why:?}");
    }
}
