//! `--sweep` against a server that one request at a time can ask, because the client holds the others back.

use std::sync::Mutex;
use std::time::Duration;

use crate::support::Program;
use crate::support::http_server::{Act, HttpServer, Received, reply};

#[test]
fn timed_what_holds_the_client_back_is_told_and_is_no_fault_of_flags() {
    let turn = Mutex::new(());
    let server = HttpServer::start(move |_: &Received| {
        // One at a time, each 5 ms: evenly spaced requests find it idle, drawn gaps often do not.
        let alone = turn.lock().unwrap();
        std::thread::sleep(Duration::from_millis(5));
        drop(alone);
        let body = r#"{"choices":[{"text":"hi","finish_reason":"stop"}]}"#;
        vec![Act::Send(reply("200 OK", "Content-Type: application/json\r\n", body.as_bytes()))]
    });
    let run = Program::new().args("-m m --service-kind openai --endpoint v1/completions --prompt-tokens 4");
    let run = run.args("--sweep linear:2 --request-distribution poisson -p 500 -s 1000000 --max-outstanding 1");
    let finished = run.args("--on-disturbance mark -u").arg(server.url()).run();
    assert_eq!(finished.code(), 4, "{}\n{}", finished.stdout, finished.stderr);
    let line = finished.stderr.lines().find(|line| line.contains("--sweep: ")).unwrap_or_default();
    assert!(line.contains("sustained") && line.contains("--max-outstanding"), "{}", finished.stderr);
    assert!(!finished.stderr.contains("sustained no rate"), "{}", finished.stderr);
}
