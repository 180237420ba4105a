//! The server's error answers.

use serde::Deserialize;

/// An error as the server writes it.
#[derive(Deserialize)]
struct ErrorJson {
    #[serde(default)]
    code: Option<i64>,
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    message: String,
}

/// Why a request was refused: `TYPE: message`, with the body's code if it has one; `None` if the body is not such an
/// error.
pub fn reason(body: &[u8]) -> Option<String> {
    let ErrorJson { code, kind, message } = serde_json::from_slice(body).ok()?;
    let code = code.map(|code| format!(" (code {code})")).unwrap_or_default();
    let message = if message.is_empty() { "the server gave no reason" } else { &message };
    Some(format!("{kind}: {message}{code}"))
}

/// The answer to a ping.
#[derive(Deserialize)]
struct PingJson {
    status: String,
}

/// Whether an answer to a ping says that no worker runs. Old servers say it with the status of success.
pub fn is_unhealthy(body: &[u8]) -> bool {
    serde_json::from_slice(body).is_ok_and(|PingJson { status }| status.eq_ignore_ascii_case("Unhealthy"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_keep_their_type_and_their_words() {
        let body = br#"{"code": 404, "type": "ModelNotFoundException", "message": "Model not found: m"}"#;
        assert_eq!(reason(body).unwrap(), "ModelNotFoundException: Model not found: m (code 404)");
        assert_eq!(reason(br#"{"type": "X"}"#).unwrap(), "X: the server gave no reason");
        for other in [&b"<html>"[..], b"{}", b"[]", br#"{"type": 1}"#, b""] {
            assert_eq!(reason(other), None);
        }
    }

    #[test]
    fn only_a_server_without_workers_is_unhealthy() {
        assert!(is_unhealthy(b"{\n  \"status\": \"Unhealthy\"\n}\n"));
        for other in [&br#"{"status": "Healthy"}"#[..], br#"{"status": "Partial Healthy"}"#, b"pong", b"{}", b""] {
            assert!(!is_unhealthy(other), "{}", String::from_utf8_lossy(other));
        }
    }
}
