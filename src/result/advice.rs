//! What to change so that a level becomes believable, in numbers: chance shrinks with the root of what is measured.

use std::fmt;

use crate::disagreement::{Disagreement, STABLE_WINDOWS};
use crate::terms::{MeasurementPlan, Precision};

/// The spread of three windows is a matter of chance itself, so that windows should vary by less than would just do.
const MARGIN: f64 = 2.0;
/// Windows that would have to be longer than this many times do not differ by chance.
const MOST: f64 = 100.0;
/// A rate that is this share of what the server completes leaves its queue empty now and then.
const SUSTAINABLE: f64 = 0.9;

/// For a server that completed this many requests a second, and was sent more.
pub fn slower(completed: f64) -> String {
    let rate = two_digits_down(SUSTAINABLE * completed);
    format!("lower the rate, to {rate} or less: the server's queue grows for as long as the level lasts")
}

/// A flag of the measurement, and a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setting {
    /// The flag.
    pub flag: &'static str,
    /// The value, a whole number.
    pub value: u64,
    /// What `--max-level-time` must be for that, in seconds, where the run limits the time of a level.
    pub level_time_s: Option<u64>,
}

impl Setting {
    /// With as many times the time of a level, if that is limited.
    fn new(plan: &MeasurementPlan, flag: &'static str, value: u64, times: f64) -> Self {
        let level_time_s = plan.level_time.map(|most| two_digits_up(most.as_secs_f64() * times.max(1.0)));
        Self { flag, value, level_time_s }
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.flag, self.value)?;
        self.level_time_s.map_or(Ok(()), |seconds| write!(f, " with --max-level-time {seconds}s"))
    }
}

/// What makes windows agree that differ too much, if they differ by chance.
pub fn length(plan: &MeasurementPlan, apart: &Disagreement) -> Option<Setting> {
    let factor = MARGIN * (apart.spread() / apart.allowed).powi(2);
    (apart.low > 0.0 && factor <= MOST).then(|| longer(plan, factor))
}

/// For windows that differ too much.
pub fn steadier(plan: &MeasurementPlan, apart: &Disagreement) -> String {
    if let Some(setting) = length(plan, apart) {
        return format!("{setting} would do, or a higher --max-trials");
    }
    if apart.low > 0.0 {
        return "that is not chance: see with -v how the windows differ, and check what else runs on this machine or \
            the server's"
            .to_owned();
    }
    format!("a window had no request; {} may do", longer(plan, 10.0))
}

/// Windows enough for a level, which can agree.
pub fn usual_windows(plan: &MeasurementPlan) -> Setting {
    const USUAL: u64 = 10;
    Setting::new(plan, "--max-trials", USUAL, USUAL as f64 / plan.most_windows().max(1) as f64)
}

/// For levels of so few windows that they cannot agree.
pub fn more_windows(plan: &MeasurementPlan) -> String {
    format!("{STABLE_WINDOWS} windows are needed at least; {} would do", usual_windows(plan))
}

/// As many windows as make a figure precise that is known to within the share `half_width`.
pub fn windows(plan: &MeasurementPlan, wanted: Precision, half_width: Option<f64>) -> Option<Setting> {
    let most = plan.most_windows() as f64;
    let windows = most * (half_width? / wanted.share).powi(2);
    (windows <= MOST * most).then(|| Setting::new(plan, "--max-trials", two_digits_up(windows), windows / most))
}

/// For a figure that is known to within the share `half_width`.
pub fn more_precise(plan: &MeasurementPlan, wanted: Precision, half_width: Option<f64>) -> String {
    match windows(plan, wanted, half_width) {
        Some(setting) => format!("{setting} would do, or ask for less"),
        None => "raise --max-trials or --measurement-interval, or ask for less".to_owned(),
    }
}

/// What brings `needed` samples where there were `count`.
pub fn samples(plan: &MeasurementPlan, count: u64, needed: u64) -> Setting {
    match plan.request_count {
        Some(requests) => {
            Setting::new(plan, "--request-count", two_digits_up(needed as f64), needed as f64 / requests.max(1) as f64)
        }
        None => longer(plan, needed as f64 / count.max(1) as f64),
    }
}

/// For `count` samples where `needed` are.
pub fn more_samples(plan: &MeasurementPlan, count: u64, needed: u64) -> String {
    format!("{} would do, or ask for a lower percentile", samples(plan, count, needed))
}

/// The flag that makes a level's windows `factor` times as long.
pub fn longer(plan: &MeasurementPlan, factor: f64) -> Setting {
    let (flag, size) = match plan.request_count {
        Some(requests) => ("--request-count", requests as f64),
        None => (plan.window.short_flag(), plan.window.size()),
    };
    Setting::new(plan, flag, two_digits_up(size * factor), factor)
}

/// A whole number of two digits and zeros, not below `value`.
fn two_digits_up(value: f64) -> u64 {
    let unit = 10_f64.powf(value.max(1.0).log10().floor() - 1.0).max(1.0);
    ((value / unit).ceil() * unit) as u64
}

/// A number of two digits that is not above `value`.
fn two_digits_down(value: f64) -> f64 {
    if value <= 0.0 {
        return 0.0;
    }
    let power = value.log10().floor() as i32 - 1;
    let unit = 10_f64.powi(power.abs());
    if power < 0 { (value * unit).floor() / unit } else { (value / unit).floor() * unit }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::summary::sample;
    use crate::terms::{Statistic, WindowRule};

    fn apart(low: f64, high: f64) -> Disagreement {
        Disagreement { statistic: Statistic::Throughput, low, high, allowed: 0.1 }
    }

    #[test]
    fn windows_that_differ_by_chance_have_a_length_that_would_do() {
        let mut plan = sample::plan();
        plan.window = WindowRule::Time(Duration::from_millis(500));
        // 14.3 % instead of 10: a little over twice as much, and twice that for chance.
        assert_eq!(steadier(&plan, &apart(9_100.0, 10_400.0)), "-p 2100 would do, or a higher --max-trials");
        plan.window = WindowRule::Count(50);
        let text = steadier(&plan, &apart(100.0, 120.0));
        assert_eq!(text, "--measurement-request-count 400 would do, or a higher --max-trials");
        plan.request_count = Some(70);
        assert!(steadier(&plan, &apart(100.0, 120.0)).starts_with("--request-count 560 would"));
        assert!(steadier(&plan, &apart(100.0, 900.0)).contains("not chance"));
        assert!(steadier(&plan, &apart(0.0, 900.0)).contains("no request; --request-count 700 may do"));
    }

    #[test]
    fn precisions_and_samples_have_their_numbers() {
        let mut plan = sample::plan();
        let wanted = Precision { statistic: Statistic::Percentile(99.0), share: 0.02 };
        assert_eq!(more_precise(&plan, wanted, Some(0.05)), "--max-trials 63 would do, or ask for less");
        assert!(more_precise(&plan, wanted, None).starts_with("raise --max-trials"));
        assert!(more_precise(&plan, wanted, Some(0.9)).starts_with("raise --max-trials"));
        let limited = MeasurementPlan { level_time: Some(Duration::from_secs(8)), ..plan.clone() };
        let text = more_precise(&limited, wanted, Some(0.05));
        assert_eq!(
            text, "--max-trials 50 with --max-level-time 50s would do, or ask for less",
            "the time is a limit, too"
        );
        assert_eq!(more_samples(&plan, 100, 662), "-p 6700 would do, or ask for a lower percentile");
        plan.request_count = Some(100);
        assert_eq!(more_samples(&plan, 100, 662), "--request-count 670 would do, or ask for a lower percentile");
    }

    #[test]
    fn rates_that_a_server_can_sustain() {
        for (completed, rate) in [(10_000.0, "9000"), (95.3, "85"), (1.234, "1.1"), (0.0456, "0.041")] {
            assert!(
                slower(completed).starts_with(&format!("lower the rate, to {rate} or less")),
                "{}",
                slower(completed)
            );
        }
    }
}
