//! [`Prepared`]: state that is made once for all clients of a load.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::data::Payload;
use crate::error::Result;

/// Payloads, and what was made from them.
type Made<T> = (Arc<[Payload]>, Arc<T>);

/// What is made from the payloads once, for all clients that have the same ones.
pub struct Prepared<T>(Mutex<Option<Made<T>>>);

impl<T> Default for Prepared<T> {
    fn default() -> Self {
        Self(Mutex::new(None))
    }
}

impl<T> Prepared<T> {
    /// What was made from these payloads; if there is nothing yet, `make` makes it.
    ///
    /// # Errors
    /// Those of `make`.
    pub fn get_or_make(&self, payloads: &Arc<[Payload]>, make: impl FnOnce() -> Result<T>) -> Result<Arc<T>> {
        let mut cached = self.0.lock();
        if let Some((source, made)) = cached.as_ref()
            && Arc::ptr_eq(source, payloads)
        {
            return Ok(Arc::clone(made));
        }
        let made = Arc::new(make()?);
        *cached = Some((Arc::clone(payloads), Arc::clone(&made)));
        Ok(made)
    }
}
