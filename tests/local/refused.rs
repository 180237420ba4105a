//! Command lines and files that make no sense: each is refused before a server is looked for, in one line that says what is wrong.
//! Most rows ask the function that the program asks; `real::in_process::bad_input` holds the program itself to that line, to exit
//! code 99 and to its time.

use std::ffi::OsString;
use std::fs;
use std::path::Path;

use triton_bench::cli;
use triton_bench::error::ErrorKind;
use triton_bench::exit::Codes;

use crate::support::{Program, Repository};

/// A command line of a model in this process.
macro_rules! here {
    ($line:literal) => {
        concat!("-m m --service-kind triton_c_api --triton-server-directory . --model-repository . ", $line)
    };
}

/// What is wrong with the refusal of a command line, split as a shell does: it is one line with all of `parts` and a next step, under
/// both names of the program, or under the one that the line begins with. What is wrong with variants names the step itself.
fn faults(line: &str, parts: &[&str]) -> Vec<String> {
    let (line, names) = match line.split_once(' ') {
        Some((name @ ("triton-bench" | "perf_analyzer"), line)) => (line, vec![name]),
        _ => (line, vec!["triton-bench", "perf_analyzer"]),
    };
    let fault = |name: &&str| {
        let words = shlex::split(&format!("{name} {line}")).expect("quotes are closed");
        let words: Vec<OsString> = words.into_iter().map(OsString::from).collect();
        let codes = Codes::called(words.first());
        let Err(error) = cli::parse(words, codes) else { return Some(format!("{name} {line}: accepted")) };
        let message = error.to_string();
        let rule = if error.kind() != ErrorKind::Usage {
            "not a wrong use".to_owned()
        } else if message.contains('\n') {
            "more than one line".to_owned()
        } else if !message.ends_with("; see --help") && !message.contains("--variant") {
            "no next step".to_owned()
        } else {
            parts.iter().find(|part| !message.contains(**part)).map(|part| format!("'{part}' is missing"))?
        };
        Some(format!("{name} {line}: {rule}: {message}"))
    };
    names.iter().filter_map(fault).collect()
}

/// Loads of which a command line has one.
const LOADS: [&str; 8] = [
    "--concurrency-range 2",
    "--request-rate-range 5",
    "--request-intervals Cargo.toml",
    "--fixed-schedule",
    "--trace-replay Cargo.toml",
    "--periodic-concurrency-range 1:2",
    "--stage rate:5:1s",
    "--sweep linear",
];

/// Flags, and values that none of them takes.
const VALUES: &[(&str, &[&str])] = &[
    ("-b", &["0", "-1", "x", "2x", "", "1.5", "99999999999999999999"]),
    ("-x", &["one"]),
    (
        "--concurrency-range",
        &[
            "0",
            "0:4",
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
        &["-5", "x", "10:5", "0:10", "1:5:0", "1:4:NaN", "inf", "nan", "1e300", "1e400", "5:10:1:1", "10q", ""],
    ),
    ("--periodic-concurrency-range", &["1:4:0", "1:4:2", "4:2"]),
    ("--request-period", &["0"]),
    ("--stage", &["rate:NaN:1s", "rate:-1:1s"]),
    ("--sequence-id-range", &["5:4", "x"]),
    ("--trace-speed", &["0"]),
    ("--request-distribution", &["normal"]),
    ("--burstiness", &["0", "NaN"]),
    ("--precision", &["p99"]),
    ("--sweep", &["linear:1"]),
    (
        "--shape",
        &["INPUT0", "INPUT0:", "INPUT0:x", "INPUT0:-1", "INPUT0:1,,2", ":1", "INPUT0:99999999999999999999", ""],
    ),
    ("--input-data", &["/none/such.json"]),
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

/// Each command line, and what its refusal must name.
const REFUSED: &[(&str, &[&str])] = &[
    // One flag alone.
    ("", &["-m is missing"]),
    ("-m ''", &["-m ''", "must not be empty"]),
    ("-m m --nonsense", &["--nonsense is not a flag"]),
    ("-m m --schedule 0.1,0.5", &["--schedule is no longer a flag", "use --fixed-schedule or --trace-replay"]),
    ("-m m -Z", &["-Z is not a flag"]),
    ("-m m --trace-file t.json", &["--trace-file", "--trace-config=triton,file=FILE"]),
    ("-m m --session-concurrency 4", &["Session concurrency mode is only supported with OpenAI service kind."]),
    ("-m", &["-m needs a value, NAME"]),
    ("-m m --async=1", &["--async takes no value"]),
    ("-m m -x 1x", &["-x '1x'", "whole number"]),
    ("-m m --restarts 0", &["--restarts '0'", "from 1 to 1000"]),
    ("-m m --service-kind openai", &["Must supply --input-data for OpenAI service kind."]),
    ("-m m --service-kind x", &["--service-kind 'x'"]),
    (
        "-m m --service-kind tfserving --streaming",
        &["perf_analyzer does not support streaming for TensorFlow Serving."],
    ),
    (
        "-m m --service-kind torchserve",
        &["--input-data should be provided with a json file with input data for torchserve."],
    ),
    (
        "-m m --service-kind tfserving --collect-metrics",
        &["Server-side metric collection is only supported with Triton client backend."],
    ),
    (
        "-m m --service-kind tfserving --trace-level TENSORS --priority 3",
        &["--priority 3 is for --service-kind triton or triton_c_api: leave it out, or choose that kind"],
    ),
    (
        "-m m --service-kind torchserve --input-data Cargo.toml --grpc-compression-algorithm gzip",
        &["--grpc-compression-algorithm gzip is for --service-kind triton or triton_c_api or tfserving"],
    ),
    (
        "-m m --service-kind tfserving --metrics-url h:1",
        &["--metrics-url h:1 is for", "triton or triton_c_api or torchserve"],
    ),
    ("-m m --service-kind torchserve --input-data Cargo.toml -i grpc", &["-i grpc", "HTTP"]),
    ("-m m -p 0", &["--measurement-interval '0'", "a number of milliseconds", "from 1ms"]),
    ("-m m -p 99999999999", &["--measurement-interval '99999999999'"]),
    ("-m m -p 5000x", &["--measurement-interval '5000x'"]),
    ("-m m --percentile 100", &["--percentile '100'", "1 to 99"]),
    ("-m m --percentile 0", &["--percentile '0'"]),
    ("-m m -s nan", &["--stability-percentage 'nan'"]),
    ("-m m -s -1", &["--stability-percentage '-1'"]),
    ("-m m -r 0", &["--max-trials '0'"]),
    ("-m m -l -5", &["--latency-threshold '-5'"]),
    ("-m m --request-count -1", &["--request-count '-1'"]),
    ("-m m --trace-count -2", &["--trace-count '-2'", "or -1"]),
    ("-m m --max-threads 0", &["--max-threads '0'"]),
    ("-m m --max-errors 2", &["--max-errors '2'"]),
    ("-m m --concurrency-range 4:1", &["--concurrency-range '4:1'", "must not be below"]),
    ("-m m --concurrency-range 1:4:0", &["--concurrency-range '1:4:0'", "step must be above 0"]),
    ("-m m --request-rate-range 0", &["--request-rate-range '0'", "above 0"]),
    ("-m m --request-rate-range -10", &["--request-rate-range '-10'"]),
    ("-m m --trace-speed inf", &["--trace-speed 'inf'"]),
    ("-m m --request-intervals /no/such", &["--request-intervals '/no/such'", "no such file"]),
    ("-m m --input-data /no/such", &["--input-data '/no/such'", "exists"]),
    ("-m m --input-data zero --input-data Cargo.toml", &["--input-data was given several times"]),
    ("-m m --shape x:0", &["--shape 'x:0'", "above 0"]),
    ("-m m -H nocolon", &["-H: ", "Name:Value"]),
    (
        "-m m --service-kind triton_c_api --model-repository . --request-parameter a:9223372036854775808:uint",
        &["the request parameter a is 9223372036854775808", "end at 9223372036854775807: send it as a string"],
    ),
    ("-m m --request-parameter a:b", &["--request-parameter 'a:b'", "name:value:type"]),
    ("-m m --sequence-id-range 5:5", &["--sequence-id-range '5:5'", "holds no ID"]),
    (
        "-m m --ssl-https-ca-certificates-file Cargo.toml",
        &["--ssl-https-ca-certificates-file asks for TLS", "-u https://"],
    ),
    ("-m m -u http://h --ssl-https-verify-peer 1", &["--ssl-https-verify-peer asks for TLS"]),
    ("-m m -u h:8000 --ssl-grpc-use-ssl", &["--ssl-grpc-use-ssl asks for TLS", "-i grpc"]),
    (
        "-m m -i grpc --ssl-grpc-use-ssl false --ssl-grpc-root-certifications-file Cargo.toml",
        &["--ssl-grpc-root-certifications-file asks for TLS", "--ssl-grpc-use-ssl"],
    ),
    ("-m m --sequence-length x", &["--sequence-length 'x'", "from 1 to 4294967295"]),
    ("-m m --ssl-grpc-root-certifications-file /no", &["--ssl-grpc-root-certifications-file '/no'"]),
    ("-m m --ssl-grpc-use-ssl=maybe", &["--ssl-grpc-use-ssl 'maybe'"]),
    ("-m m --bls-composing-models a,,b", &["--bls-composing-models ''"]),
    ("-m m --cpus 3-1", &["--cpus '3-1'", "backwards"]),
    ("-m m --variant a:--sync --variant b:--async --report-dir out", &["--report-dir holds files on levels"]),
    (
        "-m m --variant a:--sync --variant b:--async --report-dir out --report-parts requests",
        &["--report-dir holds files on levels"],
    ),
    (
        "-m m -i grpc --streaming --periodic-concurrency-range 1:2 --report-dir out",
        &["--report-dir holds files on levels"],
    ),
    (
        "-m m --variant a:--sync --variant b:--async --trace-export t.json",
        &["--trace-export: holds the traces of one variant"],
    ),
    ("-m m --svg comparison:c.svg", &["--svg comparison", "add --variant or --baseline"]),
    ("-m m -f no/such/folder/f.csv --svg spectrum:s.svg --variant a:--sync --variant b:--async", &["shows levels"]),
    ("-m m -b 1,2 --variant a: --variant b:", &["-b 1,2", "--variant and --matrix take one"]),
    ("-m m --matrix disks", &["--matrix 'disks'", "memory, transports"]),
    // Rules of the load.
    ("-m m -t 4 --sweep linear", &["--sweep and -t", "choose one"]),
    ("-m m --async --sync", &["--async and --sync contradict"]),
    ("-m m -i grpc --streaming --sync", &["--streaming", "--sync"]),
    ("-m m -a --wait spin", &["--wait spin", "asynchronous"]),
    ("-m m -t 4 -d -c 2", &["-c 2", "must not be below"]),
    ("-m m --otlp-endpoint h:1 --variant a: --variant b:-a", &["--otlp-endpoint h:1", "leave it out"]),
    (
        "-m m -i grpc --streaming --periodic-concurrency-range 1:2 --otlp-endpoint h:1",
        &["--otlp-endpoint", "leave it out"],
    ),
    ("-m m -d", &["-d has no end", "--latency-threshold"]),
    ("-m m -t 2 --concurrency-range 3", &["--concurrency-range and -t", "choose one"]),
    ("-m m --request-rate-range 3 -d", &["--request-rate-range and -d", "choose one"]),
    ("-m m --concurrency-range 1:0", &["--concurrency-range 1:0", "--latency-threshold"]),
    ("-m m --request-rate-range 1:0", &["--request-rate-range 1:0", "--latency-threshold"]),
    // Ranges that nobody sees the end of.
    ("-m m --request-rate-range 100:200:1e-300", &["--request-rate-range 100:200:1e-300", "too small to raise"]),
    ("-m m --request-rate-range 100:0:1e-300 -l 5", &["too small to raise the rate: take a larger one"]),
    ("-m m --request-rate-range 1000:2000:1e-6", &["1000:2000:1e-6: its step makes more than 10000 levels"]),
    ("-m m --request-rate-range 1:10001:1", &["more than 10000 levels"]),
    (
        "-m m --matrix memory --model-repository /r --request-rate-range 1000:2000:1e-6",
        &["1000:2000:1e-6: its step makes more than 10000 levels"],
    ),
    (
        "-m m --variant a:--request-rate-range=1000:2000:1e-6 --variant b:--async",
        &["--variant 'a': --request-rate-range 1000:2000:1e-6: its step makes more than 10000 levels"],
    ),
    ("-m m --request-rate-range 5 --burstiness 2", &["--burstiness 2", "--request-distribution gamma"]),
    ("-m m --request-distribution gamma", &["gamma needs a load with a rate", "--request-rate-range"]),
    ("-m m --trace-speed 2", &["--trace-speed 2 needs --trace-replay"]),
    ("-m m --max-outstanding 5", &["--max-outstanding 5"]),
    ("-m m -i grpc --streaming --periodic-concurrency-range 1:2 --sync", &["--sync"]),
    ("-m m --service-kind null --periodic-concurrency-range 1:2 --sync", &["--periodic-concurrency-range", "--sync"]),
    ("-m m --periodic-concurrency-range 1:2", &["-i grpc --streaming"]),
    ("-m m --cpus 0,1 --worker-cpus 1,2", &["--worker-cpus 1,2 must be among --cpus 0,1"]),
    // Rules of the measurement.
    ("-m m --binary-search -l 5 --sweep linear", &["--binary-search needs a range"]),
    ("-m m --binary-search -l 5 --concurrency-range 4", &["--binary-search", "--concurrency-range 4"]),
    ("-m m --binary-search -l 5 --concurrency-range 4:0", &["--binary-search needs a range with an end"]),
    ("-m m --binary-search -l 5", &["--binary-search", "the concurrency of 1"]),
    ("-m m --binary-search --concurrency-range 1:8", &["--binary-search", "--latency-threshold"]),
    ("-m m --fixed-schedule --input-data Cargo.toml --request-count 5", &["--fixed-schedule", "--request-count"]),
    ("-m m --stage rate:1:1s --request-count 5", &["--stage", "--request-count"]),
    ("-m m --request-count 3 --concurrency-range 1:4", &["--request-count 3", "--concurrency-range 1:4"]),
    (
        "perf_analyzer -m m --request-count 3 --request-rate-range 1:4",
        &["--request-count 3", "--request-rate-range 1:4"],
    ),
    ("-m m --request-count 3 --concurrency-range 4", &["--request-count 3", "--concurrency-range 4"]),
    (
        "perf_analyzer -m m --request-count 9 --request-rate-range 10.5",
        &["--request-count 9", "--request-rate-range 10.5"],
    ),
    ("-m m --warmup-request-count 5 --warmup-duration 1s", &["--warmup-request-count and --warmup-duration"]),
    ("-m m --precision p99:2% --request-count 5", &["--precision", "--request-count"]),
    ("-m m --precision p99:2% --stage rate:5:1s", &["--precision p99:2%", "--stage ends by itself"]),
    ("-m m --matrix transports", &["--matrix transports", "--model-repository", "a server that runs with -u"]),
    ("-m m --matrix memory --service-kind triton", &["--matrix memory", "--service-kind triton_c_api"]),
    ("-m m --matrix memory -u h:1 --shared-memory system", &["--matrix memory", "name none"]),
    ("-m m --matrix memory --model-repository /r --shared-memory system", &["--matrix memory", "name none"]),
    // Rules of the data.
    ("-m m -z --input-data Cargo.toml", &["-z", "--input-data"]),
    ("-m m --fixed-schedule", &["--fixed-schedule", "--input-data FILE.json"]),
    ("-m m --random-range x:0:1 --input-data zero", &["--random-range x:0:1"]),
    ("-m m --validate-tolerance 0.1", &["--validate-tolerance 0.1", "expected outputs"]),
    ("-m m --shared-memory system --input-memory pinned", &["--shared-memory", "--input-memory"]),
    ("-m m --input-memory pinned", &["--input-memory", "--shared-memory"]),
    ("-m m --cuda-device 1", &["--cuda-device 1 needs --shared-memory cuda"]),
    ("--model-mix a:0.7,b:0.2", &["--model-mix", "sum to 0.9"]),
    ("-m a --model-mix a:1", &["--model-mix", "leave out -m"]),
    // Rules of the server.
    ("-m m --service-kind triton_c_api", &["triton_c_api needs --model-repository"]),
    ("-m m --service-kind triton_c_api --model-repository ''", &["must not be empty"]),
    ("-m m --backend-config a,b=c --log-level info", &["--backend-config and --log-level", "embedded server"]),
    ("-m m --service-kind null --reconnect", &["--reconnect", "network"]),
    ("-m m --streaming", &["--streaming needs gRPC"]),
    ("-m m --grpc-compression-algorithm gzip", &["--grpc-compression-algorithm gzip needs gRPC"]),
    ("-m m -i grpc --http-compression gzip", &["--http-compression gzip needs HTTP"]),
    ("-m m --metrics-url h:1", &["--metrics-url needs --collect-metrics"]),
    (
        "-m m --service-kind triton_c_api --model-repository /r --collect-metrics --server-metrics off",
        &["--collect-metrics", "--server-metrics off"],
    ),
    // Loads of a model in this process.
    (here!("--stage rate:0:1s"), &["--stage", "above 0"]),
    (here!("--request-intervals src"), &["--request-intervals", "directory"]),
    (here!("--fixed-schedule --input-data zero"), &["--fixed-schedule", "--input-data"]),
    (here!("--fixed-schedule --input-data Cargo.toml -b 2"), &["--fixed-schedule", "-b 2"]),
    (here!("--stage replay:1"), &["--stage replay:SPEED", "--trace-replay"]),
    (here!("--stage rate:1:1s --trace-replay Cargo.toml"), &["--stage", "--trace-replay", "different loads"]),
    (here!("--stage replay:1 --trace-replay Cargo.toml --trace-speed 2"), &["--trace-speed 2", "--stage replay:SPEED"]),
    (here!("--trace-input IDS"), &["--trace-input", "--trace-replay", "--trace-lengths"]),
    (here!("--trace-lengths Cargo.toml"), &["--trace-lengths", "--trace-input"]),
    (
        here!("--trace-lengths Cargo.toml --trace-input I --trace-replay Cargo.toml"),
        &["--trace-lengths", "--trace-replay"],
    ),
    (here!("--trace-replay Cargo.toml --trace-input IDS:0"), &["--trace-input"]),
    (
        here!("--trace-replay Cargo.toml --trace-input IDS --input-data Cargo.toml"),
        &["--trace-input", "generated data"],
    ),
    (here!("--request-count 5 --sweep linear"), &["--request-count", "--sweep"]),
    (
        here!("--periodic-concurrency-range 1:2 --warmup-duration 1s"),
        &["--periodic-concurrency-range", "--warmup-duration"],
    ),
    (here!("--trace-replay Cargo.toml --warmup-duration 1s"), &["--warmup-duration 1s", "--warmup-request-count"]),
    // perf_analyzer never ends with a rate and fewer warm-up requests than threads.
    (here!("--request-rate-range 10 --warmup-request-count 3"), &["--warmup-request-count 3", "4", "--max-threads"]),
    (here!("--request-rate-range 10 --max-threads 8 --warmup-request-count 3"), &["--warmup-request-count 3", "8"]),
    (here!("--sweep linear --warmup-request-count 3"), &["--warmup-request-count 3", "--max-threads"]),
    (here!("--request-intervals Cargo.toml --warmup-request-count 3"), &["--warmup-request-count 3", "--max-threads"]),
    (
        here!("--request-rate-range 10 --num-of-sequences 8 --warmup-request-count 3"),
        &["--warmup-request-count 3", "4"],
    ),
    (here!("--restarts 3 --sweep linear:3"), &["--restarts 3", "--sweep", "leave one out"]),
    // Mixes and variants.
    ("--model-repository . --model-mix a:0.7,b:0.7", &["--model-mix", "sum to 1", "1.4"]),
    ("--model-repository . --model-mix a:0.5", &["--model-mix", "sum to 1", "0.5"]),
    (here!("--variant fine:-b2 --variant 'odd:--concurency-range 2'"), &["--variant 'odd'", "concurency-range"]),
    (here!("--variant fine:-b2 --variant 'odd:-b 0'"), &["--variant 'odd'", "-b '0'"]),
    (here!("--variant fine:-b2 --variant 'odd:-f x.csv'"), &["--variant 'odd'", "-f", "outside"]),
    (here!("--variant fine:-b2 --variant 'fine:-b 3'"), &["--variant 'fine'", "two have that name"]),
    (here!("--variant fine:-b2 --variant odd"), &["--variant 'odd'", "NAME:'FLAGS'"]),
    (here!("--variant alone:-b2"), &["--variant 'alone'", "two or more"]),
    (here!("--variant a:-b1 --variant b:-b2 --svg spectrum:s.svg"), &["--svg spectrum", "--svg comparison:FILE"]),
    (here!("--variant a:-b1 --variant b:-b2 --matrix memory"), &["--matrix", "--variant"]),
];

#[test]
fn what_makes_no_sense_is_refused_in_one_line() {
    let mut found: Vec<String> = REFUSED.iter().flat_map(|(line, parts)| faults(line, parts)).collect();
    let junk = NUMBERS.iter().map(|flag| (flag, "10zebras"));
    let values = VALUES.iter().flat_map(|(flag, values)| values.iter().map(move |value| (flag, *value)));
    for (flag, value) in values.chain(junk) {
        found.extend(faults(&format!("{} {flag} '{value}'", here!("")), &[flag, value]));
    }
    for (number, first) in LOADS.iter().enumerate() {
        for second in &LOADS[number + 1..] {
            let name = |load: &str| load.split(' ').next().unwrap().to_owned();
            let parts = [&name(first), &name(second), "choose one"];
            found.extend(faults(&format!("{} {first} {second}", here!("")), &parts));
        }
    }
    for mix in ["a", "a:0,b:1", "a:-1,b:2", "a:NaN", ":1", "a?x:1", ""] {
        found.extend(faults(&format!("--model-repository . --model-mix '{mix}'"), &["--model-mix"]));
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
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
    refused_file(FLAG, "\u{feff}100\nten\n", &["line 2", "'ten'"]);
}

#[test]
fn schedules() {
    const FLAG: &str = "--fixed-schedule --input-data";
    let step = |ms: &str| format!(r#"{{"timestamp": [{ms}], "INPUT0": {:?}}}"#, [1.0; 16]);
    let file = |steps: &str| format!(r#"{{"data": [{steps}]}}"#);
    let refused_steps = |steps: &str, word: &str| refused_file(FLAG, &file(steps), &["--fixed-schedule", word]);
    refused_steps(&format!("{}, {}", step("5"), step("4")), "it is due at 4 ms, and the step before it at 5 ms");
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
    refused_file(FLAG, "", &["it is empty: a trace is CSV"]);
    refused_file(FLAG, "[{\"timestamp\": 1}]", &["it is a list of JSON"]);
    let long = "{\"timestamp\": 1, \"input_length\": 99999999999, \"output_length\": 1}\n";
    refused_file(FLAG, long, &["line 1: a prompt of 99999999999 tokens", "10000000"]);
    refused_file(FLAG, "time,tokens\n1,2\n", &["no column holds times", "time,tokens"]);
    refused_file(FLAG, "offset_ms\n", &["empty"]);
    refused_file(FLAG, "offset_ms\n5\n4\n", &["line 3", "earlier"]);
    refused_file(FLAG, "offset_ms\nx\n", &["line 2", "'x'"]);
    refused_file("--trace-input IDS --trace-replay", "offset_ms\n1\n", &["ContextTokens", "--trace-input"]);
    refused_file("--trace-parameter n --trace-replay", "offset_ms,ContextTokens\n1,2\n", &["GeneratedTokens"]);
}
