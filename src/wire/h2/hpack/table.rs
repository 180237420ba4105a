//! The tables of header fields that HPACK refers to by number (RFC 7541, section 2.3).

use std::collections::VecDeque;

/// Overhead of each entry of the dynamic table, in bytes (RFC 7541, section 4.1).
pub const ENTRY_OVERHEAD: usize = 32;

/// Entries of the static table, from number 1 (RFC 7541, appendix A).
#[rustfmt::skip]
pub const STATIC: [(&str, &str); 61] = [
    (":authority", ""), (":method", "GET"), (":method", "POST"), (":path", "/"), (":path", "/index.html"),
    (":scheme", "http"), (":scheme", "https"), (":status", "200"), (":status", "204"), (":status", "206"),
    (":status", "304"), (":status", "400"), (":status", "404"), (":status", "500"), ("accept-charset", ""),
    ("accept-encoding", "gzip, deflate"), ("accept-language", ""), ("accept-ranges", ""), ("accept", ""),
    ("access-control-allow-origin", ""), ("age", ""), ("allow", ""), ("authorization", ""), ("cache-control", ""),
    ("content-disposition", ""), ("content-encoding", ""), ("content-language", ""), ("content-length", ""),
    ("content-location", ""), ("content-range", ""), ("content-type", ""), ("cookie", ""), ("date", ""), ("etag", ""),
    ("expect", ""), ("expires", ""), ("from", ""), ("host", ""), ("if-match", ""), ("if-modified-since", ""),
    ("if-none-match", ""), ("if-range", ""), ("if-unmodified-since", ""), ("last-modified", ""), ("link", ""),
    ("location", ""), ("max-forwards", ""), ("proxy-authenticate", ""), ("proxy-authorization", ""), ("range", ""),
    ("referer", ""), ("refresh", ""), ("retry-after", ""), ("server", ""), ("set-cookie", ""),
    ("strict-transport-security", ""), ("transfer-encoding", ""), ("user-agent", ""), ("vary", ""), ("via", ""),
    ("www-authenticate", ""),
];

/// An indexed field: name and value in one allocation.
#[derive(Debug)]
struct Entry {
    bytes: Box<[u8]>,
    name_len: usize,
}

/// Fields that the peer added, newest first.
#[derive(Debug)]
pub struct DynamicTable {
    entries: VecDeque<Entry>,
    size: usize,
    limit: usize,
}

impl DynamicTable {
    /// An empty table of at most `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Self { entries: VecDeque::new(), size: 0, limit }
    }

    /// Changes the limit and evicts what no longer fits.
    pub fn resize(&mut self, limit: usize) {
        self.limit = limit;
        self.evict(0);
    }

    /// Adds a field. One that is larger than the table empties it (RFC 7541, section 4.4).
    pub fn insert(&mut self, name: &[u8], value: &[u8]) {
        let cost = name.len() + value.len() + ENTRY_OVERHEAD;
        self.evict(cost);
        if cost <= self.limit {
            self.size += cost;
            self.entries.push_front(Entry { bytes: [name, value].concat().into(), name_len: name.len() });
        }
    }

    /// The field with `index` in the joint numbering of both tables; `None` if there is none.
    #[inline]
    pub fn field(&self, index: usize) -> Option<(&[u8], &[u8])> {
        let index = index.checked_sub(1)?;
        if let Some((name, value)) = STATIC.get(index) {
            return Some((name.as_bytes(), value.as_bytes()));
        }
        let entry = self.entries.get(index - STATIC.len())?;
        Some(entry.bytes.split_at(entry.name_len))
    }

    fn evict(&mut self, room: usize) {
        while self.size + room > self.limit {
            let Some(entry) = self.entries.pop_back() else { break };
            self.size -= entry.bytes.len() + ENTRY_OVERHEAD;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbering_covers_both_tables() {
        let mut table = DynamicTable::new(4096);
        assert_eq!(table.field(0), None);
        assert_eq!(table.field(8), Some((&b":status"[..], &b"200"[..])));
        assert_eq!(table.field(61), Some((&b"www-authenticate"[..], &b""[..])));
        assert_eq!(table.field(62), None);
        table.insert(b"a", b"1");
        table.insert(b"b", b"2");
        assert_eq!(table.field(62), Some((&b"b"[..], &b"2"[..])));
        assert_eq!(table.field(63), Some((&b"a"[..], &b"1"[..])));
    }

    #[test]
    fn the_oldest_is_forgotten_first() {
        let mut table = DynamicTable::new(2 * (ENTRY_OVERHEAD + 2));
        for name in [b"a", b"b", b"c"] {
            table.insert(name, b"x");
        }
        assert_eq!(table.field(63), Some((&b"b"[..], &b"x"[..])));
        assert_eq!(table.field(64), None);
        table.insert(&[b'n'; 100], b"");
        assert_eq!(table.field(62), None);
    }

    #[test]
    fn a_smaller_limit_forgets() {
        let mut table = DynamicTable::new(4096);
        table.insert(b"a", b"1");
        table.resize(0);
        assert_eq!(table.field(62), None);
    }
}
