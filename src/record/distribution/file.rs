//! A distribution in a file: its figures for readers, and the compressed histogram to compute others from.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::serialization::{Deserializer, Serializer, V2DeflateSerializer};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::record::Distribution;

/// Percentiles that stand beside the histogram.
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
    /// All of them, to three digits: a HdrHistogram of the format V2, compressed, in base64. Absent if there is none.
    histogram: Option<String>,
}

impl From<Distribution> for DistributionFile {
    fn from(times: Distribution) -> Self {
        let mut bytes = Vec::new();
        let written = V2DeflateSerializer::new().serialize(&times.histogram, &mut bytes);
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

impl TryFrom<DistributionFile> for Distribution {
    type Error = String;

    fn try_from(file: DistributionFile) -> Result<Self, String> {
        let mut times = Self { sum_ns: file.sum_ns, ..Self::empty() };
        if let Some(text) = file.histogram {
            let bytes = STANDARD.decode(text).map_err(|error| format!("histogram: not base64: {error}"))?;
            let read = Deserializer::new().deserialize(&mut bytes.as_slice());
            let read = read.map_err(|error| format!("histogram: no HdrHistogram V2: {error}"))?;
            times.histogram.add(&read).map_err(|error| format!("histogram: {error}"))?;
        }
        if times.count() != file.count {
            return Err(format!("histogram: holds {} values, count says {}", times.count(), file.count));
        }
        Ok(times)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
