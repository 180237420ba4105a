//! Header compression (RFC 7541): a complete decoder, and an encoder for blocks that repeat.

mod decode;
mod encode;
mod huffman;
mod table;

pub use decode::{Decoder, HeaderList};
pub use encode::Encoder;
