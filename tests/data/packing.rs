//! Batches.

use super::fixture::*;
use triton_bench::data::{Corpus, DataSource, Packing, PayloadId};
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
    // Widths that make elements of 4 and of 64 bytes: apart, and as windows of one ring.
    for width in [1, 16] {
        let corpus = steps(5, width);
        let table = corpus.clone().pack(&Packing { first: PayloadId(7), ..packing(3) }).unwrap();
        assert_eq!(table.payloads.len(), 5);
        let mut next = 0;
        for request in 0..11 {
            let id = table.cycle(request);
            let payload = &table.payloads[id.0 as usize - 7];
            let wanted: Vec<i32> = (next..next + 3).flat_map(|value| vec![value % 5; width]).collect();
            assert_eq!(sent(&payload.inputs[0]), ints(&wanted), "request {request} of width {width}");
            assert_eq!(payload.inputs[0].shape, [3, width as i64]);
            assert_eq!(payload.step, (next % 5) as u32);
            assert_eq!(payload.inputs[0].address() % 64, 0);
            next += 3;
        }
    }
    let even = pack(&steps(6, 1), 3);
    assert_eq!(even.payloads.len(), 2);
    let larger = pack(&steps(2, 1), 5);
    assert_eq!(sent(&larger.payloads[0].inputs[0]), ints(&[0, 1, 0, 1, 0]));
    assert_eq!(sent(&larger.payloads[1].inputs[0]), ints(&[1, 0, 1, 0, 1]));
}

#[test]
fn rings_hold_each_element_once() {
    let corpus = steps(101, 16);
    let table = pack(&corpus, 8);
    assert_eq!(table.payloads.len(), 101);
    assert!(table.payloads[0].inputs[0].region.len() <= (101 + 8) * 64);
}

#[test]
fn batches_of_one_are_not_copied() {
    let corpus = steps(3, 16);
    let (one, other) = (pack(&corpus, 1), pack(&corpus, 1));
    assert_eq!(one.payloads[2].inputs[0].address(), other.payloads[2].inputs[0].address());
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
    assert_eq!((table.streams(), table.stream_len(0), table.stream_len(1)), (2, 2, 1));
    assert_eq!(table.payload_id(0, 3), PayloadId(1));
    assert_eq!(table.payload_id(1, 0), PayloadId(2));
    assert_eq!((table.payloads[2].stream, table.payloads[2].step), (1, 0));
    let all = pack(&corpus, 1);
    assert_eq!((all.streams(), all.stream_len(0)), (1, 3));
    assert_eq!(all.cycle(5), PayloadId(2));
}

#[test]
fn shape_tensors_are_sent_once() {
    let mut spec = model(vec![tensor("A", DataType::Int32, &[1]), tensor("S", DataType::Int32, &[2])], vec![]);
    spec.inputs[1].shape_tensor = true;
    let text = |last: &str| format!(r#"{{"data": [{{"A": [1], "S": [4, 5]}}, {{"A": [2], "S": {last}}}]}}"#);
    let table = pack(&json(text("[4, 5]"), &spec).unwrap(), 2);
    let [a, s] = table.payloads[0].inputs.as_slice() else { panic!() };
    assert_eq!((a.shape.as_slice(), sent(a)), (&[2, 1][..], ints(&[1, 2])));
    assert_eq!((s.shape.as_slice(), sent(s)), (&[2][..], ints(&[4, 5])));
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
    assert_eq!(pack(&corpus, 1).payloads[0].inputs[0].shape, [1]);
    let message = steps(1, 1).pack(&Packing { sequences: true, ..packing(2) }).unwrap_err().to_string();
    assert!(message.contains("when using a sequence model"), "{message}");
    assert!(steps(1, 1).pack(&packing(0)).is_err());
    assert!(steps(2, 1).pack(&packing(u64::MAX)).is_err());
    let huge =
        Ask::new(DataSource::Zero).load(&wide(1 << 20)).unwrap().pack(&packing(1 << 24)).unwrap_err().to_string();
    assert!(huge.contains("cannot allocate 70368744177664 bytes of memory"), "{huge}");
}
