//! Whether a backlog grows in a load that is measured whole, from its first request to its last answer.
//!
//! In such a load, sends and completions are equal in the end, whatever the server can do. The number of outstanding
//! requests shows the difference: a server that keeps up has as many in the last quarter of the sending as in the
//! second, but for a schedule's own bursts ([`Sending`]); one that does not has more, by the requests that it fell short of
//! meanwhile.

use std::time::Duration;

use crate::load::Sends;
use crate::measure::sending::Sending;
use crate::measure::summary::ClientSummary;

/// A shorter sending phase shows too little: one slow request looks like a queue.
const SHORTEST_SENDING: Duration = Duration::from_millis(500);
/// Minimum samples in a quarter.
const MIN_LOOKS: u64 = 50;

/// So much of a rate piles up only where the server is far from keeping up.
const PILED_UP_SHARE: f64 = 0.1;

/// Minimum samples for the mean number of requests under way.
const MIN_FOR_MEAN: u64 = 500;
/// Its multiples, but for their whole parts, spread evenly over 0 to 1 from the first on.
const GOLDEN_RATIO: f64 = 0.618_033_988_749_895;

/// Looks at the requests under way, for their mean.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct OutstandingSamples {
    sum: u64,
    count: u64,
}

impl OutstandingSamples {
    /// These, and one sample with this many under way.
    pub(super) fn and(self, under_way: u64) -> Self {
        Self { sum: self.sum + under_way, count: self.count + 1 }
    }

    /// The mean and the number of samples, if there are enough.
    pub(super) fn mean(self) -> Option<(f64, u64)> {
        (self.count >= MIN_FOR_MEAN).then(|| (self.sum as f64 / self.count as f64, self.count))
    }

    /// How long to wait for the next sample, `pause` on average: a steady rhythm could fall in with that of the
    /// requests and always see the same moment of theirs.
    pub(super) fn uneven(self, pause: Duration) -> Duration {
        pause.mul_f64(0.5 + (self.count as f64 * GOLDEN_RATIO).fract())
    }
}

/// Looks at the requests under way in two quarters of the sending.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct BacklogTrend {
    /// When requests are sent; no time at all where that is not known.
    sending: Sending,
    /// Sum of requests under way over all samples, and the number of samples, in the second and in the last quarter.
    second: (u64, u64),
    last: (u64, u64),
}

impl BacklogTrend {
    /// No sample yet of a load that sends like this.
    pub(super) fn of(sending: Option<Sending>) -> Self {
        Self { sending: sending.unwrap_or_default(), ..Self::default() }
    }

    /// Records the requests under way this long after the start.
    pub(super) fn poll(&mut self, elapsed: Duration, under_way: u64) {
        let looks = match self.sending.quarter(elapsed) {
            1.0..2.0 => &mut self.second,
            3.0..4.0 => &mut self.last,
            _ => return,
        };
        *looks = (looks.0 + under_way, looks.1 + 1);
    }

    /// By how many requests a second the number under way grew, where `spread` is how much the times of requests differ, as in
    /// [`Sending::grown`]; `None` if unknown.
    fn per_second(&self, spread: f64) -> Option<f64> {
        let mean = |(sum, looks): (u64, u64)| (looks >= MIN_LOOKS).then(|| sum as f64 / looks as f64);
        let grown = self.sending.grown(mean(self.second)?, mean(self.last)?, spread)?;
        // The middles of the quarters are half of the time apart.
        let span = self.sending.span();
        (span >= SHORTEST_SENDING).then(|| grown.max(0.0) * 2.0 / span.as_secs_f64())
    }
}

/// Corrects the rates of an open loop that was measured whole: sends from the first one to the last, where these are known,
/// and completions by what piled up.
pub(super) fn settle_rates(client: &mut ClientSummary, sends: Option<Sends>, trend: &BacklogTrend) {
    let Some(open) = &mut client.open_loop else { return };
    let before = (open.achieved_rate, open.completed_rate);
    if let Some(Sends { first, last, count }) = sends {
        let seconds = last.since(first) as f64 / 1e9;
        let gaps = count.saturating_sub(1) as f64;
        open.achieved_rate = if seconds > 0.0 { gaps / seconds } else { open.requested_rate };
    }
    let mean_ns = open.service_time.mean_ns();
    let spread = if mean_ns > 0.0 { open.service_time.std_ns() / mean_ns } else { 0.0 };
    let piled_up = trend.per_second(spread).unwrap_or(0.0);
    // Where much piles up, the server is busy from the first send to the last answer, and its own pace is known better from
    // all of them.
    open.completed_rate = if piled_up > PILED_UP_SHARE * open.achieved_rate {
        let idle = sends.map_or(Duration::ZERO, |sends| sends.first - client.start);
        let busy = client.duration.saturating_sub(idle).as_secs_f64();
        (open.completed_rate * client.duration.as_secs_f64() / busy).min(open.achieved_rate)
    } else {
        open.achieved_rate - piled_up
    };
    let share = |now: f64, before: f64| if before > 0.0 { now / before } else { 1.0 };
    let (sends, completions) = (share(open.achieved_rate, before.0), share(open.completed_rate, before.1));
    // Those of a mix share the sending.
    for part in client.entries.iter_mut().filter_map(|entry| entry.open_loop.as_mut()) {
        part.achieved_rate *= sends;
        part.completed_rate *= completions;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Stamp;
    use crate::measure::summary::{OpenLoopSummary, sample};

    /// Two seconds in which as many requests are under way as `under_way` says of each millisecond.
    fn looked_at(under_way: impl Fn(u64) -> u64) -> BacklogTrend {
        let mut trend = BacklogTrend::of(Some(Sending::steady(Duration::from_secs(2))));
        (0..2500).for_each(|ms| trend.poll(Duration::from_millis(ms), under_way(ms)));
        trend
    }

    #[test]
    fn looks_are_uneven_and_their_mean_is_exact() {
        let mut looks = OutstandingSamples::default();
        let (mut all, pause) = (Duration::ZERO, Duration::from_millis(20));
        for number in 0..1000 {
            assert_eq!(looks.mean().is_some(), number >= 500);
            let next = looks.uneven(pause);
            assert!(next >= pause / 2 && next <= pause * 3 / 2);
            all += next;
            looks = looks.and(number % 2);
        }
        assert_eq!(looks.mean(), Some((0.5, 1000)));
        assert!((all.as_secs_f64() / (pause * 1000).as_secs_f64() - 1.0).abs() < 0.01);
    }

    #[test]
    fn a_queue_grows_and_a_busy_server_does_not() {
        assert_eq!(looked_at(|_| 7).per_second(0.0), Some(0.0));
        assert_eq!(looked_at(|ms| ms % 2).per_second(0.0), Some(0.0));
        assert_eq!(looked_at(|ms| 100 - ms / 25).per_second(0.0), Some(0.0), "a queue that shrinks is no reason");
        // A hundred requests a second more than the server completes.
        assert!((looked_at(|ms| ms / 10).per_second(0.0).unwrap() - 100.0).abs() < 1.0);
        // A stall of 50 ms with 200 requests a second is soon over.
        let stall = looked_at(|ms| if (1700..1750).contains(&ms) { (ms - 1700) / 5 } else { 1 });
        assert!(stall.per_second(0.0).unwrap() < 1.0);
        assert_eq!(BacklogTrend::of(None).per_second(0.0), None);
        let mut short = BacklogTrend::of(Some(Sending::steady(Duration::from_millis(400))));
        (0..400).for_each(|ms| short.poll(Duration::from_millis(ms), ms));
        assert_eq!(short.per_second(0.0), None);
    }

    /// What piles up a second of requests due at these milliseconds, at a server that takes `each` of them for one after the
    /// other, and `delay` for every one.
    fn piled_up(times: &[u64], each: f64, delay: f64) -> f64 {
        let mut idle = 0.0_f64;
        let end = |&sent: &u64| {
            idle = idle.max(sent as f64) + each;
            idle + delay
        };
        let ends: Vec<f64> = times.iter().map(end).collect();
        let took: Vec<f64> = ends.iter().zip(times).map(|(end, &sent)| end - sent as f64).collect();
        let mean = took.iter().sum::<f64>() / took.len() as f64;
        let variance = took.iter().map(|one| (one - mean).powi(2)).sum::<f64>() / took.len() as f64;
        let mut trend = BacklogTrend::of(Sending::of_times(times.iter().map(|ms| ms * 1_000_000)));
        for now in 0..=times[times.len() - 1] {
            let sent = times.partition_point(|sent| *sent <= now);
            let ended = ends.partition_point(|end| *end <= now as f64);
            trend.poll(Duration::from_millis(now), (sent - ended) as u64);
        }
        trend.per_second(variance.sqrt() / mean).unwrap()
    }

    #[test]
    fn a_schedule_is_judged_like_a_rate_but_for_its_bursts() {
        let even: Vec<u64> = (0..2_000).map(|number| number * 10).collect();
        assert_eq!((piled_up(&even, 9.0, 0.0), piled_up(&even, 9.0, 3_000.0)), (0.0, 0.0));
        let half = piled_up(&even, 20.0, 0.0);
        assert!((40.0..50.0).contains(&half), "50 a second pile up, but for what may be chance: {half}");
        let late: Vec<u64> = even.iter().map(|ms| ms + 60_000).collect();
        assert!((piled_up(&late, 20.0, 0.0) - half).abs() < 0.5, "it begins with its first request");
        // 65 requests a second on average, and many of them shortly before the end.
        let mut burst: Vec<u64> = (0..1_000).map(|number| number * 20).chain([15_500; 300]).collect();
        burst.sort_unstable();
        assert_eq!((piled_up(&burst, 10.0, 0.0), piled_up(&burst, 10.0, 3_000.0)), (0.0, 0.0));
        assert!(piled_up(&burst, 25.0, 0.0) > 3.0, "40 a second are too few");
    }

    #[test]
    fn rates_are_those_of_the_sending() {
        let mut client = sample::client(201, 1_000);
        let times = || sample::distribution(201, 1_000);
        let (response_time, service_time, schedule_delay) = (times(), times(), times());
        let (requested_rate, achieved_rate, completed_rate) = (200.0, 100.0, 100.0);
        client.open_loop = Some(OpenLoopSummary {
            response_time,
            service_time,
            schedule_delay,
            requested_rate,
            achieved_rate,
            completed_rate,
        });
        let rates = |sends, trend| {
            let mut client = client.clone();
            settle_rates(&mut client, sends, &trend);
            let open = client.open_loop.unwrap();
            (open.achieved_rate, open.completed_rate.round())
        };
        let sends = |last| Some(Sends { first: Stamp(5), last: Stamp(last), count: client.sent });
        let second = sends(1_000_000_005);
        assert_eq!(rates(second, BacklogTrend::default()), (200.0, 200.0));
        assert_eq!(rates(second, looked_at(|ms| ms / 10)), (200.0, 100.0));
        let late = Some(Sends { first: Stamp(250_000_000), last: Stamp(1_250_000_000), count: client.sent });
        assert_eq!(rates(late, looked_at(|ms| ms / 10)), (200.0, 133.0), "nothing completes before the first send");
        assert_eq!(rates(None, BacklogTrend::default()), (100.0, 100.0));
        assert_eq!(rates(sends(5), BacklogTrend::default()).0, 200.0);
        client.entries = vec![client.clone()];
        settle_rates(&mut client, second, &BacklogTrend::default());
        assert_eq!(client.entries[0].open_loop.as_ref().unwrap().achieved_rate, 200.0);
    }
}
