//! Levels of a server that follows a script, whose load several processes share or one has alone.

use ::ranks::threads::together;
use ::ranks::{Mode, Ranks};

use super::*;
use crate::load::{ClosedLoop, LoadShape, OpenLoop};
use crate::measurement::Unwatched;
use crate::scripted::{Fate, Scripted};
use crate::terms::StabilityRule;

/// What each process does.
struct Joint {
    max_outstanding: usize,
    plan: MeasurementPlan,
    load: LevelLoad,
    /// Of the server of each rank.
    scripts: [fn(u64, Duration) -> Fate; 2],
}

impl Joint {
    /// The level that all have measured together, as each has it.
    fn measured(&self) -> Vec<MeasuredLevel> {
        together(2, |ranks| self.measured_by(ranks.part().rank, Some(&ranks)))
    }

    fn measured_by(&self, rank: usize, ranks: Option<&Ranks>) -> MeasuredLevel {
        self.try_measured_by(rank, ranks).unwrap()
    }

    fn try_measured_by(&self, rank: usize, ranks: Option<&Ranks>) -> Result<MeasuredLevel> {
        let backend: Arc<dyn Backend> = Arc::new(Scripted::new(self.scripts[rank]));
        let (roots, specs) = ([ModelId::latest("null")], [backend.model(&ModelId::latest("null")).unwrap()]);
        let rate = if let LevelLoad::RequestRate(rate) = self.load { Some(rate / 2.0) } else { None };
        let spec = RecorderSpec { open_loop: rate.is_some(), ..RecorderSpec::default() };
        let recorder = Arc::new(Recorder::new(spec, 1));
        let facts = WindowFacts {
            batch_size: 1,
            tensors: TensorBytes::default(),
            headline: if rate.is_some() { Headline::ResponseTime } else { Headline::ServiceTime },
            requested_rate: rate,
            shares: [].into(),
            models: [].into(),
            issuers: 1,
            client_cost_ns: 0.0,
            wakeups_apart: false,
        };
        let run = LevelRun {
            load: self.load,
            recorder: Arc::clone(&recorder),
            facts,
            ramp: 1,
            finite: false,
            requests: None,
            baseline: None,
            gap_variation: 0.0,
            sending: None,
            tracing: Tracing::default(),
            questions: Questions::default(),
        };
        let measurement = Measurement {
            plan: &self.plan,
            backend: backend.as_ref(),
            models: Models { roots: &roots, specs: &specs, bls: &[] },
            interrupts: &AtomicUsize::new(0),
            metrics: None,
            host_monitor: None,
            breaker: Breaker::new(&[]),
            watcher: &Unwatched,
            settle: &|| (),
            ranks,
        };
        measure(&measurement, &run, self.begun(&backend, &recorder, rate))
    }

    /// The part of a process: one request after the other, or at a rate.
    fn begun(&self, backend: &Arc<dyn Backend>, recorder: &Arc<Recorder>, rate: Option<f64>) -> RunningLoad {
        let index = PayloadIndex { cycle: vec![PayloadId(0)], streams: Vec::new() };
        let input_source = InputSource::independent(vec![index], Mix::single(), 1, EntryAssignment::InStep, 0).unwrap();
        let client = ClientSpec::new([].into(), [].into());
        let context = LoadContext::new(Arc::clone(backend), client, input_source, Arc::clone(recorder));
        let shape = match rate {
            None => LoadShape::Closed(ClosedLoop { concurrency: 1, max_threads: 1, synchronous: false }),
            Some(rate) => LoadShape::Open(OpenLoop {
                arrivals: Arrivals::at_rate(rate, GapDistribution::Constant).unwrap(),
                seed: 0,
                threads: 1,
                max_outstanding: self.max_outstanding,
                serial: false,
                part: ::ranks::Part::WHOLE,
                until: None,
                spin: DEFAULT_SPIN,
            }),
        };
        start(context, shape).unwrap()
    }
}

fn answer(takes: Duration) -> Fate {
    Fate { takes, fails: false }
}

/// One of ten requests takes long: longer than windows that settle the level.
#[test]
fn timed_answers_that_are_still_to_come_are_waited_for() {
    let script = |number: u64, _| answer(Duration::from_millis(if number.is_multiple_of(10) { 900 } else { 1 }));
    let plan = MeasurementPlan {
        window: WindowRule::Time(Duration::from_millis(100)),
        stability_rule: Some(StabilityRule::Interval),
        stability: 1e9,
        max_trials: 40,
        ..sample::plan()
    };
    let load = LevelLoad::RequestRate(400.0);
    let levels = Joint { max_outstanding: 1_000, plan, load, scripts: [script; 2] }.measured();
    for MeasuredLevel { summary, .. } in &levels {
        assert_eq!(summary.ending, Ending::Stable);
        let longest = summary.client.latency.percentile_ns(100.0);
        assert!(longest > 800_000_000, "{longest} ns in {:?}", summary.client.duration);
        assert_eq!(summary.threads, Some(2), "both send");
    }
    assert_eq!(levels[0].summary.client.requests, levels[1].summary.client.requests, "both have the same");
}

/// One server stops answering, and few requests fail, because each takes long. Whoever asks it alone would give up; all together
/// have answers, and must not part over that.
#[test]
fn timed_what_one_sees_alone_does_not_part_them() {
    let quick = |_, _| answer(Duration::from_micros(500));
    let dying = |_, passed: Duration| match passed < Duration::from_millis(1_300) {
        true => answer(Duration::from_micros(500)),
        false => Fate { takes: Duration::from_millis(300), fails: true },
    };
    let plan = MeasurementPlan {
        window: WindowRule::Time(Duration::from_millis(1_500)),
        stability_rule: Some(StabilityRule::Interval),
        stability: 1e9,
        max_trials: 100,
        max_errors: 0.01,
        ..sample::plan()
    };
    let load = LevelLoad::Concurrency(2);
    let levels = Joint { max_outstanding: 1_000, plan, load, scripts: [quick, dying] }.measured();
    let ended: Vec<_> = levels
        .iter()
        .map(|level| {
            (level.summary.ending, level.trouble.as_ref().map(ToString::to_string), level.summary.client.failed)
        })
        .collect();
    assert!(ended.iter().all(|(_, trouble, failed)| trouble.is_none() && *failed > 0), "{ended:?}");
    assert_eq!(ended[0], ended[1]);
}

/// While a server warms up, requests wait for a free slot; in the windows none does.
#[test]
fn timed_what_waited_before_the_first_window_is_not_held_against_it() {
    let warming = |_, passed: Duration| match passed < Duration::from_millis(400) {
        true => answer(Duration::from_millis(400)),
        false => answer(Duration::from_millis(1)),
    };
    let window = WindowRule::Time(Duration::from_millis(200));
    let plan = MeasurementPlan { window, warmup: Duration::from_millis(900), stability: 1e9, ..sample::plan() };
    let load = LevelLoad::RequestRate(200.0);
    let level = Joint { max_outstanding: 20, plan, load, scripts: [warming; 2] }.measured_by(0, None);
    assert!(level.requests.held_back > 0, "{:?}", level.requests);
    let crate::result::reasons::Verdict::Invalid(reasons) = &level.summary.verdict else { return };
    assert!(reasons.iter().all(|reason| reason.name() != "held_back"), "{reasons:?}");
}

/// A server that warms up in one step: the level has what it needs long before its last window, and says what it left out.
#[test]
fn timed_a_warm_up_in_one_step_is_left_out_and_told() {
    let script = |_, passed: Duration| {
        answer(Duration::from_millis(if passed < Duration::from_millis(1_900) { 100 } else { 10 }))
    };
    let plan = MeasurementPlan {
        window: WindowRule::Time(Duration::from_secs(1)),
        stability_rule: Some(StabilityRule::Interval),
        max_trials: 12,
        ..sample::plan()
    };
    let joint = Joint { max_outstanding: 1, plan, load: LevelLoad::Concurrency(1), scripts: [script; 2] };
    let MeasuredLevel { summary, .. } = joint.measured_by(0, None);
    let (windows, mean_ms) = (summary.windows.len(), summary.client.latency.mean_ns() / 1e6);
    assert!(windows < 10 && mean_ms < 20.0, "{windows} windows, {mean_ms} ms");
    assert_eq!(summary.ending, Ending::Stable);
    let remark = summary.remarks.iter().find(|remark| remark.kind == crate::result::remark::RemarkKind::WarmUp);
    assert!(remark.is_some_and(|remark| remark.text.contains("--warmup-duration 2s ")), "{:?}", summary.remarks);
}

/// Nobody waits for the end of a long warm-up after an interrupt, which all are told of.
#[test]
fn an_interrupt_while_a_joint_load_warms_up_ends_it_for_all() {
    let plan = MeasurementPlan { warmup: Duration::from_secs(3_600), ..sample::plan() };
    let joint = Joint {
        max_outstanding: 1,
        plan,
        load: LevelLoad::Concurrency(2),
        scripts: [|_, _| answer(Duration::from_millis(1)); 2],
    };
    let refused = together(2, |ranks| {
        let rank = ranks.part().rank;
        if rank == 1 {
            crate::interrupt::raise();
        }
        joint.try_measured_by(rank, Some(&ranks)).err().map(|error| error.to_string())
    });
    crate::interrupt::counter().store(0, Ordering::Relaxed);
    let reason = "interrupted while it warmed up: nothing was measured";
    assert!(refused.iter().flatten().filter(|error| error.contains(reason)).count() == 2, "{refused:?}");
}

/// All have the same result of a load that they share, and none of it before the first request.
#[test]
fn an_interrupt_before_any_request_leaves_no_level() {
    let refused = together(2, |ranks| {
        let plan = sample::plan();
        let measured = MeasuredLevel {
            summary: crate::result::summary::LevelSummary {
                client: sample::client(0, 1),
                ending: Ending::Interrupted,
                ..sample::level(LevelLoad::Concurrency(2), 0, 1)
            },
            requests: crate::record::LoadReport::default(),
            boundaries: Vec::new(),
            trouble: None,
        };
        let measurement = Measurement {
            plan: &plan,
            backend: &NullBackend,
            models: Models { roots: &[], specs: &[], bls: &[] },
            interrupts: &AtomicUsize::new(1),
            metrics: None,
            host_monitor: None,
            breaker: Breaker::new(&[]),
            watcher: &Unwatched,
            settle: &|| (),
            ranks: Some(&ranks),
        };
        let checked = |mode| {
            ranks.set_mode(mode);
            edges::check_that_something_was_measured(&measurement, &measured).is_err()
        };
        (checked(Mode::Joint), checked(Mode::Separate))
    });
    assert_eq!(refused, [(true, false); 2], "those with loads of their own must end alike");
}
