//! Numbers in the format of upstream's report: six significant digits, in the shorter of the fixed and scientific forms. That is
//! the default of C++ streams (`%g`), which tools that read the report expect. The form depends on the value alone, not on
//! anything printed earlier.

use std::time::Duration;

/// Significant digits.
const DIGITS: usize = 6;

/// Formats `value` with six significant digits and without trailing zeros: `81.3716`, `5.1e-05`, `1.23457e+06`.
pub fn significant(value: f64) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    if !value.is_finite() {
        return if value.is_nan() { "nan".to_owned() } else { format!("{value}") };
    }
    let scientific = format!("{:.*e}", DIGITS - 1, value);
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..DIGITS as i32).contains(&exponent) {
        let decimals = (DIGITS as i32 - 1 - exponent).max(0) as usize;
        return bare(&format!("{value:.decimals$}")).to_owned();
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{}e{sign}{:02}", bare(mantissa), exponent.abs())
}

/// Removes trailing zeros of a fraction.
fn bare(number: &str) -> &str {
    if number.contains('.') { number.trim_end_matches('0').trim_end_matches('.') } else { number }
}

/// Milliseconds: `500`, `0.5`.
pub fn msec(time: Duration) -> String {
    significant(time.as_secs_f64() * 1_000.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn six_significant_digits_like_a_default_stream() {
        let cases = [
            (0.0, "0"),
            (1.0, "1"),
            (20.0, "20"),
            (81.37161, "81.3716"),
            (175.054_4, "175.054"),
            (7940.88, "7940.88"),
            (19.983, "19.983"),
            (100_000.0, "100000"),
            (999_999.4, "999999"),
            (999_999.6, "1e+06"),
            (1_234_567.0, "1.23457e+06"),
            (0.000_123_456_7, "0.000123457"),
            (0.000_051, "5.1e-05"),
            (-2.5, "-2.5"),
            (99.999_996, "100"),
            (1e100, "1e+100"),
        ];
        for (value, text) in cases {
            assert_eq!(significant(value), text, "{value}");
        }
        assert_eq!(significant(f64::NAN), "nan");
        assert_eq!(significant(f64::INFINITY), "inf");
        assert_eq!(significant(f64::NEG_INFINITY), "-inf");
    }
}
