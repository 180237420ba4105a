//! Whether a level's numbers can be believed; if not, why, and what to change.
//!
//! [`judge`] is a function of values. Each test has its limit as a constant here, with its reason.

use std::time::Duration;

use crate::record::Completed;
use crate::result::reasons::{InvalidReason, Verdict};
use crate::result::statistic::value;
use crate::result::summary::{ClientSummary, Ending, LevelLoad, LevelSummary, StatisticEstimate};
use crate::stats::{beta_cdf, early_stopping_floor, littles_law_gap};
use crate::terms::Precision;

/// A rate counts as reached where no more than this share is missing, beyond what chance takes away.
pub const RATE_TOLERANCE: f64 = 0.01;
/// Chance is granted this many standard deviations of the number of requests in the window.
pub const CHANCE_DEVIATIONS: f64 = 3.0;
/// A load that goes on is ended for its failures where that many would be this unlikely if it failed as much as it may. Small,
/// because it is looked at again and again.
const EARLY_PROBABILITY: f64 = 0.001;
/// How far Little's law may be off: what the ends of a window and the tool's own turn-around explain.
pub const LITTLE_TOLERANCE: f64 = 0.05;
/// By this share more requests may be under way at a moment than on average.
const WAITING_TOLERANCE: f64 = 0.25;
/// Between two requests a thread of the client may wait this long for a processor, which says nothing of the requests: a few
/// slices of the kernel's scheduler, and as much as a new thread takes to start on a busy machine.
const SCHEDULING: Duration = Duration::from_millis(20);

/// Other programs keep a request from the processor for no longer than this.
const LONGEST_STALL: Duration = Duration::from_millis(500);

/// Where others are at work, this share of the requests may leave too late. Their times count from when they were due, so no
/// figure is better than it would be without the others; with `--latency-from sent` the report's share of delayed requests says
/// what is not in them.
const LATE_BESIDE_OTHERS: f64 = 0.25;

/// The last of so many parts of a level may be a moment in which the server stands still.
const PARTS_OF_A_LEVEL: usize = 6;

/// What an open loop sent in a part of a level, and what the server completed meanwhile.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Flow {
    /// Requests sent a second.
    pub sent: f64,
    /// Requests that ended, a second.
    pub completed: f64,
    /// How long it was.
    pub length: Duration,
    /// How much longer slow requests take than others, in seconds: in that window where it is most. Over several windows a queue
    /// that grows makes all requests slow.
    pub slowness: f64,
}

impl Flow {
    /// That of a window; `None` if it is of no open loop.
    pub fn of(window: &ClientSummary) -> Option<Self> {
        let open = window.open_loop.as_ref()?;
        let slow = |share: f64| open.service_time.percentile_ns(share) as f64 / 1e9;
        Some(Self {
            sent: open.achieved_rate,
            completed: open.completed_rate,
            length: window.duration,
            slowness: slow(99.0) - slow(50.0),
        })
    }

    /// That of all windows, one after the other; `None` if there is none.
    pub fn together(windows: &[Self]) -> Option<Self> {
        let length: Duration = windows.iter().map(|window| window.length).sum();
        let mut all = Self { length, ..Self::default() };
        for window in windows {
            let share = window.length.div_duration_f64(length);
            all.sent += window.sent * share;
            all.completed += window.completed * share;
            all.slowness = all.slowness.max(window.slowness);
        }
        (!length.is_zero()).then_some(all)
    }

    /// Whether the server falls behind by more than the tolerance and `granted` requests.
    fn falls_behind(&self, granted: impl Fn(&Self) -> f64) -> bool {
        missed(self.sent, self.completed, self.length, granted(self))
    }
}

/// The windows of an open loop that goes on, whichever of them make the result: a queue that has grown before them is still there.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Flows {
    /// All.
    pub all: Flow,
    /// Those after the first third. In the first, answers to what is sent are still to come that take longer than the first ones,
    /// whether the server keeps up or not.
    pub late: Flow,
    /// All but the last sixth, where there are six or more.
    pub before_last: Option<Flow>,
}

impl Flows {
    /// Those of windows, one after the other; `None` if there are fewer than two. Fewer than two thirds of them would not tell a
    /// queue that grows from one that is longer by chance, where answers take longer than a window.
    pub fn of(windows: &[Flow]) -> Option<Self> {
        let late = Flow::together(&windows[windows.len().div_ceil(3)..])?;
        let last = windows.len() / PARTS_OF_A_LEVEL;
        let before_last = if last > 0 { Flow::together(&windows[..windows.len() - last]) } else { None };
        Some(Self { all: Flow::together(windows)?, late, before_last })
    }

    /// Whether the server falls behind: over all windows, and still in the later ones. How many requests are under way changes by
    /// chance, the more their times differ. Beside others, it may also be more than usual at the end of the last window by what
    /// is sent while slow requests wait, up to a limit: times of seconds differ for other reasons than that somebody takes
    /// the processor. (Not in a load that is measured whole: its last requests have waited for all before them.)
    pub(super) fn fall_behind(&self, gap_variation: f64, beside_others: bool) -> bool {
        let granted = |flow: &Flow| self.granted(flow, gap_variation, beside_others);
        self.all.falls_behind(granted) && self.late.falls_behind(granted)
    }

    /// Whether it had fallen behind before the last windows, too, as far as that is known: one that stands still from time to time has
    /// most of what is due in its next windows.
    fn fell_behind_before(&self, gap_variation: f64, beside_others: bool) -> bool {
        let granted = |flow: &Flow| self.granted(flow, gap_variation, beside_others);
        self.before_last.is_none_or(|before| before.falls_behind(granted))
    }

    /// By how many requests what is under way may have changed.
    fn granted(&self, flow: &Flow, gap_variation: f64, beside_others: bool) -> f64 {
        let slowness = self.late.slowness;
        let stall = if beside_others { slowness.min(LONGEST_STALL.as_secs_f64()) } else { 0.0 };
        let under_way = CHANCE_DEVIATIONS * (flow.sent * slowness / 2.0).sqrt();
        chance(flow.sent, flow.length, gap_variation) + under_way + flow.sent * stall
    }
}

/// What the judgement needs to know besides the summary.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Evidence {
    /// Percentile that the headline and the search use.
    pub percentile: Option<f64>,
    /// What decides that a level is over, instead of windows that agree.
    pub precision: Option<Precision>,
    /// Why the windows were not enough, where that is known.
    pub disagreement: Option<InvalidReason>,
    /// Largest share of failed requests, 0 to 1.
    pub max_errors: f64,
    /// Standard deviation of the gaps between intended sends, as a multiple of their mean: 0 for constant rates, 1 for
    /// Poisson, `1 / sqrt(shape)` for gamma.
    pub gap_variation: f64,
    /// The requests of the whole level, where more windows were measured than make the result.
    pub over: Completed,
    /// What an open loop that goes on has sent and completed so far.
    pub flows: Option<Flows>,
    /// Mean number of requests under way, and the number of independent samples; needed for Little's law in open loops.
    pub outstanding: Option<(f64, u64)>,
    /// Requests that left late because `--max-outstanding` were under way.
    pub held_back: u64,
    /// How long the client's process stood still.
    pub still: Duration,
    /// Others were at work meanwhile, if only a little.
    pub beside_others: bool,
}

impl Evidence {
    /// Whether this is too large a share of requests that left too late, 0 to 1. It is more than what is always granted.
    pub(super) fn is_too_late(&self, share: f64) -> bool {
        !self.beside_others || share > LATE_BESIDE_OTHERS
    }
}

/// Judges a level.
pub fn judge(level: &LevelSummary, evidence: &Evidence) -> Verdict {
    let client = &level.client;
    if client.requests == 0 {
        return Verdict::Invalid(vec![nothing(level)]);
    }
    let errors = errors(level, evidence);
    let broken_off = level.ending == Ending::Failed && errors.is_none();
    let reasons: Vec<InvalidReason> = [
        errors,
        broken_off.then_some(InvalidReason::BrokenOff),
        (level.ending == Ending::Interrupted).then_some(InvalidReason::Interrupted),
        // Whatever is held back is late, and missing from the rate.
        rate(level, evidence).filter(|_| evidence.held_back == 0),
        overload(level, evidence),
        (evidence.held_back > 0).then_some(InvalidReason::HeldBack(evidence.held_back)),
        lateness(level, evidence).filter(|_| evidence.held_back == 0),
        (level.ending == Ending::Unstable).then(|| instability(level, evidence)),
        (!evidence.still.is_zero()).then_some(InvalidReason::StoodStill(evidence.still.as_secs_f64())),
        samples(client, evidence.percentile),
        littles_law(level, evidence),
    ]
    .into_iter()
    .flatten()
    .collect();
    if reasons.is_empty() { Verdict::Valid } else { Verdict::Invalid(reasons) }
}

/// Why windows were not enough.
fn instability(level: &LevelSummary, evidence: &Evidence) -> InvalidReason {
    let Some(wanted) = evidence.precision else {
        return evidence.disagreement.unwrap_or(InvalidReason::Unstable(None));
    };
    let estimate = StatisticEstimate::find(&level.intervals, wanted.statistic);
    InvalidReason::Imprecise(
        wanted,
        estimate.map(|interval| interval.relative_half_width(value(wanted.statistic, &level.client))),
    )
}

/// Why no request succeeded.
fn nothing(level: &LevelSummary) -> InvalidReason {
    match level.ending {
        _ if level.client.failed > 0 => InvalidReason::Nothing,
        Ending::Interrupted => InvalidReason::Interrupted,
        _ if level.client.cancelled > 0 => InvalidReason::AllCancelled(level.client.cancelled),
        _ => InvalidReason::NoneEnded,
    }
}

/// Too many requests failed, of those in the result, or of all where that has ended the level.
fn errors(level: &LevelSummary, evidence: &Evidence) -> Option<InvalidReason> {
    let ClientSummary { requests, failed, .. } = level.client;
    let Completed { succeeded: all_succeeded, failed: all_failed, .. } = evidence.over;
    let exceeds = |succeeded, failed| {
        let exceeds = exceeds_errors(evidence.max_errors, succeeded, failed);
        exceeds.then_some(InvalidReason::Errors(failed, succeeded + failed))
    };
    let of_all = || (level.ending == Ending::Failed).then(|| exceeds(all_succeeded, all_failed)).flatten();
    exceeds(requests, failed).or_else(of_all)
}

/// Whether more requests failed than the share `allowed`, 0 to 1, of those that succeeded or failed. Cancelled ones do neither.
pub fn exceeds_errors(allowed: f64, succeeded: u64, failed: u64) -> bool {
    failed as f64 > allowed * (succeeded + failed) as f64
}

/// Whether a load that goes on will exceed the share `allowed`, 0 to 1, by the requests that are `over`: for certain, where it
/// has `planned` requests in all; as good as certain, where their number is not known.
pub(super) fn will_exceed_errors(allowed: f64, over: Completed, planned: Option<u64>) -> bool {
    let Completed { succeeded, failed, cancelled } = over;
    exceeds_errors(allowed, succeeded, failed)
        && match planned {
            // At best, all others succeed.
            Some(planned) => exceeds_errors(allowed, planned.saturating_sub(failed + cancelled), failed),
            // The lower end of the share's interval is above the allowed one (Clopper and Pearson, 1934).
            None => beta_cdf(allowed, failed as f64, succeeded as f64 + 1.0) < EARLY_PROBABILITY,
        }
}

fn rate(level: &LevelSummary, evidence: &Evidence) -> Option<InvalidReason> {
    let open = level.client.open_loop.as_ref()?;
    let requested = match level.load {
        LevelLoad::RequestRate(requested) => requested,
        LevelLoad::Streams(_) => open.requested_rate,
        LevelLoad::Concurrency(_) | LevelLoad::Schedule(_) => return None,
    };
    let length = level.client.sending_length();
    // Where the last request of a short load waits for a processor, the load takes longer.
    let stall = if evidence.beside_others { SCHEDULING } else { Duration::ZERO };
    let granted = chance(requested, length, evidence.gap_variation) + requested * stall.as_secs_f64();
    missed(requested, open.achieved_rate, length, granted)
        .then_some(InvalidReason::RateNotReached(requested, open.achieved_rate))
}

fn lateness(level: &LevelSummary, evidence: &Evidence) -> Option<InvalidReason> {
    level.client.lateness().filter(|share| evidence.is_too_late(*share)).map(InvalidReason::IssuersLate)
}

/// Whether the server falls behind.
fn overload(level: &LevelSummary, evidence: &Evidence) -> Option<InvalidReason> {
    let open = level.client.open_loop.as_ref()?;
    let length = level.client.sending_length();
    let whole = Flow { sent: open.achieved_rate, completed: open.completed_rate, length, slowness: 0.0 };
    // What is measured whole has no later windows.
    let flows = evidence.flows.unwrap_or(Flows { all: whole, late: whole, before_last: None });
    let Flow { sent, completed, .. } = flows.all;
    let Evidence { gap_variation, beside_others, .. } = *evidence;
    // A level that has settled was measured on if its last windows left it behind. Another ends wherever it is.
    let is_settled = matches!(level.ending, Ending::Stable | Ending::Complete);
    let is_lasting = is_settled || flows.fell_behind_before(gap_variation, beside_others);
    let falls_behind = is_lasting && flows.fall_behind(gap_variation, beside_others);
    falls_behind.then_some(InvalidReason::Overloaded(sent, completed))
}

/// By how many requests chance may change the number of those that are sent in that time.
fn chance(rate: f64, duration: Duration, variation: f64) -> f64 {
    CHANCE_DEVIATIONS * variation * (rate * duration.as_secs_f64()).sqrt()
}

/// Whether `actual` events a second fall short of `expected` by more than the tolerance, one event, and those `granted`.
fn missed(expected: f64, actual: f64, duration: Duration, granted: f64) -> bool {
    let seconds = duration.as_secs_f64();
    (expected - actual) * seconds > RATE_TOLERANCE * expected * seconds + granted + 1.0
}

fn samples(client: &ClientSummary, percentile: Option<f64>) -> Option<InvalidReason> {
    let percentile = percentile?;
    let needed = early_stopping_floor(percentile)?;
    let count = client.latency.count();
    (count < needed).then_some(InvalidReason::TooFewSamples(percentile, count, needed))
}

/// Checks L = λW. Not for decoupled models, whose latency need not run to the end of the request, nor beside failures
/// and cancelled requests, whose time under way is not in the latency. Nor for conversations: between turns, and once no
/// conversation is left to begin, fewer requests are under way than there are places.
fn littles_law(level: &LevelSummary, evidence: &Evidence) -> Option<InvalidReason> {
    let client = &level.client;
    let gap = match (level.load, &client.open_loop) {
        (LevelLoad::Concurrency(concurrency), _) => closed_loop_gap(concurrency, client)?,
        (_, Some(open)) => {
            // The sampling thread waits for a processor as the requests do, and sees too few of them.
            let (mean, looks) = evidence.outstanding.filter(|_| !evidence.beside_others)?;
            // Each sample counts some requests; their total has the statistical error of a count of rare events.
            let chance = CHANCE_DEVIATIONS / (mean * looks as f64).sqrt();
            gap(mean, client, open.service_time.mean_ns(), chance)?
        }
        _ => return None,
    };
    (gap >= 0.0 || !drains(level, gap)).then_some(InvalidReason::LittlesLaw(gap))
}

/// By which share (signed) rate times latency is off the `concurrency` of a closed loop, if by more than its ends explain.
pub(super) fn closed_loop_gap(concurrency: u32, client: &ClientSummary) -> Option<f64> {
    gap(f64::from(concurrency), client, client.latency.mean_ns() + client.turnaround_ns, 0.0)
}

/// Whether more requests of an open loop are under way than its answers explain: some take longer than any that has come.
pub(super) fn more_wait(under_way: u64, client: &ClientSummary) -> bool {
    let usual = client.request_rate() * client.latency.mean_ns() / 1e9;
    let most = (1.0 + WAITING_TOLERANCE) * usual + CHANCE_DEVIATIONS * usual.sqrt() + 1.0;
    !leaves_open_what_is_under_way(client) && under_way as f64 > most
}

/// Whether answers do not tell how long requests are under way.
fn leaves_open_what_is_under_way(client: &ClientSummary) -> bool {
    client.decoupled.is_some() || client.sessions.is_some() || client.failed > 0 || client.cancelled > 0
}

/// The same of any load, with `chance` granted besides.
fn gap(outstanding: f64, client: &ClientSummary, latency_ns: f64, chance: f64) -> Option<f64> {
    if leaves_open_what_is_under_way(client) {
        return None;
    }
    let gap = littles_law_gap(outstanding, client.request_rate(), latency_ns / 1e9)?;
    // The ends of the window cut at most `outstanding` requests, and a thread may have had no processor for a moment: both matter
    // in short windows.
    let ends = outstanding / client.requests as f64 + SCHEDULING.as_secs_f64() / client.duration.as_secs_f64();
    Some(gap).filter(|gap| gap.abs() > LITTLE_TOLERANCE + ends + chance)
}

/// Whether so few requests were under way because nothing was sent any more: the last answers of a closed loop that is measured
/// whole leave its places idle one by one.
fn drains(level: &LevelSummary, gap: f64) -> bool {
    let (whole, sending) = (level.client.duration.as_secs_f64(), level.client.sending_length().as_secs_f64());
    level.client.open_loop.is_none() && (1.0 + gap) * whole >= (1.0 - LITTLE_TOLERANCE) * sending
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::summary::sample::{self, distribution as times};
    use crate::result::summary::{OpenLoopSummary, Sessions};
    use crate::terms::Statistic;

    /// Ten seconds of a closed loop at concurrency 4 with 5 ms a request.
    fn closed() -> LevelSummary {
        let mut level = sample::level(LevelLoad::Concurrency(4), 8000, 5_000_000);
        level.client.duration = Duration::from_secs(10);
        level
    }

    /// Ten seconds of an open loop at 800 a second.
    fn open() -> LevelSummary {
        let mut level = closed();
        level.load = LevelLoad::RequestRate(800.0);
        level.client.open_loop = Some(OpenLoopSummary {
            schedule_delay: times(8000, 1_000),
            ..sample::open_loop(800.0, &times(8000, 5_000_000))
        });
        level
    }

    fn open_of(level: &mut LevelSummary) -> &mut OpenLoopSummary {
        level.client.open_loop.as_mut().unwrap()
    }

    fn reason_names(level: &LevelSummary, evidence: &Evidence) -> Vec<&'static str> {
        match judge(level, evidence) {
            Verdict::Valid => Vec::new(),
            Verdict::Invalid(reasons) => reasons.iter().map(InvalidReason::name).collect(),
        }
    }

    fn complains(change: impl FnOnce(&mut LevelSummary, &mut Evidence)) -> Vec<&'static str> {
        let (mut level, mut evidence) = (open(), Evidence::default());
        change(&mut level, &mut evidence);
        reason_names(&level, &evidence)
    }

    #[test]
    fn good_levels_are_valid() {
        let strict = Evidence { percentile: Some(99.0), outstanding: Some((4.0, 5000)), ..Evidence::default() };
        assert_eq!(judge(&closed(), &strict), Verdict::Valid);
        assert_eq!(judge(&open(), &strict), Verdict::Valid);
    }

    #[test]
    fn each_test_complains_of_its_own() {
        assert_eq!(complains(|level, _| level.client.requests = 0), ["no_valid_requests"]);
        let none_of = |failed, ending| {
            let mut level = open();
            (level.client.requests, level.client.failed, level.ending) = (0, failed, ending);
            judge(&level, &Evidence::default())
        };
        assert_eq!(none_of(1, Ending::Failed), Verdict::Invalid(vec![InvalidReason::Nothing]));
        assert_eq!(none_of(0, Ending::Failed), Verdict::Invalid(vec![InvalidReason::NoneEnded]));
        let mut cancelled = open();
        (cancelled.client.requests, cancelled.client.cancelled, cancelled.ending) = (0, 7, Ending::Failed);
        assert_eq!(judge(&cancelled, &Evidence::default()), Verdict::Invalid(vec![InvalidReason::AllCancelled(7)]));
        assert_eq!(none_of(0, Ending::Interrupted), Verdict::Invalid(vec![InvalidReason::Interrupted]));
        let imprecise = |level: &mut LevelSummary, evidence: &mut Evidence| {
            level.ending = Ending::Unstable;
            evidence.precision = Some(Precision { statistic: Statistic::Percentile(99.9), share: 0.07 });
        };
        assert_eq!(complains(imprecise), ["imprecise"]);
        let held = |level: &mut LevelSummary, evidence: &mut Evidence| {
            level.load = LevelLoad::RequestRate(810.0);
            evidence.held_back = 100;
        };
        assert_eq!(complains(held), ["held_back"], "the rate is missed for no other reason");
        assert_eq!(complains(|level, _| level.client.failed = 1), ["errors"]);
        assert_eq!(complains(|level, _| level.ending = Ending::Interrupted), ["interrupted"]);
        assert_eq!(complains(|level, _| level.ending = Ending::Unstable), ["unstable"]);
        assert_eq!(complains(|level, _| level.load = LevelLoad::RequestRate(810.0)), ["rate_not_reached"]);
        assert_eq!(complains(|level, _| open_of(level).completed_rate = 780.0), ["overloaded"]);
        assert_eq!(complains(|level, _| level.client.delayed = 107), ["issuers_late"]);
        assert_eq!(complains(|_, evidence| evidence.held_back = 1), ["held_back"]);
        assert_eq!(complains(|_, evidence| evidence.still = Duration::from_secs(2)), ["stood_still"]);
        assert_eq!(complains(|_, evidence| evidence.outstanding = Some((5.0, 5000))), ["littles_law"]);
        assert!(complains(|_, evidence| evidence.outstanding = Some((5.0, 20))).is_empty(), "few looks");
        let few = |level: &mut LevelSummary, evidence: &mut Evidence| {
            level.client.latency = times(661, 5_000_000);
            evidence.percentile = Some(99.0);
        };
        assert_eq!(complains(few), ["too_few_samples"]);
    }

    #[test]
    fn allowances_hold() {
        assert!(complains(|level, evidence| (level.client.failed, evidence.max_errors) = (80, 0.01)).is_empty());
        assert!(complains(|level, _| level.client.delayed = 106).is_empty());
        // Others take processors: a quarter of the requests may be late.
        let beside_others = |level: &mut LevelSummary, evidence: &mut Evidence, delayed| {
            (level.client.delayed, evidence.beside_others) = (delayed, true);
            // Nor do looks at what is under way come as often as they should.
            evidence.outstanding = Some((2.0, 5000));
        };
        assert!(complains(|level, evidence| beside_others(level, evidence, 2_000)).is_empty());
        assert_eq!(complains(|level, evidence| beside_others(level, evidence, 2_001)), ["issuers_late"]);
        let last_is_late = |level: &mut LevelSummary, evidence: &mut Evidence, beside_others| {
            evidence.beside_others = beside_others;
            level.load = LevelLoad::RequestRate(809.5);
        };
        assert!(complains(|level, evidence| last_is_late(level, evidence, true)).is_empty(), "by less than 20 ms");
        assert_eq!(complains(|level, evidence| last_is_late(level, evidence, false)), ["rate_not_reached"]);
        // One request in thirty leaves 2 ms late, which matters to answers of 5 ms, and not to answers of 300.
        let late = |level: &mut LevelSummary, answer: u64| {
            level.client.delayed = 267;
            open_of(level).service_time = times(8000, answer);
            open_of(level).schedule_delay.merge(&times(267, 2_000_000));
        };
        assert_eq!(complains(|level, _| late(level, 5_000_000)), ["issuers_late"]);
        assert_eq!(complains(|level, _| late(level, 35_000_000)), ["issuers_late"]);
        assert!(complains(|level, _| late(level, 300_000_000)).is_empty());
        // Ten requests a second for ten seconds: Poisson may well be ten short, a constant rate may not.
        let short = |level: &mut LevelSummary, evidence: &mut Evidence, variation| {
            level.load = LevelLoad::RequestRate(10.0);
            (open_of(level).achieved_rate, open_of(level).completed_rate) = (9.0, 9.0);
            evidence.gap_variation = variation;
        };
        assert!(complains(|level, evidence| short(level, evidence, 1.0)).is_empty());
        assert_eq!(complains(|level, evidence| short(level, evidence, 0.0)), ["rate_not_reached"]);
    }

    #[test]
    fn failures_end_a_load_only_where_those_to_come_cannot_make_up_for_them() {
        let over = |succeeded, failed| Completed { succeeded, failed, cancelled: 0 };
        let of_100 = |succeeded, failed| will_exceed_errors(0.05, over(succeeded, failed), Some(100));
        assert!(!of_100(1, 1) && !of_100(0, 5), "five of a hundred are allowed");
        assert!(of_100(0, 6) && of_100(94, 6) && !of_100(95, 5));
        let cancelled = Completed { cancelled: 50, ..over(10, 3) };
        assert!(will_exceed_errors(0.05, cancelled, Some(100)), "50 are left");
        assert!(will_exceed_errors(0.05, over(100, 6), Some(100)), "requests that end sequences are beyond the plan");
        assert!(!will_exceed_errors(0.05, over(120, 6), Some(100)));
        let of_many = |allowed, succeeded, failed| will_exceed_errors(allowed, over(succeeded, failed), None);
        assert!(!of_many(0.05, 1, 1) && !of_many(0.01, 0, 1) && !of_many(0.05, 188, 12), "chance does that");
        assert!(of_many(0.05, 0, 3) && of_many(0.05, 10, 10) && of_many(0.05, 900, 100));
        assert!(of_many(0.0, 1_000_000, 1) && will_exceed_errors(0.0, over(0, 1), Some(1_000)), "none is allowed");
        assert!(!of_many(1.0, 0, 1_000) && !of_many(0.0, 5, 0));
    }

    #[test]
    fn a_closed_loop_that_loses_time_breaks_littles_law() {
        let mut level = closed();
        level.client.latency = times(8000, 4_700_000);
        let Verdict::Invalid(reasons) = judge(&level, &Evidence::default()) else { panic!("is valid") };
        assert_eq!(reasons[0].to_string(), "rate times latency is -6.0% off the requests under way");
        level.client.failed = 1;
        assert_eq!(reason_names(&level, &Evidence { max_errors: 0.5, ..Evidence::default() }), [""; 0]);
    }

    #[test]
    fn a_thread_without_a_processor_for_a_moment_breaks_no_law() {
        // Two places, of which one starts when the other has sent everything.
        let mut level = sample::level(LevelLoad::Concurrency(2), 40, 50_000);
        level.client.duration = Duration::from_millis(2);
        assert_eq!(judge(&level, &Evidence::default()), Verdict::Valid);
        // In a second, it cannot have waited for half of it.
        let mut level = sample::level(LevelLoad::Concurrency(2), 20_000, 50_000);
        level.client.duration = Duration::from_secs(1);
        assert_eq!(reason_names(&level, &Evidence::default()), ["littles_law"]);
    }

    #[test]
    fn conversations_leave_places_idle_and_lose_nothing() {
        // Three of five turns of 2 s, two at a time: one place is idle while the last of them is played.
        let mut level = sample::level(LevelLoad::Concurrency(2), 15, 2_000_000_000);
        level.client.duration = Duration::from_secs(20);
        assert_eq!(reason_names(&level, &Evidence::default()), ["littles_law"]);
        level.client.sessions = Some(Box::new(Sessions::empty()));
        assert_eq!(judge(&level, &Evidence::default()), Verdict::Valid);
    }

    #[test]
    fn a_server_that_falls_behind_at_first_only_is_not_overloaded() {
        // Answers of a second: as many requests as a second brings are under way, and were not when the first window began.
        let window = |sent, completed| {
            let mut client = open().client;
            client.duration = Duration::from_secs(5);
            let open = client.open_loop.as_mut().unwrap();
            (open.achieved_rate, open.completed_rate) = (sent, completed);
            client
        };
        let judged = |windows: &[ClientSummary]| {
            let flows: Vec<Flow> = windows.iter().map(|window| Flow::of(window).unwrap()).collect();
            complains(|level, evidence| {
                (level.load, evidence.flows) = (LevelLoad::RequestRate(100.0), Flows::of(&flows));
                open_of(level).achieved_rate = 100.0;
            })
        };
        let [first, steady, behind] = [window(100.0, 80.0), window(100.0, 100.0), window(100.0, 95.0)];
        assert!(judged(&[first.clone(), steady.clone(), steady.clone()]).is_empty());
        assert_eq!(judged(&[first, behind.clone(), behind.clone()]), ["overloaded"]);
        assert!(judged(&[behind, steady.clone(), steady]).is_empty());
        assert_eq!(Flows::of(&[]), None);
    }

    #[test]
    fn beside_others_more_may_be_under_way_at_the_end_as_slow_requests_are() {
        let judged = |missing: f64, slowness: f64, in_windows: bool| {
            complains(|level, evidence| {
                evidence.beside_others = true;
                let (sent, length) = (800.0, Duration::from_secs(10));
                let flow = Flow { sent, completed: sent - missing / 10.0, length, slowness };
                evidence.flows = in_windows.then_some(Flows { all: flow, late: flow, before_last: None });
                let open = level.client.open_loop.as_mut().unwrap();
                open.completed_rate = 800.0 - missing / 10.0;
            })
        };
        // 80 requests are the tolerance. Beyond it, slow ones that take 30 ms instead of 5 explain 20 of 800 a second, and chance 10.
        assert!(judged(95.0, 0.025, true).is_empty());
        assert_eq!(judged(95.0, 0.001, true), ["overloaded"]);
        assert_eq!(judged(125.0, 0.025, true), ["overloaded"]);
        assert_eq!(judged(95.0, 0.025, false), ["overloaded"], "a load that is measured whole");
    }

    /// The windows of 2 s of a constant rate, for 40 s, at a server with 16 places that takes 2 s on average, exponentially.
    fn long_answers(rate: f64, seed: usize) -> Vec<Flow> {
        let noise = |number: usize| (((seed * 1_009 + number) as f64 + 1.0).sin() * 43_758.545_3).rem_euclid(1.0);
        let mut places = [0.0_f64; 16];
        let requests: Vec<(f64, f64)> = (0..(44.0 * rate) as usize)
            .map(|number| {
                let due = number as f64 / rate;
                let place = places.iter_mut().min_by(|left, right| left.total_cmp(right)).unwrap();
                *place = place.max(due) - 2.0 * (1.0 - noise(number)).ln();
                (due, *place)
            })
            .collect();
        let empty = open().client;
        let window = |number: u32| {
            let from = 4.0 + 2.0 * f64::from(number);
            let ended: Vec<&(f64, f64)> = requests.iter().filter(|(_, end)| (from..from + 2.0).contains(end)).collect();
            let mut client = empty.clone();
            client.duration = Duration::from_secs(2);
            let open = client.open_loop.as_mut().unwrap();
            (open.achieved_rate, open.completed_rate) = (rate, ended.len() as f64 / 2.0);
            open.service_time = times(0, 0);
            let took = ended.iter().map(|(due, end)| ((end - due) * 1e9) as u64);
            took.for_each(|ns| open.service_time.histogram.record(ns).unwrap());
            Flow::of(&client).unwrap()
        };
        (0..20).map(window).collect()
    }

    #[test]
    fn a_pause_at_the_end_of_a_level_that_has_not_settled_is_no_overload() {
        let window = |completed| Flow { sent: 300.0, completed, length: Duration::from_secs(1), slowness: 0.8 };
        let judged = |windows: &[Flow]| {
            complains(|level, evidence| {
                (level.load, level.ending) = (LevelLoad::RequestRate(300.0), Ending::Unstable);
                evidence.flows = Flows::of(windows);
                open_of(level).achieved_rate = 300.0;
            })
        };
        let mut paused = vec![window(300.0); 19];
        paused.push(window(160.0));
        assert_eq!(judged(&paused), ["unstable"]);
        assert_eq!(judged(&[window(285.0); 20]), ["overloaded", "unstable"]);
        assert_eq!(judged(&[window(240.0); 3]), ["overloaded", "unstable"], "too few to tell its end apart");
    }

    #[test]
    fn long_answers_that_differ_tell_a_server_that_falls_behind_from_one_that_does_not() {
        let overloaded = |rate: f64, windows: &[Flow], beside_others: bool| {
            let reasons = complains(|level, evidence| {
                (evidence.flows, evidence.beside_others) = (Flows::of(windows), beside_others);
                level.load = LevelLoad::RequestRate(rate);
                let open = open_of(level);
                (open.requested_rate, open.achieved_rate) = (rate, rate);
            });
            reasons.contains(&"overloaded")
        };
        // It completes 8 a second at most.
        for (rate, right) in [(5.0, 0..=0), (6.0, 0..=1), (10.0, 23..=25), (12.0, 25..=25)] {
            let levels: Vec<Vec<Flow>> = (0..25).map(|seed| long_answers(rate, seed)).collect();
            for beside_others in [false, true] {
                let found = levels.iter().filter(|windows| overloaded(rate, windows, beside_others)).count();
                assert!(right.contains(&found), "{rate}/s, beside others {beside_others}: {found} of 25");
            }
        }
    }

    #[test]
    fn a_queue_that_grows_is_no_slowness() {
        // 500 a second at a server that completes 400: from half a second to the next the answers take 100 ms longer.
        let windows: Vec<Flow> = (0_u64..40)
            .map(|number| {
                let mut client = open().client;
                client.duration = Duration::from_millis(500);
                let open = client.open_loop.as_mut().unwrap();
                (open.achieved_rate, open.completed_rate) = (500.0, 400.0);
                open.service_time = times(100, number * 100_000_000);
                open.service_time.merge(&times(100, (number + 1) * 100_000_000));
                Flow::of(&client).unwrap()
            })
            .collect();
        let flows = Flows::of(&windows).unwrap();
        assert!((flows.late.slowness - 0.1).abs() < 0.005, "{flows:?}");
        // Of the result, only the last windows may be left: the queue is still there.
        let reasons = complains(|level, evidence| {
            (level.load, evidence.flows, evidence.beside_others) = (LevelLoad::RequestRate(500.0), Some(flows), true);
            let open = open_of(level);
            (open.achieved_rate, open.completed_rate) = (500.0, 500.0);
        });
        assert_eq!(reasons, ["overloaded"]);
    }

    #[test]
    fn complaints_say_their_numbers_and_a_remedy() {
        let text = InvalidReason::TooFewSamples(99.0, 10, 662).to_string();
        assert_eq!(text, "p99 needs 662 samples, there are 10");
        let precision = Precision { statistic: Statistic::Percentile(99.9), share: 0.07 };
        let text = "not known: p99.9 latency to within 7%";
        assert_eq!(InvalidReason::Imprecise(precision, None).to_string(), text);
        assert_eq!(
            InvalidReason::Imprecise(precision, Some(0.123)).to_string(),
            format!("{text}, only to within 12.3%")
        );
        assert!(InvalidReason::HeldBack(3).remedy(&sample::plan(), false).contains("--max-outstanding"));
        let late = |disturbed| InvalidReason::IssuersLate(0.03).remedy(&sample::plan(), disturbed);
        assert!(late(false).contains("lower the rate"));
        assert!(late(true).starts_with("stop what else uses") && !late(true).contains("rate"), "{}", late(true));
    }
}
