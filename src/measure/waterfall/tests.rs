use super::*;
use crate::backend::{ModelTrace, Transit};
use crate::model::statistics::{CountedTime, ModelStatistics};
use crate::result::breakdown::Source;
use crate::result::summary::{LevelLoad, LevelSummary, ServerSummary, sample};

const CLOSED: Ends = Ends { from_intended: false, to_wakeup: false };

fn model(id: u64, parent: u64, name: &str, moments: [u64; 7]) -> ModelTrace {
    ModelTrace { id, parent, name: ModelName::new(name.as_bytes()), version: 1, moments }
}

fn trace(models: &[ModelTrace]) -> KeptTrace {
    KeptTrace {
        intended: Some(Stamp(900)),
        sent: Stamp(1_000),
        handed_over: None,
        last_response: Stamp(2_000),
        awake: Some(Stamp(2_050)),
        succeeded: true,
        weight: 1.0,
        more: false,
        transit: None,
        models: models.into(),
    }
}

fn breakdown(traces: &[KeptTrace], ends: Ends) -> Breakdown {
    Tables::new(traces.iter(), ends).breakdowns().remove(0)
}

fn means(breakdown: &Breakdown) -> Vec<(String, u64)> {
    breakdown.stages.iter().map(|stage| (stage.title(), stage.mean_ns as u64)).collect()
}

fn named(stages: &[(&str, u64)]) -> Vec<(String, u64)> {
    stages.iter().map(|(name, ns)| ((*name).to_owned(), *ns)).collect()
}

const PLAIN: [u64; 7] = [1_010, 1_030, 1_130, 1_150, 1_850, 1_890, 2_100];

#[test]
fn the_stages_of_a_plain_model_add_up_to_the_latency() {
    let breakdown = breakdown(&[trace(&[model(1, 0, "m", PLAIN)])], CLOSED);
    let expected = [
        ("submit", 10),
        ("scheduling", 20),
        ("queue", 100),
        ("compute input", 20),
        ("compute", 700),
        ("compute output", 40),
        ("response", 110),
    ];
    assert_eq!(means(&breakdown), named(&expected));
    assert_eq!((breakdown.latency.mean_ns, breakdown.unexplained.mean_ns), (1_000.0, 0.0));
    assert_eq!(breakdown.wake_up.as_ref().map(|stage| stage.mean_ns), Some(50.0));
    assert!((breakdown.stages[4].share - 0.7).abs() < 1e-9);
}

#[test]
fn a_latency_from_the_intended_send_to_the_wake_up_has_their_stages() {
    let breakdown = breakdown(&[trace(&[model(1, 0, "m", PLAIN)])], Ends { from_intended: true, to_wakeup: true });
    let all = means(&breakdown);
    assert_eq!((all[0].clone(), all[8].clone()), (("schedule delay".to_owned(), 100), ("wake-up".to_owned(), 50)));
    assert_eq!((breakdown.latency.mean_ns, breakdown.unexplained.mean_ns), (1_150.0, 0.0));
    assert_eq!(breakdown.wake_up, None);
}

#[test]
fn on_the_network_the_way_there_and_back_are_stages() {
    let transit = |received, answering| Some(Transit { received: Stamp(received), answering: Stamp(answering) });
    let over = |transit| KeptTrace { transit, ..trace(&[model(1, 0, "m", PLAIN)]) };
    let expected = |compute_output, response, out| {
        named(&[
            ("network in", 4),
            ("parse", 6),
            ("scheduling", 20),
            ("queue", 100),
            ("compute input", 20),
            ("compute", 700),
            ("compute output", compute_output),
            ("response", response),
            ("network out", out),
        ])
    };
    // The model has ended at 1890; some answer before, and some are not done with a request when its answer has come.
    for (answering, times) in [(1_920, (40, 30, 80)), (1_870, (20, 0, 130)), (u64::MAX, (40, 110, 0))] {
        let breakdown = breakdown(&[over(transit(1_004, answering))], CLOSED);
        assert_eq!(means(&breakdown), expected(times.0, times.1, times.2), "{answering}");
        assert_eq!((breakdown.latency.mean_ns, breakdown.unexplained.mean_ns), (1_000.0, 0.0));
    }
}

#[test]
fn what_ends_after_the_response_is_not_part_of_the_latency() {
    let late = [1_010, 1_030, 1_130, 1_150, 1_850, 2_500, 2_600];
    let breakdown = breakdown(&[trace(&[model(1, 0, "m", late)])], CLOSED);
    assert_eq!(means(&breakdown)[5], ("compute output".to_owned(), 150));
    assert_eq!((means(&breakdown)[6].1, breakdown.unexplained.mean_ns), (0, 0.0));
}

#[test]
fn an_answer_from_the_cache_is_unexplained_but_for_its_beginning() {
    let breakdown = breakdown(&[trace(&[model(1, 0, "m", [1_010, 1_030, 0, 0, 0, 0, 1_900])])], CLOSED);
    assert_eq!(means(&breakdown), named(&[("submit", 10), ("scheduling", 20)]));
    assert_eq!(breakdown.unexplained.mean_ns, 970.0);
}

#[test]
fn models_that_run_beside_each_other_explain_their_time_once() {
    let models = [
        model(1, 0, "ens", [1_000, 1_000, 0, 0, 0, 0, 2_100]),
        model(2, 1, "a", [1_100, 1_100, 1_200, 1_200, 1_600, 1_600, 1_600]),
        model(3, 1, "b", [1_100, 1_100, 1_200, 1_200, 1_800, 1_800, 1_800]),
    ];
    let breakdown = breakdown(&[trace(&models)], CLOSED);
    let queues: Vec<_> = means(&breakdown).into_iter().filter(|(name, _)| name.ends_with("queue")).collect();
    assert_eq!(queues, named(&[("a: queue", 100), ("b: queue", 100)]));
    assert_eq!(breakdown.unexplained.mean_ns, 100.0, "from the ensemble's start to that of its first models");
    assert_eq!(breakdown.stages.iter().map(|stage| stage.depth).max(), Some(1));
}

#[test]
fn the_slowest_are_held_against_the_median_ones() {
    let of_length = |compute: u64| {
        let mut moments = PLAIN;
        (4..7).for_each(|moment| moments[moment] += compute);
        let base = trace(&[model(1, 0, "m", moments)]);
        KeptTrace { last_response: Stamp(2_000 + compute), awake: None, ..base }
    };
    let traces: Vec<KeptTrace> = (0..200).map(|number| of_length(if number < 198 { number } else { 50_000 })).collect();
    let slowest = breakdown(&traces, CLOSED).slowest.unwrap();
    assert_eq!(slowest.requests, 3, "the 99th percentile and what is above it");
    let compute = slowest.stages.iter().find(|stage| stage.name == "compute").unwrap();
    assert!(compute.mean_ns > 33_000.0 && (795.0..805.0).contains(&compute.median_mean_ns), "{compute:?}");
    let queue = slowest.stages.iter().find(|stage| stage.name == "queue").unwrap();
    assert_eq!((queue.mean_ns, queue.median_mean_ns), (100.0, 100.0));
}

#[test]
fn requests_to_several_models_are_told_apart() {
    let traces =
        [trace(&[model(1, 0, "m", PLAIN)]), trace(&[model(2, 0, "n", PLAIN)]), trace(&[model(3, 0, "m", PLAIN)])];
    let found: Vec<_> = Tables::new(traces.iter(), CLOSED).breakdowns();
    let counts: Vec<_> = found.iter().map(|breakdown| (breakdown.model.as_str(), breakdown.traced)).collect();
    assert_eq!(counts, [("m", 2), ("n", 1)]);
}

fn server(composing: Vec<ServerSummary>) -> ServerSummary {
    let at = |ns| CountedTime { count: 10, ns };
    let delta = ModelStatistics {
        success: at(9_000_000),
        queue: at(1_000_000),
        compute_input: at(200_000),
        compute_infer: at(5_000_000),
        compute_output: at(300_000),
        ..ModelStatistics::default()
    };
    ServerSummary { name: "m".into(), version: "1".into(), delta, cached: false, several_versions: false, composing }
}

#[test]
fn averages_stand_in_for_traces() {
    let breakdown = averages::breakdown(&server(Vec::new()), &sample::client(10, 1_000_000));
    let queue = breakdown.stages.iter().find(|stage| stage.name == "queue").unwrap();
    assert_eq!((queue.mean_ns, queue.percentiles_ns), (100_000.0, None));
    let sum: f64 = breakdown.stages.iter().map(|stage| stage.mean_ns).sum();
    assert!((sum + breakdown.unexplained.mean_ns - breakdown.latency.mean_ns).abs() < 1.0);
    assert_eq!(breakdown.source, Source::Statistics);
}

#[test]
fn a_model_without_traces_has_averages_beside_those_that_have_some() {
    let named = |name: &str| ServerSummary { name: name.to_owned(), ..server(Vec::new()) };
    let long = "n".repeat(100);
    let level = LevelSummary {
        server: Some(named("m")),
        further_servers: vec![named(&long), named("o")],
        ..sample::level(LevelLoad::Concurrency(1), 10, 1_000_000)
    };
    let traces = [trace(&[model(1, 0, "m", PLAIN)]), trace(&[model(2, 0, &long, PLAIN)])];
    let found = with_averages(Tables::new(traces.iter(), CLOSED).breakdowns(), &level, &[]);
    let sources: Vec<_> = found.iter().map(|breakdown| (breakdown.model.len(), breakdown.source)).collect();
    assert_eq!(sources, [(1, Source::Traces), (64, Source::Traces), (1, Source::Statistics)]);
    assert_eq!(with_averages(Vec::new(), &level, &[]).len(), 3);
}

/// What the blocks of these entries' models say without traces: model, requests that its latency is of, and their mean.
fn averages(servers: &[(&str, &str)], entries: &[(&str, Option<u64>, ClientSummary)]) -> Vec<(String, u64)> {
    let named = |(name, version): &(&str, &str)| ServerSummary {
        name: (*name).to_owned(),
        version: (*version).to_owned(),
        ..server(Vec::new())
    };
    let mut level = sample::level(LevelLoad::Concurrency(1), 100, 1_000_000);
    level.further_servers = servers.iter().map(named).collect();
    level.client.entries = entries.iter().map(|(.., client)| client.clone()).collect();
    let id = |(name, version, _): &(&str, Option<u64>, ClientSummary)| ModelId {
        name: (*name).to_owned(),
        version: *version,
    };
    let models: Vec<ModelId> = entries.iter().map(id).collect();
    let blocks = with_averages(Vec::new(), &level, &models);
    blocks.iter().map(|block| (block.model.clone(), block.latency.mean_ns.round() as u64)).collect()
}

#[test]
fn a_block_is_of_all_entries_of_its_model_and_of_no_other() {
    let entry = |name, version, requests, ns| (name, version, sample::client(requests, ns));
    let repeated = [entry("a", None, 50, 1_000_000), entry("a", None, 30, 3_000_000), entry("b", None, 20, 9_000_000)];
    // Over requests: the second entry has fewer, in the same time.
    let (of_a, of_b) = (("a".to_owned(), 1_750_000), ("b".to_owned(), 9_000_000));
    assert_eq!(averages(&[("a", "1"), ("b", "1")], &repeated), [of_a, of_b.clone()]);
    assert_eq!(averages(&[("b", "1")], &repeated), [of_b], "the server did not report the first");
}

#[test]
fn versions_of_a_model_in_a_mix_are_told_apart() {
    let entry = |version, ns| ("a", version, sample::client(10, ns));
    let means = |servers: &[(&str, &str)], entries: &[(&str, Option<u64>, ClientSummary)]| {
        averages(servers, entries).into_iter().map(|(_, ns)| ns).collect::<Vec<_>>()
    };
    let two = [entry(Some(1), 1_000_000), entry(Some(2), 3_000_000), entry(Some(1), 2_000_000)];
    assert_eq!(means(&[("a", "1"), ("a", "2")], &two), [1_500_000, 3_000_000]);
    // Without a number it is the latest, which may also be asked for by number.
    let latest = [entry(None, 1_000_000), entry(Some(2), 3_000_000)];
    assert_eq!(means(&[("a", "3"), ("a", "2")], &latest), [1_000_000, 3_000_000]);
    assert_eq!(means(&[("a", "2"), ("a", "2")], &latest), [2_000_000, 2_000_000]);
}
