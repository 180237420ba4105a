//! How much memory is left for slots whose number is not known beforehand.

use crate::{Placement, cuda, dev_shm, host_memory};

/// Available bytes of a kind of memory, as far as the machine reports: for ordinary memory what the system calls
/// available, limited by the control groups and the address space; for shared memory no more than is free in
/// `/dev/shm`; for a GPU what its driver says. `None` if that is not known.
pub fn free_bytes(placement: Placement) -> Option<u64> {
    match placement {
        Placement::Pageable | Placement::Pinned => host_memory::free(),
        Placement::System => [dev_shm::free(), host_memory::free()].into_iter().flatten().min(),
        Placement::Cuda(device) => cuda::free_bytes(device).ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_tells() {
        assert!(free_bytes(Placement::Pageable).is_some_and(|bytes| bytes > 1 << 20));
        assert!(free_bytes(Placement::System).is_some());
    }
}
