//! A model's configuration as protobuf's JSON: settings by their path, and the text form of `config.pbtxt`.

mod path;
mod pbtxt;

pub use path::{Path, equal};
pub use pbtxt::text;
