//! How often noise looks like a server that warms up: simulated machines that others use, and servers that never change.

use super::coverage::{Law, Server};
use super::*;
use crate::drift::step;
use crate::result::disagreement::STABLE_WINDOWS;
use crate::seed::{hash, unit};
use crate::warm_up::WarmUp;

/// Other runs than those that the rule was found with.
const SEED: u64 = 0x57e9_0002;
/// How often each world is simulated.
const RUNS: u64 = 400;
const MOST_WINDOWS: usize = 10;
const BLOCKS: usize = 16;

/// After how many windows a step is beyond doubt, of so many at most; `next` is the next block.
fn seen(mut next: impl FnMut() -> Block) -> Option<usize> {
    let mut blocks = Blocks::default();
    (1..=MOST_WINDOWS).find(|windows| {
        (0..BLOCKS).for_each(|_| blocks.push(next()));
        let is_beyond_doubt = |statistic| {
            let before_last = (windows.saturating_sub(STABLE_WINDOWS) * BLOCKS) as f64;
            let step = step(statistic, &blocks, 0.1).filter(|step| step.over.as_secs_f64() <= before_last);
            step.is_some_and(|step| WarmUp { statistic, step }.is_beyond_doubt())
        };
        [Statistic::Throughput, Statistic::MeanLatency].into_iter().any(is_beyond_doubt)
    })
}

/// Machines that others use.
#[derive(Clone, Copy, Debug)]
enum World {
    /// Others come and go, so many blocks apart in the mean, and take any share of the processor up to this.
    Shared(f64, f64),
    /// The processor is half busy for so many blocks, and not for so many, in the mean.
    HalfBusy(f64, f64),
    /// The server warms up for so many blocks, at this share of its rate.
    WarmUp(u64, f64),
}

struct Rates {
    world: World,
    stream: u64,
    drawn: u64,
    blocks: u64,
    rate: f64,
    busy: bool,
    /// How much a block differs by itself.
    noise: f64,
}

impl Rates {
    fn of(world: World, noise: f64, run: u64) -> Self {
        Self { world, stream: hash(SEED, run), drawn: 0, blocks: 0, rate: 0.0, busy: false, noise }
    }

    fn draw(&mut self) -> f64 {
        self.drawn += 1;
        unit(hash(self.stream, self.drawn))
    }

    fn next(&mut self) -> Block {
        self.blocks += 1;
        let is_first = self.blocks == 1;
        match self.world {
            World::Shared(apart, most) => {
                if is_first || self.draw() < 1.0 / apart {
                    self.rate = 1.0 - most * self.draw();
                }
            }
            World::HalfBusy(busy, free) => {
                let share = busy / (busy + free);
                let changes = self.draw() < 1.0 / if self.busy { busy } else { free };
                self.busy = if is_first { self.draw() < share } else { self.busy != changes };
                self.rate = if self.busy { 0.5 } else { 1.0 };
            }
            World::WarmUp(blocks, rate) => self.rate = if self.blocks <= blocks { rate } else { 1.0 },
        }
        let noise = 1.0 + self.noise * (self.draw() - 0.5);
        Block::of_requests(1.0, (2_000.0 * self.rate * noise) as u64, 0)
    }
}

/// After how many windows it is seen in each run.
fn runs(world: World, noise: f64, runs: u64) -> Vec<Option<usize>> {
    let run = |run| {
        let mut rates = Rates::of(world, noise, run);
        seen(|| rates.next())
    };
    (0..runs).map(run).collect()
}

/// Of so many runs a false step is seen in few: where one spell of others ends as the level begins and none follows in it, it looks
/// as a warm-up does.
fn assert_few(world: &str, seen: usize, most: usize) {
    assert!(seen <= most, "{world}: {seen} of {RUNS}");
}

#[test]
fn others_on_the_machine_are_no_warm_up() {
    let worlds = [
        (World::Shared(2.0, 0.5), 0),
        (World::Shared(5.0, 0.5), 0),
        (World::Shared(16.0, 0.5), 0),
        (World::Shared(40.0, 0.5), 0),
        (World::Shared(5.0, 0.8), 4),
        (World::Shared(16.0, 0.8), 12),
        (World::Shared(40.0, 0.8), 20),
        (World::HalfBusy(2.0, 2.0), 0),
        (World::HalfBusy(5.0, 5.0), 0),
        (World::HalfBusy(16.0, 16.0), 0),
        (World::HalfBusy(40.0, 40.0), 0),
        (World::HalfBusy(5.0, 20.0), 0),
        (World::HalfBusy(20.0, 60.0), 0),
    ];
    for (world, most) in worlds {
        for noise in [0.04, 0.2] {
            let seen = runs(world, noise, RUNS).iter().flatten().count();
            assert_few(&format!("{world:?}"), seen, most);
        }
    }
}

#[test]
#[cfg_attr(debug_assertions, ignore = "a study of seconds with optimisation: scripts/test-slow studies")]
fn a_server_that_never_changes_does_not_warm_up() {
    let laws = [(Law::Exponential, 300), (Law::Bimodal, 300), (Law::Queue(0.5), 1000), (Law::Queue(0.8), 1000)];
    // Of the last, spells are half as long as a window.
    for (law, requests) in laws.into_iter().chain([(Law::Loop, 400), (Law::Shared, 300)]) {
        let seen = (0..RUNS).filter(|run| of_law(law, requests, *run).is_some()).count();
        assert_few(&format!("{law:?}"), seen, if law == Law::Shared { 20 } else { 0 });
    }
}

/// Windows have 16 blocks, and three must come after it.
#[test]
fn a_warm_up_is_seen_as_soon_as_it_is_over_for_three_windows_and_for_as_long() {
    for rate in [0.2, 0.35] {
        for (blocks, windows) in [(8, 4), (10, 4), (16, 4), (20, 5), (32, 5), (40, 6), (64, 8)] {
            for noise in [0.04, 0.2] {
                let seen = runs(World::WarmUp(blocks, rate), noise, 20);
                assert!(seen.iter().all(|seen| *seen == Some(windows)), "{blocks} blocks at {rate}: {seen:?}");
            }
        }
    }
}

/// The same of a server whose windows have so many requests in the mean.
fn of_law(law: Law, requests: u64, run: u64) -> Option<usize> {
    let mut server = Server::start(law, hash(SEED, run));
    let length = requests as f64 / law.rate() / BLOCKS as f64;
    let (mut open_end, mut open, mut latency) = (server.end() + length, Vec::new(), Distribution::empty());
    seen(|| {
        loop {
            let (ended, took) = server.next();
            let is_over = ended > open_end;
            let block = is_over.then(|| Block::of_latencies(1.0, &mut open, &mut latency));
            if is_over {
                open.clear();
                open_end += length;
            }
            open.push((took * 1e6) as u64);
            if let Some(block) = block {
                return block;
            }
        }
    })
}
