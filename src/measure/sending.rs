//! [`Sending`]: how long a load is sent for, and how many of its requests may be under way at the end if the server keeps
//! up.
//!
//! At a rate, as many as before. A schedule has bursts, for which no server is to blame. But one that completes its mean
//! rate, and takes some time over each request, never has more under way than the mean rate brings in that time, plus
//! what waits at a server that completes exactly the mean rate. The latter follows from the schedule alone.

use std::time::Duration;

/// Of fewer requests in the second quarter it cannot be said how long they take.
const FEWEST: u64 = 10;
/// Chance is granted this many standard errors.
const DEVIATIONS: f64 = 3.0;

/// How long a load is sent for.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sending {
    /// From the load's start to the first request.
    lead: Duration,
    /// From the first request to the last.
    span: Duration,
    /// What a schedule asks for; absent for a rate.
    times: Option<Times>,
}

/// What a schedule asks for in the two quarters of its span that are compared.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Times {
    /// Requests in a quarter on average.
    usual: f64,
    /// Those in the second quarter, and in the last.
    second: u64,
    last: u64,
    /// Mean number that waits in the last quarter at a server that completes exactly the mean rate.
    waiting: f64,
}

/// A queue at a server that completes one request in each unit of time.
#[derive(Default)]
struct Queue {
    waiting: f64,
    now: f64,
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
        // Counted in gaps of average length: the mean rate is one in each.
        let gaps = (count - 1) as f64;
        let places = offsets.map(|offset| (offset - first) as f64 / span as f64 * gaps);
        let times = Some(Times::of(places, gaps / 4.0));
        Some(Self { lead: Duration::from_nanos(first), span: Duration::from_nanos(span), times })
    }

    /// From the first request to the last.
    pub(super) fn span(&self) -> Duration {
        self.span
    }

    /// In which quarter of the sending the load is so long after its start, from 0; NaN or infinite without a length.
    pub(super) fn quarter(&self, elapsed: Duration) -> f64 {
        elapsed.saturating_sub(self.lead).as_secs_f64() * 4.0 / self.span.as_secs_f64()
    }

    /// How many more requests are under way in the last quarter than a server has that keeps up, from the means of the second
    /// quarter and of the last; `spread` is the standard deviation of the times that requests take, as a multiple of their
    /// mean. `None` if that cannot be said.
    pub(super) fn grown(&self, second: f64, last: f64, spread: f64) -> Option<f64> {
        match self.times {
            Some(times) => times.grown(second, last, spread),
            None => Some(last - second),
        }
    }
}

impl Times {
    /// Those of requests at these places, the first at 0 and the last after four quarters.
    fn of(places: impl Iterator<Item = f64>, quarter: f64) -> Self {
        let mut queue = Queue::default();
        let (mut count, mut second, mut last, mut waited) = (0_u64, 0, 0, 0.0);
        for place in places {
            match place / quarter {
                1.0..2.0 => second += 1,
                3.0.. => last += 1,
                _ => {}
            }
            queue.pass(place.min(3.0 * quarter));
            waited += queue.pass(place);
            queue.waiting += 1.0;
            count += 1;
        }
        Self { usual: count as f64 / 4.0, second, last, waiting: waited / quarter }
    }

    fn grown(&self, second: f64, last: f64, spread: f64) -> Option<f64> {
        if self.second < FEWEST {
            return None;
        }
        let usual = second / self.second as f64 * self.usual;
        // At least so many requests are seen in a quarter; each error is that of a mean over them.
        let seen = |under_way: f64, sent: u64| under_way.max(sent as f64).max(1.0);
        let variance = last.powi(2) / seen(last, self.last) + usual.powi(2) / seen(second, self.second);
        Some(last - usual - self.waiting - DEVIATIONS * spread * variance.sqrt())
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

    #[test]
    fn the_sending_lasts_from_the_first_request_to_the_last() {
        let sending = Sending::of_times([7 * SECOND, 8 * SECOND, 11 * SECOND].into_iter()).unwrap();
        assert_eq!((sending.lead, sending.span()), (Duration::from_secs(7), Duration::from_secs(4)));
        let quarter = |seconds| sending.quarter(Duration::from_secs(seconds));
        assert_eq!([5, 7, 8, 10, 11].map(quarter), [0.0, 0.0, 1.0, 3.0, 4.0]);
        let at_once: [&[u64]; 3] = [&[], &[7], &[7, 7]];
        assert!(at_once.iter().all(|offsets| Sending::of_times(offsets.iter().copied()).is_none()));
    }

    #[test]
    fn what_waits_at_the_mean_rate_is_computed_by_hand() {
        let even: Vec<u64> = (0..101).map(|number| number * SECOND).collect();
        let found = times(&even);
        assert_eq!((found.usual, found.second, found.last), (25.25, 25, 26));
        assert!((found.waiting - 0.5).abs() < 1e-9, "a request waits for itself: {}", found.waiting);
        // Nine come after 6 s of 10. One is completed a second: 7.5 wait as the last quarter begins, 5 as it ends.
        let burst: Vec<u64> = [0].into_iter().chain([6 * SECOND; 9]).chain([10 * SECOND]).collect();
        let found = times(&burst);
        assert_eq!((found.second, found.last), (0, 1));
        assert!((found.waiting - (7.5 + 5.0) / 2.0).abs() < 1e-9, "{}", found.waiting);
    }

    #[test]
    fn few_requests_say_nothing() {
        let of = |count: u64| Sending::of_times((0..count).map(|number| number * SECOND)).unwrap();
        assert_eq!(of(36).grown(1.0, 30.0, 0.0), None);
        assert!(of(60).grown(1.0, 30.0, 0.0).unwrap() > 28.0);
        assert!(of(60).grown(1.0, 3.0, 3.0).unwrap() < 0.0, "a single slow one is chance");
        assert_eq!(Sending::steady(Duration::from_secs(9)).grown(1.0, 3.0, 3.0), Some(2.0));
    }
}
