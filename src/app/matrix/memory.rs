//! `--matrix memory`: where the tensors live.

use std::sync::Arc;

use crate::app::matrix::Way;
use crate::backend::Backend;
use crate::plan::Plan;
use crate::shm::{Placement, device_count};
use crate::stdio::note;

/// Inputs and outputs in each kind of memory that this machine has, pageable first.
pub fn ways(plan: &Plan, server: &Arc<dyn Backend>) -> Vec<Way> {
    placements().into_iter().map(|placement| way(plan, server, placement)).collect()
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

fn way(plan: &Plan, server: &Arc<dyn Backend>, placement: Placement) -> Way {
    let mut plan = plan.clone();
    plan.data.input_placement = placement;
    plan.data.output_placement = placement;
    Way::open(placement.to_string(), plan, Ok(Arc::clone(server).into()))
}
