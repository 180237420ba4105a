//! Section "Sequences": how requests of sequence models belong together.

use clap::Args;

use crate::plan::SequencePlan;
use crate::range::{SequenceIds, sequence_ids, sequence_length};
use crate::values::{number, one_of, whole};
use ::model::CorrelationForm;

/// Requests in a sequence where neither the flag nor data say.
const LENGTH: u64 = 20;

/// How requests of sequence models belong together.
#[derive(Args, Debug)]
#[command(next_help_heading = "Sequences")]
pub struct SequenceArgs {
    /// Requests in a sequence, before variation. Default: the length of the data stream if there is input data, else 20
    #[arg(long, value_name = "N", value_parser = sequence_length)]
    sequence_length: Option<u64>,

    /// Percentage by which sequence lengths vary, up or down, to at least one request. Not used where a data stream sets
    /// the length
    #[arg(long, value_name = "PERCENT", default_value = "20", value_parser = number(0.0, 100_000.0))]
    sequence_length_variation: f64,

    /// Correlation IDs to use: from START to just below END. Default without END: 2^32 - 1 of them
    #[arg(long, value_name = "START[:END]", default_value = "1", value_parser = sequence_ids)]
    sequence_id_range: SequenceIds,

    /// Whether correlation IDs are sent as numbers or as strings. Default: as the model's configuration asks
    #[arg(long, value_name = "number|string",
        value_parser = one_of(&[("number", CorrelationForm::Number), ("string", CorrelationForm::Text)]))]
    sequence_id_type: Option<CorrelationForm>,

    /// Concurrent sequences in open loops (rates and schedules); in closed loops the concurrency sets it
    #[arg(long, value_name = "N", default_value = "4", value_parser = whole::<usize>(1, 100_000))]
    num_of_sequences: usize,

    /// Keeps at most one request of each sequence outstanding in open loops. Default: off
    #[arg(long)]
    serial_sequences: bool,
}

impl SequenceArgs {
    /// How sequences are made.
    pub fn plan(&self) -> SequencePlan {
        SequencePlan {
            length: self.sequence_length.map(|length| if length == 0 { LENGTH } else { length }),
            default_length: LENGTH,
            variation_percent: self.sequence_length_variation,
            first_id: self.sequence_id_range.first,
            ids: self.sequence_id_range.count,
            serial: self.serial_sequences,
            concurrent: self.num_of_sequences,
            correlation: self.sequence_id_type,
        }
    }
}
