//! Pictures of one colour and silence, encoded: PNG, JPEG, WAV, and MP4 whose frames are JPEGs.

use std::io::Write;

use flate2::write::ZlibEncoder;
use flate2::{Compression, Crc};
use jpeg_encoder::{ColorType, Encoder};

use crate::error::{Error, Result};

/// Samples a second of generated sound.
const SAMPLE_RATE: u32 = 16_000;
/// Frames a second of generated videos.
const FRAME_RATE: u32 = 10;
/// Quality of JPEGs, of 100.
const QUALITY: u8 = 75;

/// The size of a picture, in pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Frame {
    /// From left to right.
    pub width: u32,
    /// From top to bottom.
    pub height: u32,
}

/// Red, green and blue.
pub(super) type Colour = [u8; 3];

/// A PNG.
pub(super) fn png(size: Frame, colour: Colour) -> Vec<u8> {
    let Frame { width, height } = size;
    let mut out = b"\x89PNG\r\n\x1a\n".to_vec();
    let header = [&width.to_be_bytes()[..], &height.to_be_bytes(), &[8, 2, 0, 0, 0]].concat();
    chunk(&mut out, *b"IHDR", &header);
    // Every row begins with its filter, which is none.
    let row: Vec<u8> = [0].into_iter().chain(colour.into_iter().cycle().take(width as usize * 3)).collect();
    let mut packed = ZlibEncoder::new(Vec::new(), Compression::fast());
    (0..height).for_each(|_| packed.write_all(&row).expect("writing to memory cannot fail"));
    chunk(&mut out, *b"IDAT", &packed.finish().expect("writing to memory cannot fail"));
    chunk(&mut out, *b"IEND", &[]);
    out
}

fn chunk(out: &mut Vec<u8>, kind: [u8; 4], data: &[u8]) {
    let mut sum = Crc::new();
    sum.update(&kind);
    sum.update(data);
    out.extend_from_slice(&(data.len() as u32).to_be_bytes());
    out.extend_from_slice(&kind);
    out.extend_from_slice(data);
    out.extend_from_slice(&sum.sum().to_be_bytes());
}

/// A JPEG.
///
/// # Errors
/// If it is wider or higher than the format allows.
pub(super) fn jpeg(size: Frame, colour: Colour) -> Result<Vec<u8>> {
    let Frame { width, height } = size;
    let unfit = || Error::input(format!("a JPEG has at most 65535 pixels a side, and {width}x{height} is asked for"));
    let (wide, high) = (u16::try_from(width).map_err(|_| unfit())?, u16::try_from(height).map_err(|_| unfit())?);
    let pixels = colour.repeat(width as usize * height as usize);
    let mut out = Vec::new();
    let encoded = Encoder::new(&mut out, QUALITY).encode(&pixels, wide, high, ColorType::Rgb);
    encoded.map_err(|error| Error::input(format!("a picture of {width}x{height}: {error}")))?;
    Ok(out)
}

/// Silence, 16 bits a sample.
pub(super) fn wav(seconds: f64) -> Vec<u8> {
    let samples = (seconds * f64::from(SAMPLE_RATE)).round().max(1.0) as u32;
    let bytes = samples * 2;
    let mut out = Vec::with_capacity(44 + bytes as usize);
    out.extend_from_slice(b"RIFF");
    out.extend_from_slice(&(36 + bytes).to_le_bytes());
    out.extend_from_slice(b"WAVEfmt \x10\0\0\0\x01\0\x01\0");
    out.extend_from_slice(&SAMPLE_RATE.to_le_bytes());
    out.extend_from_slice(&(SAMPLE_RATE * 2).to_le_bytes());
    out.extend_from_slice(b"\x02\0\x10\0data");
    out.extend_from_slice(&bytes.to_le_bytes());
    out.resize(44 + bytes as usize, 0);
    out
}

/// An MP4 of these JPEGs (Motion JPEG).
pub(super) fn mp4(size: Frame, frames: &[Vec<u8>]) -> Vec<u8> {
    let mut out = part(b"ftyp", &[b"isom\0\0\x02\0isomiso2mp41"]);
    let first = out.len() as u32 + 8;
    let pictures: Vec<&[u8]> = frames.iter().map(Vec::as_slice).collect();
    out.extend(part(b"mdat", &pictures));
    let (count, unity) = (frames.len() as u32, matrix());
    let big = |numbers: &[u32]| numbers.iter().flat_map(|number| number.to_be_bytes()).collect::<Vec<u8>>();
    let sizes: Vec<u32> = frames.iter().map(|frame| frame.len() as u32).collect();
    let movie =
        [big(&[0, 0, 0, FRAME_RATE, count, 0x1_0000, 0x0100_0000, 0, 0]), unity.clone(), big(&[0; 6]), big(&[2])];
    let track = [big(&[3, 0, 0, 1, 0, count, 0, 0, 0, 0]), unity, big(&[size.width << 16, size.height << 16])].concat();
    let media = big(&[0, 0, 0, FRAME_RATE, count, 0x55c4_0000]);
    let handler = [&big(&[0, 0]), &b"vide"[..], &[0; 12], &b"video\0"[..]].concat();
    let table = part(
        b"stbl",
        &[
            &part(b"stsd", &[&big(&[0, 1]), &entry(size)]),
            &part(b"stts", &[&big(&[0, 1, count, 1])]),
            &part(b"stsc", &[&big(&[0, 1, 1, count, 1])]),
            &part(b"stsz", &[&big(&[0, 0, count]), &big(&sizes)]),
            &part(b"stco", &[&big(&[0, 1, first])]),
        ],
    );
    let here = part(b"dinf", &[&part(b"dref", &[&big(&[0, 1]), &part(b"url ", &[&big(&[1])])])]);
    let information = part(b"minf", &[&part(b"vmhd", &[&big(&[1, 0, 0])]), &here, &table]);
    let whole = part(b"mdia", &[&part(b"mdhd", &[&media]), &part(b"hdlr", &[&handler]), &information]);
    let track = part(b"trak", &[&part(b"tkhd", &[&track]), &whole]);
    out.extend(part(b"moov", &[&part(b"mvhd", &[&movie.concat()]), &track]));
    out
}

/// The entry that says that samples are JPEGs.
fn entry(size: Frame) -> Vec<u8> {
    let short = |number: u32| (number as u16).to_be_bytes();
    let mut fields = vec![0; 6];
    fields.extend_from_slice(&[0, 1]);
    fields.extend_from_slice(&[0; 16]);
    fields.extend_from_slice(&short(size.width));
    fields.extend_from_slice(&short(size.height));
    fields.extend_from_slice(&[0, 0x48, 0, 0, 0, 0x48, 0, 0, 0, 0, 0, 0, 0, 1]);
    fields.extend_from_slice(&[0; 32]);
    fields.extend_from_slice(&[0, 24, 0xff, 0xff]);
    // The descriptors of a stream whose object type is JPEG (0x6c) and whose stream type is visual.
    let decoder = [0x6c, 0x11, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let descriptors = [&[0, 0, 0, 0, 3, 21, 0, 1, 0, 4, 13][..], &decoder, &[6, 1, 2]].concat();
    part(b"mp4v", &[&fields, &part(b"esds", &[&descriptors])])
}

/// No rotation and no scaling.
fn matrix() -> Vec<u8> {
    [0x1_0000_u32, 0, 0, 0, 0x1_0000, 0, 0, 0, 0x4000_0000].iter().flat_map(|number| number.to_be_bytes()).collect()
}

fn part(kind: &[u8; 4], contents: &[&[u8]]) -> Vec<u8> {
    let size = 8 + contents.iter().map(|content| content.len()).sum::<usize>();
    let mut out = Vec::with_capacity(size);
    out.extend_from_slice(&(size as u32).to_be_bytes());
    out.extend_from_slice(kind);
    contents.iter().for_each(|content| out.extend_from_slice(content));
    out
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use flate2::read::ZlibDecoder;

    use super::*;

    #[test]
    fn a_png_has_its_size_and_its_colour() {
        let png = png(Frame { width: 5, height: 3 }, [1, 2, 3]);
        assert_eq!(&png[16..24], [0, 0, 0, 5, 0, 0, 0, 3]);
        let at = png.windows(4).position(|found| found == b"IDAT").unwrap() + 4;
        let mut pixels = Vec::new();
        ZlibDecoder::new(&png[at..]).read_to_end(&mut pixels).unwrap();
        assert_eq!(pixels, [[0].as_slice(), &[1, 2, 3].repeat(5)].concat().repeat(3));
    }

    #[test]
    fn a_jpeg_has_its_size() {
        let jpeg = jpeg(Frame { width: 640, height: 360 }, [200, 10, 10]).unwrap();
        let at = jpeg.windows(2).position(|found| found == [0xff, 0xc0]).unwrap();
        assert_eq!(&jpeg[at + 5..at + 9], [1, 104, 2, 128], "height and width");
        assert!(super::jpeg(Frame { width: 70_000, height: 1 }, [0; 3]).is_err());
    }

    #[test]
    fn sound_has_its_length() {
        let wav = wav(1.5);
        assert_eq!(wav.len(), 44 + 48_000);
        assert_eq!(wav[40..44], 48_000_u32.to_le_bytes());
    }

    #[test]
    fn a_video_has_all_frames_where_its_tables_say() {
        let frames = vec![vec![1; 10], vec![2; 20], vec![3; 5]];
        let mp4 = mp4(Frame { width: 640, height: 360 }, &frames);
        let after = |kind: &[u8]| mp4.windows(4).position(|found| found == kind).unwrap() + 4;
        let number = |at: usize| u32::from_be_bytes(mp4[at..at + 4].try_into().unwrap()) as usize;
        let (sizes, start) = (after(b"stsz") + 12, number(after(b"stco") + 8));
        let sizes: Vec<usize> = (0..3).map(|frame| number(sizes + 4 * frame)).collect();
        assert_eq!(sizes, [10, 20, 5]);
        assert_eq!(&mp4[start..start + 35], frames.concat());
    }
}
