//! [`Body`]: what the requests to one model carry, before it is shared by the entries of a mix.

use std::ops::Range;

use crate::data::{Corpus, Packing, Payload, PayloadId};
use crate::error::Result;
use crate::input_source::PayloadIndex;
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
        let packing = Packing {
            batch_size: plan.data.batch_size,
            placement: plan.data.input_placement,
            sequences: model.sequences,
        };
        let mode = &plan.load.mode;
        // Where each step has its own time, turn or row, it has its own payload.
        let are_alike = !mode.is_fixed_schedule() && !plan.target.openai.sessions && plan.load.tokens().is_none();
        let table = if are_alike { corpus.pack_distinct(&packing) } else { corpus.pack(&packing) }?;
        let cycle: Vec<PayloadId> = table.order.into_iter().map(PayloadId).collect();
        let of_stream = |range: Range<u32>| cycle[range.start as usize..range.end as usize].to_vec();
        let index = PayloadIndex { streams: table.streams.into_iter().map(of_stream).collect(), cycle };
        Ok(Self { payloads: table.payloads, index })
    }
}
