//! Hugging Face's library of tokenizers. A program that was built without it refuses every file.

#[cfg(not(feature = "tokenizer"))]
mod absent;
#[cfg(feature = "tokenizer")]
mod present;
#[cfg(not(feature = "tokenizer"))]
pub use absent::Library;
#[cfg(feature = "tokenizer")]
pub use present::Library;
