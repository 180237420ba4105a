//! `--matrix memory`: where the tensors live.

use crate::plan::Plan;
use crate::shm::{Placement, device_count};
use crate::stdio::note;

/// Inputs and outputs in each kind of memory that this machine has, pageable first: names and plans.
pub fn ways(plan: &Plan) -> Vec<(String, Plan)> {
    placements().into_iter().map(|placement| (placement.to_string(), placed(plan, placement))).collect()
}

fn placements() -> Vec<Placement> {
    let mut placements = vec![Placement::Pageable, Placement::System];
    match device_count() {
        Ok(devices) => {
            placements.push(Placement::Pinned);
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
    plan
}
