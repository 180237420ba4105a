use super::*;
use stats::kolmogorov;

fn gaps(arrivals: &Arrivals, seed: u64, count: usize) -> Vec<f64> {
    let offsets: Vec<u64> = Schedule::new(arrivals, seed).take(count + 1).collect();
    offsets.windows(2).map(|pair| (pair[1] - pair[0]) as f64).collect()
}

fn rate(rate: f64, distribution: GapDistribution) -> Arrivals {
    Arrivals::at_rate(rate, distribution).unwrap()
}

#[test]
fn constant_rates_start_at_once_and_do_not_drift() {
    let schedule = Schedule::new(&rate(3.0, GapDistribution::Constant), 1);
    assert_eq!(schedule.take(4).collect::<Vec<_>>(), [0, 333_333_333, 666_666_667, 1_000_000_000]);
    let mut fast = Schedule::new(&rate(30_000.0, GapDistribution::Constant), 1);
    assert_eq!(fast.nth(1_000_000), Some(33_333_333_333));
    let mut days = Schedule::new(&rate(7.0, GapDistribution::Constant), 1);
    assert_eq!(days.nth(7 * 86_400), Some(86_400_000_000_000));
}

#[test]
fn a_seed_fixes_the_schedule_and_another_changes_it() {
    for distribution in [GapDistribution::Poisson, GapDistribution::Gamma(0.3)] {
        let arrivals = rate(1000.0, distribution);
        let first: Vec<u64> = Schedule::new(&arrivals, 42).take(1000).collect();
        assert_eq!(first, Schedule::new(&arrivals, 42).take(1000).collect::<Vec<_>>());
        assert_ne!(first, Schedule::new(&arrivals, 43).take(1000).collect::<Vec<_>>());
        assert_eq!(first[0], 0);
    }
}

#[test]
fn threads_share_one_schedule() {
    let kinds = [
        rate(1000.0, GapDistribution::Constant),
        rate(1000.0, GapDistribution::Poisson),
        rate(1000.0, GapDistribution::Gamma(2.5)),
        Arrivals::looped(vec![5, 0, 7]).unwrap(),
        Arrivals::fixed_ms(&[1, 2, 2, 9, 30]).unwrap(),
    ];
    for arrivals in kinds {
        let whole: Vec<u64> = Schedule::new(&arrivals, 9).take(300).collect();
        for threads in [1, 2, 7] {
            for thread in 0..threads {
                let share = Schedule::share(&arrivals, 9, thread, threads);
                let expected: Vec<u64> = whole.iter().skip(thread).step_by(threads).copied().collect();
                assert_eq!(
                    share.take(expected.len()).collect::<Vec<_>>(),
                    expected,
                    "{arrivals:?}, {thread} of {threads}"
                );
            }
        }
    }
}

#[test]
fn poisson_gaps_are_exponential_and_gamma_gaps_are_not() {
    let exponential = |mean: f64| move |gap: f64| 1.0 - (-gap / mean).exp();
    let poisson = gaps(&rate(2000.0, GapDistribution::Poisson), 5, 50_000);
    assert!(kolmogorov(&poisson, exponential(500_000.0)).p_value > 0.01);
    let bursty = gaps(&rate(2000.0, GapDistribution::Gamma(0.5)), 5, 50_000);
    assert!(kolmogorov(&bursty, exponential(500_000.0)).p_value < 1e-6);
}

#[test]
fn gamma_gaps_have_the_mean_of_the_rate_and_the_variance_of_the_shape() {
    assert_eq!(rate(5.0, GapDistribution::Constant).gap_variation(), 0.0);
    for shape in [0.25, 1.0, 4.0] {
        assert_eq!(rate(5.0, GapDistribution::Gamma(shape)).gap_variation(), 1.0 / f64::sqrt(shape));
        let gaps = gaps(&rate(1000.0, GapDistribution::Gamma(shape)), 11, 200_000);
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        assert!((mean / 1e6 - 1.0).abs() < 0.02, "shape {shape}: mean {mean}");
        assert!((variance / (1e12 / shape) - 1.0).abs() < 0.06, "shape {shape}: variance {variance}");
    }
}

#[test]
fn shape_one_is_the_poisson_process() {
    let gamma = Schedule::new(&rate(10.0, GapDistribution::Gamma(1.0)), 3);
    assert!(gamma.take(100).eq(Schedule::new(&rate(10.0, GapDistribution::Poisson), 3).take(100)));
}

#[test]
fn fixed_schedules_keep_their_offsets_and_end() {
    let arrivals = Arrivals::fixed_ms(&[100, 100, 350]).unwrap();
    assert_eq!(Schedule::new(&arrivals, 0).collect::<Vec<_>>(), [100_000_000, 100_000_000, 350_000_000]);
    assert_eq!(arrivals.len(), Some(3));
    assert!((arrivals.mean_rate() - 8.0).abs() < 1e-12);
    assert_eq!(Arrivals::fixed_ms(&[7]).unwrap().mean_rate(), 0.0);
}

#[test]
fn a_fixed_schedule_is_split_with_its_offsets() {
    let whole = Arrivals::fixed_ms(&[100, 200, 350]).unwrap();
    let (before, after) = whole.split(2).unwrap();
    assert_eq!((before, after), (Arrivals::fixed_ms(&[100, 200]).unwrap(), Arrivals::fixed_ms(&[350]).unwrap()));
    assert!(whole.split(0).is_none() && whole.split(3).is_none() && whole.split(4).is_none());
    assert!(Arrivals::looped(vec![1, 2]).unwrap().split(1).is_none());
}

#[test]
fn unusable_rates_shapes_and_schedules_are_refused() {
    for value in [0.0, -1.0, f64::NAN, f64::INFINITY, 2e9] {
        let error = Arrivals::at_rate(value, GapDistribution::Poisson).unwrap_err().to_string();
        assert!(error.contains("must be above 0"), "{error}");
    }
    for shape in [0.0, -2.0, f64::NAN, f64::INFINITY] {
        assert!(
            Arrivals::at_rate(1.0, GapDistribution::Gamma(shape)).unwrap_err().to_string().contains("--burstiness")
        );
    }
    assert!(Arrivals::fixed_ms(&[]).unwrap_err().to_string().contains("empty"));
    assert!(Arrivals::fixed_ms(&[3, 1]).unwrap_err().to_string().contains("entry 2 is due at 1000000 ns"));
    assert!(Arrivals::fixed_ms(&[u64::MAX]).unwrap_err().to_string().contains("584 years"));
    assert!(Arrivals::looped(vec![u64::MAX, 1]).is_err());
}

#[test]
fn a_ramp_sends_as_many_as_its_rates_say_by_any_moment() {
    let ramp = |from, to, seconds, distribution| {
        let arrivals = Arrivals::ramp(Ramp { from, to }, seconds, distribution, 7).unwrap();
        Schedule::new(&arrivals, 7).map(|offset| offset as f64 / NS_PER_SECOND).collect::<Vec<_>>()
    };
    let by = |times: &[f64], moment: f64| times.iter().filter(|time| **time < moment).count();
    let up = ramp(100.0, 1_000.0, 60.0, GapDistribution::Constant);
    assert_eq!((up.len(), up[0]), (33_000, 0.0));
    // 100·30 + 900·30² / 120.
    assert!(by(&up, 30.0).abs_diff(9_750) <= 1 && up.is_sorted() && up[32_999] < 60.0, "{}", by(&up, 30.0));
    let down = ramp(200.0, 0.0, 10.0, GapDistribution::Constant);
    assert!(down.len() == 1_000 && by(&down, 5.0).abs_diff(750) <= 1, "{}", by(&down, 5.0));
    let flat = ramp(10.0, 10.0, 2.0, GapDistribution::Constant);
    assert!(flat.iter().enumerate().all(|(number, time)| (time - number as f64 / 10.0).abs() < 1e-6), "{flat:?}");
    let random = ramp(0.0, 2_000.0, 20.0, GapDistribution::Poisson);
    assert!(random.len().abs_diff(20_000) < 600 && by(&random, 10.0).abs_diff(5_000) < 300, "{}", random.len());
    assert!(Arrivals::ramp(Ramp { from: 0.0, to: 1e6 }, 3_600.0, GapDistribution::Constant, 7).is_err());
}
