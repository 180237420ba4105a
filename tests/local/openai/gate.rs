//! Requirements on figures of streams, between variants.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use serde_json::Value;

use super::*;
use crate::support::Finished;

/// A server whose first token takes this long, and which sends five more.
fn streaming(first: Duration) -> HttpServer {
    HttpServer::start(move |_: &Received| {
        let events: Vec<String> = (0..6).map(|_| content("a")).chain([USAGE.to_owned(), DONE.to_owned()]).collect();
        vec![Act::Wait(first), Act::Send(stream(&events))]
    })
}

/// A gate between servers whose first tokens take 2 ms, and that long.
fn between(other: Duration, flags: &str) -> (Finished, Vec<Value>) {
    let payloads = Payloads::of(&[CHAT]);
    let (first, second) = (streaming(Duration::from_millis(2)), streaming(other));
    let path = payloads.path("result.json");
    let program = payloads.on(&first).args("-c 2 --gate-time 20s --variant fast: --variant");
    let program = program.arg(format!("other:-u {}", second.url())).args(flags).args("--summary-file").arg(&path);
    let run = program.run();
    let result: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    (run, result["requirements"].as_array().unwrap().clone())
}

#[test]
fn figures_of_streams_decide_between_variants() {
    let flags = "--require ttft_p50<30ms --require ttft_p50<+100% --require output_token_throughput>-50% --require goodput>-50% \
        --goodput ttft<30ms";
    let (run, requirements) = between(Duration::from_millis(60), flags);
    assert_eq!(run.code(), 6, "{run:#?}");
    let outcomes: Vec<&Value> = requirements.iter().map(|requirement| &requirement["outcome"]).collect();
    assert_eq!(outcomes, ["passed", "failed", "failed", "failed", "failed"], "{requirements:#?}");
    assert!(run.wall < Duration::from_secs(20), "{:?}", run.wall);

    let flags = "--require ttft_p50<+2000% --require output_token_throughput>-95% --require goodput_share>10% --goodput ttft<5s";
    let (run, requirements) = between(Duration::from_millis(2), flags);
    assert_eq!(run.code(), 0, "{run:#?}");
    assert!(requirements.iter().all(|requirement| requirement["outcome"] == "passed"), "{requirements:#?}");
    assert_eq!(requirements.len(), 4);
    assert!(run.wall < Duration::from_secs(20), "{:?}", run.wall);
}

#[test]
fn how_many_may_fail_is_what_a_requirement_says() {
    for (words, code, outcome) in [("errors<20%", 0, "passed"), ("errors<0.5%", 6, "failed")] {
        let payloads = Payloads::of(&[CHAT]);
        let server = HttpServer::start(move |request: &Received| match request.ordinal % 20 {
            5 => vec![Act::Send(http_server::reply("503 Service Unavailable", "", b"{}"))],
            _ => answer(request),
        });
        let path = payloads.path("result.json");
        let program = payloads.on(&server).args("--request-count 1000 --undecided fail --require").arg(words);
        let run = program.args("--summary-file").arg(&path).run();
        assert_eq!(run.code(), code, "{words}: {}\n{}", run.stdout, run.stderr);
        let result: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
        let requirement = &result["requirements"][0];
        assert_eq!(requirement["outcome"], outcome, "{requirement}");
        assert!((requirement["value"].as_f64().unwrap() - 0.05).abs() < 0.02, "{requirement}");
    }
}

#[test]
fn a_level_that_fails_too_often_tells_how_often_and_is_too_much_for_a_search() {
    // So many at once are too many.
    let payloads = Payloads::of(&[CHAT]);
    let outstanding = AtomicUsize::new(0);
    let server = HttpServer::start(move |request: &Received| {
        let busy = outstanding.fetch_add(1, Relaxed) >= 4;
        std::thread::sleep(Duration::from_millis(10));
        outstanding.fetch_sub(1, Relaxed);
        if busy { vec![Act::Send(http_server::reply("503 Service Unavailable", "", b"{}"))] } else { answer(request) }
    });
    let path = payloads.path("result.json");
    let run = |server: &HttpServer, flags: &str| {
        let program = payloads.on(server).args("-p 300 --async --undecided fail").args(flags);
        let run = program.args("--summary-file").arg(&path).run();
        let result: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
        (run, result)
    };
    let (found, result) = run(&server, "--concurrency-range 1:16:1 --binary-search -l 5000 --require errors<5%");
    let highest = result["levels"].as_array().unwrap().iter().filter(|level| level["outcome"] != "failed");
    let highest = highest.filter_map(|level| level["load"]["value"].as_u64()).max();
    assert_eq!(highest, Some(4), "{}\n{}", found.stdout, found.stderr);
    let fickle = HttpServer::start(|request: &Received| match request.ordinal % 4 {
        0 => answer(request),
        _ => vec![Act::Send(http_server::reply("503 Service Unavailable", "", b"{}"))],
    });
    let (judged, result) = run(&fickle, "--concurrency-range 16 --require errors<5%@concurrency:16");
    assert_eq!(judged.code(), 6, "{}\n{}", judged.stdout, judged.stderr);
    let requirement = &result["requirements"][0];
    assert!(requirement["value"].as_f64() > Some(0.5) && requirement["outcome"] == "failed", "{requirement}");
}

#[test]
fn a_server_that_fails_at_a_later_start_has_not_passed() {
    let payloads = Payloads::of(&[CHAT]);
    let count = AtomicUsize::new(0);
    let server = HttpServer::start(move |request: &Received| {
        let is_well = count.fetch_add(1, Relaxed) < 40;
        if is_well { answer(request) } else { vec![Act::Send(http_server::reply("503 Service Unavailable", "", b""))] }
    });
    let path = payloads.path("result.json");
    let program =
        payloads.on(&server).args("--request-count 20 --restarts 4 --require p50<10s --summary-file").arg(&path);
    let run = program.run();
    assert_eq!(run.code(), 3, "{run:#?}");
    let result: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let level = &result["levels"][0];
    let missing = &level["missing_starts"];
    assert_eq!((&missing["planned"], &missing["measured"]), (&4.into(), &2.into()), "{missing}");
    assert!(missing["requests_failed"] == true && !missing["reason"].as_str().unwrap().is_empty(), "{missing}");
    assert_eq!(level["restarts"]["starts"], 2);
}
