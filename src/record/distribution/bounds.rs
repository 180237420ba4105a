//! What histograms of a file may take: a hundred bytes can stand for megabytes, so they are looked at before they are
//! expanded.

use std::cell::Cell;
use std::io::Read as _;

use flate2::read::ZlibDecoder;

use crate::distribution::{DIGITS, MAX_TIME_NS};

/// What a compressed histogram of the format V2 begins with, and what is in it.
const COMPRESSED: u32 = 0x1c84_9314;
const PLAIN: u32 = 0x1c84_9313;
/// Bytes before the compressed part, and of the header in it.
const OUTER: usize = 8;
const INNER: usize = 40;
/// Bytes of a count at most, where it is written.
const WIDEST: u64 = 9;

thread_local! {
    /// Bytes of memory that histograms may still take.
    static LEFT: Cell<u64> = const { Cell::new(u64::MAX) };
}

/// Reads a file whose histograms may take so many bytes of memory in all.
pub fn within<T>(bytes: u64, read: impl FnOnce() -> T) -> T {
    let before = LEFT.replace(bytes);
    let done = read();
    LEFT.set(before);
    done
}

/// Fails unless these bytes are a histogram like those that are written here, for which there is room.
pub(super) fn check(bytes: &[u8]) -> Result<(), String> {
    let word =
        |bytes: &[u8], at: usize| bytes.get(at..at + 4).and_then(|word| word.try_into().ok()).map(u32::from_be_bytes);
    let long = |bytes: &[u8], at: usize| Some(u64::from(word(bytes, at)?) << 32 | u64::from(word(bytes, at + 4)?));
    let other = || "no HdrHistogram V2".to_owned();
    if word(bytes, 0) != Some(COMPRESSED) {
        return Err(other());
    }
    let mut head = Vec::new();
    let packed = bytes.get(OUTER..).unwrap_or_default();
    ZlibDecoder::new(packed).take(INNER as u64).read_to_end(&mut head).map_err(|error| error.to_string())?;
    let [plain, length, _, digits] = [0, 4, 8, 12].map(|at| word(&head, at));
    let (Some(PLAIN), Some(length), Some(digits), Some(low), Some(high)) =
        (plain, length, digits, long(&head, 16), long(&head, 24))
    else {
        return Err(other());
    };
    if digits > u32::from(DIGITS) || low != 1 || high > MAX_TIME_NS {
        return Err(format!(
            "it holds {digits} digits up to {high} ns, and none has more than {DIGITS} up to {MAX_TIME_NS}"
        ));
    }
    let classes = classes();
    if u64::from(length) > classes * WIDEST {
        return Err(format!("it has {length} bytes, more than any"));
    }
    // It is read into one of ours, and both exist at once.
    let taken = classes * size_of::<u64>() as u64;
    let left = LEFT.get();
    let Some(less) = left.checked_sub(taken) else {
        return Err("all of the file take more memory than a result may".to_owned());
    };
    LEFT.set(less);
    Ok(())
}

/// Classes of a histogram of ours: two times ten to the digits, rounded up to a power of two, in the first doubling, and half
/// of that in each further one.
fn classes() -> u64 {
    let first = (2 * 10_u64.pow(DIGITS.into())).next_power_of_two();
    let doublings = u64::from((MAX_TIME_NS / first).ilog2()) + 2;
    (doublings + 1) * first / 2
}

#[cfg(test)]
mod tests {
    use hdrhistogram::Histogram;
    use hdrhistogram::serialization::{Serializer as _, V2DeflateSerializer};

    use super::*;
    use crate::Distribution;

    fn written(histogram: &Histogram<u64>) -> Vec<u8> {
        let mut bytes = Vec::new();
        V2DeflateSerializer::new().serialize(histogram, &mut bytes).unwrap();
        bytes
    }

    #[test]
    fn ours_pass_and_larger_ones_are_refused_before_they_are_expanded() {
        let mut full = Distribution::empty().histogram;
        (0..100_000).for_each(|value| full.record(value * 30_000_000 + 1).unwrap());
        check(&written(&full)).unwrap();
        check(&written(&Distribution::empty().histogram)).unwrap();
        assert!(full.distinct_values() as u64 <= classes(), "{} of {}", full.distinct_values(), classes());
        for (high, digits) in [(u64::MAX / 2, 3), (MAX_TIME_NS, 5)] {
            let wide = Histogram::<u64>::new_with_bounds(1, high, digits).unwrap();
            assert!(check(&written(&wide)).unwrap_err().contains("digits"), "{high} {digits}");
        }
        for broken in [&b""[..], b"HISTFAAA", &written(&full)[..20]] {
            assert!(check(broken).is_err());
        }
    }

    #[test]
    fn all_of_a_file_take_no_more_than_they_may() {
        let bytes = written(&Distribution::empty().histogram);
        let room = 3 * classes() * 8;
        let read = within(room, || (0..5).map(|_| check(&bytes).is_ok()).collect::<Vec<_>>());
        assert_eq!(read, [true, true, true, false, false]);
        check(&bytes).unwrap();
    }
}
