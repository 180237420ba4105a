//! Single calls of the control plane: one at a time over a connection of their own, each waited for.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use crate::backend::InferError;
use crate::backends::grpc::h2::{Encoder, ErrorCode, Events, HeaderList, Message, Reset, Token};
use crate::backends::grpc::line::{CONNECT_LIMIT, Line};
use crate::backends::grpc::message::{self, MessageReader};
use crate::backends::grpc::metadata::CallHeaders;
use crate::backends::grpc::status::{self, BROKEN, LATE};
use crate::backends::net::Connector;
use crate::clock::Stamp;
use crate::plan::Compression;

/// How long a call may take while a run is set up. Nothing here waits for an inference, but the server may be busy with them.
pub const CALL_LIMIT: Duration = Duration::from_secs(10);
/// How long a call may take between windows, and when a run ends: a server that has died must not hold up the report.
pub const SAMPLE_LIMIT: Duration = Duration::from_millis(1500);

/// Least time to connect in.
const SHORTEST_LIMIT: Duration = Duration::from_millis(10);

/// Makes single calls.
pub struct Control {
    connector: Arc<Connector>,
    headers: CallHeaders,
    line: Mutex<Option<Line>>,
}

impl Control {
    /// For calls with `headers` over connections that `connector` makes.
    pub fn new(connector: Arc<Connector>, headers: CallHeaders) -> Self {
        Self { connector, headers, line: Mutex::new(None) }
    }

    /// The server's address, for messages.
    pub fn address(&self) -> String {
        self.connector.endpoint().to_string()
    }

    /// Calls `method` and waits for its answer, for at most `limit`.
    ///
    /// # Errors
    /// What the server answers, or why it does not.
    pub fn call<Q: prost::Message, A: prost::Message + Default>(
        &self,
        method: &str,
        request: &Q,
        limit: Duration,
    ) -> Result<A, InferError> {
        let fields = self.headers.fields(method, Compression::None, Some(limit));
        let encoded = request.encode_to_vec();
        let mut body = message::prefix(false, encoded.len()).to_vec();
        body.extend_from_slice(&encoded);
        let block = Encoder::literal(&fields);
        let deadline = Stamp::now().plus_duration(limit);
        let mut held = self.line.lock();
        // A connection that was idle may have been closed meanwhile; a fresh one tells the truth.
        if let Some(mut line) = held.take()
            && let Ok(answer) = exchange(&mut line, &block, &body, deadline)
        {
            *held = Some(line);
            return read(answer);
        }
        let left = deadline.from_now().min(CONNECT_LIMIT);
        let mut line = Line::connect(&self.connector, left.max(SHORTEST_LIMIT))?;
        let answer = exchange(&mut line, &block, &body, deadline)?;
        *held = Some(line);
        read(answer)
    }
}

fn read<A: prost::Message + Default>(answer: Answer) -> Result<A, InferError> {
    let message = answer.outcome.unwrap_or_else(|| Err(status::error(BROKEN, "the call ended without a status")))?;
    A::decode(&message[..]).map_err(|error| status::error(BROKEN, format!("the server's answer is malformed: {error}")))
}

/// Sends one request and waits until its stream has ended. An error means that the connection is of no use.
fn exchange(line: &mut Line, block: &[u8], body: &[u8], deadline: Stamp) -> Result<Answer, InferError> {
    if !line.h2.can_open() {
        return Err(status::error(status::UNAVAILABLE, "the server takes no calls on this connection"));
    }
    let token = Token(0);
    let stream = line.h2.open(token, block);
    line.h2.send(stream, Message { token, head: body, parts: &[], end: true });
    let mut answer = Answer::default();
    while answer.outcome.is_none() {
        line.flush(|_| ())?;
        line.wait(deadline)?;
        if line.fill()? {
            line.process(&mut answer)?;
        } else if Stamp::now() >= deadline {
            line.h2.reset(stream, ErrorCode::CANCEL);
            line.flush(|_| ())?;
            return Err(status::error(LATE, "the server did not answer in time"));
        }
    }
    line.flush(|_| ())?;
    Ok(answer)
}

/// What is known of the one call.
#[derive(Default)]
struct Answer {
    reader: MessageReader,
    message: Vec<u8>,
    failure: Option<InferError>,
    outcome: Option<Result<Vec<u8>, InferError>>,
}

impl Answer {
    fn end(&mut self, trailers: Option<&HeaderList>) {
        let status = trailers.and_then(status::of_trailers);
        let failure = self.failure.take();
        let outcome = match (status, failure) {
            (Some(Err(error)), _) | (_, Some(error)) => Err(error),
            (Some(Ok(())), None) => Ok(std::mem::take(&mut self.message)),
            (None, None) => Err(status::error(BROKEN, "the call ended without a status")),
        };
        self.outcome = Some(outcome);
    }
}

impl Events for Answer {
    fn headers(&mut self, _: Token, headers: &HeaderList, end: bool) {
        match headers.get(":status") {
            Some([b'1', ..]) if !end => return,
            Some(b"200") | None => {}
            Some(status) => self.failure = Some(status::of_http(status)),
        }
        if end {
            self.end(Some(headers));
        }
    }

    fn data(&mut self, _: Token, mut bytes: &[u8], end: bool) {
        loop {
            match self.reader.next(&mut bytes, true) {
                Ok(Some(arrived)) if arrived.compressed => {
                    self.failure =
                        Some(status::error(BROKEN, "an answer is compressed although that was not asked for"));
                }
                Ok(Some(arrived)) => self.message = arrived.bytes.unwrap_or_default().to_vec(),
                Ok(None) => break,
                Err(reason) => {
                    self.failure = Some(status::error(BROKEN, reason));
                    break;
                }
            }
        }
        if end {
            self.end(None);
        }
    }

    fn reset(&mut self, _: Token, why: Reset<'_>) {
        self.outcome = Some(Err(status::of_reset(why)));
    }
}
