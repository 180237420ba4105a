//! JSON input files.

use super::fixture::*;
use triton_bench::data::{Corpus, DataSource, Payload, Responses};
use triton_bench::model::{DataType, ModelSpec};

fn two_inputs() -> ModelSpec {
    model(
        vec![tensor("A", DataType::Int32, &[2]), tensor("B", DataType::Fp32, &[-1])],
        vec![tensor("Y", DataType::Fp32, &[-1])],
    )
}

fn one_int() -> ModelSpec {
    model(vec![tensor("A", DataType::Int32, &[2])], vec![tensor("Y", DataType::Int32, &[2])])
}

fn refusal(text: impl AsRef<[u8]>, model: &ModelSpec) -> String {
    match json(text, model) {
        Ok(_) => panic!("accepted"),
        Err(e) => e.to_string(),
    }
}

fn expected(corpus: &Corpus) -> Vec<Option<Responses>> {
    let table = pack(corpus, 1);
    let responses = |payload: &Payload| Some(payload.expected.as_ref()?.members(1).next()?.responses.clone());
    table.payloads.iter().map(responses).collect()
}

#[test]
fn a_given_shape_is_the_models() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("d.json");
    std::fs::write(&file, r#"{"data": [{"A": {"content": [1, 2, 3, 4], "shape": [2, 2]}}]}"#).unwrap();
    let mut model = one_int();
    model.inputs[0].shape = vec![-1, -1];
    let ask = || Ask::new(DataSource::Files(vec![file.clone()]));
    assert!(ask().load(&model).is_ok() && ask().shape("A", &[2, 2]).load(&model).is_ok());
    let refusal = ask().shape("A", &[2, 8]).refusal(&model);
    let upstreams = "The supplied shape of [2,2] for input \"A\" is incompatible with the model's input shape of [2,8]";
    assert!(refusal.contains(upstreams), "{refusal}");
}

#[test]
fn objects_are_steps_of_one_stream() {
    let text = r#"{"data": [
        {"A": [1, 2], "B": {"content": [1, 2.5, 3], "shape": [3]}},
        {"A": {"b64": "AwAAAAQAAAA="}, "B": {"shape": [1], "content": {"b64": "AACAPw=="}}, "model": "x"}],
        "comment": [null, {"a": "\u0041"}]}"#;
    let corpus = json(text, &two_inputs()).unwrap();
    assert_eq!(corpus.announcement().unwrap(), " Successfully read data for 1 stream/streams with 2 step/steps.");
    let table = pack(&corpus, 1);
    assert_eq!(table.streams, std::iter::once(0..2).collect::<Vec<_>>());
    let [first, second] = table.payloads.as_slice() else { panic!() };
    assert_eq!(sent(&first.inputs[0]), ints(&[1, 2]));
    assert_eq!(sent(&first.inputs[1]), floats(&[1.0, 2.5, 3.0]));
    assert_eq!(*first.inputs[1].shape, [1, 3]);
    assert_eq!(sent(&second.inputs[0]), ints(&[3, 4]));
    assert_eq!((second.step, sent(&second.inputs[1])), (1, floats(&[1.0])));
    assert!(table.payloads.iter().flat_map(|payload| &payload.inputs).all(|input| input.address() % 64 == 0));
}

#[test]
fn strings_and_documents_may_stand_alone() {
    let single = model(vec![tensor("S", DataType::Bytes, &[1]), tensor("J", DataType::Json, &[-1])], Vec::new());
    let text = r#"{"data": [{"S": "ab", "J": {"content": [1.0]}}, {"S": ["ab"], "J": [{"content": [ 1.0 ]}, true]}]}"#;
    let table = pack(&json(text, &single).unwrap(), 1);
    let document = b"\x11\0\0\0{\"content\":[1.0]}";
    let [first, second] = table.payloads.as_slice() else { panic!() };
    for payload in [first, second] {
        assert_eq!(sent(&payload.inputs[0]), b"\x02\0\0\0ab");
    }
    assert_eq!((sent(&first.inputs[1]), &*first.inputs[1].shape), (document.to_vec(), &[1, 1][..]));
    let two = [&document[..], b"\x04\0\0\0true"].concat();
    assert_eq!((sent(&second.inputs[1]), &*second.inputs[1].shape), (two, &[1, 2][..]));
}

#[test]
fn arrays_are_streams_and_files_add_up() {
    let folder = Folder::new();
    let first = folder.write("1.json", r#"{"data": [[{"A": [1, 1]}, {"A": [2, 2]}], [{"A": [3, 3]}]]}"#);
    let second = folder.write("2.json", "\u{feff}{\"data\": [[{\"A\": [4, 4]}]]}");
    let corpus = Ask::new(DataSource::Files(vec![first.clone(), second])).load(&one_int()).unwrap();
    assert_eq!(corpus.stream_lengths(), [2, 1, 1]);
    assert_eq!(corpus.announcement().unwrap(), " Successfully read data for 3 stream/streams.");
    let third = folder.write("3.json", r#"{"data": [{"A": [1, 1]}]}"#);
    let steps = Ask::new(DataSource::Files(vec![third.clone(), third.clone()])).load(&one_int()).unwrap();
    assert_eq!(steps.stream_lengths(), [2]);
    let mixed = Ask::new(DataSource::Files(vec![first, third])).refusal(&one_int());
    assert!(
        mixed.contains("Inconsistency in input-data provided. Can not have a combination of objects and arrays"),
        "{mixed}"
    );
}

#[test]
fn optional_inputs_may_be_left_out() {
    let mut spec = two_inputs();
    spec.inputs[1].optional = true;
    let table = pack(&json(r#"{"data": [{"A": [1, 2]}]}"#, &spec).unwrap(), 1);
    assert_eq!(table.payloads[0].inputs.len(), 1);
}

#[test]
fn validation_data_follow_the_form_of_data() {
    let steps = r#"{"validation_data": [{"Y": [1, 2]}, {"Y": {"content": [3, 4], "shape": [2]}}],
                    "data": [{"A": [1, 2]}, {"A": [3, 4]}]}"#;
    let corpus = json(steps, &one_int()).unwrap();
    assert!(corpus.validates());
    let lists = expected(&corpus);
    assert_eq!(lists[1].as_ref().unwrap()[0][0].bytes, ints(&[3, 4]));
    assert_eq!(lists[1].as_ref().unwrap()[0][0].shape.as_deref(), Some(&[2][..]));
    let streams =
        r#"{"data": [[{"A": [1, 2]}], [{"A": [3, 4]}]], "validation_data": [[{"Y": [1, 2]}], [{"Y": [3, 4]}]]}"#;
    assert_eq!(expected(&json(streams, &one_int()).unwrap())[1].as_ref().unwrap()[0][0].bytes, ints(&[3, 4]));
    let open = r#"{"data": [{"A": [1, 2], "B": {"content": [1], "shape": [1]}}], "validation_data": [{"Y": {"content": [1, 2], "shape": [2]}}]}"#;
    assert_eq!(
        expected(&json(open, &two_inputs()).unwrap())[0].as_ref().unwrap()[0][0].shape.as_deref(),
        Some(&[2][..])
    );
    let batch = pack(&corpus, 2);
    let expectation = batch.payloads[0].expected.as_ref().unwrap();
    let bytes: Vec<_> = expectation.members(2).map(|member| member.responses[0][0].bytes.clone()).collect();
    assert_eq!((expectation.batched, bytes), (true, vec![ints(&[1, 2]), ints(&[3, 4])]));
}

#[test]
fn decoupled_models_expect_a_list_of_responses() {
    let mut spec = one_int();
    spec.decoupled = true;
    let text = r#"{"data": [{"A": [1, 2]}, {"A": [1, 2]}, {"A": [1, 2]}], "validation_data": [[{"Y": [1, 2]}, {"Y": [3, 4]}], {"Y": [5, 6]}, []]}"#;
    let lists = expected(&json(text, &spec).unwrap());
    assert_eq!(lists.iter().map(|list| list.as_ref().unwrap().len()).collect::<Vec<_>>(), [2, 1, 0]);
    let message = refusal(text, &one_int());
    assert!(message.contains("2 responses are expected, but model 'm' is not decoupled"), "{message}");
    assert!(message.contains("( Location stream id: 0, step id: 0)"), "{message}");
}

#[test]
fn keys_that_nothing_asks_for_are_named_once_a_file() {
    let folder = Folder::new();
    let odd = folder.write(
        "odd.json",
        "{\"data\": [{\"A\": {\"content\": [1, 2],\n\"Shape\": [7]}}, {\"A\": {\"content\": {\"b64\": \"AQAAAAIAAAA=\", \"type\": 1}}}],\n\
         \"validation-data\": [{}], \"validation_data\": [{\"Y\": {\"content\": [1, 2], \"Shape\": 1}}, {\"Y\": [1, 2]}],\n\
         \"a\\u001bb\": {\"Shape\": 1}}",
    );
    let good = folder.write("good.json", r#"{"data": [{"A": [1, 2], "model": "m"}]}"#);
    let corpus = Ask::new(DataSource::Files(vec![good, odd.clone()])).load(&one_int()).unwrap();
    let [warning] = corpus.warnings() else { panic!("{:?}", corpus.warnings()) };
    let keys =
        warning.strip_prefix(&format!("input data file '{}': unknown keys are ignored: ", odd.display())).unwrap();
    assert_eq!(
        keys,
        "\"Shape\" (line 2; known there: content, b64, shape), \"type\" (line 2; known there: b64), \
         \"validation-data\" (line 3; known there: data, validation_data), \
         \"a\\u{1b}b\" (line 4; known there: data, validation_data)"
    );
    let many: Vec<String> = (0..100).map(|number| format!("\"k{number}\": 0")).collect();
    let many = folder.write("many.json", format!(r#"{{{}, "data": [{{"A": [1, 2]}}]}}"#, many.join(",")));
    let corpus = Ask::new(DataSource::Files(vec![many])).load(&one_int()).unwrap();
    assert_eq!(corpus.warnings()[0].matches("known there").count(), 8);
}

/// Every rule of the grammar, by a text that breaks it and a part of what is said.
#[test]
fn broken_rules_are_named_with_their_place() {
    let cases: [(&str, &str); 37] = [
        (
            "",
            "failed to parse the specified json file for reading provided data: the text ends where a value is expected",
        ),
        ("[]", "The json file doesn't contain data field"),
        ("{}", "The json file doesn't contain data field"),
        (r#"{"data": [{"A": [1, 2]}]"#, "failed to parse the specified json file"),
        (r#"{"data": [{"A": [1, 2]}]} x"#, "further text after the end"),
        (r#"{"data": [{"A": [1, 2]}], "data": []}"#, "the key \"data\" is given twice"),
        (r#"{"data": []}"#, "\"data\" is empty"),
        (r#"{"data": [[]]}"#, "stream 0 is empty"),
        (r#"{"data": {"A": [1, 2]}}"#, "Input data file is malformed."),
        (r#"{"data": [1]}"#, "Input data file is malformed."),
        (
            r#"{"data": [[1]]}"#,
            "Input data file is malformed. A step must be an object of tensors, got a number ( Location stream id: 0, step id: 0)",
        ),
        (r#"{"data": [{"A": [1, 2]}, [{"A": [1, 2]}]]}"#, "Inconsistency in input-data provided."),
        (
            r#"{"data": [{"A": [1, 2]}, {}]}"#,
            "line 1, column 28: missing tensor A ( Location stream id: 0, step id: 1)",
        ),
        (
            r#"{"data": [{"A": [1, 2], "A": [1, 2]}]}"#,
            "the tensor A is given twice ( Location stream id: 0, step id: 0)",
        ),
        (r#"{"data": [{"Z": [1, 2]}]}"#, "The input or output 'Z' is not found in the model configuration; expected A"),
        (
            r#"{"data": [{"A": 1}]}"#,
            "tensor A: The tensor values are not supported. Expected an array or b64 string, got a number ( Location",
        ),
        (
            r#"{"data": [{"A": {"content": "x"}}]}"#,
            "The tensor values are not supported. Expected an array or b64 string",
        ),
        (
            r#"{"data": [{"A": {"shape": [2]}}]}"#,
            "tensor A: missing content field. ( Location stream id: 0, step id: 0)",
        ),
        (r#"{"data": [{"A": {"content": {}}}]}"#, "missing b64 field"),
        (r#"{"data": [{"A": {"content": [1, 2], "b64": ""}}]}"#, "its values are given twice"),
        (r#"{"data": [{"A": {"content": [1, 2], "shape": [2], "shape": [2]}}]}"#, "its shape is given twice"),
        (
            r#"{"data": [{"A": {"b64": 5}}]}"#,
            "the value of b64 field should be of type string, got a number ( Location",
        ),
        (r#"{"data": [{"A": {"b64": "A!AA"}}]}"#, "wrong base64"),
        (r#"{"data": [{"A": {"content": [1, 2], "shape": [2.0]}}]}"#, "shape values must be integers"),
        (r#"{"data": [{"A": {"content": [1, 2], "shape": 2}}]}"#, "shape values must be integers"),
        (r#"{"data": [{"A": {"content": [1, 2], "shape": [-1]}}]}"#, "shape values must be integers, and not negative"),
        (
            r#"{"data": [{"A": {"content": [1, 2, 3], "shape": [3]}}]}"#,
            "The supplied shape of [3] for input \"A\" is incompatible with the model's input shape of [2]",
        ),
        (r#"{"data": [{"A": [1, 2, 3]}]}"#, "mismatch in the data provided for A. Expected: 8 bytes, Got: 12 bytes"),
        (r#"{"data": [{"A": []}]}"#, "mismatch in the data provided for A. Expected: 8 bytes, Got: 0 bytes"),
        (
            r#"{"data": [{"A": {"b64": "AAAA"}}]}"#,
            "mismatch in the data provided for A. Expected: 8 bytes, Got: 3 bytes",
        ),
        (r#"{"data": [{"A": [1, "2"]}]}"#, "tensor A: element 1: unable to find int32_t data in json"),
        (
            r#"{"data": [{"A": [1, 2147483648]}]}"#,
            "INT32 takes integers from -2147483648 to 2147483647, got 2147483648",
        ),
        (
            r#"{"data": [{"A": [1, 2]}], "validation_data": []}"#,
            "The 'validation_data' field doesn't align with 'data' field in the json file: 1 steps are missing in stream 0",
        ),
        (
            r#"{"data": [{"A": [1, 2]}], "validation_data": [{"Y": [1, 2]}, {"Y": [1, 2]}]}"#,
            "doesn't align with 'data' field",
        ),
        (
            r#"{"data": [{"A": [1, 2]}], "validation_data": [{}]}"#,
            "missing tensor Y ( Location stream id: 0, step id: 0)",
        ),
        (
            r#"{"data": [{"A": [1, 2]}], "validation_data": [{"Q": [1, 2]}]}"#,
            "The input or output 'Q' is not found in the model configuration; expected Y",
        ),
        (
            r#"{"data": [[{"A": [1, 2]}]], "validation_data": [{"Y": [1, 2]}]}"#,
            "must be nested in arrays as \"data\" is",
        ),
    ];
    for (text, part) in cases {
        let message = refusal(text, &one_int());
        assert!(message.contains(part), "{text}\n  said: {message}\n  not:  {part}");
        assert!(message.starts_with("input data file '") && message.contains("in.json', line 1, column "), "{message}");
    }
}

#[test]
fn open_shapes_and_string_counts_are_checked() {
    let open = refusal(r#"{"data": [{"A": [1, 2], "B": [1]}]}"#, &two_inputs());
    assert!(open.contains("The variable-sized tensor \"B\" with model shape [-1] needs to have its shape fully defined. See the --shape option"), "{open}");
    let strings = model(vec![tensor("S", DataType::Bytes, &[2])], vec![]);
    let message = refusal(r#"{"data": [{"S": ["a"]}]}"#, &strings);
    assert!(
        message.contains("mismatch in the data provided for S. Expected: 2 elements, Got: 1 elements"),
        "{message}"
    );
    let cut = refusal(r#"{"data": [{"S": {"b64": "AQAAAGEC"}}]}"#, &strings);
    assert!(cut.contains("mismatch in the data provided for S: the element at byte 5 is cut off"), "{cut}");
    let huge =
        refusal(r#"{"data": [{"A": [1, 2], "B": {"content": [1], "shape": [9223372036854775807]}}]}"#, &two_inputs());
    assert!(huge.contains("tensor B of shape [9223372036854775807] is too large to be addressed"), "{huge}");
    let nul = pack(&json(r#"{"data": [{"S": ["a\u0000b", "é"]}]}"#, &strings).unwrap(), 1);
    assert_eq!(sent(&nul.payloads[0].inputs[0]), b"\x03\0\0\0a\0b\x02\0\0\0\xc3\xa9");
}

#[test]
fn hostile_texts_end_in_messages() {
    let deep = refusal(format!("{{\"x\": {}}}", "[".repeat(2_000_000)), &one_int());
    assert!(deep.contains("nested deeper than 128"), "{deep}");
    let latin = refusal(b"{\"data\": [{\"\xe9\": [1]}]}", &one_int());
    assert!(latin.contains("the text is not UTF-8"), "{latin}");
    let strings = model(vec![tensor("S", DataType::Bytes, &[1])], vec![]);
    let latin = refusal(b"{\"data\": [{\"S\": [\"\xff\"]}]}", &strings);
    assert!(latin.contains("the text is not UTF-8 ( Location stream id: 0, step id: 0)"), "{latin}");
    let whole = br#"{"data": [{"A": {"content": [1, 2], "shape": [2]}}, {"A": {"b64": "AQAAAAIAAAA="}}]}"#;
    assert!(json(whole, &one_int()).is_ok());
    for end in 0..whole.len() {
        assert!(json(&whole[..end], &one_int()).is_err(), "cut at {end}");
    }
}

#[test]
fn files_that_cannot_be_read_are_named() {
    let folder = Folder::new();
    let missing = folder.path().join("none.json");
    let message = Ask::new(DataSource::Files(vec![missing])).refusal(&one_int());
    assert!(message.contains("none.json' for reading provided data: No such file"), "{message}");
    let message = Ask::new(DataSource::Files(vec![folder.path().to_owned()])).refusal(&one_int());
    assert!(message.contains("it is a directory"), "{message}");
    let message = Ask::new(DataSource::Files(vec!["/dev/zero".into()])).refusal(&one_int());
    assert!(message.contains("it is not a regular file"), "{message}");
}
