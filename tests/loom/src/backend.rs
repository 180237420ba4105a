//! The subset of the program's `backend` that the checked files use.

use std::marker::PhantomData;

use crate::clock::Stamp;

/// The number of a request in its slot, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request(pub u32);

/// What a slot does after a completion.
pub enum Next {
    Issue(Request),
    Idle,
}

/// A request that is over.
pub struct Completion<'a> {
    pub sent: Stamp,
    pub send_end: Option<Stamp>,
    pub first_response: Stamp,
    pub last_response: Stamp,
    pub responses: u32,
    pub error: PhantomData<&'a InferError>,
}

/// What a request generated.
#[derive(Clone, Copy, Debug, Default)]
pub struct Generation {
    pub end: Stamp,
    pub first: Option<Stamp>,
    pub second: Option<Stamp>,
    pub chunks: u32,
    pub tokens: Option<u64>,
    pub by_tokenizer: bool,
    pub events: u32,
    pub reads: u32,
    pub unended: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct InferError {
    pub code: String,
    pub message: String,
}

impl InferError {
    pub fn is_cancelled(&self) -> bool {
        false
    }
}
