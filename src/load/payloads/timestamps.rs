//! `--fixed-schedule`: an additional input in the data, which is not sent, says when each request is due.

use std::path::PathBuf;

use crate::data::{Payload, timestamps};
use crate::error::{Error, Result};
use crate::model::{DataType, ModelSpec, TensorSpec};
use crate::schedule::Arrivals;

/// The input that holds the time of a request: milliseconds from the start.
const TIMESTAMP: &str = "timestamp";

fn input() -> TensorSpec {
    TensorSpec {
        name: TIMESTAMP.to_owned(),
        datatype: DataType::Uint64,
        shape: vec![1],
        optional: false,
        shape_tensor: true,
    }
}

/// The schedule that data files hold. The model is not needed for it.
///
/// # Errors
/// If a file cannot be read, a step has no usable time, or times are out of order.
pub fn read(files: &[PathBuf]) -> Result<Arrivals> {
    let named = |error: Error| {
        let names: Vec<_> = files.iter().map(|file| format!("'{}'", file.display())).collect();
        error.context(format!("input data file {}", names.join(", ")))
    };
    let times = timestamps(files, &input());
    times.and_then(|times| Arrivals::fixed_ms(&times).map_err(named)).map_err(|error| error.context("--fixed-schedule"))
}

/// The model with the schedule's input added, so that data files may contain it.
///
/// # Errors
/// If the model already has an input of that name: the data would be ambiguous.
pub fn with_input(model: &ModelSpec) -> Result<ModelSpec> {
    if model.inputs.iter().any(|input| input.name == TIMESTAMP) {
        return Err(Error::usage(format!(
            "--fixed-schedule: model '{}' has an input '{TIMESTAMP}' of its own, but in the data of a schedule this name says \
             when a step is due, and is not sent; give the times with --request-intervals instead",
            model.id
        )));
    }
    let mut model = model.clone();
    model.inputs.push(input());
    Ok(model)
}

/// Takes the schedule's input out of every payload; returns its values, in order.
///
/// # Errors
/// If a payload has none.
pub fn take(payloads: &mut [Payload]) -> Result<Vec<u64>> {
    payloads.iter_mut().map(take_timestamp).collect()
}

fn take_timestamp(payload: &mut Payload) -> Result<u64> {
    let found = payload.inputs.iter().position(|input| &*input.name == TIMESTAMP);
    let missing = || Error::input(format!("--fixed-schedule: step {} has no input '{TIMESTAMP}'", payload.step));
    let input = payload.inputs.remove(found.ok_or_else(missing)?);
    let bytes = input.region.bytes(input.offset, input.len)?;
    let value = bytes.get(..8).and_then(|bytes| bytes.try_into().ok()).map(u64::from_le_bytes);
    value.ok_or_else(|| Error::input(format!("--fixed-schedule: step {}: '{TIMESTAMP}' is not a UINT64", payload.step)))
}
