//! Timestamps of traces: `2023-11-16 18:17:03.9799600`, with `T` for the blank and a zone (`Z`, `+02:00`) if need be.

const NS_PER_SECOND: i128 = 1_000_000_000;

/// Nanoseconds since 1970-01-01T00:00:00Z; `None` where `text` has another form or names no moment. Times without a zone are
/// taken as UTC. Digits beyond the nanosecond are cut off.
pub(super) fn parse(text: &str) -> Option<i128> {
    let text = text.trim();
    let (date, time) = text.split_once([' ', 'T'])?;
    let days = parse_date(date)?;
    let (clock, zone_seconds) = split_zone(time.trim())?;
    Some((i128::from(days) * 86_400 - i128::from(zone_seconds)) * NS_PER_SECOND + parse_clock(clock)?)
}

fn parse_date(date: &str) -> Option<i64> {
    let mut parts = date.split('-');
    let (year, month, day) = (field(parts.next()?, 4)?, field(parts.next()?, 2)?, field(parts.next()?, 2)?);
    let known = parts.next().is_none() && (1..=12).contains(&month) && (1..=days_in_month(year, month)).contains(&day);
    known.then(|| days_from_civil(year, month, day))
}

/// Nanoseconds since midnight of `HH:MM:SS[.fraction]`. A leap second (`:60`) counts as the next minute's first.
fn parse_clock(clock: &str) -> Option<i128> {
    let (whole, fraction) = clock.split_once('.').map_or((clock, None), |(whole, fraction)| (whole, Some(fraction)));
    let mut parts = whole.split(':');
    let (hour, minute, second) = (field(parts.next()?, 2)?, field(parts.next()?, 2)?, field(parts.next()?, 2)?);
    if parts.next().is_some() || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let nanoseconds = fraction.map_or(Some(0), parse_fraction)?;
    Some(i128::from((hour * 60 + minute) * 60 + second) * NS_PER_SECOND + nanoseconds)
}

fn parse_fraction(digits: &str) -> Option<i128> {
    let valid = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    valid.then(|| {
        digits.bytes().chain(std::iter::repeat(b'0')).take(9).fold(0, |sum, byte| sum * 10 + i128::from(byte - b'0'))
    })
}

/// The clock part, and the zone's seconds east of UTC.
fn split_zone(time: &str) -> Option<(&str, i64)> {
    if let Some(clock) = time.strip_suffix(['Z', 'z']) {
        return Some((clock, 0));
    }
    let Some(at) = time.find(['+', '-']) else { return Some((time, 0)) };
    let (clock, zone) = time.split_at(at);
    let (hours, minutes) = zone[1..].split_once(':')?;
    let seconds = (field(hours, 2)? * 60 + field(minutes, 2)?) * 60;
    Some((clock.trim_end(), if zone.starts_with('-') { -seconds } else { seconds }))
}

fn field(text: &str, digits: usize) -> Option<i64> {
    let valid = text.len() == digits && text.bytes().all(|byte| byte.is_ascii_digit());
    valid.then(|| text.parse().ok())?
}

fn days_in_month(year: i64, month: i64) -> i64 {
    match month {
        2 if (year % 4 == 0 && year % 100 != 0) || year % 400 == 0 => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days from 1970-01-01 in the Gregorian calendar: years start in March, so that the leap day is their last.
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let leap_days = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    365 * year + leap_days + day_of_year - 719_468
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn known_moments() {
        assert_eq!(parse("1970-01-01 00:00:00"), Some(0));
        assert_eq!(parse("2000-02-29T12:00:00Z"), Some(951_825_600 * 1_000_000_000));
        assert_eq!(parse("2023-11-16 18:17:03.9799600"), Some(1_700_158_623_979_960_000));
        assert_eq!(parse("2024-05-10 00:00:00.009930+00:00"), Some(1_715_299_200_009_930_000));
        assert_eq!(parse("2024-05-10 02:00:00.5+02:00"), Some(1_715_299_200_500_000_000));
        assert_eq!(parse("1969-12-31 23:59:59.1234567899"), Some(-876_543_211));
    }

    #[test]
    fn other_forms_are_refused() {
        for text in [
            "",
            "12:00:00",
            "2023-11-16",
            "2023-13-01 00:00:00",
            "2023-02-29 00:00:00",
            "2023-11-16 24:00:00",
            "2023-11-16 18:17",
            "2023-11-16 18:17:03.",
            "2023-11-16 18:17:03.1x",
            "2023-11-16 18:17:03+2",
            "+023-11-16 18:17:03",
            "2023-11-16 18:17:03+é:00",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
