//! Error answers of a service.

use serde::de::IgnoredAny;
use serde_json::{Deserializer, Value};

use crate::backend::{ErrorCode, InferError};
use crate::engine::{http1, malformed};

/// Maximum bytes of a server's text to keep.
const KEPT: usize = 1024;

/// An answer with an error status: its error's type and message if it has them, else the beginning of the body. Where a redirection
/// points to is told in any case.
pub(super) fn of_status(status: u16, location: &str, body: &[u8]) -> InferError {
    if (300..400).contains(&status) && !location.is_empty() {
        // Often but for a slash at the end of the path.
        let advice = "which is not followed; pass the final address with -u and --endpoint";
        return InferError::new(ErrorCode::Http(status), format!("redirected to '{location}', {advice}"));
    }
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

/// A body that is not JSON.
pub(super) fn no_json(body: &[u8], error: &serde_json::Error) -> InferError {
    let documents = Deserializer::from_slice(body).into_iter::<IgnoredAny>().map_while(Result::ok).take(2);
    let are_lines = documents.count() == 2 && body.trim_ascii_start().starts_with(b"{");
    let advice = match are_lines {
        true => "; it is JSON lines, as of Ollama's own API: its /v1/chat/completions streams as OpenAI does",
        false => "",
    };
    malformed(format!("its body is not JSON: {error}{advice}"))
}

/// `type: message` of a document that reports an error, in any of the forms in use.
fn text(document: &Value) -> Option<String> {
    let members = document.as_object()?;
    let is_there = |error: &&Value| !error.is_null();
    // The Responses API tells why a response has failed in the response itself.
    let of_response = || members.get("response")?.get("error").filter(is_there);
    let error = members.get("error").filter(is_there).or_else(of_response).unwrap_or(document);
    let word = |name: &str| error.get(name).and_then(Value::as_str).filter(|word| !word.is_empty());
    // The type of an event that is an error says no more than that; its kind is in another member.
    let kind = word("type").filter(|kind| *kind != "error").or(word("code"));
    let reason = match (error, kind, word("message").or(word("detail"))) {
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
    fn json_lines_are_told_from_other_bodies() {
        let told = |body: &str| {
            let error = serde_json::from_str::<IgnoredAny>(body).unwrap_err();
            no_json(body.as_bytes(), &error).message
        };
        let lines = "{\"message\":{\"content\":\"a\"},\"done\":false}\n{\"done\":true}\n";
        assert!(told(lines).ends_with("its /v1/chat/completions streams as OpenAI does"), "{}", told(lines));
        assert!(told(lines).contains("its body is not JSON: trailing characters"), "{}", told(lines));
        for other in ["hello", "{\"a\":1} x", "1 2", "{\"a\":"] {
            assert!(!told(other).contains("Ollama"), "{other}");
        }
    }

    #[test]
    fn errors_are_told_by_type_and_message() {
        for (body, expected) in [
            (
                r#"{"error":{"message":"too long","type":"invalid_request_error","code":400}}"#,
                "invalid_request_error: too long",
            ),
            (r#"{"object":"error","message":"no","type":"BadRequest"}"#, "BadRequest: no"),
            (r#"{"error":"busy"}"#, "busy"),
            (r#"{"type":"error","code":"server_error","message":"down","param":null}"#, "server_error: down"),
            (r#"{"type":"error","code":null,"message":"down"}"#, "down"),
            (
                r#"{"type":"response.failed","response":{"status":"failed","error":{"code":"server_error","message":"down"}}}"#,
                "server_error: down",
            ),
            (r#"{"type":"response.failed","response":{"error":null}}"#, "response.failed"),
            (r#"{"detail":"Not Found"}"#, "Not Found"),
            (r#"{"error":{"code":7}}"#, r#"{"code":7}"#),
            ("<html>bad gateway</html>", "<html>bad gateway</html>"),
            ("", "the server gave no reason"),
        ] {
            let error = of_status(400, "", body.as_bytes());
            assert_eq!((error.code, error.message.as_str()), (ErrorCode::Http(400), expected));
        }
        for body in [&b""[..], br#"{"detail":"Temporary Redirect"}"#] {
            let moved = of_status(307, "http://x/v1/chat", body).message;
            assert!(moved.contains("'http://x/v1/chat'") && moved.ends_with("with -u and --endpoint"), "{moved}");
        }
        let long = format!(r#"{{"error":"{}"}}"#, "é".repeat(5000));
        assert_eq!(of_document(long.as_bytes()).message.len(), KEPT);
    }
}
