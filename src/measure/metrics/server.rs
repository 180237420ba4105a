//! [`ServerFold`]: what one server's pages say, over many of them.

use std::collections::BTreeMap;

use crate::metrics::{Counter, Mean, QueueFold, bytes};
use crate::result::summary::GpuMetrics;
use crate::wire::prometheus::MetricSample;

/// Maximum GPUs to distinguish; no machine has more, and a server must not fill our memory with names.
pub(super) const MAX_GPUS: usize = 1024;

/// One server's pages, folded as they come.
#[derive(Clone, Debug, Default)]
pub(super) struct ServerFold {
    gpus: BTreeMap<String, GpuFold>,
    pub(super) cpu: Mean,
    pub(super) cpu_used: Option<f64>,
    pub(super) cpu_total: Option<f64>,
    pub(super) queues: QueueFold,
    pub(super) loaded: Option<f64>,
    pub(super) cancelled: Counter,
    /// Their sum in milliseconds, and their number.
    pub(super) first_response: [Counter; 2],
}

#[derive(Clone, Debug, Default)]
struct GpuFold {
    utilization: Mean,
    power: Mean,
    used: Option<f64>,
    total: Option<f64>,
}

impl ServerFold {
    /// Takes in later pages.
    pub(super) fn absorb(&mut self, other: &Self) {
        for (uuid, theirs) in &other.gpus {
            let Some(ours) = self.gpu(uuid) else { continue };
            ours.utilization.absorb(theirs.utilization);
            ours.power.absorb(theirs.power);
            ours.used = theirs.used.map_or(ours.used, |used| larger(ours.used, used));
            ours.total = ours.total.or(theirs.total);
        }
        self.cpu.absorb(other.cpu);
        self.cpu_used = other.cpu_used.map_or(self.cpu_used, |used| larger(self.cpu_used, used));
        self.cpu_total = self.cpu_total.or(other.cpu_total);
        self.queues.absorb(&other.queues);
        self.loaded = other.loaded.map_or(self.loaded, |seconds| larger(self.loaded, seconds));
        self.cancelled.absorb(other.cancelled);
        self.first_response.iter_mut().zip(other.first_response).for_each(|(ours, theirs)| ours.absorb(theirs));
    }

    fn gpu(&mut self, uuid: &str) -> Option<&mut GpuFold> {
        if self.gpus.len() >= MAX_GPUS && !self.gpus.contains_key(uuid) {
            return None;
        }
        Some(self.gpus.entry(uuid.to_owned()).or_default())
    }

    /// Takes in a GPU's metric.
    pub(super) fn add_gpu(&mut self, uuid: &str, sample: &MetricSample<'_>) {
        let value = sample.value;
        let Some(gpu) = self.gpu(uuid) else { return };
        match sample.name {
            "nv_gpu_utilization" => gpu.utilization.add(value),
            "nv_gpu_memory_used_bytes" => gpu.used = larger(gpu.used, value),
            // Triton says 0 until it has looked for the first time; no GPU draws nothing.
            _ if value == 0.0 => {}
            "nv_gpu_power_usage" => gpu.power.add(value),
            _ => gpu.total = gpu.total.or(Some(value)),
        }
    }

    /// Takes in a metric of the machine.
    pub(super) fn add_host(&mut self, sample: &MetricSample<'_>) {
        match sample.name {
            "nv_cpu_utilization" => self.cpu.add(sample.value),
            "nv_cpu_memory_used_bytes" => self.cpu_used = larger(self.cpu_used, sample.value),
            // Triton says 0 until it has looked for the first time.
            "nv_cpu_memory_total_bytes" if sample.value > 0.0 => self.cpu_total = Some(sample.value),
            _ => {}
        }
    }

    /// Whether it names no GPU.
    pub(super) fn lacks_gpus(&self) -> bool {
        self.gpus.is_empty()
    }

    /// The mean utilisation of each GPU.
    pub(super) fn gpu_utilizations(&self) -> impl Iterator<Item = f64> {
        self.gpus.values().filter_map(|gpu| gpu.utilization.mean())
    }

    /// Each GPU, by UUID, of the server with that number.
    pub(super) fn gpus(&self, server: Option<usize>) -> impl Iterator<Item = GpuMetrics> {
        self.gpus.iter().map(move |(uuid, gpu)| GpuMetrics {
            uuid: uuid.clone(),
            server,
            utilization: gpu.utilization.mean(),
            power_watts: gpu.power.mean(),
            memory_used_bytes: gpu.used.map(bytes),
            memory_total_bytes: gpu.total.map(bytes),
        })
    }
}

fn larger(so_far: Option<f64>, value: f64) -> Option<f64> {
    Some(so_far.map_or(value, |before| before.max(value)))
}
