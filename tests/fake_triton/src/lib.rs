//! A stand-in for Triton's server library: speaks the C interface from a script and watches its client; see `README.md`.
//!
//! | module | what it does |
//! |---|---|
//! | `abi` | types and numbers of the interface |
//! | `script` | what to play; pure |
//! | `ledger` | what is alive, the log, violations |
//! | `logger` | what the real library would log |
//! | `error`, `options`, `server`, `query` | the server and what surrounds it |
//! | `request`, `input`, `issue`, `delivery`, `overlap`, `response`, `allocator`, `trace` | a request's life |
//!
//! A panic inside ends the process: loud on purpose, as this library only runs in tests.

#![allow(non_snake_case, reason = "exported names are the interface's")]
#![allow(clippy::not_unsafe_ptr_arg_deref, reason = "every exported function is called from C, where nothing is safe")]

mod abi;
mod allocator;
#[cfg(test)]
mod client_tests;
mod delivery;
mod error;
mod input;
mod issue;
mod ledger;
mod logger;
mod options;
mod overlap;
mod query;
mod request;
mod response;
mod script;
mod server;
mod trace;
