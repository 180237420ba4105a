//! Work on the default stream that the host does not wait for: memory fills, and the last part of a copy from ordinary
//! host memory. It runs only when something makes the stream's work visible, which is the worst case a real device
//! allows.

use std::sync::{Arc, Mutex};

use crate::block::Block;
use crate::ledger::lock;

struct Task {
    block: Arc<Block>,
    address: usize,
    operation: Operation,
}

enum Operation {
    Fill(u8, usize),
    Write(Vec<u8>),
}

static TASKS: Mutex<Vec<Task>> = Mutex::new(Vec::new());

/// Fills `count` bytes from `address` on, which are in the block.
pub fn fill(block: Arc<Block>, address: usize, value: u8, count: usize) {
    lock(&TASKS).push(Task { block, address, operation: Operation::Fill(value, count) });
}

/// Writes `bytes` from `address` on, which are in the block.
pub fn write(block: Arc<Block>, address: usize, bytes: Vec<u8>) {
    lock(&TASKS).push(Task { block, address, operation: Operation::Write(bytes) });
}

/// Does everything that was asked for.
pub fn finish() {
    let mut tasks = lock(&TASKS);
    for Task { block, address, operation } in tasks.drain(..) {
        let target = block.byte(address);
        // SAFETY: the range was checked to be in the block, which is alive.
        unsafe {
            match operation {
                Operation::Fill(value, count) => std::ptr::write_bytes(target, value, count),
                Operation::Write(bytes) => std::ptr::copy_nonoverlapping(bytes.as_ptr(), target, bytes.len()),
            }
        }
    }
}
