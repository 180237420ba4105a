//! The Huffman code of HPACK (RFC 7541, appendix B).
//!
//! The code is canonical: codes of one length are consecutive, in the order of their symbols, and shorter codes come
//! first. So the lengths alone define it.

use std::sync::LazyLock;

/// Code lengths of the 256 byte values and of the end mark.
#[rustfmt::skip]
const LENGTHS: [u8; 257] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 28,
    6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6, 5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10,
    13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6,
    15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5, 6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28,
    20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23, 24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24,
    22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23, 21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23,
    26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25, 19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27,
    20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23, 26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26,
    30,
];
const END: u16 = 256;
const LONGEST: usize = 30;

/// Per code length: the first code, and where its symbols begin in `symbols`.
struct Code {
    first: [u32; LONGEST + 2],
    offset: [u32; LONGEST + 2],
    symbols: Vec<u16>,
}

static CODE: LazyLock<Code> = LazyLock::new(|| {
    let mut symbols: Vec<u16> = (0..=END).collect();
    symbols.sort_by_key(|&symbol| LENGTHS[usize::from(symbol)]);
    let mut code = Code { first: [0; LONGEST + 2], offset: [0; LONGEST + 2], symbols };
    for length in 1..=LONGEST {
        let count = LENGTHS.iter().filter(|&&other| usize::from(other) == length).count() as u32;
        code.first[length + 1] = (code.first[length] + count) << 1;
        code.offset[length + 1] = code.offset[length] + count;
    }
    code
});

/// Appends the decoded form of `input` to `out`; `None` if `input` is not valid: it contains the end mark, or its
/// padding is not up to seven one bits.
pub fn decode(input: &[u8], out: &mut Vec<u8>) -> Option<()> {
    let code = &*CODE;
    let (mut bits, mut length) = (0_u32, 0_usize);
    for &byte in input {
        for shift in (0..8).rev() {
            bits = bits << 1 | u32::from(byte >> shift & 1);
            length += 1;
            let index = bits.wrapping_sub(code.first[length]);
            if bits >= code.first[length] && index < code.offset[length + 1] - code.offset[length] {
                let symbol = code.symbols[(code.offset[length] + index) as usize];
                out.push(u8::try_from(symbol).ok()?);
                (bits, length) = (0, 0);
            } else if length == LONGEST {
                return None;
            }
        }
    }
    (length < 8 && bits == (1 << length) - 1).then_some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(input: &[u8]) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        decode(input, &mut out).map(|()| out)
    }

    #[test]
    fn examples_of_the_specification_decode() {
        // RFC 7541, appendix C.4 and C.6.
        let examples: [(&[u8], &[u8]); 4] = [
            (&[0xf1, 0xe3, 0xc2, 0xe5, 0xf2, 0x3a, 0x6b, 0xa0, 0xab, 0x90, 0xf4, 0xff], b"www.example.com"),
            (&[0xa8, 0xeb, 0x10, 0x64, 0x9c, 0xbf], b"no-cache"),
            (&[0x64, 0x02], b"302"),
            (&[0xae, 0xc3, 0x77, 0x1a, 0x4b], b"private"),
        ];
        for (input, expected) in examples {
            assert_eq!(decoded(input).as_deref(), Some(expected));
        }
    }

    #[test]
    fn every_symbol_round_trips() {
        let code = &*CODE;
        for length in 1..=LONGEST {
            for index in 0..code.offset[length + 1] - code.offset[length] {
                let symbol = code.symbols[(code.offset[length] + index) as usize];
                let padded = u64::from(code.first[length] + index) << (40 - length) | ((1_u64 << (40 - length)) - 1);
                let bytes = &padded.to_be_bytes()[3..3 + length.div_ceil(8)];
                let expected = u8::try_from(symbol).ok().map(|byte| vec![byte]);
                assert_eq!(decoded(bytes), expected, "symbol {symbol}");
            }
        }
    }

    #[test]
    fn bad_padding_is_refused() {
        assert_eq!(decoded(&[0b0001_1110]), None);
        assert_eq!(decoded(&[0b0001_1111, 0xff]), None);
        assert_eq!(decoded(&[]), Some(vec![]));
    }
}
