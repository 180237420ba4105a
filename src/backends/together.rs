//! Statistics of several models, read in one exchange where the server can.

use crate::error::Result;
use crate::model::ModelId;
use crate::model::statistics::StatisticsSnapshot;

/// Those of `ids`: from the server's answer about `all` its models where there are several, since counters that are read
/// one after the other are of different moments. One by one where that answer cannot be had or lacks a model: `each` tells why.
pub(super) fn together(
    ids: &[&ModelId],
    all: impl FnOnce() -> Result<StatisticsSnapshot>,
    each: impl Fn(&ModelId) -> Result<StatisticsSnapshot>,
) -> Result<StatisticsSnapshot> {
    if ids.len() > 1
        && let Ok(Some(found)) = all().map(|all| all.only(ids))
    {
        return Ok(found);
    }
    let mut sum = StatisticsSnapshot::default();
    ids.iter().try_for_each(|id| each(id).map(|statistics| sum.absorb(statistics)))?;
    Ok(sum)
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;
    use crate::error::Error;
    use crate::model::statistics::ModelStatistics;

    fn snapshot(keys: &[(&str, &str)]) -> StatisticsSnapshot {
        let entry =
            |(name, version): &(&str, &str)| ((name.to_string(), version.to_string()), ModelStatistics::default());
        StatisticsSnapshot { models: keys.iter().map(entry).collect() }
    }

    #[test]
    fn several_models_are_read_at_once_and_what_is_missing_is_asked_for() {
        let ids = [ModelId::latest("a"), ModelId { name: "b".to_owned(), version: Some(2) }];
        let ids: Vec<_> = ids.iter().collect();
        let asked = RefCell::new(Vec::new());
        let each = |id: &ModelId| {
            asked.borrow_mut().push(id.name.clone());
            Ok(snapshot(&[(&id.name, "1")]))
        };
        let keys = |found: StatisticsSnapshot| -> Vec<_> {
            found.models.into_keys().map(|(name, version)| name + &version).collect()
        };
        let everything = || Ok(snapshot(&[("a", "1"), ("a", "3"), ("b", "1"), ("b", "2"), ("c", "1")]));
        assert_eq!(keys(together(&ids, everything, each).unwrap()), ["a1", "a3", "b2"]);
        assert!(asked.borrow().is_empty());
        assert_eq!(keys(together(&ids, || Ok(snapshot(&[("a", "1"), ("b", "1")])), each).unwrap()), ["a1", "b1"]);
        assert_eq!(asked.take(), ["a", "b"]);
        assert_eq!(keys(together(&ids[..1], || panic!("one is asked for by name"), each).unwrap()), ["a1"]);
        assert_eq!(keys(together(&ids, || Err(Error::server("unknown")), each).unwrap()), ["a1", "b1"]);
    }
}
