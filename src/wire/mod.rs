//! Network protocols as state machines over bytes. They know frames, header fields, codings and limits; not sockets,
//! clocks, tensors or models.

#![deny(unsafe_code, clippy::print_stderr, clippy::print_stdout)]
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]
#![warn(missing_docs)]

pub mod coding;
#[cfg(fuzzing)]
pub mod fuzzing;
pub mod grpc;
pub mod h2;
pub mod http1;
pub mod prometheus;
pub mod protobuf;
pub mod sse;
mod tls;

use base::{error, held};

pub use tls::{CredentialFile, Tls, TlsClient};

/// Pieces of about this many bytes are copied into what is sent; larger ones are sent from where they are, because one
/// more slice of a vectored write costs as much as copying them.
pub const COPY_LIMIT: usize = 4096;
