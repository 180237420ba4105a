//! Average times of a model, or of an ensemble's tree of them.

use crate::model::statistics::CountedTime;
use crate::remark::Remark;
use crate::summary::ServerSummary;

/// Average times per request on the server, in whole microseconds.
///
/// Of a model that calls no others, from its own counters. Of an ensemble, the sums of its leaves' averages; the parts
/// of the compute time are not shown then.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServerTimes {
    /// From reception to response: `success.ns / success.count`.
    pub request_us: u64,
    /// What queue, compute and cache do not account for; 0 where they account for more.
    pub overhead_us: u64,
    /// Waiting for an instance.
    pub queue_us: u64,
    /// Input, infer and output together.
    pub compute_us: u64,
    /// Looking up and returning a cached response.
    pub cache_hit_us: u64,
    /// Looking up and inserting a response that was not cached.
    pub cache_miss_us: u64,
    /// Compute and cache time per request that took either way.
    pub compute_or_cache_us: u64,
}

impl ServerSummary {
    /// What there is to say where the response cache answered nearly all requests, or those for the models that this one calls.
    pub fn cache_remarks(&self) -> Vec<Remark> {
        let hits = self.delta.cache_hit.count;
        match Remark::of_cache(&self.name, hits, hits.saturating_add(self.delta.cache_miss.count)) {
            Some(remark) => vec![remark],
            None => self.composing.iter().flat_map(Self::cache_remarks).collect(),
        }
    }

    /// Average times of this model, or of this ensemble from its leaves.
    pub fn times(&self) -> ServerTimes {
        let mut times = self.accounted();
        times.request_us = self.delta.success.average_us();
        let compute = if self.cached { times.compute_or_cache_us } else { times.compute_us };
        times.overhead_us = times.request_us.saturating_sub(times.queue_us).saturating_sub(compute);
        times
    }

    /// Queue, compute and cache averages, summed over the leaves.
    fn accounted(&self) -> ServerTimes {
        if self.composing.is_empty() {
            return ServerTimes {
                queue_us: self.delta.queue.average_us(),
                compute_us: self.delta.compute().average_us(),
                cache_hit_us: self.delta.cache_hit.average_us(),
                cache_miss_us: self.delta.cache_miss.average_us(),
                compute_or_cache_us: self.delta.compute_or_cache().average_us(),
                ..ServerTimes::default()
            };
        }
        let parts = self.composing.iter().map(Self::accounted).fold(ServerTimes::default(), |sum, part| ServerTimes {
            queue_us: sum.queue_us + part.queue_us,
            compute_us: sum.compute_us + part.compute_us,
            cache_hit_us: sum.cache_hit_us + part.cache_hit_us,
            cache_miss_us: sum.cache_miss_us + part.cache_miss_us,
            compute_or_cache_us: sum.compute_or_cache_us + part.compute_or_cache_us,
            ..ServerTimes::default()
        });
        self.behind_own_cache(parts)
    }

    /// The times of an ensemble's parts in its mean request: where it has a cache of its own, only requests that are not
    /// in there reach them.
    fn behind_own_cache(&self, parts: ServerTimes) -> ServerTimes {
        let (hit, miss) = (self.delta.cache_hit, self.delta.cache_miss);
        let lookups = CountedTime { count: hit.count.saturating_add(miss.count), ns: hit.ns.saturating_add(miss.ns) };
        let reached = |us: u64| us.saturating_mul(miss.count).checked_div(lookups.count).unwrap_or(us);
        ServerTimes {
            queue_us: reached(parts.queue_us),
            compute_us: parts.compute_us,
            cache_hit_us: parts.cache_hit_us + hit.average_us(),
            cache_miss_us: parts.cache_miss_us + miss.average_us(),
            compute_or_cache_us: reached(parts.compute_or_cache_us) + lookups.average_us(),
            ..ServerTimes::default()
        }
    }
}
