//! Sources with one file or array per tensor: each is a column of steps, and together they make one stream.

use std::sync::Arc;

use crate::OutputValues;
use crate::error::{Error, Result};
use crate::steps::{Stream, Target, Value};

/// The steps of one tensor.
pub(crate) struct Column<T> {
    /// The file or array that it was read from, for messages.
    pub source: String,
    /// Whether there is a value per step, rather than one for all.
    pub stepped: bool,
    /// The values, never empty.
    pub values: Vec<T>,
}

impl<T> Column<T> {
    fn at(&self, step: usize) -> &T {
        &self.values[if self.stepped { step } else { 0 }]
    }

    fn steps(&self) -> Option<(usize, &str)> {
        self.stepped.then_some((self.values.len(), self.source.as_str()))
    }
}

/// Columns of a stream; one entry per input and per output of the model.
pub(crate) struct Columns {
    pub inputs: Vec<Option<Column<Value>>>,
    pub outputs: Vec<Option<Column<Arc<OutputValues>>>>,
}

impl Columns {
    /// No columns yet.
    pub fn new(target: &Target<'_>) -> Self {
        Self {
            inputs: target.model.inputs.iter().map(|_| None).collect(),
            outputs: target.model.outputs.iter().map(|_| None).collect(),
        }
    }

    /// Makes the steps of the stream.
    ///
    /// # Errors
    /// If columns have different numbers of steps, or there are more than memory allows.
    pub fn steps(&self, target: &Target<'_>) -> Result<Stream> {
        let inputs = self.inputs.iter().flatten().filter_map(Column::steps);
        let outputs = self.outputs.iter().flatten().filter_map(Column::steps);
        let mut longest: Option<(usize, &str)> = None;
        for (count, source) in inputs.chain(outputs) {
            match longest {
                Some((other, before)) if other != count => {
                    return Err(Error::input(format!(
                        "{source} has {count} steps, but {before} has {other}; all arrays with a step dimension must \
                         agree in it"
                    )));
                }
                _ => longest = Some((count, source)),
            }
        }
        let count = longest.map_or(1, |(count, _)| count);
        target.take_steps(count)?;
        let mut stream = Stream::default();
        for step in 0..count {
            stream.push(self.inputs.iter().map(|column| Some(column.as_ref()?.at(step).clone())));
            let outputs: Vec<_> = self.outputs.iter().flatten().map(|column| Arc::clone(column.at(step))).collect();
            if !outputs.is_empty() {
                stream.expect(step, [outputs].into());
            }
        }
        Ok(stream)
    }
}
