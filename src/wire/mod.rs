//! Network protocols as state machines over bytes. They know frames, header fields, codings and limits; not sockets,
//! clocks, tensors or models.

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

pub use tls::TlsClient;

/// Pieces of about this many bytes are copied into what is sent; larger ones are sent from where they are, because one
/// more slice of a vectored write costs as much as copying them.
pub const COPY_LIMIT: usize = 4096;
