//! [`ModelSpec`]: what load, data and report need to know about a model. Each service fills it from what its server
//! reports.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{ConfigMark, DataType};

/// A model by name and, optionally, version. No version means the latest that is ready.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ModelId {
    /// Name in the repository.
    pub name: String,
    /// Version number, or the server's choice.
    pub version: Option<u64>,
}

impl ModelId {
    /// The latest version of `name`.
    pub fn latest(name: impl Into<String>) -> Self {
        Self { name: name.into(), version: None }
    }

    /// The version as the C API wants it: -1 for the server's choice.
    pub fn version_code(&self) -> i64 {
        self.version.map_or(-1, |version| i64::try_from(version).unwrap_or(i64::MAX))
    }
}

impl fmt::Display for ModelId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.version {
            Some(version) => write!(f, "{}:{version}", self.name),
            None => f.write_str(&self.name),
        }
    }
}

/// One input or output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorSpec {
    /// Name in the model.
    pub name: String,
    /// Element type.
    pub datatype: DataType,
    /// Dimensions of one batch element (without the batch dimension); -1 if the request decides.
    pub shape: Vec<i64>,
    /// An input that a request may leave out.
    pub optional: bool,
    /// A shape tensor: its values are dimensions, it has no batch dimension and is sent once per batch.
    pub shape_tensor: bool,
}

impl TensorSpec {
    /// A required tensor, with a batch dimension if the model batches.
    pub fn plain(name: impl Into<String>, datatype: DataType, shape: Vec<i64>) -> Self {
        Self { name: name.into(), datatype, shape, optional: false, shape_tensor: false }
    }

    /// Elements of one batch element, if every dimension is fixed.
    pub fn fixed_elements(&self) -> Option<u64> {
        self.shape.iter().try_fold(1_u64, |product, &dim| product.checked_mul(u64::try_from(dim).ok()?))
    }

    /// Bytes of one batch element, if every dimension is fixed and elements have a fixed size.
    pub fn fixed_bytes(&self) -> Option<u64> {
        self.fixed_elements()?.checked_mul(self.datatype.size()? as u64)
    }
}

/// How the server schedules a model's requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheduler {
    /// One request at a time per instance.
    Default,
    /// Requests are merged into batches.
    Dynamic,
    /// Requests of a sequence go to one instance, in order.
    Sequence,
    /// A graph of other models.
    Ensemble,
}

/// How correlation IDs are sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CorrelationForm {
    /// As unsigned 64-bit numbers.
    #[default]
    Number,
    /// As strings: the number in decimal.
    Text,
}

/// Everything about a model that the load, the data and the report need.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelSpec {
    /// The name, and the requested version.
    pub id: ModelId,
    /// Versions that the server offers, as it writes them.
    pub versions: Vec<String>,
    /// `platform` of the metadata.
    pub platform: String,
    /// 0 if the model does not batch.
    pub max_batch_size: u64,
    /// Inputs in the model's order.
    pub inputs: Vec<TensorSpec>,
    /// Outputs in the model's order.
    pub outputs: Vec<TensorSpec>,
    /// How requests are scheduled.
    pub scheduler: Scheduler,
    /// Whether a request may have any number of responses.
    pub decoupled: bool,
    /// Responses may come from the server's cache.
    pub response_cache: bool,
    /// Whether requests belong to sequences: because of its scheduler, or because a model that it calls has a sequence
    /// scheduler.
    pub sequences: bool,
    /// The form of correlation IDs that its configuration asks for, or that of a model that it calls. From 25.01 on,
    /// Triton takes no other.
    pub correlation: CorrelationForm,
    /// Models that this ensemble's steps name, without repeats.
    pub composing: Vec<ModelId>,
    /// Fingerprint of its configuration.
    pub config: ConfigMark,
}

impl ModelSpec {
    /// A model of which only the tensors are known: it neither batches nor keeps sequences, and answers each request
    /// once.
    pub fn plain(id: &ModelId, inputs: Vec<TensorSpec>, outputs: Vec<TensorSpec>) -> Self {
        Self {
            id: id.clone(),
            versions: Vec::new(),
            platform: String::new(),
            max_batch_size: 0,
            inputs,
            outputs,
            scheduler: Scheduler::Default,
            decoupled: false,
            response_cache: false,
            sequences: false,
            correlation: CorrelationForm::Number,
            composing: Vec::new(),
            config: ConfigMark::default(),
        }
    }

    /// This model, if the server reports only its tensors. With `batches`, it batches if the first dimension of every
    /// input is open.
    pub fn unconfigured(mut self, batches: bool) -> Self {
        let is_open = |tensor: &TensorSpec| tensor.shape.first() == Some(&-1);
        if batches && !self.inputs.is_empty() && self.inputs.iter().all(is_open) {
            self.max_batch_size = ANY_BATCH;
            for tensor in self.inputs.iter_mut().chain(&mut self.outputs) {
                match is_open(tensor) {
                    true => drop(tensor.shape.remove(0)),
                    false => tensor.shape_tensor = true,
                }
            }
        }
        self
    }
}

/// The largest batch of models that batch without a stated limit.
const ANY_BATCH: u64 = u32::MAX as u64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_configuration_open_first_dimensions_are_batches_if_asked() {
        let tensor = |name: &str, shape: &[i64]| TensorSpec::plain(name, DataType::Fp32, shape.to_vec());
        let model = |inputs, outputs| ModelSpec::plain(&ModelId::latest("m"), inputs, outputs);
        let open = model(vec![tensor("A", &[-1, 4])], vec![tensor("B", &[-1]), tensor("C", &[2])]);
        assert_eq!(open.clone().unconfigured(false), open);
        let batching = open.unconfigured(true);
        assert_eq!((batching.max_batch_size, batching.inputs[0].shape.as_slice()), (ANY_BATCH, &[4][..]));
        assert_eq!((batching.outputs[0].shape.len(), batching.outputs[0].shape_tensor), (0, false));
        assert_eq!((batching.outputs[1].shape.as_slice(), batching.outputs[1].shape_tensor), (&[2][..], true));
        for inputs in [vec![tensor("A", &[-1]), tensor("B", &[3, -1])], vec![tensor("A", &[])], vec![]] {
            let fixed = model(inputs, vec![]);
            assert_eq!(fixed.clone().unconfigured(true), fixed);
        }
    }
}
