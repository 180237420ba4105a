//! Which experiments of an export count, and where in its file they are: a level that was measured again has one each time.

use std::ops::Range;

use crate::partial::Part;

/// How the file begins.
pub(super) const HEAD: &[u8] = b"{\"experiments\":[";

/// Where an experiment that has ended is in the file.
#[derive(Clone, Debug)]
struct Span {
    /// With which number it began, from 1.
    number: u64,
    /// In whose place it is: its number, or that of the first measurement of its level.
    place: u64,
    bytes: Range<u64>,
}

/// The experiments of a file.
#[derive(Debug, Default)]
pub(super) struct Spans {
    /// How many have begun, those that were taken back among them.
    begun: u64,
    /// Those that have ended and count.
    all: Vec<Span>,
    /// Whether the file holds others, too.
    replaced: bool,
}

impl Spans {
    /// The next one begins.
    pub(super) fn begin(&mut self) {
        self.begun += 1;
    }

    /// The one that has begun last has ended, and these bytes are it.
    pub(super) fn end(&mut self, bytes: Range<u64>) {
        self.all.push(Span { number: self.begun, place: self.begun, bytes });
    }

    /// The one that has ended last takes the place of the one that began with that number, which does not count from here on.
    pub(super) fn replace(&mut self, earlier: u64) {
        let Some(before) = self.all.iter().position(|span| span.number == earlier) else { return };
        let earlier = self.all.remove(before);
        if let Some(last) = self.all.last_mut() {
            last.place = earlier.place;
        }
        self.replaced = true;
    }

    /// What the file is made of that has only those that count, each in its place, and then these bytes; nothing where it is that
    /// already.
    pub(super) fn parts(&self, tail: Range<u64>) -> Option<Vec<Part<'static>>> {
        let mut all: Vec<&Span> = self.all.iter().collect();
        all.sort_by_key(|span| span.place);
        let mut parts = vec![Part::Text(HEAD)];
        for (number, span) in all.into_iter().enumerate() {
            parts.extend((number > 0).then_some(Part::Text(b",")));
            parts.push(Part::Copy(span.bytes.clone()));
        }
        parts.push(Part::Copy(tail));
        self.replaced.then_some(parts)
    }
}
