//! Input tensors: the memory stays the client's.

use std::ffi::{c_int, c_void};

use crate::abi::MEMORY_GPU;

/// A stretch of a client's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Buffer {
    pub base: *const c_void,
    pub bytes: usize,
    pub memory: c_int,
}

impl Buffer {
    /// Its bytes, if the processor can read them.
    pub fn content(&self) -> Option<&[u8]> {
        if self.memory == MEMORY_GPU || self.bytes == 0 || self.base.is_null() {
            return None;
        }
        // SAFETY: the client vouches for the range until the request is released.
        Some(unsafe { std::slice::from_raw_parts(self.base.cast::<u8>(), self.bytes) })
    }
}

/// An input tensor.
#[derive(Debug, Clone)]
pub struct Input {
    pub name: String,
    pub datatype: c_int,
    pub shape: Vec<i64>,
    pub buffers: Vec<Buffer>,
}

impl Input {
    /// Its size.
    pub fn bytes(&self) -> usize {
        self.buffers.iter().map(|buffer| buffer.bytes).sum()
    }
}
