//! Batches.

use std::iter;

use super::fixture::*;
use triton_bench::data::{Corpus, DataSource, Packing};
use triton_bench::model::{DataType, ModelSpec};
use triton_bench::shm::Placement;

fn steps(count: i32, width: usize) -> Corpus {
    let step = |value: i32| format!("{{\"A\": {:?}}}", vec![value; width]);
    let list: Vec<_> = (0..count).map(step).collect();
    json(format!("{{\"data\": [{}]}}", list.join(",")), &wide(width)).unwrap()
}

fn wide(width: usize) -> ModelSpec {
    model(vec![tensor("A", DataType::Int32, &[width as i64])], vec![])
}

#[test]
fn batches_follow_each_other_and_wrap() {
    for width in [1, 3, 16] {
        let table = pack(&steps(5, width), 3);
        assert_eq!((table.payloads.len(), &table.streams), (5, &iter::once(0..5).collect()));
        for (request, payload) in table.payloads.iter().enumerate() {
            let next = 3 * request as i32;
            let wanted: Vec<i32> = (next..next + 3).flat_map(|value| vec![value % 5; width]).collect();
            assert_eq!(sent(&payload.inputs[0]), ints(&wanted), "request {request} of width {width}");
            assert_eq!(*payload.inputs[0].shape, [3, width as i64]);
            assert_eq!(payload.step, (next % 5) as u32);
            assert_eq!(payload.inputs[0].address() % 4, 0, "the alignment of the type");
        }
        assert_eq!(table.payloads[0].inputs[0].address() % 64, 0);
    }
    let even = pack(&steps(6, 1), 3);
    assert_eq!(even.payloads.len(), 2);
    assert!(even.payloads.iter().all(|payload| payload.inputs[0].address() % 64 == 0), "batches without common steps");
    assert_eq!(sent(&even.payloads[1].inputs[0]), ints(&[3, 4, 5]));
    let larger = pack(&steps(2, 1), 5);
    assert_eq!(sent(&larger.payloads[0].inputs[0]), ints(&[0, 1, 0, 1, 0]));
    assert_eq!(sent(&larger.payloads[1].inputs[0]), ints(&[1, 0, 1, 0, 1]));
}

#[test]
fn batches_hold_each_element_once_whatever_its_size() {
    for width in [1, 3, 16, 17] {
        let table = pack(&steps(1001, width), 100);
        assert_eq!(table.payloads.len(), 1001);
        let len = table.payloads[0].inputs[0].region.len();
        assert!(len <= (1001 + 100) * 4 * width + 64, "width {width}: {len}");
    }
    let list: Vec<_> = (0..1001).map(|step| format!("{{\"A\": [\"{}\"]}}", "x".repeat(step % 7))).collect();
    let texts = model(vec![tensor("A", DataType::Bytes, &[1])], vec![]);
    let table = pack(&json(format!("{{\"data\": [{}]}}", list.join(",")), &texts).unwrap(), 100);
    let len = table.payloads[0].inputs[0].region.len();
    assert!(len <= (1001 + 100) * 7 + 64, "strings: {len}");
    for payload in &table.payloads {
        let text = |member: u32| {
            let len = (payload.step + member) % 1001 % 7;
            [len.to_le_bytes().to_vec(), vec![b'x'; len as usize]].concat()
        };
        assert_eq!(sent(&payload.inputs[0]), (0..100).flat_map(text).collect::<Vec<_>>(), "step {}", payload.step);
    }
}

#[test]
fn batches_of_one_are_not_copied() {
    let corpus = steps(3, 16);
    let (first, second) = (pack(&corpus, 1), pack(&corpus, 1));
    assert_eq!(first.payloads[2].inputs[0].address(), second.payloads[2].inputs[0].address());
    let system = corpus.clone().pack(&Packing { placement: Placement::System, ..packing(1) }).unwrap();
    let input = &system.payloads[2].inputs[0];
    assert_eq!(input.region.placement(), Placement::System);
    assert_eq!(sent(input), ints(&[2; 16]));
}

#[test]
fn sequences_keep_streams_apart() {
    let text = r#"{"data": [[{"A": [1]}, {"A": [2]}], [{"A": [3]}]]}"#;
    let corpus = json(text, &wide(1)).unwrap();
    let table = corpus.clone().pack(&Packing { sequences: true, ..packing(1) }).unwrap();
    assert_eq!(table.streams, [0..2, 2..3]);
    assert_eq!((table.payloads[2].stream, table.payloads[2].step), (1, 0));
    let all = pack(&corpus, 1);
    assert_eq!(all.streams, iter::once(0..3).collect::<Vec<_>>());
}

/// The values of each request, and the stream and step of the first.
fn requests(text: &str, model: &ModelSpec, batch: u64) -> Vec<(u32, u32, Vec<u8>)> {
    let table = pack(&json(text, model).unwrap(), batch);
    table.payloads.iter().map(|payload| (payload.stream, payload.step, sent(&payload.inputs[0]))).collect()
}

#[test]
fn batches_go_on_into_the_next_stream_where_its_steps_fit() {
    let text = r#"{"data": [[{"A": [1]}, {"A": [2]}, {"A": [3]}], [{"A": [4]}]]}"#;
    assert_eq!(requests(text, &wide(1), 2), [(0, 0, ints(&[1, 2])), (0, 2, ints(&[3, 4]))]);
}

#[test]
fn batches_stay_in_their_stream_where_shapes_differ() {
    let open = model(vec![tensor("A", DataType::Int32, &[-1])], vec![]);
    let step = |values: &[i32]| format!(r#"{{"A": {{"content": {values:?}, "shape": [{}]}}}}"#, values.len());
    let (long, short) = ([step(&[1, 2]), step(&[3, 4]), step(&[5, 6])].join(","), step(&[7]));
    let got = requests(&format!(r#"{{"data": [[{long}], [{short}]]}}"#), &open, 2);
    let wanted =
        [(0, 0, ints(&[1, 2, 3, 4])), (0, 2, ints(&[5, 6, 1, 2])), (0, 1, ints(&[3, 4, 5, 6])), (1, 0, ints(&[7, 7]))];
    assert_eq!(got, wanted);
    let corpus = json(format!(r#"{{"data": [[{long}], [{short}]]}}"#), &open).unwrap();
    assert_eq!(pack(&corpus, 2).streams, iter::once(0..4).collect::<Vec<_>>());
    let mixed = json(format!(r#"{{"data": [[{long}], [{short}, {long}]]}}"#), &open).unwrap();
    let message = mixed.pack(&packing(2)).unwrap_err().to_string();
    assert!(message.contains("(stream 1, step 0 and stream 1, step 1 of "), "{message}");
}

#[test]
fn a_batch_expects_outputs_of_all_its_steps_or_of_none() {
    let spec = model(vec![tensor("A", DataType::Int32, &[1])], vec![tensor("Y", DataType::Int32, &[1])]);
    let folder = Folder::new();
    let plain = folder.write("plain.json", r#"{"data": [{"A": [1]}]}"#);
    let sure = folder.write("sure.json", r#"{"data": [{"A": [2]}], "validation_data": [{"Y": [2]}]}"#);
    for files in [vec![plain.clone(), sure.clone()], vec![sure, plain]] {
        let corpus = Ask::new(DataSource::Files(files.clone())).load(&spec).unwrap();
        let message = corpus.clone().pack(&packing(2)).unwrap_err().to_string();
        let without = u32::from(files[1].ends_with("plain.json"));
        let rule = format!("has expected outputs, but stream 0, step {without} in the same batch has none");
        assert!(message.contains("-b 2: ") && message.contains(&rule) && message.contains("/plain.json'"), "{message}");
        let batch = pack(&corpus, 1);
        let expects: Vec<_> = batch.payloads.iter().map(|payload| payload.expected.is_some()).collect();
        assert_eq!(expects, [without == 1, without == 0], "requests of one step");
    }
    let streams = |plain: &str, sure: &str| {
        let first = folder.write("1.json", plain);
        let second = folder.write("2.json", sure);
        pack(&Ask::new(DataSource::Files(vec![first, second])).load(&spec).unwrap(), 2)
    };
    let table =
        streams(r#"{"data": [[{"A": [1]}]]}"#, r#"{"data": [[{"A": [2]}]], "validation_data": [[{"Y": [2]}]]}"#);
    let expects: Vec<_> = table.payloads.iter().map(|payload| payload.expected.is_some()).collect();
    assert_eq!(expects, [false, true], "streams of which only one expects anything");
}

#[test]
fn expectations_are_shared_by_batches() {
    let spec = model(vec![tensor("A", DataType::Int32, &[1])], vec![tensor("Y", DataType::Int32, &[1])]);
    let list = |name: &str| (0..5).map(|step| format!(r#"{{"{name}": [{step}]}}"#)).collect::<Vec<_>>().join(",");
    let text = format!(r#"{{"data": [{}], "validation_data": [{}]}}"#, list("A"), list("Y"));
    let table = pack(&json(text, &spec).unwrap(), 3);
    let mut addresses = std::collections::HashSet::new();
    for payload in &table.payloads {
        let members: Vec<_> = payload.expected.as_ref().unwrap().members(3).collect();
        let steps: Vec<u32> = members.iter().map(|member| member.step).collect();
        assert_eq!(steps, [0, 1, 2].map(|member| (payload.step + member) % 5));
        addresses.extend(members.iter().map(|member| member.responses[0][0].bytes.as_ptr()));
    }
    assert_eq!(addresses.len(), 5, "each value is in memory once");
}

#[test]
fn shape_tensors_are_sent_once() {
    let mut spec = model(vec![tensor("A", DataType::Int32, &[1]), tensor("S", DataType::Int32, &[2])], vec![]);
    spec.inputs[1].shape_tensor = true;
    let text = |last: &str| format!(r#"{{"data": [{{"A": [1], "S": [4, 5]}}, {{"A": [2], "S": {last}}}]}}"#);
    let table = pack(&json(text("[4, 5]"), &spec).unwrap(), 2);
    let [a, s] = table.payloads[0].inputs.as_slice() else { panic!() };
    assert_eq!((&*a.shape, sent(a)), (&[2, 1][..], ints(&[1, 2])));
    assert_eq!((&*s.shape, sent(s)), (&[2][..], ints(&[4, 5])));
    let refused = json(text("[4, 6]"), &spec).unwrap().pack(&packing(2)).unwrap_err().to_string();
    assert!(
        refused.contains("The shape tensors should be identical in a batch (mismatch in content) for 'S'"),
        "{refused}"
    );
    assert!(refused.contains("stream 0, step 0 and stream 0, step 1"), "{refused}");
}

#[test]
fn what_cannot_be_batched_is_refused() {
    let open = model(vec![tensor("A", DataType::Int32, &[-1])], vec![]);
    let text = r#"{"data": [{"A": {"content": [1], "shape": [1]}}, {"A": {"content": [1, 2], "shape": [2]}}]}"#;
    let message = json(text, &open).unwrap().pack(&packing(2)).unwrap_err().to_string();
    assert!(
        message.contains(
            "can not batch tensors with different shapes together (input 'A' expected shape [1] and received [2])"
        ),
        "{message}"
    );
    assert!(message.contains(" (stream 0, step 0 and stream 0, step 1 of '/"), "{message}");
    assert!(message.ends_with("/in.json')"), "{message}");
    let mut optional = model(vec![tensor("A", DataType::Int32, &[1]), tensor("B", DataType::Int32, &[1])], vec![]);
    optional.inputs[1].optional = true;
    let text = r#"{"data": [{"A": [1]}, {"A": [1], "B": [2]}]}"#;
    let message = json(text, &optional).unwrap().pack(&packing(2)).unwrap_err().to_string();
    assert!(
        message.contains("For batch sizes larger than 1, the same set of inputs must be specified for each batch."),
        "{message}"
    );
    let mut single = wide(1);
    single.max_batch_size = 0;
    let corpus = Ask::new(DataSource::Zero).load(&single).unwrap();
    let message = corpus.clone().pack(&packing(2)).unwrap_err().to_string();
    assert!(message.contains("can not specify batch size > 1 as the model does not support batching"), "{message}");
    assert_eq!(*pack(&corpus, 1).payloads[0].inputs[0].shape, [1]);
    let message = steps(1, 1).pack(&Packing { sequences: true, ..packing(2) }).unwrap_err().to_string();
    assert!(message.contains("when using a sequence model"), "{message}");
    assert!(steps(1, 1).pack(&packing(0)).is_err());
    assert!(steps(2, 1).pack(&packing(u64::MAX)).is_err());
    let huge =
        Ask::new(DataSource::Zero).load(&wide(1 << 20)).unwrap().pack(&packing(1 << 24)).unwrap_err().to_string();
    assert!(huge.contains("cannot allocate 70368744177664 bytes of memory"), "{huge}");
}
