//! [`Prepared`]: what the clients of a load have in common, made once.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::data::Payload;
use crate::error::Result;

/// What is made of the payloads once, for all clients that have the same ones.
pub struct Prepared<T>(Mutex<Option<Made<T>>>);

/// What was made, and of which payloads.
type Made<T> = (Arc<[Payload]>, Arc<T>);

impl<T> Default for Prepared<T> {
    fn default() -> Self {
        Self(Mutex::new(None))
    }
}

impl<T> Prepared<T> {
    /// What was made of these payloads; else `make` makes it.
    ///
    /// # Errors
    /// Those of `make`.
    pub fn of(&self, payloads: &Arc<[Payload]>, make: impl FnOnce() -> Result<T>) -> Result<Arc<T>> {
        let mut known = self.0.lock();
        if let Some((of, made)) = known.as_ref()
            && Arc::ptr_eq(of, payloads)
        {
            return Ok(Arc::clone(made));
        }
        let made = Arc::new(make()?);
        *known = Some((Arc::clone(payloads), Arc::clone(&made)));
        Ok(made)
    }
}
