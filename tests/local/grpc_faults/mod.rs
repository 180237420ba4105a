//! Server faults over gRPC, and behaviour that is rare but legal: each request must end exactly once, with the reason.

mod bounds;
mod connection_per_call;
mod farewells;
mod h2_peer;
mod leaving_streams;
mod misfits;
pub mod peer;
mod streaming;

use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use peer::{
    DATA, END_HEADERS, END_STREAM, HEADERS, NO_SHARED_MEMORY, Peer, RST_STREAM, WIDE, answer, data, fitting, frame,
    goaway, headers, message, response_headers, serve, serve_all, trailers, window,
};
use triton_bench::backend::{
    Backend, Client, ClientSpec, Completion, CompletionSink, MAX_REPLY_BYTES, Next, Oddities, OutputPlan, ReplyRule,
    Request, Response, SlotId,
};
use triton_bench::backends::kserve_grpc::GrpcBackend;
use triton_bench::clock::Stamp;
use triton_bench::data::{InputTensor, Payload, PayloadId};
use triton_bench::model::{DataType, ModelId, ModelSpec, TensorSpec};
use triton_bench::plan::{Compression, ConnectionPlan, Protocol, Tls};
use triton_bench::shm::{Placement, Region};

pub const REQUEST: Request = Request { payload: PayloadId(0), sequence: None };
/// Frame type and flag of acknowledged settings.
const SETTINGS: u8 = 4;
const ACK: u8 = 1;
/// Nothing here may take longer.
const PATIENCE: Duration = Duration::from_secs(5);

/// A slot, and the number of its responses or its failure's code word and message.
type SlotOutcome = (u32, Result<u32, (String, String)>);

/// Writes down what it is told.
#[derive(Default)]
pub struct Log {
    pub completions: Mutex<Vec<SlotOutcome>>,
    pub responses: Mutex<Vec<String>>,
    /// From the send to the last response.
    pub latencies: Mutex<Vec<Duration>>,
}

impl CompletionSink for Log {
    fn response(&self, slot: SlotId, response: &Response<'_>) {
        let mut line = format!("{} empty={}", slot.0, response.empty);
        response.outputs.visit(&mut |output| line += &format!(" {}={:?}", output.name, output.bytes));
        if let Some(error) = response.error {
            line += &format!(" error={}", error.message);
        }
        self.responses.lock().unwrap().push(line);
    }

    fn complete(&self, slot: SlotId, completion: &Completion<'_>) -> Next {
        assert!(completion.sent <= completion.first_response);
        assert!(completion.first_response <= completion.last_response);
        let outcome = match completion.error {
            None => Ok(completion.responses),
            Some(error) => Err((error.code.to_string(), error.message.clone())),
        };
        let latency = Duration::from_nanos(completion.last_response.since(completion.sent));
        self.latencies.lock().unwrap().push(latency);
        self.completions.lock().unwrap().push((slot.0, outcome));
        Next::Idle
    }
}

/// How a test's client is set up.
#[derive(Clone, Copy)]
pub struct Setup {
    pub slots: usize,
    pub bytes: usize,
    pub streaming: bool,
    pub decoupled: bool,
    pub watch: bool,
    pub reconnect: bool,
    /// Whether each request makes a connection, and how many may be open at once.
    pub renew: bool,
    pub connections: Option<usize>,
    pub deadline: Option<Duration>,
    /// The dimension of the model's output, -1 for any.
    pub output: i64,
    pub max_reply_bytes: u64,
    pub replies: ReplyRule,
}

pub const PLAIN: Setup = Setup {
    slots: 1,
    bytes: 64,
    streaming: false,
    decoupled: false,
    watch: false,
    reconnect: false,
    renew: false,
    connections: None,
    deadline: None,
    output: -1,
    max_reply_bytes: MAX_REPLY_BYTES,
    replies: ReplyRule::Readable,
};

/// A client on a scripted server.
pub struct Bench {
    pub log: Arc<Log>,
    pub client: Box<dyn Client>,
    pub oddities: Arc<Oddities>,
}

impl Bench {
    pub fn new(setup: Setup, script: impl Fn(usize, Peer) + Send + Sync + 'static) -> Self {
        let (address, _) = serve(script);
        Self::at(&address, setup)
    }

    /// With the server at that address.
    pub fn at(address: &str, setup: Setup) -> Self {
        Self::through(&backend(address, setup), setup)
    }

    /// A client of that backend.
    pub fn through(backend: &GrpcBackend, setup: Setup) -> Self {
        let log = Arc::new(Log::default());
        let (spec, sink) = (spec(setup), Arc::clone(&log) as Arc<dyn CompletionSink>);
        let oddities = Arc::clone(&spec.oddities);
        Self { log, client: backend.open_client(spec, sink).unwrap(), oddities }
    }

    pub fn submit(&mut self, slot: u32) {
        self.client.submit(SlotId(slot), REQUEST).unwrap();
    }

    /// Drives until so many requests are over, and returns how all of them ended, in order of slots.
    pub fn outcomes(&mut self, count: usize) -> Vec<SlotOutcome> {
        let end = Instant::now() + PATIENCE;
        while self.log.completions.lock().unwrap().len() < count {
            assert!(Instant::now() < end, "after {PATIENCE:?}: {:?}", self.log.completions);
            self.client.drive(Stamp::now().plus(50_000_000)).unwrap();
        }
        // Nothing may end twice.
        self.client.drive(Stamp::now().plus(20_000_000)).unwrap();
        let mut all = std::mem::take(&mut *self.log.completions.lock().unwrap());
        assert_eq!(all.len(), count, "{all:?}");
        all.sort_by_key(|entry| entry.0);
        all
    }

    /// The outcome of one request in slot 0.
    pub fn infer(&mut self) -> Result<u32, (String, String)> {
        self.submit(0);
        self.outcomes(1).remove(0).1
    }

    pub fn fails(&mut self, code: &str, text: &str) {
        let (found, message) = self.infer().unwrap_err();
        assert_eq!(found, code, "{message}");
        assert!(message.contains(text), "{message}");
    }
}

pub fn connection(address: &str, setup: Setup) -> ConnectionPlan {
    waiting(address, setup, Duration::ZERO)
}

/// With so long for the server to be there.
fn waiting(address: &str, setup: Setup, server_wait: Duration) -> ConnectionPlan {
    ConnectionPlan {
        protocol: Protocol::Grpc { streaming: setup.streaming, compression: Compression::None },
        url: address.to_owned(),
        headers: vec![("X-Test".to_owned(), "1".to_owned())],
        tls: Tls::default(),
        server_wait,
        reconnect: setup.reconnect,
        renew: setup.renew,
        metrics_url: None,
        client_timeout: setup.deadline,
    }
}

/// A backend with a server that is there, however busy the machine is.
pub fn backend(address: &str, setup: Setup) -> GrpcBackend {
    GrpcBackend::connect(&waiting(address, setup, PATIENCE)).unwrap()
}

pub fn spec(setup: Setup) -> ClientSpec {
    let input = TensorSpec::plain("IN", DataType::Uint8, vec![setup.bytes as i64]);
    let output = TensorSpec::plain("O", DataType::Uint8, vec![setup.output]);
    let model = ModelSpec {
        versions: vec!["1".to_owned()],
        decoupled: setup.decoupled,
        ..ModelSpec::plain(&ModelId::latest("m"), vec![input], vec![output])
    };
    let bytes: Vec<u8> = (0..setup.bytes).map(|index| (index % 251) as u8).collect();
    let input = InputTensor {
        name: "IN".into(),
        datatype: DataType::Uint8,
        shape: [setup.bytes as i64].into(),
        region: Arc::new(Region::filled(Placement::Pageable, &bytes).unwrap()),
        offset: 0,
        len: setup.bytes,
    };
    let payload =
        Payload { model: 0, batch: 1, stream: 0, step: 0, inputs: vec![input], parameters: Vec::new(), expected: None };
    ClientSpec {
        slots: setup.slots,
        load_slots: setup.slots,
        connections: setup.connections,
        max_reply_bytes: setup.max_reply_bytes,
        replies: setup.replies,
        watch_responses: setup.watch,
        cancels: true,
        drain_limit: Duration::from_millis(100),
        ..ClientSpec::new([model].into(), [payload].into())
    }
}

/// One connection on which every request gets what `reply` makes of its stream.
fn replies(reply: impl Fn(u32) -> Vec<u8> + Send + Sync + 'static) -> impl Fn(usize, Peer) + Send + Sync + 'static {
    move |_, mut peer| {
        peer.shake_hands(WIDE);
        while let Some((stream, _)) = peer.request() {
            peer.say(&reply(stream));
        }
    }
}

#[test]
fn what_a_goaway_does_not_cover_goes_to_the_next_connection_or_fails_with_its_error() {
    const NO_ERROR: u32 = 0;
    const ENHANCE_YOUR_CALM: u32 = 11;
    for code in [NO_ERROR, ENHANCE_YOUR_CALM] {
        let mut bench = Bench::new(Setup { slots: 3, ..PLAIN }, move |number, mut peer| {
            peer.shake_hands(WIDE);
            if number > 0 {
                while let Some((stream, _)) = peer.request() {
                    peer.say(&answer(stream, &fitting(b"x")));
                }
                return;
            }
            for _ in 0..3 {
                peer.request();
            }
            peer.say(&goaway(1, code, "maintenance"));
            thread::sleep(Duration::from_millis(30));
            peer.say(&answer(1, &fitting(b"x")));
            peer.linger();
        });
        (0..3).for_each(|slot| bench.submit(slot));
        let outcomes = bench.outcomes(3);
        let failed: Vec<_> = outcomes.iter().filter_map(|(_, outcome)| outcome.as_ref().err()).collect();
        assert_eq!(failed.len(), if code == NO_ERROR { 0 } else { 2 }, "{failed:?}");
        assert!(failed.iter().all(|why| why.0 == "Unavailable" && why.1.contains("ENHANCE_YOUR_CALM, maintenance")));
        assert_eq!(bench.infer(), Ok(1));
    }
}

#[test]
fn a_reset_in_the_middle_ends_one_request_and_spares_the_connection() {
    let mut bench = Bench::new(
        PLAIN,
        replies(|stream| match stream {
            1 => [
                response_headers(1),
                data(1, &message(b"12345")[..7]),
                frame(RST_STREAM, 0, 1, &2_u32.to_be_bytes()),
                data(1, b"late bytes are nobody's"),
            ]
            .concat(),
            other => answer(other, &fitting(b"x")),
        }),
    );
    bench.fails("Stream reset", "INTERNAL_ERROR");
    assert_eq!(bench.infer(), Ok(1));
}

#[test]
fn truncated_answers_are_failures() {
    let cut_frame = |_: usize, mut peer: Peer| {
        peer.shake_hands(WIDE);
        peer.request();
        let whole = answer(1, b"0123456789");
        peer.say(&whole[..whole.len() - 40]);
    };
    Bench::new(PLAIN, cut_frame).fails("Connection closed", "");
    let mut bench = Bench::new(
        PLAIN,
        replies(|stream| {
            [response_headers(stream), data(stream, &message(b"12345")[..8]), trailers(stream, "0")].concat()
        }),
    );
    bench.fails("Protocol error", "without an answer");
    let mut bench = Bench::new(
        PLAIN,
        replies(|stream| {
            [
                response_headers(stream),
                data(stream, &message(&fitting(b"x"))),
                data(stream, &[0, 0]),
                trailers(stream, "0"),
            ]
            .concat()
        }),
    );
    bench.fails("Protocol error", "inside a message");
    let no_trailers =
        |stream| [response_headers(stream), frame(DATA, END_STREAM, stream, &message(&fitting(b"x")))].concat();
    Bench::new(PLAIN, replies(no_trailers)).fails("Protocol error", "without a status");
}

#[test]
fn answers_that_are_no_messages_are_failures_whoever_looks() {
    for watch in [false, true] {
        let garbage = |stream| answer(stream, b"\xff\xff\xff");
        Bench::new(Setup { watch, ..PLAIN }, replies(garbage)).fails("Protocol error", "not a message of the protocol");
    }
}

#[test]
fn outputs_without_their_contents_are_failures_whoever_looks() {
    // An output of one UINT8, and its byte.
    let (output, raw) = (b"\x2a\x0c\x0a\x01O\x12\x05UINT8\x18\x01", b"\x32\x01\x07");
    for watch in [false, true] {
        let setup = Setup { watch, ..PLAIN };
        let whole = |stream| answer(stream, &[&output[..], raw].concat());
        assert_eq!(Bench::new(setup, replies(whole)).infer(), Ok(1));
        for parts in [vec![&output[..]], vec![&output[..], output, raw], vec![&output[..], raw, raw]] {
            let lacking = move |stream| answer(stream, &parts.concat());
            Bench::new(setup, replies(lacking)).fails("Unexpected response", "different numbers of outputs");
        }
    }
}

#[test]
fn timed_a_server_that_forbids_shared_memory_gives_its_reason() {
    let (address, _) = serve(|_, mut peer| {
        peer.shake_hands(WIDE);
        peer.linger();
    });
    let outputs = OutputPlan { placements: Placement::System.into(), variable_bytes: 64 };
    let begin = Instant::now();
    let opened = backend(&address, PLAIN).open_client(ClientSpec { outputs, ..spec(PLAIN) }, Arc::new(Log::default()));
    let error = opened.err().unwrap().to_string();
    assert!(error.contains(NO_SHARED_MEMORY) && error.contains("--shared-memory: the server at "), "{error}");
    assert!(begin.elapsed() < Duration::from_secs(1));
}

#[test]
fn sizes_beyond_the_limits_are_refused() {
    let huge = |stream| [response_headers(stream), data(stream, &[0, 0xff, 0xff, 0xff, 0xff])].concat();
    Bench::new(PLAIN, replies(huge)).fails("Protocol error", "longer than the 2147483647");
    let frame_header = |stream: u32| [&[0xff, 0xff, 0xff, DATA, 0][..], &stream.to_be_bytes()].concat();
    Bench::new(PLAIN, replies(frame_header)).fails("Protocol error", "FRAME_SIZE_ERROR");
    let long_block = |stream| frame(HEADERS, END_HEADERS, stream, &vec![0x88; 100_000]);
    Bench::new(PLAIN, replies(long_block)).fails("Protocol error", "FRAME_SIZE_ERROR");
    let endless = |stream: u32| {
        let more = frame(9, 0, stream, &[0x88; 16_000]);
        [frame(HEADERS, 0, stream, &[0x88]), more.repeat(10)].concat()
    };
    Bench::new(PLAIN, replies(endless)).fails("Protocol error", "ENHANCE_YOUR_CALM");
    let twice = |stream| {
        [response_headers(stream), data(stream, &message(&fitting(b"x")).repeat(2)), trailers(stream, "0")].concat()
    };
    Bench::new(PLAIN, replies(twice)).fails("Protocol error", "several messages");
}

#[test]
fn statuses_are_told_by_name() {
    // Trailers, code word, message.
    type Case = (&'static [(&'static str, &'static str)], &'static str, &'static str);
    let cases: [Case; 8] = [
        (&[("grpc-status", "3"), ("grpc-message", "bad%20shape %25")], "Invalid argument", "bad shape %"),
        (&[("grpc-status", "5")], "Not found", ""),
        (&[("grpc-status", "12")], "Unsupported", ""),
        (&[("grpc-status", "13")], "Internal", ""),
        (&[("grpc-status", "14")], "Unavailable", ""),
        (&[("grpc-status", "99"), ("grpc-message", "odd")], "Unknown", "status 99: odd"),
        (&[("grpc-status", "nonsense")], "Unknown", "nonsense"),
        (&[("x", "y")], "Protocol error", "without a status"),
    ];
    for (fields, code, text) in cases {
        // After an answer, after headers alone, and as trailers only.
        let fields: Vec<(&'static str, &'static str)> = fields.to_vec();
        let only: Vec<_> = [(":status", "200")].into_iter().chain(fields.iter().copied()).collect();
        let forms: [Box<dyn Fn(u32) -> Vec<u8> + Send + Sync>; 2] = [
            Box::new(move |stream| [response_headers(stream), headers(stream, END_STREAM, &fields)].concat()),
            Box::new(move |stream| headers(stream, END_STREAM, &only)),
        ];
        for form in forms {
            Bench::new(PLAIN, replies(form)).fails(code, text);
        }
    }
    let http = |stream| headers(stream, END_STREAM, &[(":status", "503")]);
    Bench::new(PLAIN, replies(http)).fails("Unavailable", "503");
    let early = |stream| [headers(stream, 0, &[(":status", "103")]), answer(stream, &fitting(b"x"))].concat();
    assert_eq!(Bench::new(PLAIN, replies(early)).infer(), Ok(1));
}

#[test]
fn timed_a_silent_server_is_not_waited_for_beyond_the_deadline() {
    let (sender, receiver) = std::sync::mpsc::channel();
    let sender = Mutex::new(sender);
    let setup = Setup { deadline: Some(Duration::from_millis(100)), ..PLAIN };
    let mut bench = Bench::new(setup, move |_, mut peer| {
        peer.shake_hands(WIDE);
        let reset = peer.next_of(RST_STREAM).unwrap();
        sender.lock().unwrap().send(reset.payload).unwrap();
        // Too late to count.
        peer.say(&answer(reset.stream, &fitting(b"x")));
        while let Some((stream, _)) = peer.request() {
            peer.say(&answer(stream, &fitting(b"x")));
        }
    });
    let begin = Instant::now();
    bench.fails("Deadline exceeded", "no answer within 100000 us (--client-timeout-us)");
    assert!(begin.elapsed() >= Duration::from_millis(100));
    assert_eq!(receiver.recv_timeout(PATIENCE).unwrap(), 8_u32.to_be_bytes());
    assert_eq!(bench.infer(), Ok(1));
}

#[test]
fn timed_a_half_closed_connection_is_lost_and_what_is_sent_on_others_fails_at_once() {
    let mut bench = Bench::new(Setup { slots: 2, ..PLAIN }, |number, mut peer| {
        peer.shake_hands(WIDE);
        (number..2).for_each(|_| drop(peer.request()));
        peer.half_close();
        peer.linger();
    });
    bench.submit(0);
    bench.submit(1);
    for (_, outcome) in bench.outcomes(2) {
        assert_eq!(outcome.unwrap_err().0, "Connection closed");
    }
    let begin = Instant::now();
    for _ in 0..4 {
        bench.fails("Connection closed", "");
    }
    assert!(begin.elapsed() < Duration::from_secs(1));
}

#[test]
fn a_lost_connection_is_made_again() {
    let mut bench = Bench::new(PLAIN, |number, mut peer| {
        peer.shake_hands(WIDE);
        while let Some((stream, _)) = peer.request() {
            if number == 0 {
                return;
            }
            peer.say(&answer(stream, &fitting(b"x")));
        }
    });
    assert!(bench.infer().is_err());
    assert_eq!(bench.infer(), Ok(1));
    assert_eq!(bench.infer(), Ok(1));
}

#[test]
fn a_connection_that_ended_before_its_first_request_costs_none() {
    let (ended, has_ended) = std::sync::mpsc::sync_channel(1);
    let mut bench = Bench::new(Setup { reconnect: true, ..PLAIN }, move |number, mut peer| {
        peer.shake_hands(WIDE);
        if number == 0 {
            // Only then has the client its connection.
            while peer.frame().is_some_and(|frame| (frame.kind, frame.flags) != (SETTINGS, ACK)) {}
            drop(peer);
            ended.send(()).unwrap();
            return;
        }
        while let Some((stream, _)) = peer.request() {
            peer.say(&answer(stream, &fitting(b"x")));
        }
    });
    has_ended.recv_timeout(PATIENCE).unwrap();
    assert_eq!(bench.infer(), Ok(1));
}

#[test]
fn a_connection_that_is_lost_again_at_once_is_made_again_at_once() {
    let mut bench = Bench::new(Setup { reconnect: true, ..PLAIN }, |number, mut peer| {
        peer.shake_hands(WIDE);
        while let Some((stream, _)) = peer.request() {
            if number < 3 {
                return;
            }
            peer.say(&answer(stream, &fitting(b"x")));
        }
    });
    // Each loss costs the request that was under way, and no other.
    let outcomes: Vec<bool> = (0..5).map(|_| bench.infer().is_ok()).collect();
    assert_eq!(outcomes, [false, false, false, true, true]);
}

#[test]
fn compressed_answers_are_unpacked_and_checked() {
    use flate2::{Compression as Level, write};
    use std::io::Write;
    let output = fitting(&[7, 9]);
    let mut gzip = write::GzEncoder::new(Vec::new(), Level::best());
    gzip.write_all(&output).unwrap();
    let mut zlib = write::ZlibEncoder::new(Vec::new(), Level::best());
    zlib.write_all(&output).unwrap();
    let cases = [
        ("gzip", gzip.finish().unwrap(), Ok("")),
        ("deflate", zlib.finish().unwrap(), Ok("")),
        ("gzip", b"no gzip".to_vec(), Err(("Protocol error", "cannot be read"))),
        ("identity", b"x".to_vec(), Err(("Protocol error", "name no encoding"))),
        ("brotli", b"x".to_vec(), Err(("Unsupported", "brotli"))),
    ];
    for (watch, (encoding, packed, expected)) in
        [true, false].iter().flat_map(|watch| cases.clone().map(|case| (*watch, case)))
    {
        let mut bench = Bench::new(
            Setup { watch, ..PLAIN },
            replies(move |stream| {
                let fields = [(":status", "200"), ("grpc-encoding", encoding)];
                let mut body = message(&packed);
                body[0] = 1;
                [headers(stream, 0, &fields), data(stream, &body), trailers(stream, "0")].concat()
            }),
        );
        match expected {
            Ok(_) => {
                assert_eq!(bench.infer(), Ok(1));
                let responses = bench.log.responses.lock().unwrap();
                assert_eq!(*responses, if watch { vec!["0 empty=false O=[7, 9]"] } else { Vec::new() });
            }
            Err((code, text)) => bench.fails(code, text),
        }
    }
}

#[test]
fn what_answers_in_html_is_no_grpc_server() {
    for (status, words) in [("200", "content-type is text/html"), ("404", "HTTP status 404")] {
        let fields = [(":status", status), ("content-type", "text/html")];
        let page = move |stream| [headers(stream, 0, &fields), data(stream, b"<html>hello</html>")].concat();
        let (found, message) = Bench::new(PLAIN, replies(page)).infer().unwrap_err();
        assert!(message.contains(words) && message.contains("text/html"), "{found}: {message}");
    }
    // The same of a question.
    for flags in [0, END_STREAM] {
        let address = serve_all(replies(move |stream| {
            let fields = [(":status", "404"), ("content-type", "text/html")];
            [headers(stream, 0, &fields), frame(DATA, flags, stream, b"<html>hello</html>")].concat()
        }));
        let error = GrpcBackend::connect(&connection(&address, PLAIN)).err().unwrap().to_string();
        assert!(error.contains("HTTP status 404 without a gRPC status, with content-type text/html"), "{error}");
    }
    let bare = |stream| headers(stream, END_STREAM, &[(":status", "200"), ("grpc-status", "9")]);
    Bench::new(PLAIN, replies(bare)).fails("Failed precondition", "the server gives no reason");
}

#[test]
fn a_compressed_answer_is_there_once_it_is_decompressed() {
    use flate2::{Compression as Level, read, write};
    use std::io::{Read, Write};
    // An unknown field of 40 MiB, which all readers pass over.
    let unknown = [15 << 3 | 2, 0x80, 0x80, 0x80, 0x14];
    let mut gzip = write::GzEncoder::new(Vec::new(), Level::best());
    gzip.write_all(&[&fitting(b"x")[..], &unknown, &vec![0; 40 << 20]].concat()).unwrap();
    let mut packed = message(&gzip.finish().unwrap());
    packed[0] = 1;
    let began = Instant::now();
    read::GzDecoder::new(&packed[5..]).read_to_end(&mut Vec::new()).unwrap();
    let alone = began.elapsed();
    let mut bench = Bench::new(
        PLAIN,
        replies(move |stream| {
            let fields = [(":status", "200"), ("grpc-encoding", "gzip")];
            let body: Vec<u8> = packed.chunks(16_000).flat_map(|piece| data(stream, piece)).collect();
            [headers(stream, 0, &fields), body, trailers(stream, "0")].concat()
        }),
    );
    assert_eq!(bench.infer(), Ok(1));
    let latency = bench.log.latencies.lock().unwrap()[0];
    assert!(latency > alone / 2, "{latency:?} with {alone:?} of decompressing");
}

#[test]
fn bodies_flow_as_windows_are_opened_and_changed() {
    let bytes = 300_000;
    let (sender, receiver) = std::sync::mpsc::channel();
    let sender = Mutex::new(sender);
    let mut bench = Bench::new(Setup { bytes, ..PLAIN }, move |_, mut peer| {
        peer.shake_hands(&[(4, 1000)]);
        let mut body = Vec::new();
        let mut ended = false;
        while body.len() < 1000 {
            body.extend_from_slice(&peer.next_of(DATA).unwrap().payload);
        }
        // The stream's window shrinks below what was used, is opened a little, and then made wide.
        peer.settings(&[(4, 500)]);
        peer.say(&window(1, 1500));
        while body.len() < 2000 {
            body.extend_from_slice(&peer.next_of(DATA).unwrap().payload);
        }
        peer.settings(&[(4, 1 << 20), (5, 100_000)]);
        while !ended {
            let frame = peer.next_of(DATA).unwrap();
            ended = frame.flags & END_STREAM != 0;
            body.extend_from_slice(&frame.payload);
        }
        sender.lock().unwrap().send(body).unwrap();
        peer.say(&answer(1, &fitting(b"x")));
        peer.linger();
    });
    assert_eq!(bench.infer(), Ok(1));
    let body = receiver.recv_timeout(PATIENCE).unwrap();
    let length = u32::from_be_bytes(body[1..5].try_into().unwrap()) as usize;
    assert_eq!(length, body.len() - 5);
    let tensor = &body[body.len() - bytes..];
    assert!(tensor.iter().enumerate().all(|(index, &byte)| byte == (index % 251) as u8));
}

#[test]
fn a_window_that_never_opens_meets_the_deadline() {
    let setup = Setup { bytes: 100_000, slots: 2, deadline: Some(Duration::from_millis(150)), ..PLAIN };
    let mut bench = Bench::new(setup, |_, mut peer| {
        peer.shake_hands(&[(4, 0)]);
        peer.linger();
    });
    bench.submit(0);
    bench.submit(1);
    for (_, outcome) in bench.outcomes(2) {
        assert_eq!(outcome.unwrap_err().0, "Deadline exceeded");
    }
}

#[test]
fn interleaved_answers_find_their_requests() {
    let mut bench = Bench::new(Setup { slots: 3, watch: true, ..PLAIN }, |_, mut peer| {
        peer.shake_hands(WIDE);
        let streams: Vec<u32> = (0..3).map(|_| peer.request().unwrap().0).collect();
        let body = |stream: u32| message(&fitting(&[stream as u8]));
        streams.iter().rev().for_each(|&stream| peer.say(&response_headers(stream)));
        for index in 0..body(1).len() {
            streams.iter().for_each(|&stream| peer.say(&data(stream, &body(stream)[index..=index])));
        }
        streams.iter().rev().for_each(|&stream| peer.say(&trailers(stream, "0")));
        peer.linger();
    });
    (0..3).for_each(|slot| bench.submit(slot));
    assert!(bench.outcomes(3).iter().all(|entry| entry.1 == Ok(1)));
    let mut lines = bench.log.responses.lock().unwrap().clone();
    lines.sort();
    assert_eq!(lines, ["0 empty=false O=[1]", "1 empty=false O=[3]", "2 empty=false O=[5]"]);
}

#[test]
fn no_more_streams_are_opened_than_the_server_allows() {
    let mut bench = Bench::new(Setup { slots: 4, ..PLAIN }, |_, mut peer| {
        peer.shake_hands(&[(3, 1), (4, 1 << 20)]);
        for expected in [1, 3, 5, 7] {
            let (stream, _) = peer.request().unwrap();
            assert_eq!(stream, expected);
            thread::sleep(Duration::from_millis(5));
            peer.say(&answer(stream, &fitting(b"x")));
        }
        peer.linger();
    });
    (0..4).for_each(|slot| bench.submit(slot));
    assert!(bench.outcomes(4).iter().all(|entry| entry.1 == Ok(1)));
}

#[test]
fn what_waits_for_a_stream_is_passed_by_nobody_when_another_is_given_up() {
    let mut bench = Bench::new(Setup { slots: 3, ..PLAIN }, |_, mut peer| {
        peer.shake_hands(&[(3, 1), (4, 1 << 20)]);
        peer.request().unwrap();
        while let Some((stream, _)) = peer.request() {
            peer.say(&answer(stream, &fitting(b"x")));
        }
    });
    (0..3).for_each(|slot| bench.submit(slot));
    // One that waits, and the one that has the stream; both slots begin again behind the one that still waits.
    for slot in [1, 0] {
        assert!(bench.client.cancel(SlotId(slot), Stamp::now()));
    }
    while bench.log.completions.lock().unwrap().len() < 2 {
        bench.client.drive(Stamp::now()).unwrap();
    }
    bench.submit(1);
    bench.submit(0);
    let end = Instant::now() + PATIENCE;
    while bench.log.completions.lock().unwrap().len() < 5 {
        assert!(Instant::now() < end, "{:?}", bench.log.completions);
        bench.client.drive(Stamp::now().plus(50_000_000)).unwrap();
    }
    let completions = bench.log.completions.lock().unwrap();
    let order: Vec<(u32, bool)> = completions.iter().map(|(slot, outcome)| (*slot, outcome.is_ok())).collect();
    assert_eq!(order, [(1, false), (0, false), (2, true), (1, true), (0, true)]);
}

#[test]
fn a_server_that_keeps_no_header_fields_is_told_that_none_are_needed() {
    let address = serve_all(|number, mut peer| {
        peer.shake_hands(&[(1, 0), (4, 1 << 30)]);
        let answers = if number == 0 { [vec![8, 1], vec![]] } else { [fitting(b"x"), fitting(b"x")] };
        let (mut answers, mut is_resized) = (answers.into_iter(), false);
        while let (Some(head), Some(body)) = (peer.next_of(HEADERS), answers.next()) {
            is_resized |= head.payload[0] == 0x20;
            if !is_resized {
                return peer.say(&goaway(0, 9, "the size of the table is missing"));
            }
            let (stream, _) = peer.request().unwrap();
            peer.say(&answer(stream, &body));
        }
        peer.linger();
    });
    let mut bench = Bench::at(&address, PLAIN);
    assert_eq!((bench.infer(), bench.infer()), (Ok(1), Ok(1)));
}

#[test]
fn a_cancelled_request_ends_once_and_the_server_is_told() {
    let (sender, receiver) = std::sync::mpsc::channel();
    let sender = Mutex::new(sender);
    let mut bench = Bench::new(Setup { slots: 2, ..PLAIN }, move |_, mut peer| {
        peer.shake_hands(WIDE);
        let reset = peer.next_of(RST_STREAM).unwrap();
        sender.lock().unwrap().send((reset.stream, reset.payload)).unwrap();
        peer.say(&[answer(1, &fitting(b"x")), answer(3, &fitting(b"x"))].concat());
        peer.linger();
    });
    bench.submit(0);
    bench.submit(1);
    assert!(bench.client.cancel(SlotId(1), Stamp::now()));
    assert!(bench.client.cancel(SlotId(1), Stamp::now()));
    let outcomes = bench.outcomes(2);
    assert_eq!(outcomes[0].1, Ok(1));
    assert_eq!(outcomes[1].1.as_ref().unwrap_err().0, "Cancelled");
    assert_eq!(receiver.recv_timeout(PATIENCE).unwrap(), (3, 8_u32.to_be_bytes().to_vec()));
}

#[test]
fn garbage_and_other_protocols_are_told_apart() {
    let garbage = |stream: u32| frame(HEADERS, END_HEADERS, stream, &[0xff; 20]);
    Bench::new(PLAIN, replies(garbage)).fails("Protocol error", "COMPRESSION_ERROR");
    let push = |stream: u32| frame(5, END_HEADERS, stream, &[0, 0, 0, 2, 0x88]);
    Bench::new(PLAIN, replies(push)).fails("Protocol error", "pushes");
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let server = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        std::io::Write::write_all(&mut stream, b"HTTP/1.1 400 Bad Request\r\n\r\n").unwrap();
        thread::sleep(Duration::from_millis(200));
    });
    let error = GrpcBackend::connect(&connection(&address, PLAIN)).err().unwrap().to_string();
    assert!(error.contains("gRPC port"), "{error}");
    server.join().unwrap();
    let closing = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = closing.local_addr().unwrap().port();
    thread::spawn(move || {
        for peer in closing.incoming().flatten() {
            let _ = std::io::Read::read(&mut &peer, &mut [0; 1 << 12]);
        }
    });
    for (scheme, words) in [
        ("grpc", "is this the server's gRPC port? if it speaks TLS, use grpcs:// in -u"),
        ("grpcs", "the server closed the connection; does that port speak TLS?"),
    ] {
        let tls = Tls { skip_peer_verification: true, ..Tls::default() };
        let plan = ConnectionPlan { tls, ..connection(&format!("{scheme}://127.0.0.1:{port}"), PLAIN) };
        let error = GrpcBackend::connect(&plan).err().unwrap().to_string();
        assert!(error.contains(words), "{error}");
    }
    let error = GrpcBackend::connect(&connection(&address, PLAIN)).err().unwrap().to_string();
    assert!(error.contains("Connection refused") && error.contains(&address), "{error}");
}

#[test]
fn timed_what_is_outstanding_when_a_client_is_dropped_is_given_up() {
    let bench = {
        let mut bench = Bench::new(PLAIN, |_, mut peer| {
            peer.shake_hands(WIDE);
            peer.linger();
        });
        bench.submit(0);
        bench
    };
    let begin = Instant::now();
    assert_eq!(bench.log.completions.lock().unwrap().len(), 0);
    drop(bench);
    assert!(begin.elapsed() < Duration::from_secs(2));
}
