//! From values to positions.

/// How values are positioned.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scale {
    /// In proportion to the value.
    Linear {
        /// At the left, or below.
        low: f64,
        /// At the right, or above.
        high: f64,
    },
    /// By the logarithm of the value.
    Log {
        /// At the left, or below; above 0.
        low: f64,
        /// At the right, or above.
        high: f64,
    },
}

/// The scales of a picture.
#[derive(Clone, Copy, Debug)]
pub struct Scales {
    /// Of the horizontal axis.
    pub x: Scale,
    /// Of the vertical one.
    pub y: Scale,
}

/// A value that is labelled on an axis.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tick {
    /// The value.
    pub value: f64,
    /// Whether it may be hidden if there is little room.
    pub minor: bool,
}

impl Scale {
    /// From 0 to a round value above the largest.
    pub fn from_zero(values: impl Iterator<Item = f64>) -> Self {
        let most = values.filter(|value| value.is_finite()).fold(0.0, f64::max);
        let step = step(most, 5);
        Self::Linear { low: 0.0, high: if most > 0.0 { (most / step).ceil() * step } else { 1.0 } }
    }

    /// For positive values: logarithmic if they span more than a factor of 8, else from 0.
    pub fn of_latencies(values: impl Iterator<Item = f64> + Clone) -> Self {
        let positive = values.clone().filter(|value| value.is_finite() && *value > 0.0);
        let (low, high) = positive.fold((f64::MAX, 0.0_f64), |(low, high), value| (low.min(value), high.max(value)));
        if high / low < 8.0 || high == 0.0 { Self::from_zero(values) } else { Self::log(low, high) }
    }

    /// Logarithmic, from a round value below to one above.
    pub fn log(low: f64, high: f64) -> Self {
        let low = if low > 0.0 { low } else { 1.0 };
        let (below, above) = (round_down(low / 1.02), round_up(high.max(low) * 1.02));
        Self::Log { low: below, high: if above > below { above } else { below * 10.0 } }
    }

    /// The position of a value: 0 at the low end, 1 at the high one. Values beyond stay at the edge.
    pub fn position(&self, value: f64) -> f64 {
        self.share(value).clamp(0.0, 1.0)
    }

    /// The same, beyond the edges where the value is.
    pub fn share(&self, value: f64) -> f64 {
        let share = match *self {
            Self::Linear { low, high } => (value - low) / (high - low),
            Self::Log { low, high } => (value.max(f64::MIN_POSITIVE) / low).ln() / (high / low).ln(),
        };
        if share.is_finite() { share } else { 0.0 }
    }

    /// Whether a value is on the axis.
    pub fn holds(&self, value: f64) -> bool {
        let (Self::Linear { low, high } | Self::Log { low, high }) = *self;
        let slack = 1e-9 * high.abs();
        (low - slack..=high + slack).contains(&value)
    }

    /// Round values along it, about as many as asked for.
    pub fn ticks(&self, about: usize) -> Vec<Tick> {
        match *self {
            Self::Linear { low, high } => {
                let step = step(high - low, about);
                let first = (low / step).ceil() as i64;
                let last = (high / step + 1e-9).floor() as i64;
                (first..=last).map(|k| Tick { value: k as f64 * step, minor: k % 2 != 0 }).collect()
            }
            Self::Log { low, high } => log_ticks(low, high, about),
        }
    }
}

/// 1, 2 and 5 of every decade; with many decades only 1, or every second or third decade.
fn log_ticks(low: f64, high: f64, about: usize) -> Vec<Tick> {
    let decades = (high / low).log10();
    let (first, last) = (low.log10().floor() as i32, high.log10().ceil() as i32);
    let steps: &[f64] = match () {
        () if decades * 3.0 <= about as f64 * 1.4 => &[1.0, 2.0, 5.0],
        () if decades * 2.0 <= about as f64 * 1.4 => &[1.0, 3.0],
        () => &[1.0],
    };
    let every = ((decades / about.max(1) as f64).ceil() as i32).max(1);
    let all = (first..=last).filter(|exponent| exponent % every == 0);
    let all = all.flat_map(|exponent| steps.iter().map(move |step| (step * 10_f64.powi(exponent), *step)));
    let within: Vec<(f64, f64)> = all.filter(|(value, _)| *value >= low * 0.999 && *value <= high * 1.001).collect();
    if within.len() < 2 {
        // Less than a step: round values as on a linear axis.
        return Scale::Linear { low, high }
            .ticks(about.min(4))
            .into_iter()
            .map(|tick| Tick { minor: false, ..tick })
            .collect();
    }
    // Narrow screens have room for all if there are few powers of ten, of which one alone is no scale.
    let powers = within.iter().filter(|(_, step)| *step == 1.0).count();
    let minor = |step: f64| step != 1.0 && decades > 1.2 && powers > 1;
    within.into_iter().map(|(value, step)| Tick { value, minor: minor(step) }).collect()
}

/// 1, 2 or 5 times a power of ten, so that about `about` steps fit.
fn step(span: f64, about: usize) -> f64 {
    let raw = span / about.max(1) as f64;
    if !(raw.is_finite() && raw > 0.0) {
        return 1.0;
    }
    let power = 10_f64.powf(raw.log10().floor());
    let factor = raw / power;
    power
        * if factor <= 1.0 {
            1.0
        } else if factor <= 2.0 {
            2.0
        } else if factor <= 5.0 {
            5.0
        } else {
            10.0
        }
}

fn round_down(value: f64) -> f64 {
    let power = 10_f64.powf(value.log10().floor());
    let factor = [5.0, 2.0, 1.0].into_iter().find(|factor| factor * power <= value * 1.000_001);
    factor.unwrap_or(1.0) * power
}

fn round_up(value: f64) -> f64 {
    let power = 10_f64.powf(value.log10().floor());
    let factor = [1.0, 2.0, 5.0, 10.0].into_iter().find(|factor| factor * power >= value * 0.999_999);
    factor.unwrap_or(10.0) * power
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(scale: Scale, about: usize) -> Vec<f64> {
        scale.ticks(about).iter().map(|tick| tick.value).collect()
    }

    #[test]
    fn round_values_are_written() {
        let scale = Scale::from_zero([3.0, 930.0].into_iter());
        assert_eq!(scale, Scale::Linear { low: 0.0, high: 1000.0 });
        assert_eq!(values(scale, 5), [0.0, 200.0, 400.0, 600.0, 800.0, 1000.0]);
        let scale = Scale::of_latencies([1.2e6, 48e6].into_iter());
        assert_eq!(scale, Scale::Log { low: 1e6, high: 5e7 });
        assert_eq!(values(scale, 5).len(), 6, "{scale:?}");
        assert_eq!(values(Scale::Log { low: 1.0, high: 1e9 }, 4), [1.0, 1e3, 1e6, 1e9]);
        assert_eq!(Scale::of_latencies([0.0, 0.0].into_iter()), Scale::Linear { low: 0.0, high: 1.0 });
        assert_eq!(Scale::of_latencies([2.0, 3.0].into_iter()), Scale::Linear { low: 0.0, high: 3.0 });
    }

    #[test]
    fn every_axis_says_where_it_is() {
        assert_eq!(values(Scale::Log { low: 5.0e6, high: 9.0e6 }, 6), [5e6, 6e6, 7e6, 8e6, 9e6]);
        let narrow = |low, high| Scale::Log { low, high }.ticks(6).iter().filter(|tick| !tick.minor).count();
        assert_eq!([narrow(2e6, 5e7), narrow(1e6, 1e8)], [5, 3], "of 2, 5, 10, 20, 50 ms not 10 ms alone");
    }

    #[test]
    fn every_value_has_a_place() {
        let scale = Scale::Log { low: 1.0, high: 100.0 };
        assert_eq!(
            [0.0, 1.0, 10.0, 100.0, 1e9, f64::NAN].map(|value| scale.position(value)),
            [0.0, 0.0, 0.5, 1.0, 1.0, 0.0]
        );
        let scale = Scale::Linear { low: 0.0, high: 4.0 };
        assert_eq!([-1.0, 1.0, 9.0].map(|value| scale.position(value)), [0.0, 0.25, 1.0]);
    }
}
