//! CUDA without a GPU: the program and real servers run on a stand-in for the driver and the runtime
//! (`tests/fake_cuda`).
//!
//! A pass here proves that the interface is used correctly, not how a driver behaves: `scripts/test-gpu` checks that.

#[path = "../../gpu/checks.rs"]
mod checks;
mod in_process;
mod matrix;
mod memory;
mod network;
mod refused;
mod stand_in;
