//! The decoder of header blocks (RFC 7541).

use crate::h2::error::{ConnectionError, ErrorCode};
use crate::h2::hpack::huffman;
use crate::h2::hpack::table::DynamicTable;

/// The table size that holds because our SETTINGS do not change it.
const TABLE_LIMIT: usize = 4096;
/// Limit on decoded fields in one block, in bytes, against tiny blocks that expand without end.
const LIST_LIMIT: usize = 1 << 20;

/// The fields of one decoded block. Reused from block to block, so that decoding allocates nothing in the long run.
#[derive(Debug, Default)]
pub struct HeaderList {
    bytes: Vec<u8>,
    /// Ends of name and value.
    ends: Vec<(usize, usize)>,
}

impl HeaderList {
    /// Names and values in order.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let mut start = 0;
        self.ends.iter().map(move |&(name, value)| {
            let field = (&self.bytes[start..name], &self.bytes[name..value]);
            start = value;
            field
        })
    }

    /// Every value of the field `name`.
    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a [u8]> {
        self.iter().filter(move |(other, _)| *other == name.as_bytes()).map(|(_, value)| value)
    }

    /// The first value of the field `name`.
    pub fn get(&self, name: &str) -> Option<&[u8]> {
        let mut start = 0;
        self.ends.iter().find_map(|&(name_end, end)| {
            // Several fields of every answer are looked up, and lengths tell most names apart.
            let is_it = name_end - start == name.len() && self.bytes[start..name_end] == *name.as_bytes();
            start = end;
            is_it.then(|| &self.bytes[name_end..end])
        })
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    fn push(&mut self, name: &[u8], value: &[u8]) {
        self.bytes.extend_from_slice(name);
        let name_end = self.bytes.len();
        self.bytes.extend_from_slice(value);
        self.ends.push((name_end, self.bytes.len()));
    }
}

/// Decodes the blocks of one connection, in order.
#[derive(Debug)]
pub struct Decoder {
    table: DynamicTable,
    name: Vec<u8>,
    value: Vec<u8>,
}

impl Default for Decoder {
    fn default() -> Self {
        Self { table: DynamicTable::new(TABLE_LIMIT), name: Vec::new(), value: Vec::new() }
    }
}

impl Decoder {
    /// Replaces the contents of `list` by the fields of `block`.
    ///
    /// # Errors
    /// If the block is malformed, refers to unknown entries or decodes to more than a megabyte.
    pub fn decode(&mut self, block: &[u8], list: &mut HeaderList) -> Result<(), ConnectionError> {
        list.clear();
        let mut input = Input(block);
        while let Some(&first) = input.0.first() {
            self.field(first, &mut input, list).ok_or_else(|| compression_error("is malformed"))?;
            if list.bytes.len() > LIST_LIMIT || list.ends.len() > LIST_LIMIT / 32 {
                let reason = "a header block decodes to more than a megabyte";
                return Err(ConnectionError::new(ErrorCode::ENHANCE_YOUR_CALM, reason));
            }
        }
        Ok(())
    }

    fn field(&mut self, first: u8, input: &mut Input<'_>, list: &mut HeaderList) -> Option<()> {
        if first & 0x80 != 0 {
            let (name, value) = self.table.field(input.integer(7)?)?;
            list.push(name, value);
        } else if first & 0xe0 == 0x20 {
            let limit = input.integer(5)?;
            // A size update stands before the fields (RFC 7541, section 4.2).
            if limit > TABLE_LIMIT || !list.ends.is_empty() {
                return None;
            }
            self.table.resize(limit);
        } else {
            let remembered = first & 0x40 != 0;
            let index = input.integer(if remembered { 6 } else { 4 })?;
            self.name.clear();
            if index == 0 {
                input.string(&mut self.name)?;
            } else {
                self.name.extend_from_slice(self.table.field(index)?.0);
            }
            self.value.clear();
            input.string(&mut self.value)?;
            if remembered {
                self.table.insert(&self.name, &self.value);
            }
            list.push(&self.name, &self.value);
        }
        Some(())
    }
}

fn compression_error(problem: &str) -> ConnectionError {
    ConnectionError::new(ErrorCode::COMPRESSION_ERROR, format!("a header block {problem}"))
}

/// The rest of a block.
struct Input<'a>(&'a [u8]);

impl Input<'_> {
    fn byte(&mut self) -> Option<u8> {
        let (&first, tail) = self.0.split_first()?;
        self.0 = tail;
        Some(first)
    }

    /// An integer whose first byte has `prefix` bits of it (RFC 7541, section 5.1). At most 28 bits beyond the prefix.
    fn integer(&mut self, prefix: u32) -> Option<usize> {
        let mask = (1_usize << prefix) - 1;
        let mut value = usize::from(self.byte()?) & mask;
        if value < mask {
            return Some(value);
        }
        for shift in (0..28).step_by(7) {
            let byte = self.byte()?;
            value += usize::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    fn string(&mut self, out: &mut Vec<u8>) -> Option<()> {
        let compressed = self.0.first()? & 0x80 != 0;
        let length = self.integer(7)?;
        let (bytes, tail) = self.0.split_at_checked(length)?;
        self.0 = tail;
        if compressed {
            return huffman::decode(bytes, out);
        }
        out.extend_from_slice(bytes);
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(decoder: &mut Decoder, block: &[u8]) -> Result<Vec<(String, String)>, ConnectionError> {
        let mut list = HeaderList::default();
        decoder.decode(block, &mut list)?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Ok(list.iter().map(|(name, value)| (text(name), text(value))).collect())
    }

    fn hex(text: &str) -> Vec<u8> {
        let digits: Vec<u8> = text.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
        digits.chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
    }

    #[test]
    fn consecutive_responses_share_the_table() {
        // RFC 7541, appendix C.6, without its eviction.
        let mut decoder = Decoder::default();
        let first =
            hex("4882 6402 5885 aec3 771a 4b61 96d0 7abe 9410 54d4 44a8 2005 9504 0b81 66e0 82a6 2d1b ff6e 919d
            29ad 1718 63c7 8f0b 97c8 e9ae 82ae 43d3");
        let expected = [
            (":status", "302"),
            ("cache-control", "private"),
            ("date", "Mon, 21 Oct 2013 20:13:21 GMT"),
            ("location", "https://www.example.com"),
        ];
        let owned = |pairs: &[(&str, &str)]| -> Vec<(String, String)> {
            pairs.iter().map(|pair| (pair.0.to_owned(), pair.1.to_owned())).collect()
        };
        assert_eq!(fields(&mut decoder, &first).unwrap(), owned(&expected));
        let second = fields(&mut decoder, &hex("4883 640e ffc1 c0bf")).unwrap();
        assert_eq!(second[0], (":status".to_owned(), "307".to_owned()));
        assert_eq!(second[1..], owned(&expected)[1..]);
    }

    #[test]
    fn literals_of_all_three_forms_are_read() {
        let mut decoder = Decoder::default();
        let block = hex("400161 0131 000162 0132 100163 0133 be");
        let read = fields(&mut decoder, &block).unwrap();
        let names: Vec<&str> = read.iter().map(|field| field.0.as_str()).collect();
        assert_eq!(names, ["a", "b", "c", "a"]);
    }

    #[test]
    fn malformed_blocks_are_errors() {
        for block in ["80", "ff8080808080", "be", "4001", "40", "3fe21f", "8820", "400183", "4001618aff", "7f"] {
            let error = fields(&mut Decoder::default(), &hex(block)).unwrap_err();
            assert_eq!(error.code, ErrorCode::COMPRESSION_ERROR, "block {block}");
        }
    }

    #[test]
    fn a_block_that_expands_without_end_is_refused() {
        let mut block = vec![0x40, 1, b'a', 0x7f, 0xa1, 0x1e];
        block.extend(std::iter::repeat_n(b'x', 4000));
        block.extend(std::iter::repeat_n(0xbe, 100_000));
        let error = fields(&mut Decoder::default(), &block).unwrap_err();
        assert!(error.code == ErrorCode::ENHANCE_YOUR_CALM && error.reason.contains("megabyte"), "{error}");
    }
}
