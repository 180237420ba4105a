use std::io::Write;

use super::*;
use crate::backend::{ClientSpec, ReplyRule};
use crate::engine::http1::decompressed;
use crate::kserve_http::body::Longest;
use crate::kserve_http::outputs::ReplyOutputs;
use crate::model::{ModelId, ModelSpec, TensorSpec};
use crate::triton_json::{MetadataJson, model_of};

/// Longest body of these tests.
const MOST: u64 = 1 << 20;

const BINARY: &str = r#"{"model_name":"m","outputs":[{"name":"O","datatype":"FP32","shape":[1,2],"parameters":{"binary_data_size":8}}]}"#;

/// Four bytes where eight belong.
const SHORT: &str = r#"{"outputs":[{"name":"O","datatype":"FP32","shape":[2],"parameters":{"binary_data_size":4}}]}"#;

fn head(json: Option<usize>) -> Head {
    Head { status: 200, part_length: json.map(|length| length as u64), ..Head::default() }
}

/// A body as it is kept when it came in pieces.
fn kept(head: &Head, body: &[u8], watch: bool) -> Kept {
    let mut kept = Kept::default();
    kept.begin(head, watch, Longest::Allowed(MOST)).unwrap();
    body.chunks(5).fold(0, |total, piece| {
        kept.push(piece, total + piece.len() as u64).unwrap();
        total + piece.len() as u64
    });
    kept
}

/// Checks of one payload by this rule.
fn checks(replies: ReplyRule) -> ReplyChecks {
    ReplyChecks::new(&ClientSpec { replies, ..ClientSpec::new(Vec::new().into(), Vec::new().into()) })
}

/// A reply, of which `total` bytes have come.
#[derive(Clone, Copy)]
struct Reply<'a> {
    head: &'a Head,
    body: &'a Kept,
    total: u64,
}

/// A reply to a request for `model`, checked by the quick way.
fn check_with(
    checker: &mut Checker,
    reply: Reply<'_>,
    model: &ModelSpec,
    checks: &ReplyChecks,
) -> Result<(), InferError> {
    let Reply { head, body, total } = reply;
    let form = || ReplyForm { model, batch: 1, contents: true };
    checker.check(head, body, total, Wanted { shared: false, payload: PayloadId(0), form: &form, checks })
}

fn anything() -> ModelSpec {
    ModelSpec::plain(&ModelId::latest("m"), Vec::new(), Vec::new())
}

/// Both ways of looking at a reply.
fn judge(head: &Head, body: &[u8]) -> (Result<(), InferError>, Result<(), InferError>) {
    judge_by(ReplyRule::Readable, head, body)
}

fn judge_by(rule: ReplyRule, head: &Head, body: &[u8]) -> (Result<(), InferError>, Result<(), InferError>) {
    let (quick, strict) = (kept(head, body, false), kept(head, body, true));
    let (model, total) = (anything(), body.len() as u64);
    let checked = check_with(&mut Checker::default(), Reply { head, body: &quick, total }, &model, &checks(rule));
    let read = decompressed(head, strict.bytes(), strict.most())
        .and_then(|body| ReplyOutputs::read(head, body, None))
        .and_then(|outputs| checks(rule).settle(PayloadId(0), &model, outputs.decoded()));
    (checked, read)
}

fn outputs(head: &Head, body: &[u8]) -> Vec<(String, Vec<i64>, Vec<u8>)> {
    let kept = kept(head, body, true);
    let body = decompressed(head, kept.bytes(), kept.most()).unwrap();
    let outputs = ReplyOutputs::read(head, body, None).unwrap();
    let mut views = Vec::new();
    outputs.visit(&mut |view| views.push((view.name.to_owned(), view.shape.to_vec(), view.bytes.to_vec())));
    views
}

#[test]
fn binary_and_json_outputs_are_read() {
    let body = [BINARY.as_bytes(), &[1, 2, 3, 4, 5, 6, 7, 8]].concat();
    let head_binary = head(Some(BINARY.len()));
    assert_eq!(judge(&head_binary, &body), (Ok(()), Ok(())));
    assert_eq!(outputs(&head_binary, &body), [("O".to_owned(), vec![1, 2], vec![1, 2, 3, 4, 5, 6, 7, 8])]);
    let json = r#"{"outputs":[{"name":"A","datatype":"INT8","shape":[2],"data":[1,-1]},{"name":"S","datatype":"BYTES","shape":[1],"data":["é"]}]}"#;
    assert_eq!(judge(&head(None), json.as_bytes()), (Ok(()), Ok(())));
    let views = outputs(&head(None), json.as_bytes());
    assert_eq!(views[0].2, [1, 0xff]);
    assert_eq!(views[1].2, [2, 0, 0, 0, 0xc3, 0xa9]);
}

#[test]
fn compressed_outputs_are_unpacked() {
    let body = [BINARY.as_bytes(), &[0; 8]].concat();
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(&body).unwrap();
    let packed = encoder.finish().unwrap();
    let head = Head { encoding: Encoding::Gzip, ..head(Some(BINARY.len())) };
    assert_eq!(outputs(&head, &packed)[0].2, [0; 8]);
    assert!(judge(&head, &packed[..packed.len() - 9]).1.is_err());
    assert!(judge(&head, &body).1.is_err());
}

#[test]
fn replies_that_do_not_fit_themselves_are_failures() {
    let json = |text: &str| (head(None), text.as_bytes().to_vec());
    let binary = |tensors: &[u8], length: usize| (head(Some(length)), [BINARY.as_bytes(), tensors].concat());
    let cases = [
        ("promises 8 bytes", binary(&[0; 7], BINARY.len())),
        ("promises 8 bytes", binary(&[0; 9], BINARY.len())),
        ("JSON", binary(&[0; 8], BINARY.len() - 1)),
        ("JSON", json("{\"outputs\":[")),
        ("JSON", json("")),
        ("not an inference", json("{}")),
        ("neither data", json(r#"{"outputs":[{"name":"O","datatype":"FP32","shape":[2]}]}"#)),
        ("unknown datatype", json(r#"{"outputs":[{"name":"O","datatype":"FP99","shape":[2],"data":[]}]}"#)),
        ("impossible shape", json(r#"{"outputs":[{"name":"O","datatype":"FP32","shape":[-2],"data":[]}]}"#)),
        ("broken", json(r#"{"error":"broken"}"#)),
        ("takes 8 bytes", (head(Some(SHORT.len())), [SHORT.as_bytes(), &[0; 4]].concat())),
        ("3 elements", json(r#"{"outputs":[{"name":"O","datatype":"FP32","shape":[2],"data":[1,2,3]}]}"#)),
        ("0 elements", json(r#"{"outputs":[{"name":"O","datatype":"FP32","shape":[2],"data":[]}]}"#)),
        ("FP32", json(r#"{"outputs":[{"name":"O","datatype":"FP32","shape":[1],"data":["x"]}]}"#)),
    ];
    for (text, (head, body)) in cases {
        let (checked, read) = judge(&head, &body);
        for error in [checked.unwrap_err(), read.unwrap_err()] {
            assert!(error.message.contains(text), "{text}: {error}");
        }
    }
}

#[test]
fn perf_analyzers_callers_count_what_cannot_be_decoded() {
    let json = |text: &str| (head(None), text.as_bytes().to_vec());
    for (head, body) in [
        (head(Some(SHORT.len())), [SHORT.as_bytes(), &[0; 4]].concat()),
        json(r#"{"outputs":[{"name":"O","datatype":"FP32","shape":[2],"data":[1,2,3]}]}"#),
        json(r#"{"outputs":[{"name":"O","datatype":"FP99","shape":[2],"data":[1,2]}]}"#),
        json(r#"{"outputs":[{"name":"O","datatype":"FP32","shape":[2]}]}"#),
    ] {
        assert_eq!(judge_by(ReplyRule::Any, &head, &body), (Ok(()), Ok(())));
        let (checked, read) = judge_by(ReplyRule::Fitting, &head, &body);
        assert!(checked.is_err() && read.is_err());
    }
}

#[test]
fn damaged_compressed_replies_are_found_whoever_looks() {
    let packed = |bytes: &[u8]| {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    };
    let whole = packed(&[BINARY.as_bytes(), &[0; 8]].concat());
    let mut bent = whole.clone();
    bent[whole.len() - 5] ^= 1;
    let more = packed(&[BINARY.as_bytes(), &[0; 9]].concat());
    let cases = [
        ("damaged", b"no gzip at all".to_vec(), BINARY.len()),
        ("damaged", whole[..whole.len() - 12].to_vec(), BINARY.len()),
        ("damaged", bent, BINARY.len()),
        ("promises 8 bytes of tensors, but 9 came", more, BINARY.len()),
        ("JSON", whole.clone(), BINARY.len() - 1),
        ("but the body has only", whole.clone(), 500),
    ];
    for (text, body, json) in cases {
        let head = Head { encoding: Encoding::Gzip, ..head(Some(json)) };
        let (checked, read) = judge(&head, &body);
        for error in [checked.unwrap_err(), read.unwrap_err()] {
            assert!(error.message.contains(text), "{text}: {error}");
        }
    }
    let head = Head { encoding: Encoding::Gzip, ..head(Some(BINARY.len())) };
    assert_eq!(judge(&head, &whole), (Ok(()), Ok(())));
}

#[test]
fn a_known_json_is_still_measured_against_its_bytes() {
    let (mut checker, model, checks) = (Checker::default(), anything(), checks(ReplyRule::Readable));
    let (head, json) = (head(Some(BINARY.len())), BINARY.as_bytes());
    let (body, total) = (kept(&head, json, false), json.len() as u64 + 8);
    for (total, fits) in [(total, true), (total, true), (total + 1, false)] {
        assert_eq!(check_with(&mut checker, Reply { head: &head, body: &body, total }, &model, &checks).is_ok(), fits);
    }
}

#[test]
fn replies_longer_than_they_can_be_are_given_up_as_soon_as_that_is_known() {
    let head = head(Some(BINARY.len()));
    let mut kept = Kept::default();
    let promised = Head { length: Some(MOST + 1), ..head.clone() };
    let error = kept.begin(&promised, false, Longest::Outputs(MOST)).unwrap_err();
    assert!(error.message.contains("many times what the model's outputs take"), "{error}");
    kept.begin(&head, true, Longest::Allowed(MOST)).unwrap();
    kept.push(&[0; 64], MOST).unwrap();
    assert!(kept.push(&[0; 64], MOST + 1).unwrap_err().message.contains("--max-reply-bytes"));
    // A thousand times as long unpacked.
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(BINARY.as_bytes()).unwrap();
    encoder.write_all(&vec![0; 2 * MOST as usize]).unwrap();
    let packed = encoder.finish().unwrap();
    for head in [
        Head { encoding: Encoding::Gzip, ..head.clone() },
        Head { part_length: None, encoding: Encoding::Gzip, ..head },
    ] {
        let (checked, read) = judge(&head, &packed);
        for error in [checked.unwrap_err(), read.unwrap_err()] {
            assert!(error.message.contains("longer than") || error.message.contains("more than"), "{error}");
        }
    }
}

#[test]
fn replies_are_held_against_the_model_where_that_is_wanted() {
    let tensor = |name: &str, shape: &[i64]| TensorSpec {
        name: name.to_owned(),
        datatype: DataType::Fp32,
        shape: shape.to_vec(),
        optional: false,
        shape_tensor: false,
    };
    let config = serde_json::from_str(r#"{"max_batch_size":0}"#).unwrap();
    let mut model = model_of(&ModelId::latest("m"), MetadataJson::default(), &config).unwrap();
    let head = head(Some(BINARY.len()));
    let body = kept(&head, BINARY.as_bytes(), false);
    let check = |model: &ModelSpec, rule| {
        let reply = Reply { head: &head, body: &body, total: BINARY.len() as u64 + 8 };
        check_with(&mut Checker::default(), reply, model, &checks(rule))
    };
    for (outputs, word) in [(vec![tensor("O", &[1, 3])], "has shape"), (vec![tensor("P", &[1, 2])], "no output 'O'")] {
        model.outputs = outputs;
        let error = check(&model, ReplyRule::Fitting).unwrap_err();
        assert!(error.code == InferError::MISFIT && error.message.contains(word), "{error}");
        assert_eq!(check(&model, ReplyRule::Readable), Ok(()));
    }
    model.outputs = vec![tensor("O", &[1, 2])];
    assert_eq!(check(&model, ReplyRule::Fitting), Ok(()));
    model.id.name = "n".to_owned();
    assert!(check(&model, ReplyRule::Fitting).unwrap_err().message.contains("from model 'm'"));
}
