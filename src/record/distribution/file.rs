//! A distribution in a file: its figures for readers, and the compressed histogram to compute others from.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Deserializer, Serializer, V2DeflateSerializer};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Distribution;
use crate::distribution::{DIGITS, MAX_TIME_NS, bounds};

/// Significant digits of a [`coarse`] histogram.
const COARSE_DIGITS: u8 = if DIGITS < 2 { DIGITS } else { 2 };

/// Percentiles that stand beside the histogram: keys of the file's form, from which all others can be computed.
const PERCENTILES: [(f64, &str); 6] =
    [(50.0, "50"), (90.0, "90"), (95.0, "95"), (99.0, "99"), (99.9, "99.9"), (99.99, "99.99")];

/// Times in nanoseconds.
#[derive(Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Distribution")]
pub struct DistributionFile {
    /// How many values.
    count: u64,
    /// Their exact sum.
    sum_ns: u128,
    /// Their mean.
    #[serde(skip_deserializing)]
    mean_ns: f64,
    /// Their standard deviation, from the histogram.
    #[serde(skip_deserializing)]
    std_ns: f64,
    /// The smallest.
    #[serde(skip_deserializing)]
    min_ns: u64,
    /// The largest.
    #[serde(skip_deserializing)]
    max_ns: u64,
    /// By percentile, such as `99.9`.
    #[serde(skip_deserializing)]
    percentiles_ns: BTreeMap<String, u64>,
    /// All of them, to three digits, wake-up times to two: a HdrHistogram of the format V2, compressed, in base64.
    /// Absent if there is none.
    histogram: Option<String>,
}

impl DistributionFile {
    /// The exact figures of `times`, with `histogram` to compute others from.
    fn new(times: &Distribution, histogram: &Histogram<u64>) -> Self {
        let mut bytes = Vec::new();
        let written = V2DeflateSerializer::new().serialize(histogram, &mut bytes);
        let has_values = written.is_ok() && times.count() > 0;
        let percentile = |(percentile, name): (f64, &str)| (name.to_owned(), times.percentile_ns(percentile));
        Self {
            count: times.count(),
            sum_ns: times.sum_ns,
            mean_ns: times.mean_ns(),
            std_ns: times.std_ns(),
            min_ns: times.histogram.min(),
            max_ns: times.percentile_ns(100.0),
            percentiles_ns: PERCENTILES.into_iter().map(percentile).collect(),
            histogram: has_values.then(|| STANDARD.encode(bytes)),
        }
    }
}

impl From<Distribution> for DistributionFile {
    fn from(times: Distribution) -> Self {
        Self::new(&times, &times.histogram)
    }
}

impl TryFrom<DistributionFile> for Distribution {
    type Error = String;

    fn try_from(file: DistributionFile) -> Result<Self, String> {
        let mut times = Self { sum_ns: file.sum_ns, ..Self::empty() };
        if let Some(text) = file.histogram {
            let bytes = STANDARD.decode(text).map_err(|error| format!("histogram: not base64: {error}"))?;
            bounds::check(&bytes).map_err(|reason| format!("histogram: {reason}"))?;
            let read = Deserializer::new().deserialize(&mut bytes.as_slice());
            let read = read.map_err(|error| format!("histogram: no HdrHistogram V2: {error}"))?;
            copy(&read, &mut times.histogram).map_err(|error| format!("histogram: {error}"))?;
        }
        if times.count() != file.count {
            return Err(format!("histogram: holds {} values, count says {}", times.count(), file.count));
        }
        Ok(times)
    }
}

/// Records everything that `from` holds in `to`, each value as the middle of its class.
fn copy(from: &Histogram<u64>, to: &mut Histogram<u64>) -> Result<(), hdrhistogram::errors::RecordError> {
    from.iter_recorded()
        .try_for_each(|class| to.record_n(from.median_equivalent(class.value_iterated_to()), class.count_at_value()))
}

impl Distribution {
    /// The same to two digits, within 1 %: what is written [`coarse`] and read again. Whoever writes it coarse keeps it so
    /// from the start, or its figures would change with each file.
    #[must_use]
    pub fn coarsened(&self) -> Self {
        let mut times = Self { sum_ns: self.sum_ns, ..Self::empty() };
        copy(&coarse_of(&self.histogram), &mut times.histogram).expect("both have the same bounds");
        times
    }
}

fn coarse_of(histogram: &Histogram<u64>) -> Histogram<u64> {
    let mut coarse = Histogram::new_with_bounds(1, MAX_TIME_NS, COARSE_DIGITS).expect("constant bounds are valid");
    copy(histogram, &mut coarse).expect("both have the same bounds");
    coarse
}

/// For `serde(with)`: a distribution that nobody looks at closely takes a quarter of the room in a file. What is read
/// back is within 1 %, and the same if it was [coarse](Distribution::coarsened) before.
pub mod coarse {
    use serde::{Deserializer, Serializer};

    use super::*;

    /// Writes `times` with a histogram of fewer digits.
    pub fn serialize<S: Serializer>(times: &Option<Distribution>, serializer: S) -> Result<S::Ok, S::Error> {
        let file = times.as_ref().map(|times| DistributionFile::new(times, &coarse_of(&times.histogram)));
        file.serialize(serializer)
    }

    /// Reads what [`serialize`] wrote.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Distribution>, D::Error> {
        Option::deserialize(deserializer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seed;

    #[test]
    fn what_was_written_is_read_again() {
        let mut times = Distribution::empty();
        for value in [1, 40, 1_000_000, 999_999_999] {
            times.histogram.record(value).unwrap();
            times.sum_ns += u128::from(value);
        }
        for times in [times, Distribution::empty()] {
            let text = serde_json::to_string(&times).unwrap();
            let read: Distribution = serde_json::from_str(&text).unwrap();
            assert_eq!((read.histogram, read.sum_ns), (times.histogram, times.sum_ns));
        }
    }

    #[derive(Serialize, Deserialize)]
    struct Coarse {
        #[serde(with = "coarse")]
        times: Option<Distribution>,
    }

    #[test]
    fn coarse_histograms_take_less_room_and_are_within_a_hundredth() {
        let mut times = Distribution::empty();
        for counter in 0..50_000 {
            let value = (1_000.0 * (8.0 * seed::unit(seed::hash(1, counter))).exp()) as u64;
            times.histogram.record(value).unwrap();
            times.sum_ns += u128::from(value);
        }
        let (whole, written) = (serde_json::to_string(&times).unwrap(), Coarse { times: Some(times.clone()) });
        let text = serde_json::to_string(&written).unwrap();
        assert!(3 * text.len() < whole.len(), "{} of {}", text.len(), whole.len());
        let stated: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(stated["times"]["percentiles_ns"]["99"], times.percentile_ns(99.0));

        let read: Coarse = serde_json::from_str(&text).unwrap();
        let again = serde_json::to_string(&read).unwrap();
        let read = read.times.unwrap();
        assert_eq!((read.count(), read.sum_ns), (times.count(), times.sum_ns));
        for percentile in [0.0, 1.0, 50.0, 99.0, 100.0] {
            let (read, exact) = (read.percentile_ns(percentile) as f64, times.percentile_ns(percentile) as f64);
            assert!((read / exact - 1.0).abs() < 0.01, "p{percentile}: {read} of {exact}");
        }
        assert_eq!(read.histogram, times.coarsened().histogram);
        // Written and read again, nothing moves any further.
        let twice: Coarse = serde_json::from_str(&again).unwrap();
        assert_eq!(twice.times.unwrap().histogram, read.histogram);
    }

    #[test]
    fn deviations_are_those_of_samples() {
        let deviation = |values: &[u64]| {
            let mut times = Distribution::empty();
            values.iter().for_each(|ns| times.histogram.record(*ns).unwrap());
            times.std_ns()
        };
        // By hand: the squares of 0, 100 and -100 over 2.
        assert!((deviation(&[200_000_000, 300_000_000, 100_000_000]) / 1e8 - 1.0).abs() < 0.01);
        assert_eq!([deviation(&[]), deviation(&[5_000])], [0.0; 2]);
    }

    #[test]
    fn damaged_histograms_are_refused() {
        let whole = serde_json::to_value(Distribution::empty()).unwrap();
        for histogram in ["%", "AAAA", "HISTFAAA"] {
            let mut broken = whole.clone();
            broken["histogram"] = histogram.into();
            assert!(serde_json::from_value::<Distribution>(broken).is_err(), "{histogram}");
        }
        let mut short = whole;
        short["count"] = 3.into();
        assert!(serde_json::from_value::<Distribution>(short).is_err());
    }
}
