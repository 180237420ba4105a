//! Memory placements in the C API's terms.

use crate::c_api::ffi::sys;
use crate::c_api::ffi::sys::TRITONSERVER_MemoryType;
use crate::data::InputTensor;
use crate::shm::Placement;

/// The C API's terms for a placement.
pub(super) fn memory_type(placement: Placement) -> (sys::TRITONSERVER_MemoryType, i64) {
    match placement {
        Placement::Pageable | Placement::System => (sys::MEMORY_CPU, 0),
        Placement::Pinned => (sys::MEMORY_CPU_PINNED, 0),
        Placement::Cuda(device) => (sys::MEMORY_GPU, i64::from(device)),
    }
}

/// Where the data of an input are.
#[derive(Clone, Copy)]
pub(super) struct InputPlace {
    pub(super) address: usize,
    pub(super) len: u64,
    pub(super) memory: TRITONSERVER_MemoryType,
    pub(super) memory_id: i64,
}

impl InputPlace {
    pub(super) fn new(input: &InputTensor) -> Self {
        let (memory, memory_id) = memory_type(input.region.placement());
        Self { address: input.address(), len: input.len as u64, memory, memory_id }
    }
}
