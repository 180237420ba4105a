//! Pictures, sounds and videos that files of prompts name, as the parts of a chat's message.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

/// As much of a value as a message has room for.
const MOST_SHOWN: usize = 80;

/// What is attached to a prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Medium {
    Picture,
    Sound,
    Video,
}

impl Medium {
    /// What a member is, for messages.
    fn word(self) -> &'static str {
        match self {
            Self::Picture => "image",
            Self::Sound => "audio",
            Self::Video => "video",
        }
    }

    /// The formats that are told apart, for messages.
    fn formats(self) -> &'static str {
        match self {
            Self::Picture => "PNG, JPEG, GIF or WebP",
            Self::Sound => "WAV, MP3, FLAC or Ogg",
            Self::Video => "MP4 or WebM",
        }
    }

    /// The format of a file, as it begins.
    fn format_of(self, bytes: &[u8]) -> Option<&'static str> {
        match (self, bytes) {
            (Self::Picture, [0x89, b'P', b'N', b'G', ..]) => Some("png"),
            (Self::Picture, [0xff, 0xd8, 0xff, ..]) => Some("jpeg"),
            (Self::Picture, [b'G', b'I', b'F', b'8', ..]) => Some("gif"),
            (Self::Picture, [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..]) => Some("webp"),
            (Self::Sound, [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'A', b'V', b'E', ..]) => Some("wav"),
            (Self::Sound, [b'I', b'D', b'3', ..]) => Some("mp3"),
            (Self::Sound, [0xff, second, ..]) if second & 0xe0 == 0xe0 => Some("mp3"),
            (Self::Sound, [b'f', b'L', b'a', b'C', ..]) => Some("flac"),
            (Self::Sound, [b'O', b'g', b'g', b'S', ..]) => Some("ogg"),
            (Self::Video, [_, _, _, _, b'f', b't', b'y', b'p', ..]) => Some("mp4"),
            (Self::Video, [0x1a, 0x45, 0xdf, 0xa3, ..]) => Some("webm"),
            _ => None,
        }
    }
}

/// The parts of a member's value: a text, or a list of them; also objects that hold their `contents` (aiperf's) or a file's `url`,
/// `src`, `path` or `bytes` (Hugging Face's). A text is a URL, a data URL or the path of a file; of a sound also `wav,BASE64`.
///
/// # Errors
/// The rule that it breaks.
pub(super) fn parts(medium: Medium, value: &Value) -> Result<Vec<Value>, String> {
    match value {
        Value::Null => Ok(Vec::new()),
        Value::String(name) if name.is_empty() => Ok(Vec::new()),
        Value::String(name) => Ok(vec![part(medium, name)?]),
        Value::Array(all) => {
            let parts = all.iter().map(|value| parts(medium, value)).collect::<Result<Vec<_>, String>>()?;
            Ok(parts.concat())
        }
        Value::Object(members) => {
            let bytes = members.get("bytes").and_then(Value::as_str);
            let named =
                ["contents", "url", "src", "path"].iter().filter_map(|name| members.get(*name)).find(|v| !v.is_null());
            match (bytes, named) {
                (Some(bytes), _) => Ok(vec![encoded(medium, bytes)?]),
                (None, Some(value)) => parts(medium, value),
                (None, None) => Err(unusable(medium, value)),
            }
        }
        other => Err(unusable(medium, other)),
    }
}

/// Whether a text says where something is, or holds it, so that it is sent as it is.
pub(super) fn is_url(name: &str) -> bool {
    ["http://", "https://", "file://", "data:"].iter().any(|scheme| name.starts_with(scheme))
}

fn unusable(medium: Medium, value: &Value) -> String {
    // It may be a whole sound.
    let value: String = value.to_string().chars().take(MOST_SHOWN).collect();
    format!("its {} is {value}: write a URL or the path of a file as a string, or a list of these", medium.word())
}

/// The part of a text.
fn part(medium: Medium, name: &str) -> Result<Value, String> {
    if let (Medium::Sound, Some((kind, data))) =
        (medium, name.strip_prefix("data:").and_then(|content| content.split_once(',')))
    {
        let format = kind.split(';').next().and_then(|kind| kind.rsplit('/').next()).unwrap_or_default();
        return Ok(sound(format, data));
    }
    if is_url(name) {
        return Ok(of_url(medium, name.to_owned()));
    }
    if let (Medium::Sound, Some((format @ ("wav" | "mp3"), data))) = (medium, name.split_once(',')) {
        return Ok(sound(format, data));
    }
    let (word, shown) = (medium.word(), name.chars().take(MOST_SHOWN).collect::<String>());
    let bytes = std::fs::read(name).map_err(|error| {
        format!("its {word} '{shown}' cannot be read: {error}; write a URL, a data URL or the path of a file")
    })?;
    let format = medium
        .format_of(&bytes)
        .ok_or_else(|| format!("its {word} '{name}' is no {}: convert it, or write a data URL", medium.formats()))?;
    Ok(of_data(medium, format, &STANDARD.encode(bytes)))
}

/// The part of a file's content in base64.
fn encoded(medium: Medium, data: &str) -> Result<Value, String> {
    let bytes = STANDARD.decode(data).ok();
    let format = bytes.and_then(|bytes| medium.format_of(&bytes));
    let format =
        format.ok_or_else(|| format!("the bytes of its {} are no {} in base64", medium.word(), medium.formats()))?;
    Ok(of_data(medium, format, data))
}

fn of_data(medium: Medium, format: &str, data: &str) -> Value {
    match medium {
        Medium::Sound => sound(format, data),
        other => of_url(other, format!("data:{}/{format};base64,{data}", other.word())),
    }
}

fn sound(format: &str, data: &str) -> Value {
    json!({ "type": "input_audio", "input_audio": { "data": data, "format": format } })
}

fn of_url(medium: Medium, url: String) -> Value {
    let kind = format!("{}_url", medium.word());
    json!({ "type": kind, &kind: { "url": url } })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_urls_data_or_files() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, bytes: &[u8]| {
            let path = folder.path().join(name);
            std::fs::write(&path, bytes).unwrap();
            path.display().to_string()
        };
        let picture = |url: &str| json!({ "type": "image_url", "image_url": { "url": url } });
        let audio = |format: &str, data: &str| json!({ "type": "input_audio", "input_audio": { "data": data, "format": format } });
        let wav = file("a.wav", b"RIFF\0\0\0\0WAVE");
        let mp4 = file("a.mp4", b"\0\0\0\x18ftypmp42");
        for (medium, value, wanted) in [
            (Medium::Picture, json!("https://h/a.png"), picture("https://h/a.png")),
            (Medium::Picture, json!("data:image/png;base64,AA=="), picture("data:image/png;base64,AA==")),
            (Medium::Picture, json!({ "bytes": "iVBORw==", "path": null }), picture("data:image/png;base64,iVBORw==")),
            (Medium::Sound, json!("wav,UklGRg=="), audio("wav", "UklGRg==")),
            (Medium::Sound, json!("data:audio/mp3;base64,AA=="), audio("mp3", "AA==")),
            (Medium::Sound, json!({ "path": wav }), audio("wav", "UklGRgAAAABXQVZF")),
            (
                Medium::Sound,
                json!("https://h/a.wav"),
                json!({ "type": "audio_url", "audio_url": { "url": "https://h/a.wav" } }),
            ),
            (
                Medium::Video,
                json!([mp4]),
                json!({ "type": "video_url", "video_url": { "url": "data:video/mp4;base64,AAAAGGZ0eXBtcDQy" } }),
            ),
        ] {
            assert_eq!(parts(medium, &value), Ok(vec![wanted]), "{value}");
        }
        let named = json!([{ "name": "f", "contents": ["https://h/a.png", ""] }, null, "https://h/b.png"]);
        assert_eq!(parts(Medium::Picture, &named), Ok(vec![picture("https://h/a.png"), picture("https://h/b.png")]));
    }

    #[test]
    fn what_is_no_medium_is_refused() {
        for (medium, value, rule) in [
            (Medium::Picture, json!(5), "its image is 5"),
            (Medium::Picture, json!({ "name": "x" }), "its image is {"),
            (Medium::Sound, json!("/none/a.wav"), "its audio '/none/a.wav' cannot be read"),
            (Medium::Picture, json!({ "bytes": "AAAA" }), "no PNG, JPEG, GIF or WebP in base64"),
        ] {
            let error = parts(medium, &value).unwrap_err();
            assert!(error.contains(rule), "{error}");
        }
    }
}
