//! [`Body`]: what the requests to one model carry, before the entries of a mix have a share in it.

use crate::data::{Corpus, Packing, Payload, PayloadId, PayloadTable};
use crate::error::Result;
use crate::load::feed::PayloadIndex;
use crate::model::{ModelSpec, Scheduler};
use crate::plan::Plan;

/// A model's request bodies, numbered from 0.
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
            model: 0,
            sequences: model.scheduler == Scheduler::Sequence,
            first: PayloadId(0),
        })?;
        let index = index(&table);
        Ok(Self { payloads: table.payloads, index })
    }
}

fn index(table: &PayloadTable) -> PayloadIndex {
    let stream = |stream| (0..table.stream_len(stream)).map(|step| table.payload_id(stream, step as u64)).collect();
    PayloadIndex {
        cycle: (0..table.payloads.len()).map(|request| table.cycle(request as u64)).collect(),
        streams: (0..table.streams()).map(stream).collect(),
    }
}
