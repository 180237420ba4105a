//! `--requests-file`: the requests of whole runs as rows.

use std::fs::File;
use std::path::Path;
use std::time::Duration;

use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::{Field, Row};
use serde_json::json;

use crate::support::{Finished, Scripted};

fn rows(path: &Path) -> Vec<Row> {
    let file = File::open(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    SerializedFileReader::new(file).unwrap().get_row_iter(None).unwrap().map(Result::unwrap).collect()
}

/// A column, as numbers; `None` where it is empty.
fn numbers(rows: &[Row], name: &str) -> Vec<Option<i64>> {
    let value = |row: &Row| match row.get_column_iter().find(|(key, _)| *key == name).unwrap().1 {
        Field::Null => None,
        Field::Long(number) => Some(*number),
        other => panic!("{name}: {other:?}"),
    };
    rows.iter().map(value).collect()
}

fn statuses(rows: &[Row]) -> Vec<String> {
    let status = |row: &Row| row.get_column_iter().find(|(key, _)| *key == "status").unwrap().1.to_string();
    rows.iter().map(status).collect()
}

/// A run of `scripted` and its file.
fn run(scripted: &Scripted, flags: &str) -> (Finished, Vec<Row>) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("r.parquet");
    let finished = scripted.program().args(flags).arg("--requests-file").arg(&path).run();
    (finished, rows(&path))
}

#[test]
fn every_request_is_there_and_those_that_fail_say_why() {
    let script = json!([{"delay_us": 300}, {"error": {"code": "UNAVAILABLE", "message": "out to lunch"}}]);
    for load in ["--sync", "--async --concurrency-range 4", "--request-rate-range 400"] {
        let scripted = Scripted::requests(script.clone());
        let (finished, rows) = run(&scripted, &format!("--request-count 100 --max-errors 100% {load}"));
        let report = finished.report_even_if_late();
        assert_eq!(report.level().failures("out to lunch"), 50, "{}", report.text);
        let statuses = statuses(&rows);
        let failed = statuses.iter().filter(|status| !status.contains("OK")).count();
        assert_eq!((rows.len(), failed), (100, 50), "{load}: {statuses:?}");
        assert!(statuses.iter().any(|status| status.contains("Unavailable")), "{statuses:?}");
        let stamp = |name| numbers(&rows, name);
        for (index, status) in statuses.iter().enumerate() {
            let at = |name| stamp(name)[index];
            let (sent, end, latency) = (at("sent").unwrap(), at("end").unwrap(), at("latency_ns").unwrap());
            let from = at("intended").unwrap_or(sent);
            assert_eq!((end - from, at("intended").is_some()), (latency, load.contains("rate")), "{load}");
            assert_eq!(at("schedule_delay_ns"), at("intended").map(|intended| sent - intended));
            let answered = status.contains("OK");
            if answered {
                assert_eq!(at("responses"), Some(1), "{load}");
                assert!(latency >= 300_000 && at("first_response").unwrap() <= end, "{load}: {latency}");
            }
        }
        scripted.clean();
    }
}

#[test]
fn an_interrupted_run_has_a_complete_file_and_a_killed_one_none() {
    let scripted = Scripted::requests(json!([{"delay_us": 500}]));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("r.parquet");
    for (signal, stays) in [(9, false), (2, true)] {
        let running = scripted.program().args("-p 500 -r 100").arg("--requests-file").arg(&path).start();
        std::thread::sleep(Duration::from_secs(2));
        running.signal(signal);
        running.finish();
        assert_eq!(path.exists(), stays, "{:?}", std::fs::read_dir(folder.path()).unwrap().collect::<Vec<_>>());
    }
    let rows = rows(&path);
    assert!(rows.len() > 100 && numbers(&rows, "level").iter().all(|level| *level == Some(1)), "{}", rows.len());
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn a_full_disk_costs_nothing_but_the_file() {
    let finished = Scripted::requests(json!([{}])).program().args("--request-count 50 --requests-file /dev/full").run();
    finished.failure(&["--requests-file /dev/full", "No space left"]);
}
