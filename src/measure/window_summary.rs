//! From the records of a window to its summary, and from several windows to one.

use std::sync::Arc;
use std::time::Duration;

use crate::clock::Stamp;
use crate::failures;
use crate::model::ModelId;
use crate::record::Tally;
use crate::result::remark::Remark;
use crate::result::summary::{
    ClientSummary, DecoupledSummary, Distribution, Headline, LevelSummary, OpenLoopSummary, SendingTime, ServerSummary,
    per_second,
};
use crate::result::tensors::TensorBytes;

/// What a window's summary needs besides its tally.
#[derive(Clone, Debug)]
pub struct WindowFacts {
    /// Inferences per request.
    pub batch_size: u64,
    /// Bytes of the tensors of an inference.
    pub tensors: TensorBytes,
    /// What the headline latency is.
    pub headline: Headline,
    /// Intended sends a second, in open loops.
    pub requested_rate: Option<f64>,
    /// Share of each entry of a mix, 0 to 1; empty where there is one model.
    pub shares: Arc<[f64]>,
    /// The model of each entry: several may be of one.
    pub models: Arc<[ModelId]>,
    /// Threads that issue requests.
    pub issuers: usize,
    /// The client's own cost per request, in nanoseconds.
    pub client_cost_ns: f64,
    /// Every wake-up is timed and is no part of the latency.
    pub wakeups_apart: bool,
}

/// What there is to say of whence a level's answers came, and of what is in them; of a process that `is_alone`, for of
/// several each would tell what the server counted for all.
pub fn about_answers(summary: &LevelSummary, is_alone: bool) -> Vec<Remark> {
    let servers = summary.server.iter().chain(&summary.further_servers);
    let caches = servers.filter(|_| is_alone).flat_map(ServerSummary::cache_remarks);
    caches.chain(Remark::of_answers(summary.client.generated.as_deref(), summary.client.requests)).collect()
}

/// The summary of a part of the requests, of which that share was asked for.
fn of_part(tally: Tally, share: f64, start: Stamp, duration: Duration, facts: &WindowFacts) -> ClientSummary {
    let requested_rate = facts.requested_rate.map(|rate| rate * share);
    let part = summarize(tally, start, duration, &WindowFacts { requested_rate, ..facts.clone() });
    ClientSummary { sessions: None, ..part }
}

/// The summaries of servers that requests were spread over. Sends are recorded before their servers are known.
fn of_servers(servers: Vec<Tally>, start: Stamp, duration: Duration, facts: &WindowFacts) -> Vec<ClientSummary> {
    let share = 1.0 / servers.len().max(1) as f64;
    let of_server = |mut server: Tally| {
        (server.sent, server.delayed) = (count_completed(&server), 0);
        of_part(server, share, start, duration, facts)
    };
    servers.into_iter().map(of_server).collect()
}

fn count_completed(tally: &Tally) -> u64 {
    tally.requests + tally.failed + tally.cancelled
}

/// The summary of the window from `start` that lasted `duration`.
pub fn summarize(tally: Tally, start: Stamp, duration: Duration, facts: &WindowFacts) -> ClientSummary {
    let completed = count_completed(&tally);
    let entries = tally.entries.into_iter().zip(&*facts.shares);
    let entries = entries.map(|(entry, share)| of_part(entry, *share, start, duration, facts)).collect();
    let servers = of_servers(tally.servers, start, duration, facts);
    let open = tally.open_loop.is_some();
    let sent = if open { tally.sent } else { completed };
    let average = |sum: u64, count: u64| if count == 0 { 0.0 } else { sum as f64 / count as f64 };
    let errors = failures::few(tally.errors.into_iter().collect());
    let open_loop = tally.open_loop.map(|(response_time, schedule_delay)| OpenLoopSummary {
        response_time,
        service_time: tally.service.clone(),
        schedule_delay,
        requested_rate: facts.requested_rate.unwrap_or(0.0),
        achieved_rate: per_second(sent, duration),
        completed_rate: per_second(completed, duration),
    });
    let decoupled = tally.decoupled.map(|(first_response, gap)| DecoupledSummary {
        first_response,
        gap,
        last_response: tally.service.clone(),
    });
    let latency = match (facts.headline, &open_loop, &decoupled) {
        (Headline::ResponseTime, Some(open_loop), _) => open_loop.response_time.clone(),
        (Headline::FirstResponse, _, Some(decoupled)) => decoupled.first_response.clone(),
        _ => tally.service,
    };
    let wakeup_ns = tally.wakeup.as_ref().map_or(0.0, Distribution::mean_ns);
    let busy_ns = (facts.client_cost_ns + wakeup_ns) * completed as f64;
    ClientSummary {
        start,
        duration,
        requests: tally.requests,
        failed: tally.failed,
        cancelled: tally.cancelled,
        errors,
        sent,
        sending: None,
        delayed: tally.delayed,
        sequences: tally.sequences,
        responses: if decoupled.is_some() { tally.responses } else { tally.requests },
        batch_size: facts.batch_size,
        tensors: facts.tensors,
        latency,
        open_loop,
        decoupled,
        generated: tally.generated,
        sessions: tally.sessions,
        sequence_times: tally.sequence_times,
        good: tally.good,
        send_ns: average(tally.send_ns, tally.send_samples),
        receive_ns: average(tally.receive_ns, tally.requests),
        wakeup: tally.wakeup.as_ref().map(Distribution::coarsened),
        turnaround_ns: average(tally.turnaround_ns, tally.send_samples)
            + if facts.wakeups_apart { wakeup_ns } else { 0.0 },
        entries,
        servers,
        overhead_share: (busy_ns / (duration.as_nanos() as f64 * facts.issuers.max(1) as f64)).min(1.0),
    }
}

/// A window and those before it as one: counts and durations are summed, distributions merged, averages weighted by requests.
pub(super) fn merge(mut sum: ClientSummary, window: &ClientSummary) -> ClientSummary {
    let weighted = |a: f64, b: f64| {
        let (n, m) = (sum.requests as f64, window.requests as f64);
        if n + m == 0.0 { 0.0 } else { (a * n + b * m) / (n + m) }
    };
    sum.send_ns = weighted(sum.send_ns, window.send_ns);
    sum.receive_ns = weighted(sum.receive_ns, window.receive_ns);
    sum.turnaround_ns = weighted(sum.turnaround_ns, window.turnaround_ns);
    let (length, more) = (sum.duration.as_secs_f64(), window.duration.as_secs_f64());
    let by_time = |a: f64, b: f64| if length + more == 0.0 { 0.0 } else { (a * length + b * more) / (length + more) };
    sum.overhead_share = by_time(sum.overhead_share, window.overhead_share);
    if let (Some(a), Some(b)) = (&mut sum.open_loop, &window.open_loop) {
        merge_each([(&mut a.response_time, &b.response_time), (&mut a.service_time, &b.service_time)]);
        a.schedule_delay.merge(&b.schedule_delay);
        a.achieved_rate = by_time(a.achieved_rate, b.achieved_rate);
        a.completed_rate = by_time(a.completed_rate, b.completed_rate);
    }
    if let (Some(a), Some(b)) = (&mut sum.decoupled, &window.decoupled) {
        merge_each([(&mut a.first_response, &b.first_response), (&mut a.last_response, &b.last_response)]);
        a.gap.merge(&b.gap);
    }
    if let (Some(a), Some(b)) = (&mut sum.generated, &window.generated) {
        a.merge(b);
    }
    if let (Some(a), Some(b)) = (&mut sum.sessions, &window.sessions) {
        a.merge(b);
    }
    if let (Some(a), Some(b)) = (&mut sum.sequence_times, &window.sequence_times) {
        a.merge(b);
    }
    if let (Some(a), Some(b)) = (&mut sum.good, window.good) {
        *a += b;
    }
    sum.latency.merge(&window.latency);
    if let (Some(sum), Some(window)) = (&mut sum.wakeup, &window.wakeup) {
        sum.merge(window);
    }
    sum.duration += window.duration;
    sum.requests += window.requests;
    sum.failed += window.failed;
    sum.cancelled += window.cancelled;
    sum.sent += window.sent;
    sum.delayed += window.delayed;
    sum.sequences += window.sequences;
    sum.responses += window.responses;
    sum.entries = sum.entries.into_iter().zip(&window.entries).map(|(sum, entry)| merge(sum, entry)).collect();
    sum.servers = sum.servers.into_iter().zip(&window.servers).map(|(sum, server)| merge(sum, server)).collect();
    sum.errors = failures::sum(sum.errors, &window.errors);
    sum
}

/// What two processes, or two entries of a mix, saw of the same time, as one: counts and rates are added up, distributions merged.
pub(super) fn join(left: ClientSummary, right: &ClientSummary) -> ClientSummary {
    let entries = left.entries.iter().cloned().zip(&right.entries).map(|(left, right)| join(left, right)).collect();
    let servers = left.servers.iter().cloned().zip(&right.servers).map(|(left, right)| join(left, right)).collect();
    let end = |client: &ClientSummary| client.start.plus_duration(client.duration);
    let (start, end) = (left.start.min(right.start), end(&left).max(end(right)));
    let rates = |client: &ClientSummary| client.open_loop.as_ref().map(open_loop_rates);
    let rates = rates(&left).zip(rates(right));
    let sent = |client: &ClientSummary| {
        let SendingTime { first, last } = client.sending?;
        Some((client.start.plus_duration(first), client.start.plus_duration(last)))
    };
    let sent = sent(&left).zip(sent(right)).map(|(left, right)| (left.0.min(right.0), left.1.max(right.1)));
    let mut all = merge(left, right);
    (all.entries, all.servers) = (entries, servers);
    (all.start, all.duration) = (start, end - start);
    all.sending = sent.map(|(first, last)| SendingTime { first: first - start, last: last - start });
    if let (Some(open), Some((left, right))) = (&mut all.open_loop, rates) {
        let sum = |part: usize| left[part] + right[part];
        (open.requested_rate, open.achieved_rate, open.completed_rate) = (sum(0), sum(1), sum(2));
    }
    all
}

/// Requested, achieved and completed.
fn open_loop_rates(load: &OpenLoopSummary) -> [f64; 3] {
    [load.requested_rate, load.achieved_rate, load.completed_rate]
}

fn merge_each(pairs: [(&mut Distribution, &Distribution); 2]) {
    for (sum, window) in pairs {
        sum.merge(window);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::InferError;
    use crate::result::summary::sample;

    #[test]
    fn a_window_without_length_has_no_rate() {
        assert_eq!(per_second(3, Duration::ZERO), 0.0);
        let client = ClientSummary { duration: Duration::ZERO, ..sample::client(3, 1) };
        assert_eq!((client.throughput(), client.request_rate()), (0.0, 0.0));
    }

    #[test]
    fn what_processes_saw_of_one_time_adds_up() {
        let (mut fast, slow) = (sample::client(300, 1_000_000), sample::client(100, 4_000_000));
        fast.entries = vec![sample::client(300, 1_000_000)];
        let other = ClientSummary { entries: vec![slow.clone()], start: fast.start.plus(500_000_000), ..slow };
        let sum = join(fast.clone(), &other);
        assert_eq!((sum.requests, sum.start, sum.duration), (400, fast.start, Duration::from_millis(1_500)));
        assert_eq!((sum.entries[0].requests, sum.latency.count()), (400, 400));
        assert!((sum.latency.mean_ns() - 1_750_000.0).abs() < 1.0);
        // The mean of percentiles would be another one.
        assert!(sum.latency.percentile_ns(70.0) < 1_100_000 && sum.latency.percentile_ns(80.0) > 3_900_000);
    }

    #[test]
    fn entries_of_a_mix_are_merged_one_by_one() {
        let mut window = sample::client(400, 1_000_000);
        window.entries = vec![sample::client(100, 4_000_000), sample::client(300, 0)];
        let merged = merge(window.clone(), &window);
        assert_eq!(merged.entries.iter().map(|entry| entry.requests).collect::<Vec<_>>(), [200, 600]);
        assert_eq!(merged.entries[0].duration, Duration::from_secs(2));
    }

    #[test]
    fn merged_windows_add_up() {
        let error = InferError { code: "Internal".into(), message: "no".into() };
        let mut slow = sample::client(100, 2_000_000);
        (slow.failed, slow.cancelled) = (3, 5);
        slow.errors = vec![(error.clone(), 3)];
        slow.send_ns = 400.0;
        let mut fast = sample::client(300, 1_000_000);
        let other = InferError { code: "Internal".into(), message: "often".into() };
        fast.errors = vec![(error, 1), (other, 7)];
        let merged = merge(slow, &fast);
        assert_eq!(merged.requests, 400);
        assert_eq!(merged.duration, Duration::from_secs(2));
        assert!((merged.throughput() - 200.0).abs() < 1e-9);
        assert!((merged.latency.mean_ns() - 1_250_000.0).abs() < 1.0);
        assert!((merged.send_ns - 100.0).abs() < 1e-9);
        assert_eq!((merged.errors[0].1, merged.errors[1].1), (7, 4), "most frequent first");
        assert_eq!((merged.failed, merged.cancelled), (3, 5));
    }
}
