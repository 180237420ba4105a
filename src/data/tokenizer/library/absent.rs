//! In place of the library, in a program that was built without it.

/// There is none.
pub enum Library {}

impl Library {
    /// Fails.
    ///
    /// # Errors
    /// Always.
    pub fn read(_: &[u8]) -> Result<Self, String> {
        Err("this program was built without tokenizers: `cargo build --release` makes one that has them".to_owned())
    }

    /// Cannot be called.
    pub fn count(&self, _: &str) -> Option<u64> {
        match *self {}
    }

    /// Cannot be called.
    ///
    /// # Errors
    /// Never.
    pub fn ends(&self, _: &str) -> Result<Vec<usize>, String> {
        match *self {}
    }
}
