//! Time and memory of reading input data. Needs an optimised build and several gigabytes of memory: `cargo test
//! --release --test local data_cost:: -- --ignored --nocapture --test-threads 1`

use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use triton_bench::data::{Corpus, CorpusSpec, DataSource, Packing};
use triton_bench::model::{DataType, ModelId, ModelSpec, TensorSpec};
use triton_bench::shm::{Allowance, Placement};

fn model(datatype: DataType, elements: i64) -> ModelSpec {
    let input = TensorSpec { name: "X".into(), datatype, shape: vec![elements], optional: false, shape_tensor: false };
    ModelSpec { max_batch_size: 8, ..ModelSpec::plain(&ModelId::latest("m"), vec![input], Vec::new()) }
}

/// Loads and packs; returns the time, and the size of the region that the only input is sent from.
fn load(source: &DataSource, model: &ModelSpec, batch_size: u64, placement: Placement) -> (Duration, usize) {
    let spec = CorpusSpec {
        lengths: &[],
        blocks: None,
        optional: &triton_bench::data::OptionalInputs::None,
        source,
        shapes: &[],
        string_length: 8,
        string_data: None,
        random_ranges: &[],
        requests: None,
        stages: 1,
        seed: 1,
        memory: &Allowance::unbounded(),
    };
    let packing = Packing { batch_size, placement, sequences: false };
    let start = Instant::now();
    let corpus = Corpus::load(&spec, model).unwrap();
    let table = corpus.pack(&packing).unwrap();
    // Batches may overlap in it: their lengths together would be more than there is.
    (start.elapsed(), table.payloads[0].inputs[0].region.len())
}

/// A JSON file of about `bytes` bytes in steps of 1000 elements.
fn write_json(folder: &tempfile::TempDir, bytes: usize, element: impl Fn(usize) -> String) -> PathBuf {
    let (mut text, mut index) = (String::from("{\"data\": ["), 0);
    while text.len() < bytes {
        text.push_str(if index == 0 { "{\"X\": [" } else { ",\n{\"X\": [" });
        for position in 0..1000 {
            let comma = if position == 0 { "" } else { ", " };
            write!(text, "{comma}{}", element(index)).unwrap();
            index += 1;
        }
        text.push_str("]}");
    }
    text.push_str("]}");
    let path = folder.path().join("in.json");
    std::fs::write(&path, text).unwrap();
    path
}

/// Resets the high-water mark of resident memory and returns what is resident now, in bytes.
fn reset_peak() -> usize {
    std::fs::write("/proc/self/clear_refs", "5").unwrap();
    resident("VmRSS:")
}

fn resident(field: &str) -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with(field)).unwrap();
    line.split_ascii_whitespace().nth(1).unwrap().parse::<usize>().unwrap() * 1024
}

#[test]
#[ignore = "takes seconds and an optimised build"]
fn json_is_read_at_100_megabytes_a_second() {
    let folder = tempfile::tempdir().unwrap();
    for (datatype, element) in [
        (DataType::Fp32, (|index| format!("{:.6}", index as f64 * 0.37)) as fn(usize) -> String),
        (DataType::Int64, |index| format!("{}", index % 50_000)),
        (DataType::Bytes, |index| format!("\"text number {index}\"")),
    ] {
        let path = write_json(&folder, 100_000_000, element);
        let size = std::fs::metadata(&path).unwrap().len() as f64;
        let (time, _) = load(&DataSource::Files(vec![path]), &model(datatype, 1000), 1, Placement::Pageable);
        let rate = size / 1e6 / time.as_secs_f64();
        println!("{datatype}: {:.0} MB of JSON in {:.2} s: {rate:.0} MB/s", size / 1e6, time.as_secs_f64());
        assert!(rate >= 100.0, "{datatype}: {rate:.0} MB/s");
    }
}

#[test]
#[ignore = "needs gigabytes of memory and an optimised build"]
fn a_gibibyte_of_data_takes_little_more_memory() {
    const GIB: usize = 1 << 30;
    let folder = tempfile::tempdir().unwrap();
    let raw = tempfile::tempdir().unwrap();
    std::fs::write(raw.path().join("X"), vec![1; GIB]).unwrap();
    let whole = model(DataType::Fp32, GIB as i64 / 4);
    let json = write_json(&folder, 5 * GIB / 2, |index| format!("{:.3}", (index % 10_000) as f64));
    let json = DataSource::Files(vec![json]);
    let steps = model(DataType::Fp32, 1000);
    let raw = DataSource::Directory(raw.path().to_owned());
    for (name, source, model, batch_size, placement) in [
        ("random", &DataSource::Random, &whole, 1, Placement::Pageable),
        ("random, shared memory", &DataSource::Random, &whole, 1, Placement::System),
        ("raw file", &raw, &whole, 1, Placement::Pageable),
        ("raw file, shared memory", &raw, &whole, 1, Placement::System),
        ("JSON", &json, &steps, 1, Placement::Pageable),
        ("JSON, shared memory", &json, &steps, 1, Placement::System),
        ("JSON, batches of 8", &json, &steps, 8, Placement::Pageable),
    ] {
        let before = reset_peak();
        let (time, packed) = load(source, model, batch_size, placement);
        let share = (resident("VmHWM:") - before) as f64 / packed as f64;
        println!(
            "{name}: {} MB packed in {:.2} s, peak of {share:.3} x the data",
            packed / 1_000_000,
            time.as_secs_f64()
        );
        assert!(packed > GIB * 9 / 10 && share <= 1.2, "{name}: {share}");
    }
}

#[test]
#[ignore = "takes seconds and needs memory for itself"]
fn a_small_step_takes_a_few_hundred_bytes() {
    const STEPS: usize = 1_000_000;
    let folder = tempfile::tempdir().unwrap();
    let mut text = String::from("{\"data\": [{\"X\": [0]}");
    (1..STEPS).for_each(|step| write!(text, ",{{\"X\": [{step}]}}").unwrap());
    text.push_str("]}");
    let path = folder.path().join("in.json");
    std::fs::write(&path, text).unwrap();
    let source = DataSource::Files(vec![path]);
    for batch_size in [1, 8, 1000] {
        let mut model = model(DataType::Int32, 1);
        model.max_batch_size = 1000;
        let before = reset_peak();
        load(&source, &model, batch_size, Placement::Pageable);
        let step_bytes = (resident("VmHWM:") - before) / STEPS;
        println!("batches of {batch_size}: {step_bytes} bytes per step");
        assert!(step_bytes <= 300, "batches of {batch_size}: {step_bytes} bytes per step");
    }
}
