//! Servers that never finish: floods, unbounded answers, bytes that trickle. Each is refused in bounded time and
//! memory.

use std::io::Write;
use std::time::{Duration, Instant};

use flate2::{Compression as Level, write::GzEncoder};
use triton_bench::backend::Backend;
use triton_bench::backends::kserve_grpc::GrpcBackend;
use triton_bench::model::ModelId;

use super::peer::{
    END_STREAM, HEADERS, Peer, RST_STREAM, SETTINGS, WIDE, WINDOW_UPDATE, answer, be_ready, data, field, fitting,
    frame, headers, message, output, response_headers, serve_all, trailers,
};
use super::{Bench, PATIENCE, PLAIN, Setup, backend, connection, replies};
use crate::other_servers::grpc::questions;
use crate::support::Program;

const PRIORITY: u8 = 2;
const PING: u8 = 6;
/// No server is let flood for longer.
const FLOOD: Duration = Duration::from_secs(20);

/// The most memory that this process has had, in MiB.
fn peak_mib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").trim().parse::<u64>().unwrap() / 1024
}

/// Runs `act` in bounded time and memory.
fn bounded<T>(act: impl FnOnce() -> T) -> T {
    let (before, begin) = (peak_mib(), Instant::now());
    let result = act();
    assert!(begin.elapsed() < PATIENCE, "it took {:?}", begin.elapsed());
    let grown = peak_mib().saturating_sub(before);
    assert!(grown < 200, "it took {grown} MiB");
    result
}

/// Why a backend cannot be made on that server.
fn refusal(address: &str) -> String {
    GrpcBackend::connect(&connection(address, PLAIN)).err().unwrap().to_string()
}

#[test]
fn a_flood_at_connect_is_refused() {
    for (frame, word) in [
        (frame(PING, 0, 0, &[7; 8]), "at once"),
        (frame(SETTINGS, 0, 0, &[]), "at once"),
        (frame(PRIORITY, 0, 1, &[0; 5]), "that concern no request"),
        (frame(WINDOW_UPDATE, 0, 0, &[0, 0, 0, 1]), "that concern no request"),
    ] {
        let (sender, receiver) = std::sync::mpsc::channel();
        let sender = std::sync::Mutex::new(sender);
        let address = serve_all(move |_, mut peer| {
            peer.settings(WIDE);
            let hung_up = peer.flood(&frame, FLOOD);
            sender.lock().unwrap().send(hung_up).unwrap();
        });
        let error = bounded(|| refusal(&address));
        assert!(error.contains("ENHANCE_YOUR_CALM") && error.contains(word), "{error}");
        assert!(receiver.recv_timeout(PATIENCE).unwrap(), "the client is still there");
    }
}

#[test]
fn a_flood_whose_answers_are_read_is_refused_too() {
    for (frame, pause) in [(frame(PING, 0, 0, &[7; 8]), true), (frame(0, 0, 1, &[]), false)] {
        let address = serve_all(move |_, mut peer| {
            peer.shake_hands(WIDE);
            peer.next_of(HEADERS).unwrap();
            peer.flood_and_read(&frame, pause, FLOOD);
        });
        let error = bounded(|| refusal(&address));
        assert!(error.contains("ENHANCE_YOUR_CALM") && error.contains("that concern no request"), "{error}");
    }
}

#[test]
fn a_flood_during_a_load_ends_the_connection_and_its_requests() {
    for frame in [frame(PING, 0, 0, &[7; 8]), frame(SETTINGS, 0, 0, &[]), frame(RST_STREAM, 0, 1, &[0; 4])] {
        let mut bench = Bench::new(Setup { slots: 2, ..PLAIN }, move |_, mut peer| {
            peer.shake_hands(WIDE);
            let (first, _) = peer.request().unwrap();
            peer.say(&answer(first, &fitting(b"x")));
            peer.request().unwrap();
            peer.flood(&frame, FLOOD);
        });
        assert_eq!(bench.infer(), Ok(1));
        bounded(|| bench.fails("Protocol error", "ENHANCE_YOUR_CALM"));
    }
}

#[test]
fn questions_wait_for_a_server_that_allows_none_at_first() {
    // Each connection is treated so: another one would be no answer.
    let address = serve_all(|_, mut peer| {
        peer.shake_hands(&[(4, 1 << 30), (3, 0)]);
        std::thread::sleep(Duration::from_millis(300));
        peer.settings(&[(3, 1)]);
        for body in [&[8, 1][..], &[]] {
            let Some((stream, _)) = peer.request() else { return };
            peer.say(&answer(stream, body));
        }
        peer.linger();
    });
    backend(&address, PLAIN);
    let never = serve_all(|_, mut peer| {
        peer.shake_hands(&[(4, 1 << 30), (3, 0)]);
        peer.linger();
    });
    let error = bounded(|| refusal(&never));
    assert!(error.contains("takes no calls on this connection"), "{error}");
}

#[test]
fn timed_control_calls_keep_their_deadline_whatever_trickles() {
    // Each byte of a long answer comes in a frame of its own, and the socket is never empty.
    let address = serve_all(|number, mut peer| {
        if number == 0 {
            return be_ready_and(peer, |peer, stream| {
                peer.say(&[response_headers(stream), data(stream, &[0, 3, 0xff, 0xff, 0xff])].concat());
                peer.flood(&data(stream, b"x"), FLOOD);
            });
        }
        peer.shake_hands(WIDE);
        peer.linger();
    });
    let backend = backend(&address, PLAIN);
    let begin = Instant::now();
    let error = backend.statistics(&ModelId::latest("m")).unwrap_err().to_string();
    assert!(error.contains("did not answer in time"), "{error}");
    assert!(begin.elapsed() < Duration::from_millis(3500), "{:?}", begin.elapsed());
}

#[test]
fn an_interrupt_before_the_first_level_began_is_no_fault() {
    let (sender, receiver) = std::sync::mpsc::channel();
    let sender = std::sync::Mutex::new(sender);
    let address = serve_all(move |number, mut peer| {
        if number > 0 {
            sender.lock().unwrap().send(()).unwrap();
            return peer.linger();
        }
        peer.shake_hands(WIDE);
        questions(&mut peer);
    });
    let running = Program::new().args("-m m -i grpc -b 1 --sync -p 200 -u").arg(&address).start();
    receiver.recv_timeout(FLOOD).unwrap();
    running.signal(2);
    let run = running.finish();
    assert_eq!(run.code(), 130, "{} {}", run.stdout, run.stderr);
    assert!(run.stderr.contains("the user interrupted before the server had answered"), "{}", run.stderr);
    assert!(!run.stderr.contains("error: "), "{}", run.stderr);
}

#[test]
fn timed_one_interrupt_ends_connections_without_settings_and_keeps_the_results() {
    let (sender, receiver) = std::sync::mpsc::channel();
    let sender = std::sync::Mutex::new(sender);
    let address = serve_all(move |number, mut peer| {
        if number > 1 {
            // A level may be measured already; the next one's connections say nothing.
            sender.lock().unwrap().send(()).unwrap();
            return peer.linger();
        }
        peer.shake_hands(WIDE);
        if number == 0 {
            return questions(&mut peer);
        }
        let reply = [field(1, b"m"), output("O", "UINT8", &[1, 4], &[1, 2, 3, 4])].concat();
        while let Some((stream, _)) = peer.request() {
            peer.say(&answer(stream, &reply));
        }
    });
    let flags = "-m m -i grpc -b 1 --sync -p 200 -r 3 -s 1000000 --concurrency-range 1:4 -u";
    let running = Program::new().args(flags).arg(&address).start();
    receiver.recv_timeout(FLOOD).unwrap();
    running.signal(2);
    let interrupted = Instant::now();
    let run = running.finish();
    assert!(interrupted.elapsed() < Duration::from_secs(3), "{:?}: {}", interrupted.elapsed(), run.stderr);
    assert!(run.report().levels[0].client_number("Request count") > 0.0, "{}", run.stdout);
    assert!(run.stderr.contains("the user interrupted before the server had answered"), "{}", run.stderr);
}

#[test]
fn timed_settings_that_trickle_do_not_hold_up_the_connection() {
    let address = serve_all(|_, mut peer| {
        let first = frame(SETTINGS, 0, 0, &[0; 60]);
        for byte in first.iter().cycle() {
            if peer.0.write_all(&[*byte]).is_err() {
                return;
            }
            std::thread::sleep(Duration::from_millis(250));
        }
    });
    let begin = Instant::now();
    let error = refusal(&address);
    assert!(error.contains("settings in time"), "{error}");
    assert!(begin.elapsed() < Duration::from_secs(8), "{:?}", begin.elapsed());
}

/// Answers the control plane until the connection is ready, then follows `script` with the stream of the next call.
fn be_ready_and(mut peer: Peer, script: impl Fn(&mut Peer, u32)) {
    peer.shake_hands(WIDE);
    for body in [&[8, 1][..], &[]] {
        let Some((stream, _)) = peer.request() else { return };
        peer.say(&answer(stream, body));
    }
    while let Some((stream, _)) = peer.request() {
        script(&mut peer, stream);
    }
}

/// Why the statistics of a server that answers so cannot be read.
fn statistics_refusal(reply: impl Fn(u32) -> Vec<u8> + Send + Sync + 'static) -> String {
    let address = serve_all(move |_, peer| be_ready_and(peer, |peer, stream| peer.say(&reply(stream))));
    let backend = backend(&address, PLAIN);
    bounded(|| backend.statistics(&ModelId::latest("m")).unwrap_err().to_string())
}

#[test]
fn control_answers_are_short_and_not_compressed() {
    // None of these ends its stream.
    let long = statistics_refusal(|stream| [response_headers(stream), data(stream, &[0, 4, 0, 0, 1])].concat());
    assert!(long.contains("67108865 bytes is longer than the 67108864"), "{long}");
    let packed = statistics_refusal(|stream| {
        let fields = [(":status", "200"), ("grpc-encoding", "gzip")];
        [headers(stream, 0, &fields), data(stream, &[1, 0, 0, 0, 1, 9])].concat()
    });
    assert!(packed.contains("not asked for"), "{packed}");
    let twice = statistics_refusal(|stream| [response_headers(stream), data(stream, &message(&[]).repeat(2))].concat());
    assert!(twice.contains("several messages"), "{twice}");
    let address = serve_all(|_, mut peer| {
        peer.shake_hands(WIDE);
        let (stream, _) = peer.request().unwrap();
        peer.say(&[response_headers(stream), data(stream, &[0, 0, 0x20, 0, 0])].concat());
        peer.linger();
    });
    let ready = bounded(|| refusal(&address));
    assert!(ready.contains("2097152 bytes is longer than the 1048576"), "{ready}");
}

/// A whole answer of `count` fields without contents, in frames.
fn hollow(stream: u32, tag: u8, count: usize) -> Vec<u8> {
    let body = message(&[tag << 3 | 2, 0].repeat(count));
    let frames = body.chunks(1 << 20).map(|chunk| data(stream, chunk)).collect::<Vec<_>>().concat();
    [response_headers(stream), frames, trailers(stream, "0")].concat()
}

#[test]
fn answers_of_hollow_entries_take_little_memory() {
    let error = statistics_refusal(|stream| hollow(stream, 1, 10_000_000));
    assert!(error.contains("more than 10000 versions"), "{error}");
    for (tag, word) in [(2, "10000 versions"), (4, "100000 tensors"), (5, "100000 tensors")] {
        let address = serve_all(move |_, peer| {
            let asked = std::cell::Cell::new(0);
            be_ready_and(peer, |peer, stream| {
                let ready = asked.replace(asked.get() + 1) == 0;
                peer.say(&if ready { answer(stream, &[8, 1]) } else { hollow(stream, tag, 10_000_000) });
            });
        });
        let backend = backend(&address, PLAIN);
        let error = bounded(|| backend.model(&ModelId::latest("m")).unwrap_err().to_string());
        assert!(error.contains(word), "{error}");
    }
}

#[test]
fn answers_are_bounded_by_the_models_outputs_or_by_the_flag() {
    let announce = |length: u32| {
        move |stream| [response_headers(stream), data(stream, &[&[0][..], &length.to_be_bytes()].concat())].concat()
    };
    for streaming in [false, true] {
        let fixed = Setup { output: 64, streaming, ..PLAIN };
        // A model's configuration may be wrong, but not by so much.
        bounded(|| {
            Bench::new(fixed, on_any_data(announce(5_000_000))).fails("Protocol error", "5000000 bytes is longer")
        });
        let asked = Setup { max_reply_bytes: 1000, streaming, ..PLAIN };
        bounded(|| Bench::new(asked, on_any_data(announce(1001))).fails("Protocol error", "longer than the 1000"));
    }
    let fits = move |stream| answer(stream, &fitting(&[1; 64]));
    assert_eq!(Bench::new(Setup { output: 64, ..PLAIN }, replies(fits)).infer(), Ok(1));
}

/// One connection on which every DATA frame gets what `reply` makes of its stream.
fn on_any_data(reply: impl Fn(u32) -> Vec<u8> + Send + Sync + 'static) -> impl Fn(usize, Peer) + Send + Sync + 'static {
    move |_, mut peer| {
        peer.shake_hands(WIDE);
        while let Some(frame) = peer.next_of(0) {
            peer.say(&reply(frame.stream));
        }
    }
}

#[test]
fn what_is_compressed_is_bounded_unpacked() {
    let pack = |bytes: &[u8]| {
        let mut gzip = GzEncoder::new(Vec::new(), Level::best());
        gzip.write_all(bytes).unwrap();
        gzip.finish().unwrap()
    };
    // An unknown field of 40 MiB, which all readers pass over; members of the format follow each other.
    let unknown = pack(&[&fitting(b"x")[..], &[15 << 3 | 2, 0x80, 0x80, 0x80, 0x14]].concat());
    let packed = [unknown, pack(&[0; 1 << 20]).repeat(40)].concat();
    let mut bomb = message(&packed);
    bomb[0] = 1;
    for setup in [Setup { output: 64, ..PLAIN }, Setup { max_reply_bytes: 1 << 20, ..PLAIN }] {
        let bomb = bomb.clone();
        let reply = move |stream| {
            let fields = [(":status", "200"), ("grpc-encoding", "gzip")];
            [headers(stream, 0, &fields), data(stream, &bomb), trailers(stream, "0")].concat()
        };
        bounded(|| Bench::new(setup, replies(reply)).fails("Protocol error", "it is longer than"));
    }
}

#[test]
fn an_endless_decoupled_answer_takes_no_memory() {
    let setup = Setup { streaming: true, decoupled: true, deadline: Some(Duration::from_secs(2)), ..PLAIN };
    let mut bench = Bench::new(setup, |_, mut peer| {
        peer.shake_hands(WIDE);
        let first = peer.next_of(0).unwrap();
        let at = first.payload.windows(2).position(|pair| pair == [3 << 3 | 2, 17]).unwrap();
        let last = field(4, &[field(1, b"triton_final_response"), field(2, &[8, 0])].concat());
        let response = [&first.payload[at..at + 19], &last, &fitting(&[7; 100])].concat();
        let long = [&[2 << 3 | 2, response.len() as u8 | 0x80, (response.len() >> 7) as u8][..], &response].concat();
        peer.say(&response_headers(first.stream));
        peer.flood(&data(first.stream, &message(&long)), FLOOD);
    });
    bounded(|| bench.fails("Deadline exceeded", ""));
}

#[test]
fn header_lists_that_unfold_are_refused() {
    let mut block = vec![0x40, 1, b'a', 0x7f, 0xa1, 0x1e];
    block.extend(std::iter::repeat_n(b'x', 4000));
    block.extend(std::iter::repeat_n(0xbe, 60_000));
    let unfolding = move |stream| frame(HEADERS, 4 | END_STREAM, stream, &block);
    bounded(|| Bench::new(PLAIN, replies(unfolding)).fails("Protocol error", "ENHANCE_YOUR_CALM"));
}

#[test]
fn a_server_that_is_ready_is_taken() {
    let address = serve_all(|_, peer| be_ready(peer));
    assert!(GrpcBackend::connect(&connection(&address, PLAIN)).is_ok());
}
