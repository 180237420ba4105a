//! The common form of all sources of input data: streams of steps, each with one batch element of every input.

use std::borrow::Cow;
use std::sync::Arc;

use crate::error::Result;
use crate::model::{ModelSpec, TensorSpec};
use crate::shm::Region;
use crate::{CorpusSpec, OutputValues, Responses, shapes, strings};

use crate::shapes::Shapes;

/// One batch element of one input: a part of one of the corpus' regions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Value {
    /// Index of the region.
    pub region: usize,
    /// Its offset in the region, in bytes.
    pub offset: usize,
    /// Its length in bytes.
    pub len: usize,
    /// Its shape, without the batch dimension; values of the same shape share it.
    pub shape: Arc<[i64]>,
}

/// Steps in order. There may be millions, so they are in long lists and not in objects of their own.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stream {
    len: usize,
    /// One entry per step and input of the model.
    inputs: Vec<Option<Value>>,
    /// Shorter if the last steps expect nothing.
    expected: Vec<Option<Responses>>,
}

impl Stream {
    /// Number of steps.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Adds a step: a value per input of the model, in its order, `None` if an optional one is left out.
    pub fn push(&mut self, inputs: impl IntoIterator<Item = Option<Value>>) {
        self.inputs.extend(inputs);
        self.len += 1;
    }

    /// Sets the expected responses of a step.
    pub fn expect(&mut self, step: usize, responses: Responses) {
        if self.expected.len() <= step {
            self.expected.resize(step + 1, None);
        }
        self.expected[step] = Some(responses);
    }

    /// The inputs of a step.
    pub fn inputs(&self, step: usize) -> &[Option<Value>] {
        let width = self.inputs.len() / self.len;
        &self.inputs[step * width..][..width]
    }

    /// The expected responses of a step; shapes are without the batch dimension.
    pub fn expected(&self, step: usize) -> Option<&Responses> {
        self.expected.get(step)?.as_ref()
    }

    /// Whether any step has expected responses.
    pub fn validates(&self) -> bool {
        !self.expected.is_empty()
    }

    /// All values, in order.
    pub fn values(&self) -> impl Iterator<Item = &Value> {
        self.inputs.iter().flatten()
    }
}

/// The content of a source.
#[derive(Debug, Default)]
pub(crate) struct Loaded {
    /// Memory that values are in.
    pub regions: Vec<Region>,
    /// Streams of steps.
    pub streams: Vec<Stream>,
    /// Parts of the source that have no effect.
    pub warnings: Vec<String>,
}

/// The target that a source is read for: the model, the specification and what follows from both.
pub(crate) struct Target<'a> {
    /// The model.
    pub model: &'a ModelSpec,
    /// The specification.
    pub spec: &'a CorpusSpec<'a>,
    /// Shapes unless a step overrides them.
    pub shapes: Shapes,
    /// Names of the outputs, shared by all expected values.
    pub output_names: Vec<Arc<str>>,
}

impl<'a> Target<'a> {
    /// Applies the given shapes to the model.
    ///
    /// # Errors
    /// If a given shape does not fit.
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

    /// Reserves the memory that the lists of `count` steps take beside their values. Packing counts the requests that they
    /// become.
    ///
    /// # Errors
    /// If that exceeds the limit on input data.
    pub fn take_steps(&self, count: usize) -> Result<()> {
        self.spec.memory.take(self.cost_of_steps(count))
    }

    /// Fails if the lists of `count` steps would take more; reserves nothing.
    ///
    /// # Errors
    /// As [`Target::take_steps`].
    pub fn check_steps(&self, count: usize) -> Result<()> {
        self.spec.memory.check(self.cost_of_steps(count))
    }

    fn cost_of_steps(&self, count: usize) -> u64 {
        // A value is listed in the column that was read and in the stream; a request in the order of all and in its stream's.
        let step = self.model.inputs.len() * 2 * size_of::<Option<Value>>() + 2 * size_of::<u32>();
        (count as u64).saturating_mul(step as u64)
    }

    /// Checks what was read for input `index` and returns the shape that it is sent with.
    ///
    /// # Errors
    /// The broken rule.
    pub fn settle_input(
        &self,
        index: usize,
        step_shape: Option<Arc<[i64]>>,
        bytes: &[u8],
    ) -> Result<Arc<[i64]>, String> {
        let input = &self.model.inputs[index];
        let shape = match step_shape {
            Some(shape) if shapes::fits(&shape, &input.shape) => shape,
            Some(shape) => return Err(shapes::incompatible(input, &shape)),
            None => Arc::clone(&self.shapes.inputs[index]),
        };
        if shape.iter().any(|&dim| dim < 0) {
            return Err(format!(
                "The variable-sized tensor \"{}\" with model shape {} needs to have its shape fully defined. See the \
                 --shape option, or give the step a \"shape\"",
                input.name,
                shapes::bracketed(&input.shape)
            ));
        }
        check_size(input, &shape, bytes)?;
        // As in perf_analyzer, --shape is the model's where it is given.
        match shapes::fits(&shape, &self.shapes.inputs[index]) {
            true => Ok(shape),
            false => {
                let asked_input = TensorSpec { shape: self.shapes.inputs[index].to_vec(), ..input.clone() };
                Err(shapes::incompatible(&asked_input, &shape) + "; --shape has set that one: leave it out")
            }
        }
    }

    /// Checks what was read for output `index` and turns it into expected values. If the model leaves the shape open
    /// and no shape was given, the shape is not compared.
    ///
    /// # Errors
    /// The broken rule.
    pub fn settle_output(
        &self,
        index: usize,
        step_shape: Option<&[i64]>,
        bytes: Cow<'_, [u8]>,
    ) -> Result<OutputValues, String> {
        let output = &self.model.outputs[index];
        let shape = match step_shape {
            Some(shape) if shapes::fits(shape, &output.shape) => shape,
            Some(shape) => return Err(shapes::incompatible(output, shape)),
            None => &output.shape,
        };
        let open = shape.iter().any(|&dim| dim < 0);
        if open {
            check_whole(output, &bytes)?;
        } else {
            check_size(output, shape, &bytes)?;
        }
        self.spec.memory.take((size_of::<OutputValues>() + bytes.len()) as u64).map_err(|e| e.to_string())?;
        Ok(OutputValues {
            name: Arc::clone(&self.output_names[index]),
            datatype: output.datatype,
            shape: (!open).then(|| shape.to_vec()),
            shape_tensor: output.shape_tensor,
            bytes: bytes.into_owned(),
        })
    }
}

/// Elements of a closed shape, and their bytes if the type has a fixed size.
///
/// # Errors
/// If either number overflows.
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

/// Checks that bytes end at the end of an element, and counts elements.
fn check_whole(tensor: &TensorSpec, bytes: &[u8]) -> Result<u64, String> {
    let name = &tensor.name;
    match tensor.datatype.size() {
        Some(size) if bytes.len().is_multiple_of(size) => Ok((bytes.len() / size) as u64),
        Some(size) => Err(format!(
            "mismatch in the data provided for {name}. Got: {} bytes, which is not a multiple of the {size} bytes of \
                {}",
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
