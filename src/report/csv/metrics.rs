//! The columns of the servers' metrics.

use crate::csv::Columns;
use crate::distinct;
use crate::number::significant;
use crate::result::Setup;
use crate::result::summary::{GpuMetrics, HostMetrics, LevelSummary};
use crate::server_metrics::gpu_name;

/// GPUs, as perf_analyzer has them.
pub(super) fn gpus<'a>(columns: &mut Columns<'a>, setup: &'a Setup) {
    let mut add = |name: &str, value: fn(&GpuMetrics) -> Option<String>| {
        // `uuid:value;` for every GPU that reports one.
        columns.add(name, move |level| {
            let gpus = level.gpus.as_deref().unwrap_or_default();
            gpus.iter().filter_map(|gpu| Some(format!("{}:{};", gpu_name(setup, gpu), value(gpu)?))).collect()
        });
    };
    add("Avg GPU Utilization", |gpu| gpu.utilization.map(significant));
    add("Avg GPU Power Usage", |gpu| gpu.power_watts.map(significant));
    add("Max GPU Memory Usage", |gpu| gpu.memory_used_bytes.map(|bytes| bytes.to_string()));
    add("Total GPU Memory", |gpu| gpu.memory_total_bytes.map(|bytes| bytes.to_string()));
}

/// Processors, memory and queues, as far as they are reported: of all servers together, and of each of several.
pub(super) fn hosts(columns: &mut Columns<'_>, setup: &Setup, levels: &[&LevelSummary]) {
    if !setup.servers.is_empty() {
        add(columns, levels, "Avg Utilization of all GPUs", |level| level.host.as_ref(), GPU_UTILIZATION);
    }
    for (title, cell) in COLUMNS {
        add(columns, levels, title, |level| level.host.as_ref(), cell);
    }
    for (server, address) in distinct(setup.servers.iter().map(String::as_str)).iter().enumerate() {
        for (title, cell) in std::iter::once(("Avg GPU Utilization", GPU_UTILIZATION)).chain(COLUMNS) {
            add(columns, levels, &format!("{address} {title}"), move |level| level.hosts.get(server), cell);
        }
    }
}

type Cell = fn(&HostMetrics) -> Option<String>;

const GPU_UTILIZATION: Cell = |host| host.gpu_utilization.map(significant);

const COLUMNS: [(&str, Cell); 8] = [
    ("Avg CPU Utilization", |host| host.cpu_utilization.map(significant)),
    ("Max CPU Memory Usage", |host| host.cpu_memory_used_bytes.map(|bytes| bytes.to_string())),
    ("Total CPU Memory", |host| host.cpu_memory_total_bytes.map(|bytes| bytes.to_string())),
    ("Avg Pending Requests", |host| host.pending_requests.map(significant)),
    ("Max Pending Requests", |host| host.pending_requests_max.map(significant)),
    ("Avg First Response ms", |host| host.first_response_ms.map(significant)),
    ("Server Cancelled Requests", |host| host.cancelled_requests.map(significant)),
    ("Model Load s", |host| host.model_load_seconds.map(significant)),
];

/// A column, if any level has something in it.
fn add(
    columns: &mut Columns<'_>,
    levels: &[&LevelSummary],
    title: &str,
    host: impl Fn(&LevelSummary) -> Option<&HostMetrics> + 'static,
    cell: Cell,
) {
    if levels.iter().any(|level| host(level).and_then(cell).is_some()) {
        columns.add(title, move |level| host(level).and_then(cell).unwrap_or_default());
    }
}
