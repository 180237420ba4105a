//! What a server reported about one request on its way: moments, model by model.

use crate::clock::Stamp;
use crate::error::Result;

/// A moment of a request to a model, in chronological order. The names are those of Triton's trace files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// The server's core has received it.
    RequestStart,
    /// It is queued for an instance.
    QueueStart,
    /// An instance has taken it.
    ComputeStart,
    /// Its inputs are in place for the model.
    ComputeInputEnd,
    /// The model has run.
    ComputeOutputStart,
    /// Its outputs have been handed out.
    ComputeEnd,
    /// The server releases it.
    RequestEnd,
}

impl Moment {
    /// All of them, each at the index of its number in the C API.
    pub const ALL: [Self; 7] = [
        Self::RequestStart,
        Self::QueueStart,
        Self::ComputeStart,
        Self::ComputeInputEnd,
        Self::ComputeOutputStart,
        Self::ComputeEnd,
        Self::RequestEnd,
    ];

    /// Its name in trace files.
    pub fn name(self) -> &'static str {
        match self {
            Self::RequestStart => "REQUEST_START",
            Self::QueueStart => "QUEUE_START",
            Self::ComputeStart => "COMPUTE_START",
            Self::ComputeInputEnd => "COMPUTE_INPUT_END",
            Self::ComputeOutputStart => "COMPUTE_OUTPUT_START",
            Self::ComputeEnd => "COMPUTE_END",
            Self::RequestEnd => "REQUEST_END",
        }
    }
}

/// Bytes of a model's name that are kept.
pub const NAME_BYTES: usize = 64;

/// A model's name, of at most 64 bytes: it is stored where nothing may be allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModelName {
    bytes: [u8; NAME_BYTES],
    length: u8,
}

impl Default for ModelName {
    fn default() -> Self {
        Self { bytes: [0; NAME_BYTES], length: 0 }
    }
}

impl ModelName {
    /// The name, or the beginning of a longer one.
    pub fn new(name: &[u8]) -> Self {
        let mut bytes = [0; NAME_BYTES];
        let length = name.len().min(NAME_BYTES);
        bytes[..length].copy_from_slice(&name[..length]);
        Self { bytes, length: length as u8 }
    }

    /// As text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes[..usize::from(self.length)]).into_owned()
    }
}

/// What a server reported about a request to one model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ModelTrace {
    /// The server's number for it.
    pub id: u64,
    /// The id of the request that caused it: to an ensemble, or to a model that calls others; 0 if it came from
    /// outside.
    pub parent: u64,
    /// The model.
    pub name: ModelName,
    /// The model's version.
    pub version: i64,
    /// The time of each of [`Moment::ALL`], on the clock of [`Stamp`]; 0 if the server did not report it.
    pub moments: [u64; Moment::ALL.len()],
}

impl ModelTrace {
    /// The time of a moment, if the server reported it.
    pub fn at(&self, moment: Moment) -> Option<Stamp> {
        let ns = self.moments[moment as usize];
        (ns > 0).then_some(Stamp(ns))
    }
}

/// Number of models per request whose moments are kept: the requested model, and models that it calls.
pub const MAX_TRACED: usize = 16;

/// Everything known about one traced request. It has a fixed size, because it is made where nothing may be allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestTrace {
    /// Just before it was handed to the server.
    pub sent: Stamp,
    /// When that call returned, if it did so before the request was over.
    pub handed_over: Option<Stamp>,
    /// When its last response came.
    pub last_response: Stamp,
    /// Whether it succeeded.
    pub succeeded: bool,
    /// How many requests it stands for.
    pub weight: u32,
    /// Whether there were more models than [`MAX_TRACED`].
    pub more: bool,
    /// How many entries of `all` are used.
    pub count: usize,
    /// The models, starting with the one that the request was for.
    pub all: [ModelTrace; MAX_TRACED],
}

impl RequestTrace {
    /// The models, the one that the request was for first.
    pub fn models(&self) -> &[ModelTrace] {
        &self.all[..self.count]
    }
}

/// When a server on the network had read a request, and when it began to send its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transit {
    /// The last byte of the request was read.
    pub received: Stamp,
    /// The answer (the last one if there are several) was handed to the network; [`Stamp::NEVER`] if the server did not
    /// record it.
    pub answering: Stamp,
}

/// What a server wrote of a request of ours that it traced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerTrace {
    /// The slot that the request was sent in, as [`RequestTrace`] names it in the id of its only model.
    pub slot: u64,
    /// For how many requests it stands.
    pub weight: u32,
    /// How it came and went.
    pub transit: Transit,
    /// The models, the one that the request was for first.
    pub models: Vec<ModelTrace>,
}

/// A server on the network that writes what it traces where we can read it.
pub trait ServerTraces: Send + Sync {
    /// What has been traced since the last call.
    ///
    /// # Errors
    /// Why it cannot be had.
    fn take(&self) -> Result<Vec<ServerTrace>>;
}

/// Which requests are traced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TraceRate {
    /// Every n-th of a slot, the first included.
    Every(u32),
    /// As many as cost a hundredth of one processor's time, at [`TRACE_COST_NS`] each.
    Sparing,
}

/// What a trace costs at most, in nanoseconds of processor time: measured by `scripts/compare-traces`, rounded up.
pub const TRACE_COST_NS: u64 = 10_000;

/// The share of one processor's time that traces may take where their rate is not given.
const COST_SHARE: f64 = 0.01;

impl TraceRate {
    /// After how many requests the next one is traced, for a slot whose last `requests` took `ns` nanoseconds, in a
    /// load with this many `slots`. `draw` is a random number; it keeps traces out of step with patterns in the data.
    pub fn gap(self, requests: u32, ns: u64, slots: usize, draw: u64) -> (u32, u32) {
        let mean = match self {
            Self::Every(n) => return (n, n),
            Self::Sparing if ns == 0 => 1,
            Self::Sparing => {
                let request_ns = ns as f64 / f64::from(requests.max(1));
                let mean = TRACE_COST_NS as f64 * slots.max(1) as f64 / (COST_SHARE * request_ns);
                mean.ceil().clamp(1.0, f64::from(MAX_APART)) as u32
            }
        };
        (1 + (draw % u64::from(2 * mean - 1)) as u32, mean)
    }
}

/// Traced requests of a slot are never further apart.
const MAX_APART: u32 = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_that_is_given_is_kept() {
        assert_eq!(TraceRate::Every(10).gap(1, 0, 4, 7), (10, 10));
        assert_eq!(TraceRate::Every(1).gap(1, 0, 4, 7), (1, 1));
    }

    #[test]
    fn sparing_traces_cost_a_hundredth_of_a_processor() {
        // 8 slots whose requests take 16 us each: half a million requests a second, of which 1000 may be traced.
        let (_, mean) = TraceRate::Sparing.gap(100, 1_600_000, 8, 0);
        assert_eq!(mean, 500);
        // Ten requests a second: all of them.
        assert_eq!(TraceRate::Sparing.gap(1, 100_000_000, 1, 5), (1, 1));
        let draws = (0..9_990).map(|draw| u64::from(TraceRate::Sparing.gap(100, 1_600_000, 8, draw).0));
        let gaps: Vec<u64> = draws.collect();
        assert_eq!((gaps.iter().min(), gaps.iter().max()), (Some(&1), Some(&999)));
        assert_eq!(
            gaps.iter().sum::<u64>() / gaps.len() as u64,
            500,
            "on average they are as far apart as they should be"
        );
    }

    #[test]
    fn long_names_are_cut() {
        assert_eq!(ModelName::new(b"short").text(), "short");
        assert_eq!(ModelName::new(&[b'x'; 100]).text().len(), NAME_BYTES);
    }
}
