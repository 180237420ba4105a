//! Entry points of the fuzz targets under `fuzz/`: everything that parses bytes of a connection.

use std::io::IoSlice;

use crate::grpc::{MessageReader, Wish};
use crate::h2::{Connection, ConnectionError, Decoder, Encoder, Events, HeaderList, Message, Reset, Token};
use crate::sse::{Event, EventReader};

/// Streams that are open before anything is read.
pub const STREAMS: u64 = 3;
/// SETTINGS, the server's first frame: small windows.
const SETTINGS: [u8; 15] = [0, 0, 6, 4, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 40];

/// Parses bytes as frames of a connection, in one piece and in pieces; the results must be equal.
///
/// # Panics
/// Where an invariant is broken.
pub fn frames(piece: usize, bytes: &[u8]) {
    let (whole, pieces) = (received(bytes.len().max(1), bytes), received(piece.max(1), bytes));
    assert_eq!(whole, pieces);
}

/// Events, the error that ended the connection, and what we sent.
type Outcome = (Vec<(u64, String, Vec<u8>)>, Option<ConnectionError>, Vec<u8>);

fn received(piece: usize, bytes: &[u8]) -> Outcome {
    let mut connection = opened(|number| Token(number));
    let mut log = Log::default();
    let error = feed(&mut connection, piece, bytes, &mut log).err();
    if let Some(error) = &error {
        connection.close(error);
    }
    (log.0, error, drain_output(&mut connection))
}

/// A connection with open streams, with one request that still waits for its window.
///
/// # Panics
/// Where it rejects plain settings.
pub fn opened(token: impl Fn(u64) -> Token) -> Connection {
    let mut connection = Connection::new();
    connection.receive(&SETTINGS, &mut Log::default()).expect("plain settings");
    for number in 0..STREAMS {
        let stream = connection.open(token(number), &[0x83]);
        let head: &[u8] = if number == 0 { &[7; 100] } else { &[7] };
        connection.send(stream, Message { token: token(number), head, parts: &[], end: number != 2 });
    }
    drain_output(&mut connection);
    connection
}

/// Feeds bytes as a socket would.
///
/// # Errors
/// If they break the protocol.
pub fn feed<E: Events>(
    connection: &mut Connection,
    piece: usize,
    bytes: &[u8],
    events: &mut E,
) -> Result<(), ConnectionError> {
    let mut waiting = Vec::new();
    for part in bytes.chunks(piece) {
        waiting.extend_from_slice(part);
        let used = connection.receive(&waiting, events)?;
        waiting.drain(..used);
    }
    Ok(())
}

/// Takes everything that waits to be written.
fn drain_output(connection: &mut Connection) -> Vec<u8> {
    let mut bytes = Vec::new();
    while !connection.out().is_empty() {
        let mut slices = [IoSlice::new(&[]); 16];
        let filled = connection.out().slices(&mut slices);
        let before = bytes.len();
        slices[..filled].iter().for_each(|slice| bytes.extend_from_slice(slice));
        let count = bytes.len() - before;
        connection.wrote(count, |_| ());
    }
    bytes
}

/// Events, the parts of a body joined.
#[derive(Default)]
struct Log(Vec<(u64, String, Vec<u8>)>);

impl Events for Log {
    fn headers(&mut self, token: Token, headers: &HeaderList, end: bool) {
        let fields = headers.iter().flat_map(|(name, value)| [name, b"=", value, b";"].concat()).collect();
        self.0.push((token.0, format!("headers {end}"), fields));
    }

    fn data(&mut self, token: Token, bytes: &[u8], end: bool) {
        let joins = |last: &&mut (u64, String, Vec<u8>)| last.0 == token.0 && last.1 == "data";
        match self.0.last_mut().filter(joins) {
            Some(last) => last.2.extend_from_slice(bytes),
            None => self.0.push((token.0, "data".to_owned(), bytes.to_vec())),
        }
        if end {
            self.0.push((token.0, "end".to_owned(), Vec::new()));
        }
    }

    fn reset(&mut self, token: Token, why: Reset<'_>) {
        self.0.push((token.0, format!("{why:?}"), Vec::new()));
    }
}

/// Decodes header blocks, each after its length. Encoding the result and decoding it again must give the same.
///
/// # Panics
/// Where an invariant is broken.
pub fn header_blocks(mut bytes: &[u8]) {
    let (mut decoder, mut list) = (Decoder::default(), HeaderList::default());
    while let Some((&length, tail)) = bytes.split_first() {
        let (block, tail) = tail.split_at(tail.len().min(usize::from(length)));
        bytes = tail;
        if decoder.decode(block, &mut list).is_err() {
            return;
        }
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec());
        let fields = list.iter().map(|(name, value)| Ok((text(name)?, text(value)?)));
        let Ok(fields) = fields.collect::<Result<Vec<_>, std::string::FromUtf8Error>>() else { continue };
        let mut again = HeaderList::default();
        Decoder::default().decode(&Encoder::literal(&fields), &mut again).expect("our own encoding");
        assert!(list.iter().eq(again.iter()));
    }
}

/// Assembles messages from one piece and from pieces; the results must be equal.
///
/// # Panics
/// Where an invariant is broken.
pub fn messages(piece: usize, bytes: &[u8]) {
    for keep in [true, false] {
        let (whole, pieces) = (arrived(bytes.len().max(1), bytes, keep), arrived(piece.max(1), bytes, keep));
        assert_eq!(whole.1, pieces.1);
        assert_eq!(whole.0.len(), pieces.0.len());
        for (left, right) in whole.0.iter().zip(&pieces.0) {
            // Messages that are not kept are shown only if they arrive in one piece.
            assert!(left == right || (!keep && (left.1.is_none() || right.1.is_none()) && left.0 == right.0));
        }
    }
}

type Messages = (Vec<(bool, Option<Vec<u8>>)>, Result<bool, String>);

fn arrived(piece: usize, bytes: &[u8], keep: bool) -> Messages {
    let (mut reader, mut list) = (MessageReader::default(), Vec::new());
    for mut part in bytes.chunks(piece) {
        loop {
            match reader.next(&mut part, Wish { keep, limit: 1 << 12 }) {
                Ok(Some(arrived)) => list.push((arrived.compressed, arrived.bytes.map(<[u8]>::to_vec))),
                Ok(None) => break,
                Err(reason) => return (list, Err(reason)),
            }
        }
    }
    (list, Ok(reader.is_inside()))
}

/// Reads a stream of events in one piece and in pieces; the results must be equal.
///
/// # Panics
/// Where an invariant is broken.
pub fn events(piece: usize, bytes: &[u8]) {
    assert_eq!(events_of(bytes.len().max(1), bytes), events_of(piece.max(1), bytes));
}

type EventsRead = (Vec<(Vec<u8>, Vec<u8>)>, Result<bool, String>);

fn events_of(piece: usize, bytes: &[u8]) -> EventsRead {
    let (mut reader, mut list) = (EventReader::new(1 << 12), Vec::new());
    for mut part in bytes.chunks(piece) {
        loop {
            match reader.next(&mut part) {
                Ok(Some(Event { name, data })) => list.push((name.to_vec(), data.to_vec())),
                Ok(None) => break,
                Err(reason) => return (list, Err(reason)),
            }
        }
    }
    (list, Ok(reader.is_inside()))
}
