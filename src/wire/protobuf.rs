//! The encoding of protocol buffers, as far as inference messages need it: fields of bytes and numbers, nested
//! messages, maps. The encoding is described at <https://protobuf.dev/programming-guides/encoding/>.

const VARINT: u32 = 0;
const FIXED64: u32 = 1;
const BYTES: u32 = 2;
const FIXED32: u32 = 5;

/// Bytes that `value` takes as a varint.
#[inline]
pub fn varint_len(value: u64) -> usize {
    (70 - (value | 1).leading_zeros() as usize) / 7
}

/// Appends a varint.
#[inline]
pub fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends a field that is a number.
pub fn put_number(out: &mut Vec<u8>, field: u32, value: u64) {
    put_varint(out, u64::from(field << 3 | VARINT));
    put_varint(out, value);
}

/// Appends a field that is a double.
pub fn put_double(out: &mut Vec<u8>, field: u32, value: f64) {
    put_varint(out, u64::from(field << 3 | FIXED64));
    out.extend_from_slice(&value.to_le_bytes());
}

/// Appends the tag and length of a field of `length` bytes: text, a nested message, raw bytes.
pub fn put_prefix(out: &mut Vec<u8>, field: u32, length: usize) {
    put_varint(out, u64::from(field << 3 | BYTES));
    put_varint(out, length as u64);
}

/// Appends a field of bytes.
pub fn put_bytes(out: &mut Vec<u8>, field: u32, bytes: &[u8]) {
    put_prefix(out, field, bytes.len());
    out.extend_from_slice(bytes);
}

/// A field of a message that is being read.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value<'a> {
    /// A varint.
    Number(u64),
    /// Text, a nested message, raw bytes or packed numbers.
    Bytes(&'a [u8]),
    /// Eight or four bytes.
    Fixed(u64),
}

impl<'a> Value<'a> {
    /// As text; `None` if it is not text.
    pub fn text(self) -> Option<&'a str> {
        match self {
            Self::Bytes(bytes) => std::str::from_utf8(bytes).ok(),
            _ => None,
        }
    }

    /// As bytes; `None` if it is something else.
    pub fn bytes(self) -> Option<&'a [u8]> {
        match self {
            Self::Bytes(bytes) => Some(bytes),
            _ => None,
        }
    }
}

/// Iterates over the fields of a message. Ends early, with [`Fields::is_broken`], if the bytes are not a message.
#[derive(Clone, Debug)]
pub struct Fields<'a> {
    rest: &'a [u8],
    broken: bool,
}

impl<'a> Fields<'a> {
    /// The fields of `message`.
    pub fn new(message: &'a [u8]) -> Self {
        Self { rest: message, broken: false }
    }

    /// Whether the iteration ended at bytes that are not a field.
    pub fn is_broken(&self) -> bool {
        self.broken
    }

    fn field(&mut self) -> Option<(u32, Value<'a>)> {
        let tag = take_varint(&mut self.rest)?;
        let field = u32::try_from(tag >> 3).ok().filter(|&field| field > 0)?;
        let value = match tag as u32 & 7 {
            VARINT => Value::Number(take_varint(&mut self.rest)?),
            BYTES => {
                let length = usize::try_from(take_varint(&mut self.rest)?).ok()?;
                Value::Bytes(self.take(length)?)
            }
            FIXED64 => Value::Fixed(u64::from_le_bytes(self.take(8)?.try_into().ok()?)),
            FIXED32 => Value::Fixed(u64::from(u32::from_le_bytes(self.take(4)?.try_into().ok()?))),
            _ => return None,
        };
        Some((field, value))
    }

    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (bytes, tail) = self.rest.split_at_checked(length)?;
        self.rest = tail;
        Some(bytes)
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = (u32, Value<'a>);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() || self.broken {
            return None;
        }
        let field = self.field();
        self.broken = field.is_none();
        field
    }
}

/// Calls `act` for every field of a message.
///
/// # Errors
/// The first error of `act`; that the message is malformed.
pub fn each<'a>(message: &'a [u8], mut act: impl FnMut(u32, Value<'a>) -> Result<(), String>) -> Result<(), String> {
    let mut fields = Fields::new(message);
    fields.by_ref().try_for_each(|(field, value)| act(field, value))?;
    if fields.is_broken() { Err(malformed()) } else { Ok(()) }
}

/// The bytes of a nested message.
///
/// # Errors
/// If the field is something else.
pub fn nested(value: Value<'_>) -> Result<&[u8], String> {
    value.bytes().ok_or_else(malformed)
}

/// What is wrong with a message that cannot be read, to follow its name.
pub fn malformed() -> String {
    "is malformed".to_owned()
}

/// Takes a varint from the front of `bytes`; `None` if there is none.
#[inline]
pub fn take_varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for (index, &byte) in bytes.iter().enumerate().take(10) {
        value |= u64::from(byte & 0x7f) << (7 * index);
        if byte & 0x80 == 0 {
            *bytes = &bytes[index + 1..];
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varints_round_trip_with_their_lengths() {
        for value in [0, 1, 127, 128, 16_383, 16_384, u64::from(u32::MAX), u64::MAX >> 1, u64::MAX] {
            let mut out = Vec::new();
            put_varint(&mut out, value);
            assert_eq!(out.len(), varint_len(value), "{value}");
            assert_eq!(take_varint(&mut &out[..]), Some(value));
            assert_eq!(take_varint(&mut &out[..out.len() - 1]), None);
        }
        assert_eq!(take_varint(&mut &[0xff; 11][..]), None);
    }

    #[test]
    fn fields_of_all_kinds_are_read_back() {
        let mut out = Vec::new();
        put_number(&mut out, 1, 300);
        put_bytes(&mut out, 2, b"text");
        put_double(&mut out, 100, 1.5);
        out.extend_from_slice(&[3 << 3 | 5, 1, 0, 0, 0]);
        let mut fields = Fields::new(&out);
        assert_eq!(fields.next(), Some((1, Value::Number(300))));
        assert_eq!(fields.next().unwrap().1.text(), Some("text"));
        assert_eq!(fields.next(), Some((100, Value::Fixed(1.5_f64.to_bits()))));
        assert_eq!(fields.next(), Some((3, Value::Fixed(1))));
        assert_eq!(fields.next(), None);
        assert!(!fields.is_broken());
    }

    #[test]
    fn broken_messages_end_the_walk() {
        for bytes in [&[0x0a, 5, 1][..], &[0x08], &[0x00, 1], &[0x0b], &[0xff; 12], &[0x09, 1, 2]] {
            let mut fields = Fields::new(bytes);
            assert_eq!(fields.next(), None);
            assert!(fields.is_broken());
            assert_eq!(fields.next(), None);
        }
    }
}
