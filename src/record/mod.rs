//! What is kept of a request: histograms and counters per window, and raw records if they are exported.
//!
//! Recording runs on the threads that complete requests, often the measured server's own. It is wait-free: a few
//! relaxed atomic additions to fixed memory, sharded so that threads rarely share a cache line.

#![deny(unsafe_code, clippy::print_stderr, clippy::print_stdout)]
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]
#![warn(missing_docs)]

mod account;
mod bank;
mod capture;
mod distribution;
mod generation;
mod histogram;
mod observer;
mod periodic_batch;
mod pool;
mod raw;
mod recorder;
mod sample;
mod sequences;
mod sessions;
mod streak;
mod tally;
mod texts;
mod traces;

use ::{backend, data, model};
use ::stats::seed;
use base::{chunks, clock, error, inbox, stdio, sync};

pub use account::LoadReport;
pub use bank::{DELAYED_AFTER_NS, FURTHER_REASONS, without_numbers};
pub use capture::{Capture, Destination};
pub use distribution::{Distribution, MAX_TIME_NS, coarse, within as histograms_within};
pub use generation::{Generated, Limits};
pub use histogram::CoarseHistogram;
pub use observer::{Finished, Observer};
pub use periodic_batch::PeriodicBatch;
pub use pool::RecordPool;
#[cfg(any(test, feature = "testing"))]
pub use raw::TestOutputs;
pub use raw::{RawRecord, RawResponse};
pub use recorder::{Recorder, Source};
pub use sample::{RecorderSpec, Sample};
pub use sequences::{SequenceTimes, WholeSequence};
pub use sessions::{Played, Sessions};
pub use tally::{Completed, Tally};
pub use texts::{CountTokens, Counted, Origin, TextLog};
pub use traces::{KeptTrace, TraceLog, TracedRequest};
