//! [`ReplyReader`]: parses one HTTP/1.x reply from pieces of any size. A pure function over bytes: no sockets.

use std::mem::MaybeUninit;

use crate::http1::chunks::Chunks;
use crate::http1::malformed::Malformed;

/// Longest head of a reply, in bytes.
const MAX_HEAD_BYTES: usize = 64 * 1024;
/// Maximum number of header fields of a reply.
const MAX_HEADERS: usize = 256;
/// Maximum number of interim (1xx) replies before the final one: some servers send one every second of a long answer.
const MAX_INTERIM: u16 = 10_000;

/// How a reply's body is compressed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Encoding {
    /// Not compressed.
    #[default]
    Identity,
    /// gzip.
    Gzip,
    /// zlib.
    Deflate,
    /// An encoding that this program does not know.
    Unknown,
}

/// The head of a reply.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// Status code.
    pub status: u16,
    /// Length of the body's first part, if a field of the protocol above gives it ([`ReplyReader::with_part_length`]).
    pub part_length: Option<u64>,
    /// `Content-Length`, if the body is not chunked.
    pub length: Option<u64>,
    /// Whether the server accepts another request on this connection.
    pub keeps_open: bool,
    /// Compression of the body.
    pub encoding: Encoding,
    /// Where a redirection points; empty otherwise.
    pub location: String,
    /// Whether the body is an event stream (`Content-Type: text/event-stream`).
    pub events: bool,
}

/// What [`ReplyReader::feed`] did with a piece of the reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress<'b> {
    /// Bytes consumed.
    pub taken: usize,
    /// The part of the body among them; may be empty.
    pub body: &'b [u8],
    /// Whether the reply is complete. Bytes that were not consumed belong to no reply.
    pub complete: bool,
}

#[derive(Clone, Debug)]
enum State {
    Head,
    Length(u64),
    Chunked(Chunks),
    UntilClose,
    Complete,
}

/// Parses one reply at a time. After a complete one, [`ReplyReader::reset`] makes it ready for the next.
#[derive(Clone, Debug)]
pub struct ReplyReader {
    state: State,
    head: Head,
    /// The head's bytes so far, if it arrives in pieces.
    pending: Vec<u8>,
    interim: u16,
    body_bytes: u64,
    /// Name of the field that gives the length of the body's first part; empty if there is none.
    part_field: &'static str,
}

impl Default for ReplyReader {
    fn default() -> Self {
        Self::with_part_length("")
    }
}

impl ReplyReader {
    /// Parses replies whose body has a first part, the length of which is in the field `part_field`.
    pub fn with_part_length(part_field: &'static str) -> Self {
        let (state, head) = (State::Head, Head::default());
        Self { state, head, pending: Vec::new(), interim: 0, body_bytes: 0, part_field }
    }

    /// Clears the state for the next reply. Keeps memory.
    pub fn reset(&mut self) {
        self.state = State::Head;
        self.pending.clear();
        self.interim = 0;
        self.body_bytes = 0;
    }

    /// The head, once the final one has arrived.
    pub fn head(&self) -> Option<&Head> {
        if matches!(self.state, State::Head) { None } else { Some(&self.head) }
    }

    /// Whatever the head says, the connection takes no other request.
    pub fn ends_connection(&mut self) {
        self.head.keeps_open = false;
    }

    /// Bytes of the body so far, after transfer coding, before content coding.
    pub fn body_bytes(&self) -> u64 {
        self.body_bytes
    }

    /// Consumes bytes up to the end of the head, or of the next piece of the body; call again with the rest until the
    /// bytes are used up or the reply is complete.
    ///
    /// # Errors
    /// If the bytes are not an HTTP reply; the connection is then of no further use.
    pub fn feed<'b>(&mut self, bytes: &'b [u8]) -> Result<Progress<'b>, Malformed> {
        let (taken, body) = match &mut self.state {
            State::Head => (self.feed_head(bytes)?, &bytes[..0]),
            State::Length(left) => {
                let length = usize::try_from(*left).unwrap_or(usize::MAX).min(bytes.len());
                *left -= length as u64;
                (length, &bytes[..length])
            }
            State::Chunked(chunks) => chunks.feed(bytes)?,
            State::UntilClose => (bytes.len(), bytes),
            State::Complete => (0, &bytes[..0]),
        };
        self.body_bytes += body.len() as u64;
        let ended = match &self.state {
            State::Length(left) => *left == 0,
            State::Chunked(chunks) => chunks.complete(),
            _ => false,
        };
        if ended {
            self.complete()?;
        }
        Ok(Progress { taken, body, complete: matches!(self.state, State::Complete) })
    }

    /// Handles the end of the connection. `Ok` if that completes the reply.
    ///
    /// # Errors
    /// Says what is missing.
    pub fn end(&mut self) -> Result<(), Malformed> {
        match &self.state {
            State::Complete => Ok(()),
            State::UntilClose => self.complete(),
            State::Head if self.pending.is_empty() => Err(Malformed::new("before any reply")),
            State::Head => Err(Malformed::new("within the head of the reply")),
            State::Length(left) => {
                let all = self.body_bytes + left;
                Err(Malformed::new(format!("after {} of the reply's {all} bytes", self.body_bytes)))
            }
            State::Chunked(_) => {
                Err(Malformed::new(format!("within the chunked reply, after {} bytes of it", self.body_bytes)))
            }
        }
    }

    fn complete(&mut self) -> Result<(), Malformed> {
        self.state = State::Complete;
        self.check_part_length(Some(self.body_bytes))
    }

    /// Returns how many of `bytes` belong to the head.
    fn feed_head(&mut self, bytes: &[u8]) -> Result<usize, Malformed> {
        let before = self.pending.len();
        if before == 0 {
            if let Some((head, length)) = parse_head(bytes, self.part_field)? {
                return self.begin(head, length);
            }
            self.pending.extend_from_slice(bytes);
        } else {
            self.pending.extend_from_slice(bytes);
            if holds_blank_line(&self.pending[before.saturating_sub(3)..])
                && let Some((head, length)) = parse_head(&self.pending, self.part_field)?
            {
                self.pending.clear();
                return self.begin(head, length - before);
            }
        }
        if self.pending.len() > MAX_HEAD_BYTES {
            return Err(Malformed::new(format!("the head of the reply is longer than {MAX_HEAD_BYTES} bytes")));
        }
        Ok(bytes.len())
    }

    fn begin(&mut self, parsed: ParsedHead, taken: usize) -> Result<usize, Malformed> {
        let status = parsed.head.status;
        if (100..200).contains(&status) {
            self.interim += 1;
            if status == 101 || self.interim > MAX_INTERIM {
                return Err(Malformed::new("the server switched protocols, or sent interim replies without end"));
            }
            return Ok(taken);
        }
        self.state = match (status, parsed.chunked, parsed.head.length) {
            (204 | 304, ..) => State::Length(0),
            (_, true, _) => State::Chunked(Chunks::new()),
            (_, false, Some(length)) => State::Length(length),
            (_, false, None) => State::UntilClose,
        };
        self.head = parsed.head;
        if matches!(self.state, State::UntilClose) {
            self.head.keeps_open = false;
        }
        self.check_part_length(self.head.length)?;
        Ok(taken)
    }

    fn check_part_length(&self, body: Option<u64>) -> Result<(), Malformed> {
        match (self.head.part_length, body) {
            (Some(part), Some(all)) if part > all && self.head.encoding == Encoding::Identity => {
                Err(Malformed::new(format!("{} is {part}, but the body has only {all} bytes", self.part_field)))
            }
            _ => Ok(()),
        }
    }
}

fn holds_blank_line(bytes: &[u8]) -> bool {
    bytes.windows(2).any(|pair| pair == b"\n\n") || bytes.windows(3).any(|three| three == b"\n\r\n")
}

struct ParsedHead {
    head: Head,
    chunked: bool,
    /// One of its `Connection` fields says that it is the last on its connection.
    closes: bool,
}

/// Why bytes that are no head of HTTP/1 are refused.
pub const NOT_HTTP: &str = "not an HTTP/1 reply";
/// The same of a server that wants an encrypted connection, as an alert of TLS says (RFC 8446, section 5.1).
pub const IS_TLS: &str = "not an HTTP/1 reply: the server speaks TLS";
/// How an alert begins: its type, and the major version of every TLS.
const TLS_ALERT: [u8; 2] = [21, 3];

/// The head at the start of `bytes` and its length, or `None` if it is not complete.
fn parse_head(bytes: &[u8], part_field: &str) -> Result<Option<(ParsedHead, usize)>, Malformed> {
    // Only the fields that there are get written: as many empty ones would take longer than the rest.
    let mut fields = [const { MaybeUninit::uninit() }; MAX_HEADERS];
    let mut response = httparse::Response::new(&mut []);
    let mut parser = httparse::ParserConfig::default();
    // A client must take fields that go on in the next line (RFC 9112, section 5.2).
    parser.allow_obsolete_multiline_headers_in_responses(true);
    // Proxies take such blanks away (RFC 9112, section 5.1); not every server has one in front of it.
    parser.allow_spaces_after_header_name_in_responses(true);
    let length = match parser.parse_response_with_uninit_headers(&mut response, bytes, &mut fields) {
        Ok(httparse::Status::Complete(length)) => length,
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(httparse::Error::TooManyHeaders) => {
            return Err(Malformed::new(format!("the reply has more than {MAX_HEADERS} header fields")));
        }
        Err(_) if bytes.starts_with(&TLS_ALERT) => return Err(Malformed::new(IS_TLS)),
        Err(error) => return Err(Malformed::new(format!("{NOT_HTTP}: {error}"))),
    };
    let head =
        Head { status: response.code.unwrap_or_default(), keeps_open: response.version == Some(1), ..Head::default() };
    let mut parsed = ParsedHead { head, chunked: false, closes: false };
    for field in response.headers.iter() {
        parsed.take(field.name, field.value, part_field)?;
    }
    parsed.head.keeps_open &= !parsed.closes;
    if parsed.chunked {
        parsed.head.length = None;
    }
    Ok(Some((parsed, length)))
}

impl ParsedHead {
    fn take(&mut self, name: &str, value: &[u8], part_field: &str) -> Result<(), Malformed> {
        let head = &mut self.head;
        match name.len() {
            // Whoever joins repeated fields may repeat the length, too (RFC 9110, 8.6).
            14 if is(name, "Content-Length") => {
                let mut lengths = value.split(|&byte| byte == b',').map(<[u8]>::trim_ascii);
                lengths.try_for_each(|length| set_number(&mut head.length, name, length))
            }
            length if length == part_field.len() && is(name, part_field) => {
                set_number(&mut head.part_length, name, value)
            }
            17 if is(name, "Transfer-Encoding") => {
                let is_chunked = value.eq_ignore_ascii_case(b"chunked");
                self.chunked |= is_chunked;
                // What it is called where there is none (RFC 2616, section 3.6).
                if is_chunked || value.eq_ignore_ascii_case(b"identity") {
                    return Ok(());
                }
                let value = String::from_utf8_lossy(value);
                Err(Malformed::new(format!("transfer encoding '{value}' is not understood")))
            }
            10 if is(name, "Connection") => {
                // An application may say one and the server in front of it the other (RFC 9112, section 9.3).
                self.closes |= has_token(value, b"close");
                head.keeps_open |= has_token(value, b"keep-alive");
                Ok(())
            }
            16 if is(name, "Content-Encoding") => {
                head.encoding = encoding(value);
                Ok(())
            }
            12 if is(name, "Content-Type") => {
                head.events = is_event_stream(value);
                Ok(())
            }
            8 if is(name, "Location") => {
                // It may go on in the next line.
                head.location = String::from_utf8_lossy(value).split_whitespace().collect::<Vec<_>>().join(" ");
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

/// Whether a field has this name, in any case. Most servers use the usual one, which is quickly compared.
#[inline]
fn is(name: &str, usual: &str) -> bool {
    name == usual || name.eq_ignore_ascii_case(usual)
}

/// Whether a content type, with or without parameters, is that of an event stream.
fn is_event_stream(content_type: &[u8]) -> bool {
    const KIND: &[u8] = b"text/event-stream";
    let Some((kind, parameters)) = content_type.split_at_checked(KIND.len()) else { return false };
    kind.eq_ignore_ascii_case(KIND) && matches!(parameters.trim_ascii_start(), [] | [b';', ..])
}

/// The compression that a content encoding names. Whatever is none says nothing, as clients have it: applications write `none` to
/// keep the server in front of them from compressing their events, and some a set of characters.
fn encoding(value: &[u8]) -> Encoding {
    const COMPRESSED: [(&str, Encoding); 11] = [
        ("gzip", Encoding::Gzip),
        ("x-gzip", Encoding::Gzip),
        ("deflate", Encoding::Deflate),
        ("br", Encoding::Unknown),
        ("zstd", Encoding::Unknown),
        ("compress", Encoding::Unknown),
        ("x-compress", Encoding::Unknown),
        ("lzma", Encoding::Unknown),
        ("xz", Encoding::Unknown),
        ("dcb", Encoding::Unknown),
        ("dcz", Encoding::Unknown),
    ];
    let named = |token: &[u8]| {
        let found = COMPRESSED.iter().find(|(name, _)| token.trim_ascii().eq_ignore_ascii_case(name.as_bytes()));
        found.map(|(_, encoding)| *encoding)
    };
    let mut codings = value.split(|&byte| byte == b',').filter_map(named);
    match (codings.next(), codings.next()) {
        (None, _) => Encoding::Identity,
        (Some(alone), None) => alone,
        // One within the other.
        (Some(_), Some(_)) => Encoding::Unknown,
    }
}

fn has_token(list: &[u8], token: &[u8]) -> bool {
    list.split(|&byte| byte == b',').any(|item| item.trim_ascii().eq_ignore_ascii_case(token))
}

/// Parses a length that may occur twice only with the same value.
fn set_number(slot: &mut Option<u64>, name: &str, value: &[u8]) -> Result<(), Malformed> {
    let digit = |number: u64, byte: &u8| {
        let digit = byte.wrapping_sub(b'0');
        if digit < 10 { number.checked_mul(10)?.checked_add(digit.into()) } else { None }
    };
    let number = if value.is_empty() { None } else { value.iter().try_fold(0, digit) };
    match (number, *slot) {
        (None, _) => {
            Err(Malformed::new(format!("{name} is '{}', which is not a length", String::from_utf8_lossy(value))))
        }
        (Some(new), Some(old)) if new != old => Err(Malformed::new(format!("{name} is both {old} and {new}"))),
        (number, _) => {
            *slot = number;
            Ok(())
        }
    }
}

#[cfg(test)]
#[path = "reader_tests.rs"]
mod tests;
