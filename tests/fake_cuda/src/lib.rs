//! A stand-in for the CUDA driver and the CUDA runtime; see `README.md`.
//!
//! | module | what it does |
//! |---|---|
//! | `status` | error numbers, which both interfaces share, and their names |
//! | `settings` | the environment |
//! | `ledger` | what is alive by interface, the log, violations |
//! | `block` | one allocation: addresses that nothing can touch, and the bytes behind them |
//! | `space` | all allocations of the process: which address is what; copies |
//! | `pending` | work on the default stream that the host does not wait for |
//! | `ipc` | handles of allocations, and memory of other processes |
//! | `pinned` | page-locked host memory |
//! | `context` | whether the driver was started, and each thread's current device |
//! | `driver`, `runtime`, `runtime_memory` | the exported functions |
//!
//! A panic inside ends the process: loud on purpose, as this library only runs in tests.

#![allow(non_snake_case, reason = "exported names are the interface's")]
#![allow(clippy::not_unsafe_ptr_arg_deref, reason = "every exported function is called from C, where nothing is safe")]

mod block;
#[cfg(test)]
mod client_tests;
mod context;
mod driver;
mod ipc;
mod ledger;
mod pending;
mod pinned;
mod runtime;
mod runtime_memory;
mod settings;
mod space;
mod status;
