//! Generated data and shapes.

use half::{bf16, f16};

use super::fixture::*;
use triton_bench::data::{DataSource, OptionalInputs, RandomRange};
use triton_bench::model::{DataType, ModelSpec};

fn all_types() -> ModelSpec {
    model(DataType::all().map(|datatype| tensor(datatype.name(), datatype, &[64])).collect(), vec![])
}

fn generated(ask: &Ask, spec: &ModelSpec) -> Vec<Vec<u8>> {
    pack(&ask.load(spec).unwrap(), 1).payloads[0].inputs.iter().map(sent).collect()
}

#[test]
fn random_values_are_sensible_for_every_type() {
    let spec = all_types();
    let values = generated(&Ask::new(DataSource::Random), &spec);
    for (input, bytes) in spec.inputs.iter().zip(&values) {
        assert!(bytes.iter().any(|byte| *byte != bytes[0]), "{} varies", input.name);
        let size = input.datatype.size().unwrap_or(20);
        assert_eq!(bytes.len(), 64 * size);
        for element in bytes.chunks_exact(size) {
            let value = match input.datatype {
                DataType::Bool => f64::from(element[0]),
                DataType::Fp16 => f16::from_le_bytes(element.try_into().unwrap()).to_f64(),
                DataType::Bf16 => bf16::from_le_bytes(element.try_into().unwrap()).to_f64(),
                DataType::Fp32 => f64::from(f32::from_le_bytes(element.try_into().unwrap())),
                DataType::Fp64 => f64::from_le_bytes(element.try_into().unwrap()),
                DataType::Int64 => i64::from_le_bytes(element.try_into().unwrap()) as f64 / 9999.0,
                DataType::Uint32 => f64::from(u32::from_le_bytes(element.try_into().unwrap())) / 9999.0,
                DataType::Bytes => {
                    assert_eq!(element[..4], [16, 0, 0, 0]);
                    assert!(element[4..].iter().all(|byte| byte.is_ascii_alphanumeric() || b" .?!".contains(byte)));
                    continue;
                }
                _ => continue,
            };
            assert!((0.0..=1.0).contains(&value), "{}: {value}", input.name);
        }
    }
}

#[test]
fn optional_inputs_are_generated_where_they_are_named() {
    let mut spec = model(["A", "B", "C"].map(|name| tensor(name, DataType::Int32, &[-1])).to_vec(), vec![]);
    spec.inputs[1].optional = true;
    spec.inputs[2].optional = true;
    let names = |ask: &Ask| -> Vec<String> {
        let packed = pack(&ask.load(&spec).unwrap(), 2);
        packed.payloads[0].inputs.iter().map(|input| input.name.to_string()).collect()
    };
    let ask = |optional| Ask { optional, ..Ask::new(DataSource::Random).shape("A", &[3]) };
    assert_eq!(names(&ask(OptionalInputs::None)), ["A"], "no --shape is needed for the others");
    assert_eq!(names(&ask(OptionalInputs::None).shape("C", &[1])), ["A", "C"], "a shape names its input");
    let named = |name: &str| OptionalInputs::Named(vec![name.to_owned()]);
    assert_eq!(names(&ask(named("B")).shape("B", &[2])), ["A", "B"]);
    assert!(ask(OptionalInputs::All).load(&spec).unwrap_err().to_string().contains("--shape B:"));
    spec.inputs[0].optional = true;
    let all = Ask::new(DataSource::Zero).shape("A", &[1]).shape("B", &[1]).shape("C", &[1]);
    assert_eq!(pack(&all.load(&spec).unwrap(), 1).payloads[0].inputs.len(), 3, "a request without inputs is none");
}

#[test]
fn the_seed_decides() {
    let spec = all_types();
    let ask = Ask::new(DataSource::Random);
    assert_eq!(generated(&ask, &spec), generated(&ask, &spec));
    assert_ne!(generated(&ask, &spec), generated(&Ask { seed: 2, ..Ask::new(DataSource::Random) }, &spec));
}

#[test]
fn zero_covers_strings_and_string_data_wins() {
    let spec = all_types();
    let zero = Ask::new(DataSource::Zero);
    for (input, bytes) in spec.inputs.iter().zip(generated(&zero, &spec)) {
        let element = if input.datatype == DataType::Bytes { 1 } else { 0 };
        assert!(bytes.iter().filter(|&&byte| byte != 0).count() == element * 64, "{}", input.name);
    }
    let text = Ask { string_data: Some("hi".into()), ..Ask::new(DataSource::Zero) };
    let spec = model(vec![tensor("S", DataType::Bytes, &[2])], vec![]);
    assert_eq!(generated(&text, &spec)[0], b"\x02\0\0\0hi\x02\0\0\0hi");
    assert_eq!(text.load(&spec).unwrap().announcement(), None);
}

#[test]
fn random_ranges_are_kept_and_checked() {
    let spec = all_types();
    let ranged = |name: &str, low: f64, high: f64| Ask {
        random_ranges: vec![RandomRange { input: name.into(), low: low.into(), high: high.into() }],
        ..Ask::new(DataSource::Random)
    };
    let at = |name: &str| spec.inputs.iter().position(|input| input.name == name).unwrap();
    let values = generated(&ranged("INT64", 30_000.0, 30_002.0), &spec);
    let (elements, _) = values[at("INT64")].as_chunks::<8>();
    assert!(elements.iter().all(|&element| (30_000..=30_002).contains(&i64::from_le_bytes(element))));
    let values = generated(&ranged("FP32", -3.0, -2.0), &spec);
    assert!(
        values[at("FP32")]
            .as_chunks::<4>()
            .0
            .iter()
            .all(|&element| (-3.0..=-2.0).contains(&f32::from_le_bytes(element)))
    );
    for (ask, part) in [
        (ranged("X", 0.0, 1.0), "--random-range X:0:1: the model has no input of this name"),
        (ranged("UINT8", 0.0, 256.0), "UINT8 takes lowest:highest from 0 to 255"),
        (ranged("INT32", 5.0, 4.0), "INT32 takes lowest:highest"),
        (ranged("INT32", 0.5, 4.0), "INT32 takes integers"),
        (ranged("FP16", 0.0, 1e6), "FP16 takes lowest:highest from -65504 to 65504"),
        (ranged("FP32", f64::NAN, 1.0), "FP32 takes lowest:highest"),
        (ranged("BYTES", 0.0, 1.0), "takes --string-length or --string-data"),
    ] {
        let message = ask.refusal(&spec);
        assert!(message.contains(part), "{message}");
    }
    let wide = |name: &str, low: i128, high: i128| Ask {
        random_ranges: vec![RandomRange { input: name.into(), low: low.into(), high: high.into() }],
        ..Ask::new(DataSource::Random)
    };
    // 64-bit bounds are exact, where floating-point numbers lie hundreds apart.
    let last = i128::from(u64::MAX);
    let values = generated(&wide("UINT64", last - 1, last - 1), &spec);
    assert!(values[at("UINT64")].as_chunks::<8>().0.iter().all(|&element| u64::from_le_bytes(element) == u64::MAX - 1));
    for (name, low, high) in [("UINT64", 0, last + 1), ("INT64", -(1 << 63) - 1, 0), ("INT64", 0, 1 << 63)] {
        assert!(wide(name, low, high).refusal(&spec).contains(&format!("{name} takes lowest:highest")), "{name}");
    }
    let huge = ranged("FP64", -1e308, 1e308).refusal(&spec);
    assert!(huge.starts_with("--random-range FP64:-1e308:1e308: FP64 takes lowest:highest from -8.98"), "{huge}");
    let whole = generated(&ranged("FP64", f64::MIN / 2.0, f64::MAX / 2.0), &spec);
    assert!(whole[at("FP64")].as_chunks::<8>().0.iter().all(|&element| f64::from_le_bytes(element).is_finite()));
}

#[test]
fn shapes_are_filled_in_warned_about_or_refused() {
    let spec = model(vec![tensor("A", DataType::Fp32, &[-1, 2]), tensor("B", DataType::Int8, &[3])], vec![]);
    let random = || Ask::new(DataSource::Random);
    let open = random().refusal(&spec);
    assert!(open.contains("input A contains dynamic shape, provide shapes to send along with the request"), "{open}");
    let corpus = random().shape("A", &[9, 2]).shape("A", &[4, 2]).shape("B", &[5]).load(&spec).unwrap();
    assert_eq!(*pack(&corpus, 1).payloads[0].inputs[0].shape, [1, 4, 2]);
    assert_eq!(corpus.warnings().len(), 1);
    assert!(corpus.warnings()[0].contains("--shape B:5 has no effect: the model fixes this input's shape to [3]"));
    assert!(random().shape("A", &[4, 2]).shape("B", &[3]).load(&spec).unwrap().warnings().is_empty());
    let unknown = random().shape("Q", &[1]).refusal(&spec);
    assert!(unknown.contains("--shape Q: model 'm' has no input of this name; its inputs are A, B"), "{unknown}");
    let unfit = random().shape("A", &[4, 3]).refusal(&spec);
    assert!(unfit.contains("The supplied shape of [4,3] for input \"A\" is incompatible"), "{unfit}");
    assert!(unfit.starts_with("--shape A:4,3: unexpected shape for input 'A' for model 'm'. "), "{unfit}");
    let overflow = random().shape("A", &[i64::MAX, 2]).refusal(&spec);
    assert!(overflow.contains("too large to be addressed"), "{overflow}");
    let vast = random().shape("A", &[1 << 58, 2]).refusal(&spec);
    assert!(vast.starts_with("--shape A:288230376151711744,2: cannot allocate "), "{vast}");
    let enormous = random().shape("A", &[1 << 57, 2]).refusal(&spec);
    assert!(enormous.contains("cannot allocate"), "{enormous}");
    let strings = model(vec![tensor("S", DataType::Bytes, &[-1])], vec![]);
    let enormous = random().shape("S", &[1 << 45]).refusal(&strings);
    assert!(enormous.contains("cannot allocate"), "{enormous}");
}

#[test]
fn shape_tensors_are_not_invented() {
    let mut spec = model(vec![tensor("S", DataType::Int32, &[2])], vec![]);
    spec.inputs[0].shape_tensor = true;
    let message = Ask::new(DataSource::Zero).refusal(&spec);
    assert!(message.contains("can not generate data for shape tensor 'S', user-provided data is needed"), "{message}");
}
