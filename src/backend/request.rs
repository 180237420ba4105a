//! What a worker hands to a client.

use crate::data::{Parameter, Payload, PayloadId};
use crate::model::{CorrelationForm, ModelSpec};

/// A reusable place for one outstanding request, counted from 0 within its client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SlotId(pub u32);

impl SlotId {
    /// As an index.
    #[inline]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// One request to make. Small and copied freely; all memory is in the payload table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// What it carries.
    pub payload: PayloadId,
    /// Its place in a sequence, for sequence models.
    pub sequence: Option<SequencePosition>,
}

/// A request's place in its sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SequencePosition {
    /// Correlation ID, never 0.
    pub id: u64,
    /// First request of the sequence.
    pub start: bool,
    /// Last request of the sequence.
    pub end: bool,
}

/// What all requests of a run have in common.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RequestOptions {
    /// Custom parameters, sent with every request.
    pub parameters: Vec<Parameter>,
    /// Priority; 0 is the model's default.
    pub priority: u64,
    /// Server-side timeout in microseconds; 0 is the model's default.
    pub timeout_us: u64,
    /// Form of correlation IDs, in place of each model's own.
    pub correlation: Option<CorrelationForm>,
}

impl RequestOptions {
    /// How correlation IDs of requests to `model` are sent.
    pub fn correlation_of(&self, model: &ModelSpec) -> CorrelationForm {
        self.correlation.unwrap_or(model.correlation)
    }

    /// The parameters of a request: the common ones, except those that the payload overrides by name, and then the
    /// payload's own.
    pub fn parameters_of<'a>(&'a self, payload: &'a Payload) -> impl Iterator<Item = &'a Parameter> {
        let is_overridden = |name: &str| payload.parameters.iter().any(|parameter| parameter.name == name);
        self.parameters.iter().filter(move |parameter| !is_overridden(&parameter.name)).chain(&payload.parameters)
    }
}
