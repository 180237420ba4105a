//! `--matrix-sizes`: inputs of other sizes, if the model leaves them open.

use crate::error::{Error, Result};
use crate::model::{DataType, ModelSpec, TensorSpec};
use crate::plan::DataPlan;

/// Bytes of the length prefix of a string.
const LENGTH: u64 = 4;

/// Room for outputs of variable size above that of the inputs.
const OUTPUT_SLACK: u64 = 4096;

/// Makes every input with free dimensions `bytes` long, or the next size above in whole elements. Inputs of strings get
/// one string of that length.
///
/// # Errors
/// If no input has free dimensions, or `bytes` is too little for one.
pub fn set(data: &mut DataPlan, models: &[ModelSpec], bytes: u64) -> Result<()> {
    let mut is_open = false;
    for input in models.iter().flat_map(|model| &model.inputs) {
        if input.datatype == DataType::Bytes {
            is_open = true;
            data.string_data = None;
            data.string_length = usize::try_from(bytes.saturating_sub(LENGTH)).unwrap_or(usize::MAX);
        } else if let Some(shape) = shape(input, bytes) {
            is_open = true;
            data.shapes.retain(|(name, _)| *name != input.name);
            data.shapes.push((input.name.clone(), shape));
        }
    }
    // The outputs may be as large, and larger if they are text.
    let output = usize::try_from(bytes.saturating_add(OUTPUT_SLACK)).unwrap_or(usize::MAX);
    data.output_bytes = data.output_bytes.max(output);
    match is_open {
        true => Ok(()),
        false => {
            let names: Vec<String> = models.iter().map(|model| format!("'{}'", model.id)).collect();
            let rule =
                "fixes the shape of every input: leave the sizes out, or measure a model that has dimensions of -1";
            Err(Error::usage(format!("--matrix-sizes: model {} {rule}", names.join(", "))))
        }
    }
}

/// The shape with which an input takes `bytes`: the first free dimension takes what the others leave.
fn shape(input: &TensorSpec, bytes: u64) -> Option<Vec<i64>> {
    let free = input.shape.iter().position(|&dim| dim < 0)?;
    let fixed: u64 = input.shape.iter().filter_map(|&dim| u64::try_from(dim).ok()).product();
    let unit_bytes = fixed.checked_mul(input.datatype.size()? as u64)?.max(1);
    let length = i64::try_from(bytes.div_ceil(unit_bytes).max(1)).ok()?;
    let dims = input.shape.iter().enumerate().map(|(index, &dim)| match dim {
        _ if index == free => length,
        dim if dim < 0 => 1,
        dim => dim,
    });
    Some(dims.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_free_dimension_takes_what_the_others_leave() {
        let input = |shape: &[i64]| TensorSpec::plain("x", DataType::Fp32, shape.to_vec());
        assert_eq!(shape(&input(&[-1]), 64), Some(vec![16]));
        assert_eq!(shape(&input(&[3, -1, -1]), 64 << 10), Some(vec![3, 5462, 1]));
        assert_eq!(shape(&input(&[16]), 64), None);
        assert_eq!(shape(&input(&[-1]), 1), Some(vec![1]));
    }
}
