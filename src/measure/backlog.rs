//! Whether a backlog grows in a load that is measured whole, from its first request to its last answer.
//!
//! In such a load, sends and completions are equal in the end, whatever the server can do. What was sent and is not
//! answered shows the difference, but it also rises until the first answers have come, and answers may take longer than the
//! whole sending. So the requests under way at the end of the sending are compared with those that there would be if all
//! took as long as the first ones did, when no queue had built up yet: a server that keeps up has no more, and one that does
//! not has more by the requests that it fell short of meanwhile. Where the first ones took long, most of what is under way says
//! nothing; but then those after them took longer if the server did not keep up. All are waited for, so that is known.

use std::time::Duration;

use crate::load::{RunningLoad, Sends};
use crate::record::Distribution;
use crate::result::summary::{ClientSummary, SendingTime};
use crate::sending::{Sending, Stretch};
use crate::stats::student_t_quantile;

/// A shorter sending phase shows too little: one slow request looks like a queue.
const SHORTEST_SENDING: Duration = Duration::from_millis(500);
/// Minimum samples in the last quarter, and in its last part.
const MIN_LOOKS: (u64, u64) = (4, 1);
/// Of fewer first requests it cannot be said how long they take.
const FEWEST: u64 = 5;
/// What is less likely than three standard errors of a normal distribution, to one side, is no chance.
const CERTAIN: f64 = 0.998_65;

/// Where most of the first requests take this share of the sending, most of what is under way at its end is as it should be, and
/// says little of the rest.
const LONG: f64 = 0.4;

/// Requests that had piled up are answered so many times as fast as they were sent, where the server had only stood still: one that
/// falls short of a rate takes longer for them than it took to send them.
const WORKED_OFF: f64 = 2.0;
/// While this share of what was under way at the end still is, the server goes on standing still.
const STANDS_STILL: f64 = 0.9;

/// So much of a rate piles up only where the server is far from keeping up.
const PILED_UP_SHARE: f64 = 0.1;

/// Minimum samples for the mean number of requests under way.
const MIN_FOR_MEAN: u64 = 500;
/// The fractional parts of its multiples are spread evenly from the first on.
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

    /// These, and those of another time.
    pub(super) fn plus(self, other: Self) -> Self {
        Self { sum: self.sum + other.sum, count: self.count + other.count }
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

/// Looks at the requests under way at the end of the sending.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct BacklogTrend {
    /// When requests are sent; no time at all where that is not known.
    sending: Sending,
    /// Sum of requests under way over all samples, and the number of samples, in the last quarter and in its last part.
    last: (u64, u64),
    end: (u64, u64),
    /// The fewest that were under way in the last quarter.
    fewest_late: Option<u64>,
    /// Requests under way at the last look in that, and how long after the load's start nearly all of these were last seen.
    at_the_end: u64,
    stood_still: Duration,
}

/// Times of the same load.
#[derive(Clone, Copy)]
struct ServiceTimes<'a> {
    /// Those of its first requests.
    early: &'a Distribution,
    /// Those of all.
    all: &'a Distribution,
}

impl BacklogTrend {
    /// No sample yet of a load that sends like this.
    pub(super) fn new(sending: Option<Sending>) -> Self {
        Self { sending: sending.unwrap_or_default(), ..Self::default() }
    }

    /// How long after the load's start its first requests have been sent, whose times are to be kept separately.
    pub(super) fn early_until(&self) -> Duration {
        self.sending.early_until()
    }

    /// Records the requests under way this long after the start.
    pub(super) fn poll(&mut self, elapsed: Duration, under_way: u64) {
        let (last, end) = self.sending.stretches(elapsed);
        if end {
            self.at_the_end = under_way;
        }
        if last {
            self.fewest_late = Some(self.fewest_late.map_or(under_way, |fewest| fewest.min(under_way)));
        }
        if under_way as f64 >= STANDS_STILL * self.at_the_end as f64 {
            self.stood_still = elapsed;
        }
        for looks in [last.then_some(&mut self.last), end.then_some(&mut self.end)].into_iter().flatten() {
            *looks = (looks.0 + under_way, looks.1 + 1);
        }
    }

    /// By how many requests a second the backlog of `count` requests grew, which took these times; `None` if unknown.
    fn per_second(&self, times: ServiceTimes<'_>, count: u64) -> Option<f64> {
        let early = times.early;
        let span = self.sending.span();
        if span < SHORTEST_SENDING || early.count() < FEWEST {
            return None;
        }
        let fraction = self.sending.early_place()?;
        if early.percentile_ns(50.0) as f64 >= LONG * span.as_nanos() as f64 {
            let certain = student_t_quantile(CERTAIN, early.count() as f64 - 1.0);
            return Some(self.by_times(times, certain, count));
        }
        let grown = |(sum, looks): (u64, u64), stretch: Stretch| {
            let (explained, chance) = self.explained(stretch, early, count);
            let more = sum as f64 / looks as f64 - explained;
            // Beyond chance, the whole excess counts, not only the part above the threshold.
            if more <= chance {
                return 0.0;
            }
            more / ((stretch.middle() - fraction / 2.0) * span.as_secs_f64())
        };
        // A stall that has been worked off by the end is no growth.
        let enough = self.last.1 >= MIN_LOOKS.0 && self.end.1 >= MIN_LOOKS.1;
        enough.then(|| grown(self.last, Stretch::Last).min(grown(self.end, Stretch::End)))
    }

    /// How many of `count` requests are under way in a stretch if all take as long as the early ones, which are [`FEWEST`] or more,
    /// and how many more chance may put there.
    fn explained(&self, stretch: Stretch, early: &Distribution, count: u64) -> (f64, f64) {
        let (explained, variance) = self.sending.explained(stretch, early, count);
        let certain = student_t_quantile(CERTAIN, early.count() as f64 - 1.0);
        // That of what the first requests tell, and that of what happens to be under way: for independent times at
        // most their standard deviation (Gini's mean difference).
        (explained, certain * (variance / early.count() as f64 + variance.sqrt()).sqrt())
    }

    /// Whether what was under way when the last of `count` requests had been sent had piled up at once, was several times as many as
    /// usual, and was worked off at once by the time `answered` after the load's start: then the server stood still just before that,
    /// and keeps up with the rate at other times. (Of a batch, or of what several instances do at a time, much ends at once, too; but
    /// that is as usual. A server that shares its time, or takes in what comes first, is fast once nothing more comes; but what piles up
    /// there is never worked off before.)
    fn is_worked_off(&self, early: &Distribution, count: u64, answered: Duration) -> bool {
        if early.count() < FEWEST {
            return false;
        }
        let (usual, chance) = self.explained(Stretch::Last, early, count);
        if self.fewest_late.is_none_or(|fewest| fewest as f64 > usual + chance) {
            return false;
        }
        let (explained, _) = self.sending.explained(Stretch::End, early, count);
        let piled_up = self.at_the_end as f64 - explained;
        let sent_in = piled_up / count as f64 * self.sending.span().as_secs_f64();
        let took = answered.saturating_sub(self.stood_still).as_secs_f64();
        piled_up > explained && WORKED_OFF * took < sent_in
    }

    /// The same from how much longer the requests after the first ones took.
    fn by_times(&self, times: ServiceTimes<'_>, certain: f64, count: u64) -> f64 {
        let span = self.sending.span().as_secs_f64();
        let fraction = self.sending.early_place().unwrap_or_default();
        let moments = |times: &Distribution| {
            let (count, mean) = (times.count() as f64, times.mean_ns() / 1e9);
            (count, count * mean, (count - 1.0) * (times.std_ns() / 1e9).powi(2) + count * mean.powi(2))
        };
        let (first, whole) = (moments(times.early), moments(times.all));
        let mean_and_variance = |(count, sum, squares): (f64, f64, f64)| {
            (sum / count, (squares / count - (sum / count).powi(2)).max(0.0) / count)
        };
        let remaining = (whole.0 - first.0, whole.1 - first.1, whole.2 - first.2);
        if remaining.0 < FEWEST as f64 {
            return 0.0;
        }
        let ((before, error), (after, other)) = (mean_and_variance(first), mean_and_variance(remaining));
        let apart = (self.sending.mean_place(fraction, 1.0) - self.sending.mean_place(0.0, fraction)) * span;
        if after - before <= certain * (error + other).sqrt() {
            return 0.0;
        }
        let longer = (after - before) / apart;
        // Requests that take so much longer by the second leave that much later than they come.
        count as f64 / span * longer / (1.0 + longer)
    }
}

/// Completes the summary of a load that was measured whole: when it was sent, and the rates of an open loop.
pub(super) fn settle(
    client: &mut ClientSummary,
    load: &RunningLoad,
    trend: &BacklogTrend,
    early: Option<&Distribution>,
) {
    let (start, sends) = (client.start, load.sends());
    // Of requests that failed or were given up nobody knows how long the server would have taken for them.
    let are_answered = load.report().outstanding == 0 && client.failed + client.cancelled == 0;
    let is_worked_off = |early: &Distribution, sends: Sends| trend.is_worked_off(early, sends.count, client.duration);
    let early = early.filter(|early| !(are_answered && sends.is_some_and(|sends| is_worked_off(early, sends))));
    settle_rates(client, sends, trend, early);
    let sent = sends.map(|sends| (sends.first, sends.last)).or(load.closed().map(|last| (start, last)));
    let sending = sent.map(|(first, last)| SendingTime { first: first - start, last: last - start });
    client.sending = sending;
    client.entries.iter_mut().chain(&mut client.servers).for_each(|part| part.sending = sending);
}

/// Corrects the rates of an open loop that was measured whole: sends from the first one to the last, where these are known,
/// and completions by what piled up, which the times of its first requests tell, `early`.
fn settle_rates(client: &mut ClientSummary, sends: Option<Sends>, trend: &BacklogTrend, early: Option<&Distribution>) {
    let Some(open) = &mut client.open_loop else { return };
    let before = (open.achieved_rate, open.completed_rate);
    if let Some(Sends { first, last, count }) = sends {
        let seconds = last.since(first) as f64 / 1e9;
        let gaps = count.saturating_sub(1) as f64;
        open.achieved_rate = if seconds > 0.0 { gaps / seconds } else { open.requested_rate };
    }
    let count = sends.map_or(client.sent, |sends| sends.count);
    let grown = early.and_then(|early| trend.per_second(ServiceTimes { early, all: &open.service_time }, count));
    let piled_up = grown.unwrap_or(0.0);
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
    // Those of a mix, and the servers, share the sending.
    for part in client.entries.iter_mut().chain(&mut client.servers).filter_map(|entry| entry.open_loop.as_mut()) {
        part.achieved_rate *= sends;
        part.completed_rate *= completions;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Stamp;
    use crate::result::summary::{OpenLoopSummary, sample};

    /// What a load of requests due at these milliseconds was seen to do, each of which takes the time that `took` says of its
    /// number and its moment.
    struct SimulatedLoad {
        trend: BacklogTrend,
        early: Distribution,
        all: Distribution,
        count: u64,
    }

    impl SimulatedLoad {
        fn new(sending: Sending, sent: &[f64], mut took: impl FnMut(usize, f64) -> f64) -> Self {
            let requests: Vec<(f64, f64)> =
                sent.iter().enumerate().map(|(number, ms)| (*ms, took(number, *ms))).collect();
            let mut observed = Self {
                trend: BacklogTrend::new(Some(sending)),
                early: Distribution::empty(),
                all: Distribution::empty(),
                count: sent.len() as u64,
            };
            let until = observed.trend.early_until().as_secs_f64() * 1e3;
            for (ms, took) in &requests {
                for times in
                    [Some(&mut observed.all), (*ms < until).then_some(&mut observed.early)].into_iter().flatten()
                {
                    times.histogram.record((took * 1e6) as u64).unwrap();
                    times.sum_ns += (took * 1e6) as u128;
                }
            }
            let mut ends: Vec<f64> = requests.iter().map(|(ms, took)| ms + took).collect();
            ends.sort_unstable_by(f64::total_cmp);
            let sending = 0..sent.last().map_or(0, |last| *last as u64);
            let over = sent.first().map_or(0.0, |first| first + observed.trend.sending.span().as_secs_f64() * 1e3);
            let after = over.ceil() as u64..ends.last().map_or(0, |last| *last as u64);
            for now in sending.chain(after) {
                let (begun, over) =
                    (sent.partition_point(|ms| *ms <= now as f64), ends.partition_point(|ms| *ms <= now as f64));
                observed.trend.poll(Duration::from_millis(now), (begun - over) as u64);
            }
            observed
        }

        /// Of a rate: `count` requests, one in `gap` milliseconds.
        fn steady(count: usize, gap: f64, took: impl FnMut(usize, f64) -> f64) -> Self {
            let sent: Vec<f64> = (0..count).map(|number| number as f64 * gap).collect();
            Self::new(Sending::steady(Duration::from_secs_f64(count as f64 * gap / 1e3)), &sent, took)
        }

        fn times(&self) -> ServiceTimes<'_> {
            ServiceTimes { early: &self.early, all: &self.all }
        }

        /// What piles up, as a share of the rate.
        fn share(&self) -> Option<f64> {
            let grown = self.trend.per_second(self.times(), self.count)?;
            Some(grown * self.trend.sending.span().as_secs_f64() / self.count as f64)
        }
    }

    /// The times at a server that takes `service_ms` milliseconds for one request after the other, and `delay` for every one.
    fn queue(service_ms: f64, delay: f64) -> impl FnMut(usize, f64) -> f64 {
        let mut idle = 0.0_f64;
        move |_, ms| {
            idle = idle.max(ms) + service_ms;
            idle + delay - ms
        }
    }

    /// Numbers from 0 to 1 that follow no pattern.
    fn noise(number: usize) -> f64 {
        ((number as f64 + 1.0).sin() * 43_758.545_3).rem_euclid(1.0)
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
    fn long_answers_are_no_queue() {
        // Ten a second for 6 s, whose answers take 2 to 8 s; for 3 s, all of which outlast the sending.
        let long = |number: usize, _: f64| 2_000.0 + 6_000.0 * noise(number).powi(2);
        assert_eq!(SimulatedLoad::steady(60, 100.0, long).share(), Some(0.0));
        assert_eq!(SimulatedLoad::steady(30, 100.0, |number, _| 4_000.0 + 2_000.0 * noise(number)).share(), Some(0.0));
        assert_eq!(SimulatedLoad::steady(600, 10.0, |_, _| 5_000.0).share(), Some(0.0));
        assert_eq!(SimulatedLoad::steady(2_000, 10.0, |_, _| 3.0).share(), Some(0.0));
        assert_eq!(SimulatedLoad::steady(2_000, 10.0, queue(9.0, 0.0)).share(), Some(0.0), "busy");
    }

    #[test]
    fn a_queue_grows_by_what_the_server_falls_short_of() {
        for (service_ms, share) in [(10.5, 0.048), (12.0, 0.167), (20.0, 0.5), (50.0, 0.8), (1_000.0, 0.99)] {
            for delay in [0.0, 3_000.0] {
                let found = SimulatedLoad::steady(1_000, 10.0, queue(service_ms, delay)).share().unwrap();
                assert!((share / 4.5..=share * 1.1).contains(&found), "{service_ms} ms, {delay} ms: {found}");
            }
        }
        // Whoever is served next is a matter of chance: times differ as much early on as late.
        let mut waiting = Vec::<(usize, f64)>::new();
        let (mut took, mut idle) = (vec![0.0; 2_000], 0.0);
        for number in 0..4_000 {
            if number < 2_000 {
                waiting.push((number, number as f64 * 5.0));
            }
            if number % 2 == 1 {
                let (chosen, sent) = waiting.swap_remove((noise(number) * waiting.len() as f64) as usize);
                idle = f64::max(idle, number as f64 * 5.0) + 5.0;
                took[chosen] = idle - sent;
            }
        }
        assert!(SimulatedLoad::steady(2_000, 5.0, |number, _| took[number]).share().unwrap() > 0.1);
    }

    #[test]
    fn a_stall_that_is_worked_off_is_no_growth() {
        // 150 a second for 10 s; for 1.5 s the server stands still.
        for stall in [2_000.0, 6_000.0, 7_800.0] {
            let until = stall + 1_500.0;
            let took = |_: usize, ms: f64| if (stall..until).contains(&ms) { until - ms } else { 2.0 };
            assert_eq!(SimulatedLoad::steady(1_500, 1e3 / 150.0, took).share(), Some(0.0), "from {stall} ms on");
        }
        let late = |_: usize, ms: f64| if ms > 8_500.0 { 10_000.0 - ms + 2.0 } else { 2.0 };
        assert!(SimulatedLoad::steady(1_500, 1e3 / 150.0, late).share().unwrap() > 0.0, "nobody knows whether it ends");
    }

    /// How many milliseconds each of `count` requests takes, one of which comes every 10 ms, on a processor that they share and that one
    /// alone needs for so long.
    fn shared(alone_ms: f64, count: usize) -> Vec<f64> {
        const STEP: f64 = 0.25;
        let (mut times, mut left) = (vec![0.0; count], Vec::<(usize, f64)>::new());
        let (mut begun, mut now) = (0, 0.0);
        while begun < count || !left.is_empty() {
            while begun < count && 10.0 * begun as f64 <= now {
                left.push((begun, alone_ms));
                begun += 1;
            }
            let share = STEP / left.len().max(1) as f64;
            left.iter_mut().for_each(|(_, work)| *work -= share);
            now += STEP;
            left.iter()
                .filter(|(_, work)| *work <= 0.0)
                .for_each(|(number, _)| times[*number] = now - 10.0 * *number as f64);
            left.retain(|(_, work)| *work > 0.0);
        }
        times
    }

    #[test]
    fn a_stall_at_the_end_is_told_from_a_queue_by_how_fast_it_is_worked_off() {
        let is_worked_off = |observed: &SimulatedLoad, answered_ms: f64| {
            observed.trend.is_worked_off(&observed.early, observed.count, Duration::from_secs_f64(answered_ms / 1e3))
        };
        // 100 a second for 10 s; the server stands still for 2 s, which end 200 ms after the last request, or 1.5 s after it.
        for over_ms in [10_200.0, 11_500.0] {
            let took = |_: usize, ms: f64| if ms >= over_ms - 2_000.0 { over_ms - ms + 10.0 } else { 10.0 };
            let observed = SimulatedLoad::steady(1_000, 10.0, took);
            assert!(observed.share().unwrap() > 0.0, "it looks like a queue");
            assert!(is_worked_off(&observed, over_ms + 10.0), "until {over_ms} ms");
        }
        for service_ms in [10.5, 12.0, 20.0, 50.0, 1_000.0] {
            for delay in [0.0, 3_000.0] {
                let observed = SimulatedLoad::steady(1_000, 10.0, queue(service_ms, delay));
                assert!(!is_worked_off(&observed, 1_000.0 * service_ms + delay), "{service_ms} ms, {delay} ms");
            }
        }
        // Requests that share the processor end together, and what comes is taken in before any work is done.
        for (capacity_ms, count) in [(10.2, 1_000), (10.5, 3_000)] {
            let times = shared(capacity_ms, count);
            let answered = 10.0 * (count - 1) as f64 + times[count - 1];
            let observed = SimulatedLoad::steady(count, 10.0, |number, _| times[number]);
            assert!(!is_worked_off(&observed, answered), "one request in {capacity_ms} ms, of {count}");
        }
        let taken_in = |number: usize, ms: f64| {
            let work = (number + 1) as f64;
            let over = if work <= 500.0 { 20.0 * work } else { 10_000.0 + 4.0 * (work - 500.0) };
            (over - ms).max(12.0)
        };
        assert!(!is_worked_off(&SimulatedLoad::steady(1_000, 10.0, taken_in), 12_000.0));
        // Eight at a time, once a second, of 9.6: the last of them end together.
        let batches = |number: usize, ms: f64| 1_000.0 * (2 + number / 8) as f64 - ms;
        let observed = SimulatedLoad::steady(48, 104.0, batches);
        assert!(!is_worked_off(&observed, 7_000.0));
        let quiet = SimulatedLoad::steady(1_000, 10.0, |_, _| 10.0);
        assert!(!is_worked_off(&quiet, 10_000.0), "nothing had piled up");
    }

    #[test]
    fn too_little_says_nothing() {
        assert_eq!(SimulatedLoad::steady(40, 10.0, queue(20.0, 0.0)).share(), None, "400 ms");
        assert_eq!(SimulatedLoad::steady(16, 100.0, queue(200.0, 0.0)).share(), None, "four early requests");
        assert!(SimulatedLoad::steady(60, 100.0, queue(200.0, 0.0)).share().unwrap() > 0.1);
        let observed = SimulatedLoad::steady(1_000, 10.0, queue(20.0, 0.0));
        assert_eq!(BacklogTrend::new(None).per_second(observed.times(), 1_000), None);
    }

    #[test]
    fn a_schedule_is_judged_like_a_rate_but_for_its_bursts() {
        let piled_up = |times: &[u64], service_ms: f64, delay: f64| {
            let sending = Sending::of_times(times.iter().map(|ms| ms * 1_000_000)).unwrap();
            let sent: Vec<f64> = times.iter().map(|ms| *ms as f64).collect();
            SimulatedLoad::new(sending, &sent, queue(service_ms, delay)).share().unwrap()
        };
        let even: Vec<u64> = (0..2_000).map(|number| number * 10).collect();
        assert_eq!((piled_up(&even, 9.0, 0.0), piled_up(&even, 9.0, 3_000.0)), (0.0, 0.0));
        let half = piled_up(&even, 20.0, 0.0);
        assert!((0.3..0.5).contains(&half), "{half}");
        let late: Vec<u64> = even.iter().map(|ms| ms + 60_000).collect();
        assert!((piled_up(&late, 20.0, 0.0) - half).abs() < 0.01, "it begins with its first request");
        // 65 requests a second on average, and many of them shortly before the end.
        let mut burst: Vec<u64> = (0..1_000).map(|number| number * 20).chain([15_500; 300]).collect();
        burst.sort_unstable();
        assert_eq!((piled_up(&burst, 10.0, 0.0), piled_up(&burst, 10.0, 3_000.0)), (0.0, 0.0));
        assert!(piled_up(&burst, 25.0, 0.0) > 0.03, "40 a second are too few");
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
        let rates = |sends, observed: Option<&SimulatedLoad>| {
            let mut client = client.clone();
            let (trend, early) =
                observed.map_or((BacklogTrend::default(), None), |observed| (observed.trend, Some(&observed.early)));
            settle_rates(&mut client, sends, &trend, early);
            let open = client.open_loop.unwrap();
            (open.achieved_rate, open.completed_rate.round())
        };
        let observed = SimulatedLoad::steady(1_000, 10.0, queue(20.0, 0.0));
        let sends = |last| Some(Sends { first: Stamp(5), last: Stamp(last), count: client.sent });
        let second = sends(1_000_000_005);
        assert_eq!(rates(second, None), (200.0, 200.0));
        assert_eq!(rates(second, Some(&observed)), (200.0, 100.0));
        let late = Some(Sends { first: Stamp(250_000_000), last: Stamp(1_250_000_000), count: client.sent });
        assert_eq!(rates(late, Some(&observed)), (200.0, 133.0), "nothing completes before the first send");
        assert_eq!(rates(None, None), (100.0, 100.0));
        assert_eq!(rates(sends(5), None).0, 200.0);
        client.entries = vec![client.clone()];
        settle_rates(&mut client, second, &BacklogTrend::default(), None);
        assert_eq!(client.entries[0].open_loop.as_ref().unwrap().achieved_rate, 200.0);
    }
}
