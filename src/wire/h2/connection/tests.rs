//! The connection against a peer that sends scripted bytes.

use bytes::Bytes;

use super::patience::{MAX_ANSWERS, MAX_IDLE_FRAMES};
use super::*;
use crate::h2::frame::{FrameHeader, HEADER_LEN, flag, put, put_number};

#[derive(Default)]
struct Log(Vec<String>);

impl Events for Log {
    fn headers(&mut self, token: Token, headers: &HeaderList, end: bool) {
        let status = headers.get(":status").map(|value| String::from_utf8_lossy(value).into_owned());
        self.0.push(format!("headers {} {} {end}", token.0, status.unwrap_or_default()));
    }

    fn data(&mut self, token: Token, bytes: &[u8], end: bool) {
        self.0.push(format!("data {} {} {end}", token.0, String::from_utf8_lossy(bytes)));
    }

    fn reset(&mut self, token: Token, why: Reset<'_>) {
        self.0.push(match why {
            Reset::Code(code) => format!("reset {} {code}", token.0),
            Reset::GoAway(goaway) => format!("refused {} {} {}", token.0, goaway.code, goaway.text),
        });
    }
}

/// Everything that was queued, as frames.
fn sent(connection: &mut Connection) -> Vec<(FrameHeader, Vec<u8>)> {
    let mut bytes = Vec::new();
    while !connection.out().is_empty() {
        let mut slices = [std::io::IoSlice::new(&[]); 64];
        let filled = connection.out().slices(&mut slices);
        slices[..filled].iter().for_each(|slice| bytes.extend_from_slice(slice));
        let count = slices[..filled].iter().map(|slice| slice.len()).sum();
        connection.wrote(count, |_| ());
    }
    let mut remaining = bytes.strip_prefix(frame::PREFACE).unwrap_or(&bytes);
    let mut frames = Vec::new();
    while let Some(header) = FrameHeader::parse(remaining) {
        let end = HEADER_LEN + header.length as usize;
        frames.push((header, remaining[HEADER_LEN..end].to_vec()));
        remaining = &remaining[end..];
    }
    frames
}

fn settings(entries: &[(u16, u32)]) -> Vec<u8> {
    let payload: Vec<u8> =
        entries.iter().flat_map(|(id, value)| [&id.to_be_bytes()[..], &value.to_be_bytes()].concat()).collect();
    let mut out = Vec::new();
    put(&mut out, kind::SETTINGS, 0, 0, &payload);
    out
}

fn settled(entries: &[(u16, u32)]) -> Connection {
    let mut connection = Connection::new();
    connection.receive(&settings(entries), &mut Log::default()).unwrap();
    assert!(connection.is_settled());
    sent(&mut connection);
    connection
}

fn frame_bytes(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    put(&mut out, kind, flags, stream, payload);
    out
}

fn message(head: &[u8], parts: &'static [&'static [u8]]) -> (Vec<u8>, Vec<Bytes>) {
    (head.to_vec(), parts.iter().map(|part| Bytes::from_static(part)).collect())
}

fn unary(connection: &mut Connection, token: u64, head: &[u8]) -> u32 {
    let id = connection.open(Token(token), &[0x83]);
    connection.send(id, Message { token: Token(token), head, parts: &[], end: true });
    id
}

#[test]
fn a_reply_comes_out_whole_wherever_the_bytes_are_cut() {
    let reply = [
        frame_bytes(kind::HEADERS, 0, 1, &[0x88]),
        frame_bytes(kind::CONTINUATION, flag::END_HEADERS, 1, &[]),
        frame_bytes(kind::PING, 0, 0, b"12345678"),
        frame_bytes(kind::DATA, flag::PADDED, 1, b"\x02hello\0\0"),
        frame_bytes(42, 0, 1, b"unknown types are ignored"),
        frame_bytes(kind::HEADERS, flag::END_HEADERS | flag::END_STREAM, 1, &[0x8d]),
    ]
    .concat();
    for step in 1..reply.len() {
        let mut connection = settled(&[]);
        unary(&mut connection, 7, b"request");
        let mut log = Log::default();
        let mut waiting = Vec::new();
        for chunk in reply.chunks(step) {
            waiting.extend_from_slice(chunk);
            let used = connection.receive(&waiting, &mut log).unwrap();
            waiting.drain(..used);
        }
        assert!(waiting.is_empty());
        let text: String =
            log.0.iter().filter_map(|line| line.strip_prefix("data 7 ")?.strip_suffix(" false")).collect();
        assert_eq!(text, "hello");
        assert_eq!(log.0.first().unwrap(), "headers 7 200 false");
        assert_eq!(log.0.last().unwrap(), "headers 7 404 true");
        assert_eq!(connection.open_streams(), 0);
        let frames = sent(&mut connection);
        assert!(frames.iter().any(|(header, payload)| header.kind == kind::PING && payload == b"12345678"));
    }
}

#[test]
fn a_body_waits_for_windows_and_keeps_to_the_frame_size() {
    let mut connection = settled(&[(4, 10)]);
    let id = connection.open(Token(1), &[0x83]);
    let (head, parts) = message(b"0123456", &[b"789ab", b"", b"cdef"]);
    connection.send(id, Message { token: Token(5), head: &head, parts: &parts, end: true });
    let body = |frames: &[(FrameHeader, Vec<u8>)]| -> Vec<u8> {
        frames.iter().filter(|frame| frame.0.kind == kind::DATA).flat_map(|frame| frame.1.clone()).collect()
    };
    assert_eq!(body(&sent(&mut connection)), b"0123456789");
    let mut grant = Vec::new();
    put_number(&mut grant, kind::WINDOW_UPDATE, 1, 3);
    connection.receive(&grant, &mut Log::default()).unwrap();
    assert_eq!(body(&sent(&mut connection)), b"abc");
    // A shrunk initial window makes the stream's negative; it must be filled up before anything goes.
    connection.receive(&settings(&[(4, 8)]), &mut Log::default()).unwrap();
    connection.receive(&grant[..], &mut Log::default()).unwrap();
    let frames = sent(&mut connection);
    assert_eq!(body(&frames), b"d");
    assert!(frames.iter().all(|frame| frame.0.kind != kind::DATA || !frame.0.has(flag::END_STREAM)));
    connection.receive(&settings(&[(4, 100)]), &mut Log::default()).unwrap();
    let frames = sent(&mut connection);
    assert_eq!(body(&frames), b"ef");
    assert!(frames.iter().any(|frame| frame.0.kind == kind::DATA && frame.0.has(flag::END_STREAM)));
}

#[test]
fn large_bodies_are_cut_into_frames_and_marked_when_they_have_left() {
    let mut connection = settled(&[(4, 1 << 20)]);
    let id = connection.open(Token(1), &[0x83]);
    let parts = [Bytes::from(vec![1_u8; 40_000])];
    connection.send(id, Message { token: Token(9), head: b"head", parts: &parts, end: true });
    let mut marked = Vec::new();
    let total = connection.out().appended() - connection.out().departed();
    connection.wrote(total as usize - 1, |token| marked.push(token));
    assert!(marked.is_empty());
    connection.wrote(1, |token| marked.push(token));
    assert_eq!(marked, [Token(9)]);
}

#[test]
fn the_connection_window_is_shared_by_streams() {
    let mut connection = settled(&[(4, 1 << 20)]);
    for token in 0..2 {
        let id = connection.open(Token(token), &[0x83]);
        let parts = [Bytes::from(vec![0_u8; 50_000])];
        connection.send(id, Message { token: Token(token), head: b"", parts: &parts, end: true });
    }
    let data = |frames: Vec<(FrameHeader, Vec<u8>)>| -> usize {
        frames.iter().filter(|frame| frame.0.kind == kind::DATA).map(|frame| frame.1.len()).sum()
    };
    assert_eq!(data(sent(&mut connection)), 65_535);
    let mut grant = Vec::new();
    put_number(&mut grant, kind::WINDOW_UPDATE, 0, 1 << 20);
    connection.receive(&grant, &mut Log::default()).unwrap();
    assert_eq!(data(sent(&mut connection)), 100_000 - 65_535);
}

#[test]
fn goaway_spares_streams_up_to_the_last() {
    let mut connection = settled(&[]);
    unary(&mut connection, 1, b"a");
    unary(&mut connection, 2, b"b");
    let mut log = Log::default();
    let payload = [&1_u32.to_be_bytes()[..], &0_u32.to_be_bytes(), b"maintenance"].concat();
    connection.receive(&frame_bytes(kind::GOAWAY, 0, 0, &payload), &mut log).unwrap();
    assert_eq!(log.0, ["refused 2 NO_ERROR maintenance"]);
    assert!(!connection.can_open());
    assert_eq!(connection.goaway().unwrap().text, "maintenance");
    let end = flag::END_HEADERS | flag::END_STREAM;
    connection.receive(&frame_bytes(kind::HEADERS, end, 1, &[0x88]), &mut log).unwrap();
    assert_eq!(log.0[1], "headers 1 200 true");
}

#[test]
fn an_early_end_by_the_peer_takes_back_what_was_still_to_be_sent() {
    let mut connection = settled(&[(4, 1)]);
    unary(&mut connection, 1, b"long body");
    let end = flag::END_HEADERS | flag::END_STREAM;
    connection.receive(&frame_bytes(kind::HEADERS, end, 1, &[0x88]), &mut Log::default()).unwrap();
    let frames = sent(&mut connection);
    assert_eq!(frames.last().unwrap().0.kind, kind::RST_STREAM);
    let mut grant = Vec::new();
    put_number(&mut grant, kind::WINDOW_UPDATE, 1, 100);
    connection.receive(&grant, &mut Log::default()).unwrap();
    assert!(sent(&mut connection).is_empty());
}

#[test]
fn the_number_of_streams_is_kept() {
    let mut connection = settled(&[(3, 1)]);
    let id = unary(&mut connection, 1, b"a");
    assert!(!connection.can_open());
    connection.reset(id, ErrorCode::CANCEL);
    assert!(connection.can_open());
    // Replies to a stream that we gave up are skipped.
    let mut log = Log::default();
    let late = [frame_bytes(kind::HEADERS, flag::END_HEADERS, id, &[0x88]), frame_bytes(kind::DATA, 0, id, b"x")];
    connection.receive(&late.concat(), &mut log).unwrap();
    assert!(log.0.is_empty());
}

#[test]
fn breaches_of_the_protocol_end_the_connection() {
    let cases: [(Vec<u8>, ErrorCode); 10] = [
        (frame_bytes(kind::DATA, 0, 3, b"x"), ErrorCode::PROTOCOL_ERROR),
        (frame_bytes(kind::DATA, 0, 0, b"x"), ErrorCode::PROTOCOL_ERROR),
        (frame_bytes(kind::PING, 0, 0, b"short"), ErrorCode::FRAME_SIZE_ERROR),
        (frame_bytes(kind::GOAWAY, 0, 0, b"short"), ErrorCode::FRAME_SIZE_ERROR),
        (frame_bytes(kind::SETTINGS, flag::ACK, 0, &[0; 6]), ErrorCode::FRAME_SIZE_ERROR),
        (frame_bytes(kind::WINDOW_UPDATE, 0, 0, &[0; 4]), ErrorCode::PROTOCOL_ERROR),
        (frame_bytes(kind::WINDOW_UPDATE, 0, 0, &[0x7f, 0xff, 0xff, 0xff]), ErrorCode::FLOW_CONTROL_ERROR),
        (frame_bytes(kind::PUSH_PROMISE, 0, 1, &[0; 4]), ErrorCode::PROTOCOL_ERROR),
        (frame_bytes(kind::CONTINUATION, 0, 1, &[]), ErrorCode::PROTOCOL_ERROR),
        (frame_bytes(kind::HEADERS, flag::END_HEADERS, 1, &[0x80]), ErrorCode::COMPRESSION_ERROR),
    ];
    for (bytes, code) in cases {
        let mut connection = settled(&[]);
        unary(&mut connection, 1, b"a");
        let error = connection.receive(&bytes, &mut Log::default()).unwrap_err();
        assert_eq!(error.code, code, "{error}");
    }
    let interrupted = [frame_bytes(kind::HEADERS, 0, 1, &[0x88]), frame_bytes(kind::PING, 0, 0, b"12345678")].concat();
    let mut connection = settled(&[]);
    unary(&mut connection, 1, b"a");
    assert!(connection.receive(&interrupted, &mut Log::default()).is_err());
}

#[test]
fn other_protocols_are_recognised() {
    let error = Connection::new().receive(b"HTTP/1.1 400 Bad Request\r\n", &mut Log::default()).unwrap_err();
    assert!(error.reason.contains("gRPC port"), "{error}");
    let ping = frame_bytes(kind::PING, 0, 0, b"12345678");
    assert!(Connection::new().receive(&ping, &mut Log::default()).unwrap_err().reason.contains("SETTINGS"));
}

#[test]
fn long_header_blocks_continue_in_further_frames() {
    let mut connection = settled(&[]);
    connection.open(Token(1), &[0x83; 40_000]);
    let frames = sent(&mut connection);
    let kinds: Vec<u8> = frames.iter().map(|frame| frame.0.kind).collect();
    assert_eq!(kinds, [kind::HEADERS, kind::CONTINUATION, kind::CONTINUATION]);
    assert!(frames[2].0.has(flag::END_HEADERS) && !frames[1].0.has(flag::END_HEADERS));
}

#[test]
fn windows_are_granted_anew_when_half_is_used() {
    let mut connection = settled(&[]);
    unary(&mut connection, 1, b"a");
    sent(&mut connection);
    let chunk = vec![0_u8; 1 << 20];
    let header = FrameHeader { length: 1 << 20, kind: kind::DATA, flags: 0, stream: 1 }.bytes();
    let mut log = Log::default();
    for _ in 0..1024 {
        connection.receive(&header, &mut log).unwrap();
        connection.receive(&chunk, &mut log).unwrap();
        log.0.clear();
    }
    let grants: Vec<u32> = sent(&mut connection).iter().map(|frame| frame.0.stream).collect();
    assert_eq!(grants, [0, 1]);
}

#[test]
fn no_bytes_make_it_panic_or_stand_still() {
    use rand::{RngExt, SeedableRng};
    let mut random = rand_xoshiro::Xoshiro256PlusPlus::seed_from_u64(5);
    let good = [
        settings(&[(4, 100), (3, 2)]),
        frame_bytes(kind::HEADERS, flag::END_HEADERS, 1, &[0x88, 0x40, 1, b'a', 1, b'b', 0xbe]),
        frame_bytes(kind::DATA, flag::PADDED, 1, b"\x02hello\0\0"),
        frame_bytes(kind::WINDOW_UPDATE, 0, 1, &[0, 0, 1, 0]),
        frame_bytes(kind::GOAWAY, 0, 0, &[0, 0, 0, 3, 0, 0, 0, 0]),
        frame_bytes(kind::HEADERS, flag::END_HEADERS | flag::END_STREAM, 1, &[0x8d]),
    ]
    .concat();
    for _ in 0..20_000 {
        let mut bytes = good.clone();
        for _ in 0..random.random_range(0..4) {
            let at = random.random_range(0..bytes.len());
            bytes[at] = random.random();
        }
        let mut connection = settled(&[(4, 5)]);
        unary(&mut connection, 1, b"request");
        unary(&mut connection, 2, b"request");
        let mut log = Log::default();
        let mut waiting = Vec::new();
        for chunk in bytes.chunks(random.random_range(1..bytes.len())) {
            waiting.extend_from_slice(chunk);
            match connection.receive(&waiting, &mut log) {
                Ok(used) => drop(waiting.drain(..used)),
                Err(_) => break,
            }
        }
        let ends = log.0.iter().filter(|line| line.starts_with("reset") || line.ends_with("true")).count();
        assert!(ends <= 2 && ends + connection.open_streams() == 2);
        sent(&mut connection);
    }
}

/// Whether the connection ends with ENHANCE_YOUR_CALM after this many frames, and not before; what it says last.
fn loses_patience(connection: &mut Connection, frame: &[u8], at: usize, read: bool) -> String {
    for number in 1..=at {
        match connection.receive(frame, &mut Log::default()) {
            Ok(_) => assert!(number < at, "frame {number} of {at} is still taken"),
            Err(error) => {
                assert_eq!((number, error.code), (at, ErrorCode::ENHANCE_YOUR_CALM), "{error}");
                connection.close(&error);
                let (last, payload) = sent(connection).pop().unwrap();
                assert_eq!((last.kind, &payload[4..]), (kind::GOAWAY, &11_u32.to_be_bytes()[..]));
                return error.reason;
            }
        }
        if read {
            sent(connection);
        }
    }
    unreachable!()
}

#[test]
fn answers_that_nobody_reads_end_the_connection() {
    for frame in [frame_bytes(kind::PING, 0, 0, &[7; 8]), settings(&[(4, 1 << 20)])] {
        let reason = loses_patience(&mut settled(&[]), &frame, MAX_ANSWERS + 1, false);
        assert!(reason.contains("at once"), "{reason}");
    }
}

#[test]
fn frames_about_no_request_end_the_connection() {
    let nothing = |kind, stream, payload: &[u8]| frame_bytes(kind, 0, stream, payload);
    let cases = [
        nothing(kind::PING, 0, &[7; 8]),
        frame_bytes(kind::PING, flag::ACK, 0, &[7; 8]),
        settings(&[]),
        nothing(kind::WINDOW_UPDATE, 0, &[0, 0, 0, 1]),
        nothing(kind::WINDOW_UPDATE, 3, &[0, 0, 0, 1]),
        // PRIORITY, and a type that nobody knows.
        nothing(2, 3, &[0; 5]),
        nothing(0xbe, 3, &[0; 50]),
        // On a stream that is gone.
        nothing(kind::RST_STREAM, 1, &[0; 4]),
        nothing(kind::DATA, 3, &[]),
        frame_bytes(kind::DATA, flag::PADDED, 3, &[2, 0, 0]),
        // An informational response.
        frame_bytes(kind::HEADERS, flag::END_HEADERS, 3, b"\x08\x03103"),
        frame_bytes(kind::GOAWAY, 0, 0, &[0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 0]),
    ];
    for frame in cases {
        let mut connection = settled(&[(4, 1 << 20)]);
        assert_eq!(unary(&mut connection, 1, b"x"), 1);
        assert_eq!(unary(&mut connection, 2, b"x"), 3);
        let mut log = Log::default();
        connection.receive(&frame_bytes(kind::RST_STREAM, 0, 1, &[0; 4]), &mut log).unwrap();
        let reason = loses_patience(&mut connection, &frame, MAX_IDLE_FRAMES as usize + 1, true);
        assert!(reason.contains("that concern no request"), "{reason}");
        // A step forward makes up for all before it.
        let mut connection = settled(&[(4, 1 << 20)]);
        unary(&mut connection, 1, b"x");
        unary(&mut connection, 2, b"x");
        for _ in 0..3 {
            for _ in 2..MAX_IDLE_FRAMES {
                connection.receive(&frame, &mut log).unwrap();
                sent(&mut connection);
            }
            connection.receive(&frame_bytes(kind::DATA, 0, 3, b"y"), &mut log).unwrap();
            connection.receive(&frame_bytes(kind::DATA, 0, 1, b"y"), &mut log).unwrap();
        }
    }
}

#[test]
fn header_blocks_end() {
    let mut connection = settled(&[]);
    unary(&mut connection, 1, b"x");
    connection.receive(&frame_bytes(kind::HEADERS, 0, 1, &[0x88]), &mut Log::default()).unwrap();
    let empty = frame_bytes(kind::CONTINUATION, 0, 1, &[]);
    // SETTINGS and HEADERS came before.
    loses_patience(&mut connection, &empty, MAX_IDLE_FRAMES as usize - 1, true);
    let mut connection = settled(&[]);
    unary(&mut connection, 1, b"x");
    connection.receive(&frame_bytes(kind::HEADERS, 0, 1, &[0x88]), &mut Log::default()).unwrap();
    let full = frame_bytes(kind::CONTINUATION, 0, 1, &[0x88; 16_384]);
    let reason = loses_patience(&mut connection, &full, 4, true);
    assert!(reason.contains("header block is longer"), "{reason}");
}

#[test]
fn a_server_that_grants_windows_as_it_reads_is_borne_with() {
    let mut connection = settled(&[(4, 1 << 30)]);
    let parts = [Bytes::from(vec![0; 64 << 20])];
    let id = connection.open(Token(1), &[0x83]);
    connection
        .receive(&frame_bytes(kind::WINDOW_UPDATE, 0, 0, &(1_u32 << 30).to_be_bytes()), &mut Log::default())
        .unwrap();
    connection.send(id, Message { token: Token(1), head: b"", parts: &parts, end: true });
    sent(&mut connection);
    for _ in 0..(64 << 20) / 4096 {
        for stream in [0, id] {
            let grant = frame_bytes(kind::WINDOW_UPDATE, 0, stream, &4096_u32.to_be_bytes());
            connection.receive(&grant, &mut Log::default()).unwrap();
        }
    }
    assert!(connection.can_open());
}

#[test]
fn requests_wait_while_nobody_reads_those_before_them() {
    let mut connection = settled(&[]);
    let answered = |id| frame_bytes(kind::HEADERS, flag::END_HEADERS | flag::END_STREAM, id, &[0x88]);
    let block = [0x83; 10_000];
    let mut opened = 0;
    while connection.can_open() {
        let id = connection.open(Token(1), &block);
        connection.receive(&answered(id), &mut Log::default()).unwrap();
        opened += 1;
        assert!(opened < 10_000, "what waits grows without bound");
    }
    assert!(connection.is_congested());
    sent(&mut connection);
    assert!(connection.can_open());
}
