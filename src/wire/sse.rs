//! Server-sent events (`text/event-stream`, <https://html.spec.whatwg.org/multipage/server-sent-events.html>): a stream
//! of events, parsed from pieces of any size. The events do not depend on how the bytes were cut.

use crate::held::{Held, MemoryLimitReached};

/// One event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event<'a> {
    /// Its type; empty if the server names none, which means `message`.
    pub name: &'a [u8],
    /// Its data, with the lines joined.
    pub data: &'a [u8],
}

/// Assembles events. Fields for browsers that reconnect (`id`, `retry`) are ignored, and comments but those of errors.
#[derive(Debug)]
pub struct EventReader {
    /// Limit on one event in bytes, including an unfinished line.
    limit: usize,
    /// The unfinished line.
    line: Held,
    name: Vec<u8>,
    /// Data so far, each line with its end.
    data: Held,
    /// The last line ended with a carriage return, which a line feed may follow.
    after_return: bool,
    /// No line has ended: the stream may begin with a byte order mark.
    first: bool,
    /// `name` and `data` were handed out and must be cleared.
    handed_out: bool,
}

impl EventReader {
    /// For events of at most `limit` bytes.
    pub fn new(limit: usize) -> Self {
        let (line, name, data) = (Held::default(), Vec::new(), Held::default());
        Self { limit, line, name, data, after_return: false, first: true, handed_out: false }
    }

    /// Clears the state for another stream. Keeps memory.
    pub fn reset(&mut self) {
        self.line.clear();
        self.forget();
        (self.after_return, self.first) = (false, true);
    }

    /// Whether an event, or a line, has begun and not ended: a stream that ends here is truncated.
    pub fn is_inside(&self) -> bool {
        let event = !self.handed_out && (!self.name.is_empty() || !self.data.is_empty());
        event || !self.line.is_empty()
    }

    /// Handles the end of the stream: returns the unfinished event, if it has data. The standard drops it, but servers
    /// of language models leave out the blank line that would end it.
    pub fn finish(&mut self) -> Option<Event<'_>> {
        if std::mem::take(&mut self.handed_out) {
            self.forget();
        }
        let mut complete = !self.line.is_empty() && self.line_ends().unwrap_or(false);
        complete = complete || self.line_ends().unwrap_or(false);
        self.handed_out = true;
        complete.then_some(Event { name: &self.name, data: &self.data })
    }

    fn forget(&mut self) {
        self.name.clear();
        self.data.clear();
        self.handed_out = false;
    }

    /// Consumes bytes from the front of `input` until an event is complete; `None` if more bytes are needed.
    ///
    /// # Errors
    /// If an event is longer than allowed, or all answers take too much memory; says which.
    pub fn next(&mut self, input: &mut &[u8]) -> Result<Option<Event<'_>>, String> {
        if self.handed_out {
            self.forget();
        }
        while let Some(&first) = input.first() {
            if std::mem::take(&mut self.after_return) && first == b'\n' {
                *input = &input[1..];
                continue;
            }
            let end = input.iter().position(|byte| matches!(byte, b'\n' | b'\r'));
            let (now, tail) = input.split_at(end.unwrap_or(input.len()));
            *input = tail;
            if self.name.len() + self.data.len() + self.line.len() + now.len() > self.limit {
                return Err(format!("an event is longer than {} bytes (--max-reply-bytes)", self.limit));
            }
            self.line.extend(now).map_err(|full| full.to_string())?;
            let Some((&ending, tail)) = input.split_first() else { break };
            *input = tail;
            self.after_return = ending == b'\r';
            if self.line_ends().map_err(|full| full.to_string())? {
                self.handed_out = true;
                return Ok(Some(Event { name: &self.name, data: &self.data }));
            }
        }
        Ok(None)
    }

    /// Processes a complete line; returns whether it ends an event.
    ///
    /// # Errors
    /// If all answers take too much memory.
    fn line_ends(&mut self) -> Result<bool, MemoryLimitReached> {
        const MARK: &[u8] = b"\xef\xbb\xbf";
        let line = &self.line[..];
        let line = if std::mem::take(&mut self.first) { line.strip_prefix(MARK).unwrap_or(line) } else { line };
        // Some servers write a document without the name of its field, as Ollama does with an error in a stream.
        let is_bare = self.data.is_empty() && line.first() == Some(&b'{');
        let ends = line.is_empty() || is_bare;
        let at = line.iter().position(|&byte| byte == b':').unwrap_or(line.len());
        let (field, value) = line.split_at(at);
        let value = value.strip_prefix(b":").unwrap_or(value);
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match field {
            _ if is_bare => {
                self.data.extend(line)?;
                self.data.extend(b"\n")?;
            }
            b"data" => {
                self.data.extend(value)?;
                self.data.extend(b"\n")?;
            }
            b"event" => {
                self.name.clear();
                self.name.extend_from_slice(value);
            }
            // Some servers say what went wrong in a comment.
            b"" if !ends && self.name == b"error" => {
                self.data.extend(value)?;
                self.data.extend(b"\n")?;
            }
            // Others, as llama.cpp's did for long, in a field of that name.
            b"error" => {
                self.name.clear();
                self.name.extend_from_slice(field);
                self.data.extend(value)?;
                self.data.extend(b"\n")?;
            }
            _ => {}
        }
        self.line.clear();
        if !ends {
            return Ok(false);
        }
        // The end of the last line is not part of the data.
        let complete = self.data.pop().is_some();
        if !complete {
            self.name.clear();
        }
        Ok(complete)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Read = (Vec<(String, String)>, Result<bool, String>);

    /// The events of a stream that comes in pieces, and whether it ends inside one.
    fn read<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> Read {
        let (mut reader, mut events) = (EventReader::new(40), Vec::new());
        for mut piece in pieces {
            loop {
                match reader.next(&mut piece) {
                    Ok(Some(Event { name, data })) => {
                        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
                        events.push((text(name), text(data)));
                    }
                    Ok(None) => break,
                    Err(reason) => return (events, Err(reason)),
                }
            }
            assert!(piece.is_empty(), "what was not taken");
        }
        (events, Ok(reader.is_inside()))
    }

    fn whole(text: &str) -> Read {
        read(std::iter::once(text.as_bytes()))
    }

    fn events(text: &str) -> Vec<(String, String)> {
        let (events, end) = whole(text);
        assert!(end.is_ok(), "{text:?}: {end:?}");
        events
    }

    fn pair(name: &str, data: &str) -> (String, String) {
        (name.to_owned(), data.to_owned())
    }

    #[test]
    fn events_are_read_as_the_standard_says() {
        assert_eq!(events("data: YHOO\ndata: +2\ndata: 10\n\n"), [pair("", "YHOO\n+2\n10")]);
        assert_eq!(
            events(": test stream\n\ndata: first event\nid: 1\n\ndata:second event\nid\n\ndata:  third event\n\n"),
            [pair("", "first event"), pair("", "second event"), pair("", " third event")]
        );
        assert_eq!(events("data\n\ndata\ndata\n\ndata:"), [pair("", ""), pair("", "\n")]);
        assert_eq!(events("event: add\ndata: 7\n\nevent: lost\n\ndata: 8\n\n"), [pair("add", "7"), pair("", "8")]);
        assert_eq!(
            events("\u{feff}data: a\r\rdata: b\r\n\r\ndata: c\n\n"),
            [pair("", "a"), pair("", "b"), pair("", "c")]
        );
        assert_eq!(events("data: \u{feff}x\nretry: 10\nunknown: y\ndata : z\n\n"), [pair("", "\u{feff}x")]);
    }

    #[test]
    fn a_comment_or_a_field_is_what_an_error_says() {
        assert_eq!(events("event: error\n: no image\n\n"), [pair("error", "no image")]);
        assert_eq!(events("error: {\"code\":500}\n\ndata: b\n\n"), [pair("error", "{\"code\":500}"), pair("", "b")]);
        assert_eq!(events(": ping\n\nevent: other\n: note\ndata: x\n\n"), [pair("other", "x")]);
    }

    #[test]
    fn a_document_that_is_no_field_is_an_event() {
        assert_eq!(
            events("data: a\n\n{\"e\":\"b: c\"}\n{}\ndata: d\n\n"),
            [pair("", "a"), pair("", "{\"e\":\"b: c\"}"), pair("", "{}"), pair("", "d")]
        );
        assert_eq!(events("event: error\n{}\n\n\ndata: a\n{: b\n\n"), [pair("error", "{}"), pair("", "a")]);
    }

    #[test]
    fn an_event_that_the_stream_ends_in_is_taken_where_it_has_data() {
        for (text, data) in [
            ("data: a", Some("a")),
            ("data: a\n", Some("a")),
            ("data: x\n\ndata: a\r\ndata: b\r", Some("a\nb")),
            ("data: a\n\n", None),
            ("{:}", Some("{:}")),
            ("{:}\n", None),
            ("event: a\n", None),
            (": a", None),
            ("", None),
        ] {
            for cut in 0..=text.len() {
                let mut reader = EventReader::new(40);
                for mut piece in [&text.as_bytes()[..cut], &text.as_bytes()[cut..]] {
                    while reader.next(&mut piece).unwrap().is_some() {}
                }
                let last = reader.finish().map(|event| String::from_utf8_lossy(event.data).into_owned());
                assert_eq!(last.as_deref(), data, "{text:?} cut at {cut}");
                assert_eq!(reader.finish(), None);
            }
        }
    }

    #[test]
    fn a_stream_that_ends_within_an_event_is_told_and_long_events_are_refused() {
        for (text, inside) in [("", false), ("data: a\n\n", false), ("data: a\n", true), ("da", true), (":\n", false)] {
            assert_eq!(whole(text).1, Ok(inside), "{text:?}");
        }
        let long = format!("data: a\n\ndata: {}\n\n", "b".repeat(40));
        assert_eq!(whole(&long).0, [pair("", "a")]);
        assert!(whole(&long).1.unwrap_err().contains("40 bytes"));
    }

    /// Streams of parts that mean something, put together by a simple generator, cut at every place and into pieces of every
    /// size.
    #[test]
    fn what_is_read_does_not_depend_on_the_cuts() {
        const PARTS: [&str; 14] = [
            "data",
            ":",
            " ",
            "\n",
            "\r",
            "\r\n",
            "\n\n",
            "event",
            "x",
            "\u{feff}",
            "data: y\n",
            "id: 1\n",
            ": note\n",
            "\u{e9}",
        ];
        let mut state = 1_u64;
        let mut draw = |most: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize % most
        };
        for _ in 0..300 {
            let count = 1 + draw(24);
            let text: String = (0..count).map(|_| PARTS[draw(PARTS.len())]).collect();
            let (bytes, expected) = (text.as_bytes(), whole(&text));
            for cut in 0..=bytes.len() {
                let (front, back) = bytes.split_at(cut);
                assert_eq!(read([front, back].into_iter()), expected, "{text:?} cut at {cut}");
            }
            for size in 1..=bytes.len() {
                assert_eq!(read(bytes.chunks(size)), expected, "{text:?} in pieces of {size}");
            }
        }
    }
}
