//! The layout of outputs that the server writes to shared memory.

use std::sync::Arc;

use crate::backend::{ClientSpec, OutputPlan};
use crate::kserve::regions::{Registration, is_shared};
use crate::model::{DataType, TensorSpec};
use crate::shm::{Placement, Placements};

/// Outputs begin at multiples of this in their region.
const ALIGNMENT: usize = 64;

/// Where an output goes in the region of a slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputPlace {
    /// Name of the output.
    pub name: String,
    /// Its first byte.
    pub offset: usize,
    /// Bytes that it may take.
    pub capacity: usize,
}

/// The layout of every model's outputs in a slot's region. A slot has one request at a time, so models share the space.
#[derive(Debug)]
pub struct OutputLayout {
    placements: Placements,
    models: Vec<Vec<OutputPlace>>,
    size: usize,
}

impl OutputLayout {
    /// The layout for clients with this `spec`; `None` if outputs come in the reply.
    pub fn for_client(spec: &ClientSpec) -> Option<Self> {
        if !is_shared(spec.outputs.placements.first()) {
            return None;
        }
        let batch = |index| {
            let payloads = spec.payloads.iter().filter(move |payload| payload.model == index);
            payloads.map(|payload| payload.batch).max().unwrap_or(1)
        };
        let outputs = spec.models.iter().enumerate().map(|(index, model)| (&model.outputs[..], batch(index)));
        Some(Self::new(outputs, &spec.outputs))
    }

    fn new<'a>(models: impl Iterator<Item = (&'a [TensorSpec], u64)>, plan: &OutputPlan) -> Self {
        let mut layout = Self { placements: plan.placements.clone(), models: Vec::new(), size: ALIGNMENT };
        for (outputs, batch) in models {
            let (mut places, mut end) = (Vec::new(), 0_usize);
            for output in outputs {
                let capacity = capacity(output, plan, batch);
                places.push(OutputPlace { name: output.name.clone(), offset: end, capacity });
                end = end.saturating_add(capacity).checked_next_multiple_of(ALIGNMENT).unwrap_or(usize::MAX);
            }
            layout.models.push(places);
            layout.size = layout.size.max(end);
        }
        layout
    }

    /// Kind of memory for the next slot.
    pub fn next_placement(&self) -> Placement {
        self.placements.take()
    }

    /// Bytes of a slot's region.
    pub fn size(&self) -> usize {
        self.size
    }

    /// The outputs of the model with that index.
    pub fn places(&self, model: usize) -> &[OutputPlace] {
        &self.models[model]
    }
}

/// Bytes that an output may take: those of its shape, or the planned bytes per element of the batch.
fn capacity(output: &TensorSpec, plan: &OutputPlan, batch: u64) -> usize {
    let batch = if output.shape_tensor { 1 } else { batch.max(1) };
    let entry_bytes = output.fixed_bytes().unwrap_or(plan.variable_bytes as u64);
    usize::try_from(entry_bytes.saturating_mul(batch)).unwrap_or(usize::MAX).max(1)
}

/// Where one slot's outputs go; the region is registered.
pub struct SlotOutputs {
    registration: Arc<Registration>,
    layout: Arc<OutputLayout>,
}

impl SlotOutputs {
    pub(super) fn new(registration: Arc<Registration>, layout: Arc<OutputLayout>) -> Self {
        Self { registration, layout }
    }

    /// The name that the region is registered under.
    pub fn region_name(&self) -> &str {
        self.registration.name()
    }

    /// The outputs of the model with that index.
    pub fn places(&self, model: usize) -> &[OutputPlace] {
        self.layout.places(model)
    }

    /// The bytes of an output that was written here; `None` if the model has no such output.
    ///
    /// # Errors
    /// If a tensor of that shape does not fit its space, or cannot be read; says which.
    pub fn read(&self, model: usize, name: &str, datatype: DataType, shape: &[i64]) -> Option<Result<Vec<u8>, String>> {
        let place = self.layout.places(model).iter().find(|place| place.name == name)?;
        Some(self.read_place(place, datatype, shape))
    }

    fn read_place(&self, place: &OutputPlace, datatype: DataType, shape: &[i64]) -> Result<Vec<u8>, String> {
        let too_small = || format!("of shape {shape:?} does not fit its {} bytes of shared memory", place.capacity);
        let product = |product: usize, &dim: &i64| product.checked_mul(usize::try_from(dim).ok()?);
        let elements = shape.iter().try_fold(1, product).ok_or_else(too_small)?;
        let bytes = match datatype.size() {
            Some(size) => elements.checked_mul(size).filter(|&bytes| bytes <= place.capacity).ok_or_else(too_small)?,
            None => place.capacity,
        };
        let mut read = vec![0; bytes];
        self.registration.region().read(place.offset, &mut read).map_err(|error| error.to_string())?;
        if datatype.size().is_none() {
            let used = strings_len(&read, elements).ok_or_else(too_small)?;
            read.truncate(used);
        }
        Ok(read)
    }
}

/// Bytes that `count` length-prefixed strings take at the front of `bytes`; `None` if they do not fit.
fn strings_len(bytes: &[u8], count: usize) -> Option<usize> {
    let mut remaining = bytes;
    for _ in 0..count {
        let (length, after) = remaining.split_first_chunk::<4>()?;
        remaining = after.get(u32::from_le_bytes(*length) as usize..)?;
    }
    Some(bytes.len() - remaining.len())
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    fn tensor(name: &str, shape: &[i64]) -> TensorSpec {
        TensorSpec {
            name: name.to_owned(),
            datatype: DataType::Fp32,
            shape: shape.to_vec(),
            optional: false,
            shape_tensor: false,
        }
    }

    fn plan() -> OutputPlan {
        OutputPlan { placements: Placement::System.into(), variable_bytes: 100 }
    }

    /// The layout of one model with one output.
    pub fn layout(shape: &[i64], batch: u64) -> OutputLayout {
        OutputLayout::new([(&[tensor("O", shape)][..], batch)].into_iter(), &plan())
    }

    #[test]
    fn strings_are_measured_and_never_beyond_their_room() {
        let mut bytes = vec![3, 0, 0, 0, b'a', b'b', b'c', 0, 0, 0, 0, 9, 9];
        assert_eq!(strings_len(&bytes, 2), Some(11));
        assert_eq!(strings_len(&bytes, 1), Some(7));
        assert_eq!(strings_len(&bytes, 5), None);
        bytes[0] = 200;
        assert_eq!(strings_len(&bytes, 1), None);
    }

    #[test]
    fn outputs_of_variable_size_get_the_planned_room_per_element_of_the_batch() {
        assert_eq!(capacity(&tensor("O", &[-1]), &plan(), 3), 300);
        assert_eq!(capacity(&tensor("O", &[4]), &plan(), 2), 32);
        assert_eq!(capacity(&tensor("O", &[0]), &plan(), 1), 1);
    }

    #[test]
    fn outputs_lie_apart_and_models_share_the_room() {
        let (first, second) = ([tensor("A", &[17]), tensor("B", &[1])], [tensor("C", &[-1])]);
        let layout = OutputLayout::new([(&first[..], 1), (&second[..], 4)].into_iter(), &plan());
        let place = |name: &str, offset, capacity| OutputPlace { name: name.to_owned(), offset, capacity };
        assert_eq!(layout.places(0), [place("A", 0, 68), place("B", 128, 4)]);
        assert_eq!((layout.places(1), layout.size()), (&[place("C", 0, 400)][..], 448));
    }
}
