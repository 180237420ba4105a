//! The table's rows, read back.

use std::fs::File;
use std::path::Path;

use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::{Field, Row};
use serde_json::{Value, json};

use super::*;
use crate::backend::Response;
use crate::clock::{Stamp, WallAnchor};
use crate::export::ExperimentEnd;
use crate::file::scratch::{NEVER, Scratch};
use crate::record::{RawRecord, TestOutputs};
use crate::result::summary::{Headline, LevelLoad};

fn spec(path: &Path) -> ExportSpec {
    ExportSpec {
        path: path.to_owned(),
        anchor: WallAnchor::take(),
        payloads: Vec::new().into(),
        outputs: Vec::new(),
        service_kind: "TRITON_C_API",
        as_upstream: false,
        endpoint: String::new(),
        headline: Headline::ResponseTime,
        entries: Vec::new(),
        unnumbered: false,
        interrupts: &NEVER,
    }
}

/// A request that should have left at 90, left at 100, was answered at these moments and ended at 400.
fn record(answers: &[(u64, bool)]) -> RawRecord {
    let mut record = RawRecord::default();
    (record.intended, record.sent, record.end) = (Some(Stamp(90)), Stamp(100), Stamp(400));
    for &(at, empty) in answers {
        record.add(&Response { at: Stamp(at), empty, outputs: &TestOutputs(Vec::new()), error: None });
    }
    record
}

fn end(missing: u64) -> ExperimentEnd {
    ExperimentEnd { boundaries: Some(vec![Stamp(50), Stamp(500)]), figures: Value::Null, missing }
}

fn open(path: &Path) -> SerializedFileReader<File> {
    SerializedFileReader::new(File::open(path).unwrap()).unwrap()
}

fn rows(path: &Path) -> Vec<Row> {
    open(path).get_row_iter(None).unwrap().map(Result::unwrap).collect()
}

/// A column of a row; numbers as they are, nothing as `null`.
fn field(row: &Row, name: &str) -> Value {
    let (_, field) = row.get_column_iter().find(|(column, _)| *column == name).unwrap_or_else(|| panic!("no {name}"));
    match field {
        Field::Null => Value::Null,
        Field::Long(number) => json!(number),
        Field::Double(number) => json!(number),
        Field::Str(text) => json!(text),
        other => panic!("{name}: {other:?}"),
    }
}

fn metadata(path: &Path, key: &str) -> String {
    let reader = open(path);
    let entries = reader.metadata().file_metadata().key_value_metadata().unwrap();
    entries.iter().find(|entry| entry.key == key).and_then(|entry| entry.value.clone()).unwrap()
}

#[test]
fn every_request_is_a_row_with_its_times_and_its_status() {
    let scratch = Scratch::new("table");
    let path = scratch.path().join("r.parquet");
    let spec = spec(&path);
    let at = |stamp| json!(spec.anchor.epoch_ns(Stamp(stamp)));
    let mut table = create(spec.clone()).unwrap();
    table.record(&record(&[])).unwrap();
    table.begin_experiment(LevelLoad::RequestRate(20.5)).unwrap();
    table.record(&record(&[(150, false), (200, false), (390, true)])).unwrap();
    let mut broken = record(&[]);
    (broken.failure, broken.sequence_id, broken.intended) = ("Unavailable".to_owned(), 7, None);
    table.record(&broken).unwrap();
    table.end_experiment(&end(3)).unwrap();
    table.record(&record(&[])).unwrap();
    table.begin_experiment(LevelLoad::Concurrency(4)).unwrap();
    table.record(&record(&[])).unwrap();
    assert!(!path.exists(), "nothing is there before the end");
    table.finish().unwrap();
    let rows = rows(&path);
    let shown = |name| rows.iter().map(|row| field(row, name)).collect::<Vec<_>>();
    assert_eq!(shown("level"), [1, 1, 2]);
    assert_eq!(shown("load_kind"), ["request_rate", "request_rate", "concurrency"]);
    assert_eq!(shown("load"), [20.5, 20.5, 4.0]);
    assert_eq!(shown("sequence_id"), [json!(null), json!(7), json!(null)]);
    assert_eq!(shown("intended"), [at(90), json!(null), at(90)]);
    assert_eq!(shown("sent"), [at(100), at(100), at(100)]);
    assert_eq!(shown("first_response"), [at(150), json!(null), json!(null)]);
    assert_eq!(shown("end"), [at(400), at(400), at(400)]);
    assert_eq!(shown("responses"), [2, 0, 0]);
    assert_eq!(shown("latency_ns"), [310, 300, 310]);
    assert_eq!(shown("schedule_delay_ns"), [json!(10), json!(null), json!(10)]);
    assert_eq!(shown("status"), ["OK", "Unavailable", "OK"]);
    assert_eq!(shown("model"), [json!(null), json!(null), json!(null)]);
    let levels: Value = serde_json::from_str(&metadata(&path, "triton_bench.levels")).unwrap();
    let bounds = [at(50), at(500)];
    let first = json!({ "level": 1, "load_kind": "request_rate", "load": 20.5, "window_boundaries_ns": bounds, "missing_requests": 3 });
    assert_eq!(levels, json!([first, { "level": 2, "load_kind": "concurrency", "load": 4.0 }]));
    assert_eq!(metadata(&path, "triton_bench.latency"), "response_time");
}

#[test]
fn a_long_table_has_groups_of_bounded_size() {
    let scratch = Scratch::new("table-groups");
    let path = scratch.path().join("r.parquet");
    let mut table = create(spec(&path)).unwrap();
    table.begin_experiment(LevelLoad::Concurrency(1)).unwrap();
    const ROWS: i64 = 200_000;
    for number in 0..ROWS {
        let mut record = record(&[]);
        if number % 1000 == 0 {
            record.failure = format!("Word{}", number / 1000);
        }
        table.record(&record).unwrap();
    }
    table.finish().unwrap();
    let reader = open(&path);
    let groups: Vec<i64> = reader.metadata().row_groups().iter().map(|group| group.num_rows()).collect();
    assert_eq!((groups.iter().sum::<i64>(), groups.iter().max()), (ROWS, Some(&(1 << 16))));
    let statuses = rows(&path);
    assert_eq!(field(&statuses[199_000], "status"), "Word199");
    assert_eq!(field(&statuses[199_001], "status"), "OK");
    let bytes = std::fs::metadata(&path).unwrap().len();
    assert!(bytes < 4 * ROWS as u64, "{bytes} bytes for {ROWS} rows of equal distances");
}

#[test]
fn a_table_is_complete_or_not_there() {
    let scratch = Scratch::new("table-whole");
    let path = scratch.path().join("r.parquet");
    let mut dropped = create(spec(&path)).unwrap();
    dropped.begin_experiment(LevelLoad::Concurrency(1)).unwrap();
    dropped.record(&record(&[])).unwrap();
    drop(dropped);
    create(spec(&path)).unwrap().give_up().unwrap();
    assert!(scratch.names().is_empty(), "{:?}", scratch.names());
    create(spec(&path)).unwrap().finish().unwrap();
    assert!(rows(&path).is_empty());
    let mut full = create(spec(Path::new("/dev/full"))).unwrap();
    full.begin_experiment(LevelLoad::Concurrency(1)).unwrap();
    full.record(&record(&[])).unwrap();
    let message = full.finish().unwrap_err().to_string();
    assert!(message.starts_with("--requests-file /dev/full: cannot be written: No space left"), "{message}");
}

#[test]
fn a_level_that_is_taken_back_has_no_row_unless_its_group_is_written() {
    let scratch = Scratch::new("table-taken-back");
    let path = scratch.path().join("r.parquet");
    let fill = |table: &mut dyn RequestFile, load: u32, rows: usize| {
        table.begin_experiment(LevelLoad::Concurrency(load)).unwrap();
        (0..rows).for_each(|_| table.record(&record(&[])).unwrap());
    };
    let end =
        ExperimentEnd { boundaries: Some(vec![Stamp(1), Stamp(9)]), figures: serde_json::Value::Null, missing: 0 };
    let mut table = create(spec(&path)).unwrap();
    fill(&mut *table, 1, 5);
    table.end_experiment(&end).unwrap();
    fill(&mut *table, 2, 50);
    table.discard_experiment().unwrap();
    fill(&mut *table, 3, 7);
    table.end_experiment(&end).unwrap();
    table.finish().unwrap();
    let loads: Vec<_> = rows(&path).iter().map(|row| field(row, "level")).collect();
    assert_eq!(loads, [vec![json!(1); 5], vec![json!(2); 7]].concat());
    std::fs::remove_file(&path).unwrap();
    for rows in [50, 70_000] {
        let mut table = create(spec(&path)).unwrap();
        fill(&mut *table, 1, rows);
        table.discard_experiment().unwrap();
        table.give_up().unwrap();
        assert!(!path.exists(), "{rows}");
    }
}
