//! [`Der`]: elements of DER (X.690), as certificates are written in it.

/// The tags that certificates have.
pub(super) mod tag {
    #![allow(missing_docs)]
    pub const INTEGER: u8 = 0x02;
    pub const BITS: u8 = 0x03;
    pub const IDENTIFIER: u8 = 0x06;
    pub const SEQUENCE: u8 = 0x30;
    pub const UTC_TIME: u8 = 0x17;
    pub const GENERALIZED_TIME: u8 = 0x18;
    /// Of a certificate: its version, unique identifiers that nobody uses, and its extensions.
    pub const VERSION: u8 = 0xa0;
    pub const UNIQUE_IDENTIFIERS: [u8; 2] = [0x81, 0x82];
    pub const EXTENSIONS: u8 = 0xa3;
}

/// One element.
#[derive(Clone, Copy)]
pub(super) struct Element<'a> {
    pub(super) tag: u8,
    pub(super) contents: &'a [u8],
    /// With its tag and its length.
    pub(super) whole: &'a [u8],
}

/// Elements one after another, of which as many are read as can be.
#[derive(Clone, Copy, Default)]
pub(super) struct Der<'a>(pub(super) &'a [u8]);

impl<'a> Der<'a> {
    /// The contents of the next element, if it has this tag.
    pub(super) fn contents(&mut self, tag: u8) -> Option<&'a [u8]> {
        self.element(tag).map(|element| element.contents)
    }

    /// The next element, if it has this tag. Otherwise it is still the next.
    pub(super) fn element(&mut self, tag: u8) -> Option<Element<'a>> {
        let mut ahead = *self;
        let element = ahead.next().filter(|element| element.tag == tag)?;
        *self = ahead;
        Some(element)
    }

    /// The bytes of the next element, if it is a string of bits that are whole bytes.
    pub(super) fn bits(&mut self) -> Option<&'a [u8]> {
        self.contents(tag::BITS)?.strip_prefix(&[0])
    }
}

impl<'a> Iterator for Der<'a> {
    type Item = Element<'a>;

    fn next(&mut self) -> Option<Element<'a>> {
        let (&[tag, first], tail) = self.0.split_first_chunk()?;
        let (size, tail) = match first {
            0..=0x7f => (usize::from(first), tail),
            // No certificate is longer than three bytes can tell.
            0x81..=0x83 => {
                let (digits, tail) = tail.split_at_checked(usize::from(first & 0x7f))?;
                (digits.iter().fold(0, |size, digit| size << 8 | usize::from(*digit)), tail)
            }
            _ => return None,
        };
        let (contents, behind) = tail.split_at_checked(size)?;
        let whole = &self.0[..self.0.len() - behind.len()];
        self.0 = behind;
        Some(Element { tag, contents, whole })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_read_as_far_as_they_are_whole() {
        let bytes = [&[0x02, 1, 7, 0x30, 0x81, 3, 1, 2, 3][..], &[0x03, 0x82, 0, 2, 0, 9], &[0x04, 5, 1]].concat();
        let mut der = Der(&bytes);
        assert_eq!(der.contents(tag::SEQUENCE), None);
        assert_eq!(der.contents(tag::INTEGER), Some(&[7][..]));
        let list = der.element(tag::SEQUENCE).unwrap();
        assert_eq!((list.contents, list.whole), (&[1, 2, 3][..], &[0x30, 0x81, 3, 1, 2, 3][..]));
        assert_eq!(der.bits(), Some(&[9][..]));
        assert!(der.next().is_none() && der.next().is_none());
        for cut in [&[][..], &[0x30], &[0x30, 0x81], &[0x30, 0x84, 0, 0, 0, 0], &[0x30, 0x80], &[0x03, 2, 4, 0x10]] {
            assert!(Der(cut).next().is_none() || Der(cut).bits().is_none(), "{cut:?}");
        }
    }
}
