//! Packs the corpus into payloads: batches are packed once, before the run.

use std::borrow::Cow;
use std::collections::HashMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::iter;
use std::mem;
use std::ops::Range;
use std::sync::Arc;

use crate::batches::{Cycle, Elements, cycles};
use crate::error::{Error, Result};
use crate::layout::Ring;
use crate::model::TensorSpec;
use crate::shm::{ALIGNMENT, Allowance, Placement, Region};
use crate::source::Source;
use crate::steps::{Stream, Value};
use crate::{Corpus, Expected, ExpectedStep, InputTensor, Payload};

/// A request with more elements than this is a typing error.
const LARGEST_BATCH: u64 = 1 << 24;

/// How a corpus is packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packing {
    /// Batch elements per request.
    pub batch_size: u64,
    /// The kind of memory for inputs.
    pub placement: Placement,
    /// Whether streams are kept apart, because each sequence follows one; else requests cycle through all steps.
    pub sequences: bool,
}

/// Every request body of a model.
#[derive(Clone, Debug)]
pub struct PayloadTable {
    /// In the order in which requests first carry them.
    pub payloads: Vec<Payload>,
    /// What the requests of a cycle carry: batches follow each other without a gap, and the last ones wrap around to the
    /// beginning.
    pub order: Vec<u32>,
    /// The range of each stream in it: the streams of the corpus for sequences, else a single one, the cycle of all requests.
    pub streams: Vec<Range<u32>>,
}

/// Bytes that a request takes beside its [`Payload`]: what a service makes of it before the run, a head and a template.
const PREPARED: usize = 700;
/// Steps of more bytes than this are not compared with others: to share a request's objects would save little.
const COMPARED: usize = 4096;

impl Corpus {
    /// Packs batches into memory of the given kind. Batches of one in ordinary memory are not copied; the memory of
    /// others is released as they are copied, unless a clone shares it.
    ///
    /// # Errors
    /// If steps cannot be batched together, the model does not batch, or the machine lacks memory or a driver.
    pub fn pack(self, packing: &Packing) -> Result<PayloadTable> {
        self.pack_for(packing, false)
    }

    /// The same; small steps with the same content share a request body, if they are sent from where they were read.
    ///
    /// # Errors
    /// As [`Corpus::pack`].
    pub fn pack_distinct(self, packing: &Packing) -> Result<PayloadTable> {
        self.pack_for(packing, true)
    }

    fn pack_for(mut self, packing: &Packing, shares: bool) -> Result<PayloadTable> {
        self.check(packing)?;
        let elements = Elements::new(&self.streams);
        let cycles = cycles(&self, &elements, packing.batch_size as usize)?;
        let requests = cycles.iter().map(Cycle::groups).sum::<usize>();
        let count = u32::try_from(requests)
            .map_err(|_| Error::input(format!("{requests} distinct requests are more than can be numbered")))?;
        let streams = match packing.sequences {
            true => elements.streams().map(|range| range.start as u32..range.end as u32).collect(),
            false => iter::once(0..count).collect(),
        };
        let regions = mem::take(&mut self.regions);
        let expected = self.expected_steps();
        let batched = self.model.max_batch_size > 0;
        let memory = &self.memory;
        let packer = Packer { inputs: &self.model.inputs, batched, packing, elements, cycles, memory, shares };
        let (payloads, order) = packer.pack(regions, expected.as_ref())?;
        Ok(PayloadTable { payloads, order, streams })
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

    /// The expected outputs of every step; `None` if no step has any.
    fn expected_steps(&self) -> Option<Arc<[ExpectedStep]>> {
        let of_stream = |(stream, steps): (usize, &Stream)| {
            let expected = |step| steps.expected(step).cloned().unwrap_or_default();
            let steps = (0..steps.len()).map(move |step| (step, expected(step)));
            let numbered = |(step, responses)| ExpectedStep { stream: stream as u32, step: step as u32, responses };
            steps.map(numbered).collect::<Vec<_>>()
        };
        self.validates().then(|| self.streams.iter().enumerate().flat_map(of_stream).collect())
    }
}

/// A packing in progress.
struct Packer<'a> {
    inputs: &'a [TensorSpec],
    /// Whether tensors have a batch dimension.
    batched: bool,
    packing: &'a Packing,
    elements: Elements<'a>,
    cycles: Vec<Cycle>,
    memory: &'a Allowance,
    /// Whether requests with the same content may share a body.
    shares: bool,
}

/// Where values are sent from.
enum Packed {
    /// In the regions of the corpus.
    InPlace(Vec<Arc<Region>>),
    /// In a separate region; with the layout of every cycle and input.
    Apart(Arc<Region>, Vec<Vec<Ring>>),
}

impl Packer<'_> {
    fn pack(
        &self,
        regions: Vec<Arc<Region>>,
        expected: Option<&Arc<[ExpectedStep]>>,
    ) -> Result<(Vec<Payload>, Vec<u32>)> {
        let in_place = self.packing.batch_size == 1 && self.packing.placement == Placement::Pageable;
        let packed = if in_place { Packed::InPlace(regions) } else { self.copy(regions)? };
        let mut tensors = Tensors {
            packer: self,
            packed,
            names: self.inputs.iter().map(|spec| Arc::from(spec.name.as_str())).collect(),
            shapes: HashMap::new(),
        };
        let mut order = Vec::with_capacity(self.cycles.iter().map(Cycle::groups).sum());
        let mut payloads: Vec<Payload> = Vec::new();
        let mut payload_index = (self.shares && in_place && expected.is_none()).then(ContentIndex::default);
        for (number, cycle) in self.cycles.iter().enumerate() {
            for start in (0..cycle.groups()).map(|group| cycle.start(group)) {
                let first = cycle.element(start);
                let element = self.elements.get(first);
                let expected = expected.filter(|_| element.expected.is_some()).map(|steps| {
                    let (steps, cycle) = (Arc::clone(steps), cycle.first..cycle.first + cycle.count);
                    Arc::new(Expected { steps, cycle, first, batched: self.batched })
                });
                let inputs = tensors.inputs(number, start);
                let next = payloads.len() as u32;
                let position =
                    payload_index.as_mut().map_or(next, |payload_index| payload_index.index(&inputs, &payloads));
                order.push(position);
                if position < next {
                    continue;
                }
                self.memory.take((size_of::<Payload>() + inputs.len() * size_of::<InputTensor>() + PREPARED) as u64)?;
                payloads.push(Payload {
                    model: 0,
                    batch: self.packing.batch_size,
                    stream: element.stream as u32,
                    step: element.step as u32,
                    inputs,
                    parameters: Vec::new(),
                    expected,
                });
            }
        }
        Ok((payloads, order))
    }

    /// Number of elements of this input in a batch: shape tensors are sent once.
    fn repeats(&self, spec: &TensorSpec) -> usize {
        if spec.shape_tensor { 1 } else { self.packing.batch_size as usize }
    }

    /// Copies everything to where it is sent from.
    fn copy(&self, regions: Vec<Arc<Region>>) -> Result<Packed> {
        // Servers require that even a tensor without elements begins after a region's first byte and before its end.
        let empty = self.elements.values().any(|value| value.len == 0);
        let margin = if empty { ALIGNMENT } else { 0 };
        let mut total = margin;
        let rings = self.cycles.iter().map(|&cycle| {
            let inputs = self.inputs.iter().enumerate();
            inputs.map(|(input, spec)| self.ring(cycle, input, spec, &mut total)).collect::<Result<Vec<_>>>()
        });
        let rings = rings.collect::<Result<Vec<_>>>()?;
        let region = self.fill(&rings, regions, total.saturating_add(margin))?;
        Ok(Packed::Apart(Arc::new(region), rings))
    }

    fn ring(&self, cycle: Cycle, input: usize, spec: &TensorSpec, total: &mut usize) -> Result<Ring> {
        let value = |position| self.elements.get(cycle.element(position)).inputs[input].as_ref();
        let lens = (0..cycle.count).map(|position| value(position).map_or(0, |value| value.len));
        Ring::new(cycle, self.repeats(spec), lens, total).ok_or_else(|| {
            Error::input(format!("input {}: the packed batches are too large to be addressed", spec.name))
        })
    }

    /// Allocates the packed region of `total` bytes and copies every element to its places, in the order in which
    /// batches use them; source memory that is no longer needed is released.
    fn fill(&self, rings: &[Vec<Ring>], regions: Vec<Arc<Region>>, total: usize) -> Result<Region> {
        let mut source = Source::new(regions, self.elements.values());
        // A device's memory is not counted; its driver reports when there is none left.
        let taken = if matches!(self.packing.placement, Placement::Cuda(_)) { 0 } else { total as u64 };
        let (all, spendable) = source.lens();
        let further = taken.saturating_sub(spendable);
        let asked = || format!("-b {} and {}", self.packing.batch_size, self.packing.placement);
        self.memory.take(further).map_err(|error| error.context(asked()))?;
        let mut target = Region::unfilled(self.packing.placement, total)?;
        for (cycle, rings) in self.cycles.iter().zip(rings) {
            let windows: Vec<usize> = self.inputs.iter().map(|spec| cycle.window(self.repeats(spec))).collect();
            let positions = cycle.window(self.packing.batch_size as usize);
            for position in 0..positions {
                let element = self.elements.get(cycle.element(position));
                for (input, value) in element.inputs.iter().enumerate() {
                    let Some(value) = value else { continue };
                    let to = (position < windows[input]).then(|| rings[input].offset(position));
                    source.copy(value, to.map(|to| (&mut target, to)), position + cycle.count >= positions)?;
                }
            }
        }
        self.memory.give_back((all + further).saturating_sub(taken));
        Ok(target.freeze())
    }
}

/// The contents of small requests so far.
#[derive(Default)]
struct ContentIndex {
    /// By a hash of the content, the first request with it.
    places: HashMap<u64, u32>,
}

impl ContentIndex {
    /// The number of a request with these inputs: an earlier one, or that of the next.
    fn index(&mut self, inputs: &[InputTensor], payloads: &[Payload]) -> u32 {
        let next = payloads.len() as u32;
        if inputs.iter().map(|input| input.len).sum::<usize>() > COMPARED {
            return next;
        }
        let mut hash = DefaultHasher::new();
        for input in inputs {
            input.name.hash(&mut hash);
            input.shape.hash(&mut hash);
            input.region.bytes(input.offset, input.len).unwrap_or_default().hash(&mut hash);
        }
        let position = *self.places.entry(hash.finish()).or_insert(next);
        // Different ones may have the same hash.
        if position < next && are_equal(&payloads[position as usize].inputs, inputs) { position } else { next }
    }
}

fn are_equal(left: &[InputTensor], right: &[InputTensor]) -> bool {
    let bytes = |input: &InputTensor| input.region.bytes(input.offset, input.len).map(Cow::into_owned).ok();
    let same = |(left, right): (&InputTensor, &InputTensor)| {
        left.name == right.name && left.shape == right.shape && bytes(left).is_some() && bytes(left) == bytes(right)
    };
    left.len() == right.len() && left.iter().zip(right).all(same)
}

/// Builds the tensors of requests.
struct Tensors<'a> {
    packer: &'a Packer<'a>,
    packed: Packed,
    /// Names of the inputs.
    names: Vec<Arc<str>>,
    /// Shapes with the batch dimension, by those without; each stored once, because there may be millions of requests.
    shapes: HashMap<Arc<[i64]>, Arc<[i64]>>,
}

impl Tensors<'_> {
    /// The inputs of the batch that starts at a position of cycle number `cycle`.
    fn inputs(&mut self, cycle: usize, start: usize) -> Vec<InputTensor> {
        let packer = self.packer;
        let element = packer.elements.get(packer.cycles[cycle].element(start));
        let mut tensors = Vec::with_capacity(element.inputs.iter().flatten().count());
        for (input, (spec, value)) in packer.inputs.iter().zip(element.inputs).enumerate() {
            let Some(value) = value else { continue };
            let (region, offset, len) = self.locate(cycle, input, start, value);
            tensors.push(InputTensor {
                name: Arc::clone(&self.names[input]),
                datatype: spec.datatype,
                region,
                offset,
                len,
                shape: if packer.batched && !spec.shape_tensor {
                    self.batched(value)
                } else {
                    Arc::clone(&value.shape)
                },
            });
        }
        tensors
    }

    /// Region, offset and length of the tensor that begins with `value`.
    fn locate(&self, cycle: usize, input: usize, start: usize, value: &Value) -> (Arc<Region>, usize, usize) {
        match &self.packed {
            Packed::InPlace(regions) => (Arc::clone(&regions[value.region]), value.offset, value.len),
            Packed::Apart(region, rings) => {
                let ring = &rings[cycle][input];
                let last = start + self.packer.repeats(&self.packer.inputs[input]) - 1;
                let element = self.packer.elements.get(self.packer.cycles[cycle].element(last));
                let end = ring.offset(last) + element.inputs[input].as_ref().map_or(0, |value| value.len);
                (Arc::clone(region), ring.offset(start), end - ring.offset(start))
            }
        }
    }

    fn batched(&mut self, value: &Value) -> Arc<[i64]> {
        let batch = self.packer.packing.batch_size as i64;
        let shape = self.shapes.entry(Arc::clone(&value.shape));
        let shape = shape.or_insert_with(|| [&[batch], &*value.shape].concat().into());
        Arc::clone(shape)
    }
}
