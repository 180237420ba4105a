//! Command lines and files that make no sense: each is refused before a server is looked for, in one line that says what is wrong.
//! Most rows ask the function that the program asks; `real::in_process::bad_input` holds the program itself to that line, to exit
//! code 99 and to its time.

use std::ffi::OsString;
use std::fs;
use std::path::Path;

use triton_bench::cli;
use triton_bench::exit::Codes;

use crate::support::{Program, Repository};

/// The refusal of these words, beside those that name a model in this process.
fn refusal(words: &[&str]) -> String {
    let start = "triton-bench -m m --service-kind triton_c_api --triton-server-directory . --model-repository .";
    let line = start.split(' ').chain(words.iter().copied()).map(OsString::from);
    let refused = cli::parse(line, Codes::Own).err().unwrap_or_else(|| panic!("{words:?} are accepted"));
    refused.to_string()
}

/// One line, with all of `parts`.
fn assert_line(line: &str, parts: &[&str], case: &str) {
    assert!(!line.contains('\n'), "{case}: more than one line: {line}");
    for part in parts {
        assert!(line.contains(part), "{case}: '{part}' is not in: {line}");
    }
}

fn refused(line: &str, parts: &[&str]) {
    assert_line(&refusal(&line.split_whitespace().collect::<Vec<_>>()), parts, line);
}

/// Refused with a file, by the program: where its server should be is nothing.
fn refused_file(flag: &str, text: &str, parts: &[&str]) {
    let repository = Repository::of(&[]);
    let path = repository.file("input");
    fs::write(&path, text).unwrap();
    let nowhere = Path::new("/nonexistent/server");
    let finished = Program::in_process(nowhere, &repository.path()).args("-m m").args(flag).arg(&path).run();
    let line = finished.refusal(parts);
    let named = line.contains(flag.split(' ').next_back().unwrap()) && line.contains(path.to_str().unwrap());
    // What several flags make of the file together names the first of them.
    assert!(named || line.contains(flag.split(' ').next().unwrap()), "{line}");
}

#[test]
fn two_modes_at_once() {
    let modes = [
        "--concurrency-range 2",
        "--request-rate-range 5",
        "--request-intervals Cargo.toml",
        "--fixed-schedule",
        "--trace-replay Cargo.toml",
        "--periodic-concurrency-range 1:2",
        "--stage rate:5:1s",
        "--sweep linear",
    ];
    for (index, first) in modes.iter().enumerate() {
        for second in &modes[index + 1..] {
            let name = |mode: &str| mode.split(' ').next().unwrap().to_owned();
            refused(&format!("{first} {second}"), &[&name(first), &name(second), "choose one"]);
        }
    }
}

/// Flags, and values that none of them takes.
const VALUES: &[(&str, &[&str])] = &[
    ("-b", &["0", "-1", "x", "2x", "", "1.5", "99999999999999999999"]),
    ("-x", &["one"]),
    (
        "--concurrency-range",
        &[
            "4:1",
            "0",
            "0:4",
            "1:4:0",
            "-1",
            "1:-4",
            "1:4:-1",
            "1:2:3:4",
            ":",
            "1:",
            ":4",
            "1::2",
            "x",
            "1:4x",
            "1.5",
            "4:2:1",
            "99999999999999999999",
            "1:99999999999999999999",
            "",
        ],
    ),
    (
        "--request-rate-range",
        &["0", "-5", "x", "10:5", "0:10", "1:5:0", "1:4:NaN", "inf", "nan", "1e300", "1e400", "5:10:1:1", "10q", ""],
    ),
    ("--periodic-concurrency-range", &["1:4:0", "1:4:2", "4:2"]),
    ("--request-period", &["0"]),
    ("--stage", &["rate:NaN:1s", "rate:0:1s", "rate:-1:1s"]),
    ("--sequence-id-range", &["5:5", "5:4", "x"]),
    ("--trace-speed", &["0"]),
    ("--request-distribution", &["normal"]),
    ("--burstiness", &["0", "NaN"]),
    ("--precision", &["p99"]),
    ("--sweep", &["linear:1"]),
    (
        "--shape",
        &[
            "INPUT0",
            "INPUT0:",
            "INPUT0:x",
            "INPUT0:0",
            "INPUT0:-1",
            "INPUT0:1,,2",
            ":1",
            "INPUT0:99999999999999999999",
            "",
        ],
    ),
    ("--input-data", &["/none/such.json"]),
    ("--request-intervals", &["/nonexistent/file", "src"]),
];

/// Flags of numbers.
const NUMBERS: &[&str] = &[
    "--measurement-interval",
    "--stability-percentage",
    "--max-trials",
    "-b",
    "-x",
    "--latency-threshold",
    "--percentile",
    "--request-count",
    "--warmup-request-count",
    "--max-threads",
    "--measurement-request-count",
    "--string-length",
    "--sequence-length",
    "--seed",
    "--log-verbose",
    "--exit-timeout-secs",
    "--model-load-thread-count",
    "--output-shared-memory-size",
    "--pinned-memory-pool-byte-size",
];

#[test]
fn values_that_make_no_sense_are_named_with_their_flag() {
    let junk = NUMBERS.iter().map(|flag| (flag, "10zebras"));
    let values = VALUES.iter().flat_map(|(flag, values)| values.iter().map(move |value| (flag, *value)));
    for (flag, value) in values.chain(junk) {
        let line = refusal(&[flag, value]);
        assert_line(&line, &[flag, value, "see --help"], &format!("{flag} '{value}'"));
    }
}

/// Command lines of loads, and what their refusal must name.
const LOADS: &[(&str, &[&str])] = &[
    ("--stage rate:0:1s", &["--stage", "above 0"]),
    ("--request-intervals /nonexistent/file", &["--request-intervals", "/nonexistent/file", "no such file"]),
    ("--request-intervals src", &["--request-intervals", "directory"]),
    ("--fixed-schedule", &["--fixed-schedule", "--input-data"]),
    ("--fixed-schedule --input-data zero", &["--fixed-schedule", "--input-data"]),
    ("--fixed-schedule --input-data Cargo.toml -b 2", &["--fixed-schedule", "-b 2"]),
    ("--trace-speed 2", &["--trace-speed", "--trace-replay"]),
    ("--stage replay:1", &["--stage replay:SPEED", "--trace-replay"]),
    ("--stage rate:1:1s --trace-replay Cargo.toml", &["--stage", "--trace-replay", "different loads"]),
    ("--stage replay:1 --trace-replay Cargo.toml --trace-speed 2", &["--trace-speed 2", "--stage replay:SPEED"]),
    ("--trace-replay Cargo.toml --trace-speed 0", &["--trace-speed"]),
    ("--trace-input IDS", &["--trace-input", "--trace-replay", "--trace-lengths"]),
    ("--trace-lengths Cargo.toml", &["--trace-lengths", "--trace-input"]),
    ("--trace-lengths Cargo.toml --trace-input I --trace-replay Cargo.toml", &["--trace-lengths", "--trace-replay"]),
    ("--trace-replay Cargo.toml --trace-input IDS:0", &["--trace-input"]),
    ("--trace-replay Cargo.toml --trace-input IDS --input-data Cargo.toml", &["--trace-input", "generated data"]),
    ("--periodic-concurrency-range 1:2 --sync", &["--periodic-concurrency-range", "--sync"]),
    ("--periodic-concurrency-range 1:2 --request-period 0", &["--request-period"]),
    ("--request-count 5 --sweep linear", &["--request-count", "--sweep"]),
    ("--request-count 2 --concurrency-range 3", &["--request-count", "--concurrency-range"]),
    ("--periodic-concurrency-range 1:2 --warmup-duration 1s", &["--periodic-concurrency-range", "--warmup-duration"]),
    ("--trace-replay Cargo.toml --warmup-duration 1s", &["--warmup-duration 1s", "--warmup-request-count"]),
    ("--warmup-duration 1s --warmup-request-count 20", &["--warmup-duration", "--warmup-request-count"]),
    ("--request-rate-range 5 --request-distribution gamma --burstiness 0", &["--burstiness"]),
    ("--request-rate-range 5 --burstiness 0.5", &["--burstiness", "gamma"]),
    ("--request-distribution gamma", &["gamma", "--request-rate-range"]),
    // perf_analyzer never ends with a rate and fewer warm-up requests than threads.
    ("--request-rate-range 10 --warmup-request-count 3", &["--warmup-request-count 3", "4", "--max-threads"]),
    ("--request-rate-range 10 --max-threads 8 --warmup-request-count 3", &["--warmup-request-count 3", "8"]),
    ("--sweep linear --warmup-request-count 3", &["--warmup-request-count 3", "--max-threads"]),
    ("--request-intervals Cargo.toml --warmup-request-count 3", &["--warmup-request-count 3", "--max-threads"]),
    ("--request-rate-range 10 --num-of-sequences 8 --warmup-request-count 3", &["--warmup-request-count 3", "4"]),
    ("--restarts 3 --sweep linear:3", &["--restarts 3", "--sweep", "leave one out"]),
];

#[test]
fn loads_that_make_no_sense_are_refused() {
    for (line, parts) in LOADS {
        refused(line, parts);
    }
}

#[test]
fn mixes_that_are_none() {
    let refused = |mix: &str, parts: &[&str]| {
        let words = ["triton-bench", "--model-repository", ".", "--model-mix", mix].map(OsString::from);
        let refused = cli::parse(words, Codes::Own).err().unwrap_or_else(|| panic!("'{mix}' is accepted"));
        assert_line(&refused.to_string(), &[&["--model-mix"], parts].concat(), mix);
    };
    for (mix, sum) in [("a:0.5,b:0.4", "0.9"), ("a:0.7,b:0.7", "1.4"), ("a:0.5", "0.5")] {
        refused(mix, &["sum to 1", sum]);
    }
    for mix in ["a", "a:0,b:1", "a:-1,b:2", "a:NaN", ":1", "a?x:1", ""] {
        refused(mix, &["see --help"]);
    }
}

#[test]
fn mistakes_of_variants_name_the_variant() {
    for (flags, parts) in [
        ("odd:--concurency-range 2", &["--variant 'odd'", "concurency-range"][..]),
        ("odd:-b 0", &["--variant 'odd'", "-b '0'"]),
        ("odd:-f x.csv", &["--variant 'odd'", "-f", "outside"]),
        ("fine:-b 3", &["--variant 'fine'", "two have that name"]),
        ("odd", &["--variant 'odd'", "NAME:'FLAGS'"]),
    ] {
        assert_line(&refusal(&["--variant", "fine:-b 2", "--variant", flags]), parts, flags);
    }
    let two = ["--variant", "a:-b 1", "--variant", "b:-b 2"];
    let beside = |words: &[&'static str]| refusal(&[&two, words].concat());
    assert_line(&refusal(&["--svg", "comparison:c.svg"]), &["--svg comparison", "add --variant"], "--svg");
    assert_line(&beside(&["--svg", "spectrum:s.svg"]), &["--svg spectrum", "--svg comparison:FILE"], "--svg");
    assert_line(&refusal(&["--variant", "alone:-b 2"]), &["--variant 'alone'", "two or more"], "alone");
    assert_line(&beside(&["--matrix", "memory"]), &["--matrix", "--variant"], "--matrix");
}

/// What only all plans together show, the program says before it looks for a server.
#[test]
fn variants_that_cannot_be_compared() {
    for (flags, parts) in [
        ("odd:--triton-server-directory /elsewhere", &["--variant 'odd'", "/elsewhere", "compare"][..]),
        ("odd:--concurrency-range 1:3", &["--variant 'odd'", "as many"]),
        ("odd:--concurrency-range 1:0 -l 5", &["--variant 'odd'", "with an end"]),
        ("odd:--stage rate:5:1s", &["--variant 'odd'", "--stage"]),
    ] {
        let repository = Repository::of(&[]);
        let program = Program::in_process(Path::new("/nonexistent/server"), &repository.path());
        program.args("-m m --variant").arg("fine:-b 2").arg("--variant").arg(flags).run().refusal(parts);
    }
}

#[test]
fn files_of_intervals() {
    const FLAG: &str = "--request-intervals";
    refused_file(FLAG, "", &["no interval"]);
    refused_file(FLAG, "\n\n", &["no interval"]);
    refused_file(FLAG, "0\n0\n", &["every interval is zero"]);
    refused_file(FLAG, "100\nten\n", &["line 2", "'ten'"]);
    refused_file(FLAG, "100\n\n200\n", &["line 2", "blank"]);
    refused_file(FLAG, "100\n-1\n", &["line 2", "'-1'"]);
}

#[test]
fn schedules() {
    const FLAG: &str = "--fixed-schedule --input-data";
    let step = |ms: &str| format!(r#"{{"timestamp": [{ms}], "INPUT0": {:?}}}"#, [1.0; 16]);
    let file = |steps: &str| format!(r#"{{"data": [{steps}]}}"#);
    let refused_steps = |steps: &str, word: &str| refused_file(FLAG, &file(steps), &["--fixed-schedule", word]);
    refused_steps(&format!("{}, {}", step("5"), step("4")), "': the schedule is out of order");
    refused_steps(&format!("{}, {}", step("5"), step("4.5")), "timestamp");
    refused_steps(&step("-1"), "timestamp");
    refused_steps(r#"{"INPUT0": [1.0]}"#, "timestamp");
    refused_steps(&format!("[{}], [{}]", step("1"), step("2")), "one stream");
    refused_steps("", "empty");
    refused_file(FLAG, r#"{"timestamp": [1]}"#, &["--fixed-schedule", "data"]);
    refused_file(FLAG, "5\n6\n", &["--fixed-schedule", "line 1"]);
    let words = ["--warmup-request-count 2", "which has 2"];
    refused_file("--warmup-request-count 2 --trace-replay", "offset_ms\n1\n2\n", &words);
    refused_file(&format!("--warmup-request-count 2 {FLAG}"), &file(&[step("1"), step("2")].join(",")), &words);
}

#[test]
fn traces() {
    const FLAG: &str = "--trace-replay";
    refused_file(FLAG, "", &["no column holds times"]);
    refused_file(FLAG, "time,tokens\n1,2\n", &["no column holds times", "time,tokens"]);
    refused_file(FLAG, "offset_ms\n", &["empty"]);
    refused_file(FLAG, "offset_ms\n5\n4\n", &["line 3", "earlier"]);
    refused_file(FLAG, "offset_ms\nx\n", &["line 2", "'x'"]);
    refused_file("--trace-input IDS --trace-replay", "offset_ms\n1\n", &["ContextTokens", "--trace-input"]);
    refused_file("--trace-parameter n --trace-replay", "offset_ms,ContextTokens\n1,2\n", &["GeneratedTokens"]);
}
