//! Directories, NumPy arrays and archives.

use std::io::Write;

use triton_bench::data::DataSource;
use triton_bench::model::{DataType, ModelSpec};
use triton_bench::shm::Allowance;
use zip::write::SimpleFileOptions;

use super::fixture::*;
use crate::support::alone;

fn spec() -> ModelSpec {
    model(
        vec![tensor("A", DataType::Int32, &[2]), tensor("S", DataType::Bytes, &[2])],
        vec![tensor("Y", DataType::Int32, &[2])],
    )
}

/// A `.npy` file of version 1.
fn npy(descr: &str, shape: &str, data: &[u8]) -> Vec<u8> {
    let mut header = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}");
    while (header.len() + 11) % 64 != 0 {
        header.push(' ');
    }
    header.push('\n');
    let mut file = b"\x93NUMPY\x01\x00".to_vec();
    file.extend((header.len() as u16).to_le_bytes());
    file.extend(header.as_bytes());
    file.extend(data);
    file
}

/// An archive as numpy writes it.
fn npz(arrays: &[(&str, Vec<u8>)], method: zip::CompressionMethod) -> Vec<u8> {
    let named = arrays.iter().map(|(name, file)| (format!("{name}.npy"), file.clone()));
    archive(&named.collect::<Vec<_>>(), method)
}

/// An archive of members of any name.
fn archive(members: &[(String, Vec<u8>)], method: zip::CompressionMethod) -> Vec<u8> {
    let mut writer = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    for (name, file) in members {
        writer.start_file(name, SimpleFileOptions::default().compression_method(method)).unwrap();
        writer.write_all(file).unwrap();
    }
    writer.finish().unwrap().into_inner()
}

#[test]
fn raw_text_and_output_files_are_read() {
    let folder = Folder::new();
    folder.write("A", ints(&[7, 8]));
    folder.write("S", "one\ntwo two\n");
    folder.write("Y", ints(&[1, 2]));
    let corpus = folder.ask().load(&spec()).unwrap();
    let table = pack(&corpus, 2);
    let payload = &table.payloads[0];
    assert_eq!(sent(&payload.inputs[0]), ints(&[7, 8, 7, 8]));
    assert_eq!(sent(&payload.inputs[1]), b"\x03\0\0\0one\x07\0\0\0two two\x03\0\0\0one\x07\0\0\0two two");
    let expected: Vec<_> = payload.expected.as_ref().unwrap().members(2).map(|step| &step.responses[0][0]).collect();
    assert_eq!(expected.len(), 2);
    assert!(expected.iter().all(|output| &*output.name == "Y" && output.bytes == ints(&[1, 2])));
    assert_eq!(corpus.announcement(), None);
}

#[test]
fn broken_directories_are_named() {
    let spec = spec();
    let fresh = |files: &[(&str, &[u8])]| {
        let folder = Folder::new();
        for (name, contents) in files {
            folder.write(name, contents);
        }
        folder.ask().refusal(&spec)
    };
    let (a, s) = (ints(&[1, 2]), &b"x\ny"[..]);
    let saved = [&b"\x93NUMPY"[..], &[0; 122], &a].concat();
    for (files, part) in [
        (vec![], "is empty; it needs a file for each input: A, S"),
        (vec![("S", s)], "A': it does not exist; every input needs a file of its name"),
        (vec![("A", &a[..]), ("S", s), ("Q", s)], "Q' does not correspond to a valid model input or output."),
        (
            vec![("A", &a[..7]), ("S", s)],
            "A': provided data for input A has byte size 7, expect 8 (INT32 of shape [2])",
        ),
        (
            vec![("A", &saved[..]), ("S", s)],
            "has byte size 136, expect 8 (INT32 of shape [2]); it is a NumPy array: call it A.npy",
        ),
        (vec![("A", b""), ("S", s)], "A': file is empty; input A takes 8 bytes"),
        (vec![("A", &a[..]), ("S", b"x")], "S': provided data for input S has 1 elements, expect 2"),
        (vec![("A", &a[..]), ("S", b"")], "S': file is empty; input S takes 2 lines"),
        (vec![("A", &a[..]), ("A.npy", s), ("S", s)], "A.npy' both exist; keep one of them"),
        (
            vec![("A", &a[..]), ("S", s), ("Y", b"123")],
            "Y': mismatch in the data provided for Y. Expected: 8 bytes, Got: 3 bytes",
        ),
    ] {
        let message = fresh(&files);
        assert!(message.contains(part), "{message}\n  not: {part}");
    }
    let missing = Ask::new(DataSource::Directory("/nonexistent".into())).refusal(&spec);
    assert!(missing.contains("cannot read the input data directory '/nonexistent'"), "{missing}");
    let folder = Folder::new();
    folder.write("S", s);
    std::fs::create_dir(folder.path().join("A")).unwrap();
    let nested = folder.ask().refusal(&spec);
    assert!(nested.contains("A' for reading provided data") || nested.contains("A': it is a directory"), "{nested}");
    let open = model(vec![tensor("A", DataType::Int32, &[-1])], vec![]);
    let folder = Folder::new();
    folder.write("A", ints(&[1, 2, 3]));
    assert!(folder.ask().refusal(&open).contains("input A contains dynamic shape, provide shapes"));
    assert_eq!(*pack(&folder.ask().shape("A", &[3]).load(&open).unwrap(), 1).payloads[0].inputs[0].shape, [1, 3]);
}

#[test]
fn arrays_are_steps_in_place() {
    let folder = Folder::new();
    folder.write("A.npy", npy("<i4", "(3, 2)", &ints(&[1, 2, 3, 4, 5, 6])));
    folder.write("S.npy", npy("|S3", "(2,)", b"ab\0abc"));
    folder.write("Y.npy", npy("<i4", "(3, 2)", &ints(&[1, 2, 3, 4, 5, 7])));
    let table = pack(&folder.ask().load(&spec()).unwrap(), 1);
    assert_eq!(table.payloads.len(), 3);
    assert_eq!(sent(&table.payloads[2].inputs[0]), ints(&[5, 6]));
    assert_eq!(sent(&table.payloads[2].inputs[1]), b"\x02\0\0\0ab\x03\0\0\0abc");
    assert_eq!(table.payloads[2].expected.as_ref().unwrap().steps[2].responses[0][0].bytes, ints(&[5, 7]));
}

#[test]
fn archives_are_streams() {
    let wide: Vec<u8> = "hi\0é\0\0".chars().flat_map(|c| (c as u32).to_le_bytes()).collect();
    let arrays = |last: i32| {
        vec![
            ("A", npy("<i4", "(2, 2)", &ints(&[1, 2, 3, last]))),
            ("S", npy("<U3", "(2,)", &wide)),
            ("Y", npy("<i4", "(2,)", &ints(&[9, 9]))),
        ]
    };
    let folder = Folder::new();
    let first = folder.write("1.npz", npz(&arrays(4), zip::CompressionMethod::Stored));
    let second = folder.write("2.npz", npz(&arrays(5), zip::CompressionMethod::Deflated));
    let corpus = Ask::new(DataSource::Files(vec![first.clone(), second])).load(&spec()).unwrap();
    assert_eq!(corpus.stream_lengths(), [2, 2]);
    let table = pack(&corpus, 1);
    assert_eq!(sent(&table.payloads[3].inputs[0]), ints(&[3, 5]));
    assert_eq!(sent(&table.payloads[3].inputs[1]), "\x02\0\0\0hi\x02\0\0\0é".as_bytes());
    let text = folder.write("3.json", "{}");
    let mixed = Ask::new(DataSource::Files(vec![first, text])).refusal(&spec());
    assert!(mixed.contains("cannot be combined"), "{mixed}");
}

#[test]
fn broken_arrays_are_named() {
    let data = ints(&[1, 2]);
    let good = npy("<i4", "(2,)", &data);
    let spec = model(vec![tensor("A", DataType::Int32, &[2])], vec![]);
    let mut version = good.clone();
    version[6] = 9;
    let mut long = good.clone();
    long.push(0);
    let mut endless = b"\x93NUMPY\x02\x00\xff\xff\xff\x7f".to_vec();
    endless.extend(&good[10..]);
    for (file, part) in [
        (vec![], "it is not a .npy array"),
        (b"\x93NUMPY\x01".to_vec(), "its header is cut off"),
        (good[..40].to_vec(), "its header is cut off"),
        (version, "its format version 9.0 is unknown"),
        (endless, "is longer than 1048576"),
        (good[..good.len() - 1].to_vec(), "mismatch in the data provided for A. Expected: 8 bytes, Got: 7 bytes"),
        (long, "Expected: 8 bytes, Got: 9 bytes"),
        (npy("<f4", "(2,)", &data), "its elements are '<f4', but INT32 is expected: save it with dtype 'i4'"),
        (npy(">i4", "(2,)", &data), "big-endian; save x.astype('<i4')"),
        (npy("|O", "(2,)", &data), "its elements are '|O'"),
        (npy("<i4", "(3,)", &data), "its shape is [3], but A's shape is [2]"),
        (npy("<i4", "(0, 2)", &[]), "it has no steps"),
        (npy("<i4", "(1000000000000, 0)", &[]), "its shape is [1000000000000,0]"),
        (npy("<i4", "(9223372036854775807, 2)", &data), "its shape overflows"),
        (npy("<i4", "(-1, 2)", &data), "its header is malformed"),
        (npy("<i4", "(2", &data), "its header is malformed"),
        (npy("<i4', 'x': '", "(2,)", &data), "its header is malformed"),
    ] {
        let folder = Folder::new();
        folder.write("A.npy", &file);
        let message = folder.ask().refusal(&spec);
        assert!(message.contains(part) && message.contains("A.npy"), "{message}\n  not: {part}");
        let packed = folder.write("x.npz", npz(&[("A", file)], zip::CompressionMethod::Deflated));
        let message = Ask::new(DataSource::Files(vec![packed])).refusal(&spec);
        assert!(message.contains("x.npz': array 'A': ") && message.contains("stream id: 0"), "{message}");
    }
    let open = model(vec![tensor("A", DataType::Int32, &[-1]), tensor("S", DataType::Bytes, &[2])], vec![]);
    for (a, s, part) in [
        (npy("<i4", "(1000000000000, 0)", &[]), good.clone(), "its steps hold no elements"),
        (good.clone(), npy("|S0", "(1000000000000, 2)", &[]), "its elements are '|S0', but BYTES is expected"),
    ] {
        let folder = Folder::new();
        folder.write("A.npy", a);
        folder.write("S.npy", s);
        let message = folder.ask().refusal(&open);
        assert!(message.contains(part), "{message}");
    }
    let mut column = good.clone();
    let at = column.windows(5).position(|window| window == b"False").unwrap();
    column[at..at + 5].copy_from_slice(b"True ");
    let folder = Folder::new();
    folder.write("A.npy", column);
    assert!(folder.ask().refusal(&spec).contains("numpy.ascontiguousarray"));
}

#[test]
fn broken_archives_are_named() {
    let spec = model(vec![tensor("A", DataType::Int32, &[2])], vec![]);
    let folder = Folder::new();
    let load = |bytes: &[u8]| Ask::new(DataSource::Files(vec![folder.write("x.npz", bytes)])).refusal(&spec);
    assert!(load(b"").contains("x.npz': it is not a .npz archive"));
    let whole = npz(&[("A", npy("<i4", "(2,)", &ints(&[1, 2])))], zip::CompressionMethod::Deflated);
    assert!(load(&whole[..whole.len() / 2]).contains("it is not a .npz archive"));
    let mut flipped = whole.clone();
    flipped[45] ^= 0xff;
    assert!(load(&flipped).contains("array 'A': "));
    let unknown = npz(&[("Q", Vec::new())], zip::CompressionMethod::Stored);
    assert!(load(&unknown).contains("'Q' is not found in the model configuration; expected A"));
    let array = || npy("<i4", "(2,)", &ints(&[1, 2]));
    let twice = archive(&["A", "A.npy"].map(|name| (name.to_owned(), array())), zip::CompressionMethod::Stored);
    assert!(load(&twice).contains("x.npz': 'A' and 'A.npy' both exist; keep one of them"));
    let other = npz(&[("A.npy", array())], zip::CompressionMethod::Stored);
    assert!(load(&other).contains("'A.npy' is not found in the model configuration"));
    let empty = npz(&[], zip::CompressionMethod::Stored);
    assert!(load(&empty).contains("missing tensor A ( Location stream id: 0, step id: 0)"));
    let steps = model(vec![tensor("A", DataType::Int8, &[1]), tensor("B", DataType::Int8, &[1])], vec![]);
    let uneven = npz(
        &[("A", npy("|i1", "(2, 1)", &[1, 2])), ("B", npy("|i1", "(3, 1)", &[1, 2, 3]))],
        zip::CompressionMethod::Stored,
    );
    let path = folder.write("y.npz", uneven);
    let message = Ask::new(DataSource::Files(vec![path])).refusal(&steps);
    assert!(message.contains("has 3 steps, but") && message.contains("has 2; all arrays"), "{message}");
}

#[test]
fn every_numpy_type_has_its_tensor() {
    for (descr, datatype, size) in [
        ("|b1", DataType::Bool, 1),
        ("|u1", DataType::Uint8, 1),
        ("<u2", DataType::Uint16, 2),
        ("<u4", DataType::Uint32, 4),
        ("<u8", DataType::Uint64, 8),
        ("|i1", DataType::Int8, 1),
        ("<i2", DataType::Int16, 2),
        ("<i8", DataType::Int64, 8),
        ("<f2", DataType::Fp16, 2),
        ("<f4", DataType::Fp32, 4),
        ("<f8", DataType::Fp64, 8),
        ("<V2", DataType::Bf16, 2),
        ("<u2", DataType::Bf16, 2),
    ] {
        let folder = Folder::new();
        let data: Vec<u8> = (0..size * 2).collect();
        folder.write("T.npy", npy(descr, "(2,)", &data));
        let spec = model(vec![tensor("T", datatype, &[2])], vec![]);
        assert_eq!(sent(&pack(&folder.ask().load(&spec).unwrap(), 1).payloads[0].inputs[0]), data, "{descr}");
    }
}

/// Written by NumPy 1.24 with `save`, `savez` and `savez_compressed`.
#[test]
fn files_written_by_numpy_are_read() {
    let fixtures = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/numpy");
    let files = ["saved.npz", "compressed.npz"].map(|name| fixtures.join(name)).to_vec();
    let corpus = Ask::new(DataSource::Files(files)).load(&spec()).unwrap();
    assert_eq!(corpus.stream_lengths(), [3, 1]);
    let table = pack(&corpus, 1);
    assert_eq!(sent(&table.payloads[2].inputs[0]), ints(&[4, 5]));
    assert_eq!(sent(&table.payloads[3].inputs[0]), ints(&[0, 1]));
    assert_eq!(sent(&table.payloads[3].inputs[1]), b"\x01\0\0\0x\x02\0\0\0yy");
    let folder = Folder::new();
    for name in ["A.npy", "S.npy"] {
        std::fs::copy(fixtures.join(name), folder.path().join(name)).unwrap();
    }
    let table = pack(&folder.ask().load(&spec()).unwrap(), 1);
    assert_eq!(table.payloads[0].inputs[0].address() % 64, 0);
    assert_eq!(sent(&table.payloads[1].inputs[1]), "\x03\0\0\0aé\x01\0\0\0b".as_bytes());
}

#[test]
fn an_array_that_is_repeated_in_every_step_is_in_memory_once() {
    let spec = model(
        vec![tensor("A", DataType::Int32, &[1])],
        vec![tensor("Y", DataType::Int32, &[1]), tensor("Z", DataType::Fp32, &[100])],
    );
    let steps: Vec<i32> = (0..50).collect();
    let array = npy("<i4", "(50, 1)", &ints(&steps));
    let archive = npz(
        &[("A", array.clone()), ("Y", array), ("Z", npy("<f4", "(100,)", &[0; 400]))],
        zip::CompressionMethod::Stored,
    );
    let folder = Folder::new();
    let path = folder.write("in.npz", archive);
    let table = pack(&Ask::new(DataSource::Files(vec![path])).load(&spec).unwrap(), 8);
    let all = &table.payloads[0].expected.as_ref().unwrap().steps;
    let addresses = |output: usize| {
        all.iter().map(|step| step.responses[0][output].bytes.as_ptr()).collect::<std::collections::HashSet<_>>().len()
    };
    assert_eq!((all.len(), addresses(0), addresses(1)), (50, 50, 1));
}

/// An archive with one raw array of `steps` times a MiB of zeros, which is small however long it is.
fn bomb(steps: usize) -> Vec<u8> {
    let mut writer = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    let header = npy("|i1", &format!("({steps}, 1048576)"), &[]);
    writer
        .start_file("A.npy", SimpleFileOptions::default().compression_method(zip::CompressionMethod::Deflated))
        .unwrap();
    writer.write_all(&header).unwrap();
    (0..steps).for_each(|_| writer.write_all(&[0; 1 << 20]).unwrap());
    writer.finish().unwrap().into_inner()
}

/// Most memory that this process has had in use so far, in bytes.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches("kB").trim().parse::<u64>().unwrap() << 10
}

#[test]
fn an_archive_that_unpacks_to_more_than_memory_allows_is_refused_before_it_is_read() {
    alone("data::files::an_archive_that_unpacks_to_more_than_memory_allows_is_refused_before_it_is_read", || {
        let spec = model(vec![tensor("A", DataType::Int8, &[1 << 20])], vec![]);
        let folder = Folder::new();
        let path = folder.write("bomb.npz", bomb(64));
        assert!(std::fs::metadata(&path).unwrap().len() < 1 << 20, "64 MiB in a small file");
        let before = peak();
        let ask = Ask { memory: Allowance::new(Some(8 << 20)), ..Ask::new(DataSource::Files(vec![path])) };
        let message = ask.refusal(&spec);
        let needed = (64_u64 << 20) + 128;
        assert!(message.contains("bomb.npz': ") && message.contains(&needed.to_string()), "{message}");
        assert!(message.contains("--max-input-memory allows 8388608"), "{message}");
        assert!(peak() - before < 16 << 20, "nothing of it was unpacked");
        assert_eq!(ask.memory.taken(), 0);
    });
}

/// Neither of the two sizes that an archive states is to be trusted: more comes out than both say.
#[test]
fn an_archive_that_lies_about_its_size_is_bounded() {
    let spec = model(vec![tensor("A", DataType::Int8, &[1 << 20])], vec![]);
    let folder = Folder::new();
    let mut file = bomb(64);
    let (honest, stated) = ((64_u32 << 20) + 128, (1_u32 << 20) + 128);
    // The header inside is packed, so the lie is about the archive's own size alone, in both of its places.
    let places: Vec<_> = (0..file.len() - 4).filter(|&at| file[at..at + 4] == honest.to_le_bytes()).collect();
    assert!(!places.is_empty());
    places.iter().for_each(|&at| file[at..at + 4].copy_from_slice(&stated.to_le_bytes()));
    let path = folder.write("liar.npz", file);
    let before = peak();
    let ask = Ask { memory: Allowance::new(Some(32 << 20)), ..Ask::new(DataSource::Files(vec![path])) };
    let message = ask.refusal(&spec);
    assert!(message.contains("liar.npz"), "{message}");
    assert!(peak() - before < 32 << 20, "{} bytes", peak() - before);
}

#[test]
fn every_source_keeps_within_the_memory_that_it_may_take() {
    let spec = model(vec![tensor("A", DataType::Int32, &[-1])], vec![tensor("Y", DataType::Int32, &[-1])]);
    let (folder, few) = (Folder::new(), || Allowance::new(Some(10_000)));
    let values: Vec<i32> = (0..5_000).collect();
    let text = serde_json::json!({ "data": [{ "A": { "content": values, "shape": [5000] } }] }).to_string();
    let json = Ask { memory: few(), ..Ask::new(DataSource::Files(vec![folder.write("in.json", text)])) };
    let expected = serde_json::json!({ "data": [{ "A": { "content": [1], "shape": [1] } }],
        "validation_data": [{ "Y": { "content": values, "shape": [5000] } }] });
    let outputs =
        Ask { memory: few(), ..Ask::new(DataSource::Files(vec![folder.write("out.json", expected.to_string())])) };
    let many = serde_json::json!({ "data": vec![serde_json::json!({ "A": { "content": [1], "shape": [1] } }); 100] });
    let steps = Ask { memory: few(), ..Ask::new(DataSource::Files(vec![folder.write("many.json", many.to_string())])) };
    let synthetic = Ask { memory: few(), ..Ask::new(DataSource::Random).shape("A", &[5_000]) };
    let (raw, array) = (Folder::new(), Folder::new());
    raw.write("A", ints(&values));
    array.write("A.npy", npy("<i4", "(5000,)", &ints(&values)));
    let asks = [json, outputs, steps, synthetic]
        .into_iter()
        .chain([Ask { memory: few(), ..raw.ask().shape("A", &[5_000]) }, Ask { memory: few(), ..array.ask() }]);
    for (number, ask) in asks.enumerate() {
        let message = ask.refusal(&spec);
        assert!(message.contains("--max-input-memory allows 10000"), "{number}: {message}");
    }
}

#[test]
fn batches_that_would_take_more_are_refused_and_copies_do_not_count_twice() {
    let spec = model(vec![tensor("A", DataType::Int32, &[1_000])], vec![]);
    let load = |allowed| {
        let ask = Ask { memory: Allowance::new(Some(allowed)), ..Ask::new(DataSource::Zero) };
        (ask.load(&spec).unwrap(), ask.memory)
    };
    let (corpus, _) = load(20_000);
    let message = corpus.pack(&packing(8)).unwrap_err().to_string();
    assert!(message.contains("-b 8 and pageable: input data would take at least"), "{message}");
    // What is copied is given back as it goes: the larger of the two is enough.
    let (corpus, memory) = load(33_000);
    let loaded = memory.taken();
    assert!((4_000..8_000).contains(&loaded), "{loaded}");
    let table = corpus.pack(&packing(8)).unwrap();
    assert_eq!(sent(&table.payloads[0].inputs[0]).len(), 32_000);
    assert!((32_000..33_000).contains(&memory.taken()), "{}", memory.taken());
}

#[test]
fn strings_and_expected_values_of_an_archive_are_never_there_twice() {
    let spec = model(vec![tensor("S", DataType::Bytes, &[1 << 20])], vec![tensor("Y", DataType::Int8, &[1 << 24])]);
    let folder = Folder::new();
    let strings = npy("<U4", "(1048576,)", &[[b'x', 0, 0, 0].as_slice(), &[0; 12]].concat().repeat(1 << 20));
    let outputs = npy("|i1", "(16777216,)", &vec![1; 1 << 24]);
    let path = folder.write("in.npz", npz(&[("S", strings), ("Y", outputs)], zip::CompressionMethod::Deflated));
    // 16 MiB of wide characters become 5 MiB of strings, and 16 MiB of expected values stay so.
    let ask = Ask { memory: Allowance::new(Some(24 << 20)), ..Ask::new(DataSource::Files(vec![path])) };
    let corpus = ask.load(&spec).unwrap();
    assert_eq!(&sent(&pack(&corpus, 1).payloads[0].inputs[0])[..10], b"\x01\0\0\0x\x01\0\0\0x");
    assert!(ask.memory.taken() < 22 << 20, "{}", ask.memory.taken());
}
