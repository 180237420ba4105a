//! Performance models with a known best configuration. The models sleep instead of computing, so that machines with few
//! processors give the same answer. Most are studies: the tests of the search itself play such laws without a server.

use super::found::search;
use crate::support::Model;

/// An execution of B rows takes `fixed_us + item_us * B`, in one instance with a batcher.
fn law(fixed_us: u32, item_us: u32) -> Model {
    Model::identity("m")
        .batches(1)
        .with("dynamic_batching {}")
        .parameter("delay_us", &fixed_us.to_string())
        .parameter("per_item_us", &item_us.to_string())
}

/// Each has the machine to itself.
mod measured {
    use super::*;

    #[test]
    fn batching_pays() {
        let model = law(5_000, 0).parameter("permits", "1");
        let found = search(model, "--search instances=1,2 --search max_batch_size=1,8,32 --budget 6s");
        assert_eq!((found.name(), found.winner()), ("better", vec![1, 32]), "{}", found.text());
        let gain = found.result["verdict"]["gain"].as_f64().unwrap();
        assert!(gain > 10.0, "32 times as much at best: {gain}");
        let stdout = &found.finished.stdout;
        assert!(stdout.contains("of 32 were executed") && stdout.contains("max_batch_size 8: "), "{stdout}");
        assert!(stdout.lines().all(|line| line.chars().count() <= 80), "{stdout}");
    }

    #[test]
    fn loads_that_fail_are_results() {
        let model = law(20_000, 0).parameter("fail_load_if", "count>4").parameter("load_ms", "20");
        let found = search(model, "--search instances=1,4,5,8 --budget 6s");
        assert_eq!((found.name(), found.winner()), ("better", vec![4]), "{}", found.text());
        for count in [5, 8] {
            let failed = found.with(&[count]);
            assert!(failed["reason"].as_str().unwrap().contains("fails as configured"), "{failed}");
            assert_eq!(failed["status"], "failed");
        }
    }
}

/// Searches that take long, each with the machine to itself.
mod slow {
    use super::*;

    /// Beyond what an execution itself costs on a busy machine, that is.
    #[test]
    #[ignore = "a study of seconds: scripts/test-slow runs it"]
    fn batching_is_vain() {
        let model = law(0, 20_000).parameter("permits", "4");
        let found = search(model, "--search instances=1,4 --search max_batch_size=1,4 --budget 15s");
        assert_eq!((found.name(), found.winner()[0]), ("better", 4), "{}", found.text());
        let rate = |batch: u64| found.with(&[4, batch])["figures"]["throughput"].as_f64().unwrap();
        assert!(found.winner()[1] == 1 || (rate(4) > rate(1) && rate(4) < 1.2 * rate(1)), "{}", found.text());
    }

    #[test]
    #[ignore = "a study of seconds: scripts/test-slow runs it"]
    fn instances_are_vain() {
        let model = law(20_000, 0).parameter("slowdown_permille", "1000");
        let found = search(model, "--search instances=1,2,4 --budget 15s");
        assert_eq!((found.name(), found.winner()), ("kept", vec![1]), "{}", found.text());
    }

    #[test]
    #[ignore = "a study of seconds: scripts/test-slow runs it"]
    fn instances_contend() {
        let model = law(20_000, 0).parameter("slowdown_permille", "200");
        let found = search(model, "--search instances=1,2,4,8 --budget 15s");
        assert_eq!((found.name(), found.winner()), ("better", vec![8]), "{}", found.text());
    }

    #[test]
    #[ignore = "a study of seconds: scripts/test-slow runs it"]
    fn instances_contend_for_three_permits() {
        let model = law(20_000, 0).parameter("slowdown_permille", "200").parameter("permits", "3");
        let found = search(model, "--search instances=1,2,3,6 --budget 15s");
        // Six are as good, so on a machine that is not still they may come out ahead by more than the margin.
        assert_eq!(found.name(), "better", "{}", found.text());
        assert!([3, 6].contains(&found.winner()[0]), "{}", found.text());
    }

    #[test]
    #[ignore = "a study of seconds: scripts/test-slow runs it"]
    fn a_constraint_binds() {
        // Four times as long as the table has it, so that a busy machine's delays are small beside it.
        let flags = "--search max_batch_size=1,2,4,8,32 --constraint p99<80ms --budget 20s";
        let found = search(law(8_000, 4_000), flags);
        assert!(["better", "unconfirmed"].contains(&found.name()) && found.winner()[0] >= 4, "{}", found.text());
        // Batches of 32 would take 136 ms: fewer are outstanding.
        let winner = found.with(&found.winner());
        assert_eq!(winner["meets"], true, "{winner}");
        assert!(winner["figures"]["concurrency"].as_u64().unwrap() <= 16, "{winner}");
        let fixed = search(law(8_000, 4_000), &format!("{flags} --at-concurrency 64"));
        let largest = fixed.with(&[32]);
        assert!(
            largest["meets"] == false && fixed.finished.code() == 2,
            "a load that is given stays: {}",
            fixed.text()
        );
    }

    #[test]
    #[ignore = "a study of seconds: scripts/test-slow runs it"]
    fn a_delay_only_costs() {
        let model = law(5_000, 0).batches(8);
        let found = search(model, "--search delay=0,20000,50000 --at-rate 50 --budget 15s");
        assert_eq!((found.name(), found.winner()), ("kept", vec![0]), "{}", found.text());
        assert_eq!(found.result["objective"], "p99");
    }

    #[test]
    #[ignore = "a study of seconds: scripts/test-slow runs it"]
    fn a_plateau_is_no_gain() {
        let law = || law(20_000, 0).parameter("permits", "2");
        let found = search(law().instances(2), "--search instances=1,2,4,6 --budget 15s");
        assert_eq!((found.name(), found.winner()), ("kept", vec![2]), "{}", found.text());
        assert!(found.words().contains("No configuration shown to be better than yours by 2 %"), "{}", found.text());
        let bound = found.result["verdict"]["interval"]["high"].as_f64().unwrap();
        assert!((0.9..1.3).contains(&bound), "{bound}");
        let from_one = search(law(), "--search instances=1,2,4,6 --budget 15s");
        assert_eq!(from_one.name(), "better", "{}", from_one.text());
        assert!(from_one.winner()[0] >= 2, "{}", from_one.text());
    }

    #[test]
    #[ignore = "a study of seconds: scripts/test-slow runs it"]
    fn noise_alone_keeps_yours() {
        let model = law(5_000, 0).parameter("delay_law", "exponential").parameter("permits", "1").instances(2);
        let found = search(model, "--search instances=2,3 --search delay=0,10,20 --budget 12s");
        assert_eq!(found.name(), "kept", "{}", found.text());
    }

    #[test]
    #[ignore = "a study of seconds: scripts/test-slow runs it"]
    fn candidates_that_crash_are_results_where_they_are_isolated() {
        let model = law(20_000, 0).parameter("crash_if", "count>2");
        let found = search(model, "--search instances=1:3 --isolate --budget 40s");
        assert_eq!((found.name(), found.winner()), ("better", vec![2]), "{}", found.text());
        let crashed = found.with(&[3]);
        assert!(crashed["reason"].as_str().unwrap().contains("crashed (signal 6)"), "{crashed}");
    }

    #[test]
    #[ignore = "a study of seconds: scripts/test-slow runs it"]
    fn batches_and_concurrency_of_the_client() {
        let found = search(law(5_000, 0).batches(8), "-b 1,2,8 --concurrency-range 1,4 --budget 15s");
        assert_eq!((found.name(), found.winner()[0]), ("better", 8), "{}", found.text());
    }

    #[test]
    #[ignore = "a study of seconds: scripts/test-slow runs it"]
    fn a_large_space_is_looked_at_along_its_settings_first() {
        let model = law(5_000, 0).parameter("permits", "2");
        let found =
            search(model, "--search instances=1:6 --search max_batch_size=1,2,4:16 --search delay=0,100 --budget 30s");
        assert_eq!((found.name(), found.winner()[1]), ("better", 16), "{}", found.text());
        assert_eq!(found.result["space"], 60);
        assert!(found.text().contains("searching along each setting"), "{}", found.text());
    }
}
