//! HTTP/1.1 as a client reads it (RFC 9112): no sockets, no threads, no clock.

mod chunks;
mod malformed;
mod reader;
mod unpack;

pub use malformed::Malformed;
pub use reader::{Encoding, Head, IS_TLS, NOT_HTTP, Progress, ReplyReader};
pub use unpack::{NOT_ASKED_FOR, count_unpacked, decompress, with_unpacked};
