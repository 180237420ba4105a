//! What a record is made of.

use crate::clock::Stamp;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecorderSpec {
    pub open_loop: bool,
    pub decoupled: bool,
    pub cancels: bool,
    pub entries: usize,
}

#[derive(Clone, Copy, Debug)]
pub struct Sample {
    pub intended: Option<Stamp>,
    pub sent: Stamp,
    pub first_response: Stamp,
    pub end: Stamp,
    pub send_ns: Option<u64>,
    pub receive_ns: u64,
    pub turnaround_ns: u64,
    pub responses: u32,
    pub sequence_end: bool,
}
