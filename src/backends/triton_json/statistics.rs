//! Statistics. Members that an older server lacks are 0.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error as _, SeqAccess, Visitor};
use serde_json::Value;

use crate::error::{Error, Result};
use crate::model::statistics::{CountedTime, MAX_BATCHES, ModelStatistics, StatisticsSnapshot};
use crate::triton_json::number::{Number, or_default};

/// Limit on models and versions in one answer.
const MAX_MODELS: usize = 100_000;

/// Reads statistics.
///
/// # Errors
/// If there is no list `model_stats`, or it does not hold statistics.
pub fn statistics(json: &Value) -> Result<StatisticsSnapshot> {
    let read = StatisticsJson::deserialize(json);
    let read = read.map_err(|error| Error::server(format!("the server's statistics cannot be read: {error}")))?;
    Ok(read.into())
}

/// The answer to a request for statistics.
#[derive(Deserialize)]
pub struct StatisticsJson {
    #[serde(deserialize_with = "by_model")]
    model_stats: BTreeMap<(String, String), ModelStatistics>,
}

impl From<StatisticsJson> for StatisticsSnapshot {
    fn from(json: StatisticsJson) -> Self {
        Self { models: json.model_stats }
    }
}

#[derive(Deserialize)]
struct ModelJson {
    name: String,
    #[serde(default, deserialize_with = "or_default")]
    version: String,
    #[serde(default)]
    inference_count: Number,
    #[serde(default)]
    execution_count: Number,
    #[serde(default, deserialize_with = "or_default")]
    inference_stats: TimesJson,
    #[serde(default, deserialize_with = "or_default")]
    batch_stats: Vec<BatchJson>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct BatchJson {
    batch_size: Number,
    compute_infer: CountedJson,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct TimesJson {
    success: CountedJson,
    fail: CountedJson,
    queue: CountedJson,
    compute_input: CountedJson,
    compute_infer: CountedJson,
    compute_output: CountedJson,
    cache_hit: CountedJson,
    cache_miss: CountedJson,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(default)]
struct CountedJson {
    count: Number,
    ns: Number,
}

impl CountedJson {
    fn read(self) -> CountedTime {
        CountedTime { count: self.count.unsigned(), ns: self.ns.unsigned() }
    }
}

impl From<&ModelJson> for ModelStatistics {
    fn from(json: &ModelJson) -> Self {
        let times = &json.inference_stats;
        Self {
            inferences: json.inference_count.unsigned(),
            executions: json.execution_count.unsigned(),
            success: times.success.read(),
            fail: times.fail.read(),
            queue: times.queue.read(),
            compute_input: times.compute_input.read(),
            compute_infer: times.compute_infer.read(),
            compute_output: times.compute_output.read(),
            cache_hit: times.cache_hit.read(),
            cache_miss: times.cache_miss.read(),
            batches: (json.batch_stats.iter().take(MAX_BATCHES))
                .map(|row| (row.batch_size.unsigned(), row.compute_infer.count.unsigned()))
                .collect(),
        }
    }
}

/// Parses a list of models one by one.
fn by_model<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<BTreeMap<(String, String), ModelStatistics>, D::Error> {
    struct Models;

    impl<'de> Visitor<'de> for Models {
        type Value = BTreeMap<(String, String), ModelStatistics>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a list of models")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
            let mut models = BTreeMap::new();
            while let Some(entry) = list.next_element::<ModelJson>()? {
                let statistics = ModelStatistics::from(&entry);
                models.insert((entry.name, entry.version), statistics);
                if models.len() > MAX_MODELS {
                    return Err(A::Error::custom(format!("more than {MAX_MODELS} models")));
                }
            }
            Ok(models)
        }
    }

    deserializer.deserialize_seq(Models)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn numbers_strings_and_missing_members() {
        let json = json!({"model_stats": [{"name": "m", "version": "2", "inference_count": "12", "execution_count": 7,
            "inference_stats": {"success": {"count": "3", "ns": 18446744073709551615_u64}, "queue": {"count": 3, "ns": 1e3},
                "compute_input": {"count": -4, "ns": null}}}]});
        let snapshot = statistics(&json).unwrap();
        let model = &snapshot.models[&("m".to_owned(), "2".to_owned())];
        assert_eq!((model.inferences, model.executions), (12, 7));
        assert_eq!(model.success, CountedTime { count: 3, ns: u64::MAX });
        assert_eq!(model.queue, CountedTime { count: 3, ns: 1000 });
        assert_eq!(model.compute_input, CountedTime::default());
        assert_eq!(model.cache_hit, CountedTime::default());
        assert!(statistics(&json!({"error": "x"})).is_err());
        assert!(statistics(&json!([])).is_err());
    }
}
