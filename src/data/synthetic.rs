//! Generated data: zeros, or random values that suit their type. One step, the same for all requests.

use std::ops::RangeInclusive;
use std::sync::Arc;

use rand::distr::uniform::SampleUniform;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use half::{bf16, f16};

use crate::error::{Error, Result};
use crate::model::{DataType, TensorSpec};
use crate::range::{Bound, RandomRange};
use crate::shapes;
use crate::shm::RegionBuilder;
use crate::steps::{Loaded, Stream, Target, Value, extent};

/// The characters of random strings, the same as perf_analyzer's.
const CHARACTERS: &[u8] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 .?!";

/// Largest random value of 32- and 64-bit integers without `--random-range`: such tensors are mostly indices (token
/// numbers), and this is within the vocabulary of common language models.
const LARGEST_INDEX: u32 = 9_999;

/// Generates one step.
///
/// # Errors
/// If a shape is open, values of a shape tensor would have to be made up, or a random range does not fit its input.
pub(crate) fn load(target: &Target<'_>, seed: Option<u64>) -> Result<Loaded> {
    check_ranges(target)?;
    let mut memory = RegionBuilder::within(target.spec.memory)?;
    let mut inputs = Vec::new();
    let left_out = target.spec.left_out(target.model);
    for (index, input) in target.model.inputs.iter().enumerate() {
        if left_out.contains(&index) {
            inputs.push(None);
            continue;
        }
        let shape = &target.shapes.inputs[index];
        check_shape(input, shape)?;
        let (elements, bytes) =
            extent(input, shape).map_err(|rule| Error::input(rule).context(asked_by(input, shape)))?;
        let mut random = seed.map(|seed| Xoshiro256PlusPlus::seed_from_u64(seed.wrapping_add(index as u64)));
        let offset = memory.align()?;
        match bytes {
            Some(bytes) => {
                let out = memory.extend(bytes).map_err(|error| error.context(asked_by(input, shape)))?;
                if let Some(random) = &mut random {
                    fill(random, input.datatype, range(target, input), out);
                }
            }
            None => fill_strings(target, elements, &mut random, &mut memory)
                .map_err(|error| error.context(asked_by(input, shape)))?,
        }
        inputs.push(Some(Value { region: 0, offset, len: memory.len() - offset, shape: Arc::clone(shape) }));
    }
    let mut stream = Stream::default();
    stream.push(inputs);
    Ok(Loaded { regions: vec![memory.finish()], streams: vec![stream], ..Loaded::default() })
}

fn check_shape(input: &TensorSpec, shape: &[i64]) -> Result<()> {
    if input.shape_tensor {
        return Err(Error::input(format!(
            "can not generate data for shape tensor '{}', user-provided data is needed: give its values with --input-data \
             and a JSON file",
            input.name
        )));
    }
    match shape.iter().any(|&dim| dim < 0) {
        true => Err(open_shape(input)),
        false => Ok(()),
    }
}

/// Names the flag that set a tensor's shape, if one did.
fn asked_by(input: &TensorSpec, shape: &[i64]) -> String {
    match input.shape == shape {
        true => format!("input {} of shape {}", input.name, shapes::bracketed(shape)),
        false => format!("--shape {}:{}", input.name, shapes::list(shape)),
    }
}

/// The error of an input whose shape is not defined.
pub(super) fn open_shape(input: &TensorSpec) -> Error {
    Error::input(format!(
        "input {} contains dynamic shape, provide shapes to send along with the request: --shape {}:D1,D2,... for the \
         model's {}",
        input.name,
        input.name,
        shapes::bracketed(&input.shape)
    ))
}

fn fill_strings(
    target: &Target<'_>,
    elements: u64,
    random: &mut Option<Xoshiro256PlusPlus>,
    memory: &mut RegionBuilder,
) -> Result<()> {
    let length = target.spec.string_data.map_or(target.spec.string_length, str::len);
    let too_large = || Error::input(format!("{elements} strings of {length} bytes are too large"));
    let total = shapes::bytes(elements, length.saturating_add(4)).ok_or_else(too_large)?;
    let prefix = u32::try_from(length).map_err(|_| too_large())?.to_le_bytes();
    let mut text = target.spec.string_data.map_or_else(|| vec![0; length], |text| text.as_bytes().to_vec());
    for element in memory.extend(total)?.chunks_exact_mut(length + 4) {
        if let (Some(random), None) = (random.as_mut(), target.spec.string_data) {
            text.fill_with(|| CHARACTERS[random.random_range(0..CHARACTERS.len())]);
        }
        element[..4].copy_from_slice(&prefix);
        element[4..].copy_from_slice(&text);
    }
    Ok(())
}

/// The last `--random-range` of an input.
fn range<'a>(target: &Target<'a>, input: &TensorSpec) -> Option<&'a RandomRange> {
    target.spec.random_ranges.iter().rev().find(|range| range.input == input.name)
}

/// Smallest and largest value of each type that a random range may have.
fn limits(datatype: DataType) -> Option<(Bound, Bound)> {
    fn whole<T: Into<i128>>(least: T, most: T) -> (Bound, Bound) {
        (Bound::Whole(least.into()), Bound::Whole(most.into()))
    }
    let real = |most: f64| (Bound::from(-most), Bound::from(most));
    Some(match datatype {
        DataType::Bool => whole(0, 1),
        DataType::Uint8 => whole(u8::MIN, u8::MAX),
        DataType::Uint16 => whole(u16::MIN, u16::MAX),
        DataType::Uint32 => whole(u32::MIN, u32::MAX),
        DataType::Uint64 => whole(u64::MIN, u64::MAX),
        DataType::Int8 => whole(i8::MIN, i8::MAX),
        DataType::Int16 => whole(i16::MIN, i16::MAX),
        DataType::Int32 => whole(i32::MIN, i32::MAX),
        DataType::Int64 => whole(i64::MIN, i64::MAX),
        DataType::Fp16 => real(f64::from(f16::MAX)),
        DataType::Bf16 => real(f64::from(bf16::MAX)),
        DataType::Fp32 => real(f64::from(f32::MAX)),
        DataType::Fp64 => real(f64::MAX / 2.0),
        DataType::Bytes | DataType::Json => return None,
    })
}

fn check_ranges(target: &Target<'_>) -> Result<()> {
    for range in target.spec.random_ranges {
        let refuse = |rule: String| Err(Error::input(format!("--random-range {range}: {rule}")));
        let Some(input) = target.model.inputs.iter().find(|input| input.name == range.input) else {
            return refuse(format!("the model has no input of this name; its inputs are {}", target.input_names()));
        };
        let Some((least, most)) = limits(input.datatype) else {
            return refuse("a BYTES input takes --string-length or --string-data instead".to_owned());
        };
        let ordered = [least, range.low, range.high, most];
        if !ordered.is_sorted_by(|value, next| value.is_at_most(*next)) {
            return refuse(format!("{} takes lowest:highest from {least} to {most}", input.datatype));
        }
        let whole = [range.low, range.high].iter().all(|bound| matches!(bound, Bound::Whole(_)));
        if is_integer(input.datatype) && !whole {
            return refuse(format!("{} takes integers", input.datatype));
        }
    }
    Ok(())
}

fn is_integer(datatype: DataType) -> bool {
    !matches!(datatype, DataType::Fp16 | DataType::Bf16 | DataType::Fp32 | DataType::Fp64)
}

/// Fills a tensor with uniform values: BOOL with 0 and 1, 8- and 16-bit integers over their whole range, wider ones from
/// 0 to [`LARGEST_INDEX`], floats from 0 to 1, unless a range is given.
fn fill(random: &mut Xoshiro256PlusPlus, datatype: DataType, range: Option<&RandomRange>, out: &mut [u8]) {
    /// Converts the bounds; `check_ranges` has refused what does not fit.
    macro_rules! uniform {
        ($type:ty, $default:expr) => {{
            let bounds = match range {
                Some(RandomRange { low: Bound::Whole(low), high: Bound::Whole(high), .. }) => {
                    *low as $type..=*high as $type
                }
                _ => $default,
            };
            uniform(random, bounds, out, |value: $type| value.to_le_bytes());
        }};
    }
    let (low, high) = range.map_or((0.0, 1.0), |range| (range.low.as_f64(), range.high.as_f64()));
    match datatype {
        DataType::Bool => uniform!(u8, 0..=1),
        DataType::Uint8 => uniform!(u8, u8::MIN..=u8::MAX),
        DataType::Uint16 => uniform!(u16, u16::MIN..=u16::MAX),
        DataType::Uint32 => uniform!(u32, 0..=LARGEST_INDEX),
        DataType::Uint64 => uniform!(u64, 0..=u64::from(LARGEST_INDEX)),
        DataType::Int8 => uniform!(i8, i8::MIN..=i8::MAX),
        DataType::Int16 => uniform!(i16, i16::MIN..=i16::MAX),
        DataType::Int32 => uniform!(i32, 0..=LARGEST_INDEX as i32),
        DataType::Int64 => uniform!(i64, 0..=i64::from(LARGEST_INDEX)),
        DataType::Fp32 => uniform(random, low..=high, out, |value: f64| (value as f32).to_le_bytes()),
        DataType::Fp64 => uniform(random, low..=high, out, f64::to_le_bytes),
        DataType::Fp16 => uniform(random, low..=high, out, |value| f16::from_f64(value).to_le_bytes()),
        DataType::Bf16 => uniform(random, low..=high, out, |value| bf16::from_f64(value).to_le_bytes()),
        DataType::Bytes | DataType::Json => {}
    }
}

fn uniform<T: SampleUniform + PartialOrd + Copy, const N: usize>(
    random: &mut Xoshiro256PlusPlus,
    range: RangeInclusive<T>,
    out: &mut [u8],
    bytes: impl Fn(T) -> [u8; N],
) {
    for element in out.as_chunks_mut::<N>().0 {
        *element = bytes(random.random_range(range.clone()));
    }
}
