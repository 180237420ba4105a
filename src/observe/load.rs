//! An observed load: where its requests go, and how many of them could not be kept.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::record::{RawRecord, RecordPool, Recorder};
use crate::report::export::ExportQueue;

/// An observed load.
pub struct ObservedLoad {
    /// Number of its level, from 1; 0 if it belongs to none.
    pub level: u64,
    /// Where a mismatch is counted.
    pub recorder: Arc<Recorder>,
    export: Option<ExportQueue>,
    missing: AtomicU64,
    unvalidated: AtomicU64,
}

impl ObservedLoad {
    /// The load of a level, exported if there is a queue for that.
    pub fn new(level: u64, recorder: Arc<Recorder>, export: Option<ExportQueue>) -> Self {
        Self { level, recorder, export, missing: AtomicU64::new(0), unvalidated: AtomicU64::new(0) }
    }

    /// Whether its requests are exported.
    pub fn is_exported(&self) -> bool {
        self.export.is_some()
    }

    /// Exports a request, if its load is exported. Neither waits nor allocates.
    pub fn export(&self, record: Box<RawRecord>, pool: &RecordPool) {
        let Some(export) = &self.export else { return pool.give_back(record) };
        if let Err(record) = export.give(self.level, record) {
            self.missing.fetch_add(1, Ordering::Relaxed);
            pool.give_back(record);
        }
    }

    /// Counts a request that could not be kept, and that should have been `validated`.
    pub fn lose(&self, validated: bool) {
        self.missing.fetch_add(u64::from(self.is_exported()), Ordering::Relaxed);
        self.unvalidated.fetch_add(u64::from(validated), Ordering::Relaxed);
    }

    /// Requests that are not exported, though they should have been.
    pub fn missing(&self) -> u64 {
        self.missing.load(Ordering::Relaxed)
    }

    /// Requests that were not validated, though they should have been.
    pub fn unvalidated(&self) -> u64 {
        self.unvalidated.load(Ordering::Relaxed)
    }
}
