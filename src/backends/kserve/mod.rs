//! What KServe v2 needs over HTTP and over gRPC alike.
//!
//! ```text
//! extensions       what a server lacks of Triton's extensions      regions          shared memory that a server uses
//! reload           loads models again                              trace_settings   what a server traces, and its files
//! refusals         what Triton says where it refuses               request_ids      requests in a server's traces
//! ```

pub(super) mod extensions;
pub(super) mod refusals;
pub mod regions;
pub(super) mod reload;
pub(super) mod request_ids;
pub mod trace_settings;
