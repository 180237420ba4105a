//! Settings from the environment, read once.

use std::ffi::c_int;
use std::path::PathBuf;
use std::sync::OnceLock;

pub struct Settings {
    /// `FAKE_CUDA_DEVICES`: how many devices there are.
    pub devices: u32,
    /// `FAKE_CUDA_MEMORY`: bytes of each device.
    pub memory: usize,
    /// `FAKE_CUDA_INIT_ERROR`: what starting the driver fails with; 0 lets it start.
    pub init_error: c_int,
    /// `FAKE_CUDA_LOG`: where the log goes.
    pub log: Option<PathBuf>,
}

pub fn settings() -> &'static Settings {
    static SETTINGS: OnceLock<Settings> = OnceLock::new();
    SETTINGS.get_or_init(|| Settings {
        devices: number("FAKE_CUDA_DEVICES", 2),
        memory: number("FAKE_CUDA_MEMORY", 1 << 30),
        init_error: number("FAKE_CUDA_INIT_ERROR", 0),
        log: std::env::var_os("FAKE_CUDA_LOG").map(PathBuf::from),
    })
}

fn number<T: std::str::FromStr>(name: &str, default: T) -> T {
    match std::env::var(name) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{name}={text} is not a number in range")),
        Err(_) => default,
    }
}
