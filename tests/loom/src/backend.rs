//! The subset of the program's `backend` that the checked files use.

use std::marker::PhantomData;

use crate::clock::Stamp;

#[path = "../../../src/backend/generation.rs"]
#[allow(dead_code)]
mod generation;
pub use generation::{Generation, InputTokens};

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
