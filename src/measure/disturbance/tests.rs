use std::cell::RefCell;
use std::collections::VecDeque;

use super::*;
use crate::clock::Stamp;

/// What went on in a window on two processors, in milliseconds.
#[derive(Clone, Copy, Default)]
struct Window {
    length: u64,
    ours: u64,
    others: u64,
    stolen: u64,
    waited: u64,
    throttled: u64,
    /// Ours that the kernel missed, or counted too often, when it looked at its ticks.
    miscounted: i64,
}

const IDLE: Window = Window { length: 500, ours: 300, others: 10, stolen: 0, waited: 4, throttled: 0, miscounted: 0 };

fn ms(milliseconds: u64) -> Duration {
    // As the kernel rounds.
    Duration::from_millis(milliseconds / 10 * 10)
}

/// A reading after these windows.
fn after(windows: &[Window]) -> Reading {
    let sum = |figure: fn(&Window) -> u64| windows.iter().map(figure).sum::<u64>();
    let (length, ours, others, stolen) = (sum(|w| w.length), sum(|w| w.ours), sum(|w| w.others), sum(|w| w.stolen));
    let miscounted = windows.iter().map(|w| w.miscounted).sum::<i64>();
    let half = |busy: u64, idle: u64| Times {
        busy: ms(busy),
        idle: ms(idle),
        interrupts: Duration::ZERO,
        stolen: ms(stolen / 2),
    };
    let busy = (ours + others) / 2;
    let shown = busy.saturating_add_signed(miscounted / 2);
    let times = half(shown, (2 * length - stolen) / 2 - busy);
    Reading {
        beside: Duration::ZERO,
        at: Stamp(1_000_000 * length),
        processors: [(0, times), (1, times)].into(),
        busy: [(7, ms(ours))].into(),
        own: ms(ours),
        waits: [(7, Waits { waited_ns: sum(|w| w.waited) * 1_000_000, switches: sum(|w| w.waited) })].into(),
        throttled: Some(Duration::from_millis(sum(|w| w.throttled))),
        khz: None,
    }
}

/// What disturbs this window, and by how many percent.
fn judged(window: Window) -> Vec<(Cause, u64)> {
    let found = difference(&after(&[]), &after(&[window]), 0).into_iter();
    found
        .flat_map(|disturbance| disturbance.causes().collect::<Vec<_>>())
        .map(|(cause, share)| (cause, (share * 100.0).round() as u64))
        .collect()
}

fn causes(window: Window) -> Vec<Cause> {
    judged(window).into_iter().map(|(cause, _)| cause).collect()
}

#[test]
fn a_quiet_machine_disturbs_nothing() {
    for length in [20, 100, 500, 5_000] {
        for ours in [0, length / 2, length, length * 19 / 10] {
            let others = (length / 50).min(2 * length - ours);
            let window = Window { length, ours, others, waited: length, ..IDLE };
            assert_eq!(causes(window), [], "{length} ms, {ours} ours");
        }
    }
}

#[test]
fn a_hog_on_one_of_two_processors_is_seen() {
    let hog = Window { others: 500, ours: 400, ..IDLE };
    assert_eq!(judged(hog), [(Cause::Others, 50)]);
    let half_of_the_time = Window { others: 260, ..hog };
    assert_eq!(judged(half_of_the_time), [(Cause::Others, 26)]);
    // Where it meets a thread of ours, less of it is enough.
    assert_eq!(judged(Window { others: 100, waited: 90, ..hog }), [(Cause::Waiting, 9)]);
    assert_eq!(judged(Window { others: 100, waited: 20, ..hog }), []);
}

#[test]
fn our_threads_may_wait_for_each_other() {
    assert_eq!(causes(Window { ours: 980, others: 10, waited: 20_000, ..IDLE }), []);
}

#[test]
fn a_load_that_keeps_time_with_the_ticks_is_no_other_process() {
    assert_eq!(causes(Window { ours: 100, others: 0, miscounted: 600, ..IDLE }), [], "always at work when looked at");
    assert_eq!(causes(Window { ours: 600, others: 0, miscounted: -550, ..IDLE }), [], "never");
}

#[test]
fn the_hypervisor_and_a_quota_are_seen() {
    assert_eq!(causes(Window { stolen: 120, ..IDLE }), [Cause::Steal]);
    assert_eq!(causes(Window { stolen: 4, ..IDLE }), []);
    assert_eq!(causes(Window { throttled: 80, ..IDLE }), [Cause::Throttled]);
    assert_eq!(causes(Window { throttled: 5, ..IDLE }), []);
}

#[test]
fn processors_that_slow_down_are_seen_where_their_governor_keeps_them() {
    let at = |khz, windows: &[Window]| Reading { khz, ..after(windows) };
    let slowed = |before, now| {
        let found = difference(&at(before, &[]), &at(now, &[IDLE]), 3_600_000);
        found.map(|disturbance| disturbance.causes().collect::<Vec<_>>())
    };
    assert_eq!(slowed(Some(1_800_000), Some(1_800_000)), Some(vec![(Cause::Slowed, 0.5)]));
    assert_eq!(slowed(Some(3_600_000), Some(1_800_000)), None, "at one end only: that may be chance");
    assert_eq!(slowed(Some(3_000_000), Some(3_000_000)), None);
    assert_eq!(slowed(None, None), None);
}

#[test]
fn a_kernel_that_tells_nothing_disturbs_nothing() {
    let mut silent = after(&[IDLE, Window { others: 500, stolen: 400, ..IDLE }]);
    silent.processors = silent.processors.keys().map(|number| (*number, Times::default())).collect();
    let mut before = after(&[IDLE]);
    before.processors = silent.processors.clone();
    assert_eq!(difference(&before, &silent, 0), None);
    let hog = Window { others: 500, waited: 500, ..IDLE };
    assert_eq!(difference(&unknown(after(&[IDLE])), &unknown(after(&[IDLE, hog])), 0), None, "it may be the server");
}

/// A reading where nobody knows which processes are the server's.
fn unknown(mut reading: Reading) -> Reading {
    reading.busy.clear();
    reading
}

#[test]
fn a_disturbance_says_what_and_how_much() {
    let found =
        difference(&after(&[]), &after(&[Window { others: 400, waited: 100, stolen: 100, ..IDLE }]), 0).unwrap();
    assert_eq!(
        found.to_string(),
        "the hypervisor took 13% of the processors' time, other processes used 40% of the processors, 10% while our \
            threads waited (100 involuntary context switches)"
    );
    let stopped = difference(&after(&[]), &after(&[Window { throttled: 300, ..IDLE }]), 0).unwrap();
    assert_eq!(found.worst(&stopped).causes().count(), 4);
}

/// Tells of one window after the other.
struct Script(RefCell<(Vec<Window>, VecDeque<Window>)>);

impl HostMonitor for Script {
    fn look_around(&self) {}

    fn read(&self) -> Reading {
        let (windows, further) = &mut *self.0.borrow_mut();
        let reading = after(windows);
        windows.extend(further.pop_front());
        reading
    }
}

#[test]
fn each_window_is_judged_by_its_own_edges() {
    let hog = Window { others: 500, ..IDLE };
    let script = Script(RefCell::new((Vec::new(), [IDLE, hog, IDLE].into())));
    let mut sentry = Sentry::new(Some(&script));
    sentry.prepare();
    let found: Vec<bool> = (0..4).map(|_| sentry.edge().is_some()).collect();
    assert_eq!(found, [false, false, true, false]);
    assert_eq!(Sentry::new(None).edge(), None);
}

#[test]
fn others_are_at_work_before_they_disturb_a_window() {
    let beside = |others, stolen| {
        let script = Script(RefCell::new((Vec::new(), vec![Window { others, stolen, ..IDLE }; 3].into())));
        let mut sentry = Sentry::new(Some(&script));
        let disturbed = (0..4).filter(|_| sentry.edge().is_some()).count();
        (disturbed, sentry.others_at_work())
    };
    assert_eq!(beside(10, 0), (0, false));
    assert_eq!(beside(60, 0), (0, true));
    assert_eq!(beside(10, 40), (0, true));
    assert_eq!(beside(500, 0), (3, true));
    assert!(!Sentry::new(None).others_at_work());
}

#[test]
fn who_waits_for_a_processor_is_beside_others_whoever_they_are() {
    let is_beside = |window: Window, known: bool| {
        let ends = [after(&[]), after(&[window])];
        let [first, last] = ends.map(|end| if known { end } else { unknown(end) });
        Sentry { host_monitor: None, first: Some(first), last: Some(last), khz: 0 }.others_at_work()
    };
    let waited = |waited: u64| Window { waited, others: 40, ..IDLE };
    assert!(is_beside(waited(10), false) && !is_beside(waited(4), false));
    assert!(!is_beside(Window { others: 0, ..waited(100) }, false), "for each other");
    assert!(!is_beside(Window { waited: 10, ..IDLE }, true), "the server is known, and others hardly ran");
}
