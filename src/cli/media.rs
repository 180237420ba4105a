//! `--media`: pictures, videos and sounds of generated prompts.

use crate::lengths::count;
use crate::values::{decimal, integer};
use ::data::{Coding, Frame, LengthShape, MediaKind, MediaSpec, TokenLength, VideoCoding};

/// The largest side of a picture, in pixels.
const MAX_SIDE: u64 = 16_384;
/// The largest number of frames.
const MAX_FRAMES: u64 = 10_000;
/// The longest sound, in seconds.
const MAX_SECONDS: f64 = 3600.0;

/// `image:`, `video:` or `audio:` and settings, separated by commas.
pub fn media(text: &str) -> Result<MediaSpec, String> {
    let (kind, settings) = text.split_once(':').unwrap_or((text, ""));
    let mut options = Settings::read(settings)?;
    let kind = match kind {
        "image" => MediaKind::Image {
            sizes: weighted(options.take("sizes").unwrap_or("512x512"), frame)?,
            coding: match options.take("as").unwrap_or("png") {
                "png" => Coding::Png,
                "jpeg" => Coding::Jpeg,
                other => return Err(format!("an image is sent as png or jpeg, not as '{other}'")),
            },
        },
        "video" => MediaKind::Video {
            sizes: weighted(options.take("sizes").unwrap_or("512x512x10"), film)?,
            coding: match options.take("as").unwrap_or("mp4") {
                "mp4" => VideoCoding::Mp4,
                "png" => VideoCoding::Frames(Coding::Png),
                "jpeg" => VideoCoding::Frames(Coding::Jpeg),
                other => return Err(format!("a video is sent as mp4, or as png or jpeg frames, not as '{other}'")),
            },
        },
        "audio" => MediaKind::Audio {
            seconds: weighted(options.take("seconds").unwrap_or("1"), |text| decimal(text, 0.0, MAX_SECONDS))?,
        },
        _ => return Err("it must begin with image:, video: or audio:".to_owned()),
    };
    let single = TokenLength::unbounded(LengthShape::Normal(1.0, 0.0));
    let count = options.take("count").map_or(Ok(single), count)?;
    let at = match options.take("at") {
        None | Some("random") => None,
        Some(position) => Some(decimal(position, 0.0, 1.0)?),
    };
    options.finish().map(|()| MediaSpec { kind, count, at })
}

/// Settings that have not been read yet.
struct Settings<'a>(Vec<(&'a str, &'a str)>);

impl<'a> Settings<'a> {
    fn read(text: &'a str) -> Result<Self, String> {
        let pair = |setting: &'a str| setting.split_once('=').ok_or_else(|| format!("'{setting}' is not NAME=VALUE"));
        text.split(',').filter(|setting| !setting.is_empty()).map(pair).collect::<Result<_, _>>().map(Self)
    }

    fn take(&mut self, name: &str) -> Option<&'a str> {
        let at = self.0.iter().position(|(key, _)| *key == name)?;
        Some(self.0.remove(at).1)
    }

    fn finish(self) -> Result<(), String> {
        match self.0.first() {
            Some((name, _)) => {
                Err(format!("'{name}' is no setting here: count, at, as, and sizes or, of audio, seconds are"))
            }
            None => Ok(()),
        }
    }
}

/// Values separated by `+`, each perhaps with `*` and its weight.
fn weighted<T>(text: &str, read: impl Fn(&str) -> Result<T, String>) -> Result<Vec<(T, f64)>, String> {
    let entry = |text: &str| {
        let (value, weight) = text.split_once('*').unwrap_or((text, "1"));
        Ok((read(value)?, decimal(weight, 0.0, 1e9)?))
    };
    text.split('+').map(entry).collect()
}

/// `WIDTHxHEIGHT`.
fn frame(text: &str) -> Result<Frame, String> {
    let (width, height) = text.split_once('x').ok_or_else(|| format!("'{text}' is not WIDTHxHEIGHT"))?;
    Ok(Frame { width: integer(width, 1, MAX_SIDE)?, height: integer(height, 1, MAX_SIDE)? })
}

/// `WIDTHxHEIGHTxFRAMES`.
fn film(text: &str) -> Result<(Frame, u32), String> {
    let (size, frames) = text.rsplit_once('x').ok_or_else(|| format!("'{text}' is not WIDTHxHEIGHTxFRAMES"))?;
    Ok((frame(size)?, integer(frames, 1, MAX_FRAMES)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn media_have_a_kind_and_settings() {
        let video = media("video:sizes=1280x720x32*3+640x360x8,count=2,at=0.5,as=png").unwrap();
        assert_eq!(
            video.kind,
            MediaKind::Video {
                sizes: vec![
                    ((Frame { width: 1280, height: 720 }, 32), 3.0),
                    ((Frame { width: 640, height: 360 }, 8), 1.0)
                ],
                coding: VideoCoding::Frames(Coding::Png)
            }
        );
        assert_eq!(video.at, Some(0.5));
        assert_eq!(media("audio").unwrap().kind, MediaKind::Audio { seconds: vec![(1.0, 1.0)] });
        assert_eq!(media("image:at=random").unwrap().at, None);
        for wrong in
            ["", "picture:", "image:as=gif", "image:sizes=5", "video:sizes=5x5", "audio:sizes=1x1", "image:at=2"]
        {
            assert!(media(wrong).is_err(), "{wrong}");
        }
    }
}
