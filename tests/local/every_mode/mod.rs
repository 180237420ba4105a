//! Every load, with its flags and output files, run against every kind of service. A new kind is covered by its entry in
//! [`kinds`].

mod kinds;
mod loads;
mod network;
mod proxy;
mod results;

use std::thread;

use serde_json::Value;

use crate::support::{Export, Finished};
use kinds::{KINDS, Kind, Pace, Service};

/// Kinds tested at the same time: runs mostly wait for a clock.
const AT_ONCE: usize = 3;

/// Runs a test case for every kind, each with its own server, and names the kinds that failed.
fn each(pace: Pace, cell: impl Fn(&Service) + Sync) {
    run_with(KINDS, pace, cell);
}

/// The same with a kind of each form that answers take: one at once, one of many on a connection, a stream of parts. For what is
/// decided above all kinds, and measured with loads that every kind is tested with.
fn each_form(pace: Pace, cell: impl Fn(&Service) + Sync) {
    run_with(&[Kind::KserveHttp, Kind::KserveStreams, Kind::OpenAiStreams], pace, cell);
}

fn run_with(kinds: &[Kind], pace: Pace, cell: impl Fn(&Service) + Sync) {
    let mut failed = Vec::<&Kind>::new();
    for some in kinds.chunks(AT_ONCE) {
        thread::scope(|scope| {
            let cell = &cell;
            let begin = |&kind| scope.spawn(move || cell(&Service::start(kind, pace)));
            let begun: Vec<_> = some.iter().map(begin).collect();
            let ended = some.iter().zip(begun.into_iter().map(thread::ScopedJoinHandle::join));
            failed.extend(ended.filter(|(_, ended)| ended.is_err()).map(|(kind, _)| kind));
        });
    }
    assert!(failed.is_empty(), "failed with {failed:?}");
}

/// A run that ended well, and its files.
struct Outcome {
    finished: Finished,
    result: Value,
    export: Export,
}

/// Runs the program on model `m` of a service, with all its files in the service's folder, which `FOLDER` in the flags stands for.
fn run(service: &Service, flags: &str) -> Outcome {
    run_at(service, &service.url(), &format!("-m m {flags}"))
}

/// The same at another address, on whatever model the flags name.
fn run_at(service: &Service, url: &str, flags: &str) -> Outcome {
    let _ = std::fs::remove_file(service.file("export.json"));
    let files = "--summary-file FOLDER/result.json --profile-export-file FOLDER/export.json";
    let finished = service.program_at(url, &in_folder(service, &format!("{flags} {files}"))).run();
    finished.report_even_if_late();
    let code = finished.code();
    let result = result_of(service, "result.json");
    assert_eq!(result["exit_code"], code, "{flags}");
    assert_eq!(result["service_kind"], service.kind.name());
    Outcome { finished, result, export: Export::read(&service.file("export.json")) }
}

fn in_folder(service: &Service, flags: &str) -> String {
    flags.replace("FOLDER", &service.file("").display().to_string())
}

fn result_of(service: &Service, name: &str) -> Value {
    serde_json::from_slice(&std::fs::read(service.file(name)).unwrap()).unwrap()
}

/// Whether this kind refuses the load because threads cannot wait for a stream that many requests share; checks the refusal.
fn refuses_sync(service: &Service, load: &str) -> bool {
    let refuses = service.kind == Kind::KserveStreams && load.contains("--sync");
    if refuses {
        service.program(load).run().refusal(&["--streaming is asynchronous and cannot go with --sync"]);
    }
    refuses
}
