//! What happens to a client's connection: bytes in and out, its loss, its replacement.

use std::time::Duration;

use crate::backend::InferError;
use crate::backends::kserve_grpc::client::{GrpcClient, RETRY_PAUSE};
use crate::backends::kserve_grpc::line::Line;
use crate::backends::kserve_grpc::status;
use crate::clock::Stamp;
use crate::wire::h2::{Encoder, ErrorCode};

/// How long making a connection again may take: requests are due meanwhile.
const RECONNECT_LIMIT: Duration = Duration::from_millis(500);

/// Buffers that are read before anything else is looked at: a server that never ends must not keep deadlines from being seen.
const MOST_READS: u32 = 16;

impl GrpcClient {
    /// Makes a new connection in place of one that is gone, if that was asked for.
    pub(super) fn connect_again(&mut self) {
        if self.line.is_some() || !self.plan.reconnect || Stamp::now() < self.retry_at {
            return;
        }
        self.replace_line();
    }

    fn replace_line(&mut self) {
        let started = Stamp::now();
        match Line::connect(&self.plan.connector, RECONNECT_LIMIT) {
            Ok(line) => {
                self.headers = Encoder::new(&self.plan.fields);
                self.line = Some(line);
                self.place.find();
            }
            Err(error) => {
                self.lost = error;
                self.place.lose();
                let now = Stamp::now();
                self.retry_at = now.plus_duration(RETRY_PAUSE.max(now - started));
            }
        }
    }

    /// The connection is gone: nothing on it will be answered.
    pub(super) fn lose(&mut self, error: InferError) {
        self.calls.now = Stamp::now();
        self.calls.fail_all(&error);
        self.queued.clear();
        self.deadlines.clear();
        self.lost = error;
        self.place.lose();
        if let Some(mut line) = self.line.take() {
            line.shutdown();
        }
    }

    /// Writes what can be written.
    pub(super) fn flush(&mut self) {
        let Some(line) = &mut self.line else { return };
        let (calls, mut now) = (&mut self.calls, None);
        let flushed = line.flush(|token| calls.departed(token, *now.get_or_insert_with(Stamp::now)));
        if let Err(error) = flushed {
            self.lose(error);
        }
    }

    /// Takes what has come, but no more than [`MOST_READS`] buffers; tells whether something has.
    pub(super) fn take(&mut self) -> bool {
        let Some(line) = &mut self.line else { return false };
        let mut reads = 0;
        self.unread = false;
        let outcome = loop {
            match line.fill() {
                Ok(true) => {
                    reads += 1;
                    self.calls.now = Stamp::now();
                    if let Err(error) = line.process(&mut self.calls) {
                        break Err(error);
                    }
                    if !line.may_hold_more() {
                        break Ok(());
                    }
                    if reads == MOST_READS {
                        self.unread = true;
                        break Ok(());
                    }
                }
                Ok(false) => break Ok(()),
                Err(error) => break Err(error),
            }
        };
        while let Some(stream) = self.calls.broken.pop() {
            line.h2.reset(stream, ErrorCode::CANCEL);
        }
        if let Err(error) = outcome {
            self.lose(error);
        }
        reads > 0
    }

    /// Acts on a server that takes no further streams, and on used-up stream numbers: what is under way ends first.
    pub(super) fn retire_line(&mut self) {
        let Some(line) = &self.line else { return };
        let exhausted = line.h2.is_exhausted();
        if (line.h2.goaway().is_none() && !exhausted) || line.h2.open_streams() > 0 {
            return;
        }
        if let Some(goaway) = line.h2.goaway() {
            self.lost = status::of_goaway(goaway);
        }
        if let Some(mut line) = self.line.take() {
            line.shutdown();
        }
        if exhausted || self.plan.reconnect {
            self.replace_line();
        } else {
            self.place.lose();
        }
    }
}
