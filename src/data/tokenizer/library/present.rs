//! The library.

use tokenizers::Tokenizer;

/// A tokenizer of the library, without truncation and padding.
pub struct Library(Tokenizer);

impl Library {
    /// That of a file with these bytes.
    ///
    /// # Errors
    /// If they are not a tokenizer's.
    pub fn read(bytes: &[u8]) -> Result<Self, String> {
        let read = Tokenizer::from_bytes(bytes);
        let mut tokenizer = read.map_err(|error| format!("it is not a tokenizer file: {error}"))?;
        tokenizer.with_truncation(None).map_err(|error| error.to_string())?;
        tokenizer.with_padding(None);
        Ok(Self(tokenizer))
    }

    /// How many tokens a text has; `None` if it is not accepted.
    pub fn count(&self, text: &str) -> Option<u64> {
        self.0.encode_fast(text, false).ok().map(|encoding| encoding.len() as u64)
    }

    /// Where each token ends, in bytes.
    ///
    /// # Errors
    /// If the text is not accepted.
    pub fn ends(&self, text: &str) -> Result<Vec<usize>, String> {
        let encoding = self.0.encode(text, false).map_err(|error| error.to_string())?;
        Ok(encoding.get_offsets().iter().map(|(_, end)| *end).collect())
    }
}
