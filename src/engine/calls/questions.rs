//! [`Questions`]: single calls beside the load, such as metadata and statistics: one at a time over a separate
//! connection, each waited for.

use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use crate::backend::{ErrorCode, InferError};
use crate::calls::headers::CallHeaders;
use crate::calls::socket::{CONNECT_LIMIT, Http2Socket, NoEvents};
use crate::calls::status::{self, BROKEN};
use crate::wire::grpc::{self, MessageReader, Wish};
use crate::wire::h2::{self, Encoder, Events, HeaderList, Message, Reset, Token};
use crate::{Connector, Deadline, failure};

/// Makes single calls.
pub struct Questions {
    connector: Arc<Connector>,
    headers: CallHeaders,
    line: Mutex<Option<Http2Socket>>,
}

impl Questions {
    /// Calls use `headers` and connections made by `connector`.
    pub fn new(connector: Arc<Connector>, headers: CallHeaders) -> Self {
        Self { connector, headers, line: Mutex::new(None) }
    }

    /// The server's address, for messages.
    pub fn address(&self) -> String {
        self.connector.endpoint().to_string()
    }

    /// Calls `method` with a message and waits for the answer, of at most `most` bytes, for at most `limit` in all,
    /// even if bytes keep arriving, and not for long after an interrupt.
    ///
    /// # Errors
    /// The server's error, or why there is no answer.
    pub fn ask(&self, method: &str, message: &[u8], most: u64, limit: Duration) -> Result<Vec<u8>, InferError> {
        let fields = self.headers.fields(method, None, Some(limit));
        let mut body = grpc::prefix(false, message.len()).to_vec();
        body.extend_from_slice(message);
        let block = &Encoder::literal(&fields);
        let call = SingleCall { block, body: &body, most, deadline: Deadline::within(limit) };
        let mut held = self.line.try_lock_for(limit).ok_or_else(late)?;
        // An idle connection may have been closed meanwhile; retry on a fresh one before giving up.
        if let Some(mut line) = held.take() {
            match call.exchange(&mut line) {
                Ok(answer) => {
                    *held = Some(line);
                    return answer;
                }
                Err(error) if call.deadline.check().is_err() => return Err(error),
                Err(_) => {}
            }
        }
        let mut line = Http2Socket::connect(&self.connector, call.deadline.at_most(CONNECT_LIMIT))?;
        call.await_room(&mut line)?;
        let answer = call.exchange(&mut line)?;
        *held = Some(line);
        answer
    }
}

fn no_room() -> InferError {
    status::error(status::UNAVAILABLE, "the server takes no calls on this connection")
}

fn late() -> InferError {
    status::error(ErrorCode::Late, "the server did not answer in time")
}

/// Why there is no answer.
fn unanswered(error: &io::Error) -> InferError {
    if error.kind() == ErrorKind::TimedOut { late() } else { failure(error) }
}

/// A call, ready to be made.
struct SingleCall<'a> {
    block: &'a [u8],
    body: &'a [u8],
    /// Largest answer, in bytes.
    most: u64,
    deadline: Deadline,
}

impl SingleCall<'_> {
    /// Waits until a new connection takes a call: a server may allow none at first.
    fn await_room(&self, line: &mut Http2Socket) -> Result<(), InferError> {
        while !line.h2.can_open() {
            if line.h2.goaway().is_some() {
                return Err(no_room());
            }
            line.flush(|_| ())?;
            let filled = line.fill()?;
            if filled {
                line.process(&mut NoEvents)?;
            }
            line.await_bytes(filled, self.deadline).map_err(|_| no_room())?;
        }
        Ok(())
    }

    /// Sends the request and waits until its stream has ended; returns the answer's message, or the error in its place.
    /// An outer error means that the connection is of no further use, and that there is no answer.
    fn exchange(&self, line: &mut Http2Socket) -> Result<Result<Vec<u8>, InferError>, InferError> {
        // A connection that was idle may have got the server's farewell.
        let mut filled = line.fill()?;
        if filled {
            line.process(&mut NoEvents)?;
        }
        if !line.h2.can_open() {
            return Err(no_room());
        }
        let token = Token(0);
        let stream = line.h2.open(token, self.block);
        line.h2.send(stream, Message { token, head: self.body, parts: &[], end: true });
        let mut reply = Reply { most: self.most, ..Reply::default() };
        let outcome = loop {
            line.flush(|_| ())?;
            if let Err(error) = line.await_bytes(filled && line.may_hold_more(), self.deadline) {
                break Err(unanswered(&error));
            }
            filled = line.fill()?;
            if filled {
                line.process(&mut reply)?;
            }
            if let Some(untaken) = reply.untaken.take() {
                return Err(untaken);
            }
            if let Some(outcome) = reply.outcome.take() {
                break Ok(outcome);
            }
        };
        // Does nothing if the stream has ended.
        line.h2.reset(stream, h2::ErrorCode::CANCEL);
        line.flush(|_| ())?;
        outcome
    }
}

/// The state of the one call.
#[derive(Default)]
struct Reply {
    most: u64,
    reader: MessageReader,
    message: Option<Vec<u8>>,
    failure: Option<InferError>,
    /// The server leaves the connection and has not looked at the call.
    untaken: Option<InferError>,
    /// The message, or why there is none. Later events do not change it.
    outcome: Option<Result<Vec<u8>, InferError>>,
}

impl Reply {
    fn end(&mut self, trailers: Option<&HeaderList>) {
        let missing = |part: &str| status::error(BROKEN, format!("the call ended without {part}"));
        let status = trailers.and_then(status::of_trailers);
        let outcome = match (status, self.failure.take()) {
            (Some(Err(error)), _) | (_, Some(error)) => Err(error),
            (Some(Ok(())), None) => self.message.take().ok_or_else(|| missing("an answer")),
            (None, None) => Err(missing("a status")),
        };
        self.outcome.get_or_insert(outcome);
    }

    fn take(&mut self, mut bytes: &[u8]) -> Result<(), String> {
        let wish = Wish { keep: true, limit: self.most };
        while let Some(arrived) = self.reader.next(&mut bytes, wish)? {
            if arrived.compressed {
                return Err("an answer is compressed although that was not asked for".to_owned());
            }
            if self.message.is_some() {
                return Err("the server answered one call with several messages".to_owned());
            }
            self.message = arrived.bytes.map(<[u8]>::to_vec);
        }
        Ok(())
    }
}

impl Events for Reply {
    fn headers(&mut self, _: Token, headers: &HeaderList, end: bool) {
        match headers.get(":status") {
            Some([b'1', ..]) if !end => return,
            Some(b"200") | None => self.failure = status::other_content(headers).map(status::of_content),
            Some(status) => self.failure = Some(status::of_http(status, status::other_content(headers))),
        }
        if end {
            self.end(Some(headers));
        }
    }

    fn data(&mut self, _: Token, bytes: &[u8], end: bool) {
        if self.outcome.is_some() {
            return;
        }
        if let Err(reason) = self.take(bytes) {
            // A page is no message, which headers that refuse the call have said before.
            let refused = self.failure.take();
            self.outcome = Some(Err(refused.unwrap_or_else(|| status::error(BROKEN, reason))));
        } else if end {
            self.end(None);
        }
    }

    fn reset(&mut self, _: Token, why: Reset<'_>) {
        match why {
            Reset::GoAway(_) if self.outcome.is_none() => self.untaken = Some(status::of_reset(why)),
            _ => drop(self.outcome.get_or_insert(Err(status::of_reset(why)))),
        }
    }
}
