//! Turns a server's refusal into an error.

use serde_json::Value;

use crate::backend::{ErrorCode, InferError};

/// Bytes of a refusal that are kept for its text.
pub const KEPT_OF_REFUSAL: u64 = 64 * 1024;
/// JSON keys under which servers give the reason: Triton and most others, and servers built on FastAPI.
const WORDS: [&str; 2] = ["error", "detail"];
/// Characters shown of a text that is not JSON.
const SHOWN: usize = 300;

/// The server's refusal in its own words.
pub fn refusal(status: u16, location: &str, body: &[u8]) -> InferError {
    let text = match serde_json::from_slice::<Value>(body) {
        Ok(Value::Object(members)) => WORDS.iter().find_map(|word| members.get(*word)).map(|error| match error {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        }),
        _ => None,
    };
    let mut message = text.unwrap_or_else(|| {
        // In one line: pages of gateways have many.
        let text = String::from_utf8_lossy(&body[..body.len().min(4 * SHOWN)]);
        text.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(SHOWN).collect()
    });
    if !location.is_empty() && (300..400).contains(&status) {
        let words = if message.is_empty() { message } else { format!(". {message}") };
        message = format!("redirected to '{location}', which is not followed; pass the final address with -u{words}");
    }
    if message.is_empty() {
        message.push_str("the server gave no reason");
    }
    InferError::new(ErrorCode::Http(status), message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_keep_the_servers_words() {
        let error = refusal(400, "", br#"{"error":"unexpected shape"}"#);
        assert_eq!((error.code, error.message.as_str()), (ErrorCode::Http(400), "unexpected shape"));
        assert_eq!(refusal(404, "", br#"{"detail":"Not Found"}"#).message, "Not Found");
        assert_eq!(refusal(422, "", br#"{"detail":[{"loc":["body"]}]}"#).message, r#"[{"loc":["body"]}]"#);
        let page = b" <html>\r\n<head><title>502 Bad Gateway</title></head>\r\n</html>\r\n";
        assert_eq!(refusal(502, "", page).message, "<html> <head><title>502 Bad Gateway</title></head> </html>");
        let redirected = refusal(302, "http://x/", b"").message;
        assert!(redirected.contains("http://x/") && redirected.ends_with("with -u"), "{redirected}");
        assert!(refusal(302, "http://x/", b"gone").message.ends_with("with -u. gone"));
        assert_eq!(refusal(500, "", b"").message, "the server gave no reason");
        assert!(refusal(500, "", &[0xff; 10_000]).message.len() <= 4 * SHOWN);
    }
}
