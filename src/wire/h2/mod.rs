//! HTTP/2 for a client that sends the same kind of request over and over (RFC 9113, RFC 7541): no sockets, no threads,
//! no clock.

mod connection;
mod error;
mod frame;
mod hpack;
mod outbox;
mod settings;
mod stream;

pub use connection::{Connection, Events, GoAway, MAX_CONTROL, Message, Reset};
pub use error::{ConnectionError, ErrorCode};
#[cfg(fuzzing)]
pub use frame::FrameHeader;
#[cfg(fuzzing)]
pub use hpack::Decoder;
pub use hpack::{Encoder, HeaderList};
pub use stream::Token;
