//! `--warm-up`: loads before the first level that no figure has.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::support::http_server::{Act, HttpServer, Received, good_answer, reply};
use crate::support::{Export, Program};

/// When requests came.
type Arrivals = Arc<Mutex<Vec<Instant>>>;

fn server(arrivals: &Arrivals) -> HttpServer {
    let arrivals = Arc::clone(arrivals);
    HttpServer::start(move |_: &Received| {
        arrivals.lock().unwrap().push(Instant::now());
        vec![Act::Wait(Duration::from_millis(1)), Act::Send(good_answer())]
    })
}

fn on(server: &HttpServer) -> Program {
    Program::new().args("-m m --on-disturbance ignore -u").arg(server.url())
}

#[test]
fn it_comes_before_the_first_level_alone_and_is_in_no_figure() {
    let arrivals = Arrivals::default();
    let server = server(&arrivals);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("export.json");
    let run = on(&server)
        .args("--warm-up concurrency:2:30req --warm-up rate:200:25req --concurrency-range 1:3 --request-count 20")
        .args("--profile-export-file")
        .arg(&file)
        .run();
    let report = run.report();
    assert_eq!(server.inferences(), 30 + 25 + 3 * 20);
    assert!(report.text.contains("  Warming up with concurrency 2 for 30 requests\n"), "{}", report.text);
    assert!(report.text.contains("  Warming up with 200 requests/sec for 25 requests\n"), "{}", report.text);
    assert_eq!(report.text.matches("    Request count: 20\n").count(), 3, "{}", report.text);
    let export = Export::read(&file);
    assert_eq!(
        export.experiments().iter().map(|experiment| Export::spans(experiment).len()).collect::<Vec<_>>(),
        [20, 20, 20]
    );
}

#[test]
fn it_has_the_pace_and_length_of_its_own_load() {
    for (load, least, most) in [("rate:100:600ms", 55, 65), ("ramp:0-200:600ms", 55, 65)] {
        for measured in [
            "--concurrency-range 1 --request-count 5",
            "--stage rate:50:5req",
            "--request-rate-range 5 --request-count 5",
        ] {
            let arrivals = Arrivals::default();
            let server = server(&arrivals);
            on(&server)
                .args(&format!("--warm-up {load} --warm-up pause:300ms --warm-up concurrency:1:1req {measured}"))
                .run()
                .report_even_if_late();
            let arrivals = arrivals.lock().unwrap();
            let warm = arrivals.len() - 6;
            assert!((least..=most).contains(&warm), "{load} {measured}: {warm}");
            let took = arrivals[warm - 1] - arrivals[0];
            assert!(took > Duration::from_millis(400) && took < Duration::from_millis(1200), "{load}: {took:?}");
            assert!(arrivals[warm] - arrivals[warm - 1] >= Duration::from_millis(250), "{load} {measured}: no pause");
        }
    }
}

#[test]
fn failures_of_it_are_said_and_count_nowhere() {
    let server = HttpServer::start(|request: &Received| match request.ordinal {
        0..10 => vec![Act::Send(reply("503 Busy", "", b"{\"error\":\"busy\"}"))],
        _ => vec![Act::Send(good_answer())],
    });
    let run = on(&server).args("--warm-up concurrency:1:20req --request-count 20").run();
    let report = run.report();
    assert!(run.stderr.contains("--warm-up: 10 of 20 requests failed"), "{run:#?}");
    assert!(!report.text.contains("Failed request count"), "{}", report.text);
}

#[test]
fn what_is_no_load_to_warm_up_with_is_refused() {
    let run = |line: &str| Program::new().args("-m m -u h:1").args(line).run();
    run("--warm-up 10s").refusal(&["--warm-up", "10s", "rate:VALUE:LENGTH"]);
    run("--warm-up sessions:4:20").refusal(&["--warm-up", "sessions:4:20", "played once"]);
    run("--warm-up rate:5:1s --variant a:--async --variant b:--sync")
        .refusal(&["--warm-up rate:5:1s", "--warmup-duration"]);
}
