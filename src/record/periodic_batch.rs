//! [`PeriodicBatch`]: what is kept of a batch of a periodic load.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Distribution;

/// Result of one batch of a periodic load.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct PeriodicBatch {
    /// Requests under way or sent until then, these included.
    pub concurrency: usize,
    /// Requests of the batch that were sent.
    pub requests: u64,
    /// Responses that carried data.
    pub responses: u64,
    /// From the submission to the first response.
    pub first_response: Distribution,
    /// Between neighbouring responses of a request; the mean is exact, percentiles are within 0.8 %.
    pub gap: Distribution,
    /// The longest of these times, in nanoseconds.
    pub gap_max_ns: u64,
}

impl PeriodicBatch {
    /// Merges the same batch of several processes, in the order of batches.
    pub fn joined(parts: impl IntoIterator<Item = Self>) -> Vec<Self> {
        let mut batches: BTreeMap<usize, Self> = BTreeMap::new();
        for batch in parts {
            match batches.entry(batch.concurrency) {
                Entry::Vacant(entry) => {
                    entry.insert(batch);
                }
                Entry::Occupied(mut entry) => entry.get_mut().join(&batch),
            }
        }
        batches.into_values().collect()
    }

    fn join(&mut self, other: &Self) {
        self.requests += other.requests;
        self.responses += other.responses;
        self.first_response.merge(&other.first_response);
        self.gap.merge(&other.gap);
        self.gap_max_ns = self.gap_max_ns.max(other.gap_max_ns);
    }
}
