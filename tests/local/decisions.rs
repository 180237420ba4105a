//! The scripts of docs/decisions.md on scripted servers whose right answer is known.

use std::sync::{Condvar, Mutex};
use std::thread;
use std::time::Duration;

use crate::openai::{self, DONE, content};
use crate::support::Decision;
use crate::support::http_server::{Act, HttpServer, Received, good_answer, reply};

/// What is measured decides, however busy this machine is.
const SHORT: &str = "-p 200 --max-level-time 4s --on-disturbance ignore";

/// A server that answers after that time, however many ask.
fn slow(ms: u64) -> HttpServer {
    HttpServer::start(move |_: &Received| vec![Act::Wait(Duration::from_millis(ms)), Act::Send(good_answer())])
}

/// Places, each of which works on one request at a time.
struct Places {
    free: Mutex<usize>,
    given_back: Condvar,
}

impl Places {
    fn of(count: usize) -> Self {
        Self { free: Mutex::new(count), given_back: Condvar::new() }
    }

    fn work(&self, ms: u64) {
        *self.given_back.wait_while(self.free.lock().unwrap(), |free| *free == 0).unwrap() -= 1;
        thread::sleep(Duration::from_millis(ms));
        *self.free.lock().unwrap() += 1;
        self.given_back.notify_one();
    }
}

/// A server that works on so many requests at once, for so long on each.
fn places(count: usize, ms: u64) -> HttpServer {
    let places = Places::of(count);
    HttpServer::start(move |_: &Received| {
        places.work(ms);
        vec![Act::Send(good_answer())]
    })
}

fn on(heading: &str, server: &HttpServer) -> Decision {
    Decision::of(heading).with("localhost:8000", &server.url())
}

#[test]
fn timed_an_analyzers_script_finds_the_concurrency() {
    // Two at a time, 30 ms each: from the third on requests wait for half as long again, and nothing is gained.
    let server = places(2, 30);
    let script = on("I have perf_analyzer scripts: which concurrency?", &server).with("resnet50", "m");
    assert_eq!(script.run("-p 500 --on-disturbance ignore"), "concurrency 2");
}

#[test]
fn an_operator_of_a_language_model_learns_how_many_users_it_carries() {
    // 50 ms for each, one after the other: of two each waits 100 ms, of eight 400.
    let places = Places::of(1);
    let server = HttpServer::start(move |_: &Received| {
        places.work(50);
        vec![Act::Send(openai::stream(&[content("a"), content("b"), DONE.to_owned()]))]
    });
    let script = on("I run a language model: how many users at once?", &server).with("llama", "m");
    assert_eq!(script.run("--on-disturbance ignore --undecided pass"), "2 users");
}

#[test]
fn a_gate_lets_a_fast_server_through_and_stops_a_slow_one() {
    for (ms, decision) in [(5, "deploy"), (90, "stop")] {
        let server = slow(ms);
        let script = on("I guard a pipeline: may this be deployed?", &server).with("resnet50", "m");
        let limit = format!("{SHORT} --gate-time 20s");
        assert_eq!(script.with("p99<50ms", "p90<50ms").run(&limit), decision, "{ms} ms");
    }
}

#[test]
fn of_two_versions_the_slower_is_kept_back() {
    for (ms, decision) in [(20, "release"), (40, "keep the old version")] {
        let server = HttpServer::start(move |request: &Received| {
            let new = request.head.contains("/versions/2/");
            let answer = good_answer();
            let answer = if new { other_version(&answer) } else { answer };
            vec![Act::Wait(Duration::from_millis(if new { ms } else { 24 })), Act::Send(answer)]
        });
        for version in ["1", "2"] {
            server.answer_instead(version, reply("200 OK", "", METADATA.as_bytes()));
        }
        let script = on("I have two versions: is the new one slower?", &server).with("resnet50", "m");
        assert_eq!(script.run("-p 200 --on-disturbance ignore --gate-time 20s"), decision, "{ms} ms");
    }
}

/// What both versions say of themselves.
const METADATA: &str = r#"{"name":"m","versions":["1","2"],"platform":"bench",
    "inputs":[{"name":"INPUT0","datatype":"FP32","shape":[-1,16]}],
    "outputs":[{"name":"OUTPUT0","datatype":"FP32","shape":[-1,16]}]}"#;

/// The answer of version 2, in as many bytes.
fn other_version(answer: &[u8]) -> Vec<u8> {
    const WORDS: &[u8] = br#""model_version":"1""#;
    let at = answer.windows(WORDS.len()).position(|words| words == WORDS).unwrap();
    let mut answer = answer.to_vec();
    answer[at + WORDS.len() - 2] = b'2';
    answer
}

#[test]
fn streams_are_counted_until_they_are_late() {
    // Four at a time, 90 ms for each chunk of 100 ms: four streams. Answers this long forgive a busy machine some lateness.
    let server = places(4, 90);
    let script = on("I transcribe speech: how many streams?", &server).with("asr", "m").with("-l 50", "-l 250");
    // Where others keep our threads from sending in time, the answer is unknown, which is no answer to test.
    let mut tries = (0..5).map(|_| script.run("-p 600 --max-level-time 3s --on-disturbance ignore"));
    let decision =
        tries.find(|decision| !decision.contains("unknown")).expect("the machine is too busy to send in time");
    assert!(["2 streams", "4 streams"].contains(&decision.as_str()), "{decision}");
}

#[test]
fn streams_that_all_keep_up_are_a_bound() {
    let server = places(30, 90);
    let script = on("I transcribe speech: how many streams?", &server).with("asr", "m").with("-l 50", "-l 400");
    let mut tries = (0..5).map(|_| script.run("-p 600 --max-level-time 3s --on-disturbance ignore"));
    let decision =
        tries.find(|decision| !decision.contains("unknown")).expect("the machine is too busy to send in time");
    assert_eq!(decision, "at least 8 streams");
}

#[test]
fn a_slow_server_of_a_fleet_is_named() {
    for (last, alike) in [(60, false), (12, true)] {
        let servers = [slow(12), slow(12), slow(last)];
        let mut script = Decision::of("I run several servers: is one of them slow?").with("resnet50", "m");
        for (address, server) in ["localhost:8000", "localhost:8010", "localhost:8020"].into_iter().zip(&servers) {
            script = script.with(address, &server.url());
        }
        let decision = script.run(SHORT);
        let expected = if alike { "all alike".to_owned() } else { format!("look at {}", servers[2].url()) };
        assert_eq!(decision, expected);
    }
}
