//! How fast processors run, and who decides that.

use crate::machine::read;

/// Of more processors the frequency is not asked for: each costs a call.
const MOST: usize = 64;

/// What a processor's governor is called, such as `performance` or `powersave`; `None` where the kernel governs none, as in
/// most virtual machines.
pub fn governor(processor: usize) -> Option<String> {
    read(format!("/sys/devices/system/cpu/cpu{processor}/cpufreq/scaling_governor"))
}

/// The highest frequency that a processor of these runs at now, in kHz: those that have nothing to do run slower.
pub fn highest_khz(processors: &[usize]) -> Option<u64> {
    let file = |processor: &usize| format!("/sys/devices/system/cpu/cpu{processor}/cpufreq/scaling_cur_freq");
    processors.iter().take(MOST).filter_map(|processor| read(file(processor))?.parse().ok()).max()
}
