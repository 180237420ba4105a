//! Values of settings that are searched, as text.

use serde_json::Value;

/// A value of a setting as the user writes it: `off` if the field is removed.
pub fn asked(value: &Value) -> String {
    match value {
        Value::Null => "off".to_owned(),
        Value::String(text) => text.clone(),
        value => value.to_string(),
    }
}
