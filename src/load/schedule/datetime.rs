//! Timestamps of traces: `2023-11-16 18:17:03.9799600`, optionally with `T` for the blank and a zone (`Z`, `+02:00`).

use std::borrow::Cow;

use jiff::fmt::temporal::DateTimeParser;
use jiff::tz::Offset;

static PARSER: DateTimeParser = DateTimeParser::new();

/// Digits of a nanosecond.
const DIGITS: usize = 9;

/// Nanoseconds since 1970-01-01T00:00:00Z; `None` if `text` has another form or is not a valid moment. Times without a
/// zone are taken as UTC. Digits beyond the nanosecond are cut off; a leap second (`:60`) counts as the second before
/// it.
pub(super) fn parse(text: &str) -> Option<i128> {
    let (date, clock) = text.trim().split_once([' ', 'T'])?;
    let clock = to_nanoseconds(clock).replace(' ', "");
    // A clock without seconds is more likely something else.
    if clock.as_bytes().get(5) != Some(&b':') {
        return None;
    }
    let text = format!("{date}T{clock}");
    let pieces = PARSER.parse_pieces(&text).ok()?;
    let zone = pieces.to_numeric_offset().unwrap_or(Offset::UTC);
    Some(zone.to_timestamp(pieces.date().to_datetime(pieces.time()?)).ok()?.as_nanosecond())
}

/// `text` without the digits that no parser accepts.
fn to_nanoseconds(text: &str) -> Cow<'_, str> {
    let Some((whole, fraction)) = text.split_once('.') else { return text.into() };
    let digits = fraction.bytes().take_while(u8::is_ascii_digit).count();
    if digits <= DIGITS {
        text.into()
    } else {
        format!("{whole}.{}{}", &fraction[..DIGITS], &fraction[digits..]).into()
    }
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
        assert_eq!(parse(" 2024-05-10  02:00:00.5 +02:00 "), Some(1_715_299_200_500_000_000));
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
            "20231116T181703",
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
