//! The recorder over two-valued histograms: the contents of the thousands of counters are not in question, only that
//! nothing is lost between a writer and the end of a window.

#[path = "../../../../src/record/bank.rs"]
#[allow(dead_code)]
pub(crate) mod bank;
pub(crate) mod distribution;
#[path = "../../../../src/record/generation.rs"]
#[allow(dead_code)]
pub(crate) mod generation;
#[path = "../../../../src/record/histogram.rs"]
#[allow(dead_code)]
pub(crate) mod histogram;
#[path = "../../../../src/record/recorder.rs"]
#[allow(dead_code)]
pub(crate) mod recorder;
#[path = "../../../../src/record/sample.rs"]
#[allow(dead_code)]
pub(crate) mod sample;
#[path = "../../../../src/record/sequences.rs"]
#[allow(dead_code)]
pub(crate) mod sequences;
#[path = "../../../../src/record/sessions.rs"]
#[allow(dead_code)]
pub(crate) mod sessions;
#[path = "../../../../src/record/streak.rs"]
pub(crate) mod streak;
#[path = "../../../../src/record/tally.rs"]
#[allow(dead_code)]
pub(crate) mod tally;

pub use recorder::{Recorder, Source};
pub use sample::{RecorderSpec, Sample};
