//! Tables and rows of variants.

use super::*;
use crate::lines::WIDTH;
use crate::result::bare::BareCopies;
use crate::result::rounds::{Round, Unit, Value};
use crate::result::summary::LevelLoad;
use crate::result::variants::VariantIdentity;
use crate::terms::Rounds;

const RATE: Figure = Figure::Client(Statistic::Throughput);
const MEAN: Figure = Figure::Client(Statistic::MeanLatency);

/// Rounds in which the second variant takes `factors` of the first's 2 ms.
fn result(names: [&str; 2], factors: &[f64], matrix: Option<&str>) -> VariantsResult {
    let unit = |factor: f64| {
        let values = [(RATE, 500.0 / factor), (MEAN, 2e6 * factor)].map(|(figure, value)| Value { figure, value });
        Some(Unit { values: values.to_vec(), requests: 500, ..Unit::default() })
    };
    let order = |number: usize| if number.is_multiple_of(2) { vec![0, 1] } else { vec![1, 0] };
    let rounds = factors.iter().enumerate().map(|(number, &factor)| Round {
        start: 1,
        number: number + 1,
        order: order(number),
        units: vec![unit(1.0), unit(factor)],
        set_aside: false,
    });
    let cell = Cell {
        measured_s: 0.0,
        loads: vec![LevelLoad::Concurrency(1); 2],
        size: matrix.map(|_| 64 << 10),
        input_bytes: vec![Some(65_536.0); 2],
        output_bytes: vec![Some(32_768.0); 2],
        bare: None,
        window_times: 1,
        rounds: rounds.collect(),
    };
    let identity = |name: &str| VariantIdentity { name: name.to_owned(), flags: format!("-m {name}"), problem: None };
    VariantsResult {
        matrix: matrix.map(str::to_owned),
        variants: names.map(identity).to_vec(),
        rounds: Rounds { count: factors.len(), order: Order::Abba, margin: 0.05, until_decided: None },
        starts: 1,
        seed: 1,
        primary: MEAN,
        cells: vec![cell],
    }
}

const WORSE: [f64; 8] = [1.10, 1.11, 1.09, 1.10, 1.10, 1.11, 1.09, 1.10];

fn assert_narrow(text: &str) {
    text.lines().for_each(|line| assert!(line.chars().count() <= WIDTH, "{line}"));
}

#[test]
fn a_block_says_the_answer_first_and_then_why() {
    let result = result(["old", "new"], &WORSE, None);
    let text = cell(&result, &result.cells[0]);
    let expected = "\
concurrency 1: new is worse than old: 1.100 times [1.094, 1.106] (avg usec, 8
    rounds)
                    old      new  ratio    95% interval      p  finds
  infer/sec      500.00   454.55  0.909  [0.904, 0.914] 0.0078   0.8%  worse
  avg usec       2000.0   2200.0  1.100  [1.094, 1.106] 0.0078   0.8%  worse

";
    assert_eq!(text, expected);
    assert_narrow(&text);
}

#[test]
fn what_is_undecided_says_what_would_decide() {
    let result = result(["a", "b"], &[1.0, 1.2, 0.9, 1.1, 1.0, 1.2, 0.9, 1.1], None);
    let text = cell(&result, &result.cells[0]);
    assert!(
        text.contains("b is undecided against a") && text.contains("  Rounds that would decide: infer/sec "),
        "{text}"
    );
    assert_narrow(&text);
}

#[test]
fn hostile_and_long_names_stay_within_their_columns() {
    let result = result(["a\x1b[31mred and much longer than that is", "=cmd|' /C calc'!A0"], &WORSE, None);
    let text = cell(&result, &result.cells[0]);
    assert!(!text.contains('\x1b'), "{text}");
    assert_narrow(&text);
    assert_narrow(&heading(&result, &crate::result::summary::sample::plan()));
}

#[test]
fn a_matrix_has_a_row_for_each_way() {
    let mut result = result(["C API", "C API + shared memory"], &[11.5; 8], Some("transports"));
    let text = cell(&result, &result.cells[0]);
    let lines: Vec<&str> = text.lines().collect();
    assert!(text.contains("inputs of 64 KiB") && text.contains("MB/s"), "{text}");
    assert!(lines.contains(&"  C API         500.00    32.77    16.38   2000.0"), "{text}");
    assert!(lines.iter().any(|line| line.starts_with("  C API + shm ") && line.ends_with("worse")), "{text}");
    result.cells[0].window_times = 16;
    result.cells[0].bare = Some(BareCopies { memcpy_ns: 5_500.0, loopback_ns: Some(60_000.0) });
    let text = cell(&result, &result.cells[0]);
    assert!(text.contains("  windows grew to 16 times the length asked for: shorter ones"), "{text}");
    assert!(text.contains("  One bare copy of the inputs: 5.500 usec; to and fro over TCP on this machine:"), "{text}");
    assert_narrow(&text);
    result.variants[1].problem =
        Some("Connection refused by a server that was there a moment ago, and is no more".into());
    result.cells[0].rounds.iter_mut().for_each(|round| round.units[1] = None);
    let text = cell(&result, &result.cells[0]);
    assert!(text.contains("  C API + shm not measured: Connection"), "{text}");
}

#[test]
fn what_does_not_count_is_said() {
    let mut result = result(["a", "b"], &WORSE, None);
    let rounds = &mut result.cells[0].rounds;
    rounds[2].units[1] = Some(Unit { failed: 3, ..Unit::failed("out of coffee") });
    rounds[3].units[0].as_mut().unwrap().disturbed = true;
    rounds[4].units[0].as_mut().unwrap().disturbed = true;
    rounds[4].set_aside = true;
    let text = cell(&result, &result.cells[0]);
    for part in [
        "b: failed in round 3, which does not count: out of coffee",
        "b: 3 requests failed",
        "1 of 8 rounds were disturbed by others: set aside",
        "1 of 8 rounds were disturbed by others, and count",
        "(avg usec, 6",
        "errors: ",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn a_variant_that_failed_in_every_round_has_its_share_of_failures() {
    let mut result = result(["good", "bad"], &WORSE, None);
    for round in &mut result.cells[0].rounds {
        round.units[1] = Some(Unit { failed: 500, ..Unit::failed("HTTP 500") });
    }
    let text = cell(&result, &result.cells[0]);
    let expected = "concurrency 1: nothing to compare: bad and good share no round\n  errors: 0.00% and 100.00%, ";
    assert!(text.starts_with(expected) && text.contains(" points: worse"), "{text}");
    result.variants[0].flags = String::new();
    let heading = heading(&result, &crate::result::summary::sample::plan());
    assert!(heading.contains("  good (the reference): as the run\n  bad: -m bad\n"), "{heading}");
}

#[test]
fn rounds_are_in_a_file_beside() {
    let mut result = result(["a", "b"], &WORSE, None);
    result.cells[0].rounds[2].set_aside = true;
    let files = files(std::path::Path::new("x/out.csv"), &result);
    assert_eq!(files[1].0, std::path::Path::new("x/rounds.out.csv"));
    let table = &files[1].1;
    assert_eq!(table.len(), 1 + 2 * WORSE.len());
    assert_eq!(
        table[0].join(","),
        "Concurrency,Input Bytes,Start,Round,Place,Variant,Counts,Disturbed,Requests,Failed Requests,Inferences/Second,Avg latency,\
         p50 latency,p90 latency,p95 latency,p99 latency,Problem",
        "whatever units had enough requests for"
    );
    assert_eq!(table[1].join(","), "1,65536,1,1,1,a,yes,no,500,0,500,2000,,,,,");
    assert_eq!(table[3].join(","), "1,65536,1,2,1,b,yes,no,500,0,450.45,2220,,,,,");
    assert_eq!(table[5][6], "no", "it was set aside");
    result.cells[0].input_bytes = vec![Some(67_108_864.0); 2];
    let all = super::files(std::path::Path::new("out.csv"), &result);
    assert!(all.iter().all(|(_, table)| table[1][1] == "67108864"), "{:?}", all[0].1[1]);
    assert_eq!(super::files(std::path::Path::new("/dev/null"), &result).len(), 1);
}

#[test]
fn columns_are_those_of_all_variants() {
    let mut result = result(["a", "b"], &WORSE, None);
    let queue = Value { figure: Figure::Server(ServerPart::ServerQueue), value: 9e3 };
    for round in &mut result.cells[0].rounds {
        round.units[0] = Some(Unit::failed("Connection refused"));
        round.units[1].as_mut().unwrap().values.push(queue);
    }
    let table = rows::rows(&result);
    let column = table[0].iter().position(|title| title == "Server Queue").expect("the reference alone has none");
    assert_eq!((table[1][column].as_str(), table[2][column].as_str()), ("", "9"));
}

#[test]
fn rows_have_a_variant_each() {
    let result = result(["a", "b"], &WORSE, None);
    let table = rows::rows(&result);
    let at = |row: usize, title: &str| {
        let column =
            table[0].iter().position(|name| name == title).unwrap_or_else(|| panic!("{title}: {:?}", table[0]));
        table[row][column].clone()
    };
    assert_eq!(table.len(), 3);
    assert_eq!((at(1, "Concurrency"), at(1, "Variant"), at(2, "Flags")), ("1".into(), "a".into(), "-m b".into()));
    assert_eq!((at(1, "Avg latency"), at(1, "avg ratio")), ("2000".into(), String::new()));
    assert_eq!((at(2, "avg verdict"), at(2, "Rounds")), ("worse".into(), "8".into()));
    assert!(at(2, "avg ratio").starts_with("1.09") || at(2, "avg ratio").starts_with("1.1"));
}
