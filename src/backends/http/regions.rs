//! Shared memory that the server was told of: registered by name, unregistered when nobody uses it any more.
//!
//! Names carry our process id, so that several programs can use one server. Regions of inputs are registered once and shared
//! by all clients; every slot has a region of its own for each output.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Weak};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use parking_lot::Mutex;
use serde_json::json;

use super::control::{Control, Patience};
use super::render::OutputRegionName;
use super::template::slot_tag;
use crate::backend::OutputPlan;
use crate::backends::net::unregister;
use crate::data::{InputTensor, Payload};
use crate::error::{Error, Result};
use crate::model::{ModelSpec, TensorSpec};
use crate::shm::{Placement, Region};

/// A region that the server knows by a name, until this is dropped.
struct Registration {
    name: String,
    kind: &'static str,
    region: Arc<Region>,
    control: Arc<Control>,
    /// Whether the server has left a question of this kind unanswered.
    silent: Arc<AtomicBool>,
}

impl Registration {
    fn new(registry: &Registry, name: String, region: Arc<Region>) -> Result<Arc<Self>> {
        let control = &registry.control;
        let (kind, body) = match (region.placement(), region.key(), region.ipc_handle()?) {
            (Placement::System, Some(key), _) => {
                ("systemsharedmemory", json!({"key": key, "offset": 0, "byte_size": region.len()}))
            }
            (Placement::Cuda(device), _, Some(handle)) => {
                let handle = json!({"b64": BASE64_STANDARD.encode(handle)});
                ("cudasharedmemory", json!({"raw_handle": handle, "device_id": device, "byte_size": region.len()}))
            }
            (placement, ..) => return Err(Error::machine(format!("a server cannot be given memory in {placement}"))),
        };
        let path = format!("{}/v2/{kind}/region/{name}/register", control.prefix());
        let what = format!("registering {} as '{name}'", region.placement());
        let answer =
            control.post(&path, &body.to_string(), Patience::Setup).map_err(|error| control.error(&what, &error))?;
        match answer.refusal() {
            None => {
                let (control, silent) = (control.clone(), registry.silent.clone());
                Ok(Arc::new(Self { name, kind, region, control, silent }))
            }
            Some(refusal) => Err(control.error(&what, &refusal)),
        }
    }
}

impl Drop for Registration {
    /// A server that does not answer any more is asked once only: a run's end must not wait for it region by region.
    fn drop(&mut self) {
        if self.silent.load(Ordering::Relaxed) {
            return;
        }
        let path = format!("{}/v2/{}/region/{}/unregister", self.control.prefix(), self.kind, self.name);
        if unregister(|| self.control.post(&path, "", Patience::Sample).map(|_| ())).is_err() {
            self.silent.store(true, Ordering::Relaxed);
        }
    }
}

fn is_shared(region: &Region) -> bool {
    matches!(region.placement(), Placement::System | Placement::Cuda(_))
}

/// All registrations of a backend.
pub(super) struct Registry {
    control: Arc<Control>,
    silent: Arc<AtomicBool>,
    inputs: Mutex<HashMap<usize, Weak<Registration>>>,
    next_input: AtomicU32,
    next_client: AtomicU32,
}

impl Registry {
    pub(super) fn new(control: Arc<Control>) -> Self {
        Self {
            control,
            silent: Arc::default(),
            inputs: Mutex::default(),
            next_input: AtomicU32::new(0),
            next_client: AtomicU32::new(0),
        }
    }

    /// A number for a client, for the names of its output regions.
    pub(super) fn client_number(&self) -> u32 {
        self.next_client.fetch_add(1, Ordering::Relaxed)
    }

    /// Makes the shared regions among the payloads' inputs known to the server.
    ///
    /// # Errors
    /// The server's reason where it refuses.
    pub(super) fn register_inputs(&self, payloads: &[Payload]) -> Result<InputRegions> {
        let mut held = HashMap::new();
        for InputTensor { region, .. } in payloads.iter().flat_map(|payload| &payload.inputs) {
            let key = Arc::as_ptr(region) as usize;
            if is_shared(region) && !held.contains_key(&key) {
                held.insert(key, self.register_input(key, region)?);
            }
        }
        Ok(InputRegions { held })
    }

    fn register_input(&self, key: usize, region: &Arc<Region>) -> Result<Arc<Registration>> {
        let mut inputs = self.inputs.lock();
        if let Some(known) = inputs.get(&key).and_then(Weak::upgrade) {
            return Ok(known);
        }
        let number = self.next_input.fetch_add(1, Ordering::Relaxed);
        let name = format!("triton_bench_http_{}_input_{number}", std::process::id());
        let registration = Registration::new(self, name, region.clone())?;
        inputs.insert(key, Arc::downgrade(&registration));
        Ok(registration)
    }
}

/// The shared regions that inputs lie in.
#[derive(Default)]
pub(super) struct InputRegions {
    held: HashMap<usize, Arc<Registration>>,
}

impl InputRegions {
    /// The name under which the server knows `region`, if it does.
    pub(super) fn name_of(&self, region: &Arc<Region>) -> Option<&str> {
        self.held.get(&(Arc::as_ptr(region) as usize)).map(|registration| registration.name.as_str())
    }
}

/// Which outputs of a model go to regions, and how large those are; none where outputs come in the reply.
pub(super) fn output_names(index: usize, model: &ModelSpec, plan: OutputPlan, batch: u64) -> Vec<OutputRegionName> {
    if !matches!(plan.placement, Placement::System | Placement::Cuda(_)) {
        return Vec::new();
    }
    let name = |(number, output): (usize, &TensorSpec)| OutputRegionName {
        output: output.name.clone(),
        around: (format!("triton_bench_http_{}_", std::process::id()), format!("_{index}_{number}")),
        bytes: output_bytes(output, plan, batch),
    };
    model.outputs.iter().enumerate().map(name).collect()
}

fn output_bytes(output: &TensorSpec, plan: OutputPlan, batch: u64) -> usize {
    let batch = if output.shape_tensor { 1 } else { batch.max(1) };
    let each = output.fixed_bytes().unwrap_or(plan.variable_bytes as u64);
    usize::try_from(each.saturating_mul(batch)).unwrap_or(usize::MAX).max(1)
}

/// The output regions of one slot, by model and output.
pub(super) struct SlotRegions {
    held: Vec<Vec<Arc<Registration>>>,
}

impl SlotRegions {
    /// Makes and registers a region for every name.
    ///
    /// # Errors
    /// Where memory is lacking or the server refuses.
    pub(super) fn new(
        registry: &Registry,
        names: &[Vec<OutputRegionName>],
        placement: Placement,
        (client, slot): (u32, usize),
    ) -> Result<Self> {
        let tag = slot_tag(client, slot);
        let tag = String::from_utf8_lossy(&tag);
        let make = |name: &OutputRegionName| {
            let region = Arc::new(Region::zeroed(placement, name.bytes)?);
            Registration::new(registry, format!("{}{tag}{}", name.around.0, name.around.1), region)
        };
        let held = names.iter().map(|model| model.iter().map(make).collect()).collect::<Result<_>>()?;
        Ok(Self { held })
    }

    /// The region of an output of a model.
    pub(super) fn region(&self, model: usize, output: usize) -> Option<&Region> {
        self.held.get(model)?.get(output).map(|registration| &*registration.region)
    }
}
