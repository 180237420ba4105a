//! The meaning of keys and values, and the errors for those without one.

use std::fs;

use triton_bench::terms::LoadMode;

use super::*;

#[test]
fn a_file_means_what_its_flags_mean() {
    let file = Config::of(
        "# levels\nmodel: resnet\nconcurrency-range: 1:8:2\nasync: true\nstreaming: false\nverbose: 2\nheader:\n  - 'A: b'\n  - C:d\n\
         shape: ['IN:1,16']\nrequest-parameter: ['a:true:bool']\nprotocol: grpc\npercentile: 99\nmargin: ~\n",
    );
    let words = "-m resnet --concurrency-range 1:8:2 --async -vv -H 'A: b' -H C:d --shape IN:1,16 --request-parameter a:true:bool \
                 -i grpc --percentile 99";
    assert_eq!(format!("{:?}", file.plan(&[])), format!("{:?}", plan(parse(split(words)))));
    assert!(matches!(file.plan(&["--stage", "rate:5:1s"]).load.mode, LoadMode::Stages { .. }));
}

#[test]
fn the_command_line_goes_before_the_file() {
    let file = Config::of("model: a\nheader: ['A: b', 'C: d']\nconcurrency-range: 1:8\nseed: 7\n");
    let plan = file.plan(&["-m", "b", "-H", "E:f", "--request-rate-range", "100"]);
    assert_eq!(plan.target.model.name, "b");
    assert_eq!(plan.target.connection.headers, [("E".into(), "f".into())], "a list is replaced");
    assert!(matches!(plan.load.mode, LoadMode::RequestRate { .. }), "a load takes the place of another");
    assert_eq!(plan.seed, 7);
}

#[test]
fn what_is_printed_reads_back_as_the_same_plan() {
    let lines = [
        "-m m",
        "-m 'true' -H 'A: b' -H 'C: \"d\\e\" # f' -x 3",
        "-m 'a: b' --request-rate-range 10:100:10 --request-distribution poisson --streaming -i grpc",
        "-m m --concurrency-range 1,2,4 -vv --require 'p99<20ms' --require 'errors<0.1%' --percentiles 50,99.9",
        "-m \"l'eau\" --model-repository /r --trace-rate 5 --shape IN:1,2 --string-data '- x' --log-verbose 1",
        "--model-mix a:0.5,b:0.5 --stage rate:5:3s --stage concurrency:2:50req --seed 9",
        "-m m --service-kind openai --endpoint v1/completions --prompt-tokens 50:10 -u https://h:1/x",
        "-m m -i grpc --ssl-grpc-use-ssl",
        "-m m -i grpc --ssl-grpc-use-ssl true --ssl-grpc-use-ssl",
        "-m m --model-repository /r --enable-peer-access --strict-model-config --model-namespacing",
        "-m m --model-repository /r --enable-peer-access=false --strict-model-config=on --model-namespacing=0",
        "-m '\u{1f600}\u{202e}' --request-parameter 'x:~:string' -p 5000",
    ];
    for line in lines {
        let words = split(line);
        let printing = words.iter().cloned().chain([OsString::from("--print-config")]);
        let file = Config::of(&printed(parse(printing)));
        let text = fs::read_to_string(file.path()).unwrap();
        assert_eq!(format!("{:?}", file.plan(&[])), format!("{:?}", plan(parse(words))), "{line}\n{text}");
        assert_eq!(printed(file.and(&["--print-config"])), text, "{line}");
    }
}

#[test]
fn faults_are_told_with_line_and_column() {
    let faults = [
        (
            "model: m\nconcurency-range: 1\n",
            "FILE:2:1: 'concurency-range' is not the name of a flag: did you mean concurrency-range",
        ),
        ("model: m\nm: n\n", "FILE:2:1: 'm' is not the name of a flag: did you mean model?"),
        (
            "model: m\nconcurrency_range: 4\n",
            "FILE:2:1: 'concurrency_range' is not the name of a flag: did you mean concurrency-range?",
        ),
        (
            "model: m\nconcurrency-range: true\n",
            "FILE:2:20: 'concurrency-range' takes START[:END[:STEP]], not a boolean; to mean the text, quote it",
        ),
        ("model: m\nasync: 1\n", "FILE:2:8: 'async' takes true or false, not a value"),
        ("model: m\nverbose: x\n", "FILE:2:10: 'verbose' takes a whole number or true or false, not a value"),
        ("model: m\nseed: [1, 2]\n", "FILE:2:7: 'seed' takes N|time, not a list"),
        ("model: m\nseed: {a: 1}\n", "FILE:2:7: 'seed' takes N|time, not a mapping"),
        ("model: m\nseed: -1\n", "FILE:2:7: --seed '-1': it must be a whole number"),
        (
            "model: m\nheader:\n  - 'a: b'\n  - [x]\n",
            "FILE:4:5: 'header' takes NAME:VALUE, or a list of these, not a list",
        ),
        ("model: m\nheader:\n  - 'a: b'\n  - x\n", "FILE:4:5: -H: it must be Name:Value"),
        ("model: m\nmodel: n\n", "FILE:2:1: the key 'model' is given twice"),
        ("model: m\nconfig: other\n", "FILE:2:1: 'config' belongs on the command line, not in the file"),
        ("model: m\n  x: 1\n", "FILE:2:"),
        ("- model\n", "FILE:1:1: a mapping of keys to values is needed here, not a list"),
        ("extends: a\n", "FILE:1:1: 'extends' belongs in a run below 'runs'"),
        ("runs:\n  a:\n    extends: b\n", "FILE:3:14: there is no run 'b' to extend"),
        ("runs:\n  a:\n    extends: b\n  b: {extends: [a]}\n", "FILE:4:17: 'a' would extend itself"),
        ("runs:\n  a: {runs: {}}\n", "FILE:2:7: a run cannot contain runs"),
        (
            "runs:\n  a: {extends: {}}\n",
            "FILE:2:16: 'extends' takes the name of a run, or a list of names, not a mapping",
        ),
        ("runs:\n  .a: {model: m}\n", "FILE: all of its runs are templates"),
    ];
    for (text, fault) in faults {
        let error = Config::of(text).error(&[]);
        assert!(error.starts_with(fault), "{text}: {error}");
    }
    let file = Config::of("runs: {a: {model: m}}");
    assert!(file.error(&["--run", "b"]).starts_with("FILE: it has no run 'b' (--run); there are a"));
    let missing = parse(split("--config /nowhere.yaml -m m")).unwrap_err().to_string();
    assert!(missing.starts_with("--config /nowhere.yaml:1:1: cannot be read"), "{missing}");
    let alone = parse(split("--run a -m m")).unwrap_err().to_string();
    assert!(alone.starts_with("--run 'a': it names a run of --config, which is missing"), "{alone}");
    // A rule between flags is the command line's own.
    let rule = Config::of("model: m\nasync: true\nsync: true\n").error(&[]);
    assert_eq!(rule, parse(split("-m m --async --sync")).unwrap_err().to_string());
}

#[test]
fn runs_extend_each_other() {
    let file = Config::of(
        "model: m\nseed: 1\nruns:\n  .far: {url: 'h:1', header: ['A: b', 'C: d']}\n  grpc:\n    extends: .far\n    protocol: grpc\n  \
         rates:\n    extends: [grpc]\n    header: 'E: f'\n    seed: ~\n    request-rate-range: 5\n  closed:\n    extends: [rates, .far]\n    \
         concurrency-range: 4\n",
    );
    let words = |run: &str| printed(file.and(&["--run", run, "--print-config"]));
    assert_eq!(
        words("grpc"),
        "model: m\nseed: 1\nurl: h:1\nprotocol: grpc\nheader:\n  - \"A: b\"\n  - \"C: d\"\n".to_owned()
    );
    assert_eq!(words("rates"), "model: m\nrequest-rate-range: 5\nurl: h:1\nprotocol: grpc\nheader: \"E: f\"\n");
    let closed = file.plan(&["--run", "closed"]);
    assert_eq!(closed.target.connection.headers.len(), 2, "the last that is extended counts");
    assert!(matches!(closed.load.mode, LoadMode::Concurrency(_)));
    let all = Config::of(&printed(file.and(&["--print-config"])));
    assert_eq!(format!("{:?}", all.plan(&["--run", "closed"])), format!("{closed:?}"));
}

#[test]
fn tune_and_models_take_files_too() {
    let file =
        Config::of("model: m\nmodel-repository: /r\nsearch: ['instances=1:2', 'max_batch_size=1,2']\nbudget: 5s\n");
    let path = file.path().display().to_string();
    match parse(split(&format!("tune --config {path}"))) {
        Ok(Command::Tune(plan)) => assert_eq!(format!("{:?}", plan.budget), "5s"),
        other => panic!("{other:?}"),
    }
    let file = Config::of("url: h:1\nruns: {a: {}, b: {protocol: grpc}}\n");
    let path = file.path().display().to_string();
    let several = parse(split(&format!("models --config {path}"))).unwrap_err().to_string();
    assert_eq!(several, "--config has several runs: name one with --run, of a, b");
    assert!(matches!(parse(split(&format!("models --config {path} --run b"))), Ok(Command::Models(_))));
    for (text, load) in [
        (
            "request-rate-range: 10\nrequest-distribution: gamma\nburstiness: 2\nmax-outstanding: 5\n",
            "--concurrency-range",
        ),
        ("stage: ['rate:1:1s', 'rate:2:1s']\nstage-edges: drain\n", "--request-rate-range"),
        ("trace-replay: Cargo.toml\ntrace-speed: 2\n", "--concurrency-range"),
    ] {
        let file = Config::of(&format!("model: m\n{text}"));
        assert!(matches!(file.and(&[load, "4"]), Ok(Command::Run(_))), "{:?}", file.and(&[load, "4"]));
    }
    let file = Config::of("url: h:1\nmodel-mix: 'a:0.7,b:0.3'\n");
    let path = file.path().display().to_string();
    assert!(matches!(parse(split(&format!("models --config {path}"))), Ok(Command::Models(_))));
}
