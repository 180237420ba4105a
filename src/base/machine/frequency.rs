//! The frequency of processors, and its governor.

use crate::machine::read;

/// Limit on processors whose frequency is read: each costs a call.
const MOST: usize = 64;

/// A processor's governor, such as `performance` or `powersave`; `None` if there is none, as in most virtual machines.
pub fn governor(processor: usize) -> Option<String> {
    read(format!("/sys/devices/system/cpu/cpu{processor}/cpufreq/scaling_governor"))
}

/// The highest current frequency of these processors, in kHz: idle ones run slower.
pub fn highest_khz(processors: &[usize]) -> Option<u64> {
    let file = |processor: &usize| format!("/sys/devices/system/cpu/cpu{processor}/cpufreq/scaling_cur_freq");
    processors.iter().take(MOST).filter_map(|processor| read(file(processor))?.parse().ok()).max()
}
