//! [`TextLog`]: answers of which the server does not say how many tokens they have, on their way to a thread that counts them.
//!
//! Counting takes longer than reading an answer, so that the thread that reads would come late to all others. The figures of such an
//! answer are recorded when it is counted: in the window in which it ended, or in one of the next where that is closed by then.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread;

use crossbeam::queue::ArrayQueue;

use crate::backend::Generation;
use crate::clock::Stamp;
use crate::error::{Error, Result};
use crate::inbox::{Inbox, Outbox, Received, inbox};
use crate::{Recorder, Source};

/// Tokens of an answer, as its backend has handed it over; none if they cannot be counted.
pub type CountTokens = Box<dyn Fn(&[u8]) -> Option<u64> + Send>;

/// Answers that wait at most, and their bytes. What comes beyond is not counted, and chunks stand for tokens.
const MAX_WAITING: usize = 1 << 14;
const MAX_BYTES: usize = 256 << 20;
/// Buffers that are kept to be used again, and the largest of them.
const SPARE: usize = 64;
const SPARE_BYTES: usize = 1 << 20;

/// An answer that is to be counted.
struct Text {
    recorder: Arc<Recorder>,
    source: Source,
    start: Stamp,
    generation: Generation,
    answer: Vec<u8>,
}

/// Whose an answer is.
#[derive(Clone, Copy, Debug)]
pub struct Origin {
    /// Who sent the request.
    pub source: Source,
    /// When it began.
    pub start: Stamp,
}

/// What both sides look at.
struct Shared {
    waiting: AtomicU64,
    bytes: AtomicUsize,
    spare: ArrayQueue<Vec<u8>>,
}

/// Where answers go whose tokens are to be counted.
pub struct TextLog {
    outbox: Outbox<Text, ()>,
    shared: Arc<Shared>,
}

impl TextLog {
    /// The way to a thread that counts, which ends when nobody has it any more.
    ///
    /// # Errors
    /// If there is no thread to be had.
    pub fn start(count: CountTokens) -> Result<Arc<Self>> {
        let (outbox, inbox) = inbox(MAX_WAITING);
        let spare = ArrayQueue::new(SPARE);
        let shared = Arc::new(Shared { waiting: AtomicU64::new(0), bytes: AtomicUsize::new(0), spare });
        let theirs = Arc::clone(&shared);
        thread::Builder::new()
            .name("tokens".to_owned())
            .spawn(move || count_all(inbox, &theirs, &count))
            .map_err(|error| Error::machine(format!("cannot start the thread that counts tokens: {error}")))?;
        Ok(Arc::new(Self { outbox, shared }))
    }

    /// Records what a request generated: through the `log`, where there is one and an `answer` to be counted.
    pub fn record(
        log: Option<&Arc<Self>>,
        recorder: &Arc<Recorder>,
        origin: Origin,
        generation: &Generation,
        answer: &[u8],
    ) {
        match log.filter(|_| !answer.is_empty()) {
            Some(log) => log.take(recorder, origin, generation, answer),
            None => recorder.generation(origin.source, origin.start, generation),
        }
    }

    /// Takes an `answer`, whose `generation` is recorded when it has been counted. Where there is no room for it, it is recorded at
    /// once as it is.
    fn take(&self, recorder: &Arc<Recorder>, origin: Origin, generation: &Generation, answer: &[u8]) {
        let Origin { source, start } = origin;
        let Shared { waiting, bytes, spare } = &*self.shared;
        if bytes.fetch_add(answer.len(), Ordering::Relaxed) + answer.len() <= MAX_BYTES {
            let mut copy = spare.pop().unwrap_or_default();
            copy.extend_from_slice(answer);
            waiting.fetch_add(1, Ordering::AcqRel);
            let recorder = Arc::clone(recorder);
            let text = Text { recorder, source, start, generation: *generation, answer: copy };
            if self.outbox.give(text).is_ok() {
                return;
            }
            waiting.fetch_sub(1, Ordering::AcqRel);
        }
        bytes.fetch_sub(answer.len(), Ordering::Relaxed);
        recorder.generation(source, start, generation);
    }

    /// Whether every answer that was taken has been counted and recorded.
    pub fn is_settled(&self) -> bool {
        self.shared.waiting.load(Ordering::Acquire) == 0
    }
}

fn count_all(inbox: Inbox<Text, ()>, shared: &Shared, count: &CountTokens) {
    for received in inbox {
        let Received::Item(text) = received else { continue };
        let Text { recorder, source, start, generation, mut answer } = text;
        let tokens = count(&answer).filter(|&tokens| tokens > 0);
        let counted = Generation { tokens, by_tokenizer: tokens.is_some(), ..generation };
        recorder.generation(source, start, &counted);
        shared.bytes.fetch_sub(answer.len(), Ordering::Relaxed);
        if answer.capacity() <= SPARE_BYTES {
            answer.clear();
            drop(shared.spare.push(answer));
        }
        drop(recorder);
        shared.waiting.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::RecorderSpec;

    const SOURCE: Source = Source { writer: 0, part: 0 };

    fn generation() -> Generation {
        let at = |ms: u64| Stamp(ms * 1_000_000);
        let (first, second) = (Some(at(10)), Some(at(20)));
        Generation { sent: at(0), end: at(40), first, second, chunks: 3, first_chunks: 1, ..Generation::default() }
    }

    #[test]
    fn answers_are_recorded_with_the_tokens_that_were_counted() {
        let recorder = Arc::new(Recorder::new(RecorderSpec { generates: true, ..RecorderSpec::default() }, 1));
        let log = TextLog::start(Box::new(|answer| (answer != b"?").then_some(answer.len() as u64))).unwrap();
        for answer in [&b"seven b"[..], b"?", b""] {
            log.take(&recorder, Origin { source: SOURCE, start: Stamp(0) }, &generation(), answer);
        }
        while !log.is_settled() {
            thread::sleep(Duration::from_millis(1));
        }
        let generated = recorder.close().generated.unwrap();
        assert_eq!((generated.tokens, generated.by_tokenizer, generated.by_chunks), (7 + 3 + 3, 1, 2));
        assert_eq!((generated.counted, generated.first_token.count()), (0, 3));
        // (40 - 10) / 6 of the one, (40 - 10) / 2 of the others.
        assert_eq!(generated.inter_token.sum_ns, 35_000_000);
    }

    #[test]
    fn what_finds_no_room_is_recorded_as_it_is() {
        let recorder = Arc::new(Recorder::new(RecorderSpec { generates: true, ..RecorderSpec::default() }, 1));
        let (gate, wait) = std::sync::mpsc::channel::<()>();
        let log = TextLog::start(Box::new(move |_| {
            let _ = wait.recv();
            Some(100)
        }))
        .unwrap();
        for _ in 0..MAX_WAITING + 100 {
            log.take(&recorder, Origin { source: SOURCE, start: Stamp(0) }, &generation(), b"x");
        }
        assert!(!log.is_settled());
        drop(gate);
        while !log.is_settled() {
            thread::sleep(Duration::from_millis(1));
        }
        let generated = recorder.close().generated.unwrap();
        assert_eq!(generated.by_tokenizer + generated.by_chunks, MAX_WAITING as u64 + 100, "none is lost");
        assert!((98..=100).contains(&generated.by_chunks), "{}", generated.by_chunks);
    }
}
