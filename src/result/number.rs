//! Numbers as text: in the format of upstream's report, and short ones for people.

pub use crate::terms::{msec, significant};

/// A ratio (1 is all) as a percentage with two decimals: `0.18%`.
pub fn percent(share: f64) -> String {
    format!("{:.2}%", share * 100.0)
}

/// Whole microseconds, rounded down, of a time in nanoseconds.
pub fn whole_us(nanoseconds: f64) -> u64 {
    (nanoseconds / 1_000.0) as u64
}

/// A time in a suitable unit: `850 ns`, `12.3 µs`, `4 ms`, `1.25 s`.
pub fn time(ns: f64) -> String {
    time_with(ns, short)
}

/// The same with six digits, for what is held against a bound: `12.3457 ms`.
pub fn exact_time(ns: f64) -> String {
    time_with(ns, significant)
}

fn time_with(ns: f64, text: fn(f64) -> String) -> String {
    let (unit_ns, unit) = match ns.abs() {
        0.0 => return "0".to_owned(),
        size if size < 999.5 => (1.0, "ns"),
        size if size < 999_500.0 => (1e3, "µs"),
        size if size < 999_500_000.0 => (1e6, "ms"),
        _ => (1e9, "s"),
    };
    format!("{} {unit}", text(ns / unit_ns))
}

/// Three significant digits, with thousands separated: `1 240`, `12.3`, `0.05`.
pub fn short(value: f64) -> String {
    if value.is_finite() && value.abs() >= 999.5 { thousands(value.round()) } else { plain(value) }
}

/// The same with thousands together, which programs and searches find: `1240`.
pub fn plain(value: f64) -> String {
    if !value.is_finite() {
        return "–".to_owned();
    }
    let size = value.abs();
    if size >= 999.5 {
        return format!("{value:.0}");
    }
    let decimals = match size {
        size if size >= 99.95 => 0,
        size if size >= 9.995 => 1,
        size if size >= 0.9995 || size == 0.0 => 2,
        _ => return significant(format!("{value:.2e}").parse().unwrap_or(value)),
    };
    let text = format!("{value:.decimals$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

fn thousands(value: f64) -> String {
    let digits = format!("{:.0}", value.abs());
    let mut text = String::new();
    for (number, digit) in digits.chars().enumerate() {
        if number > 0 && (digits.len() - number) % 3 == 0 {
            // A narrow no-break space.
            text.push('\u{202f}');
        }
        text.push(digit);
    }
    if value < 0.0 { format!("−{text}") } else { text }
}

/// Rates with `k` and `M`, for axes.
pub fn rate(value: f64) -> String {
    match value.abs() {
        size if size >= 1e6 => format!("{}M", short(value / 1e6)),
        size if size >= 1e4 => format!("{}k", short(value / 1e3)),
        _ => short(value),
    }
}

/// Bytes a second in a suitable unit: `850 B/s`, `12.3 MB/s`, `4 GB/s`.
pub fn bandwidth(bytes: f64) -> String {
    let (value, unit) = match bytes.abs() {
        bytes_a_second if bytes_a_second < 999.5 => (bytes, "B/s"),
        bytes_a_second if bytes_a_second < 999.5e3 => (bytes / 1e3, "kB/s"),
        bytes_a_second if bytes_a_second < 999.5e6 => (bytes / 1e6, "MB/s"),
        _ => (bytes / 1e9, "GB/s"),
    };
    format!("{} {unit}", plain(value))
}

/// A count and what it counts, which takes an s: `1 round`, `6 rounds`.
pub fn counted(count: u64, noun: &str) -> String {
    let ending = if count == 1 { "" } else { "s" };
    format!("{count} {noun}{ending}")
}

/// `64 B`, `64 KiB`, `4 MiB`, if it is exactly that.
pub fn binary(bytes: u64) -> String {
    match bytes {
        bytes if bytes >= 1 << 20 && bytes % (1 << 20) == 0 => format!("{} MiB", bytes >> 20),
        bytes if bytes >= 1 << 10 && bytes % (1 << 10) == 0 => format!("{} KiB", bytes >> 10),
        bytes => format!("{bytes} B"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentages_and_microseconds() {
        assert_eq!(percent(0.98963), "98.96%");
        assert_eq!(percent(0.0001), "0.01%");
        assert_eq!(whole_us(12_999.9), 12);
        assert_eq!(whole_us(-5.0), 0);
        assert_eq!(whole_us(f64::NAN), 0);
    }

    #[test]
    fn numbers_are_short() {
        let times = [0.0, 850.0, 12_345.0, 4e6, 999_999.0, 1.25e9, 123_456_789.0].map(time);
        assert_eq!(times, ["0", "850 ns", "12.3 µs", "4 ms", "1 ms", "1.25 s", "123 ms"]);
        assert_eq!([12_345_678.0, -2.5e9].map(exact_time), ["12.3457 ms", "-2.5 s"]);
        assert_eq!(
            [1_240.0, 99.96, 0.05, 1.0, 12.34, f64::NAN].map(short),
            ["1\u{202f}240", "100", "0.05", "1", "12.3", "–"]
        );
        let bandwidths = [0.0, 12_345.0, 999.6e6, 18.7e9, 2e13].map(bandwidth);
        assert_eq!(bandwidths, ["0 B/s", "12.3 kB/s", "1 GB/s", "18.7 GB/s", "20000 GB/s"]);
        assert_eq!([950.0, 12_000.0, 2.5e6].map(rate), ["950", "12k", "2.5M"]);
        assert_eq!([0, 1, 6].map(|count| counted(count, "round")), ["0 rounds", "1 round", "6 rounds"]);
    }
}
