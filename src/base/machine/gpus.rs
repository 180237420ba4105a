//! GPU usage so far, from NVIDIA's management library, which is opened at run time if it is installed.

use nvml_wrapper::Nvml;

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
        let nvml = Nvml::init().map_err(|error| format!("no NVML here: {error}"))?;
        match nvml.device_count() {
            Ok(0) => Err("NVML finds no GPU".to_owned()),
            Ok(_) => Ok(Self(nvml)),
            Err(error) => Err(format!("NVML cannot query GPUs: {error}")),
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
