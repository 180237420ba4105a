//! What is remembered of a request: histograms and counters per window, and raw records where they are exported.
//!
//! Recording runs on the threads that complete requests, often the measured server's own. It is wait-free: a few relaxed
//! atomic additions to fixed memory, sharded so that threads rarely share a cache line.

mod bank;
mod capture;
mod distribution;
mod histogram;
mod observer;
mod pool;
mod raw;
mod recorder;
mod sample;

pub use bank::{Completed, DELAYED_AFTER_NS, FURTHER_REASONS, Tally};
pub use capture::{Capture, Destination};
pub use distribution::{Distribution, MAX_TIME_NS};
pub use histogram::CoarseHistogram;
pub use observer::{Finished, Observer};
pub use pool::RecordPool;
#[cfg(test)]
pub(crate) use raw::TestOutputs;
pub use raw::{RawRecord, RawResponse};
pub use recorder::{Recorder, Source};
pub use sample::{RecorderSpec, Sample};
