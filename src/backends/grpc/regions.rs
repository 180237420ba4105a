//! Shared memory that the server was told of: registered by name, unregistered when nobody uses it any more.
//!
//! Names carry our process id, so that several programs can use one server. A region of inputs is registered once, for all
//! clients; the outputs of each slot have a region of their own.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use crate::backend::{ClientSpec, InferError, OutputPlan, OutputView, Outputs, ParameterValue};
use crate::backends::grpc::control::Control;
use crate::backends::grpc::proto::control::{CudaRegister, Empty, RegionName, SystemRegister};
use crate::backends::grpc::proto::wire::put_bytes;
use crate::backends::grpc::proto::{InferReply, put_parameter};
use crate::backends::net::unregister;
use crate::data::Payload;
use crate::error::{Error, Result};
use crate::model::{ModelSpec, TensorSpec};
use crate::shm::{Placement, Region};

/// Outputs begin at multiples of this in their region.
const ALIGNMENT: usize = 64;
/// Field of requested outputs in `ModelInferRequest`.
const OUTPUTS: u32 = 6;

/// Whether a server can be given memory of this kind.
pub fn is_shared(placement: Placement) -> bool {
    matches!(placement, Placement::System | Placement::Cuda(_))
}

/// A region that the server knows by a name, until this is dropped.
pub struct Registration {
    name: String,
    unregister: &'static str,
    region: Arc<Region>,
    control: Arc<Control>,
}

impl Registration {
    fn new(control: &Arc<Control>, name: String, region: Arc<Region>) -> Result<Arc<Self>> {
        let placement = region.placement();
        let (unregister, registered) = match (placement, region.key(), region.ipc_handle()?) {
            (Placement::System, Some(key), _) => {
                ("SystemSharedMemoryUnregister", register_system(control, &name, key, &region))
            }
            (Placement::Cuda(device), _, Some(handle)) => {
                let (raw_handle, byte_size) = (handle.to_vec(), region.len() as u64);
                let request = CudaRegister { name: name.clone(), raw_handle, device_id: i64::from(device), byte_size };
                ("CudaSharedMemoryUnregister", control.call("CudaSharedMemoryRegister", &request))
            }
            _ => return Err(Error::machine(format!("a server cannot be given memory in {placement}"))),
        };
        let _: Empty = registered.map_err(|error| {
            Error::server(format!("the server does not take {placement} as region '{name}': {error}"))
        })?;
        Ok(Arc::new(Self { name, unregister, region, control: Arc::clone(control) }))
    }
}

fn register_system(control: &Control, name: &str, key: &str, region: &Region) -> Result<Empty, InferError> {
    let byte_size = region.len() as u64;
    let request = SystemRegister { name: name.to_owned(), key: key.to_owned(), offset: 0, byte_size };
    control.call("SystemSharedMemoryRegister", &request)
}

impl Drop for Registration {
    /// A server that does not answer any more has forgotten the region, or will never be asked for it again.
    fn drop(&mut self) {
        let request = RegionName { name: self.name.clone() };
        let _ = unregister(|| self.control.call(self.unregister, &request).map(|_: Empty| ()));
    }
}

/// All registrations of a backend.
pub struct Registry {
    control: Arc<Control>,
    inputs: Mutex<HashMap<usize, Weak<Registration>>>,
    numbers: AtomicU32,
}

/// The regions that a client's inputs lie in, by address of the region.
pub type InputRegions = HashMap<usize, Arc<Registration>>;

impl Registry {
    /// None yet.
    pub fn new(control: Arc<Control>) -> Self {
        Self { control, inputs: Mutex::default(), numbers: AtomicU32::new(0) }
    }

    fn name(&self, what: &str) -> String {
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        format!("triton_bench_grpc_{}_{what}_{number}", std::process::id())
    }

    /// Makes the shared regions among the payloads' inputs known to the server.
    ///
    /// # Errors
    /// The server's reason where it refuses.
    pub fn inputs(&self, payloads: &[Payload]) -> Result<InputRegions> {
        let mut held = InputRegions::new();
        let regions = payloads.iter().flat_map(|payload| &payload.inputs).map(|input| &input.region);
        for region in regions.filter(|region| is_shared(region.placement())) {
            let key = Arc::as_ptr(region) as usize;
            if held.contains_key(&key) {
                continue;
            }
            let mut known = self.inputs.lock();
            let registration = match known.get(&key).and_then(Weak::upgrade) {
                Some(registration) => registration,
                None => Registration::new(&self.control, self.name("input"), Arc::clone(region))?,
            };
            known.insert(key, Arc::downgrade(&registration));
            held.insert(key, registration);
        }
        Ok(held)
    }

    /// Makes a region for the outputs of one slot, if outputs are to be shared.
    ///
    /// # Errors
    /// Where memory is lacking or the server refuses.
    pub fn outputs(&self, spec: &ClientSpec) -> Result<Option<SlotOutputs>> {
        if !is_shared(spec.outputs.placement) {
            return Ok(None);
        }
        let layouts: Vec<Layout> = (0..spec.models.len()).map(|model| layout(spec, model)).collect();
        let size = layouts.iter().map(|layout| layout.size).max().unwrap_or(0).max(ALIGNMENT);
        let region = Arc::new(Region::zeroed(spec.outputs.placement, size)?);
        let registration = Registration::new(&self.control, self.name("output"), region)?;
        let requested = layouts.iter().map(|layout| layout.requested(&registration.name)).collect();
        Ok(Some(SlotOutputs { registration, layouts, requested }))
    }
}

/// Parameters that say where in a region a tensor is.
pub fn put_place(out: &mut Vec<u8>, field: u32, name: &str, (offset, len): (usize, usize)) {
    put_parameter(out, field, "shared_memory_region", &ParameterValue::Text(name.to_owned()));
    put_parameter(out, field, "shared_memory_byte_size", &ParameterValue::Int(len as i64));
    if offset > 0 {
        put_parameter(out, field, "shared_memory_offset", &ParameterValue::Int(offset as i64));
    }
}

/// The name under which the server knows `region`, if it does.
pub fn name_of<'a>(regions: &'a InputRegions, region: &Arc<Region>) -> Option<&'a str> {
    regions.get(&(Arc::as_ptr(region) as usize)).map(|registration| registration.name.as_str())
}

/// Where the outputs of a model lie in a slot's region: name, offset and room.
struct Layout {
    outputs: Vec<(String, usize, usize)>,
    size: usize,
}

fn layout(spec: &ClientSpec, index: usize) -> Layout {
    let model: &ModelSpec = &spec.models[index];
    let batches = spec.payloads.iter().filter(|payload| payload.model == index).map(|payload| payload.batch);
    let batch = batches.max().unwrap_or(1).max(1);
    let mut layout = Layout { outputs: Vec::new(), size: 0 };
    for output in &model.outputs {
        let room = room(output, spec.outputs, batch);
        layout.outputs.push((output.name.clone(), layout.size, room));
        layout.size = layout.size.saturating_add(room).next_multiple_of(ALIGNMENT);
    }
    layout
}

fn room(output: &TensorSpec, plan: OutputPlan, batch: u64) -> usize {
    let batch = if output.shape_tensor { 1 } else { batch };
    let each = output.fixed_bytes().unwrap_or(plan.variable_bytes as u64);
    usize::try_from(each.saturating_mul(batch)).unwrap_or(usize::MAX >> 1).max(1)
}

impl Layout {
    /// The requested outputs of a `ModelInferRequest`.
    fn requested(&self, region: &str) -> Vec<u8> {
        let mut out = Vec::new();
        for (name, offset, room) in &self.outputs {
            let mut message = Vec::new();
            put_bytes(&mut message, 1, name.as_bytes());
            put_place(&mut message, 2, region, (*offset, *room));
            put_bytes(&mut out, OUTPUTS, &message);
        }
        out
    }
}

/// Where one slot's outputs go.
pub struct SlotOutputs {
    registration: Arc<Registration>,
    layouts: Vec<Layout>,
    requested: Vec<Vec<u8>>,
}

impl SlotOutputs {
    /// Fields of a request to a model that ask for its outputs here.
    pub fn requested(&self, model: usize) -> &[u8] {
        &self.requested[model]
    }

    /// Fills in the bytes of an output that was written here.
    fn fill(&self, model: usize, output: OutputView<'_>, visitor: &mut dyn FnMut(OutputView<'_>)) {
        let Some((_, offset, room)) = self.layouts[model].outputs.iter().find(|entry| entry.0 == output.name) else {
            return visitor(output);
        };
        let elements =
            output.shape.iter().try_fold(1_usize, |product, &dim| product.checked_mul(usize::try_from(dim).ok()?));
        let fixed = output.datatype.size().zip(elements).and_then(|(size, elements)| size.checked_mul(elements));
        let mut bytes = vec![0; fixed.unwrap_or(*room).min(*room)];
        if self.registration.region.read(*offset, &mut bytes).is_ok() {
            if output.datatype.size().is_none() {
                bytes.truncate(strings_len(&bytes, elements.unwrap_or(0)));
            }
            visitor(OutputView { bytes: &bytes, ..output });
        }
    }
}

/// Bytes that `count` elements of variable size take at the front of `bytes`.
fn strings_len(bytes: &[u8], count: usize) -> usize {
    let mut at = 0_usize;
    for _ in 0..count {
        let Some(prefix) = bytes.get(at..).and_then(<[u8]>::first_chunk::<4>) else { break };
        at = at.saturating_add(4 + u32::from_le_bytes(*prefix) as usize).min(bytes.len());
    }
    at
}

/// The outputs of a reply, those in shared memory included.
pub struct PlacedOutputs<'a> {
    /// What the server answered.
    pub reply: &'a InferReply<'a>,
    /// Where it wrote, if it did.
    pub slot: Option<&'a SlotOutputs>,
    /// Index of the request's model.
    pub model: usize,
}

impl Outputs for PlacedOutputs<'_> {
    fn visit(&self, visitor: &mut dyn FnMut(OutputView<'_>)) {
        match self.slot {
            None => self.reply.visit(visitor),
            Some(slot) => self.reply.visit(&mut |output| slot.fill(self.model, output, visitor)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_measured_and_never_beyond_their_room() {
        let mut bytes = vec![3, 0, 0, 0, b'a', b'b', b'c', 0, 0, 0, 0, 9, 9];
        assert_eq!(strings_len(&bytes, 2), 11);
        assert_eq!(strings_len(&bytes, 1), 7);
        assert_eq!(strings_len(&bytes, 5), 11);
        bytes[0] = 200;
        assert_eq!(strings_len(&bytes, 1), bytes.len());
    }

    #[test]
    fn outputs_of_variable_size_get_the_planned_room_per_element_of_the_batch() {
        let plan = OutputPlan { placement: Placement::System, variable_bytes: 100 };
        let tensor = |shape: &[i64]| TensorSpec {
            name: "O".into(),
            datatype: crate::model::DataType::Fp32,
            shape: shape.to_vec(),
            optional: false,
            shape_tensor: false,
        };
        assert_eq!(room(&tensor(&[-1]), plan, 3), 300);
        assert_eq!(room(&tensor(&[4]), plan, 2), 32);
        assert_eq!(room(&tensor(&[0]), plan, 1), 1);
    }
}
