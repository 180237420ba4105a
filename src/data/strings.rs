//! BYTES tensors in their wire format: each element is a little-endian 32-bit length and that many bytes.

use crate::error::{Error, Result};
use crate::shm::RegionBuilder;

/// Appends one element.
///
/// # Errors
/// If the element is too long for its length field, or memory is lacking.
pub(crate) fn append(out: &mut RegionBuilder, element: &[u8]) -> Result<()> {
    let length = u32::try_from(element.len())
        .map_err(|_| Error::input(format!("a BYTES element of {} bytes is longer than 4294967295", element.len())))?;
    out.write(&length.to_le_bytes())?;
    out.write(element)
}

/// Makes `out` a tensor of one element: the parts, one after the other.
pub fn pack_element(out: &mut Vec<u8>, parts: &[&[u8]]) {
    let length = parts.iter().map(|part| part.len()).sum::<usize>();
    out.clear();
    out.extend_from_slice(&u32::try_from(length).unwrap_or(u32::MAX).to_le_bytes());
    parts.iter().for_each(|part| out.extend_from_slice(part));
}

/// Iterates over the elements; the last item is an `Err` with an offset if the bytes end inside an element.
pub fn elements(bytes: &[u8]) -> impl Iterator<Item = Result<&[u8], usize>> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let tail = bytes.get(at..).filter(|tail| !tail.is_empty())?;
        let start = at;
        let element =
            tail.split_first_chunk::<4>().and_then(|(length, data)| data.get(..u32::from_le_bytes(*length) as usize));
        at = element.map_or(bytes.len(), |element| start + 4 + element.len());
        Some(element.ok_or(start))
    })
}

/// Counts the elements.
///
/// # Errors
/// The offset of the element inside which the bytes end.
pub fn count(bytes: &[u8]) -> Result<u64, usize> {
    elements(bytes).try_fold(0, |count, element| element.map(|_| count + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_walked_and_breaks_found() {
        let mut out = RegionBuilder::new().unwrap();
        append(&mut out, b"ab").unwrap();
        append(&mut out, b"").unwrap();
        let bytes = out.since(0);
        assert_eq!(count(bytes), Ok(2));
        assert_eq!(elements(bytes).collect::<Vec<_>>(), [Ok(&b"ab"[..]), Ok(&b""[..])]);
        assert_eq!(count(&bytes[..8]), Err(6));
        assert_eq!(count(&[255, 255, 255, 255]), Err(0));
        assert_eq!(count(b""), Ok(0));
    }
}
