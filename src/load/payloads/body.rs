//! [`Body`]: what the requests to one model carry, before it is shared by the entries of a mix.

use crate::data::{Corpus, Packing, Payload, PayloadId};
use crate::error::Result;
use crate::load::feed::PayloadIndex;
use crate::model::ModelSpec;
use crate::plan::Plan;

/// A model's request bodies, numbered from 0.
#[derive(Clone, Default)]
pub struct Body {
    /// Request bodies.
    pub payloads: Vec<Payload>,
    /// Their order.
    pub index: PayloadIndex,
}

impl Body {
    /// Lays out the data of `corpus` for requests to `model`.
    ///
    /// # Errors
    /// As [`Corpus::pack`].
    pub fn pack(plan: &Plan, model: &ModelSpec, corpus: Corpus) -> Result<Self> {
        let table = corpus.pack(&Packing {
            batch_size: plan.data.batch_size,
            placement: plan.data.input_placement,
            sequences: model.sequences,
        })?;
        let index = PayloadIndex {
            cycle: (0..table.payloads.len() as u32).map(PayloadId).collect(),
            streams: table.streams.into_iter().map(|stream| stream.map(PayloadId).collect()).collect(),
        };
        Ok(Self { payloads: table.payloads, index })
    }
}
