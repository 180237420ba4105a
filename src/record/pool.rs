//! A pool of reusable raw records.

use std::sync::atomic::{AtomicUsize, Ordering};

use crossbeam::queue::ArrayQueue;

use crate::backend::Response;
use crate::raw::RawRecord;

/// Rough minimum size of a record; decides how many there may be.
const MIN_RECORD: usize = 1 << 10;
/// Minimum and maximum number of records.
const RECORDS: (usize, usize) = (64, 1 << 20);

/// Reusable raw records, bounded in number and in bytes, and without a lock. In a steady state nothing is allocated: a
/// new record is made only when more than ever before are in use, and its memory grows to the largest request that it
/// has held.
#[derive(Debug)]
pub struct RecordPool {
    idle: ArrayQueue<Box<RawRecord>>,
    alive: AtomicUsize,
    held: AtomicUsize,
    most_bytes: usize,
}

impl RecordPool {
    /// A pool whose records take no more than about `most_bytes` together.
    pub fn new(most_bytes: usize) -> Self {
        let records = (most_bytes / MIN_RECORD).clamp(RECORDS.0, RECORDS.1);
        Self { idle: ArrayQueue::new(records), alive: AtomicUsize::new(0), held: AtomicUsize::new(0), most_bytes }
    }

    /// Maximum number of records at once.
    pub fn most_records(&self) -> usize {
        self.idle.capacity()
    }

    /// Bytes that all records take together.
    pub fn held(&self) -> usize {
        self.held.load(Ordering::Relaxed)
    }

    /// An empty record; `None` if all are in use.
    pub fn take(&self) -> Option<Box<RawRecord>> {
        if let Some(record) = self.idle.pop() {
            return Some(record);
        }
        let (alive, held) = (self.alive.fetch_add(1, Ordering::Relaxed), self.held());
        // It will grow as large as the others; do not make it only to find no room then.
        let size = held.checked_div(alive).unwrap_or(0).max(size_of::<RawRecord>());
        if alive >= self.most_records() || held.saturating_add(size) > self.most_bytes {
            self.alive.fetch_sub(1, Ordering::Relaxed);
            return None;
        }
        let mut record = Box::<RawRecord>::default();
        self.charge(&mut record);
        Some(record)
    }

    /// Takes back a record that is no longer needed.
    pub fn give_back(&self, mut record: Box<RawRecord>) {
        record.clear();
        // There is room: the queue holds the maximum number of records.
        if let Err(record) = self.idle.push(record) {
            self.forget(&record);
        }
    }

    /// Copies a response into a record; returns `false` if there is no memory for it.
    pub fn copy(&self, response: &Response<'_>, record: &mut RawRecord) -> bool {
        let mut fits = self.has_capacity(record.growth(None));
        response.outputs.visit(&mut |output| {
            fits = fits && self.has_capacity(record.growth(Some(&output))) && record.has_capacity_for(&output);
            if fits {
                record.copy(&output);
            }
        });
        record.close(response.at, response.empty);
        self.charge(record);
        fits
    }

    /// Notes when a response came, and nothing that it carried; returns `false` if there is no memory for it.
    pub fn note(&self, response: &Response<'_>, record: &mut RawRecord) -> bool {
        let fits = self.has_capacity(record.growth(None));
        if fits {
            record.close(response.at, response.empty);
            self.charge(record);
        }
        fits
    }

    /// Copies a request's own first input into its record; returns `false` if there is no memory for it.
    pub fn carry(&self, text: &[u8], record: &mut RawRecord) -> bool {
        let fits = self.has_capacity(record.growth_for(text)) && record.carry(text);
        self.charge(record);
        fits
    }

    /// Whether `bytes` more may be held; frees idle records if necessary.
    fn has_capacity(&self, bytes: usize) -> bool {
        loop {
            if bytes == 0 || self.held().saturating_add(bytes) <= self.most_bytes {
                return true;
            }
            if !self.reclaim() {
                return false;
            }
        }
    }

    /// Frees an idle record, if there is one.
    fn reclaim(&self) -> bool {
        self.idle.pop().is_some_and(|record| {
            self.forget(&record);
            true
        })
    }

    /// Updates the accounted size of a record.
    fn charge(&self, record: &mut RawRecord) {
        let footprint = record.footprint();
        if footprint != record.charged {
            self.held.fetch_add(footprint.wrapping_sub(record.charged), Ordering::Relaxed);
            record.charged = footprint;
        }
    }

    fn forget(&self, record: &RawRecord) {
        self.held.fetch_sub(record.charged, Ordering::Relaxed);
        self.alive.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::OutputView;
    use crate::clock::Stamp;
    use crate::model::DataType;
    use crate::raw::TestOutputs;

    fn copy(pool: &RecordPool, record: &mut RawRecord, bytes: &[u8]) -> bool {
        let output = OutputView { name: "Y", datatype: DataType::Uint8, shape: &[1], bytes };
        let outputs = TestOutputs(vec![output]);
        pool.copy(&Response { at: Stamp(1), empty: false, outputs: &outputs, error: None }, record)
    }

    #[test]
    fn memory_is_bounded_and_idle_records_make_room() {
        const MOST: usize = 1 << 20;
        let pool = RecordPool::new(MOST);
        let chunk = vec![7; 100 << 10];
        let mut records = Vec::new();
        while let Some(mut record) = pool.take() {
            assert!(copy(&pool, &mut record, &chunk));
            assert!(pool.held() <= MOST + 2048, "{}", pool.held());
            records.push(record);
        }
        assert!((8..=10).contains(&records.len()), "{}", records.len());
        records.drain(..).for_each(|record| pool.give_back(record));
        let held = pool.held();
        let mut record = pool.take().unwrap();
        assert!(copy(&pool, &mut record, &vec![7; 900 << 10]), "those that are idle give their memory");
        assert!(pool.held() <= MOST + 2048 && held <= MOST + 2048);
        // One request may have any number of responses.
        let fitting = (0..100_000).take_while(|_| copy(&pool, &mut record, b"")).count();
        assert!(fitting < 20_000 && pool.held() <= MOST + 2048, "{fitting}");
        pool.give_back(record);
    }

    #[test]
    fn their_number_is_bounded() {
        let pool = RecordPool::new(1);
        assert!(pool.take().is_none(), "one is more than a byte");
        let pool = RecordPool::new(64 << 10);
        let records: Vec<_> = std::iter::from_fn(|| pool.take()).collect();
        assert_eq!(records.len(), 64);
        records.into_iter().for_each(|record| pool.give_back(record));
        assert_eq!(std::iter::from_fn(|| pool.take()).count(), 64);
    }
}
