//! What an inference costs: processor time, wake-ups and more of the server's threads, its processes and our own.

use std::collections::{BTreeMap, HashMap};

use crate::machine::counters::{Counters, Counts};
use crate::machine::gpus::{GpuReading, Gpus};
use crate::machine::thread_usage::{self, Owner, Usage, Used};
use crate::result::cost::{Cost, GpuCost, GroupCost, GroupKind};

/// Measures it over the windows of a level.
pub(super) struct CostMeter {
    begun: Usage,
    counters: Result<Counters, String>,
    gpus: Result<(Gpus, Vec<GpuReading>), String>,
    inferences: u64,
    latest: Option<Usage>,
}

impl CostMeter {
    /// Begins.
    pub(super) fn begin() -> Self {
        let begun = thread_usage::read();
        let counters = Counters::open(begun.threads.keys().copied());
        let gpus = Gpus::open().map(|gpus| {
            let first = gpus.read();
            (gpus, vec![first])
        });
        Self { begun, counters, gpus, inferences: 0, latest: None }
    }

    /// A window has ended, in which this many inferences succeeded.
    pub(super) fn window(&mut self, inferences: u64) {
        self.inferences += inferences;
        self.latest = Some(thread_usage::read());
        if let Ok((gpus, readings)) = &mut self.gpus {
            readings.push(gpus.read());
        }
    }

    /// The result; nothing without an inference.
    pub(super) fn result(&mut self) -> Option<Cost> {
        let latest = self.latest.take().filter(|_| self.inferences > 0)?;
        let counts = self.counters.as_mut().map(Counters::read);
        let groups = groups(&self.begun, &latest, counts.as_ref().ok(), self.inferences);
        let of_server = |group: &&GroupCost| matches!(group.kind, GroupKind::Server | GroupKind::Stubs);
        let sum = |figure: fn(&GroupCost) -> f64| groups.iter().filter(of_server).map(figure).sum();
        Some(Cost {
            inferences: self.inferences,
            server_cpu_ns: sum(|group| group.cpu_ns),
            server_wakeups: sum(|group| group.wakeups),
            memory_bytes: latest.memory.0,
            stubs_memory_bytes: latest.memory.1,
            no_counters: counts.err().cloned(),
            gpu: self.gpus.as_ref().ok().and_then(|(_, readings)| gpu(readings, self.inferences)),
            no_gpu: self.gpus.as_ref().err().cloned(),
            groups,
        })
    }
}

/// What was used between two readings, per inference, by group. Threads of this process that have ended were ours: those of the server live as
/// long as its models.
fn groups(begun: &Usage, ended: &Usage, counts: Option<&HashMap<i32, Counts>>, inferences: u64) -> Vec<GroupCost> {
    let mut groups: BTreeMap<Owner, (usize, Used, Counts)> = BTreeMap::new();
    let mut counted_ns = 0;
    for (tid, (owner, used)) in &ended.threads {
        let used = used.since(begun.threads.get(tid).map(|(_, used)| *used).unwrap_or_default());
        if !matches!(owner, Owner::Process(_)) {
            counted_ns += used.cpu_ns;
        }
        let (threads, sum, counted) = groups.entry(owner.clone()).or_default();
        *threads += 1;
        sum.cpu_ns += used.cpu_ns;
        sum.waits += used.waits;
        sum.preemptions += used.preemptions;
        sum.faults += used.faults;
        let more = counts.and_then(|counts| counts.get(tid)).copied().unwrap_or_default();
        counted.instructions += more.instructions;
        counted.cycles += more.cycles;
        counted.cache_misses += more.cache_misses;
    }
    let lost_ns = ended.process_ns.saturating_sub(begun.process_ns).saturating_sub(counted_ns);
    if begun.threads.iter().any(|(tid, (owner, _))| *owner == Owner::Issuing && !ended.threads.contains_key(tid)) {
        groups.entry(Owner::Issuing).or_default().1.cpu_ns += lost_ns;
    }
    let per_inference = |count: u64| count as f64 / inferences as f64;
    groups
        .into_iter()
        .map(|(owner, (threads, used, counted))| {
            let (kind, name) = match owner {
                Owner::Server(name) => (GroupKind::Server, name),
                Owner::Process(name) => (GroupKind::Stubs, name),
                Owner::Issuing => (GroupKind::Issuing, String::new()),
                Owner::Own => (GroupKind::Own, String::new()),
            };
            GroupCost {
                kind,
                name,
                threads,
                cpu_ns: per_inference(used.cpu_ns),
                wakeups: per_inference(used.waits),
                preemptions: per_inference(used.preemptions),
                page_faults: per_inference(used.faults),
                instructions: counts.map(|_| per_inference(counted.instructions)),
                cycles: counts.map(|_| per_inference(counted.cycles)),
                cache_misses: counts.map(|_| per_inference(counted.cache_misses)),
            }
        })
        .collect()
}

fn gpu(readings: &[GpuReading], inferences: u64) -> Option<GpuCost> {
    let (first, last) = (readings.first()?, readings.last()?);
    // The first is about the time before.
    let later = &readings[1..];
    let at_work = later.iter().map(|reading| reading.at_work).sum::<f64>() / later.len().max(1) as f64;
    Some(GpuCost {
        time_ns: at_work * last.at.since(first.at) as f64 / inferences as f64,
        joules: last.joules.zip(first.joules).map(|(last, first)| (last - first) / inferences as f64),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Stamp;

    fn usage(threads: &[(i32, Owner, u64)], process_ns: u64) -> Usage {
        let used = |cpu_ns| Used { cpu_ns, waits: cpu_ns / 100, preemptions: 0, faults: 0 };
        let threads = threads.iter().map(|(tid, owner, ns)| (*tid, (owner.clone(), used(*ns)))).collect();
        Usage { threads, process_ns, memory: (1, 2) }
    }

    #[test]
    fn what_was_used_is_told_by_group() {
        let server = || Owner::Server("triton".to_owned());
        let stub = || Owner::Process("python".to_owned());
        let begun = usage(&[(1, server(), 1_000), (2, Owner::Issuing, 500), (9, stub(), 0)], 1_500);
        let ended = usage(&[(1, server(), 5_000), (3, server(), 2_000), (9, stub(), 700)], 8_600);
        let groups = groups(&begun, &ended, None, 10);
        let found: Vec<_> = groups.iter().map(|group| (group.kind, group.threads, group.cpu_ns)).collect();
        assert_eq!(
            found,
            [(GroupKind::Server, 2, 600.0), (GroupKind::Stubs, 1, 70.0), (GroupKind::Issuing, 0, 110.0)],
            "a worker that has ended had what no other thread has"
        );
        assert_eq!((groups[0].wakeups, groups[0].instructions), (6.0, None));
    }

    #[test]
    fn gpus_have_time_and_energy() {
        let at = |ns, joules, at_work| GpuReading { at: Stamp(ns), joules, at_work };
        let cost = gpu(&[at(0, Some(5.0), 0.9), at(1_000, Some(7.0), 0.5), at(2_000, Some(9.0), 0.7)], 4).unwrap();
        assert_eq!(cost.joules, Some(1.0));
        assert!((cost.time_ns - 300.0).abs() < 1e-9, "{cost:?}");
    }
}
