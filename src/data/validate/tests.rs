//! Responses that match, and that do not.

use super::*;
use crate::{Expected, ExpectedStep};
use std::sync::Arc;

fn values(datatype: DataType, shape: &[i64], bytes: Vec<u8>) -> OutputValues {
    OutputValues { name: "Y".into(), datatype, shape: Some(shape.to_vec()), shape_tensor: false, bytes }
}

/// A batch of steps, from step 5 of stream 2 on, and the responses that each expects.
fn payload(steps: Vec<Vec<Vec<OutputValues>>>, batched: bool) -> Payload {
    let batch = steps.len() as u64;
    let shared = |outputs: Vec<OutputValues>| outputs.into_iter().map(Arc::new).collect();
    let steps = steps.into_iter().zip(5..).map(|(responses, step)| ExpectedStep {
        stream: 2,
        step,
        responses: responses.into_iter().map(shared).collect(),
    });
    let steps: Arc<[_]> = steps.collect();
    let expected = Some(Arc::new(Expected { cycle: 0..steps.len(), steps, first: 0, batched }));
    Payload { model: 0, batch, stream: 2, step: 5, inputs: Vec::new(), parameters: Vec::new(), expected }
}

/// [`super::validate`], of responses that are values of ours.
fn validate(payload: &Payload, responses: &[Vec<OutputValues>], tolerance: Option<Tolerance>) -> Result<(), Mismatch> {
    fn view(output: &OutputValues) -> OutputView<'_> {
        let shape = output.shape.as_deref().unwrap_or_default();
        OutputView { name: &output.name, datatype: output.datatype, shape, bytes: &output.bytes }
    }
    let responses: Vec<Vec<_>> = responses.iter().map(|outputs| outputs.iter().map(view).collect()).collect();
    super::validate(payload, &responses, tolerance)
}

/// Compares bit by bit where the tolerance is `None`.
fn check(expected: OutputValues, got: OutputValues, tolerance: impl Into<Option<Tolerance>>) -> Result<(), String> {
    let payload = payload(vec![vec![vec![expected]]], false);
    validate(&payload, &[vec![got]], tolerance.into()).map_err(|mismatch| mismatch.to_string())
}

fn floats(list: &[f32]) -> OutputValues {
    values(DataType::Fp32, &[list.len() as i64], list.iter().flat_map(|value| value.to_le_bytes()).collect())
}

#[test]
fn floats_are_exact_unless_tolerated() {
    let exact = None;
    assert_eq!(check(floats(&[1.0, f32::NAN]), floats(&[1.0, f32::NAN]), exact), Ok(()));
    let message = check(floats(&[1.0, 2.0]), floats(&[1.0, 2.5]), exact).unwrap_err();
    assert_eq!(
        message,
        "Output doesn't match expected output: stream 2, step 5, response 0, output 'Y', element 1: expected 2, got 2.5"
    );
    let loose = Tolerance { relative: 0.3, absolute: 0.0 };
    assert_eq!(check(floats(&[1.0, 2.0, f32::INFINITY]), floats(&[1.0, 2.5, f32::INFINITY]), loose), Ok(()));
    assert!(check(floats(&[f32::INFINITY]), floats(&[f32::NEG_INFINITY]), loose).is_err());
    assert!(check(floats(&[0.0]), floats(&[0.1]), loose).is_err());
    assert!(check(floats(&[0.0]), floats(&[f32::NAN]), Tolerance { relative: 0.0, absolute: 9.0 }).is_err());
    assert_eq!(check(floats(&[0.0]), floats(&[0.1]), Tolerance { relative: 0.0, absolute: 0.2 }), Ok(()));
    // A tolerance of nothing compares values, not bits.
    let none = Tolerance { relative: 0.0, absolute: 0.0 };
    let other_nan = f32::from_bits(0xffc0_0000);
    assert_eq!(check(floats(&[0.0, f32::NAN]), floats(&[-0.0, other_nan]), none), Ok(()));
    assert!(check(floats(&[1.0]), floats(&[1.0 + f32::EPSILON]), none).is_err());
    let message = check(floats(&[0.0]), floats(&[-0.0]), exact).unwrap_err();
    assert!(message.ends_with("element 0: expected 0, got -0"), "{message}");
    let message = check(floats(&[f32::NAN]), floats(&[other_nan]), exact).unwrap_err();
    assert!(message.ends_with("expected NaN (0x7fc00000), got NaN (0xffc00000)"), "{message}");
    let message = check(floats(&[1e30]), floats(&[1e-30]), exact).unwrap_err();
    assert!(message.ends_with("expected 1e30, got 1e-30"), "{message}");
}

#[test]
fn half_floats_are_tolerated_and_shown() {
    let half = |value: f32| values(DataType::Fp16, &[1], f16::from_f32(value).to_le_bytes().to_vec());
    let brain = |value: f32| values(DataType::Bf16, &[1], bf16::from_f32(value).to_le_bytes().to_vec());
    let loose = Tolerance { relative: 0.01, absolute: 0.0 };
    assert_eq!(check(half(1.0), half(1.005), loose), Ok(()));
    assert!(check(half(1.0), half(1.5), loose).unwrap_err().ends_with("expected 1, got 1.5"));
    assert!(check(brain(1.0), brain(-2.0), loose).unwrap_err().ends_with("expected 1, got -2"));
}

#[test]
fn integers_and_bytes_are_exact() {
    let loose = Tolerance { relative: 1.0, absolute: 100.0 };
    let ints = |a: i16, b: i16| values(DataType::Int16, &[2], [a.to_le_bytes(), b.to_le_bytes()].concat());
    assert!(check(ints(1, -2), ints(1, -3), loose).unwrap_err().ends_with("element 1: expected -2, got -3"));
    let text = |list: &[&[u8]]| {
        let bytes = list.iter().flat_map(|item| [&(item.len() as u32).to_le_bytes(), *item].concat()).collect();
        OutputValues { shape: None, ..values(DataType::Bytes, &[], bytes) }
    };
    assert_eq!(check(text(&[b"a\0"]), text(&[b"a\0"]), loose), Ok(()));
    let message = check(text(&[b"a", b"b\n"]), text(&[b"a", b"c"]), loose).unwrap_err();
    assert!(message.ends_with("element 1: expected \"b\\n\", got \"c\""), "{message}");
    assert!(check(text(&[b"a", b"b"]), text(&[b"a"]), loose).unwrap_err().ends_with("expected 2, got 1"));
    let cut = OutputValues { shape: None, ..values(DataType::Bytes, &[], vec![9, 0, 0, 0, 1]) };
    assert!(check(text(&[b"a"]), cut, loose).unwrap_err().contains("cut off"));
}

#[test]
fn shapes_sizes_and_responses_are_compared() {
    let exact = None;
    let any_shape = OutputValues { shape: None, ..floats(&[1.0, 2.0]) };
    assert!(check(floats(&[1.0, 2.0]), floats(&[1.0]), exact).unwrap_err().ends_with("expected shape [2], got [1]"));
    assert!(check(any_shape, floats(&[1.0]), exact).unwrap_err().ends_with("expected 8, got 4"));
    let other = values(DataType::Int32, &[1], vec![0; 4]);
    assert!(check(floats(&[0.0]), other, exact).unwrap_err().ends_with("expected FP32, got INT32"));
    let payload = payload(vec![vec![vec![floats(&[1.0])], vec![floats(&[2.0])]]], false);
    let mismatch = validate(&payload, &[vec![floats(&[1.0])]], exact).unwrap_err();
    assert!(mismatch.to_string().ends_with("response 1: expected 2 responses, got 1"), "{mismatch}");
    let wrong = validate(&payload, &[vec![floats(&[1.0])], vec![floats(&[3.0])]], exact).unwrap_err();
    assert_eq!((wrong.response, wrong.tensor.as_str()), (1, "Y"));
    let missing = validate(&payload, &[vec![], vec![]], exact).unwrap_err();
    assert_eq!(missing.difference, Difference::Missing);
}

#[test]
fn a_difference_names_the_step_of_the_batch() {
    let step = |list: &[f32]| vec![vec![floats(list)]];
    let batch = payload(vec![step(&[1.0, 2.0]), step(&[3.0, 4.0]), step(&[5.0, 6.0])], true);
    let got = |list: &[f32], shape: &[i64]| vec![vec![OutputValues { shape: Some(shape.to_vec()), ..floats(list) }]];
    let check = |got: Vec<Vec<OutputValues>>| validate(&batch, &got, None).map_err(|mismatch| mismatch.to_string());
    assert_eq!(check(got(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], &[3, 2])), Ok(()));
    let message = check(got(&[1.0, 2.0, 3.0, 4.0, 5.0, 7.0], &[3, 2])).unwrap_err();
    let suffix = "stream 2, step 7, response 0, output 'Y', element 1: expected 6, got 7";
    assert!(message.ends_with(suffix), "{message}");
    let message = check(got(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], &[2, 3])).unwrap_err();
    assert!(message.ends_with("step 5, response 0, output 'Y': expected shape [3,2], got [2,3]"), "{message}");
    assert!(check(got(&[1.0, 2.0], &[3, 2])).unwrap_err().ends_with("expected 24, got 8"));
}

#[test]
fn outputs_may_lack_the_batch_dimension_where_responses_may() {
    let shaped = |list: &[f32], shape: &[i64]| OutputValues { shape: Some(shape.to_vec()), ..floats(list) };
    let fits = |batch: &Payload, got: OutputValues| validate(batch, &[vec![got]], None).is_ok();
    let step = |output: OutputValues| vec![vec![output]];
    let single = payload(vec![step(floats(&[1.0, 2.0]))], true);
    for (shape, is_good) in [(&[1, 2][..], true), (&[2], true), (&[2, 1], false), (&[1, 1, 2], false)] {
        assert_eq!(fits(&single, shaped(&[1.0, 2.0], shape)), is_good, "{shape:?}");
    }
    let two = payload(vec![step(floats(&[1.0, 2.0])), step(floats(&[1.0, 2.0]))], true);
    assert!(!fits(&two, shaped(&[1.0, 2.0], &[2])), "one element of the batch is missing");
    let once = |shape| OutputValues { shape_tensor: true, shape, ..floats(&[1.0, 2.0]) };
    for shape in [None, Some(vec![2])] {
        let two = payload(vec![step(once(shape.clone())), step(once(shape.clone()))], true);
        assert!(fits(&two, shaped(&[1.0, 2.0], &[2])) && fits(&two, shaped(&[1.0, 2.0, 1.0, 2.0], &[2, 2])));
        assert!(!fits(&two, shaped(&[1.0, 3.0], &[2])) && !fits(&two, shaped(&[1.0], &[1])), "{shape:?}");
    }
}

#[test]
fn strings_of_a_batch_may_be_of_any_length() {
    let text = |list: &[&str]| {
        let bytes = list.iter().flat_map(|item| [&(item.len() as u32).to_le_bytes(), item.as_bytes()].concat());
        OutputValues { shape: None, ..values(DataType::Bytes, &[], bytes.collect()) }
    };
    let steps = [["a", "bcd"], ["", "e"], ["fg", "h"]].map(|list| vec![vec![text(&list)]]);
    let batch = payload(steps.to_vec(), true);
    let check = |got: &[&str]| validate(&batch, &[vec![text(got)]], None).map_err(|mismatch| mismatch.to_string());
    assert_eq!(check(&["a", "bcd", "", "e", "fg", "h"]), Ok(()));
    let message = check(&["a", "bcd", "", "e", "fgh", "h"]).unwrap_err();
    assert!(message.ends_with("step 7, response 0, output 'Y', element 0: expected \"fg\", got \"fgh\""), "{message}");
    let message = check(&["a", "bcd", "", "longer", "fg", "h"]).unwrap_err();
    assert!(
        message.ends_with("step 6, response 0, output 'Y', element 1: expected \"e\", got \"longer\""),
        "{message}"
    );
    for (got, count) in
        [(&["a", "bcd", "", "e", "fg"][..], 5), (&["a", "bcd", "", "e", "fg", "h", "i"], 7), (&["a"], 1)]
    {
        let message = check(got).unwrap_err();
        assert!(message.ends_with(&format!("expected 6, got {count}")), "{message}");
    }
}
