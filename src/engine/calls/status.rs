//! How a call ended, in gRPC's codes (<https://grpc.github.io/grpc/core/md_doc_statuscodes.html>).

use crate::backend::{ErrorCode, InferError};
use crate::wire::h2::{self, GoAway, HeaderList, Reset};

/// Words for the codes from 1. If Triton has an error of the same meaning its word is used, so that a failure has one
/// name over every transport.
const WORDS: [&str; 16] = [
    "Cancelled",
    "Unknown",
    "Invalid argument",
    "Deadline exceeded",
    "Not found",
    "Already exists",
    "Permission denied",
    "Resource exhausted",
    "Failed precondition",
    "Aborted",
    "Out of range",
    "Unsupported",
    "Internal",
    "Unavailable",
    "Data loss",
    "Unauthenticated",
];

/// A call's answer broke the rules of gRPC.
pub const BROKEN: &str = "Protocol error";
/// Why an answer cannot be one.
pub const EARLY: &str = "the server answered before the whole request was sent";
/// The server does not have the method.
pub const UNIMPLEMENTED: &str = WORDS[11];
/// The caller may not.
pub const PERMISSION_DENIED: &str = WORDS[6];
/// The server does not know the caller.
pub const UNAUTHENTICATED: &str = WORDS[15];
/// The server does not accept calls.
pub const UNAVAILABLE: &str = WORDS[13];

/// An error with that code.
pub fn error(code: impl Into<ErrorCode>, message: impl Into<String>) -> InferError {
    InferError::new(code, message)
}

/// The meaning of a gRPC status number; `None` if gRPC does not define it.
fn code(number: usize) -> Option<ErrorCode> {
    match number {
        1 => Some(ErrorCode::Cancelled),
        4 => Some(ErrorCode::Late),
        number => WORDS.get(number.checked_sub(1)?).map(|&word| word.into()),
    }
}

/// The status in the trailers: `Ok` for success. `None` if they hold no status.
pub fn of_trailers(headers: &HeaderList) -> Option<Result<(), InferError>> {
    let mut codes = headers.all("grpc-status");
    let code = codes.next()?;
    if let Some(other) = codes.find(|other| *other != code) {
        let [first, second] = [code, other].map(String::from_utf8_lossy);
        return Some(Err(error(BROKEN, format!("the answer has the statuses {first} and {second} at once"))));
    }
    if code == b"0" {
        return Some(Ok(()));
    }
    let text = String::from_utf8_lossy(code);
    let message = headers.get("grpc-message").map(percent_decoded).filter(|message| !message.is_empty());
    let message = message.unwrap_or_else(|| "the server gives no reason".to_owned());
    Some(Err(match text.parse().ok().and_then(self::code) {
        Some(code) => error(code, message),
        None => error("Unknown", format!("status {text}: {message}")),
    }))
}

/// The content type of an answer that is none of gRPC's.
pub fn other_content(headers: &HeaderList) -> Option<&[u8]> {
    headers.get("content-type").filter(|content| !content.starts_with(b"application/grpc"))
}

/// The error of an answer whose `content` is of another type than gRPC's.
pub fn of_content(content: &[u8]) -> InferError {
    let content = String::from_utf8_lossy(content);
    error(BROKEN, format!("the answer's content-type is {content}, so what answers is no gRPC server"))
}

/// What an HTTP status other than 200 means for a call that has no gRPC status; `content` is the answer's type, if that is
/// none of gRPC's.
pub fn of_http(status: &[u8], content: Option<&[u8]>) -> InferError {
    let word = match status {
        b"400" => "Internal",
        b"401" => "Unauthenticated",
        b"403" => "Permission denied",
        b"404" => "Unsupported",
        b"429" | b"502" | b"503" | b"504" => UNAVAILABLE,
        _ => "Unknown",
    };
    let content = content.map(|content| format!(", with content-type {}", String::from_utf8_lossy(content)));
    let status = String::from_utf8_lossy(status);
    error(word, format!("HTTP status {status} without a gRPC status{}", content.unwrap_or_default()))
}

/// The error of requests on a connection on which the server accepts no more.
pub fn of_goaway(goaway: &GoAway) -> InferError {
    let text = if goaway.text.is_empty() { "no reason given" } else { &goaway.text };
    let message = format!("the server takes no further requests on this connection: GOAWAY {}, {text}", goaway.code);
    error(UNAVAILABLE, message)
}

/// The error of a call whose stream was reset.
pub fn of_reset(why: Reset<'_>) -> InferError {
    let code = match why {
        Reset::Code(code) => code,
        Reset::GoAway(goaway) => return of_goaway(goaway),
    };
    let kind = match code {
        h2::ErrorCode::REFUSED_STREAM => UNAVAILABLE.into(),
        h2::ErrorCode::CANCEL => ErrorCode::Cancelled,
        h2::ErrorCode::ENHANCE_YOUR_CALM => "Resource exhausted".into(),
        h2::ErrorCode::INADEQUATE_SECURITY => "Permission denied".into(),
        _ => "Stream reset".into(),
    };
    error(kind, format!("the server reset the stream with {code}"))
}

/// Undoes the escapes of `grpc-message`; invalid escapes stay as they are.
fn percent_decoded(text: &[u8]) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut remaining = text;
    while let Some((&first, after)) = remaining.split_first() {
        let escaped = (first == b'%').then(|| after.get(..2)).flatten();
        let digits = escaped.filter(|digits| digits.iter().all(u8::is_ascii_hexdigit));
        let digits = digits.and_then(|digits| std::str::from_utf8(digits).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                remaining = &after[2..];
            }
            None => {
                bytes.push(first);
                remaining = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_unescaped_and_bad_escapes_survive() {
        assert_eq!(percent_decoded(b"a%20b%25%E4%BD%A0"), "a b%\u{4f60}");
        assert_eq!(percent_decoded(b"100% %2 %zz%"), "100% %2 %zz%");
        assert_eq!(percent_decoded(b"%+1%ff"), "%+1\u{fffd}");
    }

    #[test]
    fn resets_and_http_statuses_have_words() {
        assert_eq!(of_reset(Reset::Code(h2::ErrorCode::REFUSED_STREAM)).code, "Unavailable".into());
        assert_eq!(of_reset(Reset::Code(h2::ErrorCode(2))).code, "Stream reset".into());
        assert_eq!(of_http(b"503", None).code, "Unavailable".into());
        assert!(of_http(b"418", None).message.ends_with("418 without a gRPC status"));
        assert!(of_http(b"404", Some(b"text/html")).message.ends_with("with content-type text/html"));
    }
}
