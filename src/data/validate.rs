//! Compares what a server answered with what the data say it must.
//!
//! Pure functions of copies, so that they run on a thread of their own and not in the server's callback.

use std::fmt;

use half::{bf16, f16};

use super::{Expected, OutputValues, Payload, shapes, strings};
use crate::model::DataType;

/// How far a float may be from the expected one: `|got - expected| <= absolute + relative * |expected|`, as
/// `numpy.isclose` has it. NaN equals NaN. Other types compare exactly.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tolerance {
    /// Share of the expected value.
    pub relative: f64,
    /// In the unit of the values.
    pub absolute: f64,
}

/// The first difference between a response and what was expected.
#[derive(Clone, Debug, PartialEq)]
pub struct Mismatch {
    /// Stream of the request's first batch element.
    pub stream: u32,
    /// Step of the request's first batch element.
    pub step: u32,
    /// Which response of the request, from 0.
    pub response: usize,
    /// Output that differs; empty where the number of responses does.
    pub tensor: String,
    /// How it differs.
    pub difference: Difference,
}

/// How an output differs.
#[derive(Clone, Debug, PartialEq)]
pub enum Difference {
    /// There are more or fewer responses.
    Responses {
        /// How many must come.
        expected: usize,
        /// How many came.
        got: usize,
    },
    /// The response has no such output.
    Missing,
    /// It has another type.
    Datatype {
        /// What it must be.
        expected: DataType,
        /// What it is.
        got: DataType,
    },
    /// It has another shape.
    Shape {
        /// What it must be.
        expected: Vec<i64>,
        /// What it is.
        got: Vec<i64>,
    },
    /// It has another size in bytes (in elements, for BYTES).
    Size {
        /// What it must be.
        expected: usize,
        /// What it is.
        got: usize,
    },
    /// It is BYTES and breaks off inside of an element.
    CutOff,
    /// An element has another value.
    Element {
        /// Position in the flattened tensor.
        index: usize,
        /// What it must be.
        expected: String,
        /// What it is.
        got: String,
    },
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { stream, step, response, tensor, difference } = self;
        write!(f, "Output doesn't match expected output: stream {stream}, step {step}, response {response}")?;
        if !tensor.is_empty() {
            write!(f, ", output '{tensor}'")?;
        }
        match difference {
            Difference::Responses { expected, got } => write!(f, ": expected {expected} responses, got {got}"),
            Difference::Missing => f.write_str(": it is not in the response"),
            Difference::Datatype { expected, got } => write!(f, ": expected {expected}, got {got}"),
            Difference::Shape { expected, got } => {
                write!(f, ": expected shape {}, got {}", shapes::bracketed(expected), shapes::bracketed(got))
            }
            Difference::Size { expected, got } => {
                write!(f, ": Output size doesn't match expected size: expected {expected}, got {got}")
            }
            Difference::CutOff => f.write_str(": its BYTES are cut off inside of an element"),
            Difference::Element { index, expected, got } => {
                write!(f, ", element {index}: expected {expected}, got {got}")
            }
        }
    }
}

/// Compares all responses that carried data with what `payload` expects, bit by bit, but floats within `tolerance` where
/// there is one. Outputs that nothing is expected of are passed over; a payload without expectations matches everything.
///
/// # Errors
/// The first difference.
pub fn validate(
    payload: &Payload,
    responses: &[Vec<OutputValues>],
    tolerance: Option<Tolerance>,
) -> Result<(), Mismatch> {
    let Some(expected) = &payload.expected else { return Ok(()) };
    first_difference(expected, responses, tolerance).map_err(|(response, tensor, difference)| Mismatch {
        stream: payload.stream,
        step: payload.step,
        response,
        tensor,
        difference,
    })
}

fn first_difference(
    expected: &Expected,
    responses: &[Vec<OutputValues>],
    tolerance: Option<Tolerance>,
) -> Result<(), (usize, String, Difference)> {
    for (index, (wanted, outputs)) in expected.responses.iter().zip(responses).enumerate() {
        for output in wanted {
            let result = match outputs.iter().find(|got| got.name == output.name) {
                Some(got) => compare(output, got, tolerance),
                None => Err(Difference::Missing),
            };
            result.map_err(|difference| (index, output.name.to_string(), difference))?;
        }
    }
    let (expected, got) = (expected.responses.len(), responses.len());
    match expected == got {
        true => Ok(()),
        false => Err((expected.min(got), String::new(), Difference::Responses { expected, got })),
    }
}

fn compare(expected: &OutputValues, got: &OutputValues, tolerance: Option<Tolerance>) -> Result<(), Difference> {
    if expected.datatype != got.datatype {
        return Err(Difference::Datatype { expected: expected.datatype, got: got.datatype });
    }
    if let (Some(wanted), Some(shape)) = (&expected.shape, &got.shape)
        && wanted != shape
    {
        return Err(Difference::Shape { expected: wanted.clone(), got: shape.clone() });
    }
    if expected.bytes == got.bytes {
        return Ok(());
    }
    let Some(size) = expected.datatype.size() else { return compare_strings(&expected.bytes, &got.bytes) };
    if expected.bytes.len() != got.bytes.len() {
        return Err(Difference::Size { expected: expected.bytes.len(), got: got.bytes.len() });
    }
    let pairs = expected.bytes.chunks_exact(size).zip(got.bytes.chunks_exact(size));
    for (index, (wanted, actual)) in pairs.enumerate() {
        if wanted != actual && !tolerance.is_some_and(|tolerance| close(expected.datatype, wanted, actual, tolerance)) {
            let (expected, got) = show_both(expected.datatype, wanted, actual);
            return Err(Difference::Element { index, expected, got });
        }
    }
    Ok(())
}

fn compare_strings(expected: &[u8], got: &[u8]) -> Result<(), Difference> {
    let counts = (strings::count(expected).unwrap_or(0), strings::count(got).map_err(|_| Difference::CutOff)?);
    for (index, pair) in strings::elements(expected).zip(strings::elements(got)).enumerate() {
        let (Ok(wanted), Ok(actual)) = pair else { return Err(Difference::CutOff) };
        if wanted != actual {
            return Err(Difference::Element { index, expected: quote(wanted), got: quote(actual) });
        }
    }
    Err(Difference::Size { expected: counts.0 as usize, got: counts.1 as usize })
}

/// Whether two floats are close enough. False for every other type.
fn close(datatype: DataType, expected: &[u8], got: &[u8], tolerance: Tolerance) -> bool {
    let (Some(expected), Some(got)) = (float(datatype, expected), float(datatype, got)) else { return false };
    if expected.is_nan() || got.is_nan() {
        return expected.is_nan() && got.is_nan();
    }
    expected == got
        || expected.is_finite()
            && got.is_finite()
            && (got - expected).abs() <= tolerance.absolute + tolerance.relative * expected.abs()
}

fn float(datatype: DataType, bytes: &[u8]) -> Option<f64> {
    match datatype {
        DataType::Fp16 => Some(f16::from_le_bytes(bytes.try_into().ok()?).to_f64()),
        DataType::Bf16 => Some(bf16::from_le_bytes(bytes.try_into().ok()?).to_f64()),
        DataType::Fp32 => Some(f64::from(f32::from_le_bytes(bytes.try_into().ok()?))),
        DataType::Fp64 => Some(f64::from_le_bytes(bytes.try_into().ok()?)),
        _ => None,
    }
}

/// Two elements that differ, as text; with their bits where they read the same, as only NaNs do.
fn show_both(datatype: DataType, one: &[u8], other: &[u8]) -> (String, String) {
    let texts = (show(datatype, one), show(datatype, other));
    if texts.0 != texts.1 {
        return texts;
    }
    let bits = |bytes: &[u8]| bytes.iter().rev().map(|byte| format!("{byte:02x}")).collect::<String>();
    (format!("{} (0x{})", texts.0, bits(one)), format!("{} (0x{})", texts.1, bits(other)))
}

/// An element as text.
fn show(datatype: DataType, bytes: &[u8]) -> String {
    let mut wide = [0; 8];
    wide[..bytes.len()].copy_from_slice(bytes);
    let unsigned = u64::from_le_bytes(wide);
    let signed = (unsigned << (64 - 8 * bytes.len())).cast_signed() >> (64 - 8 * bytes.len());
    match datatype {
        DataType::Fp32 => decimal(f32::from_bits(unsigned as u32)),
        DataType::Fp16 | DataType::Bf16 | DataType::Fp64 => decimal(float(datatype, bytes).unwrap_or(f64::NAN)),
        DataType::Int8 | DataType::Int16 | DataType::Int32 | DataType::Int64 => signed.to_string(),
        _ => unsigned.to_string(),
    }
}

/// A float as its shortest digits, with an exponent where it would be a row of zeros without.
fn decimal<F: Copy + Into<f64> + fmt::Display + fmt::LowerExp>(value: F) -> String {
    let size: f64 = value.into().abs();
    match size == 0.0 || !size.is_finite() || (1e-5..1e16).contains(&size) {
        true => value.to_string(),
        false => format!("{value:e}"),
    }
}

/// The beginning of a string, quoted.
fn quote(text: &[u8]) -> String {
    const SHOWN: usize = 60;
    let shown = &text[..text.len().min(SHOWN)];
    let more = if text.len() > SHOWN { format!("... ({} bytes)", text.len()) } else { String::new() };
    format!("\"{}\"{more}", shown.escape_ascii())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    fn values(datatype: DataType, shape: &[i64], bytes: Vec<u8>) -> OutputValues {
        OutputValues { name: "Y".into(), datatype, shape: Some(shape.to_vec()), bytes }
    }

    /// Compares bit by bit where the tolerance is `None`.
    fn check(expected: OutputValues, got: OutputValues, tolerance: impl Into<Option<Tolerance>>) -> Result<(), String> {
        let expected = Some(Arc::new(Expected { responses: vec![vec![expected]] }));
        let payload =
            Payload { model: 0, batch: 1, stream: 2, step: 5, inputs: Vec::new(), parameters: Vec::new(), expected };
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
        let short = OutputValues { shape: None, ..floats(&[1.0]) };
        assert!(
            check(floats(&[1.0, 2.0]), floats(&[1.0]), exact).unwrap_err().ends_with("expected shape [2], got [1]")
        );
        assert!(check(floats(&[1.0, 2.0]), short, exact).unwrap_err().ends_with("expected 8, got 4"));
        let other = values(DataType::Int32, &[1], vec![0; 4]);
        assert!(check(floats(&[0.0]), other, exact).unwrap_err().ends_with("expected FP32, got INT32"));
        let expected = Expected { responses: vec![vec![floats(&[1.0])], vec![floats(&[2.0])]] };
        let payload = Payload {
            model: 0,
            batch: 1,
            stream: 0,
            step: 0,
            inputs: Vec::new(),
            parameters: Vec::new(),
            expected: Some(Arc::new(expected)),
        };
        let one = validate(&payload, &[vec![floats(&[1.0])]], exact).unwrap_err();
        assert!(one.to_string().ends_with("response 1: expected 2 responses, got 1"), "{one}");
        let wrong = validate(&payload, &[vec![floats(&[1.0])], vec![floats(&[3.0])]], exact).unwrap_err();
        assert_eq!((wrong.response, wrong.tensor.as_str()), (1, "Y"));
        let missing = validate(&payload, &[vec![], vec![]], exact).unwrap_err();
        assert_eq!(missing.difference, Difference::Missing);
    }
}
