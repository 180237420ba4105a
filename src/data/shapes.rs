//! The shape that a tensor is sent with: the step's own, else `--shape`, else the model's.

use std::sync::Arc;

use crate::error::{Error, Result};
use crate::model::{ModelSpec, TensorSpec};

/// The shape of every input unless a step overrides it, in the model's order; without the batch dimension.
#[derive(Debug)]
pub(crate) struct Shapes {
    /// One per input; -1 for open dimensions.
    pub inputs: Vec<Arc<[i64]>>,
    /// Settings that had no effect.
    pub warnings: Vec<String>,
}

impl Shapes {
    /// Applies `--shape`; the last one of a name wins.
    ///
    /// # Errors
    /// If a name is not an input, or a shape does not fit the model's free dimensions.
    pub(crate) fn new(model: &ModelSpec, overrides: &[(String, Vec<i64>)]) -> Result<Self> {
        let mut shapes = Self {
            inputs: model.inputs.iter().map(|input| input.shape.as_slice().into()).collect(),
            warnings: Vec::new(),
        };
        for (name, shape) in overrides {
            let index = model.inputs.iter().position(|input| &input.name == name);
            let Some(index) = index else {
                let names: Vec<_> = model.inputs.iter().map(|input| input.name.as_str()).collect();
                return Err(Error::input(format!(
                    "--shape {name}: model '{}' has no input of this name; its inputs are {}",
                    model.id,
                    names.join(", ")
                )));
            };
            shapes.apply(index, &model.inputs[index], shape, model)?;
        }
        Ok(shapes)
    }

    fn apply(&mut self, index: usize, input: &TensorSpec, shape: &[i64], model: &ModelSpec) -> Result<()> {
        if input.shape.iter().all(|&dim| dim >= 0) {
            if input.shape != shape {
                self.warnings.push(format!(
                    "--shape {}:{} has no effect: the model fixes this input's shape to {}",
                    input.name,
                    list(shape),
                    bracketed(&input.shape)
                ));
            }
            return Ok(());
        }
        if !fits(shape, &input.shape) {
            // With the server's words for such a request, which scripts look for.
            return Err(Error::input(format!(
                "--shape {}:{}: unexpected shape for input '{}' for model '{}'. {}",
                input.name,
                list(shape),
                input.name,
                model.id.name,
                incompatible(input, shape)
            )));
        }
        self.inputs[index] = shape.into();
        Ok(())
    }
}

/// Whether a shape only fills in what the model leaves open.
pub(crate) fn fits(shape: &[i64], model: &[i64]) -> bool {
    shape.len() == model.len() && shape.iter().zip(model).all(|(&dim, &fixed)| dim >= 0 && (fixed < 0 || dim == fixed))
}

/// Elements of a closed shape; `None` if a dimension is open or the number overflows.
pub(crate) fn elements(shape: &[i64]) -> Option<u64> {
    shape.iter().try_fold(1_u64, |product, &dim| product.checked_mul(u64::try_from(dim).ok()?))
}

/// Bytes that `elements` of a fixed-size type take, if they can be addressed.
pub(crate) fn bytes(elements: u64, size: usize) -> Option<usize> {
    usize::try_from(elements).ok()?.checked_mul(size).filter(|&bytes| isize::try_from(bytes).is_ok())
}

/// `[2,3]`.
pub(crate) fn bracketed(shape: &[i64]) -> String {
    format!("[{}]", list(shape))
}

/// `2,3`, in the format of `--shape`.
pub(crate) fn list(shape: &[i64]) -> String {
    shape.iter().map(i64::to_string).collect::<Vec<_>>().join(",")
}

/// Says that a shape does not fit the model's.
pub(crate) fn incompatible(tensor: &TensorSpec, shape: &[i64]) -> String {
    format!(
        "The supplied shape of {} for input \"{}\" is incompatible with the model's input shape of {}; give every \
         dimension, without the batch, and change only those that are -1",
        bracketed(shape),
        tensor.name,
        bracketed(&tensor.shape)
    )
}
