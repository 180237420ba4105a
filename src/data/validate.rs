//! Compares a server's outputs with the expected ones.
//!
//! Pure functions of copies, so that they run on a separate thread and not in the server's callback.

use std::fmt;

use half::{bf16, f16};

use crate::model::DataType;
use crate::{OutputValues, OutputView, Payload, shapes, strings};

/// How far a float may be from the expected one: `|got - expected| <= absolute + relative * |expected|`, as in
/// `numpy.isclose`. NaN equals NaN. Other types must be equal.
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
    /// Stream of the step that differs; if no single one does, of the first step of the batch.
    pub stream: u32,
    /// The step.
    pub step: u32,
    /// Which response of the request, from 0.
    pub response: usize,
    /// The output that differs; empty if the number of responses does.
    pub tensor: String,
    /// How it differs.
    pub difference: Difference,
}

/// How an output differs.
#[derive(Clone, Debug, PartialEq)]
pub enum Difference {
    /// The number of responses differs.
    Responses {
        /// Expected number.
        expected: usize,
        /// Actual number.
        got: usize,
    },
    /// The response has no such output.
    Missing,
    /// It has a different type.
    Datatype {
        /// Expected.
        expected: DataType,
        /// Actual.
        got: DataType,
    },
    /// It has a different shape.
    Shape {
        /// Expected.
        expected: Vec<i64>,
        /// Actual.
        got: Vec<i64>,
    },
    /// It has a different size in bytes (in elements, for BYTES).
    Size {
        /// Expected.
        expected: usize,
        /// Actual.
        got: usize,
    },
    /// It is BYTES and ends inside an element.
    CutOff,
    /// An element has a different value.
    Element {
        /// Position in the step's part of the flattened tensor.
        index: usize,
        /// Expected.
        expected: String,
        /// Actual.
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

/// Compares all responses that carried data with what `payload` expects, bit by bit, except for floats, which must be
/// within `tolerance` if there is one. Outputs without expectations are skipped; a payload without expectations matches
/// everything.
///
/// # Errors
/// The first difference.
pub fn validate(
    payload: &Payload,
    responses: &[Vec<OutputView<'_>>],
    tolerance: Option<Tolerance>,
) -> Result<(), Mismatch> {
    let Some(expected) = &payload.expected else { return Ok(()) };
    let members = expected.members(payload.batch);
    let named = |member: usize, response: usize, tensor: &str, difference: Difference| {
        let (stream, step) = members.clone().nth(member).map_or((0, 0), |member| (member.stream, member.step));
        Mismatch { stream, step, response, tensor: tensor.to_owned(), difference }
    };
    let head = &expected.steps[expected.first].responses;
    let batch = expected.batched.then_some(payload.batch as i64);
    for (response, (wanted, outputs)) in head.iter().zip(responses).enumerate() {
        for (number, output) in wanted.iter().enumerate() {
            let parts = members.clone().map(|member| member.responses[response][number].as_ref());
            let result = match outputs.iter().find(|got| *got.name == *output.name) {
                Some(got) => compare(parts, batch, got, tolerance),
                None => Err((0, Difference::Missing)),
            };
            result.map_err(|(member, difference)| named(member, response, &output.name, difference))?;
        }
    }
    let (expected, got) = (head.len(), responses.len());
    match expected == got {
        true => Ok(()),
        false => Err(named(0, expected.min(got), "", Difference::Responses { expected, got })),
    }
}

/// Compares an output with the expected `parts`, one for each step of the batch. A difference comes with the number of
/// the step in the batch, 0 if it concerns all of them.
fn compare<'a>(
    parts: impl Iterator<Item = &'a OutputValues> + Clone,
    batch: Option<i64>,
    got: &OutputView<'_>,
    tolerance: Option<Tolerance>,
) -> Result<(), (usize, Difference)> {
    let Some(head) = parts.clone().next() else { return Ok(()) };
    let datatype = head.datatype;
    if datatype != got.datatype {
        return Err((0, Difference::Datatype { expected: datatype, got: got.datatype }));
    }
    let may_lack_batch = head.shape_tensor || batch == Some(1);
    if let Some(wanted) = &head.shape
        && !batch.iter().chain(wanted).eq(got.shape)
        && !(may_lack_batch && *wanted == got.shape)
    {
        let batch = batch.iter().filter(|_| !head.shape_tensor);
        let expected = batch.chain(wanted).copied().collect();
        return Err((0, Difference::Shape { expected, got: got.shape.to_vec() }));
    }
    // A shape tensor is there once, whatever the batch.
    let is_once = head.shape_tensor && got.bytes.len() != parts.clone().map(|part| part.bytes.len()).sum::<usize>();
    let parts = parts.take(if is_once { 1 } else { usize::MAX });
    let Some(size) = datatype.size() else { return compare_strings(parts, got.bytes) };
    let expected = parts.clone().map(|part| part.bytes.len()).sum();
    if expected != got.bytes.len() {
        return Err((0, Difference::Size { expected, got: got.bytes.len() }));
    }
    let mut remaining = got.bytes;
    for (member, part) in parts.enumerate() {
        let (actual, after) = remaining.split_at(part.bytes.len());
        remaining = after;
        if part.bytes == actual {
            continue;
        }
        let pairs = part.bytes.chunks_exact(size).zip(actual.chunks_exact(size));
        let mut numbered = pairs.enumerate();
        let differ = |wanted: &[u8], actual: &[u8]| {
            wanted != actual && !tolerance.is_some_and(|tolerance| close(datatype, wanted, actual, tolerance))
        };
        if let Some((index, (wanted, actual))) = numbered.find(|(_, (wanted, actual))| differ(wanted, actual)) {
            let (expected, got) = show_both(datatype, wanted, actual);
            return Err((member, Difference::Element { index, expected, got }));
        }
    }
    Ok(())
}

fn compare_strings<'a>(
    parts: impl Iterator<Item = &'a OutputValues> + Clone,
    got: &[u8],
) -> Result<(), (usize, Difference)> {
    let mut remaining = got;
    for (member, part) in parts.clone().enumerate() {
        if let Some(after) = remaining.strip_prefix(part.bytes.as_slice()) {
            remaining = after;
            continue;
        }
        strings::count(got).map_err(|_| (0, Difference::CutOff))?;
        let pairs = strings::elements(&part.bytes).flatten().zip(strings::elements(remaining).flatten());
        if let Some((index, (wanted, actual))) = pairs.enumerate().find(|(_, (wanted, actual))| wanted != actual) {
            return Err((member, Difference::Element { index, expected: quote(wanted), got: quote(actual) }));
        }
        break;
    }
    if remaining.is_empty() && parts.clone().map(|part| part.bytes.len()).sum::<usize>() == got.len() {
        return Ok(());
    }
    // The common part is equal: one is longer than the other.
    let expected = parts.map(|part| strings::count(&part.bytes).unwrap_or(0) as usize).sum();
    let got = strings::count(got).map_err(|_| (0, Difference::CutOff))?;
    Err((0, Difference::Size { expected, got: got as usize }))
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

/// Two elements that differ, as text; with their bits if they read the same, as only NaNs do.
fn show_both(datatype: DataType, wanted: &[u8], actual: &[u8]) -> (String, String) {
    let texts = (show(datatype, wanted), show(datatype, actual));
    if texts.0 != texts.1 {
        return texts;
    }
    let bits = |bytes: &[u8]| bytes.iter().rev().map(|byte| format!("{byte:02x}")).collect::<String>();
    (format!("{} (0x{})", texts.0, bits(wanted)), format!("{} (0x{})", texts.1, bits(actual)))
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

/// A float with its shortest digits, with an exponent if it would otherwise be a row of zeros.
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
mod tests;
