//! What the command `tune` prints and writes.

mod files;
mod table;

pub use files::{Places, check, write};
#[cfg(test)]
pub(crate) use table::sample;
pub use table::table;
