//! The recorder, over histograms of two values: what their thousands of counters hold is not in question, only that nothing
//! is lost between a writer and a window's end.

#[path = "../../../../src/record/bank.rs"]
#[allow(dead_code)]
mod bank;
mod distribution;
#[path = "../../../../src/record/generation.rs"]
#[allow(dead_code)]
mod generation;
#[path = "../../../../src/record/histogram.rs"]
#[allow(dead_code)]
mod histogram;
#[path = "../../../../src/record/recorder.rs"]
#[allow(dead_code)]
mod recorder;
#[path = "../../../../src/record/sample.rs"]
#[allow(dead_code)]
mod sample;
#[path = "../../../../src/record/sessions.rs"]
#[allow(dead_code)]
mod sessions;
#[path = "../../../../src/record/streak.rs"]
mod streak;
#[path = "../../../../src/record/tally.rs"]
#[allow(dead_code)]
mod tally;

pub use recorder::{Recorder, Source};
pub use sample::{RecorderSpec, Sample};
