//! Groups steps into batches, and checks that they fit together.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::model::TensorSpec;
use crate::shm::Region;
use crate::steps::{Stream, Value};
use crate::{Corpus, Responses, shapes};

/// A step and its origin.
#[derive(Clone, Copy)]
pub(super) struct Element<'a> {
    pub stream: usize,
    pub step: usize,
    /// One per input of the model.
    pub inputs: &'a [Option<Value>],
    pub expected: Option<&'a Responses>,
}

impl fmt::Display for Element<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "stream {}, step {}", self.stream, self.step)
    }
}

/// The steps of all streams, one after the other.
pub(super) struct Elements<'a> {
    streams: &'a [Stream],
    /// Where each stream begins, and where the last ends.
    starts: Vec<usize>,
}

impl<'a> Elements<'a> {
    pub(super) fn new(streams: &'a [Stream]) -> Self {
        let mut starts = vec![0];
        starts.extend(streams.iter().scan(0, |end, stream| {
            *end += stream.len();
            Some(*end)
        }));
        Self { streams, starts }
    }

    pub(super) fn len(&self) -> usize {
        self.starts[self.streams.len()]
    }

    pub(super) fn get(&self, index: usize) -> Element<'a> {
        let stream = self.starts.partition_point(|&start| start <= index) - 1;
        let step = index - self.starts[stream];
        let steps = &self.streams[stream];
        Element { stream, step, inputs: steps.inputs(step), expected: steps.expected(step) }
    }

    /// All values, in order.
    pub(super) fn values(&self) -> impl Iterator<Item = &'a Value> {
        self.streams.iter().flat_map(Stream::values)
    }

    /// The range of each stream among the elements.
    pub(super) fn streams(&self) -> impl Iterator<Item = Range<usize>> {
        self.starts.windows(2).map(|ends| ends[0]..ends[1])
    }
}

/// Elements that batches cycle through: each batch starts where the one before ends, until one starts at the beginning
/// again.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cycle {
    /// The first of the elements.
    pub first: usize,
    /// Their number.
    pub count: usize,
    /// Elements of a batch.
    pub batch: usize,
}

impl Cycle {
    /// Number of distinct batches.
    pub(super) fn groups(&self) -> usize {
        self.count / greatest_common_divisor(self.count, self.batch)
    }

    /// Where in the cycle a batch starts.
    pub(super) fn start(&self, group: usize) -> usize {
        group * self.batch % self.count
    }

    /// The element at a position; positions past the end wrap around.
    pub(super) fn element(&self, position: usize) -> usize {
        self.first + position % self.count
    }

    /// Whether no two batches have elements in common.
    pub(super) fn is_apart(&self) -> bool {
        self.groups() * self.batch == self.count
    }

    /// Number of positions needed for each batch to have its first `repeats` elements next to each other.
    pub(super) fn window(&self, repeats: usize) -> usize {
        (self.count + repeats - 1).min(self.groups() * self.batch)
    }
}

fn greatest_common_divisor(a: usize, b: usize) -> usize {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}

/// The cycles of batches of a size: one over all steps, or one per stream if steps of different streams cannot be sent
/// together.
///
/// # Errors
/// If the steps of a stream cannot be sent together.
pub(super) fn cycles(corpus: &Corpus, elements: &Elements<'_>, batch: usize) -> Result<Vec<Cycle>> {
    let whole = Cycle { first: 0, count: elements.len(), batch };
    match check(corpus, elements, whole) {
        Err(_) if corpus.streams.len() > 1 => {
            let streams = elements.streams().map(|range| Cycle { first: range.start, count: range.len(), batch });
            streams.map(|cycle| check(corpus, elements, cycle).map(|()| cycle)).collect()
        }
        result => result.map(|()| vec![whole]),
    }
}

/// Checks that neighbours can be sent together if they are in one batch: then whole batches can.
fn check(corpus: &Corpus, elements: &Elements<'_>, cycle: Cycle) -> Result<()> {
    let pairs = cycle.count.min(cycle.window(cycle.batch).saturating_sub(1));
    for position in 0..pairs {
        if cycle.is_apart() && (position + 1).is_multiple_of(cycle.batch) {
            continue;
        }
        let (first, second) = (elements.get(cycle.element(position)), elements.get(cycle.element(position + 1)));
        let inputs = corpus.model.inputs.iter().zip(first.inputs.iter().zip(second.inputs));
        let mut problem = None;
        for (spec, (value, next)) in inputs {
            problem = check_inputs(&corpus.regions, spec, value.as_ref(), next.as_ref())?;
            if problem.is_some() {
                break;
            }
        }
        if let Some(problem) = problem.or_else(|| check_expected(first, second)) {
            let files = corpus.of_files();
            return Err(Error::input(format!("-b {}: {problem} ({first} and {second}{files})", cycle.batch)));
        }
    }
    Ok(())
}

fn check_inputs(
    regions: &[Arc<Region>],
    spec: &TensorSpec,
    first: Option<&Value>,
    second: Option<&Value>,
) -> Result<Option<String>> {
    let (first, second) = match (first, second) {
        (Some(first), Some(second)) => (first, second),
        (None, None) => return Ok(None),
        _ => {
            return Ok(Some(format!(
                "For batch sizes larger than 1, the same set of inputs must be specified for each batch. Input '{}' is \
                 only in one of them",
                spec.name
            )));
        }
    };
    if spec.shape_tensor {
        let rule = "The shape tensors should be identical in a batch";
        return Ok(match () {
            () if first.len != second.len => Some(format!("{rule} (mismatch in size) for '{}'", spec.name)),
            () if bytes(regions, first)? != bytes(regions, second)? => {
                Some(format!("{rule} (mismatch in content) for '{}'", spec.name))
            }
            () => None,
        });
    }
    Ok((first.shape != second.shape).then(|| {
        format!(
            "can not batch tensors with different shapes together (input '{}' expected shape {} and received {})",
            spec.name,
            shapes::bracketed(&first.shape),
            shapes::bracketed(&second.shape)
        )
    }))
}

fn bytes<'a>(regions: &'a [Arc<Region>], value: &Value) -> Result<Cow<'a, [u8]>> {
    regions[value.region].bytes(value.offset, value.len)
}

fn check_expected(first: Element<'_>, second: Element<'_>) -> Option<String> {
    let lacking = |without: Element<'_>, with: Element<'_>| {
        Some(format!(
            "{with} has expected outputs, but {without} in the same batch has none; give both steps expected \
                outputs, or neither"
        ))
    };
    let (left, right) = match (first.expected, second.expected) {
        (None, None) => return None,
        (None, Some(_)) => return lacking(first, second),
        (Some(_), None) => return lacking(second, first),
        (Some(left), Some(right)) => (left, right),
    };
    let alike = left.len() == right.len()
        && left.iter().zip(right.iter()).all(|(left, right)| {
            let mut pairs = left.iter().zip(right);
            left.len() == right.len() && pairs.all(|(left, right)| left.name == right.name && left.shape == right.shape)
        });
    (!alike).then(|| "the expected outputs cannot be batched: they differ in responses, outputs or shapes".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_batch_is_a_window_of_its_cycle() {
        for count in 1..20 {
            for batch in 1..20 {
                let cycle = Cycle { first: 3, count, batch };
                let (mut starts, mut next) = (vec![0], batch % count);
                while next != 0 {
                    starts.push(next);
                    next = (next + batch) % count;
                }
                let groups: Vec<_> = (0..cycle.groups()).map(|group| cycle.start(group)).collect();
                assert_eq!(groups, starts, "{cycle:?}");
                let last = groups.iter().max().unwrap();
                assert!(last + batch <= cycle.window(batch), "{cycle:?}");
                assert!(cycle.window(batch) < count + batch && cycle.window(1) == count, "{cycle:?}");
                assert_eq!(cycle.is_apart(), count % batch == 0, "{cycle:?}");
                assert_eq!(cycle.element(count + 1), 3 + 1 % count);
            }
        }
    }
}
