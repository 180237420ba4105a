//! `triton-bench tune`, end to end: models with known behaviour, in Triton in the program's own process.

mod endings;
mod found;
mod isolation;
mod laws;
mod network;
mod trusted;
