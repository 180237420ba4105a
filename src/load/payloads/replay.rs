//! `--trace-replay` with token counts: turns each row of the trace into a request.
//!
//! Data are generated once, as long as the longest row needs; a shorter row sends a prefix. So memory does not grow
//! with the number of rows, and there is one payload per distinct pair of lengths.

use std::collections::HashMap;

use crate::backend::{Parameter, ParameterValue};
use crate::data::{Payload, PayloadId, TokenCounts};
use crate::error::{Error, Result};
use crate::model::ModelSpec;
use crate::payloads::body::Body;
use crate::terms::{TokenInput, TokenUse};

/// Length of the input in a row's request: its context tokens, at least 1 and at most the longest length.
fn length(input: &TokenInput, row: &TokenCounts) -> u64 {
    row.context.clamp(1, input.longest)
}

/// The shape of the input that all rows' requests can be cut from; `None` if the model lacks it, which a rule refuses.
pub fn longest_shape(model: &ModelSpec, input: &TokenInput, rows: &[TokenCounts]) -> Option<(String, Vec<i64>)> {
    let longest = rows.iter().map(|row| length(input, row)).max().unwrap_or(1) as i64;
    let found = model.inputs.iter().find(|tensor| tensor.name == input.name)?;
    let shape = found.shape.iter().map(|&dim| if dim < 0 { longest } else { dim }).collect();
    Some((input.name.clone(), shape))
}

/// The distinct request bodies of the rows, and the number of each row's body.
///
/// # Errors
/// If the payloads lack the input.
pub fn by_row(
    model: &ModelSpec,
    body: &Body,
    tokens: &TokenUse,
    rows: &[TokenCounts],
) -> Result<(Vec<Payload>, Vec<PayloadId>)> {
    let (mut payloads, mut cycle) = (Vec::new(), Vec::with_capacity(rows.len()));
    let mut ids = HashMap::new();
    let lengths = |row| tokens.input.as_ref().map(|input| length(input, row));
    let longest = rows.iter().filter_map(lengths).max().unwrap_or(1);
    for (row, base) in rows.iter().zip(body.index.cycle.iter().cycle()) {
        let generated = tokens.parameter.as_ref().zip(row.generated);
        let key = (*base, lengths(row), generated);
        let next = PayloadId(payloads.len() as u32);
        let id = *ids.entry(key).or_insert(next);
        if id == next {
            let mut payload = body.payloads[base.0 as usize].clone();
            if let Some(input) = &tokens.input {
                shorten(&mut payload, model, &input.name, Cut { from: longest, to: length(input, row) })?;
            }
            payload.parameters.extend(generated.map(|(name, tokens)| Parameter {
                name: name.clone(),
                value: ParameterValue::Int(i64::try_from(tokens).unwrap_or(i64::MAX)),
            }));
            payloads.push(payload);
        }
        cycle.push(id);
    }
    Ok((payloads, cycle))
}

/// How many elements an input has, and how many it is to have.
#[derive(Clone, Copy)]
struct Cut {
    from: u64,
    to: u64,
}

/// Shortens a generated input. Generated elements all have one size and their order means
/// nothing, so a prefix will do, whichever dimension is the free one.
fn shorten(payload: &mut Payload, model: &ModelSpec, name: &str, cut: Cut) -> Result<()> {
    let lacking = || Error::input(format!("--trace-input {name}: the input data lack this input"));
    let spec = model.inputs.iter().find(|input| input.name == name).ok_or_else(lacking)?;
    let tensor = payload.inputs.iter_mut().find(|tensor| &*tensor.name == name).ok_or_else(lacking)?;
    // A batch dimension precedes the model's own.
    let before = tensor.shape.len() - spec.shape.len();
    let free = spec.shape.iter().position(|&dim| dim < 0).ok_or_else(lacking)?;
    let mut shape = tensor.shape.to_vec();
    shape[before + free] = cut.to as i64;
    tensor.shape = shape.into();
    tensor.len = tensor.len / cut.from as usize * cut.to as usize;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::data::InputTensor;
    use crate::input_source::PayloadIndex;
    use crate::model::{DataType, ModelId, TensorSpec};
    use crate::shm::{Placement, Region};

    fn model() -> ModelSpec {
        let input = TensorSpec {
            name: "IDS".to_owned(),
            datatype: DataType::Int32,
            shape: vec![2, -1],
            optional: false,
            shape_tensor: false,
        };
        ModelSpec { max_batch_size: 8, ..ModelSpec::plain(&ModelId::latest("m"), vec![input], Vec::new()) }
    }

    /// A batch of 3, as long as `longest`.
    fn body(longest: usize) -> Body {
        let len = 3 * 2 * longest * 4;
        let input = InputTensor {
            name: "IDS".into(),
            datatype: DataType::Int32,
            shape: [3, 2, longest as i64].into(),
            region: Arc::new(Region::filled(Placement::Pageable, &vec![0; len]).unwrap()),
            offset: 0,
            len,
        };
        let payload =
            Payload { model: 0, batch: 3, stream: 0, step: 0, inputs: vec![input], parameters: vec![], expected: None };
        let index = PayloadIndex { cycle: vec![PayloadId(0)], streams: Vec::new() };
        Body { payloads: vec![payload], index }
    }

    fn rows(counts: &[(u64, u64)]) -> Vec<TokenCounts> {
        counts.iter().map(|&(context, generated)| TokenCounts { context, generated: Some(generated) }).collect()
    }

    #[test]
    fn rows_of_the_same_lengths_share_a_payload() {
        let rows = rows(&[(5, 7), (2, 7), (5, 7), (0, 1), (99, 7)]);
        let input = TokenInput { name: "IDS".to_owned(), longest: 8 };
        assert_eq!(longest_shape(&model(), &input, &rows), Some(("IDS".to_owned(), vec![2, 8])));
        let tokens = TokenUse { input: Some(input), parameter: Some("max_tokens".to_owned()) };
        let (payloads, cycle) = by_row(&model(), &body(8), &tokens, &rows).unwrap();
        assert_eq!(cycle, [0, 1, 0, 2, 3].map(PayloadId));
        let shapes: Vec<_> = payloads.iter().map(|payload| payload.inputs[0].shape.to_vec()).collect();
        assert_eq!(shapes, [vec![3, 2, 5], vec![3, 2, 2], vec![3, 2, 1], vec![3, 2, 8]]);
        let lengths: Vec<_> = payloads.iter().map(|payload| payload.inputs[0].len).collect();
        assert_eq!(lengths, [120, 48, 24, 192]);
        assert_eq!(payloads[2].parameters, [Parameter { name: "max_tokens".into(), value: ParameterValue::Int(1) }]);
    }

    #[test]
    fn what_is_not_asked_for_stays_as_it_is() {
        let rows = rows(&[(5, 7), (2, 7), (5, 9)]);
        let tokens = TokenUse { input: None, parameter: Some("n".to_owned()) };
        let (payloads, cycle) = by_row(&model(), &body(4), &tokens, &rows).unwrap();
        assert_eq!(cycle, [0, 0, 1].map(PayloadId));
        assert_eq!(*payloads[1].inputs[0].shape, [3, 2, 4]);
    }
}
