//! The encoder of request headers. All requests of a client have the same fields, so their block is encoded once: the
//! first request makes the server index every field, later ones take one byte per field.

use crate::h2::hpack::table::{ENTRY_OVERHEAD, STATIC};

/// The table size that every decoder starts with (RFC 9113, section 6.5.2).
const TABLE_SIZE: usize = 4096;
/// Of a field in the table.
const INDEXED: Form = Form { pattern: 0x80, prefix: 7 };
/// Of a field that goes into the table.
const REMEMBERED: Form = Form { pattern: 0x40, prefix: 6 };
/// Of a field that does not.
const PLAIN: Form = Form { pattern: 0x00, prefix: 4 };
/// Of a new size of the table.
const SIZE_UPDATE: Form = Form { pattern: 0x20, prefix: 5 };
/// Of the length of a string that is not compressed.
const STRING: Form = Form { pattern: 0x00, prefix: 7 };

/// What an integer stands for (RFC 7541, section 5.1).
#[derive(Clone, Copy)]
struct Form {
    /// The bits above the prefix.
    pattern: u8,
    /// How many bits of the first byte hold the integer.
    prefix: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Nothing has been sent yet.
    Fresh,
    /// The server has indexed the fields.
    Indexed,
    /// The server refuses to index fields.
    Forgetful,
}

/// Encodes the header blocks of one client on one connection.
#[derive(Debug)]
pub struct Encoder {
    first: Vec<u8>,
    later: Vec<u8>,
    plain: Vec<u8>,
    state: State,
}

impl Encoder {
    /// Prepares the blocks of a request with `fields`.
    pub fn new(fields: &[(String, String)]) -> Self {
        let mut encoder = Self { first: vec![], later: vec![], plain: vec![], state: State::Fresh };
        let costs = fields.iter().map(|(name, value)| name.len() + value.len() + ENTRY_OVERHEAD);
        let mut capacity = TABLE_SIZE;
        let fits: Vec<bool> = costs
            .map(|cost| {
                let fits = cost <= capacity;
                capacity -= if fits { cost } else { 0 };
                fits
            })
            .collect();
        let static_index = |field: &(String, String)| STATIC.iter().position(|entry| *entry == (&*field.0, &*field.1));
        let mut behind =
            fields.iter().zip(&fits).filter(|(field, fits)| **fits && static_index(field).is_none()).count();
        for (field, fits) in fields.iter().zip(fits) {
            if let Some(index) = static_index(field) {
                for block in [&mut encoder.first, &mut encoder.later, &mut encoder.plain] {
                    put_integer(block, INDEXED, index + 1);
                }
                continue;
            }
            let (name, value) = field;
            put_literal(&mut encoder.plain, PLAIN, name, value);
            if fits {
                behind -= 1;
                put_literal(&mut encoder.first, REMEMBERED, name, value);
                put_integer(&mut encoder.later, INDEXED, STATIC.len() + 1 + behind);
            } else {
                put_literal(&mut encoder.first, PLAIN, name, value);
                put_literal(&mut encoder.later, PLAIN, name, value);
            }
        }
        encoder
    }

    /// A block for a single request, of which nothing is indexed. It empties the server's table first: one that is
    /// smaller than it was at the start wants to hear so in the next block (RFC 7541, section 4.2).
    pub fn literal(fields: &[(String, String)]) -> Vec<u8> {
        let mut encoder = Self::new(fields);
        encoder.forget();
        encoder.first
    }

    /// Nothing is indexed any more: `first` says so, and the blocks after it are plain.
    fn forget(&mut self) {
        self.state = State::Forgetful;
        self.first.clear();
        put_integer(&mut self.first, SIZE_UPDATE, 0);
        self.first.extend_from_slice(&self.plain);
    }

    /// The block of the next request, for a server whose table holds `table_size` bytes. Every block that is returned
    /// must be sent, in order.
    #[inline]
    pub fn next_block(&mut self, table_size: u32) -> &[u8] {
        match self.state {
            State::Forgetful => &self.plain,
            _ if (table_size as usize) < TABLE_SIZE => {
                self.forget();
                &self.first
            }
            State::Indexed => &self.later,
            State::Fresh => {
                self.state = State::Indexed;
                &self.first
            }
        }
    }
}

fn put_integer(out: &mut Vec<u8>, Form { pattern, prefix }: Form, value: usize) {
    let mask = (1_usize << prefix) - 1;
    if value < mask {
        out.push(pattern | value as u8);
        return;
    }
    out.push(pattern | mask as u8);
    let mut remaining = value - mask;
    while remaining >= 0x80 {
        out.push(remaining as u8 | 0x80);
        remaining >>= 7;
    }
    out.push(remaining as u8);
}

fn put_literal(out: &mut Vec<u8>, form: Form, name: &str, value: &str) {
    match STATIC.iter().position(|entry| entry.0 == name) {
        Some(index) => put_integer(out, form, index + 1),
        None => {
            put_integer(out, form, 0);
            put_string(out, name);
        }
    }
    put_string(out, value);
}

fn put_string(out: &mut Vec<u8>, text: &str) {
    put_integer(out, STRING, text.len());
    out.extend_from_slice(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::h2::hpack::decode::{Decoder, HeaderList};

    fn fields(long: usize) -> Vec<(String, String)> {
        let pairs = [(":method", "POST"), (":path", "/a.B/C"), ("te", "trailers"), ("x-large", &"v".repeat(long))];
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    fn decoded(decoder: &mut Decoder, block: &[u8]) -> Vec<(String, String)> {
        let mut list = HeaderList::default();
        decoder.decode(block, &mut list).unwrap();
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        list.iter().map(|(name, value)| (text(name), text(value))).collect()
    }

    #[test]
    fn later_blocks_are_short_and_mean_the_same() {
        for long in [3, 300, 5000] {
            let fields = fields(long);
            let mut encoder = Encoder::new(&fields);
            let mut decoder = Decoder::default();
            let first = encoder.next_block(4096).to_vec();
            assert_eq!(decoded(&mut decoder, &first), fields);
            for _ in 0..3 {
                let later = encoder.next_block(4096).to_vec();
                assert_eq!(decoded(&mut decoder, &later), fields);
                assert!(long == 5000 || later.len() == 4);
            }
        }
    }

    #[test]
    fn a_server_without_a_table_gets_literals() {
        let fields = fields(10);
        for blocks_before in 0..3 {
            let mut encoder = Encoder::new(&fields);
            let mut decoder = Decoder::default();
            for _ in 0..blocks_before {
                decoded(&mut decoder, encoder.next_block(4096));
            }
            let block = encoder.next_block(100).to_vec();
            assert_eq!(block[0], 0x20);
            assert_eq!(decoded(&mut decoder, &block), fields);
            let block = encoder.next_block(4096).to_vec();
            assert_eq!(decoded(&mut decoder, &block), fields);
        }
    }

    #[test]
    fn a_single_block_empties_the_table() {
        let fields = fields(10);
        let mut decoder = Decoder::default();
        for _ in 0..2 {
            let block = Encoder::literal(&fields);
            assert_eq!(block[0], 0x20);
            assert_eq!(decoded(&mut decoder, &block), fields);
        }
    }
}
