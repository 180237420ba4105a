use std::io::Write;

use super::*;

const BINARY: &str = r#"{"model_name":"m","outputs":[{"name":"O","datatype":"FP32","shape":[1,2],"parameters":{"binary_data_size":8}}]}"#;

fn head(json: Option<usize>) -> Head {
    Head { status: 200, json_length: json.map(|length| length as u64), ..Head::default() }
}

/// Both ways of looking at a reply.
fn judge(head: &Head, body: &[u8]) -> (Result<(), InferError>, Result<(), InferError>) {
    let mut kept = Kept::default();
    kept.begin(head, false);
    body.chunks(5).for_each(|piece| kept.push(piece));
    let checked = Checker::default().check(head, kept.bytes(), body.len() as u64, false);
    let read = ReplyOutputs::read(head, body, None).map(|_| ());
    (checked, read)
}

fn outputs(head: &Head, body: &[u8]) -> Vec<(String, Vec<i64>, Vec<u8>)> {
    let outputs = ReplyOutputs::read(head, body, None).unwrap();
    let mut seen = Vec::new();
    outputs.visit(&mut |view| seen.push((view.name.to_owned(), view.shape.to_vec(), view.bytes.to_vec())));
    seen
}

#[test]
fn binary_and_json_outputs_are_read() {
    let body = [BINARY.as_bytes(), &[1, 2, 3, 4, 5, 6, 7, 8]].concat();
    let head_binary = head(Some(BINARY.len()));
    assert_eq!(judge(&head_binary, &body), (Ok(()), Ok(())));
    assert_eq!(outputs(&head_binary, &body), [("O".to_owned(), vec![1, 2], vec![1, 2, 3, 4, 5, 6, 7, 8])]);
    let json = r#"{"outputs":[{"name":"A","datatype":"INT8","shape":[2],"data":[1,-1]},{"name":"S","datatype":"BYTES","shape":[1],"data":["é"]}]}"#;
    assert_eq!(judge(&head(None), json.as_bytes()), (Ok(()), Ok(())));
    let seen = outputs(&head(None), json.as_bytes());
    assert_eq!(seen[0].2, [1, 0xff]);
    assert_eq!(seen[1].2, [2, 0, 0, 0, 0xc3, 0xa9]);
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
        ("no answer", json("{}")),
        ("neither data", json(r#"{"outputs":[{"name":"O","datatype":"FP32","shape":[2]}]}"#)),
        ("unknown datatype", json(r#"{"outputs":[{"name":"O","datatype":"FP99","shape":[2],"data":[]}]}"#)),
        ("impossible shape", json(r#"{"outputs":[{"name":"O","datatype":"FP32","shape":[-2],"data":[]}]}"#)),
        ("broken", json(r#"{"error":"broken"}"#)),
        (
            "takes 8 bytes",
            json(r#"{"outputs":[{"name":"O","datatype":"FP32","shape":[2],"parameters":{"binary_data_size":4}}]}"#),
        ),
    ];
    for (text, (head, body)) in cases {
        let (checked, read) = judge(&head, &body);
        for error in [checked.unwrap_err(), read.unwrap_err()] {
            assert!(error.message.contains(text), "{text}: {error}");
        }
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
    let mut checker = Checker::default();
    let (head, json) = (head(Some(BINARY.len())), BINARY.as_bytes());
    let total = json.len() as u64 + 8;
    checker.check(&head, json, total, false).unwrap();
    checker.check(&head, json, total, false).unwrap();
    assert!(checker.check(&head, json, total + 1, false).is_err());
}

#[test]
fn refusals_keep_the_servers_words() {
    let error = error_text(400, "", br#"{"error":"unexpected shape"}"#);
    assert_eq!((error.code.as_str(), error.message.as_str()), ("HTTP 400", "unexpected shape"));
    assert_eq!(error_text(502, "", b" <html>bad gateway</html>\n").message, "<html>bad gateway</html>");
    assert!(error_text(302, "http://x/", b"").message.contains("http://x/"));
    assert_eq!(error_text(500, "", b"").message, "the server gave no reason");
    assert!(error_text(500, "", &[0xff; 10_000]).message.len() <= 4 * SHOWN);
}
