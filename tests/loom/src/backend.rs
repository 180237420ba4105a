//! As much of the program's `backend` as the checked files name.

/// The number of a request in its slot, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request(pub u32);

/// What a slot does after a completion.
pub enum Next {
    Issue(Request),
    Idle,
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
