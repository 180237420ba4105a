//! `--server-wait` where no model is named: a server that has just started lists its models later.

use std::thread;
use std::time::{Duration, Instant};

use crate::support::Program;
use crate::support::http_server::{Act, HttpServer, Received, reply};

fn models(list: &str) -> Vec<u8> {
    reply("200 OK", "Content-Type: application/json\r\n", format!(r#"{{"object":"list","data":[{list}]}}"#).as_bytes())
}

fn server() -> HttpServer {
    let server = HttpServer::start(|_: &Received| {
        let body = r#"{"choices":[{"text":"hi","finish_reason":"stop"}]}"#;
        vec![Act::Send(reply("200 OK", "Content-Type: application/json\r\n", body.as_bytes()))]
    });
    server.answer_instead("models", models(""));
    server
}

fn run(server: &HttpServer, flags: &str) -> Program {
    let run =
        Program::new().args("--service-kind openai --endpoint v1/completions --prompt-tokens 4 --request-count 5");
    run.args(flags).arg("-u").arg(server.url())
}

#[test]
fn a_server_is_waited_for_until_it_names_a_model() {
    let server = server();
    let running = run(&server, "--server-wait 40").start();
    let began = Instant::now();
    while server.others().len() < 3 {
        assert!(began.elapsed() < Duration::from_secs(30), "{:?}", server.others());
        thread::sleep(Duration::from_millis(5));
    }
    server.answer_instead("models", models(r#"{"id":"late","object":"model"}"#));
    let finished = running.finish();
    assert_eq!(finished.code(), 0, "{}\n{}", finished.stdout, finished.stderr);
    assert!(finished.stderr.contains("'late' is measured"), "{}", finished.stderr);
}

#[test]
fn who_does_not_ask_to_wait_hears_at_once_that_no_model_is_named() {
    let server = server();
    run(&server, "").run().failure(&["-m is missing", "names none"]);
    assert_eq!(server.others().len(), 1);
}
