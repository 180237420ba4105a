//! What servers of language models say of their load on their Prometheus pages.

use super::Mean;
use crate::result::summary::{MeanAndMax, ServerLoad};

/// What a metric says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Figure {
    /// Requests that text is generated for.
    Running,
    /// Requests that wait for their turn.
    Waiting,
    /// Share of the KV cache in use.
    KvCache,
}

/// Names of the metrics, by the servers' own documentation:
/// vLLM <https://docs.vllm.ai/en/stable/usage/metrics/> (before 0.9 the cache's share is called `gpu_cache_usage_perc`; both are
/// shares of 1, despite their names), SGLang <https://docs.sglang.io/references/production_metrics.html> (with `--enable-metrics`),
/// TGI <https://huggingface.co/docs/text-generation-inference/reference/metrics> (which has none of the cache).
const NAMES: [(&str, Figure); 9] = [
    ("vllm:num_requests_running", Figure::Running),
    ("vllm:num_requests_waiting", Figure::Waiting),
    ("vllm:kv_cache_usage_perc", Figure::KvCache),
    ("vllm:gpu_cache_usage_perc", Figure::KvCache),
    ("sglang:num_running_reqs", Figure::Running),
    ("sglang:num_queue_reqs", Figure::Waiting),
    ("sglang:token_usage", Figure::KvCache),
    ("tgi_batch_current_size", Figure::Running),
    ("tgi_queue_size", Figure::Waiting),
];

/// What a metric of this name says, if it is one of these.
pub(super) fn figure(name: &str) -> Option<Figure> {
    NAMES.iter().find(|(metric, _)| *metric == name).map(|(_, figure)| *figure)
}

/// The figures of one reading.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct LoadReading {
    running: Option<f64>,
    waiting: Option<f64>,
    kv_cache: Option<f64>,
}

impl LoadReading {
    /// Takes in one series. Engines and models of one server have series of their own: their requests add up, and of their
    /// caches the fullest counts, because it is the one that makes requests wait.
    pub(super) fn add(&mut self, figure: Figure, value: f64) {
        match figure {
            Figure::Running => self.running = Some(self.running.unwrap_or(0.0) + value),
            Figure::Waiting => self.waiting = Some(self.waiting.unwrap_or(0.0) + value),
            Figure::KvCache => self.kv_cache = Some(self.kv_cache.unwrap_or(0.0).max(value)),
        }
    }

    /// Takes in another server's, by the same rule.
    pub(super) fn join(&mut self, other: &Self) {
        let figures =
            [(Figure::Running, other.running), (Figure::Waiting, other.waiting), (Figure::KvCache, other.kv_cache)];
        figures.into_iter().for_each(|(figure, value)| value.into_iter().for_each(|value| self.add(figure, value)));
    }

    pub(super) fn fold(self) -> LoadFold {
        LoadFold { running: Mean::of(self.running), waiting: Mean::of(self.waiting), kv_cache: Mean::of(self.kv_cache) }
    }
}

/// Readings, folded as they come.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LoadFold {
    running: Mean,
    waiting: Mean,
    kv_cache: Mean,
}

impl LoadFold {
    pub(super) fn absorb(&mut self, other: &Self) {
        self.running.absorb(other.running);
        self.waiting.absorb(other.waiting);
        self.kv_cache.absorb(other.kv_cache);
    }

    /// `None` if no reading had any of the figures.
    pub(super) fn summary(&self) -> Option<ServerLoad> {
        let summarize = |mean: Mean| mean.mean().zip(mean.max()).map(|(mean, max)| MeanAndMax { mean, max });
        let load = ServerLoad {
            running: summarize(self.running),
            waiting: summarize(self.waiting),
            kv_cache: summarize(self.kv_cache),
        };
        (load != ServerLoad::default()).then_some(load)
    }
}

#[cfg(test)]
mod tests {
    use crate::metrics::Page;
    use crate::result::summary::{MeanAndMax, ServerLoad};

    fn page(text: &str) -> Page {
        let mut page = Page::new("m");
        text.lines().for_each(|line| page.line(line));
        page
    }

    /// Of one reading, the mean is the largest.
    fn load(text: &str) -> [Option<f64>; 3] {
        let ServerLoad { running, waiting, kv_cache } = page(text).fold().host().load.unwrap_or_default();
        [running, waiting, kv_cache].map(|figure| {
            figure.map(|MeanAndMax { mean, max }| {
                assert_eq!(mean, max);
                max
            })
        })
    }

    #[test]
    fn vllms_engines_add_up_and_the_fullest_cache_counts() {
        let text = "# HELP vllm:num_requests_running Number of requests in model execution batches.\n\
            # TYPE vllm:num_requests_running gauge\n\
            vllm:num_requests_running{engine=\"0\",model_name=\"some/model\"} 7.0\n\
            vllm:num_requests_running{engine=\"1\",model_name=\"some/model\"} 5.0\n\
            vllm:num_requests_waiting{engine=\"0\",model_name=\"some/model\"} 0.0\n\
            vllm:num_requests_waiting{engine=\"1\",model_name=\"some/model\"} 2.0\n\
            vllm:num_requests_waiting_by_reason{engine=\"1\",reason=\"capacity\"} 2.0\n\
            vllm:kv_cache_usage_perc{engine=\"0\",model_name=\"some/model\"} 0.25\n\
            vllm:kv_cache_usage_perc{engine=\"1\",model_name=\"some/model\"} 0.75\n\
            vllm:request_success_total{engine=\"0\",finished_reason=\"stop\"} 41.0\n";
        assert_eq!(load(text), [Some(12.0), Some(2.0), Some(0.75)]);
        let before = "vllm:num_requests_running{model_name=\"m\"} 3.0\nvllm:num_requests_swapped{model_name=\"m\"} 9.0\n\
            vllm:num_requests_waiting{model_name=\"m\"} 1.0\nvllm:gpu_cache_usage_perc{model_name=\"m\"} 0.125\n\
            vllm:cpu_cache_usage_perc{model_name=\"m\"} 0.9\n";
        assert_eq!(load(before), [Some(3.0), Some(1.0), Some(0.125)], "before 0.9");
    }

    #[test]
    fn sglangs_and_tgis_pages_are_read() {
        let sglang = "# TYPE sglang:num_running_reqs gauge\nsglang:num_running_reqs{model_name=\"m\",tp_rank=\"0\"} 16.0\n\
            sglang:num_used_tokens{model_name=\"m\",tp_rank=\"0\"} 12345.0\n\
            sglang:token_usage{model_name=\"m\",tp_rank=\"0\"} 0.5\nsglang:num_queue_reqs{model_name=\"m\",tp_rank=\"0\"} 4.0\n";
        assert_eq!(load(sglang), [Some(16.0), Some(4.0), Some(0.5)]);
        let tgi = "# TYPE tgi_queue_size gauge\ntgi_queue_size 3\n# TYPE tgi_batch_current_size gauge\ntgi_batch_current_size 8\n\
            tgi_batch_current_max_tokens 4096\ntgi_request_count 71\n";
        assert_eq!(load(tgi), [Some(8.0), Some(3.0), None]);
    }

    #[test]
    fn readings_are_averaged_and_pages_without_load_have_none() {
        let mut fold = page("tgi_queue_size 1\ntgi_batch_current_size 4\n").fold();
        fold.absorb(&page("tgi_queue_size 4\n").fold());
        fold.absorb(&page("tgi_queue_size -1\ntgi_batch_current_size NaN\nother 5\n").fold());
        let load = fold.host().load.unwrap();
        assert_eq!(load.waiting, Some(MeanAndMax { mean: 2.5, max: 4.0 }));
        assert_eq!(load.running, Some(MeanAndMax { mean: 4.0, max: 4.0 }));
        assert_eq!(load.kv_cache, None);
        let other = page("nv_cpu_utilization 0.5\nvllm:prompt_tokens_total 7\n");
        assert!(!other.reports_load() && other.fold().host().load.is_none());
        assert!(page("tgi_queue_size 0\n").reports_load());
    }
}
