//! Error answers of a service.

use serde_json::Value;

use crate::backend::{ErrorCode, InferError};
use crate::engine::http1;

/// Maximum bytes of a server's text to keep.
const KEPT: usize = 1024;

/// An answer with an error status: its error's type and message if it has them, else the beginning of the body.
pub(super) fn of_status(status: u16, location: &str, body: &[u8]) -> InferError {
    let reason = serde_json::from_slice::<Value>(body).ok().and_then(|document| text(&document));
    match reason {
        Some(message) => InferError::new(ErrorCode::Http(status), message),
        None => http1::refusal(status, location, &body[..body.len().min(KEPT)]),
    }
}

/// An error that arrived instead of content.
pub(super) fn of_document(document: &[u8]) -> InferError {
    let reason = serde_json::from_slice::<Value>(document).ok().and_then(|document| text(&document));
    InferError::new("Error response", reason.unwrap_or_else(|| shortened(&String::from_utf8_lossy(document))))
}

/// `type: message` of a document that reports an error, in any of the forms in use.
fn text(document: &Value) -> Option<String> {
    let members = document.as_object()?;
    let error = members.get("error").filter(|error| !error.is_null()).unwrap_or(document);
    let word = |name: &str| error.get(name).and_then(Value::as_str).filter(|word| !word.is_empty());
    let reason = match (error, word("type"), word("message").or(word("detail"))) {
        (Value::String(text), ..) => text.clone(),
        (_, Some(kind), Some(message)) => format!("{kind}: {message}"),
        (_, None, Some(message)) => message.to_owned(),
        (_, Some(kind), None) => kind.to_owned(),
        (_, None, None) => error.to_string(),
    };
    Some(shortened(&reason))
}

fn shortened(text: &str) -> String {
    let end = (0..=text.len().min(KEPT)).rev().find(|&end| text.is_char_boundary(end)).unwrap_or(0);
    text[..end].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_told_by_type_and_message() {
        for (body, expected) in [
            (
                r#"{"error":{"message":"too long","type":"invalid_request_error","code":400}}"#,
                "invalid_request_error: too long",
            ),
            (r#"{"object":"error","message":"no","type":"BadRequest"}"#, "BadRequest: no"),
            (r#"{"error":"busy"}"#, "busy"),
            (r#"{"detail":"Not Found"}"#, "Not Found"),
            (r#"{"error":{"code":7}}"#, r#"{"code":7}"#),
            ("<html>bad gateway</html>", "<html>bad gateway</html>"),
            ("", "the server gave no reason"),
        ] {
            let error = of_status(400, "", body.as_bytes());
            assert_eq!((error.code, error.message.as_str()), (ErrorCode::Http(400), expected));
        }
        assert!(of_status(302, "http://x/", b"").message.contains("http://x/"));
        let long = format!(r#"{{"error":"{}"}}"#, "é".repeat(5000));
        assert_eq!(of_document(long.as_bytes()).message.len(), KEPT);
    }
}
