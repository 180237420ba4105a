//! [`TextLog`]: requests and answers of which the server does not say how many tokens they have, on their way to a thread that counts
//! them.
//!
//! Counting takes longer than reading an answer, so that the thread that reads would come late to all others. The figures of such a
//! request are recorded when it is counted: in the window in which it ended, or in one of the next where that is closed by then.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread;

use crossbeam::queue::ArrayQueue;

use crate::backend::{Generation, InputTokens, Uncounted};
use crate::clock::Stamp;
use crate::error::{Error, Result};
use crate::inbox::{Inbox, Outbox, Received, inbox};
use crate::{Recorder, Source};

/// Tokens of a request's input and output; none if they cannot be counted, or are not asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// Of what was asked.
    pub input: Option<u64>,
    /// Of what was answered.
    pub output: Option<u64>,
}

/// Counts tokens of what a backend has handed over.
pub type CountTokens = Box<dyn Fn(Uncounted<'_>) -> Counted + Send>;

/// Requests that wait at most, and their bytes. What comes beyond is not counted, and chunks stand for tokens.
const MAX_WAITING: usize = 1 << 14;
const MAX_BYTES: usize = 256 << 20;
/// Buffers that are kept to be used again, and the largest of them.
const SPARE: usize = 64;
const SPARE_BYTES: usize = 1 << 20;

/// A request that is to be counted.
struct Text {
    recorder: Arc<Recorder>,
    source: Source,
    start: Stamp,
    generation: Generation,
    /// What was asked, as far as it is to be counted, and what was answered.
    bytes: Vec<u8>,
    /// How many of them are the former.
    request: usize,
}

/// Whose a generated text is.
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

/// Where requests go whose tokens are to be counted.
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

    /// Records what a request generated: through the `log`, where there is one and something to be counted.
    pub fn record(
        log: Option<&Arc<Self>>,
        recorder: &Arc<Recorder>,
        origin: Origin,
        generation: &Generation,
        uncounted: Uncounted<'_>,
    ) {
        match log.filter(|_| uncounted != Uncounted::default()) {
            Some(log) => log.take(recorder, origin, generation, uncounted),
            None => recorder.generation(origin.source, origin.start, generation),
        }
    }

    /// Takes what is `uncounted` of a `generation`, which is recorded when that has been counted. Where there is no room for it, it is
    /// recorded at once as it is.
    fn take(&self, recorder: &Arc<Recorder>, origin: Origin, generation: &Generation, uncounted: Uncounted<'_>) {
        let Uncounted { request, answer } = uncounted;
        let len = request.len() + answer.len();
        let Origin { source, start } = origin;
        let Shared { waiting, bytes, spare } = &*self.shared;
        if bytes.fetch_add(len, Ordering::Relaxed) + len <= MAX_BYTES {
            let mut copy = spare.pop().unwrap_or_default();
            copy.extend_from_slice(request);
            copy.extend_from_slice(answer);
            waiting.fetch_add(1, Ordering::AcqRel);
            let recorder = Arc::clone(recorder);
            let text = Text { recorder, source, start, generation: *generation, bytes: copy, request: request.len() };
            if self.outbox.give(text).is_ok() {
                return;
            }
            waiting.fetch_sub(1, Ordering::AcqRel);
        }
        bytes.fetch_sub(len, Ordering::Relaxed);
        recorder.generation(source, start, generation);
    }

    /// Whether everything that was taken has been counted and recorded.
    pub fn is_settled(&self) -> bool {
        self.shared.waiting.load(Ordering::Acquire) == 0
    }
}

fn count_all(inbox: Inbox<Text, ()>, shared: &Shared, count: &CountTokens) {
    for received in inbox {
        let Received::Item(text) = received else { continue };
        let Text { recorder, source, start, mut generation, mut bytes, request } = text;
        let (request, answer) = bytes.split_at(request);
        let counted = count(Uncounted { request, answer });
        if let Some(tokens) = counted.output.filter(|&tokens| tokens > 0) {
            (generation.tokens, generation.by_tokenizer) = (Some(tokens), true);
        }
        if counted.input.is_some() {
            generation.input = InputTokens { all: counted.input, by_tokenizer: true, ..generation.input };
        }
        recorder.generation(source, start, &generation);
        shared.bytes.fetch_sub(bytes.len(), Ordering::Relaxed);
        if bytes.capacity() <= SPARE_BYTES {
            bytes.clear();
            drop(shared.spare.push(bytes));
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
        let count = |bytes: &[u8]| (bytes != b"?").then_some(bytes.len() as u64);
        let count = move |Uncounted { request, answer }: Uncounted<'_>| Counted {
            input: Some(request).filter(|request| !request.is_empty()).and_then(count),
            output: count(answer),
        };
        let log = TextLog::start(Box::new(count)).unwrap();
        for (request, answer) in [(&b"hello"[..], &b"seven b"[..]), (b"?", b"?"), (b"", b"")] {
            log.take(
                &recorder,
                Origin { source: SOURCE, start: Stamp(0) },
                &generation(),
                Uncounted { request, answer },
            );
        }
        while !log.is_settled() {
            thread::sleep(Duration::from_millis(1));
        }
        let generated = recorder.close().generated.unwrap();
        assert_eq!((generated.tokens, generated.by_tokenizer, generated.by_chunks), (7 + 3 + 3, 1, 2));
        assert_eq!((generated.counted, generated.first_token.count()), (0, 3));
        assert_eq!((generated.input_tokens, generated.inputs, generated.inputs_by_tokenizer), (5, 1, 1));
        // (40 - 10) / 6 of the one, (40 - 10) / 2 of the others.
        assert_eq!(generated.inter_token.sum_ns, 35_000_000);
    }

    #[test]
    fn what_finds_no_room_is_recorded_as_it_is() {
        let recorder = Arc::new(Recorder::new(RecorderSpec { generates: true, ..RecorderSpec::default() }, 1));
        let (gate, wait) = std::sync::mpsc::channel::<()>();
        let log = TextLog::start(Box::new(move |_| {
            let _ = wait.recv();
            Counted { output: Some(100), ..Counted::default() }
        }))
        .unwrap();
        for _ in 0..MAX_WAITING + 100 {
            log.take(
                &recorder,
                Origin { source: SOURCE, start: Stamp(0) },
                &generation(),
                Uncounted { request: b"", answer: b"x" },
            );
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
