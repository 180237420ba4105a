use std::time::Duration;

use super::*;
use crate::bounds::{estimate, figures, is_precise};
use crate::record::Distribution;
use crate::result::summary::{StatisticEstimate, sample};
use crate::terms::Precision;
use crate::window_summary;

mod coverage;
mod steps;

/// Blocks of a second with as many latencies of 1000, 2000, … ns as `requests` says, shifted by as much as `shift` says.
fn measured(requests: impl Fn(u64) -> u64, shift: impl Fn(u64) -> u64) -> (Blocks, ClientSummary) {
    let block = |number: u64| {
        let mut client = sample::client(0, 0);
        client.requests = requests(number);
        for latency in 1..=client.requests {
            let ns = latency * 1000 + shift(number);
            client.latency.histogram.record(ns).unwrap();
            client.latency.sum_ns += u128::from(ns);
        }
        client
    };
    let mut blocks = Blocks::default();
    let parts: Vec<ClientSummary> = (0..48).map(block).collect();
    parts.iter().for_each(|part| blocks.push(Block::new(part)));
    let all = parts[1..].iter().fold(parts[0].clone(), window_summary::merge);
    (blocks, all)
}

fn precise(statistic: Statistic, share: f64, (blocks, all): &(Blocks, ClientSummary)) -> bool {
    is_precise(Precision { statistic, share }, blocks, all)
}

#[test]
fn equal_blocks_are_known_well_and_unequal_ones_are_not() {
    let equal = measured(|_| 200, |_| 0);
    let unequal = measured(|number| 20 + 20 * (number / 12), |number| 900_000 * (number / 12));
    for statistic in [Statistic::Throughput, Statistic::MeanLatency, Statistic::Percentile(50.0)] {
        assert!(precise(statistic, 0.02, &equal), "{statistic:?}");
        assert!(statistic == Statistic::Percentile(50.0) || !precise(statistic, 0.2, &unequal), "{statistic:?}");
    }
    let (blocks, all) = measured(|_| 20, |_| 0);
    let mut few = Blocks::default();
    blocks.each()[..6].iter().for_each(|block| few.push(block.clone()));
    assert_eq!(interval(Statistic::Throughput, &few, &all), None, "six blocks do not tell");
}

#[test]
fn many_requests_have_an_interval_however_much_their_blocks_differ() {
    // Bursts of others: some blocks have a third of the requests, which take three times as long.
    let busy = |number: u64| number * number % 11 < 4;
    let (blocks, all) =
        measured(|number| if busy(number) { 1_000 } else { 3_000 }, |number| 9_000_000 * u64::from(busy(number)));
    for statistic in [Statistic::Throughput, Statistic::MeanLatency, Statistic::Percentile(50.0)] {
        let interval = interval(statistic, &blocks, &all).unwrap_or_else(|| panic!("{statistic:?}"));
        assert!(
            interval.low < value(statistic, &all) && value(statistic, &all) < interval.high,
            "{statistic:?}: {interval:?}"
        );
    }
}

#[test]
fn percentiles_get_wider_where_blocks_drift() {
    let statistic = Statistic::Percentile(90.0);
    let width = |(blocks, all): (Blocks, ClientSummary)| {
        interval(statistic, &blocks, &all).unwrap().relative_half_width(all.latency.percentile_ns(90.0) as f64)
    };
    let steady = width(measured(|_| 200, |_| 0));
    assert!(steady < 0.01, "{steady}");
    assert!(width(measured(|_| 200, |number| 1000 * (number % 3))) < 2.0 * steady, "quick changes even out");
    let drifting = width(measured(|_| 200, |number| 1000 * (number / 8)));
    assert!(drifting > 2.0 * steady, "{drifting} {steady}");
}

#[test]
fn latencies_that_are_all_alike_are_known() {
    let mut blocks = Blocks::default();
    let parts: Vec<ClientSummary> = (0..48).map(|_| sample::client(100, 1_000_000)).collect();
    parts.iter().for_each(|part| blocks.push(Block::new(part)));
    let all = parts[1..].iter().fold(parts[0].clone(), window_summary::merge);
    for StatisticEstimate { statistic, interval, .. } in
        figures(Some(99.0)).into_iter().map(|statistic| estimate(statistic, &blocks, &all))
    {
        let interval = interval.unwrap_or_else(|| panic!("{statistic:?}"));
        let value = if statistic == Statistic::Throughput { 100.0 } else { 1_000_000.0 };
        assert!(
            interval.low <= value * 1.000_001
                && interval.high >= value * 0.999_999
                && interval.high - interval.low < value / 500.0
        );
    }
    assert_eq!(all.duration, Duration::from_secs(48));
}

#[test]
fn rare_latencies_take_many_samples() {
    let is_known = |requests: u64, percentile: f64, apart: u64| {
        let (blocks, all) = measured(|_| requests, |number| number * 17 % 48 * apart);
        interval(Statistic::Percentile(percentile), &blocks, &all).is_some()
    };
    assert!(is_known(100, 99.0, 400) && is_known(20, 90.0, 100));
    assert!(!is_known(10, 99.0, 400) && !is_known(100, 99.9, 400), "480 and 4800 samples");
    assert!(!is_known(20, 90.0, 400), "blocks that differ as much as their latencies are 48 independent samples");
}

#[test]
fn a_bound_is_known_where_the_slowest_come_in_one_burst() {
    // Of 48 blocks one is slower: about the 99th percentile all requests are in that one, which is worth a hundred.
    let (blocks, all) = measured(|_| 4_000, |block| 5_000_000 * u64::from(block == 17));
    let bounds = estimate(Statistic::Percentile(99.0), &blocks, &all).bounds;
    let (p99, slowest) = (all.latency.percentile_ns(99.0) as f64, all.latency.percentile_ns(100.0) as f64);
    assert!(bounds.high.is_some_and(|high| high > p99 && high <= 2.0 * slowest), "{bounds:?}");
}

/// 48 blocks of a server that gives `at_once` answers together every two seconds, over so many of these times.
fn ticking(times: f64, at_once: u64) -> (Blocks, ClientSummary) {
    let (mut blocks, mut latency) = (Blocks::default(), Distribution::empty());
    let ended = |block: u64| (times * block as f64 / 48.0 + 0.3) as u64 * at_once;
    for block in 0..48 {
        let mut latencies = vec![2_000_000_000; (ended(block + 1) - ended(block)) as usize];
        blocks.push(Block::of_latencies(times / 24.0, &mut latencies, &mut latency));
    }
    let duration = Duration::from_secs_f64(2.0 * times);
    let client = ClientSummary { duration, requests: latency.count(), latency, ..sample::client(0, 0) };
    (blocks, client)
}

#[test]
fn a_rate_of_few_requests_that_are_all_alike_is_known() {
    for (times, at_once, share) in [(15.0, 1, 0.2), (20.0, 1, 0.13), (20.0, 8, 0.13), (40.0, 1, 0.06), (60.0, 3, 0.04)]
    {
        let (blocks, all) = ticking(times, at_once);
        let (throughput, rate) = (interval(Statistic::Throughput, &blocks, &all).unwrap(), at_once as f64 / 2.0);
        assert!(throughput.low <= rate && rate <= throughput.high, "{times}: {throughput:?}");
        // Of one with failures, places tell nothing.
        let failing = ClientSummary { failed: 1, ..all.clone() };
        let throughput = interval(Statistic::Throughput, &blocks, &failing).unwrap();
        assert!(throughput.low <= rate && rate <= throughput.high, "{times}: {throughput:?}");
        assert!(throughput.relative_half_width(all.throughput()) < share, "{times}, {at_once}: {throughput:?}");
    }
    let (blocks, all) = ticking(9.0, 1);
    let throughput = interval(Statistic::Throughput, &blocks, &all).unwrap();
    assert!(
        throughput.low <= 0.5 && 0.5 <= throughput.high && throughput.relative_half_width(0.5) < 0.1,
        "{throughput:?}"
    );
}

/// 48 blocks of a second with two requests outstanding, which take longer in the last third.
#[test]
fn in_a_closed_loop_the_mean_latency_is_known_as_well_as_the_throughput() {
    let mut blocks = Blocks::default();
    let parts = (0..48).map(|block| {
        let requests = if block % 12 < 8 { 2_000 } else { 1_300 };
        sample::client(requests, 2_000_000_000 / requests)
    });
    let parts: Vec<ClientSummary> = parts.collect();
    parts.iter().for_each(|part| blocks.push(Block::new(part)));
    let all = parts[1..].iter().fold(parts[0].clone(), window_summary::merge);
    let half = |statistic: Statistic| {
        let interval = interval(statistic, &blocks, &all).unwrap_or_else(|| panic!("{statistic:?}"));
        (interval.high / interval.low).sqrt() - 1.0
    };
    let (rate, mean) = (half(Statistic::Throughput), half(Statistic::MeanLatency));
    assert!((mean / rate - 1.0).abs() < 0.1, "{mean} {rate}");
    // At a rate, as many come however long they take.
    let (blocks, all) = measured(|_| 200, |number| 100_000 * (number % 12 / 8));
    assert_eq!(of_mean_by_throughput(&blocks, &all), None);
}
