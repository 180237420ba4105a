//! A service that the program does not ship (`service.rs`) gets everything that the built-in ones have: it implements
//! two methods on bytes and inherits the rest.

mod service;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use triton_bench::exit::Codes;

use crate::support::authority::Authority;

/// The variable that holds the program's arguments, one a line.
const ARGUMENTS: &str = "LINE_SERVICE_ARGUMENTS";
/// Answers after which a connection of the model `fickle` ends.
const ANSWERS: usize = 20;

/// The program with this service, in a process of its own.
#[test]
#[ignore = "the other tests run it"]
fn program() {
    let Ok(arguments) = std::env::var(ARGUMENTS) else { return };
    let arguments = std::iter::once("line-bench").chain(arguments.lines()).map(Into::into).collect::<Vec<_>>();
    let code = triton_bench::main_with(arguments, Codes::Own, service::LineService::connect);
    std::process::exit((0..=255).find(|&number| ExitCode::from(number) == code).map_or(-1, i32::from));
}

/// How a run ended.
#[derive(Debug)]
struct Finished {
    code: i32,
    stdout: String,
    stderr: String,
}

impl Finished {
    /// Numbers that stand behind `label`, one for each level.
    fn numbers(&self, label: &str) -> Vec<f64> {
        let rests = self.stdout.lines().filter_map(|line| line.trim().strip_prefix(label));
        let number = |tail: &str| tail.split([' ', ',']).next().unwrap_or_default().parse().ok();
        rests.filter_map(number).collect()
    }

    /// Ended well, or only complained of requests that left late, as they do on a busy machine.
    fn is_good(&self) -> bool {
        self.code == 0 || (self.code == 4 && self.stdout.contains("left too late"))
    }
}

/// Runs the program on a model of the server at `url`.
fn run(url: &str, model: &str, flags: &str) -> Finished {
    let arguments = ["-m", model, "-u", url].into_iter().chain(flags.split_whitespace()).collect::<Vec<_>>().join("\n");
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["line_service::program", "--exact", "--ignored", "--nocapture", "--test-threads", "1"])
        .env(ARGUMENTS, arguments);
    let output = command.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Finished { code: output.status.code().unwrap(), stdout: text(output.stdout), stderr: text(output.stderr) }
}

/// A server that speaks in lines, until the test ends; its port.
fn serve(tls: Option<Arc<rustls::ServerConfig>>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for socket in listener.incoming().map_while(Result::ok) {
            socket.set_nodelay(true).unwrap();
            let tls = tls.clone();
            thread::spawn(move || match tls {
                None => converse(socket),
                Some(config) => {
                    let session = rustls::ServerConnection::new(config).unwrap();
                    converse(rustls::StreamOwned::<_, TcpStream>::new(session, socket));
                }
            });
        }
    });
    port
}

/// Answers the lines of one connection.
fn converse(stream: impl Read + Write) {
    let mut stream = BufReader::new(stream);
    let (mut line, mut answers) = (String::new(), 0);
    while stream.read_line(&mut line).is_ok_and(|count| count > 0) {
        let (model, argument) = line.trim_end().split_once(' ').unwrap_or_default();
        let answer = match (model, argument.parse::<i32>()) {
            ("describe", _) if argument == "nothing" => "! no such model\n".to_owned(),
            ("describe", _) => "model\n".to_owned(),
            (_, Err(_)) => "! no number\n".to_owned(),
            ("count", Ok(_)) => "+ 1\n+ 2\n= 3\n".to_owned(),
            ("refuse", Ok(_)) => "! not today\n".to_owned(),
            ("babble", Ok(_)) => "? what\n".to_owned(),
            (_, Ok(number)) => format!("= {}\n", number.wrapping_mul(2)),
        };
        if model == "slow" {
            thread::sleep(Duration::from_millis(300));
        }
        answers += 1;
        // In two pieces: what an answer means does not depend on how it comes.
        let (first, second) = answer.split_at(1);
        let sent = [first, second]
            .iter()
            .all(|piece| stream.get_mut().write_all(piece.as_bytes()).and_then(|()| stream.get_mut().flush()).is_ok());
        if !sent || (model == "fickle" && answers == ANSWERS) {
            return;
        }
        line.clear();
    }
}

fn plain() -> String {
    format!("localhost:{}", serve(None))
}

#[test]
fn levels_are_measured_and_reported_under_the_services_own_names() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name).display().to_string();
    let flags = format!(
        "--concurrency-range 1:3 -p 100 -s 1000000 -f {} --profile-export-file {}",
        file("levels.csv"),
        file("export.json")
    );
    let finished = run(&plain(), "double", &flags);
    assert!(finished.is_good(), "{finished:#?}");
    let counts = finished.numbers("Request count: ");
    assert!(counts.len() == 3 && counts.iter().all(|&count| count > 0.0), "{finished:#?}");
    assert!(finished.stdout.contains("Service Kind: LINES"), "{finished:#?}");
    let times = finished.stdout.lines().filter(|line| {
        line.contains("Avg line time: ") && line.contains("(write/read ") && line.contains("response wait ")
    });
    assert_eq!(times.count(), 3, "{finished:#?}");
    assert_eq!(std::fs::read_to_string(file("levels.csv")).unwrap().lines().count(), 4);
    let export: serde_json::Value = serde_json::from_slice(&std::fs::read(file("export.json")).unwrap()).unwrap();
    assert_eq!(export["service_kind"], "lines");
    let requests = export["experiments"][2]["requests"].as_array().unwrap();
    assert!(!requests.is_empty());
    for request in requests {
        // One number is written as such, or as a list of one.
        let number = |value: &serde_json::Value| value.as_i64().or_else(|| value[0].as_i64()).unwrap() as i32;
        let (sent, answered) = (&request["request_inputs"]["IN"], &request["response_outputs"][0]["OUT"]);
        assert_eq!(number(sent).wrapping_mul(2), number(answered), "{request}");
    }
}

#[test]
fn a_request_may_have_many_responses() {
    for load in ["--concurrency-range 1", "--concurrency-range 4"] {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("export.json");
        let flags = format!("{load} --request-count 40 --profile-export-file {}", file.display());
        let finished = run(&plain(), "count", &flags);
        assert!(finished.is_good() && finished.numbers("Request count: ") == [40.0], "{finished:#?}");
        let export: serde_json::Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
        let requests = export["experiments"][0]["requests"].as_array().unwrap();
        assert_eq!(requests.len(), 40);
        for request in requests {
            assert_eq!(request["response_timestamps"].as_array().unwrap().len(), 3, "{request}");
        }
    }
}

#[test]
fn rates_and_stages_are_there() {
    let url = plain();
    let rates = run(&url, "double", "--request-rate-range 100 --request-count 100");
    assert!(rates.is_good() && rates.numbers("Request count: ") == [100.0], "{rates:#?}");
    let stages = run(&url, "double", "--stage rate:400:40req --stage concurrency:3:150req");
    assert!(stages.is_good(), "{stages:#?}");
    assert_eq!(stages.numbers("Request count: "), [40.0, 150.0], "{stages:#?}");
}

#[test]
fn requests_that_take_too_long_are_given_up() {
    let url = plain();
    let cancelled = run(&url, "slow", "--cancel-after-us 20000 --request-count 8 --concurrency-range 4");
    assert_eq!(cancelled.code, 3, "{cancelled:#?}");
    assert_eq!(cancelled.numbers("Cancelled request count: "), [8.0], "{cancelled:#?}");
    let late = run(&url, "slow", "--client-timeout-us 20000 --request-count 8 --concurrency-range 4");
    assert_eq!(late.code, 3, "{late:#?}");
    assert!(late.stdout.contains("Deadline exceeded: no answer within 20000 us"), "{late:#?}");
}

#[test]
fn connections_that_end_are_made_again() {
    let url = plain();
    for load in ["--concurrency-range 1", "--concurrency-range 4"] {
        let kept = run(&url, "fickle", &format!("{load} --request-count 200 --max-errors 100%"));
        assert!(kept.is_good(), "{kept:#?}");
        let (succeeded, failed) = (kept.numbers("Request count: ")[0], kept.numbers("Failed request count: "));
        assert_eq!(succeeded + failed.iter().sum::<f64>(), 200.0, "{kept:#?}");
        assert!(succeeded >= 190.0, "{kept:#?}");
    }
}

#[test]
fn connections_are_encrypted_if_asked() {
    let authority = Authority::new();
    let port = serve(Some(authority.server_config(&authority.issue(&["localhost"], 2090), false)));
    let trusted = format!("--ssl-https-ca-certificates-file {}", authority.file("ca.pem").display());
    for load in ["--concurrency-range 1", "--concurrency-range 4"] {
        let url = format!("https://localhost:{port}");
        let finished = run(&url, "double", &format!("{load} --request-count 100 {trusted}"));
        assert!(finished.is_good() && finished.numbers("Request count: ") == [100.0], "{finished:#?}");
    }
    let unknown = run(&format!("https://localhost:{port}"), "double", "--request-count 10");
    assert_eq!(unknown.code, 99, "{unknown:#?}");
    assert!(unknown.stderr.contains("UnknownIssuer"), "{unknown:#?}");
}

#[test]
fn what_the_server_refuses_is_said_in_its_words() {
    let url = plain();
    let unknown = run(&url, "nothing", "--request-count 10");
    assert!(unknown.code == 99 && unknown.stderr.contains("nothing: ! no such model"), "{unknown:#?}");
    for (model, words) in [("refuse", "Refused: not today"), ("babble", "Malformed reply: the mark '? '")] {
        let refused = run(&url, model, "--request-count 10 --concurrency-range 2");
        assert!(refused.code == 3 && refused.stdout.contains(words), "{refused:#?}");
    }
}
