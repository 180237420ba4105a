//! [`Sending`]: when a load's requests are sent, and so how many of them would be under way at a moment if all took as
//! long as others did.

use std::time::Duration;

use crate::record::Distribution;

/// Into so many parts of equal length a schedule is divided.
const PARTS: usize = 64;
/// The first requests are this share of all.
const EARLY: f64 = 0.25;
/// The last quarter of the sending, and the last part of that; 0 is the first request, 1 the last.
const LAST: f64 = 0.75;
const END: f64 = 0.9375;

/// How long a load is sent for, and when its requests are due.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sending {
    /// From the load's start to the first request.
    lead: Duration,
    /// From the first request to the last.
    span: Duration,
    /// What a schedule asks for; absent for a rate.
    times: Option<Times>,
}

/// What a schedule asks for.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Times {
    /// Share of the requests that are sent up to the end of each part.
    up_to: [f64; PARTS],
    /// Mean number that waits in the last quarter, and in its last part, at a server that completes exactly the mean rate.
    waiting: (f64, f64),
}

/// A stretch of the sending in which the requests under way are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stretch {
    /// The last quarter.
    Last,
    /// The last part of it.
    End,
}

/// A queue at a server that completes one request in each unit of time.
#[derive(Default)]
struct Queue {
    waiting: f64,
    now: f64,
}

impl Stretch {
    /// Its middle.
    pub(super) fn middle(self) -> f64 {
        f64::midpoint(if self == Self::Last { LAST } else { END }, 1.0)
    }
}

impl Sending {
    /// That of a rate that is sent for `span`.
    pub fn steady(span: Duration) -> Self {
        Self { span, ..Self::default() }
    }

    /// That of requests due at these offsets from the load's start, in nanoseconds and in order. `None` if all are due at one
    /// moment.
    pub fn of_times(offsets: impl Iterator<Item = u64> + Clone) -> Option<Self> {
        let first = offsets.clone().next()?;
        let (count, last) = offsets.clone().fold((0_u64, first), |(count, _), offset| (count + 1, offset));
        let span = last.checked_sub(first).filter(|span| *span > 0)?;
        let places = offsets.map(|offset| (offset - first) as f64 / span as f64);
        let times = Some(Times::new(places, count));
        Some(Self { lead: Duration::from_nanos(first), span: Duration::from_nanos(span), times })
    }

    /// From the first request to the last.
    pub(super) fn span(&self) -> Duration {
        self.span
    }

    /// How far the sending is so long after the load's start: 0 at the first request, 1 at the last; NaN or infinite without
    /// a length.
    fn fraction(&self, elapsed: Duration) -> f64 {
        elapsed.saturating_sub(self.lead).as_secs_f64() / self.span.as_secs_f64()
    }

    /// The stretches that this long after the load's start is in.
    pub(super) fn stretches(&self, elapsed: Duration) -> (bool, bool) {
        let fraction = self.fraction(elapsed);
        ((LAST..1.0).contains(&fraction), (END..1.0).contains(&fraction))
    }

    /// The place by which the first requests, a quarter of all, have been sent. `None` if these are sent so late that they say
    /// nothing about the others.
    pub(super) fn early_place(&self) -> Option<f64> {
        let Some(times) = &self.times else { return Some(EARLY) };
        let part = times.up_to.iter().position(|share| *share >= EARLY - 1e-9)?;
        Some((part + 1) as f64 / PARTS as f64).filter(|fraction| *fraction <= 0.5)
    }

    /// How long after the load's start the first requests have been sent.
    pub(super) fn early_until(&self) -> Duration {
        self.lead + self.span.mul_f64(self.early_place().unwrap_or(0.0))
    }

    /// Share of the requests that are sent up to a fraction of its span.
    fn share_up_to(&self, fraction: f64) -> f64 {
        let fraction = fraction.clamp(0.0, 1.0);
        let Some(times) = &self.times else { return fraction };
        let (part, within) = ((fraction * PARTS as f64) as usize, (fraction * PARTS as f64).fract());
        let up_to = |parts: usize| parts.checked_sub(1).map_or(0.0, |last| times.up_to[last.min(PARTS - 1)]);
        up_to(part) + within * (up_to(part + 1) - up_to(part))
    }

    /// The mean place of the requests that are sent between two places.
    pub(super) fn mean_place(&self, from: f64, to: f64) -> f64 {
        let steps = |number: usize| from + (to - from) * number as f64 / PARTS as f64;
        let parts = (0..PARTS).map(|number| {
            let (from, to) = (steps(number), steps(number + 1));
            (self.share_up_to(to) - self.share_up_to(from), f64::midpoint(from, to))
        });
        let (all, sum) = parts.fold((0.0, 0.0), |(all, sum), (share, fraction)| (all + share, sum + share * fraction));
        if all > 0.0 { sum / all } else { f64::midpoint(from, to) }
    }

    /// How many of `count` requests would be under way in a stretch if all took as long as the `times` of some: the mean, beside
    /// what a schedule's own bursts let wait, and the variance over these times.
    pub(super) fn explained(&self, stretch: Stretch, times: &Distribution, count: u64) -> (f64, f64) {
        let at = stretch.middle();
        let sent = self.share_up_to(at);
        let under_way = |ns: u64| {
            let fraction = at - ns as f64 / self.span.as_nanos() as f64;
            count as f64 * (sent - self.share_up_to(fraction))
        };
        let counts = || {
            times
                .histogram
                .iter_recorded()
                .map(|step| (step.count_at_value() as f64, under_way(step.value_iterated_to())))
        };
        let all = times.count() as f64;
        let mean = counts().map(|(count, number)| count * number).sum::<f64>() / all;
        let variance = counts().map(|(count, number)| count * (number - mean).powi(2)).sum::<f64>() / all;
        let waiting = self.times.map_or((0.0, 0.0), |times| times.waiting);
        (mean + if stretch == Stretch::Last { waiting.0 } else { waiting.1 }, variance)
    }
}

impl Times {
    /// Those of so many requests at these places, the first at 0 and the last at 1.
    fn new(places: impl Iterator<Item = f64>, count: u64) -> Self {
        let (mut queue, mut up_to) = (Queue::default(), [0.0; PARTS]);
        // Counted in gaps of average length: the mean rate is one in each.
        let gaps = count.saturating_sub(1) as f64;
        let (mut waited, mut at_the_end) = (0.0, 0.0);
        for fraction in places {
            up_to[((fraction * PARTS as f64) as usize).min(PARTS - 1)] += 1.0 / count as f64;
            queue.pass(fraction.min(LAST) * gaps);
            waited += queue.pass(fraction.min(END) * gaps);
            at_the_end += queue.pass(fraction * gaps);
            queue.waiting += 1.0;
        }
        let mut sent = 0.0;
        for share in &mut up_to {
            sent += *share;
            *share = sent;
        }
        let waiting = ((waited + at_the_end) / ((1.0 - LAST) * gaps), at_the_end / ((1.0 - END) * gaps));
        Self { up_to, waiting }
    }
}

impl Queue {
    /// Goes on until `moment`, unless that has passed; returns the integral of what waited meanwhile.
    fn pass(&mut self, moment: f64) -> f64 {
        let done = (moment - self.now).clamp(0.0, self.waiting);
        self.now = self.now.max(moment);
        self.waiting -= done;
        (self.waiting + done / 2.0) * done
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn times(offsets: &[u64]) -> Times {
        Sending::of_times(offsets.iter().copied()).unwrap().times.unwrap()
    }

    fn distribution(ns: impl Iterator<Item = u64>) -> Distribution {
        let mut times = Distribution::empty();
        for ns in ns {
            times.histogram.record(ns).unwrap();
            times.sum_ns += u128::from(ns);
        }
        times
    }

    #[test]
    fn the_sending_lasts_from_the_first_request_to_the_last() {
        let sending = Sending::of_times([7 * SECOND, 8 * SECOND, 11 * SECOND].into_iter()).unwrap();
        assert_eq!((sending.lead, sending.span()), (Duration::from_secs(7), Duration::from_secs(4)));
        let fraction_at = |seconds| sending.fraction(Duration::from_secs(seconds));
        assert_eq!([5, 7, 8, 10, 11].map(fraction_at), [0.0, 0.0, 0.25, 0.75, 1.0]);
        assert_eq!(sending.stretches(Duration::from_secs(10)), (true, false));
        assert_eq!(sending.stretches(Duration::from_millis(10_900)), (true, true));
        assert_eq!(sending.stretches(Duration::from_secs(11)), (false, false));
        let at_once: [&[u64]; 3] = [&[], &[7], &[7, 7]];
        assert!(at_once.iter().all(|offsets| Sending::of_times(offsets.iter().copied()).is_none()));
    }

    #[test]
    fn what_waits_at_the_mean_rate_is_computed_by_hand() {
        let even: Vec<u64> = (0..101).map(|number| number * SECOND).collect();
        let (last, end) = times(&even).waiting;
        assert!((last - 0.5).abs() < 1e-9 && (end - 0.5).abs() < 0.05, "a request waits for itself: {last} {end}");
        // Nine come after 6 s of 10. One is completed a second: 7.5 wait as the last quarter begins, 5 as it ends.
        let burst: Vec<u64> = [0].into_iter().chain([6 * SECOND; 9]).chain([10 * SECOND]).collect();
        let (last, end) = times(&burst).waiting;
        assert!((last - f64::midpoint(7.5, 5.0)).abs() < 1e-9, "{last}");
        assert!((end - f64::midpoint(5.625, 5.0)).abs() < 1e-9, "{end}");
    }

    #[test]
    fn the_first_requests_are_a_quarter_of_all() {
        let steady = Sending::steady(Duration::from_secs(8));
        assert_eq!((steady.early_place(), steady.early_until()), (Some(0.25), Duration::from_secs(2)));
        let even = Sending::of_times((0..1_000).map(|number| (number + 5) * SECOND)).unwrap();
        assert_eq!(even.early_place(), Some(0.25));
        assert!((even.early_until().as_secs_f64() - (5.0 + 999.0 / 4.0)).abs() < 1e-6);
        let late = Sending::of_times([0].into_iter().chain((0..99).map(|number| 900 + number))).unwrap();
        assert_eq!((late.early_place(), late.early_until()), (None, Duration::ZERO));
        let (mean, later) = (even.mean_place(0.0, 0.25), steady.mean_place(0.25, 1.0));
        assert!((mean - 0.125).abs() < 0.01 && (later - 0.625).abs() < 1e-9, "{mean} {later}");
    }

    #[test]
    fn as_many_are_under_way_as_their_times_explain() {
        // Ten a second for 6 s, whose answers take from 2 s to 8 s.
        let sending = Sending::steady(Duration::from_secs(6));
        let even = distribution((0..=600).map(|number| 2 * SECOND + number * SECOND / 100));
        let (mean, variance) = sending.explained(Stretch::Last, &even, 60);
        // The mean of the smaller of 5.25 s and a number from 2 to 8.
        let expected = 10.0 * (2.0 + 3.25 - 3.25 * 3.25 / 12.0);
        assert!((mean / expected - 1.0).abs() < 0.01, "{mean} {expected}");
        assert!(variance > 50.0, "{variance}");
        let schedule = Sending::of_times((0..60).map(|number| number * SECOND / 10)).unwrap();
        let (same, _) = schedule.explained(Stretch::Last, &even, 60);
        assert!((same - expected).abs() < 2.0, "{same}: but for what waits for itself");
        let (alike, none) = sending.explained(Stretch::End, &distribution([SECOND].into_iter()), 60);
        assert!((alike - 10.0).abs() < 0.1 && none == 0.0, "{alike} {none}");
    }
}
