//! What the command `tune` prints and writes.

mod files;
mod table;

pub use files::{check, write};
pub use table::{settings, table, title};
