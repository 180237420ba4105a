//! What the metrics of one of several servers say, in words.

use crate::number::{percent, significant};
use crate::result::Setup;
use crate::result::summary::{GpuMetrics, HostMetrics};
use crate::{memory, server_load};

/// `GPUs 45.00%, processors 12.50%, memory 6.5 GiB of 15.6 GiB, pending requests avg 1.5 (max 3)`, as far as it is known.
pub fn text(host: &HostMetrics) -> String {
    figures(host).unwrap_or_else(|| "no figures".to_owned())
}

/// The same; nothing where nothing is known.
pub fn figures(host: &HostMetrics) -> Option<String> {
    let of_memory = host.cpu_memory_used_bytes.zip(host.cpu_memory_total_bytes);
    let pending = host.pending_requests.zip(host.pending_requests_max);
    let parts = [
        host.gpu_utilization.map(|share| format!("GPUs {}", percent(share))),
        host.cpu_utilization.map(|share| format!("processors {}", percent(share))),
        of_memory.map(|(used, total)| format!("memory {} of {}", memory(used), memory(total))),
        pending.map(|(mean, max)| format!("pending requests avg {} (max {})", significant(mean), significant(max))),
        host.first_response_ms.map(|mean| format!("first response avg {} ms", significant(mean))),
        host.cancelled_requests.map(|count| format!("{} cancelled", significant(count))),
        host.model_load_seconds.map(|seconds| format!("load of the model {} s", significant(seconds))),
        host.load.as_ref().map(server_load::text),
    ];
    let figures: Vec<_> = parts.into_iter().flatten().collect();
    (!figures.is_empty()).then(|| figures.join(", "))
}

/// A GPU's UUID, after its server's address where there are several: two servers may give theirs the same.
pub fn gpu_name(setup: &Setup, gpu: &GpuMetrics) -> String {
    let server = gpu.server.and_then(|server| setup.servers.get(server));
    server.map_or_else(|| gpu.uuid.clone(), |address| format!("{address} {}", gpu.uuid))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::summary::{MeanAndMax, ServerLoad};

    #[test]
    fn what_is_not_known_is_left_out() {
        let load = ServerLoad { waiting: Some(MeanAndMax { mean: 0.5, max: 1.0 }), ..ServerLoad::default() };
        let host = HostMetrics {
            gpu_utilization: Some(0.45),
            cpu_memory_used_bytes: Some(13 << 29),
            cpu_memory_total_bytes: Some(16_750_372_454),
            pending_requests: Some(1.5),
            pending_requests_max: Some(3.0),
            load: Some(load),
            ..HostMetrics::default()
        };
        let expected =
            "GPUs 45.00%, memory 6.5 GiB of 15.6 GiB, pending requests avg 1.5 (max 3), waiting avg 0.5 (max 1)";
        assert_eq!(text(&host), expected);
        assert_eq!(text(&HostMetrics::default()), "no figures");
    }
}
