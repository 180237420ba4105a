//! Input data from files and generators, through the public interface: what is accepted, what is refused, and how it is
//! packed.

pub mod fixture;

mod files;
mod json;
mod packing;
mod synthetic;
