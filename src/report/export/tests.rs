//! The export's bytes, read back.

use serde_json::{Value, json};

use super::*;
use crate::backend::{OutputView, Response};
use crate::data::InputTensor;
use crate::file::scratch::{NEVER, Scratch};
use crate::model::DataType;
use crate::record::{RawRecord, RecordPool, TestOutputs};
use crate::result::summary::Headline;
use ::shm::{Placement, Region};

fn spec(path: &Path) -> ExportSpec {
    let region =
        Arc::new(Region::filled(Placement::Pageable, &[1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, b'a', b'b', b'c']).unwrap());
    let input = |name: &str, datatype, shape: &[i64], offset, len| InputTensor {
        name: name.into(),
        datatype,
        shape: shape.into(),
        region: Arc::clone(&region),
        offset,
        len,
    };
    let payload = Payload {
        model: 0,
        batch: 1,
        stream: 0,
        step: 0,
        inputs: vec![input("N", DataType::Int32, &[2], 0, 8), input("S", DataType::Bytes, &[1], 8, 7)],
        parameters: Vec::new(),
        expected: None,
    };
    ExportSpec {
        path: path.to_owned(),
        anchor: WallAnchor::take(),
        payloads: vec![payload].into(),
        outputs: vec!["OUT".to_owned(), "T".to_owned()],
        service_kind: "TRITON_C_API",
        as_upstream: false,
        endpoint: String::new(),
        headline: Headline::ServiceTime,
        entries: Vec::new(),
        unnumbered: false,
        interrupts: &NEVER,
    }
}

fn boxed(spec: ExportSpec) -> Box<ExportWriter> {
    Box::new(ExportWriter::create(spec).unwrap())
}

fn end(boundaries: &[Stamp]) -> ExperimentEnd {
    ExperimentEnd { boundaries: Some(boundaries.to_vec()), figures: json!({ "requests": 2 }), missing: 0 }
}

fn record(sent: u64, responses: &[(u64, Option<f32>)]) -> RawRecord {
    let mut record = RawRecord::default();
    record.sent = Stamp(sent);
    for &(at, value) in responses {
        let bytes = value.map(f32::to_le_bytes);
        let view = |bytes| OutputView { name: "OUT", datatype: DataType::Fp32, shape: &[1], bytes };
        let outputs = TestOutputs(bytes.iter().map(|bytes| view(&bytes[..])).collect());
        record.add(&Response { at: Stamp(at), empty: value.is_none(), outputs: &outputs, error: None });
    }
    record
}

fn with(mut record: RawRecord, change: impl FnOnce(&mut RawRecord)) -> RawRecord {
    change(&mut record);
    record
}

/// An export, and a way to it.
fn stream(path: &Path) -> (ExportStream, impl Fn(u64, RawRecord) + Clone) {
    let pool = Arc::new(RecordPool::new(64 << 20));
    let stream = ExportStream::start(vec![boxed(spec(path))], Arc::clone(&pool)).unwrap();
    let queue = stream.queue();
    let send = move |experiment, record| {
        let mut slot = pool.take().expect("there are records left");
        *slot = record;
        queue.give(experiment, slot).expect("there is room for all");
    };
    (stream, send)
}

#[test]
fn keys_and_their_order_are_upstreams() {
    let scratch = Scratch::new("export");
    let path = scratch.path().join("p.json");
    let spec = spec(&path);
    let at = |stamp| spec.anchor.epoch_ns(Stamp(stamp));
    let mut writer = boxed(spec.clone());
    writer.begin_experiment(LevelLoad::Concurrency(4)).unwrap();
    writer.record(&with(record(10, &[(20, Some(0.5)), (30, None)]), |record| record.sequence_id = 7)).unwrap();
    writer.record(&with(record(11, &[]), |record| record.failure = "Internal".to_owned())).unwrap();
    writer.record(&record(40, &[(50, Some(f32::NAN))])).unwrap();
    writer.end_experiment(&end(&[Stamp(0), Stamp(100)])).unwrap();
    writer.record(&record(101, &[(102, Some(1.0))])).unwrap();
    assert!(!path.exists(), "nothing is there before the end");
    writer.begin_experiment(LevelLoad::RequestRate(20.0)).unwrap();
    writer
        .record(&with(record(200, &[]), |record| (record.intended, record.payload) = (Some(Stamp(199)), PayloadId(9))))
        .unwrap();
    writer.finish().unwrap();
    let inputs = r#"{"N":[1,2],"S":"abc"}"#;
    let expected = format!(
        "{{\"experiments\":[{{\"experiment\":{{\"mode\":\"concurrency\",\"value\":4}},\"requests\":[\
         {{\"timestamp\":{},\"sequence_id\":7,\"request_inputs\":{inputs},\"response_timestamps\":[{},{}],\
         \"response_outputs\":[{{\"OUT\":0.5}},{{\"OUT\":\"\",\"T\":\"\"}}]}},\
         {{\"timestamp\":{},\"request_inputs\":{inputs},\"response_timestamps\":[{}],\"response_outputs\":[{{\"OUT\":null}}]}}],\
         \"window_boundaries\":[{},{}],\"summary\":{{\"requests\":2}}}},\
         {{\"experiment\":{{\"mode\":\"request_rate\",\"value\":20.0}},\"requests\":[\
         {{\"timestamp\":{},\"request_inputs\":{{}},\"response_timestamps\":[],\"response_outputs\":[],\
         \"intended_timestamp\":{}}}],\"window_boundaries\":[],\"summary\":null}}],\
         \"version\":\"{}\",\"service_kind\":\"triton_c_api\",\"endpoint\":\"\",\"latency\":\"service_time\"}}",
        at(10),
        at(20),
        at(30),
        at(40),
        at(50),
        at(0),
        at(100),
        at(200),
        at(199),
        env!("CARGO_PKG_VERSION")
    );
    assert_eq!(std::fs::read_to_string(&path).unwrap(), expected);
}

#[test]
fn a_level_that_was_measured_again_is_in_the_file_once_and_in_its_place() {
    let scratch = Scratch::new("export-again");
    let path = scratch.path().join("p.json");
    let mut writer = boxed(spec(&path));
    let measure = |writer: &mut ExportWriter, load: u32, requests: u64| {
        writer.begin_experiment(LevelLoad::Concurrency(load)).unwrap();
        (0..requests).for_each(|_| writer.record(&record(10, &[(20, Some(0.5))])).unwrap());
        writer.end_experiment(&end(&[Stamp(0), Stamp(100)])).unwrap();
    };
    // More than is kept in memory.
    measure(&mut writer, 1, 2_000);
    measure(&mut writer, 2, 3);
    writer.begin_experiment(LevelLoad::Concurrency(7)).unwrap();
    writer.discard_experiment().unwrap();
    measure(&mut writer, 3, 4);
    for (load, requests, earlier) in [(1, 5, 1), (3, 6, 4), (1, 2_500, 5)] {
        measure(&mut writer, load, requests);
        writer.replace_experiment(earlier).unwrap();
    }
    writer.finish().unwrap();
    let value: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    let about = |experiment: &Value| {
        (experiment["experiment"]["value"].as_u64().unwrap(), experiment["requests"].as_array().unwrap().len())
    };
    let all: Vec<_> = value["experiments"].as_array().unwrap().iter().map(about).collect();
    assert_eq!(all, [(1, 2_500), (2, 3), (3, 6)]);
    assert!(
        value["latency"] == "service_time" && value["experiments"][0]["summary"]["requests"] == 2,
        "{}",
        value["latency"]
    );
    assert_eq!(scratch.names(), ["p.json"]);
}

#[test]
fn a_run_without_levels_is_valid_json() {
    let scratch = Scratch::new("export-empty");
    let path = scratch.path().join("p.json");
    boxed(spec(&path)).finish().unwrap();
    let value: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    assert_eq!(value["experiments"], json!([]));
}

#[test]
fn under_perf_analyzers_name_the_version_is_its_own_and_ours_comes_last() {
    let scratch = Scratch::new("export-version");
    let path = scratch.path().join("p.json");
    boxed(ExportSpec { as_upstream: true, ..spec(&path) }).finish().unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(text.starts_with("{\"experiments\":[],\"version\":\"2.51.0\",\"service_kind\""), "{text}");
    let last = format!(",\"triton_bench_version\":\"{}\"}}", env!("CARGO_PKG_VERSION"));
    assert!(text.ends_with(&last), "{text}");
}

#[test]
fn an_abandoned_export_leaves_nothing() {
    let scratch = Scratch::new("export-drop");
    let mut writer = boxed(spec(&scratch.path().join("p.json")));
    writer.begin_experiment(LevelLoad::Concurrency(1)).unwrap();
    drop(writer);
    assert!(scratch.names().is_empty());
}

#[test]
fn a_window_without_bounds_is_written_as_upstream_does() {
    let scratch = Scratch::new("export-unbounded");
    let path = scratch.path().join("p.json");
    let mut writer = boxed(spec(&path));
    writer.begin_experiment(LevelLoad::Concurrency(1)).unwrap();
    writer.end_experiment(&ExperimentEnd { boundaries: None, ..ExperimentEnd::unknown() }).unwrap();
    writer.finish().unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(text.contains(r#""window_boundaries":[0,18446744073709551615]"#), "{text}");
}

#[test]
fn records_go_to_the_experiment_of_their_load() {
    let scratch = Scratch::new("export-stages");
    let path = scratch.path().join("p.json");
    let (stream, send) = stream(&path);
    send(0, record(1, &[]));
    stream.begin_experiment(LevelLoad::Concurrency(1));
    send(1, record(10, &[]));
    send(2, record(20, &[]));
    send(1, record(11, &[]));
    stream.end_experiment(end(&[Stamp(0), Stamp(19)]));
    stream.begin_experiment(LevelLoad::Concurrency(2));
    send(1, record(12, &[]));
    send(2, record(21, &[]));
    stream.end_experiment(ExperimentEnd { missing: 7, ..end(&[Stamp(19), Stamp(30)]) });
    send(2, record(22, &[]));
    let anchor = WallAnchor::take();
    stream.finish().unwrap();
    let value: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    let origin = value["experiments"][0]["requests"][0]["timestamp"].as_u64().unwrap() - 10;
    assert!(origin < anchor.epoch_ns(Stamp::now()));
    let sent = |experiment: usize| {
        let requests = value["experiments"][experiment]["requests"].as_array().unwrap();
        requests.iter().map(|request| request["timestamp"].as_u64().unwrap() - origin).collect::<Vec<_>>()
    };
    // One that comes after the end of its experiment may be in it or not, and is in no other.
    assert!(sent(0) == [10, 11] || sent(0) == [10, 11, 12], "{:?}", sent(0));
    assert!(sent(1) == [20, 21] || sent(1) == [20, 21, 22], "{:?}", sent(1));
    let missing = |experiment: usize| value["experiments"][experiment].get("missing_requests").cloned();
    assert_eq!((missing(0), missing(1)), (None, Some(json!(7))));
}

#[test]
fn a_request_that_never_ends_does_not_keep_the_file_from_being_completed() {
    let scratch = Scratch::new("export-stranded");
    let path = scratch.path().join("p.json");
    let (stream, stranded) = stream(&path);
    let (finished, ended) = std::sync::mpsc::channel();
    std::thread::spawn(move || finished.send(stream.finish().is_ok()));
    assert_eq!(ended.recv_timeout(std::time::Duration::from_secs(20)), Ok(true));
    assert!(path.exists());
    stranded(0, record(1, &[]));
}

#[test]
fn many_threads_lose_no_record() {
    let scratch = Scratch::new("export-threads");
    let path = scratch.path().join("p.json");
    let (stream, send) = stream(&path);
    stream.begin_experiment(LevelLoad::Concurrency(4));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            let send = send.clone();
            scope.spawn(move || (0..500).for_each(|n| send(1, record(n, &[(n + 1, Some(1.0))]))));
        }
    });
    stream.end_experiment(end(&[Stamp(0), Stamp(1_000)]));
    stream.finish().unwrap();
    let value: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    assert_eq!(value["experiments"][0]["requests"].as_array().unwrap().len(), 2_000);
    assert_eq!(value["experiments"][0]["window_boundaries"].as_array().unwrap().len(), 2);
}

#[test]
fn a_full_disk_is_told_by_finish() {
    let create = || ExportWriter::create(spec(Path::new("/dev/full")));
    let message = create().unwrap_err().to_string();
    assert!(message.starts_with("--profile-export-file /dev/full: cannot be written: No space left"), "{message}");
}

#[test]
fn what_was_written_before_an_error_is_kept() {
    let scratch = Scratch::new("export-kept");
    let path = scratch.path().join("p.json");
    let mut writer = boxed(spec(&path));
    writer.begin_experiment(LevelLoad::Concurrency(1)).unwrap();
    let mut handed = 0;
    while writer.written[1].requests == 0 {
        writer.record(&record(handed, &[(handed + 1, Some(1.0))])).unwrap();
        handed += 1;
    }
    let [place, _] = writer.written;
    writer.record(&record(handed, &[])).unwrap();
    // The rest of a piece that was written in part.
    writer.file.write_all(b",{\"timestamp\":").unwrap();
    writer.file.flush().unwrap();
    let error = failed(&path, &io::Error::from(io::ErrorKind::StorageFull));
    assert_eq!(writer.keep(&error), Some(place.requests));
    let value: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    assert_eq!(value["experiments"][0]["requests"].as_array().unwrap().len() as u64, place.requests);
    assert!(place.requests > 100 && place.requests <= handed && place.open);
    assert!(value["incomplete"].as_str().unwrap().contains("cannot be written"), "{}", value["incomplete"]);
}

#[test]
fn an_experiment_that_is_taken_back_leaves_nothing_wherever_its_bytes_are() {
    for requests in [1, 2_000] {
        let scratch = Scratch::new("taken-back");
        let path = scratch.path().join("p.json");
        let mut writer = boxed(spec(&path));
        let fill = |writer: &mut ExportWriter, load: u32, requests| {
            writer.begin_experiment(LevelLoad::Concurrency(load)).unwrap();
            (0..requests).for_each(|n| writer.record(&record(n, &[(n + 5, Some(0.5))])).unwrap());
        };
        fill(&mut writer, 1, requests);
        writer.discard_experiment().unwrap();
        writer.record(&record(9, &[])).unwrap();
        fill(&mut writer, 2, 3);
        writer.end_experiment(&end(&[Stamp(0), Stamp(9)])).unwrap();
        fill(&mut writer, 3, requests);
        writer.discard_experiment().unwrap();
        fill(&mut writer, 4, 1);
        writer.end_experiment(&end(&[Stamp(0), Stamp(9)])).unwrap();
        writer.finish().unwrap();
        let export: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
        let found: Vec<_> = export["experiments"].as_array().unwrap().iter().collect();
        let loads =
            found.iter().map(|one| (one["experiment"]["value"].as_u64(), one["requests"].as_array().unwrap().len()));
        assert_eq!(loads.collect::<Vec<_>>(), [(Some(2), 3), (Some(4), 1)]);
        let other = scratch.path().join("none.json");
        let mut writer = boxed(spec(&other));
        fill(&mut writer, 1, requests);
        writer.discard_experiment().unwrap();
        writer.give_up().unwrap();
        assert!(!other.exists());
    }
}
