//! GPU usage so far, from NVIDIA's management library, which is opened at run time if it is installed.

use nvml_wrapper::Nvml;
use nvml_wrapper::error::NvmlError;

use crate::clock::Stamp;

/// The management library.
pub struct Gpus(Nvml);

/// All GPUs at a moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GpuReading {
    /// When it was.
    pub at: Stamp,
    /// Energy since the driver was loaded, in joules; `None` if a GPU does not report it.
    pub joules: Option<f64>,
    /// Busy GPUs, on average over the library's last sample, such as 1.5 of 2.
    pub at_work: f64,
}

impl Gpus {
    /// Opens the library.
    ///
    /// # Errors
    /// In words, if it is not installed, or finds no GPU.
    pub fn open() -> Result<Self, String> {
        let nvml = Nvml::init().map_err(|error| why_not(&error))?;
        match nvml.device_count() {
            Ok(0) => Err("GPU time and energy: the NVIDIA driver finds no GPU".to_owned()),
            Ok(_) => Ok(Self(nvml)),
            Err(error) => Err(why_not(&error)),
        }
    }

    /// Reads all GPUs.
    pub fn read(&self) -> GpuReading {
        let count = self.0.device_count().unwrap_or(0);
        let devices: Vec<_> = (0..count).filter_map(|number| self.0.device_by_index(number).ok()).collect();
        let joules = devices.iter().map(|gpu| Some(gpu.total_energy_consumption().ok()? as f64 / 1_000.0)).sum();
        let at_work = devices.iter().filter_map(|gpu| Some(f64::from(gpu.utilization_rates().ok()?.gpu) / 100.0)).sum();
        GpuReading { at: Stamp::now(), joules, at_work }
    }
}

/// Why the library cannot be used, in words for someone who knows nothing of it.
fn why_not(error: &NvmlError) -> String {
    match error {
        NvmlError::LibloadingError(_) => {
            "GPU time and energy: no NVIDIA driver here (its library, libnvidia-ml.so.1, is not found)".to_owned()
        }
        NvmlError::DriverNotLoaded => "GPU time and energy: the NVIDIA driver is installed but not loaded".to_owned(),
        error => format!("GPU time and energy: NVML, which comes with the NVIDIA driver, cannot be used: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_without_a_driver_is_told_plainly() {
        let lacking = Nvml::builder().lib_path("libnvidia-ml-of-nobody.so.1".as_ref()).init().err().unwrap();
        let told = why_not(&lacking);
        assert!(told.contains("no NVIDIA driver here") && !told.contains("libloading"), "{told}");
        assert!(why_not(&NvmlError::DriverNotLoaded).contains("not loaded"));
        assert!(why_not(&NvmlError::NoPermission).contains("cannot be used"));
    }
}
