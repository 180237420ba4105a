//! Whether a candidate keeps up with the rate that is sent. The latencies of one that falls behind only tell how long it
//! was measured, so it misses a constraint, whatever they are.

use crate::plan::TunePlan;
use crate::result::Figures;
use crate::result::reasons::{InvalidReason, Verdict};
use crate::result::summary::LevelSummary;
use crate::result::timeline::Slice;

/// The figure by which that is judged: from 1 on a candidate keeps up.
pub const KEPT_UP: &str = "rate_kept_up";

/// This share of the requests may be missing.
const TOLERANCE: f64 = 0.01;
/// By how many standard deviations the number of requests under way may change by chance.
const DEVIATIONS: f64 = 2.0;
/// The smallest share that is distinguished from none.
const MIN_SHARE: f64 = 1e-6;
/// Where a queue grows, the quicker requests take at least this many times as long at the end of a window as at its beginning.
const GROWTH: f64 = 1.5;
/// A queue that was long before the window is not multiplied in it. There the quicker requests take longer by at least this share of what
/// the missing requests explain.
const RISE: f64 = 0.5;
/// The quantile of the quicker requests.
const QUICK: f64 = 0.2;
/// The quantile of the slower ones.
const MOST: f64 = 0.8;
/// Where a long queue makes all requests slow, the slower ones take at most this many times as long as the quicker.
const ALIKE: f64 = 2.0;

/// What was sent in a window, and what became of it.
struct Flow {
    sent: f64,
    completed: f64,
    /// Requests under way on average.
    under_way: f64,
    /// Whether requests take longer and longer. If they do not, some simply take longer than the load has run.
    grows: bool,
}

impl Flow {
    /// How much of what was sent is answered in the same time. What chance adds to the requests under way is granted.
    fn kept_up(&self) -> f64 {
        let granted = 1.0 + TOLERANCE * self.sent + DEVIATIONS * (2.0 * self.under_way).sqrt();
        let with_granted = (self.completed + granted) / self.sent;
        match with_granted < 1.0 {
            true if self.grows => self.completed / self.sent,
            true => 1.0,
            false => with_granted,
        }
    }
}

/// The figure of a level; none if no rate was sent.
pub fn kept_up(level: &LevelSummary) -> Option<f64> {
    let client = &level.client;
    let open = client.open_loop.as_ref()?;
    let (seconds, held_back) = (client.duration.as_secs_f64(), is_held_back(level));
    // What the client holds back is missing from what it sends, too, and from the queue that grows.
    let sent_rate = if held_back { open.requested_rate.max(open.achieved_rate) } else { open.achieved_rate };
    let missing = 1.0 - open.completed_rate / sent_rate;
    let flow = Flow {
        sent: sent_rate * seconds,
        completed: open.completed_rate * seconds,
        under_way: open.achieved_rate * open.service_time.mean_ns() / 1e9,
        grows: held_back || Growth { seconds, missing }.is_seen(&level.timeline.slices),
    };
    (flow.sent > 0.0).then(|| flow.kept_up())
}

/// Whether requests take longer and longer in a window of so many seconds, in which this share of what was sent is missing.
struct Growth {
    seconds: f64,
    missing: f64,
}

impl Growth {
    /// All of them must take longer: where some simply outlast the window, others are as quick as at its beginning.
    fn is_seen(&self, slices: &[Slice]) -> bool {
        if slices.len() < 2 {
            return false;
        }
        let third = slices.len().div_ceil(3);
        let (early, late) = (together(&slices[..third]), together(&slices[slices.len() - third..]));
        let quick = early.quantile_ns(QUICK).zip(late.quantile_ns(QUICK));
        let is_slower = quick.is_some_and(|(early, late)| late >= GROWTH * early || late >= early + self.rise_ns());
        let spread = late.quantile_ns(QUICK).zip(late.quantile_ns(MOST));
        is_slower && spread.is_some_and(|(quick, most)| most <= ALIKE * quick)
    }

    /// By how much a queue makes requests slower between the middles of the first third and the last.
    fn rise_ns(&self) -> f64 {
        RISE * self.missing * self.seconds * 2e9 / 3.0
    }
}

fn together(slices: &[Slice]) -> Slice {
    let mut all = Slice::default();
    slices.iter().for_each(|slice| all.absorb(slice));
    all
}

fn is_held_back(level: &LevelSummary) -> bool {
    let Verdict::Invalid(reasons) = &level.verdict else { return false };
    reasons.iter().any(|reason| matches!(reason, InvalidReason::HeldBack(_)))
}

/// How many requests a second follow each other in a single place, if they take this long.
pub fn of_single_requests(latency_ns: f64) -> f64 {
    1e9 / latency_ns.max(1.0)
}

/// Distance from keeping up, as a logarithm; above 0 the candidate falls behind. None if no rate was sent.
pub fn violation(figures: &Figures) -> Option<f64> {
    figures.named.get(KEPT_UP).map(|share| -share.max(MIN_SHARE).ln())
}

/// Whether a candidate falls behind.
pub fn falls_behind(figures: &Figures) -> bool {
    violation(figures).is_some_and(|violation| violation > 0.0)
}

/// What a candidate misses that misses something. `figures` are those of the candidate, if it was measured.
pub fn demand(plan: &TunePlan, figures: Option<&Figures>) -> &'static str {
    // Without any constraint it is the rate that a candidate is predicted to miss.
    let is_rate = plan.constraints.is_empty() || figures.is_some_and(falls_behind);
    if is_rate { "the rate" } else { "a constraint" }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::timeline::class;
    use crate::stats::seed::{hash, unit};

    const WARMUP_S: f64 = 0.2;
    const PARTS: usize = 10;

    /// A window of a second: when each request began, and how long it takes.
    fn window(requests: impl Iterator<Item = Request>) -> Flow {
        window_after(WARMUP_S, requests)
    }

    /// A window of 1 s after a warm-up of so many.
    fn window_after(warmup_s: f64, requests: impl Iterator<Item = Request>) -> Flow {
        let (mut sent, mut completed, mut sum_s) = (0.0, 0.0, 0.0);
        let mut slices = vec![Slice::default(); PARTS];
        for Request { began_s, takes_s } in requests {
            sent += f64::from(u8::from(began_s > warmup_s && began_s <= warmup_s + 1.0));
            let part = (began_s + takes_s - warmup_s) * PARTS as f64;
            if (0.0..PARTS as f64).contains(&part) {
                completed += 1.0;
                sum_s += takes_s;
                let ns = (takes_s * 1e9) as u64;
                let slice = &mut slices[part as usize];
                slice.max_ns = slice.max_ns.max(ns);
                slice.add(class(ns), 1);
            }
        }
        let growth = Growth { seconds: 1.0, missing: 1.0 - completed / sent };
        Flow { sent, completed, under_way: sent * sum_s / completed, grows: growth.is_seen(&slices) }
    }

    struct Request {
        began_s: f64,
        takes_s: f64,
    }

    /// Requests that begin at random, so many a second, for two seconds.
    fn arrivals(rate: f64, seed: u64) -> impl Iterator<Item = f64> {
        let mut now = 0.0;
        (0..2 * rate as u64).map(move |number| {
            now -= (1.0 - unit(hash(seed, number))).ln() / rate;
            now
        })
    }

    /// One server, which such a load keeps busy for so much of its time.
    fn queue(load: f64, rate: f64, seed: u64) -> Flow {
        let mut free = 0.0_f64;
        window(arrivals(rate, seed).map(|began_s| {
            free = free.max(began_s) + load / rate;
            Request { began_s, takes_s: free - began_s }
        }))
    }

    #[test]
    fn a_server_that_falls_behind_is_told_from_one_that_is_busy() {
        let behind =
            |load: f64, rate: f64| (0..200).filter(|seed| queue(load, rate, hash(9, *seed)).kept_up() < 1.0).count();
        for rate in [50.0, 200.0, 2_000.0] {
            assert!(behind(0.5, rate) <= 2, "{rate}: {}", behind(0.5, rate));
            assert!(behind(0.9, rate) <= 20, "{rate}: {}", behind(0.9, rate));
            assert!(behind(2.0, rate) >= 190, "{rate}: {}", behind(2.0, rate));
        }
        // Over several trials the median decides.
        assert!(behind(1.25, 200.0) >= 150, "{}", behind(1.25, 200.0));
        assert!(behind(1.05, 2_000.0) >= 120, "{}", behind(1.05, 2_000.0));
    }

    /// Requests of which many outlast the window: fewer end in it than are sent, and nothing falls behind.
    #[test]
    fn a_queue_that_was_long_before_the_window_is_seen_to_grow() {
        let behind = |load: f64, seed: u64| {
            let mut free = 0.0_f64;
            let mut now = 0.0;
            let requests = (0..1_000).map(|number| {
                now -= (1.0 - unit(hash(seed, number))).ln() / 200.0;
                free = free.max(now) + load / 200.0;
                Request { began_s: now, takes_s: free - now }
            });
            window_after(3.0, requests).kept_up() < 1.0
        };
        let behind = |load: f64| (0..100).filter(|seed| behind(load, hash(5, *seed))).count();
        assert!(behind(2.0) >= 85, "{}", behind(2.0));
        assert!(behind(0.9) <= 10, "{}", behind(0.9));
    }

    #[test]
    fn who_takes_longer_than_the_warm_up_is_not_behind_for_that() {
        for takes in [|_| 0.8, |draw: f64| if draw < 0.5 { 0.05 } else { 5.0 }, |draw: f64| -(1.0 - draw).ln() * 0.4] {
            let behind = |seed: &u64| {
                let requests = arrivals(200.0, *seed).enumerate().map(|(number, began_s)| {
                    let takes_s = takes(unit(hash(*seed ^ 0x77, number as u64)));
                    Request { began_s, takes_s }
                });
                window(requests).kept_up() < 1.0
            };
            let behind = (0..100).filter(behind).count();
            assert!(behind <= 5, "{behind} of 100");
        }
    }

    #[test]
    fn what_is_missed_is_named() {
        use crate::app::tune::sample::plan;
        let figures = |share: f64| Figures { named: [(KEPT_UP.to_owned(), share)].into(), ..Figures::default() };
        let (plain, limited) = (plan("--at-rate 9"), plan("--at-rate 9 --constraint p99<5ms"));
        assert_eq!(demand(&limited, Some(&figures(0.7))), "the rate");
        assert_eq!(demand(&limited, Some(&figures(1.0))), "a constraint");
        assert_eq!(demand(&limited, None), "a constraint");
        assert_eq!(demand(&plain, None), "the rate");
    }
}
