//! Whether a figure of a level drifts: a cache that fills, a queue that grows, a machine that gets hot. Then all windows
//! together are no picture of any time, however narrow the interval is.

use crate::blocks::{Block, Blocks};
use crate::terms::Statistic;

/// The level is compared in this many stretches.
const STRETCHES: usize = 12;
/// Fewer have no order that chance would not bring about.
const FEWEST: usize = 6;
/// What changes this much less in the last windows than over the whole level has come to rest, or nearly.
const STILL: f64 = 1.0 / 3.0;
/// The order of stretches without drift is this many standard deviations from none in one case of a thousand. It is looked
/// at after every window, and what others take of the machine makes neighbouring stretches alike.
const BY_CHANCE: f64 = 3.291;

/// By how much a figure rose from the first third of a level to the last, as a share of it (below 0 where it fell), if that
/// is more than `allowed` and the order of all its stretches says that it is no chance (Mann, 1945).
pub(super) fn drift(statistic: Statistic, blocks: &Blocks, allowed: f64) -> Option<f64> {
    let figures = figures(statistic, blocks);
    if figures.len() < FEWEST || !is_ordered(&figures) {
        return None;
    }
    let Ends { first, last } = Ends::of(&figures);
    let apart = if first > 0.0 { last / first - 1.0 } else { f64::INFINITY };
    (apart > allowed || apart < -allowed / (1.0 + allowed)).then_some(apart)
}

/// The same of a whole level whose last windows alone show too little of it, if the figure goes on to change in these: what changes
/// evenly without end changes by an ever smaller share of itself.
pub(super) fn goes_on(statistic: Statistic, level: &Blocks, last: &Blocks, allowed: f64) -> Option<f64> {
    let slope = |blocks: &Blocks| {
        let (figures, seconds) = (figures(statistic, blocks), blocks.each().iter().map(|block| block.seconds));
        let Ends { first, last } = Ends::of(&figures);
        (last - first) / seconds.sum::<f64>()
    };
    drift(statistic, level, allowed).filter(|_| slope(last) / slope(level) > STILL)
}

/// Whether a figure changes once, by more than `allowed`, in the first two thirds of a level and is steady before and after: a
/// server that has warmed up. The order of so few stretches does not tell that from chance, but their distance does.
pub(super) fn has_step(statistic: Statistic, blocks: &Blocks, allowed: f64) -> bool {
    let figures = figures(statistic, blocks);
    let latest = 2 * figures.len() / 3;
    let is_step = |at: usize| {
        // It changes somewhere in one of the stretches.
        let (before, after) = (Range::of(&figures[..at]), Range::of(&figures[at + 1..]));
        let (lower, upper) = if before.high < after.low { (before, after) } else { (after, before) };
        let gap = upper.low - lower.high;
        gap > allowed * lower.high && gap >= lower.width().max(upper.width())
    };
    figures.len() >= FEWEST && (FEWEST / 3..=latest).any(is_step)
}

/// The least and the most of some figures.
#[derive(Clone, Copy)]
struct Range {
    low: f64,
    high: f64,
}

impl Range {
    fn of(figures: &[f64]) -> Self {
        let (low, high) = (f64::INFINITY, f64::NEG_INFINITY);
        figures.iter().fold(Self { low, high }, |range, figure| Self {
            low: range.low.min(*figure),
            high: range.high.max(*figure),
        })
    }

    fn width(self) -> f64 {
        self.high - self.low
    }
}

/// The figure of each stretch.
fn figures(statistic: Statistic, blocks: &Blocks) -> Vec<f64> {
    let figure = |stretch: &Block| match statistic {
        Statistic::Throughput => (stretch.seconds > 0.0).then(|| stretch.requests as f64 / stretch.seconds),
        Statistic::MeanLatency => stretch.latency_ns(None),
        Statistic::Percentile(percentile) => stretch.latency_ns(Some(percentile)),
    };
    blocks.stretches(STRETCHES).iter().filter_map(figure).collect()
}

/// The means of the first third of some figures, and of the last.
struct Ends {
    first: f64,
    last: f64,
}

impl Ends {
    fn of(figures: &[f64]) -> Self {
        let third = figures.len() / 3;
        let mean = |part: &[f64]| part.iter().sum::<f64>() / part.len() as f64;
        Self { first: mean(&figures[..third]), last: mean(&figures[figures.len() - third..]) }
    }
}

/// Whether values rise, or fall, more often than chance lets them.
fn is_ordered(values: &[f64]) -> bool {
    let n = values.len() as f64;
    let pairs =
        values.iter().enumerate().flat_map(|(at, earlier)| values[at + 1..].iter().map(move |later| later - earlier));
    let rises: f64 = pairs.map(|rise| if rise == 0.0 { 0.0 } else { rise.signum() }).sum();
    let deviation = (n * (n - 1.0) * (2.0 * n + 5.0) / 18.0).sqrt();
    (rises.abs() - 1.0) / deviation > BY_CHANCE
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::summary::sample;
    use crate::seed::{hash, unit};

    fn blocks(requests: impl Fn(u64) -> u64) -> Blocks {
        let mut blocks = Blocks::default();
        (0..48).for_each(|number| blocks.push(Block::new(&sample::client(requests(number), 1_000_000))));
        blocks
    }

    #[test]
    fn what_rises_all_the_time_drifts_and_what_goes_up_and_down_does_not() {
        let found = drift(Statistic::Throughput, &blocks(|number| 1_000 + 10 * number), 0.1).unwrap();
        assert!((found - 0.3).abs() < 0.1, "{found}");
        assert!(drift(Statistic::Throughput, &blocks(|number| 2_000 - 20 * number), 0.1).unwrap() < -0.2);
        assert_eq!(drift(Statistic::Throughput, &blocks(|number| 1_000 + number), 0.1), None, "little");
        assert_eq!(drift(Statistic::Throughput, &blocks(|number| 1_000 + 500 * (number / 8 % 2)), 0.1), None);
        assert_eq!(drift(Statistic::MeanLatency, &blocks(|number| 1_000 + 10 * number), 0.1), None);
    }

    #[test]
    fn a_server_that_has_warmed_up_takes_one_step() {
        let noise = |number: u64| (unit(hash(1, number)) * 60.0) as u64;
        let step = |at: u64, rate: u64| blocks(move |number| if number < at { rate } else { 1_000 } + noise(number));
        let has_step = |blocks: &Blocks| has_step(Statistic::Throughput, blocks, 0.1);
        assert!(has_step(&step(10, 500)) && has_step(&step(24, 700)) && has_step(&step(20, 2_000)));
        assert!(!has_step(&step(44, 500)), "what follows is too little");
        assert!(!has_step(&step(10, 980)) && !has_step(&step(0, 0)));
        assert!(!has_step(&blocks(|number| 1_000 + 500 * (number / 8 % 2))), "it goes up and down");
        assert!(
            drift(Statistic::Throughput, &step(20, 500), 0.1).is_none(),
            "what the order of stretches does not tell"
        );
    }

    #[test]
    fn what_changes_evenly_goes_on_and_what_comes_to_rest_does_not() {
        let level = |latency_ms: &dyn Fn(u64) -> u64| {
            let each = (0..80).map(|number| Block::new(&sample::client(100, 1_000_000 * latency_ms(number))));
            let (mut whole, mut last) = (Blocks::default(), Blocks::default());
            each.enumerate().for_each(|(number, block)| {
                if number >= 68 {
                    last.push(block.clone());
                }
                whole.push(block);
            });
            (drift(Statistic::MeanLatency, &last, 0.1), goes_on(Statistic::MeanLatency, &whole, &last, 0.1))
        };
        let (in_last, even) = level(&|number| 150 + 10 * number);
        assert!(in_last.is_none() && even.is_some_and(|share| share > 1.0), "{in_last:?} {even:?}");
        assert_eq!(level(&|number| 150 + 10 * number.min(60)).1, None, "it has come to rest");
        assert_eq!(level(&|_| 100).1, None);
    }

    #[test]
    fn chance_drifts_rarely() {
        let noisy = |run: u64| blocks(move |number| 500 + (unit(hash(run, number)) * 1_000.0) as u64);
        let drifts = (0..100).filter(|run| drift(Statistic::Throughput, &noisy(*run), 0.05).is_some()).count();
        assert!(drifts <= 3, "{drifts} of 100");
    }

    #[test]
    fn a_machine_that_is_slow_at_times_drifts_rarely() {
        // Others come and go every five blocks on average, and it is looked at after each of 20 windows of four blocks.
        let rates = |run: u64| {
            let mut rate = 1_000;
            let draw = move |at: u64| unit(hash(run, at));
            (0..80).map(move |at| {
                rate = if draw(2 * at) < 0.2 { 700 + (draw(2 * at + 1) * 600.0) as u64 } else { rate };
                rate
            })
        };
        let drifts = |run: &u64| {
            let mut blocks = Blocks::default();
            rates(*run).enumerate().any(|(at, rate)| {
                blocks.push(Block::new(&sample::client(rate, 1_000_000)));
                at % 4 == 3 && drift(Statistic::Throughput, &blocks, 0.1).is_some()
            })
        };
        let count = (0..100).filter(drifts).count();
        assert!(count <= 15, "{count} of 100");
    }
}
