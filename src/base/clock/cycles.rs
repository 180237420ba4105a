//! [`CycleClock`]: the kernel's clock, counted on in cycles of the processor between two of its readings.
//!
//! A reading of the kernel's clock waits until all instructions before it are over, 30 ns and more. Each request has two, which was
//! most of what the client cost. A reading of the counter takes a third of that.
//!
//! It is used only where the kernel itself keeps time by this counter (clocksource `tsc`): it has checked that the counter is steady
//! and the same on all processors. Every [`STRETCH`] the kernel's clock is read anew, so what it is slowed down or sped up by (NTP)
//! is followed, and a machine that was suspended has no stretch to count on with. Where the two contradict each other, the kernel's clock
//! alone is used from then on.

use std::fs;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};

use crossbeam::utils::CachePadded;
use parking_lot::Mutex;

use super::kernel_ns;

/// So long it is counted on after a reading, in nanoseconds.
const STRETCH: u64 = 10_000_000;
/// Of less than this nothing is said about the counter's rate.
const SHORTEST_BASE: u64 = 20_000_000;
/// The rate is that of this long, or twice as long.
const BASE: u64 = 1_000_000_000;
/// Two readings of the counter with one of the clock between them are so close, in nanoseconds, that they are of one moment.
const CLOSE: u64 = 500;
/// So far the clock and what was counted may be apart, in nanoseconds, and for each nanosecond that has passed since: the kernel
/// corrects its clock by at most 500 ppm.
const APART: (f64, f64) = (20_000.0, 0.001);
/// What is further apart than this is not made up for bit by bit.
const MADE_UP: f64 = 2_000.0;
/// After so many readings in a row of which none was [`CLOSE`], none is expected any more: a tool runs this program instruction by
/// instruction.
const MISSES: u32 = 100;
/// Where the kernel says what it keeps time by.
const CLOCK_SOURCE: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
/// Parts of a nanosecond in a rate.
const PARTS: u32 = 32;

/// The clock of this process.
pub(super) static CLOCK: CycleClock = CycleClock::new();

/// The processor's counter.
#[inline]
fn counter() -> u64 {
    // SAFETY: every x86-64 processor has it, and the kernel's clock, which this process may read, reads it in this process, too.
    unsafe { core::arch::x86_64::_rdtsc() }
}

fn is_kept_by_the_counter() -> bool {
    fs::read(CLOCK_SOURCE).is_ok_and(|source| source.trim_ascii() == b"tsc")
}

/// A reading of both.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Reading {
    cycles: u64,
    ns: u64,
}

impl Reading {
    /// Both at one moment, but for [`CLOSE`]; `None` if the thread was held up each time.
    fn take(rate: f64) -> Option<Self> {
        (0..3).find_map(|_| {
            let before = counter();
            let ns = kernel_ns();
            let between = counter().wrapping_sub(before);
            (between as f64 * rate <= CLOSE as f64).then_some(Self { cycles: before.wrapping_add(between / 2), ns })
        })
    }
}

/// Nanoseconds by cycles, from a reading on.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Line {
    start: Reading,
    /// Nanoseconds a cycle, in 2^-32.
    rate: u64,
    /// For so many cycles, some 2^25.
    stretch: u64,
}

impl Line {
    fn new(start: Reading, rate: f64) -> Self {
        Self { start, rate: (rate * 2_f64.powi(PARTS as i32)) as u64, stretch: (STRETCH as f64 / rate) as u64 }
    }

    /// Nanoseconds a cycle.
    fn rate(self) -> f64 {
        self.rate as f64 / 2_f64.powi(PARTS as i32)
    }

    /// The time so many cycles after its start, on its stretch.
    #[inline]
    fn after(self, cycles: u64) -> u64 {
        self.start.ns + ((cycles * self.rate) >> PARTS)
    }
}

/// What follows from a reading.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Verdict {
    /// Nothing new.
    Same,
    Continues(Line),
    /// The counter and the clock contradict each other.
    Contradicts,
}

/// What the readings say about the counter.
#[derive(Debug)]
struct Fit {
    /// Where the rate is counted from, and where it will be next.
    base: Option<(Reading, Reading)>,
    line: Option<Line>,
    /// Readings in a row that were not close.
    misses: u32,
}

impl Fit {
    const NEW: Self = Self { base: None, line: None, misses: 0 };

    /// Takes in a reading.
    fn take_in(&mut self, now: Reading) -> Verdict {
        let (origin, next) = *self.base.get_or_insert((now, now));
        let length = now.ns.saturating_sub(origin.ns);
        if length < SHORTEST_BASE {
            return Verdict::Same;
        }
        let rate = length as f64 / now.cycles.wrapping_sub(origin.cycles) as f64;
        let found = match self.line {
            None => Verdict::Continues(Line::new(now, rate)),
            Some(line) => follow(line, now, rate),
        };
        if let Verdict::Continues(line) = found {
            self.line = Some(line);
            if now.ns.saturating_sub(next.ns) >= BASE {
                self.base = Some((next, now));
            }
        }
        found
    }
}

/// The line that follows one at a reading, by a counter of that rate.
fn follow(line: Line, now: Reading, rate: f64) -> Verdict {
    let passed = now.cycles.wrapping_sub(line.start.cycles).cast_signed();
    // Another processor's counter may be a few cycles behind; one that has begun anew is far behind.
    if passed.unsigned_abs() < line.stretch {
        return Verdict::Same;
    }
    let (counted, real) = (passed as f64 * line.rate(), now.ns as f64 - line.start.ns as f64);
    let apart = real - counted;
    if apart.abs() > APART.0 + APART.1 * real {
        return Verdict::Contradicts;
    }
    if apart.abs() > MADE_UP {
        return Verdict::Continues(Line::new(now, rate));
    }
    // Time goes on from where it is, so that it never goes back, and meets the clock's at the end.
    let start = Reading { ns: line.start.ns + counted as u64, ..now };
    Verdict::Continues(Line::new(start, rate * (1.0 + apart / STRETCH as f64)))
}

/// The line that all threads count by. Whoever changes it makes its version odd meanwhile.
#[derive(Default)]
struct SharedLine {
    version: AtomicU64,
    cycles: AtomicU64,
    ns: AtomicU64,
    rate: AtomicU64,
    /// 0: nothing is known of the counter, or it is not used.
    stretch: AtomicU64,
}

/// The clock.
pub(super) struct CycleClock {
    line: CachePadded<SharedLine>,
    is_kernel_alone: AtomicBool,
    fit: Mutex<Fit>,
}

impl CycleClock {
    const fn new() -> Self {
        let line = SharedLine {
            version: AtomicU64::new(0),
            cycles: AtomicU64::new(0),
            ns: AtomicU64::new(0),
            rate: AtomicU64::new(0),
            stretch: AtomicU64::new(0),
        };
        Self { line: CachePadded::new(line), is_kernel_alone: AtomicBool::new(false), fit: Mutex::new(Fit::NEW) }
    }

    /// Nanoseconds of the kernel's monotonic clock.
    #[inline]
    pub(super) fn now(&self) -> u64 {
        let SharedLine { version, cycles, ns, rate, stretch } = &*self.line;
        let before = version.load(Ordering::Acquire);
        let start = Reading { cycles: cycles.load(Ordering::Relaxed), ns: ns.load(Ordering::Relaxed) };
        let line = Line { start, rate: rate.load(Ordering::Relaxed), stretch: stretch.load(Ordering::Relaxed) };
        fence(Ordering::Acquire);
        let is_whole = before & 1 == 0 && version.load(Ordering::Relaxed) == before;
        let passed = counter().wrapping_sub(start.cycles);
        if is_whole && passed < line.stretch { line.after(passed) } else { self.read() }
    }

    /// Reads the kernel's clock, to count on from there.
    #[cold]
    #[inline(never)]
    fn read(&self) -> u64 {
        if self.is_kernel_alone.load(Ordering::Relaxed) {
            return kernel_ns();
        }
        let Some(mut fit) = self.fit.try_lock() else { return kernel_ns() };
        if fit.base.is_none() && !is_kept_by_the_counter() {
            self.leave_to_the_kernel();
            return kernel_ns();
        }
        // No processor has less than a cycle a nanosecond.
        let Some(now) = Reading::take(fit.line.map_or(1.0, Line::rate)) else {
            fit.misses += 1;
            if fit.misses == MISSES {
                self.leave_to_the_kernel();
            }
            return kernel_ns();
        };
        fit.misses = 0;
        match fit.take_in(now) {
            Verdict::Same => now.ns,
            Verdict::Continues(line) => {
                self.publish(line);
                line.start.ns
            }
            Verdict::Contradicts => {
                self.leave_to_the_kernel();
                now.ns
            }
        }
    }

    /// The caller has locked the fit, as for [`CycleClock::publish`].
    fn leave_to_the_kernel(&self) {
        self.is_kernel_alone.store(true, Ordering::Relaxed);
        self.publish(Line { start: Reading { cycles: 0, ns: 0 }, rate: 0, stretch: 0 });
    }

    fn publish(&self, line: Line) {
        let version = self.line.version.load(Ordering::Relaxed);
        self.line.version.store(version + 1, Ordering::Relaxed);
        fence(Ordering::Release);
        self.line.cycles.store(line.start.cycles, Ordering::Relaxed);
        self.line.ns.store(line.start.ns, Ordering::Relaxed);
        self.line.rate.store(line.rate, Ordering::Relaxed);
        self.line.stretch.store(line.stretch, Ordering::Relaxed);
        self.line.version.store(version + 2, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    /// A counter of 2.9 GHz, which overflows after a while, and a clock that is so many parts of a million too fast.
    fn reading(real: f64, ppm: f64) -> Reading {
        Reading {
            cycles: (u64::MAX - 1_000_000_000).wrapping_add((real * 2.9) as u64),
            ns: 1_000_000 + (real * (1.0 + ppm / 1e6)) as u64,
        }
    }

    #[test]
    fn a_line_follows_the_clock_and_never_goes_back() {
        for ppm in [-500.0, 0.0, 30.0] {
            let (mut fit, mut last, mut noise) = (Fit::NEW, None::<Line>, 7_u64);
            for number in 0..500 {
                // The clock is read up to 32 ns too early or late.
                noise = noise.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let (real, off) = (f64::from(number) * 11e6, (noise >> 58) as f64 - 31.5);
                let now = Reading { ns: reading(real + off, ppm).ns, ..reading(real, ppm) };
                let Verdict::Continues(line) = fit.take_in(now) else {
                    assert!(number < 2, "{ppm} ppm: no line from reading {number}");
                    continue;
                };
                let before = last.map_or(line.start.ns, |last| last.after(now.cycles.wrapping_sub(last.start.cycles)));
                assert!(line.start.ns.abs_diff(before) <= 1, "{ppm} ppm, reading {number}: {before} ns, then {line:?}");
                assert!(((line.rate() * 2.9 - 1.0) * 1e6 - ppm).abs() < 20.0, "{ppm} ppm, reading {number}: {line:?}");
                let end = line.after(line.stretch).abs_diff(reading(real + line.stretch as f64 / 2.9, ppm).ns);
                assert!(end < 200, "{ppm} ppm, reading {number}: {end} ns off at the end of {line:?}");
                last = Some(line);
            }
        }
    }

    #[test]
    fn a_clock_that_is_corrected_is_followed_and_a_counter_that_jumps_is_given_up() {
        let mut fit = Fit::NEW;
        let mut see = |real: f64, reading: Reading| match fit.take_in(reading) {
            Verdict::Continues(line) => Some(line.start.ns.abs_diff(1_000_000 + real as u64)),
            Verdict::Same => None,
            Verdict::Contradicts => Some(u64::MAX),
        };
        assert!((0..100).all(|number| see(0.0, reading(f64::from(number) * 11e6, 0.0)) != Some(u64::MAX)));
        let slowed = |real: f64| Reading { ns: reading(real - (real - 1.1e9) * 5e-4, 0.0).ns, ..reading(real, 0.0) };
        let off = (101..400).filter_map(|number| see(f64::from(number) * 11e6, slowed(f64::from(number) * 11e6))).max();
        assert!(off.is_some_and(|off| off < 2_000_000), "it is what the clock was slowed down by: {off:?}");
        let suspended = Reading { cycles: slowed(4.5e9).cycles.wrapping_add(29_000_000_000), ..slowed(4.5e9) };
        assert_eq!(see(0.0, suspended), Some(u64::MAX));
        assert_eq!(see(0.0, Reading { cycles: 5, ..slowed(4.5e9) }), Some(u64::MAX), "it has begun anew");
    }

    #[test]
    fn timed_threads_read_what_the_kernel_says() {
        const OFF: u64 = 2_000;
        let watch = || {
            let (begun, mut last) = (kernel_ns(), 0);
            loop {
                let (before, now, after) = (kernel_ns(), CLOCK.now(), kernel_ns());
                assert!(now + OFF >= before && now <= after + OFF, "{now} is not between {before} and {after}");
                assert!(now + OFF >= last, "{last}, then {now}");
                last = now;
                if after - begun > 200_000_000 {
                    break;
                }
            }
        };
        thread::scope(|scope| (0..3).for_each(|_| drop(scope.spawn(watch))));
        let is_counting = CLOCK.line.stretch.load(Ordering::Relaxed) > 0;
        assert_eq!(is_counting, is_kept_by_the_counter());
    }

    #[test]
    fn a_counter_that_the_kernel_does_not_trust_is_not_used() {
        let clock = CycleClock::new();
        clock.leave_to_the_kernel();
        let before = kernel_ns();
        let now = clock.now();
        assert!(before <= now && now <= kernel_ns());
        assert!(clock.fit.lock().base.is_none(), "it was not asked");
    }
}
