//! What every source of input data comes down to: streams of steps, each with one batch element of every input.

use std::sync::Arc;

use crate::data::{CorpusSpec, OutputValues, shapes, strings};
use crate::error::Result;
use crate::model::{ModelSpec, TensorSpec};
use crate::shm::Region;

use super::shapes::Shapes;

/// One batch element of one input: a part of one of the corpus' regions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Value {
    /// Index of the region.
    pub region: usize,
    /// Where in the region it starts, in bytes.
    pub offset: usize,
    /// How many bytes it takes.
    pub len: usize,
    /// Its shape, without the batch dimension.
    pub shape: Vec<i64>,
}

/// One step of a stream.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    /// One per input of the model, in its order; `None` where an optional one is left out.
    pub inputs: Vec<Option<Value>>,
    /// Responses that must come, in order, each a list of outputs; shapes are without the batch dimension.
    pub expected: Option<Vec<Vec<OutputValues>>>,
}

/// What a source yields.
#[derive(Debug, Default)]
pub(crate) struct Loaded {
    /// Memory that values are in.
    pub regions: Vec<Region>,
    /// Streams of steps.
    pub streams: Vec<Vec<Step>>,
    /// What is in the source and has no effect.
    pub warnings: Vec<String>,
}

/// What a source reads for: the model, what is asked for and what follows from both.
pub(crate) struct Target<'a> {
    /// The model.
    pub model: &'a ModelSpec,
    /// What is asked for.
    pub spec: &'a CorpusSpec<'a>,
    /// Shapes before a step has its say.
    pub shapes: Shapes,
    /// Names of the outputs, shared by all expected values.
    pub output_names: Vec<Arc<str>>,
}

impl<'a> Target<'a> {
    /// Applies the given shapes to the model.
    ///
    /// # Errors
    /// Where a given shape does not fit.
    pub fn new(model: &'a ModelSpec, spec: &'a CorpusSpec<'a>) -> Result<Self> {
        Ok(Self {
            model,
            spec,
            shapes: Shapes::new(model, spec.shapes)?,
            output_names: model.outputs.iter().map(|output| Arc::from(output.name.as_str())).collect(),
        })
    }

    /// Names of all inputs, for messages.
    pub fn input_names(&self) -> String {
        self.model.inputs.iter().map(|input| input.name.as_str()).collect::<Vec<_>>().join(", ")
    }

    /// Checks what was read for input `index` and returns the shape that it is sent with.
    ///
    /// # Errors
    /// The rule that it breaks.
    pub fn settle_input(&self, index: usize, own: Option<&[i64]>, bytes: &[u8]) -> Result<Vec<i64>, String> {
        let input = &self.model.inputs[index];
        let shape = closest(input, own, &self.shapes.inputs[index])?;
        if shape.iter().any(|&dim| dim < 0) {
            return Err(format!(
                "The variable-sized tensor \"{}\" with model shape {} needs to have its shape fully defined. See the \
                 --shape option, or give the step a \"shape\"",
                input.name,
                shapes::bracketed(&input.shape)
            ));
        }
        check_size(input, shape, bytes)?;
        Ok(shape.to_vec())
    }

    /// Checks what was read for output `index` and makes expected values of it. Where the model leaves the shape open
    /// and no shape was given, the shape is not compared.
    ///
    /// # Errors
    /// The rule that it breaks.
    pub fn settle_output(&self, index: usize, own: Option<&[i64]>, bytes: &[u8]) -> Result<OutputValues, String> {
        let output = &self.model.outputs[index];
        let shape = closest(output, own, &output.shape)?;
        let open = shape.iter().any(|&dim| dim < 0);
        if open {
            check_whole(output, bytes)?;
        } else {
            check_size(output, shape, bytes)?;
        }
        Ok(OutputValues {
            name: Arc::clone(&self.output_names[index]),
            datatype: output.datatype,
            shape: (!open).then(|| shape.to_vec()),
            bytes: bytes.to_vec(),
        })
    }
}

fn closest<'s>(tensor: &TensorSpec, own: Option<&'s [i64]>, other: &'s [i64]) -> Result<&'s [i64], String> {
    match own {
        Some(shape) if shapes::fits(shape, &tensor.shape) => Ok(shape),
        Some(shape) => Err(shapes::incompatible(tensor, shape)),
        None => Ok(other),
    }
}

/// Elements of a closed shape, and their bytes where the type has a fixed size.
///
/// # Errors
/// Where either number overflows.
pub(crate) fn extent(tensor: &TensorSpec, shape: &[i64]) -> Result<(u64, Option<usize>), String> {
    let too_large =
        || format!("tensor {} of shape {} is too large to be addressed", tensor.name, shapes::bracketed(shape));
    let elements = shapes::elements(shape).ok_or_else(too_large)?;
    let bytes = match tensor.datatype.size() {
        Some(size) => Some(shapes::bytes(elements, size).ok_or_else(too_large)?),
        None => None,
    };
    Ok((elements, bytes))
}

fn check_size(tensor: &TensorSpec, shape: &[i64], bytes: &[u8]) -> Result<(), String> {
    let (name, list) = (&tensor.name, shapes::bracketed(shape));
    match extent(tensor, shape)? {
        (_, Some(expected)) if expected != bytes.len() => {
            let size = tensor.datatype.size().unwrap_or(1);
            Err(format!(
                "mismatch in the data provided for {name}. Expected: {expected} bytes, Got: {} bytes; shape {list} of {} \
                 takes {} elements of {size} bytes",
                bytes.len(),
                tensor.datatype,
                expected / size,
            ))
        }
        (elements, None) => match check_whole(tensor, bytes)? {
            got if got == elements => Ok(()),
            got => Err(format!(
                "mismatch in the data provided for {name}. Expected: {elements} elements, Got: {got} elements; shape {list} \
                 of BYTES takes {elements} strings"
            )),
        },
        _ => Ok(()),
    }
}

/// Checks that bytes break off between elements, and counts these.
fn check_whole(tensor: &TensorSpec, bytes: &[u8]) -> Result<u64, String> {
    let name = &tensor.name;
    match tensor.datatype.size() {
        Some(size) if bytes.len().is_multiple_of(size) => Ok((bytes.len() / size) as u64),
        Some(size) => Err(format!(
            "mismatch in the data provided for {name}. Got: {} bytes, which is no multiple of the {size} bytes of {}",
            bytes.len(),
            tensor.datatype
        )),
        None => strings::count(bytes).map_err(|at| {
            format!(
                "mismatch in the data provided for {name}: the element at byte {at} is cut off; BYTES are a 4-byte \
                 little-endian length and that many bytes, for each element"
            )
        }),
    }
}

/// Says in which file and at which step something is wrong.
pub(crate) fn location(stream: usize, step: usize) -> String {
    format!("( Location stream id: {stream}, step id: {step})")
}

/// Says which file is meant.
pub(crate) fn in_file(path: &std::path::Path) -> String {
    format!("input data file '{}'", path.display())
}
