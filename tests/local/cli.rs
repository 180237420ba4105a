//! The command line from outside: what perf_analyzer's scripts rely on, rules that need the model, the help text. `refused` has
//! the lines that are refused.

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use triton_bench::backend::ParameterValue;
use triton_bench::backends::triton_json;
use triton_bench::cli::{self, Command};
use triton_bench::error::ErrorKind;
use triton_bench::exit::Codes;
use triton_bench::model::{CorrelationForm, ModelId, ModelSpec};
use triton_bench::plan::{
    Calls, Compression, ConnectionPlan, DataSource, LogLevel, Matrix, Plan, Protocol, ServiceKind, TensorFormat,
    TraceLevel, Wait,
};
use triton_bench::shm::Placement;
use triton_bench::terms::{GapDistribution, LoadMode, Periodic, Range, StageLength, WindowRule};

/// Splits at blanks; `''` is an empty word.
fn words(line: &str) -> impl Iterator<Item = OsString> {
    let words: Vec<OsString> = std::iter::once("perf_analyzer")
        .chain(line.split_whitespace().map(|word| if word == "''" { "" } else { word }))
        .map(OsString::from)
        .collect();
    words.into_iter()
}

fn plan(line: &str) -> Plan {
    match cli::parse(words(line), Codes::PerfAnalyzers) {
        Ok(Command::Run(plan)) => *plan,
        other => panic!("{line}: {other:?}"),
    }
}

fn error(line: &str) -> String {
    error_as(line, Codes::PerfAnalyzers)
}

fn error_as(line: &str, codes: Codes) -> String {
    match cli::parse(words(line), codes) {
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::Usage, "{line}");
            let message = error.to_string();
            assert!(!message.contains('\n'), "{line}: more than one line: {message}");
            assert!(message.ends_with("; see --help"), "{line}: no next step: {message}");
            message
        }
        Ok(command) => panic!("{line}: accepted as {command:?}"),
    }
}

fn concurrency(plan: &Plan) -> Range<u32> {
    match plan.load.mode {
        LoadMode::Concurrency(ref range) => range.clone(),
        ref other => panic!("{other:?}"),
    }
}

const IN_PROCESS: &str = "-m m --service-kind triton_c_api --model-repository /r";
const PERIODIC: &str = "-m m -i grpc --streaming --periodic-concurrency-range 1:2";
const SESSIONS: &str = "-m m --service-kind openai --endpoint v1 --input-data Cargo.toml --session-concurrency 2";

#[test]
fn defaults_are_perf_analyzers() {
    let plan = plan("-m resnet");
    assert_eq!(plan.target.model, ModelId::latest("resnet"));
    assert_eq!(plan.target.service, ServiceKind::Triton);
    assert_eq!(plan.target.connection.url, "localhost:8000");
    assert_eq!(concurrency(&plan), Range::with_step(1, Some(1), 1));
    assert_eq!(plan.measurement.window, WindowRule::Time(Duration::from_secs(5)));
    assert!((plan.measurement.stability - 0.1).abs() < 1e-12);
    assert_eq!((plan.measurement.max_trials, plan.measurement.percentile), (10, None));
    let most = |codes, length| plan.clone().for_callers_of(codes).measurement.windows_left(0, Duration::ZERO, length);
    assert_eq!(
        (most(Codes::PerfAnalyzers, Duration::from_millis(1)), most(Codes::Own, Duration::from_secs(5))),
        (10, 10)
    );
    assert_eq!(most(Codes::Own, Duration::from_millis(100)), 200, "20 s, as nobody says how many windows are enough");
    assert_eq!(plan.measurement.latency_threshold, None);
    assert_eq!((plan.load.calls, plan.load.max_threads), (Calls::ByModel, 16));
    assert_eq!((plan.data.batch_size, &plan.data.source, plan.data.string_length), (1, &DataSource::Random, 128));
    assert_eq!(plan.data.output_bytes, 102_400);
    let sequences = &plan.load.sequences;
    assert_eq!((sequences.length, sequences.default_length, sequences.concurrent), (None, 20, 4));
    assert_eq!((sequences.first_id, sequences.ids), (1, 4_294_967_295));
    assert_eq!(plan.target.server.log.level, LogLevel::Error);
    assert!(!plan.target.server.metrics);
    assert!(plan.notes.is_empty());
}

#[test]
fn getopt_habits_are_kept() {
    assert_eq!(concurrency(&plan("-m m --conc 1:4")).end, Some(4));
    assert_eq!(plan("-mm -p5000 -va").measurement.window, WindowRule::Time(Duration::from_secs(5)));
    assert_eq!(plan("-mm -p5000 -va").load.calls, Calls::Asynchronous);
    assert_eq!(plan("-m=m -u=h:1").target.connection.url, "h:1", "perf_analyzer's own pages have it so");
    assert_eq!(plan("-m m -v -v").output.verbosity, 2);
    assert_eq!(plan("-m m -vv").output.verbosity, 2);
    assert_eq!(plan("-m m --percentile -1").measurement.percentile, None);
    assert_eq!(plan("-m m --percentile=95").measurement.percentile, Some(95.0));
    assert_eq!(plan("-m m -b 2 -b 3").data.batch_size, 3, "the last one wins");
    let strays = plan("1 -m m : -b 2 4 -- -b 9");
    assert_eq!(strays.data.batch_size, 2);
    assert_eq!(strays.notes, ["words that belong to no flag are ignored: '1' ':' '4' '-b' '9'"]);
    assert_eq!(plan("-m m --input-data zero --input-data zero").data.source, DataSource::Zero);
    assert_eq!(plan("-m m --string-data --sync").data.string_data.as_deref(), Some("--sync"));
    assert_eq!(plan("-m m --service-kind TRITON -i gRPC").target.connection.url, "localhost:8001");
    assert_eq!(plan("-m m -x ''").target.model.version, None);
    assert_eq!(plan("-m m -x 3").target.model.version, Some(3));
    assert_eq!(plan("-m m -u h:1 -H A:b -H c:d:e").target.connection.headers.len(), 2);
    assert_eq!(plan("-m m --shape a:1,2 --shape b:3").data.shapes, [("a".into(), vec![1, 2]), ("b".into(), vec![3])]);
}

#[test]
fn whole_numbers_that_a_script_has_computed_are_whole() {
    let computed = plan("-m m -b 8.0 --concurrency-range 1.0:4.00:1 -r 5.0 --request-count=8.0 --sequence-length 3.0");
    assert_eq!((computed.data.batch_size, concurrency(&computed)), (8, Range::with_step(1, Some(4), 1)));
    assert_eq!((computed.measurement.max_trials, computed.measurement.request_count), (5, Some(8)));
    assert_eq!((computed.load.sequences.length, concurrency(&plan("-m m -t4.0")).start), (Some(3), 4));
    for line in ["-b 8.5", "-b 8.", "-b .0", "-b 8.0x", "--concurrency-range 1.0:", "--max-trials 29.5", "-b -1.0"] {
        assert!(error(&format!("-m m {line}")).contains("whole number") || line.ends_with(':'), "{line}");
    }
    assert!(own("-m m -b 8.0").is_err(), "under our own name numbers are what their flags take");
    assert_eq!(plan("-m 8.0 --string-data 1.0").target.model.name, "8.0", "texts stay as they are");
}

#[test]
fn a_prefix_means_perf_analyzers_flag_where_it_can() {
    let line = "-m m --trace-r 7";
    assert_eq!(plan(line).target.trace.map(|trace| trace.rate), Some(Some(7)));
    assert!(plan("-m m --verb").output.verbose_csv);
    assert_eq!(plan("-m m --pro out.json").output.profile_export, Some("out.json".into()));
    assert_eq!(concurrency(&plan("-m m --concurrency 1:4")).end, Some(4));
    assert!(error("-m m --input json").contains("ambiguous: it may be --input-data"));
    assert!(error("-m m --s 1").contains("ambiguous"));
}

#[test]
fn old_spellings_work_and_are_noted() {
    let old = plan("-m m -t 2 -c 8 -d -z");
    assert_eq!(concurrency(&old), Range::with_step(2, Some(8), 1));
    assert_eq!(old.data.source, DataSource::Zero);
    assert_eq!(old.notes.len(), 3);
    assert_eq!(plan("-m m -z --input-data zero").data.source, DataSource::Zero);
    let grows = plan("-m m -t 2 -d -l 9");
    assert_eq!(concurrency(&grows), Range::with_step(2, None, 1));
    let stays = plan("-m m -c 8");
    assert_eq!(concurrency(&stays), Range::with_step(1, Some(1), 1));
    assert_eq!(stays.notes, ["-c has no effect here: it ends the range of -d, which is not given"]);
    assert_eq!(concurrency(&plan("-m m -t 4")), Range::with_step(4, Some(4), 1));
    assert_eq!(plan("-m m --data-directory /").data.source, DataSource::Directory("/".into()));
    assert!(plan("-m m --sequence-id-range 0:9").notes[0].contains("IDs start at 1"));
}

#[test]
fn grpc_encryption_takes_an_optional_word() {
    let enabled = |line: &str| plan(line).target.connection.tls.enabled;
    assert!(enabled("-m m -i grpc --ssl-grpc-use-ssl"));
    assert!(enabled("-m m -i grpc --ssl-grpc-use-ssl true"));
    assert!(!enabled("-m m -i grpc --ssl-grpc-use-ssl false"));
    assert!(!enabled("-m m -i grpc --ssl-grpc-use-ssl=FALSE"));
    assert!(enabled("-i grpc --ssl-grpc-use-ssl -m m"));
    assert!(enabled("-i grpc --ssl-grpc-use-ssl stray -m m"));
    assert!(!enabled("-m m -i grpc"));
    // Flags of the other protocol do no harm where the connection is encrypted, nor does a certificate for the metrics.
    assert!(enabled("-m m -u https://h --ssl-grpc-use-ssl --ssl-grpc-root-certifications-file Cargo.toml"));
    assert!(!enabled("-m m -i grpc -u grpcs://h --ssl-grpc-root-certifications-file Cargo.toml"));
    assert!(!enabled("-m m --collect-metrics --metrics-url https://h:8002/metrics --ssl-https-verify-peer 0"));
    assert!(!enabled("-m m --service-kind triton_c_api --model-repository . --ssl-https-verify-peer 0"));
    assert!(
        !enabled("-m m -u http://h --ssl-https-verify-peer 0 --ssl-https-verify-host 0"),
        "to check less asks for nothing"
    );
    let https = plan("-m m -u https://h --ssl-https-verify-peer 0").target.connection.tls;
    assert!(https.enabled && https.skip_peer_verification && !https.skip_host_verification);
    let grpcs = plan("-m m -i grpc --ssl-grpc-use-ssl --ssl-https-verify-host 0").target.connection.tls;
    assert!(grpcs.enabled && grpcs.skip_host_verification && !grpcs.skip_peer_verification, "gRPC has no such flag");
}

#[test]
fn help_and_version_end_at_once() {
    for line in ["--help", "-h", "-?", "--hel", "-vh", "-m m --help --bad"] {
        assert!(
            matches!(cli::parse(words(line), Codes::PerfAnalyzers), Ok(Command::Help(text)) if text.contains("--concurrency-range")),
            "{line}"
        );
    }
    let Ok(Command::Version(name)) = cli::parse(words("--version"), Codes::PerfAnalyzers) else { panic!("no version") };
    let line = cli::version(name, "");
    // Its beginning is perf_analyzer's.
    assert!(line.starts_with("Perf Analyzer Version 2.51.0 ("), "{line}");
    assert!(line.ends_with(&format!("triton-bench {})", env!("CARGO_PKG_VERSION"))), "{line}");
}

/// What a command prints.
fn printed(line: &str) -> String {
    match own(line) {
        Ok(Command::Help(text)) => text,
        other => panic!("{line}: {other:?}"),
    }
}

#[test]
fn shells_and_man_know_every_flag_and_command() {
    for shell in ["bash", "zsh", "fish"] {
        for name in ["perf_analyzer", "perf_client"] {
            let text = printed(&format!("completions {shell} {name}"));
            assert!(text.contains(name) && text.contains("concurrency-range"), "{shell} {name}: {text}");
        }
        let text = printed(&format!("completions {shell}"));
        assert!(!text.contains("old-end-concurrency"), "{shell}: flags that no help tells are not offered");
        for flag in cli::command().get_arguments().filter(|arg| !arg.is_hide_set()).filter_map(|arg| arg.get_long()) {
            assert!(text.contains(flag), "{shell} --{flag}");
        }
        assert!(
            ["compare", "doctor", "models", "report", "trace-summary", "tune"].iter().all(|word| text.contains(word)),
            "{shell}"
        );
    }
    let page = printed("man");
    assert!(page.contains(".TH triton-bench 1") && page.contains("concurrency\\-range"), "{page}");
    assert!(own("completions").unwrap_err().contains("bash, "));
    assert!(own("completions bash cat").unwrap_err().contains("'cat'"));
    assert!(own("completions csh").unwrap_err().contains("'csh': it must be one of bash, "));
    assert!(own("man 1").unwrap_err().contains("'1'"));
}

/// What the program of our own name makes of a line.
fn own(line: &str) -> Result<Command, String> {
    cli::parse(words(line), Codes::Own).map_err(|error| error.to_string())
}

#[test]
fn help_is_a_screen_the_whole_or_a_section() {
    let text = |line: &str| match own(line) {
        Ok(Command::Help(text)) => text,
        other => panic!("{line}: {other:?}"),
    };
    let short = text("-h");
    assert!(short.lines().count() < 24 && short.lines().all(|line| line.len() <= 80), "{short}");
    for flag in short.split_whitespace().filter(|word| word.starts_with("--") && word.len() > 2) {
        let name = flag.trim_end_matches([',', '.', ';', ':']).trim_start_matches("--");
        assert!(name == "help" || cli::command().get_arguments().any(|arg| arg.get_long() == Some(name)), "{flag}");
    }
    assert_eq!((text("help"), text("--help")), (help(), help()));
    assert_eq!(text("help compare"), text("compare -h"));
    let load = text("--help load");
    assert!(load.contains("--concurrency-range") && !load.contains("--input-data"), "{load}");
    assert_eq!(text("help LOAD"), load);
    assert_eq!((text("--help tune"), text("-h doctor")), (text("tune --help"), text("doctor --help")));
    let refused = own("--help nonsense").unwrap_err();
    assert!(
        ["'nonsense'", "'Load'", "'Measurement'", "trace-summary"].iter().all(|part| refused.contains(part)),
        "{refused}"
    );
    assert!(own("help tunes").unwrap_err().contains("no such section or command: did you mean tune?"));
}

#[test]
fn every_name_has_its_own_help_and_version() {
    let Ok(Command::Help(text)) = cli::parse(words("--help"), Codes::PerfAnalyzers) else { panic!("no help") };
    assert!(text.contains("Usage: perf_analyzer -m MODEL") && help().contains("Usage: triton-bench -m MODEL"));
    assert!(!text.contains("trace-summary,") && help().contains("trace-summary,"), "it has no commands");
    let Ok(Command::Version(name)) = own("--version") else { panic!("no version") };
    let line = cli::version(name, "");
    let parts = ["triton-bench 0.", "Triton C API 1", "Perf Analyzer 2.51.0"];
    assert!(line.starts_with(parts[0]) && parts.iter().all(|part| line.contains(part)), "{line}");
}

#[test]
fn typing_errors_are_answered_by_what_was_meant() {
    for (line, flag) in [
        ("--concurency-range 1", "did you mean --concurrency-range?"),
        ("--request_rate_range 1", "did you mean --request-rate-range?"),
        ("--percentille 9", "did you mean --percentile or --percentiles?"),
        ("--qp 5", "not a flag"),
    ] {
        let refused = own(line).unwrap_err();
        assert!(refused.contains(flag), "{line}: {refused}");
    }
    let refused = own("--zzzzzz").unwrap_err();
    assert_eq!(refused, "--zzzzzz is not a flag of this program; see --help");
    for (line, command) in
        [("modles", "models"), ("tun -m m", "tune"), ("reprot a.json", "report"), ("-m m docter", "doctor")]
    {
        let refused = own(line).unwrap_err();
        assert!(
            refused.ends_with(&format!("it is not a command: did you mean {command}? see --help")),
            "{line}: {refused}"
        );
    }
}

#[test]
fn a_rate_may_end_within_its_first_second() {
    let line = "-m m --request-count 5 --request-rate-range 20";
    let Ok(Command::Run(plan)) = cli::parse(words(line), Codes::Own) else { panic!("it is good") };
    assert_eq!(plan.measurement.request_count, Some(5));
    assert!(error(line).contains("--request-count 5"), "perf_analyzer refuses it");
}

#[test]
fn habits_of_other_load_generators_are_understood_or_answered() {
    let plan = |line: &str| match own(line) {
        Ok(Command::Run(plan)) => *plan,
        other => panic!("{line}: {other:?}"),
    };
    assert_eq!(concurrency(&plan("-m m -c 4")), Range::with_step(4, Some(4), 1));
    assert!(plan("-m m -c 4").notes.is_empty(), "{:?}", plan("-m m -c 4").notes);
    assert_eq!(concurrency(&plan("-m m --concurrency-range 2 -c 1:8")).end, Some(8), "the last one counts");
    assert_eq!(concurrency(&plan("-m m -t 2 -c 8 -d")), Range::with_step(2, Some(8), 1), "perf_analyzer's old form");
    let counted = plan("-m m -c 4 -n 200");
    assert_eq!((counted.measurement.request_count, concurrency(&counted).start), (Some(200), 4));
    assert_eq!(plan("-m m --requests 20").measurement.request_count, Some(20));
    for line in ["-m m --rate 100", "-m m -R 100", "-m m --qps=100"] {
        assert!(
            matches!(plan(line).load.mode, LoadMode::RequestRate { range: Range { start, .. }, .. } if start == 100.0)
        );
    }
    let language = "--service-kind openai --endpoint v1/completions --users 3 --num-warmups 2";
    let lengths = |flags: &str| format!("{:?}", plan(&format!("-m m {language} {flags}")).data);
    let ours = lengths("--prompt-tokens 9 --output-tokens 5");
    for theirs in [
        "--random-input-len 9 --random-output-len 5",
        "--isl 9 --osl 5",
        "--input-len 9 --output-len=5",
        "--prompt-input-tokens-mean 9 --prompt-output-tokens-mean 5",
    ] {
        assert_eq!(lengths(theirs), ours, "{theirs}");
    }
    let seeded = plan("--model-names m --num-requests 64 --random-seed 7 --request-rate 9 --request-rate-mode poisson");
    assert_eq!((seeded.measurement.request_count, seeded.seed, seeded.target.model.name.as_str()), (Some(64), 7, "m"));
    let poisson = GapDistribution::Poisson;
    assert!(matches!(&seeded.load.mode, LoadMode::RequestRate { distribution, .. } if *distribution == poisson));
    let named = plan("--model-name m --latency-report-file a.csv");
    assert_eq!((named.output.csv.as_deref(), named.target.model.name.as_str()), (Some(Path::new("a.csv")), "m"));
    let variants = plan("-m m --variant a:-c4 --variant b:--async").variants;
    assert_eq!(concurrency(&variants[0].plan).start, 4);
    for (line, part) in [
        ("-m m --duration 10s", "--max-level-time"),
        ("-m m -c 4 -z 10s", "--max-level-time"),
        ("-m m -c 4 -d 10s", "--stage concurrency:4:10s"),
        ("-m m -q 100", "--request-rate-range 100"),
        ("-m m -t4 -c100 -d10s http://h:1/", "-d10s is not a flag of this program: a level is measured until"),
        ("-m m -c 4 -k", "--connections new"),
        ("-m m --max-concurrency 8", "--concurrency-range N"),
        ("-m m --backend openai-chat", "--service-kind openai --endpoint v1/chat/completions"),
        ("-m m --endpoint-type chat", "--service-kind openai --endpoint v1/chat/completions"),
        ("-m m --host h --port 1", "-u HOST:PORT"),
        ("-m m --dataset-name random", "--prompt-tokens 512"),
        ("-m m --random-range-ratio 0.5", "uniform:MIN:MAX"),
        ("-m m --percentile-metrics ttft,tpot", "--percentiles 50,90"),
        ("-m m --ignore-eos", "ignore_eos:true:bool"),
        ("-m m --save-result", "--summary-file"),
        ("-m m --artifact-dir /tmp/a", "--summary-file"),
        ("-m m --api-key abc", "-H 'Authorization: Bearer KEY'"),
        ("-m m --custom-dataset-type single_turn", "--input-data FILE.jsonl"),
        ("-m m --request-timeout-seconds 600", "--client-timeout-us 600s"),
        ("profile -m m -c 4", "leave out 'profile'"),
        ("-m m --request-rate inf", "--concurrency-range N"),
        ("-m m --concurrency 100 --request-rate 200", "--max-outstanding N"),
        ("-m m --tokenizer-trust-remote-code", "tokenizer.json"),
        ("-m m --ui simple", "--live"),
        ("-m m --connections 8", "--max-connections N"),
        ("http://localhost:8000/v2/models/m", "behind -u"),
        ("nets/resnet.onnx", "'triton-bench init nets/resnet.onnx'"),
        ("tests -m m", "--model-repository (tests)"),
        ("tune -m m -c 4 --model-repository /r --search instances=1,2", "--at-concurrency"),
    ] {
        let refused = own(line).unwrap_err();
        assert!(refused.contains(part), "{line}: {refused}");
    }
    // Under perf_analyzer's name `-c` keeps its meaning, and other words stay without one.
    let Ok(Command::Run(old)) = cli::parse(words("-m m -c 8 10s"), Codes::PerfAnalyzers) else { panic!("it is good") };
    assert_eq!((concurrency(&old).start, old.notes.len()), (1, 2));
}

#[test]
fn a_long_flag_with_one_hyphen_is_told_how_it_was_read() {
    for (line, word, flag) in [
        ("-m m -concurrency-range 4", "-concurrency-range", "--concurrency-range"),
        ("-m m -conc 4", "-conc", "--concurrency-range"),
        ("-model-repository /r", "-model-repository", "--model-repository"),
        ("-m m -async", "-async", "--async"),
        ("-m m -percentile=95", "-percentile", "--percentile"),
    ] {
        for codes in [Codes::Own, Codes::PerfAnalyzers] {
            // Under perf_analyzer's name some of these lines are good, as they are there.
            let Err(refused) = cli::parse(words(line), codes) else { continue };
            let part = format!("; {word} was read letter by letter, long flags have two hyphens: {flag}; see --help");
            assert!(refused.to_string().ends_with(&part), "{line}: {refused}");
        }
        assert!(own(line).is_err(), "{line}");
    }
    // What is right, or wrong for another reason.
    for line in ["-m m -p5000 --percentile 200", "-mm -va --nonsense-flag", "-m m -H a:b --percentile 200"] {
        assert!(!own(line).unwrap_err().contains("hyphens"), "{line}");
    }
}

#[test]
fn stray_words_are_errors_under_our_own_name() {
    for (line, part) in [("foo -m m", "'foo'"), ("-m m bar", "'bar'"), ("-m m -H a:b secret", "1 words")] {
        let refused = own(line).unwrap_err();
        assert!(refused.contains(part) && !refused.contains("secret"), "{line}: {refused}");
    }
    assert!(matches!(cli::parse(words("-m m bar"), Codes::PerfAnalyzers), Ok(Command::Run(_))));
}

#[test]
fn flags_of_files_stay_outside_variants() {
    for flag in ["--config=run.yaml", "--run=a", "--print-config"] {
        let refused = own(&format!("-m m --variant a:{flag} --variant b:--async")).unwrap_err();
        assert!(refused.contains("'a': --") && refused.contains("give it outside the variant"), "{flag}: {refused}");
    }
}

#[test]
fn credentials_of_variants_are_not_shown() {
    let parse = |variants: &[&str], codes| {
        let variants = variants.iter().flat_map(|variant| ["--variant", *variant]);
        cli::parse(["x", "-m", "m"].into_iter().chain(variants).map(OsString::from), codes)
    };
    for codes in [Codes::Own, Codes::PerfAnalyzers] {
        let good = parse(&["a:-H 'Authorization: Bearer s3cret' -b 2", "b:--async"], codes);
        let Ok(Command::Run(plan)) = good else { panic!("{good:?}") };
        assert_eq!(plan.variants[0].plan.target.connection.headers[0].1, "Bearer s3cret", "it is sent");
        assert!(plan.variants[0].flags.contains("Authorization:…") && plan.variants[0].flags.contains("-b 2"));
        let words = format!("{:?} {:?} {:?}", plan.invocation, plan.variants[0].flags, plan.notes);
        assert!(words.contains("a:-H") && !words.contains("s3cret"), "{words}");
        for wrong in ["a:-H 'Authorization: s3cret", "a -H Authorization: s3cret", "a:--header X-s3cret", "-H s3cret"] {
            let error = parse(&[wrong, "b:--async"], codes).unwrap_err().to_string();
            assert!(error.contains("--variant") && !error.contains("s3cret"), "{wrong}: {error}");
        }
    }
    let stray = parse(&["a:-H Authorization: Bearer s3cret", "b:--async"], Codes::Own).unwrap_err().to_string();
    assert!(stray.contains("2 words beside -H") && !stray.contains("s3cret"), "{stray}");
    let split = own("-m m --variant a:-H Authorization: s3cret --variant b:--async").unwrap_err();
    assert!(!split.contains("s3cret"), "{split}");
    let foreign = own("-m m --management-key s3cret").unwrap_err();
    assert!(foreign.contains("--management-key") && !foreign.contains("s3cret"), "{foreign}");
}

#[test]
fn a_repository_means_this_process() {
    let Ok(Command::Run(plan)) = own("-m m --model-repository /r") else { panic!("the line is good") };
    assert_eq!(plan.target.service, ServiceKind::TritonCApi);
    assert!(plan.notes.iter().any(|note| note.contains("measures in this process")), "{:?}", plan.notes);
    let refused = own("-m m --model-repository /r -u h:1").unwrap_err();
    assert!(refused.contains("-u h:1") && refused.contains("leave one out"), "{refused}");
    for kind in
        ["triton", "openai --endpoint v1/completions --prompt-tokens 5", "tfserving", "torchserve --input-data ."]
    {
        let refused = own(&format!("-m m --model-repository /r --service-kind {kind}")).unwrap_err();
        assert!(refused.contains("not in this process") && refused.contains("leave one out"), "{kind}: {refused}");
    }
    assert!(own("-m m --model-repository /r --service-kind triton_c_api").is_ok());
    let upstream = cli::parse(words("-m m --model-repository /r"), Codes::PerfAnalyzers);
    assert!(matches!(upstream, Ok(Command::Run(plan)) if plan.target.service == ServiceKind::Triton));
}

#[test]
fn loads_are_read() {
    let rate = plan("-m m --request-rate-range 10:20:2.5 --request-distribution gamma --burstiness 0.5");
    let expected = Range::with_step(10.0, Some(20.0), 2.5);
    assert!(matches!(rate.load.mode, LoadMode::RequestRate { range, distribution: GapDistribution::Gamma(shape) }
        if range == expected && (shape - 0.5).abs() < 1e-12));
    assert_eq!((rate.load.max_threads, rate.load.calls), (4, Calls::Asynchronous));
    let periodic = plan(&format!("{IN_PROCESS} --periodic-concurrency-range 10:100:30 --request-period 5"));
    assert_eq!(periodic.load.calls, Calls::Asynchronous);
    let expected = Periodic { start: 10, end: 100, step: 30, request_period: 5 };
    assert!(matches!(periodic.load.mode, LoadMode::Periodic(periodic) if periodic == expected));
    let stages = plan("-m m --stage rate:5:2s --stage concurrency:3:10req --request-distribution poisson");
    let LoadMode::Stages { stages, distribution, .. } = &stages.load.mode else { panic!("no stages") };
    assert_eq!((stages.len(), stages[1].length), (2, StageLength::Requests(10)));
    assert_eq!(*distribution, GapDistribution::Poisson);
    assert!(matches!(plan("-m m --sweep geometric:5").load.mode, LoadMode::Sweep { points: 5, .. }));
    assert!(matches!(plan("-m m --request-intervals Cargo.toml").load.mode, LoadMode::Intervals(_)));
    let trace = plan("-m m --trace-replay Cargo.toml --trace-speed 2").load.mode;
    assert!(matches!(trace, LoadMode::TraceReplay { speed, .. } if (speed - 2.0).abs() < 1e-12));
    let fixed = plan("-m m --fixed-schedule --input-data Cargo.toml");
    assert!(matches!(fixed.load.mode, LoadMode::FixedSchedule));
}

#[test]
fn fine_steps_are_those_of_a_search() {
    for line in ["1:10000:1", "1:1000000:0.01 --binary-search -l 5", "100:100:1e-300", "100", "1:0:1 -l 5"] {
        assert!(matches!(plan(&format!("-m m --request-rate-range {line}")).load.mode, LoadMode::RequestRate { .. }));
    }
}

#[test]
fn threads_follow_the_concurrency_of_synchronous_loads() {
    assert_eq!(plan("-m m --concurrency-range 1:40").load.max_threads, 40);
    assert_eq!(plan("-m m --concurrency-range 1:40 --max-threads 2").load.max_threads, 40);
    assert_eq!(plan("-m m --concurrency-range 1:40 --max-threads 2 -a").load.max_threads, 2);
    assert_eq!(plan("-m m --concurrency-range 1:40 -a").load.max_threads, 16);
    assert_eq!(plan("-m m --concurrency-range 2:0 -l 9").load.max_threads, 1024, "as far as it may grow");
    assert_eq!(plan("-m m --concurrency-range 2:0 -l 9 --max-threads 5").load.most_concurrency(true), 5);
    assert_eq!(plan("-m m --concurrency-range 2:0 -l 9 --max-threads 5 -a").load.most_concurrency(false), 100_000);
    assert_eq!(plan("-m m -i grpc --streaming").load.calls, Calls::Asynchronous, "streams are asynchronous");
    assert_eq!(plan("-m m --sync").load.calls, Calls::Synchronous);
    let pinned = plan("-m m --cpus 0-3 --worker-cpus 1,2 --wait spin --seed 42");
    assert_eq!(pinned.load.cpus, Some(vec![0, 1, 2, 3]));
    assert_eq!(pinned.load.worker_cpus, Some(vec![1, 2]));
    assert_eq!((pinned.load.wait, pinned.seed), (Wait::Spin, 42));
}

#[test]
fn measurement_flags_are_read() {
    let plan =
        plan("-m m --measurement-mode count_windows --measurement-request-count 70 -s 5.5 -r 4 -l 20 --max-errors 5%");
    assert_eq!(plan.measurement.window, WindowRule::Count(70));
    assert!((plan.measurement.stability - 0.055).abs() < 1e-12);
    assert_eq!((plan.measurement.max_trials, plan.measurement.latency_threshold), (4, Some(Duration::from_millis(20))));
    assert!((plan.measurement.max_errors - 0.05).abs() < 1e-12);
    let plan = self::plan("-m m --request-count 20 --warmup-duration 2s --matrix memory --model-repository /r");
    assert_eq!((plan.measurement.request_count, plan.measurement.warmup), (Some(20), Duration::from_secs(2)));
    let few = self::plan("-m m -r 2").notes;
    assert_eq!(few, ["--max-trials 2: a level is stable when three windows agree, so none can be"]);
    assert!(self::plan("-m m -r 2 --request-count 9").notes.is_empty());
    assert!(self::plan("-m m -r 2 --matrix memory --model-repository r").notes.is_empty());
    assert!(self::plan("-m m -r 2 --stage rate:5:1s").notes.is_empty());
    let windows = self::plan("-m m --request-count 0 --warmup-request-count 4 --request-rate-range 1:2").measurement;
    assert_eq!((windows.request_count, windows.warmup_requests), (None, 4));
    assert_eq!((plan.matrix, plan.target.service), (Some(Matrix::Memory), ServiceKind::TritonCApi));
}

#[test]
fn data_flags_are_read() {
    let plan = plan(
        "-m m -b 4 --input-data Cargo.toml --input-data rustfmt.toml --request-parameter a:1:uint --priority 2 \
         --request-timeout-us 5 --cancel-after-us 900 --validate-tolerance 1e-3:0.5 --shared-memory cuda --cuda-device 1,2",
    );
    assert_eq!(plan.data.source, DataSource::Files(vec!["Cargo.toml".into(), "rustfmt.toml".into()]));
    assert_eq!(plan.data.parameters[0].value, ParameterValue::Uint(1));
    assert_eq!((plan.data.priority, plan.data.timeout_us), (2, 5));
    assert_eq!(plan.data.cancel_after, Some(Duration::from_micros(900)));
    assert_eq!((plan.data.input_placement, plan.data.cuda_devices), (Placement::Cuda(1), vec![1, 2]));
    assert!(plan.data.shared_memory);
    let plan = self::plan(&format!("{IN_PROCESS} --input-memory pinned --output-memory gpu:1 --random-range x:-1:5"));
    assert_eq!((plan.data.input_placement, plan.data.output_placement), (Placement::Pinned, Placement::Cuda(1)));
    assert!(!plan.data.shared_memory);
    assert_eq!(plan.data.random_ranges[0].to_string(), "x:-1:5");
    assert_eq!(self::plan("-m m --sequence-id-type string").load.sequences.correlation, Some(CorrelationForm::Text));
}

#[test]
fn network_flags_are_read() {
    let plan = plan("-m m -u h:9 --http-compression gzip --input-tensor-format JSON --server-wait 0.5 --reconnect");
    let http =
        Protocol::Http { inputs: TensorFormat::Json, outputs: TensorFormat::Served, compression: Compression::Gzip };
    assert_eq!((plan.target.connection.protocol, plan.target.connection.url.as_str()), (http, "h:9"));
    assert_eq!(plan.target.connection.server_wait, Duration::from_millis(500));
    assert!(plan.target.connection.reconnect);
    let plan = self::plan("-m m --trace-level TIMESTAMPS --trace-level tensors --trace-count -1 --collect-metrics");
    let trace = plan.target.trace.expect("trace settings");
    assert_eq!(trace.levels, Some(vec![TraceLevel::Timestamps, TraceLevel::Tensors]));
    assert_eq!(trace.count, Some(-1));
    assert_eq!(plan.target.metrics.map(|metrics| metrics.interval), Some(Duration::from_secs(1)));
    assert_eq!(plan.tracing.file, None, "the server writes it");
    let export = self::plan("-m m --trace-level TIMESTAMPS --trace-export x.json").tracing;
    assert_eq!((export.export, export.file), (Some("x.json".into()), None));
    assert_eq!(self::plan("-m m --trace-level OFF").target.trace.unwrap().levels, Some(vec![]));
    let composing = self::plan("-m m --bls-composing-models a:3,b").target.bls_composing;
    assert_eq!(composing, [ModelId { name: "a".into(), version: Some(3) }, ModelId::latest("b")]);
    let mix = self::plan("--model-mix a:0.5,b:2:0.3,a?k=v:0.2").target;
    assert_eq!(mix.models().count(), 2);
    assert_eq!((mix.model, mix.mix.len()), (ModelId::latest("a"), 3));
}

#[test]
fn embedded_flags_are_read() {
    let plan = plan(&format!(
        "{IN_PROCESS} --model-repository /s --triton-server-directory /t --backend-config python,k=v --backend-config g=1 \
         --cache-config local,size=9 --pinned-memory-pool-byte-size 1 --cuda-memory-pool-byte-size 0:64 \
         --cuda-virtual-address-size 1:65 --min-supported-compute-capability 0 --rate-limit execution_count \
         --rate-limit-resource R:2:1 --host-policy p,cpu-cores=0-1 --model-load-thread-count 2 --model-load-retry-count 3 \
         --buffer-manager-thread-count 4 --strict-model-config --model-config-name c --log-level WARNING --log-verbose 2 \
         --log-file /l --log-format iso8601 --server-metrics on --metrics-config a=b --exit-timeout-secs 5 \
         --repoagent-directory /a --cache-directory /c --model-namespacing true --enable-peer-access false --backend-directory /b"
    ));
    let server = plan.target.server;
    assert_eq!(server.repositories, [Path::new("/r"), Path::new("/s")]);
    assert_eq!(server.directory, Path::new("/t"));
    assert_eq!(server.backend_config[1], (String::new(), "g".into(), "1".into()));
    assert_eq!(server.cache_config[0], ("local".into(), "size".into(), "9".into()));
    assert_eq!((server.pinned_pool_bytes, &server.cuda_pool_bytes[..]), (Some(1), &[(0, 64)][..]));
    assert_eq!((server.cuda_virtual_address_bytes, server.min_compute_capability), (vec![(1, 65)], Some(0.0)));
    assert!(server.rate_limit && server.strict_config && server.model_namespacing && !server.peer_access);
    assert_eq!(server.rate_limit_resources, [("R".to_owned(), 2, 1)]);
    assert_eq!(server.host_policies[0].1, "cpu-cores");
    assert_eq!((server.load_threads, server.load_retries, server.buffer_threads), (Some(2), 3, Some(4)));
    assert_eq!((server.log.level, server.log.verbose, server.log.iso8601), (LogLevel::Warning, 2, true));
    assert_eq!((server.metrics, server.exit_timeout_s), (true, 5));
    assert_eq!(server.repo_agent_directory.as_deref(), Some(Path::new("/a")));
    assert!(self::plan(&format!("{IN_PROCESS} --collect-metrics")).target.server.metrics);
    assert!(self::plan(&format!("{IN_PROCESS} -a --streaming --shared-memory system")).data.shared_memory);
}

#[test]
fn flags_that_perf_analyzer_ignores_for_triton_are_ignored() {
    let plan = plan("-m m --model-signature-name serving_default --endpoint v1/completions");
    let expected = [
        "--model-signature-name has no effect here: it is for TensorFlow Serving, --service-kind tfserving",
        "--endpoint has no effect here: it is for services of the OpenAI kind, --service-kind openai",
    ];
    assert_eq!(plan.notes, expected);
    // Under our own name they are errors that say which service they are for.
    for (line, kind) in [("--model-signature-name s", "tfserving"), ("--endpoint v1", "openai")] {
        let refused = own(&format!("-m m {line}")).unwrap_err();
        assert!(refused.contains(&format!("{line} is for --service-kind {kind}: leave it out")), "{refused}");
    }
}

#[test]
fn each_kind_of_service_has_its_defaults() {
    let reached = |line: &str| {
        let ConnectionPlan { protocol, url, .. } = plan(line).target.connection;
        (matches!(protocol, Protocol::Grpc { .. }), url)
    };
    let torchserve = "-m m --service-kind torchserve --input-data Cargo.toml";
    for (line, grpc, url) in [
        ("-m m", false, "localhost:8000"),
        ("-m m -i grpc", true, "localhost:8001"),
        ("-m m --service-kind tfserving", true, "localhost:8500"),
        ("-m m --service-kind tfserving -i grpc", true, "localhost:8500"),
        ("-m m --service-kind TFSERVING -i http", false, "localhost:8501"),
        ("-m m --service-kind tfserving -u h:1", true, "h:1"),
        (torchserve, false, "localhost:8000"),
    ] {
        assert_eq!(reached(line), (grpc, url.to_owned()), "{line}");
    }
    let tfserving = plan("-m m --service-kind tfserving --async -x 3 -b 1").target;
    assert_eq!((tfserving.tfserving.signature.as_str(), tfserving.tfserving.batched), ("serving_default", true));
    assert_eq!((tfserving.model.version, tfserving.version_label), (Some(3), None));
    let labelled = plan("-m m --service-kind tfserving -x v3 --model-signature-name s").target;
    assert_eq!((labelled.tfserving.signature.as_str(), labelled.tfserving.batched), ("s", false));
    assert_eq!((labelled.model.version, labelled.version_label.as_deref()), (None, Some("v3")));
    let metrics = plan(&format!("{torchserve} --metrics-url h:1 --async --sequence-length 3")).target;
    assert_eq!((metrics.connection.metrics_url.as_deref(), metrics.metrics), (Some("h:1"), None));
}

#[test]
fn grpcs_own_names_of_servers_are_addresses() {
    for (name, address) in [("dns:///h:9", "h:9"), ("ipv4:127.0.0.1:9", "127.0.0.1:9"), ("ipv6:[::1]:9", "[::1]:9")] {
        let reached = |line: &str| plan(&format!("-m m {line} -u {name}")).target.connection.url;
        assert_eq!((reached("-i grpc"), reached("")), (address.to_owned(), name.to_owned()), "{name}");
    }
}

#[test]
fn flags_without_effect_are_named_once_and_never_refused() {
    let idle = |line: &str| plan(line).notes;
    for (line, flags, rule) in [
        ("-m m --request-distribution poisson", "--request-distribution has", "of a rate"),
        ("-m m --request-period 5", "--request-period has", "--periodic-concurrency-range"),
        (
            "-m m --num-of-sequences 9 --serial-sequences",
            "--num-of-sequences and --serial-sequences have",
            "outstanding",
        ),
        ("-m m --stage concurrency:2:9req --serial-sequences", "--serial-sequences has", "outstanding"),
        ("-m m --string-length 3 --input-data /", "--string-length has", "input data of one's own"),
        ("-m m --string-length 3 --string-data x", "--string-length has", "--string-data says"),
        ("-m m --output-shared-memory-size 5", "--output-shared-memory-size has", "--shared-memory"),
        ("-m m --verbose-csv", "--verbose-csv has", "-f"),
        (
            "-m m --model-repository /r --triton-server-directory /t",
            "--triton-server-directory and --model-repository have",
            "triton_c_api",
        ),
        (&format!("{IN_PROCESS} -u h:1 -i grpc"), "-u and -i have", "--service-kind triton"),
        (
            &format!("{SESSIONS} --warmup-request-count 3 --request-count 5"),
            "--request-count and --warmup-request-count have",
            "played once",
        ),
        (&format!("{SESSIONS} --warmup-duration 3s"), "--warmup-duration has", "played once"),
        (&format!("{PERIODIC} --request-count 50"), "--request-count has", "--periodic-concurrency-range"),
        (&format!("{PERIODIC} --warmup-request-count 1"), "--warmup-request-count has", "an idle server"),
        ("-m m --request-intervals Cargo.toml --binary-search", "--binary-search has", "a single level"),
        ("-m m --latency-from sent", "--latency-from has", "when a request is due"),
        ("-m m --ranks joint", "--ranks has", "--enable-mpi"),
        ("-m m --gate-time 30s", "--gate-time has", "--require"),
        (
            "-m m --require throughput>1 --undecided fail --gate-time 30s",
            "--gate-time has",
            "nothing is measured further",
        ),
        ("--service-kind dynamic_grpc --grpc-method a.B/C --input-data Cargo.toml -i http", "-i has", "over gRPC"),
    ] {
        let notes = idle(line);
        assert_eq!(notes.len(), 1, "{line}: {notes:?}");
        assert!(
            notes[0].starts_with(&format!("{flags} no effect here: ")) && notes[0].contains(rule),
            "{line}: {notes:?}"
        );
    }
    for line in [
        "-m m --request-rate-range 5 --request-distribution poisson --num-of-sequences 9 --serial-sequences",
        "-m m --sweep linear --request-distribution poisson",
        "-m m -i grpc --streaming --periodic-concurrency-range 1:2 --request-period 5",
        "-m m --string-length 3 --input-data zero",
        "-m m --shared-memory system --output-shared-memory-size 5",
        "-m m --verbose-csv -f x.csv",
        "-m m -u h:1 -i grpc -H a:b",
        "-m m --request-rate-range 5 --latency-from sent",
        "-m m --enable-mpi --ranks joint",
        &format!("{IN_PROCESS} --output-shared-memory-size 5"),
        "-m m --matrix transports --model-repository /r -u h:1",
        "-m m --matrix transports --model-repository /r -u h:1 --http-compression gzip --max-connections 9",
    ] {
        assert!(idle(line).is_empty(), "{line}: {:?}", idle(line));
    }
}

#[test]
fn of_names_that_are_given_twice_the_last_counts() {
    let plan = plan("-m m --request-parameter a:1:int --request-parameter A:2:int --request-parameter a:x:string");
    let parameters: Vec<_> =
        plan.data.parameters.into_iter().map(|parameter| (parameter.name, parameter.value)).collect();
    let text = ParameterValue::Text("x".to_owned());
    assert_eq!(parameters, [("A".to_owned(), ParameterValue::Int(2)), ("a".to_owned(), text)]);
    for protocol in ["http", "grpc"] {
        let line = format!("-m m -i {protocol} -H X-Key:1 -H other:2 -H x-key:3");
        let headers = self::plan(&line).target.connection.headers;
        assert_eq!(headers, [("other", "2"), ("x-key", "3")].map(|(name, value)| (name.to_owned(), value.to_owned())));
    }
}

#[test]
fn random_data_beside_others_asks_for_nothing() {
    let file = || DataSource::Files(vec!["Cargo.toml".into()]);
    for (line, source) in [
        ("-m m --input-data random --input-data Cargo.toml", file()),
        ("-m m --input-data Cargo.toml --input-data random", file()),
        ("-m m --input-data random --data-directory /", DataSource::Directory("/".into())),
        ("-m m --input-data random --input-data zero --input-data random", DataSource::Zero),
        ("-m m -z --input-data random", DataSource::Zero),
    ] {
        let plan = plan(line);
        assert_eq!(plan.data.source, source, "{line}");
        let notes = plan.notes.iter().filter(|note| note.starts_with("--input-data random has no effect here: "));
        assert_eq!(notes.count(), 1, "{line}: {:?}", plan.notes);
    }
    let alone = plan("-m m --input-data random --input-data RANDOM");
    assert!(alone.data.source == DataSource::Random && alone.notes.is_empty(), "{:?}", alone.notes);
}

#[test]
fn a_binary_search_may_end_where_it_starts() {
    let range = concurrency(&plan("-m m --concurrency-range 8:8 --binary-search -l 50"));
    assert_eq!((range.start, range.end), (8, Some(8)));
    let rate = plan("-m m --request-rate-range 10:10 --binary-search -l 50").measurement;
    assert!(rate.binary_search);
    assert!(!plan("-m m --request-intervals Cargo.toml --binary-search").measurement.binary_search);
}

#[test]
fn nothing_follows_from_counts_without_effect() {
    let counts = "--request-count 5 --warmup-request-count 3";
    for load in [SESSIONS, PERIODIC] {
        let measurement = plan(&format!("{load} {counts}")).measurement;
        assert_eq!((measurement.request_count, measurement.warmup_requests), (None, 0), "{load}");
    }
    assert_eq!(plan(&format!("{SESSIONS} --warmup-duration 3s")).measurement.warmup, Duration::ZERO);
    let kept = plan(&format!("-m m {counts}")).measurement;
    assert_eq!((kept.request_count, kept.warmup_requests), (Some(5), 3));
}

#[test]
fn what_only_some_models_use_waits_for_the_models() {
    let notes = |line: &str, model: &ModelSpec| {
        let plan = plan(line);
        plan.notes_on(std::slice::from_ref(model)).map(str::to_owned).collect::<Vec<_>>()
    };
    let line = "-m m --sequence-length 5 --string-data x --num-of-sequences 3";
    let plain = notes(line, &model("{}", "4"));
    assert_eq!(plain.len(), 2, "{plain:?}");
    assert!(
        plain[0].starts_with("--sequence-length has no effect here: no model of this run takes sequences"),
        "{plain:?}"
    );
    assert!(plain[1].contains("--string-data") && plain[1].contains("BYTES"), "{plain:?}");
    let sequences = model(r#"{"max_batch_size":8,"sequence_batching":{}}"#, "4");
    assert_eq!(notes(line, &sequences).len(), 1);
    let first = |configuration: &str| notes("-m m --decoupled-latency first", &model(configuration, "4"));
    assert!(first("{}")[0].starts_with("--decoupled-latency has no effect here"), "{:?}", first("{}"));
    assert!(first(r#"{"model_transaction_policy":{"decoupled":true}}"#).is_empty());
}

/// Each command line, and what its refusal under our name must name; under perf_analyzer's, whose scripts count on it, it goes on
/// and a note says the second part.
type Tolerated = (&'static str, &'static [&'static str], &'static str);

const TOLERATED: &[Tolerated] = &[
    (
        "-m m -i grpc --input-tensor-format json",
        &["--input-tensor-format json needs HTTP"],
        "--input-tensor-format has no effect here: gRPC's tensors are always binary",
    ),
    ("-m m --sequence-length 0", &["--sequence-length '0'", "from 1 to 4294967295"], "taken for the default, 20"),
    ("-m m --sequence-length -3", &["--sequence-length '-3'"], "--sequence-length -3 is not a length"),
    (
        "-m m --grpc-method a.B/C",
        &["--grpc-method a.B/C is for --service-kind dynamic_grpc"],
        "--grpc-method has no effect here",
    ),
];

#[test]
fn what_perf_analyzers_scripts_count_on_is_noted_under_its_name() {
    for (line, parts, note) in TOLERATED {
        let message = error_as(line, Codes::Own);
        for part in *parts {
            assert!(message.contains(part), "{line}: '{part}' is not in: {message}");
        }
        let plan = plan(line);
        assert_eq!(plan.notes.iter().filter(|entry| entry.contains(note)).count(), 1, "{line}: {:?}", plan.notes);
        assert!(!plan.target.connection.tls.enabled, "{line}");
        assert_eq!(plan.load.sequences.length, line.contains("--sequence-length").then_some(20), "{line}");
    }
    // What was declined is not said to be without effect.
    assert!(plan("-m m --ssl-grpc-use-ssl false").notes.is_empty());
    assert!(plan("-m m -i grpc --input-tensor-format binary").notes.is_empty());
}

#[test]
fn no_value_of_any_flag_is_a_panic() {
    const ODD: [&str; 8] = ["", ":", ",", "-1", "18446744073709551616", "1e999", "a:b:c:d", "é:é=%"];
    for arg in cli::command().get_arguments() {
        let flag = format!("--{}", arg.get_long().expect("every flag has a long form"));
        for value in ODD {
            let words = ["x", "-m", "m", &flag, value].map(OsString::from);
            if let Err(error) = cli::parse(words, Codes::PerfAnalyzers) {
                assert!(!error.to_string().contains('\n'), "{flag} {value}: {error}");
            }
        }
    }
}

#[test]
fn what_is_not_utf_8_is_refused_where_text_is_needed() {
    use std::os::unix::ffi::OsStringExt;
    let args = ["x", "-m"].map(OsString::from).into_iter().chain([OsString::from_vec(vec![0xff, 0xfe])]);
    assert!(cli::parse(args, Codes::PerfAnalyzers).is_err());
    let args = ["x", "-m", "m", "-f"].map(OsString::from).into_iter().chain([OsString::from_vec(vec![b'/', 0xff])]);
    assert!(cli::parse(args, Codes::PerfAnalyzers).is_ok(), "paths may be any bytes");
}

fn model(config: &str, shape: &str) -> ModelSpec {
    let batched = config.contains("\"max_batch_size\"");
    let shape = if batched { format!("[-1,{shape}]") } else { format!("[{shape}]") };
    let metadata = format!(r#"{{"inputs":[{{"name":"IN","datatype":"FP32","shape":{shape}}}],"outputs":[]}}"#);
    let read = |text: &str| serde_json::from_str(text).expect("test data are JSON");
    triton_json::model(&ModelId::latest("m"), &read(&metadata), &read(config)).expect("test data are a model")
}

#[test]
fn rules_that_need_the_model() {
    let plain = model("{}", "4");
    let batching = model(r#"{"max_batch_size":8}"#, "4");
    let sequence = model(r#"{"max_batch_size":8,"sequence_batching":{}}"#, "4");
    let decoupled = model(r#"{"model_transaction_policy":{"decoupled":true}}"#, "4");
    let open = model("{}", "-1");
    let cases: &[(&str, &ModelSpec, Option<&str>)] = &[
        ("-m m", &plain, None),
        ("-m m -b 2", &plain, Some("-b 2: the model does not batch")),
        ("-m m -b 8", &batching, None),
        ("-m m -b 9", &batching, Some("-b 9: inference request batch-size must be <= 8")),
        ("-m m -b 2", &sequence, Some("-b 2: requests of sequence models")),
        ("-m m", &decoupled, Some("-i grpc --streaming")),
        ("-m m -i grpc", &decoupled, Some("-i grpc --streaming")),
        ("-m m -i grpc --streaming", &decoupled, None),
        (IN_PROCESS, &decoupled, None),
        ("-m m --service-kind null --periodic-concurrency-range 1:2", &plain, Some("must be decoupled")),
        ("-m m --concurrency-range 1:0 -l 9 -a", &sequence, Some("give an end")),
        ("-m m --concurrency-range 1:0 -l 9 --sync", &sequence, None),
        ("-m m --concurrency-range 1:5 --sequence-id-range 1:5", &sequence, Some("holds 4 IDs, but 5 sequences")),
        ("-m m --concurrency-range 1:4 --sequence-id-range 1:5", &sequence, None),
        ("-m m --request-rate-range 5 --sequence-id-range 1:4", &sequence, Some("holds 3 IDs, but 4 sequences")),
        (
            "-m m --request-rate-range 3 --num-of-sequences 5 --sequence-id-range 1:3",
            &sequence,
            Some("holds 2 IDs, but 5 sequences"),
        ),
        ("-m m", &open, Some("add --shape IN:")),
        (
            "-m m",
            &open,
            Some("input IN contains dynamic shape, provide shapes to send along with the request: input 'IN' has"),
        ),
        ("-m m --shape IN:3", &open, None),
        ("-m m --input-data Cargo.toml", &open, None),
        ("-m m --random-range OUT:0:1", &plain, Some("--random-range OUT: there is no such input; there are IN")),
    ];
    for (line, spec, expected) in cases {
        match (plan(line).check_models(std::slice::from_ref(spec)), expected) {
            (Ok(()), None) => {}
            (Err(error), Some(part)) => assert!(error.to_string().contains(part), "{line}: {error}"),
            (result, expected) => panic!("{line}: {result:?}, not {expected:?}"),
        }
    }
}

#[test]
fn sequence_models_are_asynchronous_unless_asked_otherwise() {
    let sequence = [model(r#"{"max_batch_size":8,"sequence_batching":{}}"#, "4")];
    let synchronous = |line: &str| {
        let plan = plan(line);
        plan.check_models(&sequence).expect("the plan fits");
        plan.is_synchronous(&sequence)
    };
    assert!(!synchronous("-m m"));
    assert!(synchronous("-m m --sync"));
    assert!(!synchronous("-m m -a"));
}

/// Compares with a file of the checkout; `UPDATE_SNAPSHOTS=1` writes it.
fn matches_file(path: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
        std::fs::write(&path, text).expect("the snapshot can be written");
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        kept == text,
        "{} is out of date: run the tests with UPDATE_SNAPSHOTS=1 and look at what changed",
        path.display()
    );
}

fn help() -> String {
    match cli::parse(words("--help"), Codes::Own) {
        Ok(Command::Help(text)) => text,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_help_text_is_as_it_was_agreed() {
    matches_file("tests/snapshots/help.txt", &help());
}

#[test]
fn the_help_tells_every_default() {
    for arg in cli::command().get_arguments().filter(|arg| !arg.is_hide_set()) {
        let text = arg.get_help().map(ToString::to_string).unwrap_or_default();
        let tells = text.contains("Default")
            || text.contains("Required")
            || text.starts_with("Prints the version")
            || text.starts_with("Prints this text");
        assert!(tells || !arg.get_default_values().is_empty(), "{:?}: {text}", arg.get_long());
        assert!(arg.get_help_heading().is_some(), "{:?} is in no section", arg.get_long());
    }
}

#[test]
fn flags_that_no_help_tells_are_in_the_reference() {
    let (reference, command) = (reference(), cli::command());
    for arg in command.get_arguments().filter(|arg| arg.is_hide_set()) {
        let long = arg.get_long().unwrap_or_default();
        let names = [arg.get_short().map(|short| format!("`-{short}")), Some(format!("`--{long}"))];
        assert!(names.iter().flatten().any(|name| reference.contains(name.as_str())), "{names:?}");
    }
}

#[test]
fn the_reference_lists_every_flag() {
    matches_file("docs/cli.md", &reference());
}

/// `docs/cli.md`, made from the flags themselves.
fn reference() -> String {
    let mut text = String::from(
        "# Command line\n\n\
         <!-- Made by tests/local/cli.rs; `UPDATE_SNAPSHOTS=1 cargo test --test local cli::` regenerates it. -->\n\n\
         Every flag of `triton-bench` and `perf_analyzer`, generated from the program itself (`--help` says the same). Flags may be \
         shortened as long as they stay unambiguous, and a prefix that was unambiguous in perf_analyzer still means the same. \
         If a flag occurs several times the last one wins, unless the flag may be repeated; keywords are case-insensitive. Arguments that \
         belong to no flag are errors; under the name `perf_analyzer` they are ignored, and standard error names them. Wrong flags end the \
         program with code 99 and one line on standard error.\n",
    );
    let mut heading = String::new();
    for arg in cli::command().get_arguments().filter(|arg| !arg.is_hide_set()) {
        let section = arg.get_help_heading().unwrap_or("Other");
        if section != heading {
            heading = section.to_owned();
            text += &format!("\n## {heading}\n\n| flag | value | default | meaning |\n|---|---|---|---|\n");
        }
        text += &row(arg);
    }
    text + DIFFERENCES
}

fn row(arg: &clap::Arg) -> String {
    let escape = |text: &str| text.replace('|', "\\|");
    let short = arg.get_short().map(|short| format!("`-{short}`, ")).unwrap_or_default();
    let long = arg.get_long().unwrap_or_default();
    let value = arg.get_value_names().filter(|_| arg.get_action().takes_values()).and_then(|names| names.first());
    let value = value.map(|name| format!("`{}`", escape(name))).unwrap_or_default();
    let help = arg.get_help().map(ToString::to_string).unwrap_or_default().replace('\n', " ");
    let (meaning, stated_default) = help.split_once(". Default: ").unwrap_or((&help, ""));
    let defaults: Vec<_> = arg.get_default_values().iter().map(|value| value.to_string_lossy()).collect();
    let takes_values = arg.get_action().takes_values();
    let default = if stated_default.is_empty() && takes_values && !defaults.is_empty() {
        format!("`{}`", defaults.join(","))
    } else {
        escape(stated_default)
    };
    format!("| {short}`--{long}` | {value} | {default} | {} |\n", escape(meaning))
}

/// What the flags themselves do not say.
const DIFFERENCES: &str = "
## trace-summary

`triton-bench trace-summary [-t] [--slowest N] [--json] [--trace-export FILE] FILE...` summarises traces that a Triton server wrote (`tritonserver --trace-config=triton,file=FILE`,
with `--trace-level TIMESTAMPS` given here or there), in the old and the new format: averages per model, in whole microseconds, of the request
from first to last byte, and of receiving, sending, handling, queueing and executing it; HTTP and gRPC separately, models of an ensemble under
the request to the ensemble. The file of a running server, which has no end yet, is read as far as it goes, and that of a server that was
killed up to its last whole trace. A *Wait/Read* time of gRPC includes the time before anything arrived. `-t` prints each trace's moments, too.

Below the averages a table has mean, p50, p90, p95, p99 and share of every stage (nearest ranks, a trace without the stage counts as 0;
`unexplained` is the rest), and the `--slowest` traces of each model (3) by their number, with their stages. `--json` prints the same
as a line of JSON for each file, in microseconds: `file`, `models` with `model`, `version`, `protocol`, `traces`, `stages`, `slowest`.
`--trace-export` writes the traces of all files for Perfetto. [measurement.md](measurement.md) defines the stages of a run.

## doctor

`triton-bench doctor [--cpus LIST] [--worker-cpus LIST]` names what makes this machine unfit for measuring, one line per check on standard
output: `ok`, `note` (matters to some runs) or `warning` (figures are worse, or spread more, than they need to be), the value found, why it
matters and what to do. It checks the number of processors, the frequency governor, SMT siblings pinned together, a control group's
quota, the clock's source and the cost of reading it, steal time of the hypervisor, other load (for one second), `/dev/shm`,
locked memory, transparent huge pages, the limits on threads, mappings and files, and for NVIDIA GPUs the driver, MPS, MIG, persistence
and compute mode, and current users. The exit code is 0 whatever it finds, 99 for wrong flags. Before a run, the warnings on governor,
siblings, quota and clock stand in one line above the levels (not under the name `perf_analyzer`, which has no such command).

## compare

`triton-bench compare A.json B.json [--margin 5%] [--force]` compares two files of `--summary-file` ([results.md](results.md)).

## models

`triton-bench models --model-repository DIR` loads the models of a repository into this process, one after the other, and describes each:
platform, versions, batches, a line per tensor; for a model that cannot be loaded, the reason. `triton-bench models -u HOST:PORT [-i grpc]` asks a
server. `-m MODEL` lists one. The other flags are those of a run that concern the server.

## init

`triton-bench init FILE [--repository DIR] [--name NAME] [--triton-server-directory DIR]` makes a model repository (`models`) of a model's
file: `NAME/1/` with the file, and `NAME/config.pbtxt`. For ONNX it holds inputs and outputs, and weights that are stored in other files come
along. For other formats, what the file does not tell is said, and stands in `config.pbtxt` as a comment. It prints the files on standard
output; on standard error what you should know, whether this Triton has the backend, and the command that measures the model. It overwrites
nothing. [your-model.md](your-model.md) goes on from there.

## help

`-h` prints one screen, `--help` (or `help`) everything, `--help SECTION` (such as `--help load`) the flags of one section, `--help COMMAND`
(such as `--help tune`) those of a command. For a misspelled flag or command the error suggests the nearest ones, and for a long flag with one
hyphen it says how that was read. On a terminal the text uses its width, up to 110 columns, and has colours unless `NO_COLOR` is set.

## completions, man

`triton-bench completions bash [NAME]` (or `zsh`, `fish`, `elvish`, `powershell`) prints the shell's completion script for the flags, commands
and values of `triton-bench`, or for the flags of `perf_analyzer` and `perf_client`; `triton-bench man` prints the manual page. The packages
install both.

## Habits

`-c N` is `--concurrency-range N`, `-n N` (or `--requests`) is `--request-count N`, and `--rate N` (or `--qps`, `-R`) is
`--request-rate-range N`, as in hey, oha, wrk and vegeta. What has no counterpart is answered with the flag that is meant: `--duration 10s`,
`-z 10s`, `-q 100`, an address or a model's file as an argument.

## Older spellings

`-t N` is a concurrency of N; with `-d` it grows from there (from 1 without `-t`) to that of `-c M`, or without end. Beside `-t` alone, and
under the name `perf_analyzer`, `-c` has no effect without `-d`. `-z` is `--input-data zero`, and `--data-directory DIR` is `--input-data DIR`.

## What differs from perf_analyzer

- Numbers must be numbers to their last character, within their bounds; ranges must not be empty, run backwards or have a step of zero.
  perf_analyzer takes `5x` for 5, and some of these ranges never end. Under the name `perf_analyzer`, `8.0` is the whole number 8.
- A range of rates has at most 10000 levels, and its step must raise the rate; with `--binary-search` the step is a precision, which
  may be as fine as one likes.
- `--help`, `-h` and `-?` print the help on standard output and end with code 0.
- `--ssl-grpc-use-ssl` accepts a `true` or `false` after it. `--ssl-https-verify-peer` and `--ssl-https-verify-host` hold over gRPC, too, where
  perf_analyzer checks every certificate.
- A TLS flag on a connection that is not encrypted (`-u` without `https://`, gRPC without `--ssl-grpc-use-ssl`) is an error;
  perf_analyzer goes on in plaintext, headers included.
- Under the name `perf_analyzer`, JSON tensors over gRPC stay binary, and a `--sequence-length` of 0 or less is taken for the default, each
  with a note; otherwise both are errors.
- Under the name `perf_analyzer`, windows of `--measurement-mode count_windows` last at least a second, as its documentation promises;
  otherwise half a second.
- Under the name `perf_analyzer`, the exit code is 2 only where it is upstream's: if the only level of a range is not stable. With
  `--async`, `--streaming` and sequence models a level whose throughput alone is stable counts as stable there, with a note.
- A second interrupt, or one before anything was measured, ends the program with 130 under every name; perf_analyzer ends with 0.
- Levels that are not stable or above the latency threshold are reported and marked; perf_analyzer discards them. Under its name they are
  left out of the CSV file, unless there are no others.
- The final lines end with the level's outcome in brackets where it is not simply valid, and the CSV file has it in a last column then.
  With `-l`, a line about the highest level within the limit comes before the final lines, with the interval of its latency.
- `--collect-metrics` with a page that nobody answers is an error; under the name `perf_analyzer` it is noted, as is a reader that closes standard
  output, after which the files are still written.
- `--verbose-csv` with `--collect-metrics` has GPU columns only if the server reports a GPU.
- The last of several values of a flag counts; of several `--request-count` perf_analyzer takes the first.
- A `--shape` that does not fit the model is refused before anything is sent.
- `--request-parameter` works over HTTP and in process too, and knows the types `uint` and `double`; its value may hold colons.
- `--model-repository` may be repeated. `--trace-level` may be repeated, as perf_analyzer's own text says.
- In process, `--async`, `--streaming` and `--shared-memory` can be combined, decoupled models need no `--streaming`, and
  `--collect-metrics` works.
- `--periodic-concurrency-range` needs no `--profile-export-file`.
- `--verbose` is `-v`; in perf_analyzer it happens to be a prefix of `--verbose-csv`.
- Flags of a service kind other than `--service-kind` are refused, and the message names the kinds that they are for; perf_analyzer ignores
  most of them. Under the name `perf_analyzer`, `--endpoint`, `--grpc-method` and `--model-signature-name` are ignored where they have no
  use, with a note.
- `--service-kind tfserving` needs no `-i grpc`, speaks REST with `-i http`, and takes `--async` and TLS; `-x N` asks for a version, and
  any other word for a label. [services.md](services.md) describes the other differences, and those of `torchserve`.
- `--service-kind openai` works under every load, including synchronous ones, and over TLS; [services.md](services.md) describes how its
  figures differ.
- Flags that have no effect in a run (`--request-distribution` without a rate, `--sequence-length` without sequences,
  `--verbose-csv` without `-f`, addresses in process and others) are each named once on standard error, and never refused. Only
  `--model-repository` beside a `--service-kind` other than this process is an error, unless the program is called `perf_analyzer`.
- `--schedule`, which perf_analyzer had for a short time, is refused, and the message names what is there for it: `--fixed-schedule`
  and `--trace-replay`.
- Trace settings that were changed on a server are restored when the run is over.
- `--trace-file` of old versions is refused over the network, because servers take the name of their trace file only at start. In
  process `--trace-level TIMESTAMPS`, `--trace-rate`, `--trace-count` and `--trace-file` work.
";
