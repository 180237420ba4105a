//! [`Arrivals`]: the responses of a request, of which those that came together may be one.

use std::io::{self, Write};
use std::iter::Peekable;

use crate::export::{key, tensor};
use crate::model::DataType;
use crate::record::{RawRecord, RawResponse};

/// What arrived at once: a response, or the events of a stream from one read.
pub(super) struct Arrival<'a> {
    /// The response, or the first of the events.
    pub(super) first: RawResponse<'a>,
    /// Further events.
    more: Vec<RawResponse<'a>>,
}

impl Arrival<'_> {
    /// Writes its outputs; a response without any shows those of the model, which have these `names`, as empty.
    pub(super) fn write(&self, out: &mut impl Write, names: &[String]) -> io::Result<()> {
        out.write_all(b"{")?;
        let mut empty = true;
        for output in self.first.outputs() {
            key(out, empty, output.name)?;
            match self.more.is_empty() {
                true => tensor::write(out, output.datatype, output.bytes)?,
                false => tensor::string(out, &self.text())?,
            }
            empty = false;
        }
        for (index, name) in names.iter().enumerate().filter(|_| empty) {
            key(out, index == 0, name)?;
            out.write_all(b"\"\"")?;
        }
        out.write_all(b"}")
    }

    /// The text of its events.
    fn text(&self) -> String {
        let all = std::iter::once(&self.first).chain(&self.more).flat_map(RawResponse::outputs);
        all.map(|output| tensor::first_text(output.bytes)).collect()
    }
}

/// The responses of a request. Joined, the events of a stream that came in one read are one response, as of perf_analyzer: genai-perf
/// divides by the time between the first and the last.
pub(super) struct Arrivals<'a, I: Iterator<Item = RawResponse<'a>>> {
    responses: Peekable<I>,
    are_joined: bool,
}

impl<'a> Arrivals<'a, std::iter::Empty<RawResponse<'a>>> {
    /// Those of `record`.
    pub(super) fn of(record: &'a RawRecord, are_joined: bool) -> Arrivals<'a, impl Iterator<Item = RawResponse<'a>>> {
        Arrivals { responses: record.responses().peekable(), are_joined }
    }
}

impl<'a, I: Iterator<Item = RawResponse<'a>>> Iterator for Arrivals<'a, I> {
    type Item = Arrival<'a>;

    fn next(&mut self) -> Option<Arrival<'a>> {
        let first = self.responses.next()?;
        let mut more = Vec::new();
        if self.are_joined && is_event(&first) {
            let is_with_it = |next: &RawResponse<'_>| next.at == first.at && is_event(next);
            more.extend(std::iter::from_fn(|| self.responses.next_if(is_with_it)));
        }
        Some(Arrival { first, more })
    }
}

/// Whether a response is an event that readers find a choice in: of a text of several, they look at the first.
fn is_event(response: &RawResponse<'_>) -> bool {
    let mut outputs = response.outputs();
    let only = outputs.next().filter(|output| output.datatype == DataType::Json);
    only.is_some_and(|output| tensor::is_event(output.bytes)) && outputs.next().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::{OutputView, Response};
    use crate::clock::Stamp;
    use crate::record::TestOutputs;

    #[test]
    fn events_of_one_read_are_one_response() {
        let event = |text: &str| format!("data: {{\"choices\":[{{\"delta\":{{\"content\":\"{text}\"}}}}]}}\n\n");
        let usage = "data: {\"choices\":[],\"usage\":{}}\n\n".to_owned();
        let named = "event: x\ndata: {}\n\n".to_owned();
        let texts =
            [event("a"), event("b"), event("c"), named, event("d"), event("e"), usage, "data: [DONE]\n\n".into()];
        let mut record = RawRecord::default();
        for (at, text) in [5, 5, 7, 7, 7, 9, 9, 9].into_iter().zip(&texts) {
            let bytes = [&(text.len() as u32).to_le_bytes()[..], text.as_bytes()].concat();
            let output = OutputView { name: "response", datatype: DataType::Json, shape: &[1], bytes: &bytes };
            let outputs = TestOutputs(vec![output]);
            record.add(&Response { at: Stamp(at), empty: false, outputs: &outputs, error: None });
        }
        let written = |all: Arrival<'_>| {
            let mut out = Vec::new();
            all.write(&mut out, &[]).unwrap();
            (all.first.at.0, serde_json::from_slice::<serde_json::Value>(&out).unwrap()["response"].clone())
        };
        let (stamps, joined): (Vec<u64>, Vec<_>) = Arrivals::of(&record, true).map(written).unzip();
        assert_eq!(stamps, [5, 7, 7, 7, 9, 9, 9]);
        assert_eq!((&joined[0], &joined[1]), (&(event("a") + &event("b")).into(), &event("c").into()));
        let (stamps, alone): (Vec<u64>, Vec<_>) = Arrivals::of(&record, false).map(written).unzip();
        assert_eq!((stamps.len(), &alone[0]), (texts.len(), &event("a").into()));
    }
}
