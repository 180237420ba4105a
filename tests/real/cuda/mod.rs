//! CUDA without a GPU: the program, and real servers, on a stand-in for the driver and the runtime (`tests/fake_cuda`).
//!
//! What passes here proves how the interface is used, and not what a driver makes of it: that is for `scripts/test-gpu`.

#[path = "../../gpu/checks.rs"]
mod checks;
mod in_process;
mod matrix;
mod memory;
mod network;
mod refused;
mod stand_in;
