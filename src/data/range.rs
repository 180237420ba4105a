//! Bounds of random numbers, as `--random-range` gives them.

use std::fmt;

/// Bounds of an input's random numbers, both inclusive.
#[derive(Clone, Debug, PartialEq)]
pub struct RandomRange {
    /// The input.
    pub input: String,
    /// Lowest value.
    pub low: Bound,
    /// Highest value.
    pub high: Bound,
}

impl fmt::Display for RandomRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.input, self.low, self.high)
    }
}

/// One bound. Integers are exact, including those of 64 bits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bound {
    /// A number without a fraction.
    Whole(i128),
    /// Any other finite number, and those beyond 128 bits.
    Real(f64),
}

impl Bound {
    /// Parses a finite number.
    pub fn parse(text: &str) -> Option<Self> {
        if let Ok(whole) = text.parse() {
            return Some(Self::Whole(whole));
        }
        text.parse().ok().filter(|number: &f64| number.is_finite()).map(Self::from)
    }

    /// The nearest floating-point number.
    pub fn as_f64(self) -> f64 {
        match self {
            Self::Whole(number) => number as f64,
            Self::Real(number) => number,
        }
    }

    /// Whether this is `other` or below it.
    pub fn is_at_most(self, other: Self) -> bool {
        match (self, other) {
            (Self::Whole(left), Self::Whole(right)) => left <= right,
            (left, right) => left.as_f64() <= right.as_f64(),
        }
    }
}

impl From<f64> for Bound {
    fn from(number: f64) -> Self {
        // Larger floating-point numbers do not fit into 128 bits.
        const MOST: f64 = 1e38;
        if number.fract() == 0.0 && number.abs() < MOST { Self::Whole(number as i128) } else { Self::Real(number) }
    }
}

impl From<i128> for Bound {
    fn from(number: i128) -> Self {
        Self::Whole(number)
    }
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole(number) => number.fmt(f),
            Self::Real(number) => write!(f, "{number:?}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers_are_exact() {
        let read = |text| Bound::parse(text).unwrap();
        assert_eq!(read("18446744073709551616"), Bound::Whole(1 << 64));
        assert_eq!(read("1e3"), Bound::Whole(1_000));
        assert!(!read("9007199254740993").is_at_most(read("9007199254740992")));
        assert!(!read("0.5").is_at_most(read("-1")) && read("1").is_at_most(read("1.0")));
        assert!(["nan", "inf", "1e999", "", "x"].iter().all(|text| Bound::parse(text).is_none()));
        assert_eq!((read("1e300").to_string(), read("-0.5").to_string()), ("1e300".to_owned(), "-0.5".to_owned()));
    }
}
