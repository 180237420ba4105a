//! Pictures, videos and sounds of generated prompts, as data URLs in the parts of a message's content.

mod encode;

use std::collections::HashMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::error::Result;
use crate::lengths::TokenLength;
use crate::media::encode::Colour;
use crate::seed;

pub use crate::media::encode::Frame;

/// Different pictures of one size, at most.
const COLOURS: u64 = 256;
/// Draws of one kind of medium, and of one piece of it.
const DRAWS: u64 = 1 << 20;
const EACH: u64 = 1 << 10;

/// What is attached to prompts.
#[derive(Clone, Debug, PartialEq)]
pub struct MediaSpec {
    /// What it is.
    pub kind: MediaKind,
    /// How many a prompt has.
    pub count: TokenLength,
    /// Where they are in the text, from 0 to 1; drawn if absent.
    pub at: Option<f64>,
}

/// What is attached. Of several sizes, each is as frequent as its weight.
#[derive(Clone, Debug, PartialEq)]
pub enum MediaKind {
    /// Pictures: width and height.
    Image {
        /// Their sizes.
        sizes: Vec<(Frame, f64)>,
        /// How they are encoded.
        coding: Coding,
    },
    /// Videos: a size and a number of frames.
    Video {
        /// Their sizes.
        sizes: Vec<((Frame, u32), f64)>,
        /// How they are encoded.
        coding: VideoCoding,
    },
    /// Sounds: seconds.
    Audio {
        /// Their lengths.
        seconds: Vec<(f64, f64)>,
    },
}

/// How a picture is encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Coding {
    /// Without loss.
    Png,
    /// Smaller.
    Jpeg,
}

/// How a video is encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VideoCoding {
    /// As one file, whose frames are JPEGs.
    Mp4,
    /// As pictures.
    Frames(Coding),
}

/// Makes what is attached. Pictures are made once for each colour and size.
#[derive(Default)]
pub(super) struct Studio {
    pictures: HashMap<(Frame, Coding, u64), String>,
}

impl Studio {
    /// The content of a message: `text` with media of these kinds. The same `stream` gives the same.
    ///
    /// # Errors
    /// If a picture is too large for its format.
    pub(super) fn content(&mut self, text: &str, media: &[MediaSpec], stream: u64) -> Result<Vec<Value>> {
        let mut blocks: Vec<(f64, Vec<Value>)> = Vec::new();
        for (kind, spec) in media.iter().enumerate() {
            let of_kind = kind as u64 * DRAWS;
            for piece in 0..spec.count.draw(stream, of_kind) {
                let draws = of_kind + 2 + piece * EACH;
                let at = spec.at.unwrap_or_else(|| unit(stream, draws)).clamp(0.0, 1.0);
                blocks.push((at, self.piece(&spec.kind, stream, draws + 1)?));
            }
        }
        blocks.sort_by(|(left, _), (right, _)| left.total_cmp(right));
        Ok(woven(text, blocks))
    }

    /// One piece, as the parts that it is sent as.
    fn piece(&mut self, kind: &MediaKind, stream: u64, draws: u64) -> Result<Vec<Value>> {
        let colour = seed::hash(stream, draws + 1) % COLOURS;
        match kind {
            MediaKind::Image { sizes, coding } => {
                let url = self.picture(chosen(sizes, unit(stream, draws)), *coding, colour)?;
                Ok(vec![json!({ "type": "image_url", "image_url": { "url": url } })])
            }
            MediaKind::Video { sizes, coding: VideoCoding::Mp4 } => {
                let (size, frames) = chosen(sizes, unit(stream, draws));
                let frame = |frame: u32| encode::jpeg(size, brighter(shade(colour), frame));
                let video = encode::mp4(size, &(0..frames).map(frame).collect::<Result<Vec<_>>>()?);
                let url = format!("data:video/mp4;base64,{}", STANDARD.encode(video));
                Ok(vec![json!({ "type": "video_url", "video_url": { "url": url } })])
            }
            MediaKind::Video { sizes, coding: VideoCoding::Frames(coding) } => {
                let (size, frames) = chosen(sizes, unit(stream, draws));
                let frame = |frame: u32| {
                    let url =
                        self.picture(size, *coding, seed::hash(stream, draws + 2 + u64::from(frame)) % COLOURS)?;
                    Ok(json!({ "type": "image_url", "image_url": { "url": url } }))
                };
                (0..frames).map(frame).collect()
            }
            MediaKind::Audio { seconds } => {
                let sound = STANDARD.encode(encode::wav(chosen(seconds, unit(stream, draws))));
                Ok(vec![json!({ "type": "input_audio", "input_audio": { "data": sound, "format": "wav" } })])
            }
        }
    }

    fn picture(&mut self, size: Frame, coding: Coding, colour: u64) -> Result<String> {
        if let Some(url) = self.pictures.get(&(size, coding, colour)) {
            return Ok(url.clone());
        }
        let url = match coding {
            Coding::Png => format!("data:image/png;base64,{}", STANDARD.encode(encode::png(size, shade(colour)))),
            Coding::Jpeg => format!("data:image/jpeg;base64,{}", STANDARD.encode(encode::jpeg(size, shade(colour))?)),
        };
        self.pictures.insert((size, coding, colour), url.clone());
        Ok(url)
    }
}

fn unit(stream: u64, number: u64) -> f64 {
    seed::unit(seed::hash(stream, number))
}

fn shade(colour: u64) -> Colour {
    let bytes = seed::hash(colour, 0).to_le_bytes();
    [bytes[0], bytes[1], bytes[2]]
}

/// The colour of a video's frame: no two that follow each other are the same.
fn brighter(colour: Colour, frame: u32) -> Colour {
    colour.map(|part| part.saturating_add((frame * 7 % 32) as u8))
}

/// One of several by its weight.
fn chosen<T: Copy>(all: &[(T, f64)], drawn: f64) -> T {
    let mut left = drawn * all.iter().map(|(_, weight)| weight).sum::<f64>();
    let found = all.iter().find(|(_, weight)| {
        left -= weight;
        left < 0.0
    });
    found.or(all.last()).expect("there is at least one size").0
}

/// A text as a part of a content.
pub(super) fn text_part(text: &str) -> Value {
    json!({ "type": "text", "text": text })
}

/// A text with blocks in it, which are in order.
fn woven(text: &str, blocks: Vec<(f64, Vec<Value>)>) -> Vec<Value> {
    let (mut parts, mut start) = (Vec::new(), 0);
    for (at, block) in blocks {
        let mut index = (at * text.len() as f64) as usize;
        while !text.is_char_boundary(index) {
            index -= 1;
        }
        if index > start {
            parts.push(text_part(&text[start..index]));
            start = index;
        }
        parts.extend(block);
    }
    if start < text.len() {
        parts.push(text_part(&text[start..]));
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lengths::LengthShape;

    fn exactly(count: f64) -> TokenLength {
        TokenLength::unbounded(LengthShape::Normal(count, 0.0))
    }

    #[test]
    fn media_are_where_they_should_be_in_the_text() {
        let image = |at| MediaSpec {
            kind: MediaKind::Image { sizes: vec![(Frame { width: 8, height: 4 }, 1.0)], coding: Coding::Png },
            count: exactly(1.0),
            at: Some(at),
        };
        let sound =
            MediaSpec { kind: MediaKind::Audio { seconds: vec![(0.01, 1.0)] }, count: exactly(1.0), at: Some(0.5) };
        let parts = Studio::default().content("abcd", &[image(1.0), sound, image(0.0)], 7).unwrap();
        let kinds: Vec<&str> = parts.iter().map(|part| part["type"].as_str().unwrap()).collect();
        assert_eq!(kinds, ["image_url", "text", "input_audio", "text", "image_url"]);
        assert_eq!((&parts[1]["text"], &parts[3]["text"]), (&json!("ab"), &json!("cd")));
        let again = Studio::default().content("abcd", &[image(1.0)], 7).unwrap();
        assert_eq!(again, Studio::default().content("abcd", &[image(1.0)], 7).unwrap());
    }

    #[test]
    fn videos_are_one_file_or_their_frames() {
        let video = |coding| MediaSpec {
            kind: MediaKind::Video { sizes: vec![((Frame { width: 16, height: 16 }, 3), 1.0)], coding },
            count: exactly(2.0),
            at: Some(0.0),
        };
        let mut studio = Studio::default();
        let whole = studio.content("t", &[video(VideoCoding::Mp4)], 1).unwrap();
        assert_eq!(whole.len(), 3);
        assert!(whole[0]["video_url"]["url"].as_str().unwrap().starts_with("data:video/mp4;base64,"));
        let frames = studio.content("t", &[video(VideoCoding::Frames(Coding::Jpeg))], 1).unwrap();
        assert_eq!(frames.len(), 7);
        assert!(frames[5]["image_url"]["url"].as_str().unwrap().starts_with("data:image/jpeg;base64,"));
    }

    #[test]
    fn sizes_are_as_frequent_as_their_weights() {
        let sizes = [(1, 1.0), (2, 3.0)];
        let of_two = (0..1000).filter(|number| chosen(&sizes, f64::from(*number) / 1000.0) == 2).count();
        assert_eq!(of_two, 750);
    }
}
