//! Sequences, checked from the server's side: the accumulator model counts every request that breaks the rules.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::thread;
use std::time::Duration;

use crate::support::{Finished, Model, Program, Repository, TritonServer};

const DIRECT: &str = "sequence_batching { max_sequence_idle_microseconds: 5000000 }";
const OLDEST: &str =
    "sequence_batching { max_sequence_idle_microseconds: 5000000 oldest { max_candidate_sequences: 4 } }";

/// The accumulator with a scheduling strategy, so many instances, a journal and counters.
fn accumulator(strategy: &str, instances: u32) -> Repository {
    let repository = Repository::of(&[]);
    let tensors = r#"
input [{ name: "INPUT0" data_type: TYPE_INT32 dims: [1] }]
output [{ name: "OUTPUT0" data_type: TYPE_INT32 dims: [1] }]"#;
    let model =
        Model::identity("m").tensors(tensors).with(strategy).parameter("accumulate", "true").instances(instances);
    repository.add(&repository.counting(repository.journaling(model)));
    repository
}

/// Every sequence of the journal: its ID and the flags of its requests, in order.
fn sequences(repository: &Repository) -> Vec<(String, Vec<(bool, bool)>)> {
    let mut open = BTreeMap::<String, Vec<(bool, bool)>>::new();
    let mut ended = Vec::new();
    let mut journal = repository.journal("m");
    journal.sort_by_key(|entry| entry["ns"].as_u64());
    for entry in journal {
        let id = entry["correlation"].to_string();
        if id == "0" {
            continue;
        }
        let flag = |key: &str| entry[key].as_bool().unwrap();
        let flags = (flag("start"), flag("end"));
        if flags.0 && entry["outcome"] == "failed" {
            continue;
        }
        open.entry(id.clone()).or_default().push(flags);
        if flags.1 {
            ended.extend(open.remove_entry(&id));
        }
    }
    assert!(open.is_empty(), "sequences without an end: {open:?}");
    ended
}

/// No sequence may be open, and no rule broken.
fn assert_well_formed(repository: &Repository) -> Vec<(String, Vec<(bool, bool)>)> {
    let counters = repository.counters("m");
    assert_eq!(counters.get("violations"), 0);
    assert_eq!(counters.get("sequences_open"), 0);
    assert_eq!(counters.get("sequences_started"), counters.get("sequences_ended"));
    let sequences = sequences(repository);
    for (id, flags) in &sequences {
        let (last, before) = flags.split_last().unwrap();
        let inner = before.iter().enumerate().all(|(step, &(start, end))| start == (step == 0) && !end);
        assert!(inner && last.1 && (last.0 == before.is_empty()), "sequence {id}: {flags:?}");
    }
    assert!(!sequences.is_empty());
    sequences
}

fn run(repository: &Repository, arguments: &str) -> Finished {
    let finished = Program::on(repository, "m").args(arguments).run();
    assert!([0, 4].contains(&finished.code()), "{arguments}\n{}\n{}", finished.stdout, finished.stderr);
    finished
}

fn in_every_mode(strategy: &str, instances: u32) {
    for load in [
        "--sync --concurrency-range 3",
        "--async --concurrency-range 3",
        "--async --concurrency-range 3 --max-threads 1",
        "--request-rate-range 300 --num-of-sequences 3",
        "--request-rate-range 300 --num-of-sequences 3 --serial-sequences --request-distribution poisson",
        "--concurrency-range 3 --paced 10ms",
    ] {
        let repository = accumulator(strategy, instances);
        // Requests of a sequence that may overtake each other on the way are a matter of the load, not of the server.
        let finished = run(&repository, &format!("-p 150 -s 1000000 --sequence-length 6 {load}"));
        let all = assert_well_formed(&repository);
        let report = finished.report_with(finished.code());
        assert!(report.level().client_number("Sequence count") > 0.0, "{load}: {}", report.text);
        assert!(!report.text.contains("Failed request count"), "{load}: {}", report.text);
        assert!(all.iter().any(|(_, flags)| flags.len() > 1), "{load}");
    }
}

#[test]
fn the_direct_strategy_gets_whole_sequences_in_every_mode() {
    in_every_mode(DIRECT, 4);
}

#[test]
fn the_oldest_strategy_gets_whole_sequences_in_every_mode() {
    in_every_mode(OLDEST, 1);
}

#[test]
fn ids_stay_in_their_range_and_lengths_near_theirs() {
    let repository = accumulator(DIRECT, 2);
    let arguments = "--sequence-id-range 100:104 --sequence-length 10 --sequence-length-variation 50";
    run(&repository, &format!("--concurrency-range 2 --request-count 300 {arguments}"));
    let all = assert_well_formed(&repository);
    let ids: BTreeSet<u64> = all.iter().map(|(id, _)| id.parse().unwrap()).collect();
    assert!(ids.iter().all(|id| (100..104).contains(id)), "{ids:?}");
    let lengths: BTreeSet<usize> = all.iter().map(|(_, flags)| flags.len()).collect();
    // The last sequence of each request stream may be ended early.
    assert!(lengths.iter().max().unwrap() <= &15 && lengths.len() > 2, "{lengths:?}");
    let early = all.iter().filter(|(_, flags)| flags.len() < 5).count();
    assert!(early <= 2, "{early} sequences are shorter than half: {lengths:?}");
}

#[test]
fn streams_of_data_are_dealt_round_robin() {
    let repository = accumulator(DIRECT, 1);
    let path = repository.file("data.json");
    std::fs::write(
        &path,
        r#"{"data": [[{"INPUT0": [1]}, {"INPUT0": [2]}], [{"INPUT0": [10]}, {"INPUT0": [20]}, {"INPUT0": [30]}]]}"#,
    )
    .unwrap();
    let finished = Program::on(&repository, "m").args("--request-count 15 --input-data").arg(&path).run();
    assert_eq!(finished.code(), 0, "{}", finished.stderr);
    let lengths: Vec<usize> = assert_well_formed(&repository).iter().map(|(_, flags)| flags.len()).collect();
    assert_eq!(lengths, [2, 3, 2, 3, 2, 3]);
}

#[test]
fn stages_follow_each_other_without_meeting_each_others_sequences() {
    let stages = "--stage rate:200:400ms --stage concurrency:3:30req --stage concurrency:2:200ms --num-of-sequences 4";
    // Serial where ids are scarce: overlapping requests of an ID's last sequence would meet those of its next one.
    for range in ["", "--sequence-id-range 11:20 --serial-sequences"] {
        let repository = Repository::of(&[]);
        let model = Model::accumulator("m").instances(9).parameter("delay_us", "5000");
        repository.add(&repository.counting(repository.journaling(model)));
        run(&repository, &format!("{stages} {range}"));
        let all = assert_well_formed(&repository);
        let in_range = |(id, _): &(String, _)| range.is_empty() || (11..20).contains(&id.parse::<u32>().unwrap());
        assert!(all.iter().all(in_range), "{all:?}");
    }
    let narrow = Program::on(&Repository::of(&[Model::accumulator("m")]), "m")
        .args(&format!("{stages} --sequence-id-range 11:19"))
        .run();
    assert_eq!(narrow.code(), 99, "{}", narrow.stderr);
    assert!(narrow.stderr.contains("holds 8 IDs, but 9 sequences are active at once"), "{}", narrow.stderr);
}

/// The start of a sequence waits in the server for the place of another, which must not wait for it to be ended.
#[test]
fn sequences_that_wait_for_each_other_are_ended() {
    let repository = accumulator("sequence_batching { max_sequence_idle_microseconds: 60000000 }", 1);
    for more in ["--serial-sequences", ""] {
        let load =
            format!("--request-rate-range 40 --num-of-sequences 3 --sequence-length 4 --request-count 41 {more}");
        let finished = run(&repository, &load);
        assert!(!finished.stdout.contains("Failed request count"), "{more}: {}", finished.stdout);
        assert!(finished.wall < Duration::from_secs(20), "{more}: {:?}", finished.wall);
        assert_well_formed(&repository);
    }
}

#[test]
fn timed_a_sweep_keeps_to_the_sequences_that_may_be_alive() {
    let repository = Repository::of(&[]);
    let model = Model::accumulator("m").instances(3).parameter("delay_us", "5000");
    repository.add(&repository.counting(repository.journaling(model)));
    // Serial, because past saturation the overlapping requests of an ID's last sequence would meet those of its next one.
    let sequences = "--num-of-sequences 3 --sequence-id-range 1:4 --serial-sequences";
    let finished = run(&repository, &format!("--sweep linear:2 -p 500 -s 1000000 {sequences}"));
    assert!(finished.stdout.contains("Saturation: "), "{}\n{}", finished.stdout, finished.stderr);
    let all = assert_well_formed(&repository);
    assert!(all.iter().all(|(id, _)| (1..4).contains(&id.parse::<u32>().unwrap())), "{all:?}");
}

#[test]
fn the_same_seed_gives_the_same_sequences() {
    let played = |load: &str, seed: u32| {
        let repository = accumulator(DIRECT, 3);
        let arguments = "--request-count 200 --sequence-length 8 --sequence-length-variation 60";
        run(&repository, &format!("{load} {arguments} --seed {seed}"));
        let mut all = assert_well_formed(&repository);
        // The last of each request stream are cut short where the count is used up.
        all.truncate(all.len() - 6);
        let mut lengths: Vec<(String, usize)> = all.into_iter().map(|(id, flags)| (id, flags.len())).collect();
        lengths.sort();
        lengths
    };
    let rate = "--request-rate-range 200 --num-of-sequences 1";
    let (first, closed) = (played(rate, 5), played("--concurrency-range 1", 5));
    assert_eq!(first, played(rate, 5));
    assert_eq!(first, closed, "the load decides when, the seed what");
    assert_ne!(first, played(rate, 6));
}

#[test]
fn ids_may_be_strings() {
    let control = "sequence_batching { max_sequence_idle_microseconds: 5000000 control_input [{ name: \"ID\" \
                   control [{ kind: CONTROL_SEQUENCE_CORRID data_type: TYPE_STRING }] }] }";
    let repository = accumulator(control, 2);
    run(&repository, "--concurrency-range 2 --request-count 60 --sequence-length 5");
    let all = assert_well_formed(&repository);
    assert!(all.iter().all(|(id, _)| id.starts_with('"')), "the model's configuration asks for them: {all:?}");
}

#[test]
fn a_mix_of_a_sequence_model_with_itself_keeps_sequences_whole() {
    let repository = accumulator(DIRECT, 2);
    let finished = Program::in_process(&crate::support::triton(), &repository.path())
        .args("--model-mix m?who=a:0.5,m?who=b:0.5 --concurrency-range 2 --request-count 200 --sequence-length 5")
        .run();
    assert_eq!(finished.code(), 0, "{}", finished.stderr);
    assert_well_formed(&repository);
    let mut by_sequence = BTreeMap::<(String, u64), BTreeSet<String>>::new();
    let mut turn = BTreeMap::<String, u64>::new();
    let mut journal = repository.journal("m");
    journal.sort_by_key(|entry| entry["ns"].as_u64());
    for entry in journal.iter().filter(|entry| entry["correlation"] != 0) {
        let id = entry["correlation"].to_string();
        let turn = turn.entry(id.clone()).or_default();
        *turn += u64::from(entry["start"].as_bool().unwrap());
        by_sequence.entry((id, *turn)).or_default().insert(entry["parameters"]["who"].to_string());
    }
    assert!(by_sequence.values().all(|who| who.len() == 1), "{by_sequence:?}");
    assert!(by_sequence.values().flatten().collect::<BTreeSet<_>>().len() == 2, "{by_sequence:?}");
}

/// How many sequences have begun by a journal that is being written.
fn sequences_of(journal: &Path) -> usize {
    let text = std::fs::read_to_string(journal).unwrap_or_default();
    let entries = text.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    entries.map(|entry| entry["correlation"].to_string()).filter(|id| id != "0").collect::<BTreeSet<_>>().len()
}

/// Interrupts the program once all three sequences have begun.
fn interrupted(arguments: &str) -> Repository {
    let repository = accumulator(DIRECT, 4);
    let running = Program::on(&repository, "m").args("-p 60000 --sequence-length 100000").args(arguments).start();
    let journal = repository.file("m.journal");
    while sequences_of(&journal) < 3 {
        thread::sleep(Duration::from_millis(10));
    }
    running.signal(2);
    let finished = running.finish();
    assert!([0, 4].contains(&finished.code()), "{}\n{}", finished.stdout, finished.stderr);
    repository
}

#[test]
fn an_interrupt_ends_open_sequences() {
    for load in [
        "--sync --concurrency-range 3",
        "--async --concurrency-range 3",
        "--request-rate-range 200 --num-of-sequences 3",
        "--stage concurrency:3:60s",
    ] {
        let repository = interrupted(load);
        let all = assert_well_formed(&repository);
        assert_eq!(all.len(), 3, "{load}: one sequence per request stream");
    }
}

#[test]
fn an_error_ends_open_sequences() {
    for load in [
        "--sync --concurrency-range 2",
        "--async --concurrency-range 2",
        "--request-rate-range 300 --num-of-sequences 2 --serial-sequences",
    ] {
        let repository = Repository::of(&[]);
        let model = Model::accumulator("m").instances(2).parameter("fail_every", "7");
        repository.add(&repository.counting(repository.journaling(model)));
        let finished = Program::on(&repository, "m")
            .args("-p 400 -s 1000000 --sequence-length 20 --max-errors 5%")
            .args(load)
            .run();
        assert_eq!(finished.code(), 3, "{}\n{}", finished.stdout, finished.stderr);
        let counters = repository.counters("m");
        assert!(counters.get("failures") > 0);
        // The model does not see the flags of requests that it fails, so its journal is asked: whatever was opened was
        // sent an end. Sequences whose start failed are left out: the model has none, only the batcher holds a place.
        assert!(!sequences(&repository).is_empty(), "{load}");
    }
}

/// An ensemble of one step on INT32 [1].
fn around(name: &str, inner: &str) -> Model {
    let tensors = r#"
input [{ name: "INPUT0" data_type: TYPE_INT32 dims: [1] }]
output [{ name: "OUTPUT0" data_type: TYPE_INT32 dims: [1] }]"#;
    let step = format!(
        "platform: \"ensemble\"\nensemble_scheduling {{ step [{{ model_name: \"{inner}\" model_version: -1\n\
         input_map {{ key: \"INPUT0\" value: \"INPUT0\" }}\noutput_map {{ key: \"OUTPUT0\" value: \"OUTPUT0\" }} }}] }}"
    );
    Model::identity(name).backend("").batches(0).tensors(tensors).with(&step)
}

/// An ensemble in an ensemble, around a model that takes sequences.
fn nested() -> Repository {
    let repository = Repository::of(&[around("m", "middle"), around("middle", "inner")]);
    repository.add(&repository.counting(Model::accumulator("inner").instances(4)));
    repository
}

#[test]
fn an_ensemble_around_a_sequence_model_gets_whole_sequences_in_process() {
    for load in [
        "--sync --concurrency-range 3",
        "--async --concurrency-range 3",
        "--request-rate-range 300 --num-of-sequences 3 --serial-sequences",
    ] {
        let repository = nested();
        let finished = run(&repository, &format!("-p 150 -s 1000000 --sequence-length 6 {load}"));
        let report = finished.report_with(finished.code());
        assert!(report.level().client_number("Sequence count") > 0.0, "{load}: {}", report.text);
        assert!(!report.text.contains("Failed request count"), "{load}: {}", report.text);
        let counters = repository.counters("inner");
        assert_eq!((counters.get("violations"), counters.get("sequences_open")), (0, 0), "{load}");
        assert!(counters.get("sequences_started") > 0 && counters.get("sequences_ended") > 0, "{load}");
    }
}

#[test]
fn an_ensemble_around_a_sequence_model_gets_whole_sequences_over_the_network() {
    let repository = nested();
    let server = TritonServer::start(&repository).expect("the directory of the server has tritonserver");
    for (protocol, more) in [("http", ""), ("grpc", ""), ("grpc", "--streaming")] {
        let transport = format!("{protocol} {more}");
        let flags = format!("{more} --async --concurrency-range 3 --sequence-length 6 --request-count 60");
        let finished = server.program(protocol, "m").args(&flags).run();
        let report = finished.report();
        assert!(report.level().client_number("Sequence count") > 0.0, "{transport}: {}", report.text);
        assert!(!report.text.contains("Failed request count"), "{transport}: {}", report.text);
    }
    server.stop();
    let counters = repository.counters("inner");
    assert_eq!((counters.get("violations"), counters.get("sequences_open")), (0, 0));
    assert_eq!(counters.get("sequences_started"), counters.get("sequences_ended"));
}

const SEQUENCE_BLS: &str = r#"
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        responses = []
        for request in requests:
            call = pb_utils.InferenceRequest(
                model_name="middle",
                requested_output_names=["OUTPUT0"],
                inputs=[pb_utils.get_input_tensor_by_name(request, "INPUT0")],
                correlation_id=request.correlation_id(),
                flags=request.flags(),
            )
            answer = call.exec()
            if answer.has_error():
                responses.append(pb_utils.InferenceResponse(error=answer.error()))
            else:
                output = pb_utils.get_output_tensor_by_name(answer, "OUTPUT0")
                responses.append(pb_utils.InferenceResponse([output]))
        return responses
"#;

#[test]
fn a_bls_model_that_calls_a_sequence_model_gets_whole_sequences() {
    let repository = Repository::of(&[around("middle", "inner")]);
    repository.add(&repository.counting(Model::accumulator("inner").instances(4)));
    let tensors = r#"
input [{ name: "INPUT0" data_type: TYPE_INT32 dims: [1] }]
output [{ name: "OUTPUT0" data_type: TYPE_INT32 dims: [1] }]"#;
    repository.add(&Model::python("m", SEQUENCE_BLS).batches(0).tensors(tensors));
    let flags = "--bls-composing-models middle --async --concurrency-range 3 --sequence-length 6 --request-count 60";
    let report = Program::on(&repository, "m").args(flags).run().report();
    assert!(report.level().client_number("Sequence count") > 0.0, "{}", report.text);
    assert!(!report.text.contains("Failed request count"), "{}", report.text);
    let counters = repository.counters("inner");
    assert_eq!((counters.get("violations"), counters.get("sequences_open")), (0, 0));
    assert!(counters.get("sequences_started") > 0);
}
