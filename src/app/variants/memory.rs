//! `--matrix memory`: where the tensors live.

use crate::plan::Plan;
use crate::shm::{Placement, device_count};
use crate::stdio::note;

/// Inputs and outputs in each kind of memory that this machine has, pageable first: names and plans. To a server on the
/// network the first are in requests, and the others shared memory.
pub fn ways(plan: &Plan) -> Vec<(String, Plan)> {
    placements(plan).into_iter().map(|placement| (placement.to_string(), placed(plan, placement))).collect()
}

fn placements(plan: &Plan) -> Vec<Placement> {
    let mut placements = vec![Placement::Pageable, Placement::System];
    match device_count() {
        Ok(devices) => {
            match plan.target.service.is_embedded() {
                true => placements.push(Placement::Pinned),
                false => note!("--matrix memory: pinned memory is left out: only Triton in this process takes it"),
            }
            placements.extend((0..devices).map(Placement::Cuda));
        }
        Err(error) => note!("--matrix memory: pinned and GPU memory are left out: {error}"),
    }
    placements
}

fn placed(plan: &Plan, placement: Placement) -> Plan {
    let mut plan = plan.clone();
    plan.data.input_placement = placement;
    plan.data.output_placement = placement;
    plan.data.shared_memory = !plan.target.service.is_embedded() && placement != Placement::Pageable;
    plan
}
