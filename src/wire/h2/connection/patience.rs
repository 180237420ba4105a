//! Limits on what a peer may make us do without progress on a request: frames that are cheap for it and costly for us,
//! or answers that it does not read (RFC 9113, section 10.5).

use std::collections::VecDeque;

use crate::h2::error::{ConnectionError, ErrorCode};

/// Frames in a row that bring no request forward. A peer that only keeps an idle connection alive takes hours to send
/// this many.
pub const MAX_IDLE_FRAMES: i64 = 10_000;
/// Body bytes sent by us for which the peer may send one more such frame: it reopens windows as it reads.
const BYTES_PER_GRANT: i64 = 1024;
/// Limit on the frames that it may save up that way.
const MAX_GRANTS: i64 = 1 << 21;
/// Limit on unsent answers to the peer's control frames: a peer beyond it asks for too much at once, or does not read.
pub const MAX_ANSWERS: usize = 1_000;

/// How much of these limits a peer has used.
#[derive(Debug, Default)]
pub struct Patience {
    /// Frames since a request last made progress; negative while our own bytes allow more.
    idle_frames: i64,
    /// Where in our byte stream each unsent answer ends.
    answers: VecDeque<u64>,
}

impl Patience {
    /// A request has made progress.
    #[inline]
    pub fn progressed(&mut self) {
        self.idle_frames = self.idle_frames.min(0);
    }

    /// `bytes` of a body are on their way.
    #[inline]
    pub fn sent(&mut self, bytes: i64) {
        self.idle_frames = (self.idle_frames - bytes / BYTES_PER_GRANT - 1).max(-MAX_GRANTS);
    }

    /// A frame has arrived; whether it brings a request forward is not known yet.
    ///
    /// # Errors
    /// If there were too many.
    #[inline]
    pub fn frame(&mut self) -> Result<(), ConnectionError> {
        self.idle_frames += 1;
        if self.idle_frames > MAX_IDLE_FRAMES {
            return Err(calm(format!("the server sent {MAX_IDLE_FRAMES} frames in a row that concern no request")));
        }
        Ok(())
    }

    /// The peer made us answer; the answer ends at `end` of our bytes.
    ///
    /// # Errors
    /// If too many wait.
    pub fn answered(&mut self, end: u64) -> Result<(), ConnectionError> {
        self.answers.push_back(end);
        if self.answers.len() > MAX_ANSWERS {
            return Err(calm(format!("the server asks for more than {MAX_ANSWERS} answers at once")));
        }
        Ok(())
    }

    /// Our bytes up to `end` have left.
    #[inline]
    pub fn departed(&mut self, end: u64) {
        while self.answers.front().is_some_and(|&answer| answer <= end) {
            self.answers.pop_front();
        }
    }
}

fn calm(reason: String) -> ConnectionError {
    ConnectionError::new(ErrorCode::ENHANCE_YOUR_CALM, reason)
}
