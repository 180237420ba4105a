//! From the corpus to payloads: batches are packed once, before the run.

use std::borrow::Cow;
use std::fmt;
use std::mem;
use std::sync::Arc;

use super::layout::Layout;
use super::source::Source;
use super::steps::{Step, Value};
use super::{Corpus, Expected, InputTensor, OutputValues, Payload, PayloadId, shapes};
use crate::error::{Error, Result};
use crate::model::TensorSpec;
use crate::shm::{ALIGNMENT, Placement, Region};

/// More elements than this in one request are a slip of the keyboard.
const LARGEST_BATCH: u64 = 1 << 24;

/// How a corpus is packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packing {
    /// Batch elements per request.
    pub batch_size: u64,
    /// Where inputs are to live.
    pub placement: Placement,
    /// Which of the client's models the payloads are for.
    pub model: usize,
    /// Whether streams stay apart, because each sequence follows one; else requests cycle through all steps.
    pub sequences: bool,
    /// Number of the first payload, where the tables of several models are put together.
    pub first: PayloadId,
}

/// Every request body of a model.
#[derive(Clone, Debug)]
pub struct PayloadTable {
    /// The payloads, numbered from [`Packing::first`] on.
    pub payloads: Vec<Payload>,
    first: u32,
    /// Where each stream begins among the payloads, and where the last ends.
    starts: Vec<usize>,
}

impl PayloadTable {
    /// Number of streams: those of the corpus for sequences, else one, the cycle of all requests.
    pub fn streams(&self) -> usize {
        self.starts.len() - 1
    }

    /// Payloads of a stream.
    pub fn stream_len(&self, stream: usize) -> usize {
        self.starts[stream + 1] - self.starts[stream]
    }

    /// The payload at a position of a stream; positions past its end wrap.
    pub fn payload_id(&self, stream: usize, position: u64) -> PayloadId {
        let len = self.stream_len(stream) as u64;
        self.id(self.starts[stream] + (position % len) as usize)
    }

    /// The payload of request number `request` where requests cycle through everything: batches follow each other
    /// without a gap, and those at the end take their last elements from the beginning.
    pub fn cycle(&self, request: u64) -> PayloadId {
        self.id((request % self.payloads.len() as u64) as usize)
    }

    fn id(&self, index: usize) -> PayloadId {
        PayloadId(self.first + index as u32)
    }
}

/// A step and where it is from.
#[derive(Clone, Copy)]
struct Element<'a> {
    stream: usize,
    step: usize,
    data: &'a Step,
}

impl fmt::Display for Element<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "stream {}, step {}", self.stream, self.step)
    }
}

impl Corpus {
    /// Packs batches into memory of the given kind. Batches of one in ordinary memory are not copied; the memory of others is
    /// given back as they are copied, unless a clone has a share in it.
    ///
    /// # Errors
    /// Where steps cannot be batched together, the model does not batch, or the machine lacks memory or a driver.
    pub fn pack(mut self, packing: &Packing) -> Result<PayloadTable> {
        self.check(packing)?;
        let elements: Vec<Element<'_>> = self
            .streams
            .iter()
            .enumerate()
            .flat_map(|(stream, steps)| {
                steps.iter().enumerate().map(move |(step, data)| Element { stream, step, data })
            })
            .collect();
        let batch = packing.batch_size as usize;
        let regions = mem::take(&mut self.regions);
        let payloads = Packer { corpus: &self, regions, packing, elements, batch }.pack()?;
        if packing.first.0.checked_add(u32::try_from(payloads.len()).unwrap_or(u32::MAX)).is_none() {
            return Err(Error::input(format!("{} distinct requests are more than can be numbered", payloads.len())));
        }
        let mut starts = vec![0];
        if packing.sequences {
            starts.extend(self.streams.iter().scan(0, |end, stream| {
                *end += stream.len();
                Some(*end)
            }));
        } else {
            starts.push(payloads.len());
        }
        Ok(PayloadTable { payloads, first: packing.first.0, starts })
    }

    fn check(&self, packing: &Packing) -> Result<()> {
        let batch = packing.batch_size;
        if batch == 0 {
            return Err(Error::usage("-b 0: a request has at least one batch element"));
        }
        if batch > LARGEST_BATCH {
            return Err(Error::usage(format!("-b {batch}: a batch has at most {LARGEST_BATCH} elements")));
        }
        if batch > 1 && self.model.max_batch_size == 0 {
            return Err(Error::input(format!(
                "can not specify batch size > 1 as the model does not support batching: -b {batch}, but the max_batch_size \
                 of '{}' is 0",
                self.model.id
            )));
        }
        if batch > 1 && packing.sequences {
            return Err(Error::input(format!(
                "can not specify batch size > 1 when using a sequence model: -b {batch}"
            )));
        }
        Ok(())
    }
}

/// One packing under way.
struct Packer<'a> {
    corpus: &'a Corpus,
    /// Those of the corpus.
    regions: Vec<Arc<Region>>,
    packing: &'a Packing,
    elements: Vec<Element<'a>>,
    batch: usize,
}

impl<'a> Packer<'a> {
    fn pack(mut self) -> Result<Vec<Payload>> {
        let groups = self.groups();
        for &first in &groups {
            self.check_batch(first)?;
        }
        let in_place = self.batch == 1 && self.packing.placement == Placement::Pageable;
        // Servers ask that even a tensor without elements begins behind a region's first byte and before its end.
        let empty =
            self.elements.iter().any(|element| element.data.inputs.iter().flatten().any(|value| value.len == 0));
        let margin = if empty { ALIGNMENT } else { 0 };
        let mut total = margin;
        let layouts: Vec<Layout> = (0..self.corpus.model.inputs.len())
            .map(|input| if in_place { Ok(Layout::InPlace) } else { self.layout(input, &groups, &mut total) })
            .collect::<Result<_>>()?;
        let region = match in_place {
            true => None,
            false => Some(Arc::new(self.fill(&groups, &layouts, total.saturating_add(margin))?)),
        };
        let names: Vec<Arc<str>> = self.corpus.model.inputs.iter().map(|spec| Arc::from(spec.name.as_str())).collect();
        let payload = |(index, &first): (usize, &usize)| {
            let inputs = layouts.iter().enumerate().filter_map(|(input, layout)| {
                let place = layout.place(index, first).zip(region.as_ref());
                self.tensor(input, first, &names[input], place)
            });
            Ok(Payload {
                model: self.packing.model,
                batch: self.packing.batch_size,
                stream: self.elements[first].stream as u32,
                step: self.elements[first].step as u32,
                inputs: inputs.collect(),
                parameters: Vec::new(),
                expected: self.expected(first)?,
            })
        };
        groups.iter().enumerate().map(payload).collect()
    }

    /// First elements of the distinct batches: each starts where the one before ends, until one starts at the beginning.
    fn groups(&self) -> Vec<usize> {
        let count = self.elements.len();
        let mut groups = Vec::new();
        let mut first = 0;
        while count > 0 && (groups.is_empty() || first != 0) {
            groups.push(first);
            first = (first + self.batch) % count;
        }
        groups
    }

    fn members(&self, first: usize) -> impl Iterator<Item = Element<'a>> {
        (first..first + self.batch).map(|index| self.elements[index % self.elements.len()])
    }

    fn value(&self, element: Element<'a>, input: usize) -> Option<&'a Value> {
        element.data.inputs[input].as_ref()
    }

    fn bytes(&self, value: &Value) -> Result<Cow<'_, [u8]>> {
        self.regions[value.region].bytes(value.offset, value.len)
    }

    /// How often a batch holds an element's values of this input: shape tensors are sent once.
    fn repeats(&self, spec: &TensorSpec) -> usize {
        if spec.shape_tensor { 1 } else { self.batch }
    }

    /// Checks that the elements of a batch can be sent together.
    fn check_batch(&self, first: usize) -> Result<()> {
        let head = self.elements[first];
        for element in self.members(first).take(self.elements.len()).skip(1) {
            for (input, spec) in self.corpus.model.inputs.iter().enumerate() {
                let problem = match (self.value(head, input), self.value(element, input)) {
                    (Some(one), Some(other)) => self.check_pair(spec, one, other)?,
                    (None, None) => None,
                    _ => Some(format!(
                        "For batch sizes larger than 1, the same set of inputs must be specified for each batch. Input '{}' \
                         is only in one of them",
                        spec.name
                    )),
                };
                if let Some(problem) = problem {
                    return Err(Error::input(format!(
                        "-b {}: {problem} ({head} and {element}{})",
                        self.batch,
                        self.corpus.of_files()
                    )));
                }
            }
        }
        Ok(())
    }

    fn check_pair(&self, spec: &TensorSpec, one: &Value, other: &Value) -> Result<Option<String>> {
        if spec.shape_tensor {
            let rule = "The shape tensors should be identical in a batch";
            return Ok(match () {
                () if one.len != other.len => Some(format!("{rule} (mismatch in size) for '{}'", spec.name)),
                () if self.bytes(one)? != self.bytes(other)? => {
                    Some(format!("{rule} (mismatch in content) for '{}'", spec.name))
                }
                () => None,
            });
        }
        Ok((one.shape != other.shape).then(|| {
            format!(
                "can not batch tensors with different shapes together (input '{}' expected shape {} and received {})",
                spec.name,
                shapes::bracketed(&one.shape),
                shapes::bracketed(&other.shape)
            )
        }))
    }

    /// Decides where the batches of an input go, from `total` on, and moves `total` past them.
    fn layout(&self, input: usize, groups: &[usize], total: &mut usize) -> Result<Layout> {
        let spec = &self.corpus.model.inputs[input];
        let too_large =
            || Error::input(format!("input {}: the packed batches are too large to be addressed", spec.name));
        let mut reserve = |bytes: usize| -> Result<usize> {
            let start = *total;
            *total = start
                .checked_add(bytes)
                .and_then(|end| end.checked_next_multiple_of(ALIGNMENT))
                .ok_or_else(too_large)?;
            Ok(start)
        };
        let count = self.elements.len();
        let window = count + self.batch - 1;
        let len = self.elements[0].data.inputs[input].as_ref().map_or(0, |value| value.len);
        let alike =
            self.elements.iter().all(|&element| self.value(element, input).is_some_and(|value| value.len == len));
        if !spec.shape_tensor && alike && len.is_multiple_of(ALIGNMENT) && window < groups.len() * self.batch {
            let start = reserve(len.checked_mul(window).ok_or_else(too_large)?)?;
            return Ok(Layout::Ring { start, len });
        }
        let starts = groups.iter().map(|&first| {
            let members = self.members(first).take(self.repeats(spec));
            let lens = members.filter_map(|element| self.value(element, input)).map(|value| value.len);
            let bytes = lens.into_iter().try_fold(0_usize, usize::checked_add);
            reserve(bytes.ok_or_else(too_large)?)
        });
        starts.collect::<Result<_>>().map(Layout::Apart)
    }

    /// Allocates the packed region of `total` bytes and copies every element to its places, in the order in which batches take
    /// them; what is not needed again is given back.
    fn fill(&mut self, groups: &[usize], layouts: &[Layout], total: usize) -> Result<Region> {
        let mut target = Region::unfilled(self.packing.placement, total)?;
        let mut source = Source::new(mem::take(&mut self.regions), self.elements.iter().map(|element| element.data));
        let repeats: Vec<usize> = self.corpus.model.inputs.iter().map(|spec| self.repeats(spec)).collect();
        let mut next = vec![0; layouts.len()];
        let (count, positions) = (self.elements.len(), groups.len() * self.batch);
        for position in 0..positions {
            let (group, member) = (position / self.batch, position % self.batch);
            for (input, layout) in layouts.iter().enumerate() {
                let Some(value) = self.value(self.elements[position % count], input) else { continue };
                let to = match layout {
                    Layout::InPlace => None,
                    Layout::Ring { start, len } => {
                        (position < count + self.batch - 1).then_some(start + position * len)
                    }
                    Layout::Apart(starts) => {
                        let to = if member == 0 { starts[group] } else { next[input] };
                        next[input] = to + value.len;
                        (member < repeats[input]).then_some(to)
                    }
                };
                let is_last = position + count >= positions;
                source.copy(value, to.map(|to| (&mut target, to)), is_last)?;
            }
        }
        Ok(target.freeze())
    }

    /// The tensor of a batch: at `place` in the packed region, or where the corpus has it.
    fn tensor(
        &self,
        input: usize,
        first: usize,
        name: &Arc<str>,
        place: Option<(usize, &Arc<Region>)>,
    ) -> Option<InputTensor> {
        let spec = &self.corpus.model.inputs[input];
        let value = self.value(self.elements[first], input)?;
        let (offset, region) = place.unwrap_or_else(|| (value.offset, &self.regions[value.region]));
        let members = self.members(first).take(self.repeats(spec));
        let len = members.filter_map(|element| self.value(element, input)).map(|value| value.len).sum();
        let batched = self.corpus.model.max_batch_size > 0 && !spec.shape_tensor;
        let shape = batched.then_some(self.batch as i64).into_iter().chain(value.shape.iter().copied()).collect();
        Some(InputTensor {
            name: Arc::clone(name),
            datatype: spec.datatype,
            shape,
            region: Arc::clone(region),
            offset,
            len,
        })
    }

    /// The expected outputs of a batch: each response's outputs put together over its elements.
    fn expected(&self, first: usize) -> Result<Option<Arc<Expected>>> {
        let lists: Vec<_> = self.members(first).map(|element| element.data.expected.as_deref()).collect();
        let Some(head) = lists[0] else { return Ok(None) };
        let mut responses = head.to_vec();
        for list in &lists[1..] {
            let alike = list.is_some_and(|list| {
                list.len() == responses.len()
                    && list.iter().zip(&responses).all(|(one, other)| same_outputs(one, other))
            });
            let Some(list) = list.filter(|_| alike) else {
                return Err(Error::input(format!(
                    "-b {}: the expected outputs of the steps from {}{} on cannot be batched: they differ in responses, \
                     outputs or shapes",
                    self.batch,
                    self.elements[first],
                    self.corpus.of_files()
                )));
            };
            for (response, further) in responses.iter_mut().zip(list) {
                for (output, more) in response.iter_mut().zip(further) {
                    output.bytes.extend_from_slice(&more.bytes);
                }
            }
        }
        if self.corpus.model.max_batch_size > 0 {
            let shapes = responses.iter_mut().flatten().filter_map(|output| output.shape.as_mut());
            shapes.for_each(|shape| shape.insert(0, self.batch as i64));
        }
        Ok(Some(Arc::new(Expected { responses })))
    }
}

fn same_outputs(one: &[OutputValues], other: &[OutputValues]) -> bool {
    one.len() == other.len()
        && one.iter().zip(other).all(|(one, other)| one.name == other.name && one.shape == other.shape)
}
