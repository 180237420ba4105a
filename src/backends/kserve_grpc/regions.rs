//! Shared memory over gRPC.

use std::time::Duration;

use crate::backend::{InferError, Misfit, OutputView, Outputs, ParameterValue};
use crate::kserve::regions::{Handle, Kind, ListedRegion, OutputPlace, RegionCalls, SlotOutputs};
use crate::kserve_grpc::control::{Control, SAMPLE_LIMIT};
use crate::kserve_grpc::proto::control::{CudaRegister, Empty, RegionName, RegionStatus, RegionsKnown, SystemRegister};
use crate::kserve_grpc::proto::{InferReply, put_parameter};
use crate::wire::protobuf::put_bytes;

/// Field of requested outputs in `ModelInferRequest`.
const OUTPUTS: u32 = 6;

impl RegionCalls for Control {
    fn protocol(&self) -> &'static str {
        "grpc"
    }

    fn server(&self) -> String {
        self.0.address()
    }

    fn register(&self, name: &str, handle: Handle<'_>, bytes: u64, limit: Duration) -> Result<(), InferError> {
        let (name, byte_size) = (name.to_owned(), bytes);
        match handle {
            Handle::System { key } => {
                let request = SystemRegister { name, key: key.to_owned(), offset: 0, byte_size };
                self.call("SystemSharedMemoryRegister", &request, limit).map(|_: Empty| ())
            }
            Handle::Cuda { device, raw } => {
                let request = CudaRegister { name, raw_handle: raw.to_vec(), device_id: device.into(), byte_size };
                self.call("CudaSharedMemoryRegister", &request, limit).map(|_: Empty| ())
            }
        }
    }

    fn unregister(&self, name: &str, kind: Kind) -> Result<(), InferError> {
        let method = match kind {
            Kind::System => "SystemSharedMemoryUnregister",
            Kind::Cuda => "CudaSharedMemoryUnregister",
        };
        self.call(method, &RegionName { name: name.to_owned() }, SAMPLE_LIMIT).map(|_: Empty| ())
    }

    fn listed(&self) -> Result<Vec<ListedRegion>, InferError> {
        // Without a name, they are all.
        self.call("SystemSharedMemoryStatus", &Empty {}, SAMPLE_LIMIT).map(listed)
    }
}

/// The name in a region's status is only a copy of its key here, which a server may leave out.
fn listed(RegionsKnown { regions }: RegionsKnown) -> Vec<ListedRegion> {
    regions.into_iter().map(|(name, RegionStatus { key, .. })| ListedRegion { name, key }).collect()
}

/// The parameters that place a tensor in a region.
pub fn put_place(out: &mut Vec<u8>, field: u32, name: &str, offset: usize, len: usize) {
    put_parameter(out, field, "shared_memory_region", &ParameterValue::Text(name.to_owned()));
    put_parameter(out, field, "shared_memory_byte_size", &ParameterValue::Int(len as i64));
    if offset > 0 {
        put_parameter(out, field, "shared_memory_offset", &ParameterValue::Int(offset as i64));
    }
}

/// Where one slot's outputs go, and, by model, the fields of a request that place them there.
pub struct PlacedSlot {
    slot: SlotOutputs,
    requested: Vec<Vec<u8>>,
}

impl PlacedSlot {
    /// For `models` models.
    pub fn new(slot: SlotOutputs, models: usize) -> Self {
        let requested = (0..models).map(|model| requested(slot.places(model), slot.region_name())).collect();
        Self { slot, requested }
    }

    /// The fields of a request to a model that place its outputs here.
    pub fn requested(&self, model: usize) -> &[u8] {
        &self.requested[model]
    }
}

/// The requested outputs of a `ModelInferRequest`.
fn requested(places: &[OutputPlace], region: &str) -> Vec<u8> {
    let mut out = Vec::new();
    for OutputPlace { name, offset, capacity } in places {
        let mut message = Vec::new();
        put_bytes(&mut message, 1, name.as_bytes());
        put_place(&mut message, 2, region, *offset, *capacity);
        put_bytes(&mut out, OUTPUTS, &message);
    }
    out
}

/// The outputs of a reply, including those in shared memory.
pub struct PlacedOutputs<'a> {
    reply: &'a InferReply<'a>,
    /// The content of each output in shared memory, in the reply's order; empty if no output is there.
    placed: Vec<Option<Vec<u8>>>,
    /// Why they cannot be decoded, if they cannot.
    unreadable: Option<Misfit>,
}

impl<'a> PlacedOutputs<'a> {
    /// The outputs of a reply to a request for the model with that index; shared memory is read if an observer watches.
    pub fn read(reply: &'a InferReply<'a>, slot: Option<&PlacedSlot>, model: usize, watch: bool) -> Self {
        let mut read = Self { reply, placed: Vec::new(), unreadable: None };
        if slot.is_none() && reply.lacks_contents() {
            let why = "it has different numbers of outputs and of output contents";
            read.unreadable = Some(Misfit::undecodable(why));
        }
        if let Some(PlacedSlot { slot, .. }) = slot.filter(|_| watch) {
            reply.visit(&mut |output| {
                let found = slot.read(model, output.name, output.datatype, output.shape).transpose();
                read.placed.push(found.unwrap_or_else(|why| {
                    read.unreadable = Some(Misfit::undecodable(format_args!("output '{}' {why}", output.name)));
                    None
                }));
            });
        }
        read
    }

    /// Whether the outputs can be decoded, as far as that is known without the model.
    pub fn is_readable(&self) -> bool {
        self.unreadable.is_none()
    }

    /// The same.
    ///
    /// # Errors
    /// Why they cannot.
    pub fn decoded(&self) -> Result<(), Misfit> {
        self.unreadable.clone().map_or(Ok(()), Err)
    }
}

impl Outputs for PlacedOutputs<'_> {
    fn visit(&self, visitor: &mut dyn FnMut(OutputView<'_>)) {
        let mut placed = self.placed.iter();
        self.reply.visit(&mut |output| match placed.next() {
            Some(Some(bytes)) => visitor(OutputView { bytes, ..output }),
            _ => visitor(output),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listed_region_has_the_name_that_it_is_listed_under() {
        let status = RegionStatus { name: String::new(), key: "/k".to_owned() };
        let regions = [("r".to_owned(), status)].into();
        assert_eq!(listed(RegionsKnown { regions }), [ListedRegion { name: "r".to_owned(), key: "/k".to_owned() }]);
    }
}
