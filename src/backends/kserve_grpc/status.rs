//! How a call ended, in gRPC's codes (<https://grpc.github.io/grpc/core/md_doc_statuscodes.html>).

use crate::backend::InferError;
use crate::wire::h2::{ErrorCode, GoAway, HeaderList, Reset};

/// Words for the codes from 1. Where Triton has an error of the same meaning it is Triton's word, so that a failure has
/// one name over every transport.
const WORDS: [&str; 16] = [
    InferError::CANCELLED,
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
/// The request was given up by us.
pub const CANCELLED: &str = WORDS[0];
/// The answer did not come in time.
pub const LATE: &str = WORDS[3];
/// The server takes no calls.
pub const UNAVAILABLE: &str = WORDS[13];

/// An error with one of the words above.
pub fn error(word: &str, message: impl Into<String>) -> InferError {
    InferError { code: word.to_owned(), message: message.into() }
}

/// What trailers say: `Ok` for success. `None` where they hold no status.
pub fn of_trailers(headers: &HeaderList) -> Option<Result<(), InferError>> {
    let code = headers.get("grpc-status")?;
    if code == b"0" {
        return Some(Ok(()));
    }
    let text = String::from_utf8_lossy(code);
    let message = headers.get("grpc-message").map(percent_decoded).unwrap_or_default();
    let word = text.parse::<usize>().ok().and_then(|code| WORDS.get(code.checked_sub(1)?));
    Some(Err(match word {
        Some(word) => error(word, message),
        None => error("Unknown", format!("status {text}: {message}")),
    }))
}

/// What an HTTP status other than 200 means for a call that has no gRPC status.
pub fn of_http(status: &[u8]) -> InferError {
    let word = match status {
        b"400" => "Internal",
        b"401" => "Unauthenticated",
        b"403" => "Permission denied",
        b"404" => "Unsupported",
        b"429" | b"502" | b"503" | b"504" => UNAVAILABLE,
        _ => "Unknown",
    };
    error(word, format!("HTTP status {} without a gRPC status", String::from_utf8_lossy(status)))
}

/// The server takes no requests any more on a connection.
pub fn of_goaway(goaway: &GoAway) -> InferError {
    let text = if goaway.text.is_empty() { "no reason given" } else { &goaway.text };
    let message = format!(
        "the server takes no further requests on this connection: GOAWAY {}, {text}; --reconnect makes another",
        goaway.code
    );
    error(UNAVAILABLE, message)
}

/// What a stream that is gone means for its call.
pub fn of_reset(why: Reset<'_>) -> InferError {
    let code = match why {
        Reset::Code(code) => code,
        Reset::GoAway(goaway) => return of_goaway(goaway),
    };
    let word = match code {
        ErrorCode::REFUSED_STREAM => UNAVAILABLE,
        ErrorCode::CANCEL => CANCELLED,
        ErrorCode::ENHANCE_YOUR_CALM => "Resource exhausted",
        ErrorCode::INADEQUATE_SECURITY => "Permission denied",
        _ => "Stream reset",
    };
    error(word, format!("the server reset the stream with {code}"))
}

/// Undoes the escapes of `grpc-message`; what is no escape stays as it is.
fn percent_decoded(text: &[u8]) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&first, after)) = rest.split_first() {
        let escaped = (first == b'%').then(|| after.get(..2)).flatten();
        let digits = escaped.filter(|digits| digits.iter().all(u8::is_ascii_hexdigit));
        let digits = digits.and_then(|digits| std::str::from_utf8(digits).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[2..];
            }
            None => {
                bytes.push(first);
                rest = after;
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
        assert_eq!(of_reset(Reset::Code(ErrorCode::REFUSED_STREAM)).code, "Unavailable");
        assert_eq!(of_reset(Reset::Code(ErrorCode(2))).code, "Stream reset");
        assert_eq!(of_http(b"503").code, "Unavailable");
        assert!(of_http(b"418").message.contains("418"));
    }
}
