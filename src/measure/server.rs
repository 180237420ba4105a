//! The server's side of a level: one model's counters, or an ensemble's tree of them, and their averages.

use std::cell::Cell;

use crate::backend::Backend;
use crate::error::Result;
use crate::model::statistics::StatisticsSnapshot;
use crate::model::{ModelId, ModelSpec};
use crate::result::summary::ServerSummary;
use crate::stdio::note;

/// Deepest nesting of ensembles that is followed.
pub const MAX_DEPTH: usize = 16;
/// Maximum number of parts into which a model's figures are divided. A model is one for each way in which it is
/// reached.
pub const MAX_PARTS: usize = 1_000;

/// The server's counters of every model of `specs`; `None` if it keeps none, or does not answer and may come back,
/// which standard error says.
///
/// # Errors
/// If the server refuses or cannot be reached.
pub fn read_statistics(backend: &dyn Backend, specs: &[ModelSpec]) -> Result<Option<StatisticsSnapshot>> {
    if !backend.capabilities().statistics {
        return Ok(None);
    }
    let ids: Vec<_> = specs.iter().map(|spec| &spec.id).collect();
    match read(backend, &ids) {
        Ok(statistics) => Ok(Some(statistics)),
        Err(error) if backend.awaits_server() => {
            note!("{error}; the server's figures from that time are left out (--reconnect)");
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Those of several models in one exchange where the server can: counters that are read one after the other are of different
/// moments.
fn read(backend: &dyn Backend, ids: &[&ModelId]) -> Result<StatisticsSnapshot> {
    let together = if ids.len() > 1 { backend.all_statistics()? } else { None };
    if let Some(found) = together.and_then(|all| all.only(ids)) {
        return Ok(found);
    }
    // If a server's answer lacks a model, asking for that model alone returns the reason.
    let mut sum = StatisticsSnapshot::default();
    ids.iter().try_for_each(|id| backend.statistics(id).map(|statistics| sum.absorb(statistics)))?;
    Ok(sum)
}

/// The models that a run is about.
#[derive(Clone, Copy, Debug)]
pub struct Models<'a> {
    /// Those that requests are for, each once.
    pub roots: &'a [ModelId],
    /// Those, and every model that they call.
    pub specs: &'a [ModelSpec],
    /// Those that a BLS model calls without naming them in its configuration.
    pub bls: &'a [ModelId],
}

impl Models<'_> {
    /// Builds the tree of `root` from differences of counters.
    ///
    /// A composing model that the server did not report is left out. Cache figures are shown throughout as soon as one model
    /// of the tree may answer from the cache. `None` if the root was not reported.
    pub fn summary(&self, delta: &StatisticsSnapshot, root: &ModelId) -> Option<ServerSummary> {
        let tree = Tree { delta, specs: self.specs, parts: Cell::new(0) };
        let mut summary = tree.node(root, &mut Vec::new())?;
        for id in self.bls {
            summary.composing.extend(tree.node(id, &mut vec![root.name.clone()]));
        }
        sort(&mut summary.composing);
        let cached = tree.cached(&summary);
        mark(&mut summary, cached);
        Some(summary)
    }
}

struct Tree<'a> {
    delta: &'a StatisticsSnapshot,
    specs: &'a [ModelSpec],
    /// How many there are so far.
    parts: Cell<usize>,
}

impl Tree<'_> {
    /// `path` holds the names above, so that a server which names a model as its own part cannot cause an endless loop.
    fn node(&self, id: &ModelId, path: &mut Vec<String>) -> Option<ServerSummary> {
        if self.parts.get() >= MAX_PARTS {
            return None;
        }
        let chosen = self.delta.choose(&id.name, id.version)?;
        self.parts.set(self.parts.get() + 1);
        let mut composing = Vec::new();
        path.push(id.name.clone());
        if path.len() < MAX_DEPTH {
            for part in self.spec(&id.name).map_or(&[][..], |spec| &spec.composing) {
                if !path.contains(&part.name) {
                    composing.extend(self.node(part, path));
                }
            }
        }
        path.pop();
        sort(&mut composing);
        Some(ServerSummary {
            name: id.name.clone(),
            version: chosen.version.to_owned(),
            delta: chosen.delta.clone(),
            cached: false,
            several_versions: chosen.several,
            composing,
        })
    }

    fn spec(&self, name: &str) -> Option<&ModelSpec> {
        self.specs.iter().find(|spec| spec.id.name == name)
    }

    fn cached(&self, node: &ServerSummary) -> bool {
        self.spec(&node.name).is_some_and(|spec| spec.response_cache)
            || node.composing.iter().any(|part| self.cached(part))
    }
}

fn sort(models: &mut Vec<ServerSummary>) {
    models.sort_by(|a, b| (&a.name, &a.version).cmp(&(&b.name, &b.version)));
    models.dedup_by(|a, b| a.name == b.name && a.version == b.version);
}

fn mark(node: &mut ServerSummary, cached: bool) {
    node.cached = cached;
    node.composing.iter_mut().for_each(|part| mark(part, cached));
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use parking_lot::Mutex;

    use super::*;
    use crate::backend::null::NullBackend;
    use crate::backend::{Capabilities, Client, ClientSpec, CompletionSink};
    use crate::error::Error;
    use crate::model::Scheduler;
    use crate::model::statistics::{CountedTime, ModelStatistics};

    fn server_summary(
        delta: &StatisticsSnapshot,
        root: &ModelId,
        specs: &[ModelSpec],
        bls: &[ModelId],
    ) -> Option<ServerSummary> {
        Models { roots: &[], specs, bls }.summary(delta, root)
    }

    fn spec(name: &str, composing: &[&str], response_cache: bool) -> ModelSpec {
        ModelSpec {
            versions: vec!["1".to_owned()],
            scheduler: if composing.is_empty() { Scheduler::Default } else { Scheduler::Ensemble },
            response_cache,
            composing: composing.iter().map(|part| ModelId::latest(*part)).collect(),
            ..ModelSpec::plain(&ModelId::latest(name), Vec::new(), Vec::new())
        }
    }

    fn at(count: u64, ns: u64) -> CountedTime {
        CountedTime { count, ns }
    }

    fn counters(success: CountedTime, queue: CountedTime, compute: [CountedTime; 3]) -> ModelStatistics {
        let [compute_input, compute_infer, compute_output] = compute;
        ModelStatistics { success, queue, compute_input, compute_infer, compute_output, ..Default::default() }
    }

    fn snapshot(models: Vec<(&str, ModelStatistics)>) -> StatisticsSnapshot {
        let keyed = models.into_iter().map(|(name, stats)| ((name.to_owned(), "1".to_owned()), stats));
        StatisticsSnapshot { models: keyed.collect() }
    }

    #[test]
    fn overhead_is_what_is_left_of_the_request() {
        let compute = [at(2, 20_500), at(2, 100_900), at(2, 10_600)];
        let delta = snapshot(vec![("m", counters(at(2, 200_000), at(2, 30_999), compute))]);
        let times = server_summary(&delta, &ModelId::latest("m"), &[spec("m", &[], false)], &[]).unwrap().times();
        assert_eq!((times.request_us, times.queue_us, times.compute_us), (100, 15, 66));
        assert_eq!(times.overhead_us, 19);
    }

    #[test]
    fn overhead_is_never_negative() {
        let delta = snapshot(vec![("m", counters(at(1, 5_000), at(1, 9_000), [at(1, 0); 3]))]);
        assert_eq!(server_summary(&delta, &ModelId::latest("m"), &[], &[]).unwrap().times().overhead_us, 0);
    }

    #[test]
    fn ensembles_sum_the_averages_of_their_leaves() {
        let leaf = |queue, infer| counters(at(4, 80_000), at(4, queue), [at(4, 4_000), at(4, infer), at(4, 4_000)]);
        let delta = snapshot(vec![
            ("outer", counters(at(2, 400_000), at(2, 2_000), [at(2, 0); 3])),
            ("inner", leaf(999_000, 999_000)),
            ("a", leaf(8_000, 40_000)),
            ("b", leaf(4_000, 20_000)),
        ]);
        let specs = [
            spec("outer", &["inner", "a"], false),
            spec("inner", &["b", "a"], false),
            spec("a", &[], false),
            spec("b", &[], false),
        ];
        let summary = server_summary(&delta, &ModelId::latest("outer"), &specs, &[]).unwrap();
        let names: Vec<_> = summary.composing.iter().map(|part| part.name.as_str()).collect();
        assert_eq!(names, ["a", "inner"]);
        let times = summary.times();
        assert_eq!(times.queue_us, 2 + 2 + 1, "a, and inner's a and b");
        assert_eq!(times.compute_us, 12 + 12 + 7);
        assert_eq!(times.overhead_us, 200 - 5 - 31);
        assert_eq!(summary.composing[1].times().compute_us, 19);
    }

    #[test]
    fn a_cache_anywhere_shows_cache_figures_everywhere() {
        let mut cached =
            counters(at(90, 50_760_000), at(90, 450_000), [at(1, 31_787), at(1, 48_873_757), at(1, 155_711)]);
        cached.cache_hit = at(89, 979_000);
        cached.cache_miss = at(1, 39_970);
        let delta = snapshot(vec![("e", counters(at(90, 1_000_000), at(90, 0), [at(90, 0); 3])), ("c", cached)]);
        let specs = [spec("e", &["c"], false), spec("c", &[], true)];
        let summary = server_summary(&delta, &ModelId::latest("e"), &specs, &[]).unwrap();
        assert!(summary.cached && summary.composing[0].cached);
        let times = summary.composing[0].times();
        assert_eq!((times.cache_hit_us, times.cache_miss_us), (11, 39));
        assert_eq!(times.compute_or_cache_us, 556, "(979000 + 39970 + 49061255) / 90 ns");
        assert_eq!(times.overhead_us, 564 - 5 - 556);
    }

    #[test]
    fn what_an_ensembles_own_cache_answers_does_not_reach_its_parts() {
        let mut ensemble = counters(at(10, 1_000_000), at(10, 0), [at(10, 0); 3]);
        (ensemble.cache_hit, ensemble.cache_miss) = (at(8, 80_000), at(2, 60_000));
        let part = counters(at(2, 700_000), at(2, 100_000), [at(2, 20_000), at(2, 460_000), at(2, 20_000)]);
        let delta = snapshot(vec![("e", ensemble), ("p", part)]);
        let specs = [spec("e", &["p"], true), spec("p", &[], false)];
        let times = server_summary(&delta, &ModelId::latest("e"), &specs, &[]).unwrap().times();
        assert_eq!((times.cache_hit_us, times.cache_miss_us), (10, 30));
        // Of its 250 us in the part, a request in five spends all.
        assert_eq!((times.queue_us, times.compute_or_cache_us), (10, 14 + 50));
        assert_eq!(times.overhead_us, 100 - 10 - 64);

        // All from the cache.
        let mut ensemble = counters(at(10, 500_000), at(10, 0), [at(10, 0); 3]);
        ensemble.cache_hit = at(10, 400_000);
        let delta = snapshot(vec![("e", ensemble), ("p", ModelStatistics::default())]);
        let times = server_summary(&delta, &ModelId::latest("e"), &specs, &[]).unwrap().times();
        assert_eq!((times.request_us, times.cache_hit_us, times.compute_or_cache_us), (50, 40, 40));
        assert_eq!((times.queue_us, times.overhead_us), (0, 10));
    }

    #[test]
    fn parts_are_bounded_however_many_ways_there_are() {
        let name = |layer: usize, number: usize| format!("{layer}.{number}");
        let (mut specs, mut models) = (Vec::new(), Vec::new());
        for layer in 0..14 {
            for number in 0..6 {
                let parts: Vec<String> = (0..6).filter(|_| layer < 13).map(|part| name(layer + 1, part)).collect();
                specs.push(spec(&name(layer, number), &parts.iter().map(String::as_str).collect::<Vec<_>>(), false));
                models.push(((name(layer, number), "1".to_owned()), counters(at(1, 1), at(1, 0), [at(1, 0); 3])));
            }
        }
        let delta = StatisticsSnapshot { models: models.into_iter().collect() };
        fn count(summary: &ServerSummary) -> usize {
            1 + summary.composing.iter().map(count).sum::<usize>()
        }
        let summary = server_summary(&delta, &ModelId::latest("0.0"), &specs, &[]).unwrap();
        assert!((500..=MAX_PARTS).contains(&count(&summary)), "{}", count(&summary));
    }

    #[test]
    fn bls_parts_are_listed_and_cycles_end() {
        let stats = || counters(at(1, 1_000), at(1, 0), [at(1, 0); 3]);
        let delta = snapshot(vec![("m", stats()), ("x", stats())]);
        let specs = [spec("m", &["m", "x"], false), spec("x", &["m"], false)];
        let bls = [ModelId::latest("x"), ModelId::latest("gone")];
        let summary = server_summary(&delta, &ModelId::latest("m"), &specs, &bls).unwrap();
        assert_eq!(summary.composing.len(), 1);
        assert!(summary.composing[0].composing.is_empty());
    }

    /// A server that returns all models in one answer, or does not, and records which models were requested.
    struct Keeper {
        all: Result<Option<Vec<(&'static str, &'static str)>>>,
        asked: Mutex<Vec<String>>,
    }

    impl Keeper {
        fn with_versions(all: Result<Option<Vec<(&'static str, &'static str)>>>) -> Self {
            Self { all, asked: Mutex::default() }
        }

        /// Names and versions that are read for `a` and version 2 of `b`.
        fn read(&self, ids: &[&ModelId]) -> Result<Vec<String>> {
            let found = read(self, ids)?;
            Ok(found.models.into_keys().map(|(name, version)| name + &version).collect())
        }
    }

    fn empty(keys: &[(&str, &str)]) -> StatisticsSnapshot {
        let entry =
            |(name, version): &(&str, &str)| (((*name).to_owned(), (*version).to_owned()), ModelStatistics::default());
        StatisticsSnapshot { models: keys.iter().map(entry).collect() }
    }

    impl Backend for Keeper {
        fn capabilities(&self) -> Capabilities {
            NullBackend.capabilities()
        }
        fn model(&self, id: &ModelId) -> Result<ModelSpec> {
            Ok(ModelSpec::plain(id, Vec::new(), Vec::new()))
        }
        fn statistics(&self, id: &ModelId) -> Result<StatisticsSnapshot> {
            self.asked.lock().push(id.name.clone());
            Ok(empty(&[(&id.name, "1")]))
        }
        fn all_statistics(&self) -> Result<Option<StatisticsSnapshot>> {
            self.all.clone().map(|all| all.map(|keys| empty(&keys)))
        }
        fn open_client(&self, spec: ClientSpec, sink: Arc<dyn CompletionSink>) -> Result<Box<dyn Client>> {
            NullBackend.open_client(spec, sink)
        }
    }

    #[test]
    fn several_models_are_read_at_once_and_what_is_missing_is_asked_for() {
        let ids = [ModelId::latest("a"), ModelId { name: "b".to_owned(), version: Some(2) }];
        let ids: Vec<_> = ids.iter().collect();
        let with_versions = |keys: &[(&'static str, &'static str)]| Keeper::with_versions(Ok(Some(keys.to_vec())));
        let complete = with_versions(&[("a", "1"), ("a", "3"), ("b", "1"), ("b", "2"), ("c", "1")]);
        assert_eq!(complete.read(&ids).unwrap(), ["a1", "a3", "b2"]);
        assert!(complete.asked.lock().is_empty());
        for lacking in [with_versions(&[("a", "1"), ("b", "1")]), Keeper::with_versions(Ok(None))] {
            assert_eq!(lacking.read(&ids).unwrap(), ["a1", "b1"]);
            assert_eq!(*lacking.asked.lock(), ["a", "b"]);
        }
        // One is asked for by name; a server that does not answer is not waited for again.
        let gone = Keeper::with_versions(Err(Error::server("gone")));
        assert_eq!(gone.read(&ids[..1]).unwrap(), ["a1"]);
        assert!(gone.read(&ids).is_err() && gone.asked.lock().len() == 1);
    }
}
