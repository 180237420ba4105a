//! The clock that every stamp is read from.

use crate::clock::Stamp;
use crate::machine::fitness::Finding;
use crate::machine::read;

/// Sources that can be read without a system call.
const FAST: [&str; 4] = ["tsc", "kvm-clock", "hyperv_clocksource_tsc_page", "arch_sys_counter"];
/// Maximum time to read such a clock.
const FAST_NS: u64 = 100;
/// Readings per round; the cost is the mean of the fastest round.
const READINGS: u32 = 10_000;
const ROUNDS: u32 = 5;

/// Checks the clock's source, by the kernel's name for it; empty if there is none.
pub fn source(name: &str) -> Finding {
    match name {
        "" => Finding::note("clock source: unknown", "the cost of reading the clock, below, shows how good it is"),
        name if FAST.contains(&name) => Finding::good(format!("clock source: {name}")),
        name => Finding::warning(
            format!("clock source: {name}"),
            "each reading is a system call, a microsecond or so, twice per request; boot with clocksource=tsc \
             (tsc=reliable), or choose another machine type",
        ),
    }
}

/// The name of the clock's source.
pub fn current_source() -> String {
    read("/sys/devices/system/clocksource/clocksource0/current_clocksource").unwrap_or_default()
}

/// Checks the cost of reading the clock.
pub fn price(ns: u64) -> Finding {
    let text = format!("reading the clock: {ns} ns");
    match ns {
        0..=FAST_NS => Finding::good(text),
        _ => Finding::warning(
            text,
            "a request takes two readings or more, which limits the rate and adds to every latency; use a machine whose clock source is tsc",
        ),
    }
}

/// Nanoseconds that reading the clock takes now.
pub fn current_price() -> u64 {
    let round = |_| {
        let start = Stamp::now();
        for _ in 1..READINGS {
            std::hint::black_box(Stamp::now());
        }
        Stamp::now().since(start) / u64::from(READINGS)
    };
    (0..ROUNDS).map(round).min().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::fitness::Grade;

    #[test]
    fn slow_clocks_are_told() {
        assert_eq!(
            [source("tsc").grade, source("kvm-clock").grade, source("").grade],
            [Grade::Good, Grade::Good, Grade::Note]
        );
        assert_eq!([source("hpet").grade, source("acpi_pm").grade], [Grade::Warning; 2]);
        assert_eq!((price(25).grade, price(900).grade), (Grade::Good, Grade::Warning));
        assert!((1..1_000_000).contains(&current_price()));
    }
}
