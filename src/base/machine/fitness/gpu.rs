//! GPUs: their driver, and their other users.

use crate::machine::fitness::Finding;

/// The first driver of CUDA 12, which supported releases of Triton are built for.
const FIRST_DRIVER: u32 = 525;
/// A GPU that is busier than this while nothing is measured has other users.
const BUSY_PERCENT: u32 = 5;

/// The fields of `nvidia-smi --query-gpu`, in this order.
pub const QUERY: &str = "index,name,persistence_mode,mig.mode.current,compute_mode,utilization.gpu";

/// Checks the driver, from `/proc/driver/nvidia/version`.
pub fn driver(version: &str) -> Finding {
    let words = version.lines().next().unwrap_or_default().split_ascii_whitespace();
    // Finds 550.54.15 among words and years.
    let number =
        words.into_iter().find(|word| word.contains('.') && word.split('.').all(|part| part.parse::<u32>().is_ok()));
    let major = number.and_then(|number| number.split('.').next()?.parse::<u32>().ok());
    match (number, major) {
        (Some(number), Some(major)) if major < FIRST_DRIVER => Finding::warning(
            format!("NVIDIA driver: {number}"),
            format!("CUDA 12, which Triton is built for, needs {FIRST_DRIVER} or later; install a newer one"),
        ),
        (Some(number), _) => Finding::good(format!("NVIDIA driver: {number}")),
        _ => Finding::note("NVIDIA driver: version unknown", "nvidia-smi may show it"),
    }
}

/// Whether CUDA's multi-process service runs, from the names of all processes.
pub fn sharing<'a>(mut processes: impl Iterator<Item = &'a str>) -> Finding {
    // The kernel keeps 15 bytes of a name.
    if processes.any(|name| name.starts_with("nvidia-cuda-mps")) {
        return Finding::note(
            "CUDA MPS: runs",
            "kernels of several processes share a GPU at once, so others slow yours without being seen here; \
             echo quit | nvidia-cuda-mps-control, where you want it alone",
        );
    }
    Finding::good("CUDA MPS: not running")
}

/// Checks one GPU, from its line of `nvidia-smi --query-gpu=`[`QUERY`]` --format=csv,noheader,nounits`.
pub fn gpu(line: &str) -> Vec<Finding> {
    let fields: Vec<&str> = line.split(", ").map(str::trim).collect();
    let [index, name, persistence, mig, mode, busy] = fields[..] else { return Vec::new() };
    let gpu = format!("GPU {index} ({name})");
    let mut found = Vec::new();
    if mig == "Enabled" {
        let advice = "an instance is a part of the GPU, and load on the others affects its memory bandwidth and \
            clock; nvidia-smi -mig 0, or name the instance with the result";
        found.push(Finding::note(format!("{gpu}: MIG enabled"), advice));
    }
    if persistence == "Disabled" {
        let advice = "the driver is reloaded for each first user, which takes seconds; nvidia-smi -pm 1";
        found.push(Finding::note(format!("{gpu}: persistence mode disabled"), advice));
    }
    if mode.starts_with("Exclusive") || mode == "Prohibited" {
        let advice = "a second process, such as a client with --shared-memory cuda, is refused; nvidia-smi -c DEFAULT";
        found.push(Finding::note(format!("{gpu}: compute mode {mode}"), advice));
    }
    if busy.parse::<u32>().is_ok_and(|percent| percent > BUSY_PERCENT) {
        let advice = "another process computes on it, and measured requests wait for that; see nvidia-smi";
        found.push(Finding::warning(format!("{gpu}: {busy}% busy"), advice));
    }
    if found.is_empty() {
        found.push(Finding::good(gpu));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::fitness::Grade;

    #[test]
    fn old_drivers_are_told() {
        let closed = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  470.57.02  Tue Jul 13 16:14:05 UTC 2021\nGCC version: 12.2.0\n";
        assert_eq!((driver(closed).grade, &*driver(closed).observation), (Grade::Warning, "NVIDIA driver: 470.57.02"));
        let open = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  560.35.03  Release Build  (dvs-builder@x)  Fri Aug 16\n";
        assert_eq!((driver(open).grade, &*driver(open).observation), (Grade::Good, "NVIDIA driver: 560.35.03"));
        assert_eq!(driver("").grade, Grade::Note);
    }

    #[test]
    fn shared_gpus_are_told() {
        assert_eq!(sharing(["bash", "nvidia-cuda-mps"].into_iter()).grade, Grade::Note);
        assert_eq!(sharing(["bash"].into_iter()).grade, Grade::Good);
        let observations = |line| gpu(line).into_iter().map(|finding| finding.observation).collect::<Vec<_>>();
        assert_eq!(observations("0, NVIDIA H200, Enabled, Disabled, Default, 0"), ["GPU 0 (NVIDIA H200)"]);
        assert_eq!(
            observations("1, NVIDIA A100-SXM4-40GB, Disabled, Enabled, Exclusive_Process, 43"),
            [
                "GPU 1 (NVIDIA A100-SXM4-40GB): MIG enabled",
                "GPU 1 (NVIDIA A100-SXM4-40GB): persistence mode disabled",
                "GPU 1 (NVIDIA A100-SXM4-40GB): compute mode Exclusive_Process",
                "GPU 1 (NVIDIA A100-SXM4-40GB): 43% busy",
            ]
        );
        assert_eq!(observations("2, Tesla T4, Enabled, [N/A], Default, [N/A]"), ["GPU 2 (Tesla T4)"]);
        assert!(gpu("No devices were found").is_empty());
    }
}
