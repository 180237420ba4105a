//! Everything about one request, for observers of single requests. Made only if there are any.

use std::mem::size_of;
use std::ops::Range;

use crate::backend::OutputView;
#[cfg(any(test, feature = "testing"))]
use crate::backend::Response;
use crate::clock::Stamp;
use crate::data::PayloadId;
use crate::model::DataType;

/// A finished request, and copies of its responses. Its memory is reused: clearing it keeps the allocation.
#[derive(Clone, Debug, Default)]
pub struct RawRecord {
    /// When it was sent.
    pub sent: Stamp,
    /// When it should have been sent, in open loops.
    pub intended: Option<Stamp>,
    /// When it ended, as it was recorded.
    pub end: Stamp,
    /// Correlation ID; 0 if it belongs to no sequence.
    pub sequence_id: u64,
    /// What it carried.
    pub payload: PayloadId,
    /// Which server it went to, where there are several.
    pub server: usize,
    /// The code of its failure; empty if it succeeded.
    pub failure: String,
    /// Its first input, if that was not its payload's; else empty.
    carried: Vec<u8>,
    responses: Vec<Head>,
    outputs: Vec<Tensor>,
    names: String,
    dims: Vec<i64>,
    bytes: Vec<u8>,
    /// Bytes that its pool has accounted for it.
    pub(super) charged: usize,
}

/// A response; its outputs are those up to a number, starting where those of the previous response end.
#[derive(Clone, Debug)]
struct Head {
    at: Stamp,
    empty: bool,
    outputs: usize,
}

/// An output; its parts end at these places, where those of the next one begin.
#[derive(Clone, Copy, Debug)]
struct Tensor {
    datatype: DataType,
    names: usize,
    dims: usize,
    bytes: usize,
}

impl RawRecord {
    /// Forgets everything but the memory.
    pub(super) fn clear(&mut self) {
        self.failure.clear();
        self.carried.clear();
        self.responses.clear();
        self.outputs.clear();
        self.names.clear();
        self.dims.clear();
        self.bytes.clear();
    }

    /// Bytes of memory that it takes.
    pub(super) fn footprint(&self) -> usize {
        size_of::<Self>()
            + self.failure.capacity()
            + self.carried.capacity()
            + self.responses.capacity() * size_of::<Head>()
            + self.outputs.capacity() * size_of::<Tensor>()
            + self.names.capacity()
            + self.dims.capacity() * size_of::<i64>()
            + self.bytes.capacity()
    }

    /// How many bytes it will grow by for this output and the end of its response.
    pub(super) fn growth(&self, output: Option<&OutputView<'_>>) -> usize {
        let output_growth = output.map_or(0, |output| {
            growth::<u8>(self.names.len(), self.names.capacity(), output.name.len())
                + growth::<i64>(self.dims.len(), self.dims.capacity(), output.shape.len())
                + growth::<u8>(self.bytes.len(), self.bytes.capacity(), output.bytes.len())
                + growth::<Tensor>(self.outputs.len(), self.outputs.capacity(), 1)
        });
        output_growth + growth::<Head>(self.responses.len(), self.responses.capacity(), 1)
    }

    /// Reserves memory for the elements of an output; returns `false` if the system has none.
    pub(super) fn has_capacity_for(&mut self, output: &OutputView<'_>) -> bool {
        self.bytes.try_reserve(output.bytes.len()).is_ok()
    }

    /// How many bytes it will grow by for a first input of its own.
    pub(super) fn growth_for(&self, text: &[u8]) -> usize {
        growth::<u8>(0, self.carried.capacity(), text.len())
    }

    /// Copies a first input of its own; returns `false` if the system has no memory for it.
    pub(super) fn carry(&mut self, text: &[u8]) -> bool {
        self.carried.clear();
        let has_capacity = self.carried.try_reserve(text.len()).is_ok();
        self.carried.extend_from_slice(if has_capacity { text } else { &[] });
        has_capacity
    }

    /// Whether it failed.
    pub fn failed(&self) -> bool {
        !self.failure.is_empty()
    }

    /// Its first input, if that was another than its payload's.
    pub fn carried(&self) -> Option<&[u8]> {
        Some(self.carried.as_slice()).filter(|text| !text.is_empty())
    }

    /// Copies an output of the response that [`RawRecord::close`] ends.
    pub(super) fn copy(&mut self, output: &OutputView<'_>) {
        self.names.push_str(output.name);
        self.dims.extend_from_slice(output.shape);
        self.bytes.extend_from_slice(output.bytes);
        let (names, dims, bytes) = (self.names.len(), self.dims.len(), self.bytes.len());
        self.outputs.push(Tensor { datatype: output.datatype, names, dims, bytes });
    }

    /// Ends a response whose outputs have been copied.
    pub(super) fn close(&mut self, at: Stamp, empty: bool) {
        self.responses.push(Head { at, empty, outputs: self.outputs.len() });
    }

    /// Adds a response, however much memory it takes.
    #[cfg(any(test, feature = "testing"))]
    pub fn add(&mut self, response: &Response<'_>) {
        response.outputs.visit(&mut |output| self.copy(&output));
        self.close(response.at, response.empty);
    }

    /// Its responses in order, including an empty one that only ends the request.
    pub fn responses(&self) -> impl Iterator<Item = RawResponse<'_>> {
        (0..self.responses.len()).map(|index| {
            let from = index.checked_sub(1).map_or(0, |before| self.responses[before].outputs);
            let head = &self.responses[index];
            RawResponse { at: head.at, empty: head.empty, record: self, outputs: from..head.outputs }
        })
    }

    fn output(&self, index: usize) -> OutputView<'_> {
        let first = Tensor { datatype: DataType::Bool, names: 0, dims: 0, bytes: 0 };
        let from = index.checked_sub(1).map_or(first, |before| self.outputs[before]);
        let to = self.outputs[index];
        OutputView {
            name: &self.names[from.names..to.names],
            datatype: to.datatype,
            shape: &self.dims[from.dims..to.dims],
            bytes: &self.bytes[from.bytes..to.bytes],
        }
    }
}

/// How many bytes a vector grows by for `more` elements.
fn growth<T>(len: usize, capacity: usize, more: usize) -> usize {
    let grows = len + more > capacity;
    if grows { ((len + more).max(2 * capacity) - capacity) * size_of::<T>() } else { 0 }
}

/// A response of a [`RawRecord`].
#[derive(Clone, Debug)]
pub struct RawResponse<'a> {
    /// When it came.
    pub at: Stamp,
    /// Whether it only ended the request and carried nothing.
    pub empty: bool,
    record: &'a RawRecord,
    outputs: Range<usize>,
}

impl<'a> RawResponse<'a> {
    /// Its outputs, in the response's order.
    pub fn outputs(&self) -> impl Iterator<Item = OutputView<'a>> + use<'a> {
        let record = self.record;
        self.outputs.clone().map(move |index| record.output(index))
    }
}

/// Outputs of a response that no server sent.
#[cfg(any(test, feature = "testing"))]
pub struct TestOutputs<'a>(pub Vec<OutputView<'a>>);

#[cfg(any(test, feature = "testing"))]
impl crate::backend::Outputs for TestOutputs<'_> {
    fn visit(&self, visitor: &mut dyn FnMut(OutputView<'_>)) {
        self.0.iter().for_each(|output| visitor(*output));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn responses_come_out_as_they_went_in_and_memory_is_kept() {
        let view = |name, shape, bytes| OutputView { name, datatype: DataType::Uint8, shape, bytes };
        let first = TestOutputs(vec![view("A", &[1, 2], b"ab"), view("LONGER", &[], b"")]);
        let second = TestOutputs(vec![view("B", &[3], b"cde")]);
        let none = TestOutputs(Vec::new());
        let mut record = RawRecord::default();
        let mut footprint = 0;
        for round in 0..3 {
            for (outputs, at, empty) in [(&first, 1, false), (&none, 2, true), (&second, 3, false)] {
                record.add(&Response { at: Stamp(at), empty, outputs, error: None });
            }
            let responses: Vec<_> = record.responses().map(|response| (response.at.0, response.empty)).collect();
            assert_eq!(responses, [(1, false), (2, true), (3, false)]);
            let shown = |output: OutputView<'_>| format!("{} {:?} {:?}", output.name, output.shape, output.bytes);
            let outputs: Vec<Vec<_>> =
                record.responses().map(|response| response.outputs().map(shown).collect()).collect();
            assert_eq!(outputs, [vec!["A [1, 2] [97, 98]", "LONGER [] []"], vec![], vec!["B [3] [99, 100, 101]"]]);
            if round > 0 {
                assert_eq!(record.footprint(), footprint);
            }
            footprint = record.footprint();
            record.clear();
            assert_eq!(record.responses().count(), 0);
        }
    }
}
