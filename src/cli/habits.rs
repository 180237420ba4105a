//! What users of other load generators (hey, oha, wrk, ab, vegeta, locust, k6; for language models vLLM's `bench serve`, aiperf and
//! genai-perf) write by habit, and what it means here.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use crate::exit::Codes;
use ::model::starter::Format;

/// What a flag of theirs is here.
pub enum Habit {
    /// It is this flag.
    Is(&'static str),
    /// It has no counterpart of the same meaning: what to use instead.
    Instead(&'static str),
}

const TIME: &str = "a level is measured until its figures have settled: --max-level-time 30s limits that, and --stage \
    concurrency:4:10s sends for exactly 10 s";
const RATE: &str = "--request-rate-range 100 sends 100 requests a second in total, whether or not the server keeps up";

const ADDRESS: &str = "the server's address is -u HOST:PORT";
const PROMPTS: &str = "--prompt-tokens 512 makes prompts, --prompt-tokens dataset:FILE.json takes those of a data set, --input-data \
    FILE.jsonl sends a file's; how many requests are sent says --request-count, and --num-prompts how many differ";
const SERVICE: &str = "--service-kind openai --endpoint v1/chat/completions says what is asked: also v1/completions, v1/responses, \
    v1/messages or v1/embeddings";
const SPREAD: &str =
    "lengths are drawn as --prompt-tokens and --output-tokens say: MEAN:STDDEV, or uniform:MIN:MAX and others";
const FIELDS: &str = "--request-parameter NAME:VALUE:TYPE, such as ignore_eos:true:bool, sets a field of every request";
const CLIENTS: &str =
    "--concurrency-range N keeps N requests under way; beside --request-rate-range, --max-outstanding N bounds them";
const SESSIONS: &str = "--session-concurrency N plays N conversations at a time: those of --input-data FILE.jsonl, or made by \
    --session-trace agents:sessions=10,input=200,output=50";
const RESULTS: &str = "--summary-file FILE.json writes the result, --profile-export-file FILE.json every request";
const WORDS: &str =
    "--tokenizer takes the model's tokenizer.json; nothing is downloaded, and no code of a model is run";
const COUNTED: &str = "tokens are counted by the server where it reports its usage, else by --tokenizer";
const KEY: &str = "-H 'Authorization: Bearer KEY' sends it, and no message or result shows it";
const FORM: &str =
    "--input-data FILE.jsonl tells the form of its lines by itself; recorded send times are --trace-replay FILE";

/// Their long flags; no prefix of one of perf_analyzer's is here.
pub const LONG: &[(&str, Habit)] = &[
    ("rate", Habit::Is("request-rate-range")),
    ("qps", Habit::Is("request-rate-range")),
    ("requests", Habit::Is("request-count")),
    ("duration", Habit::Instead(TIME)),
    ("time", Habit::Instead(TIME)),
    ("run-time", Habit::Instead(TIME)),
    ("disable-keepalive", Habit::Instead("--connections new makes a connection for each request")),
    ("users", Habit::Is("concurrency-range")),
    ("vus", Habit::Is("concurrency-range")),
    // vLLM's.
    ("max-concurrency", Habit::Instead(CLIENTS)),
    ("backend", Habit::Instead(SERVICE)),
    ("base-url", Habit::Is("url")),
    ("host", Habit::Instead(ADDRESS)),
    ("port", Habit::Instead(ADDRESS)),
    ("dataset-name", Habit::Instead(PROMPTS)),
    ("dataset-path", Habit::Instead(PROMPTS)),
    ("random-input-len", Habit::Is("prompt-tokens")),
    ("random-output-len", Habit::Is("output-tokens")),
    ("random-prefix-len", Habit::Is("prefix-tokens")),
    ("random-input", Habit::Is("prompt-tokens")),
    ("random-output", Habit::Is("output-tokens")),
    ("random-range-ratio", Habit::Instead(SPREAD)),
    ("input-len", Habit::Is("prompt-tokens")),
    ("output-len", Habit::Is("output-tokens")),
    ("num-warmups", Habit::Is("warmup-request-count")),
    ("metric-percentiles", Habit::Is("percentiles")),
    ("percentile-metrics", Habit::Instead("reports have all figures; --percentiles 50,90 adds percentiles of them")),
    ("ignore-eos", Habit::Instead(FIELDS)),
    ("temperature", Habit::Instead(FIELDS)),
    ("extra-body", Habit::Instead(FIELDS)),
    ("save-result", Habit::Instead(RESULTS)),
    ("save-detailed", Habit::Instead(RESULTS)),
    ("result-dir", Habit::Instead(RESULTS)),
    ("result-filename", Habit::Instead(RESULTS)),
    // aiperf's and genai-perf's.
    ("isl", Habit::Is("prompt-tokens")),
    ("osl", Habit::Is("output-tokens")),
    ("synthetic-input-tokens-mean", Habit::Is("prompt-tokens")),
    ("synthetic-input-tokens-stddev", Habit::Instead(SPREAD)),
    ("output-tokens-mean", Habit::Is("output-tokens")),
    ("output-tokens-stddev", Habit::Instead(SPREAD)),
    ("prompt-input-tokens-mean", Habit::Is("prompt-tokens")),
    ("prompt-input-tokens-stddev", Habit::Instead(SPREAD)),
    ("prompt-output-tokens-mean", Habit::Is("output-tokens")),
    ("prompt-output-tokens-stddev", Habit::Instead(SPREAD)),
    ("isl-stddev", Habit::Instead(SPREAD)),
    ("osl-stddev", Habit::Instead(SPREAD)),
    ("num-requests", Habit::Is("request-count")),
    ("num-warmup-requests", Habit::Is("warmup-request-count")),
    ("num-dataset-entries", Habit::Is("num-prompts")),
    ("random-seed", Habit::Is("seed")),
    ("request-rate-mode", Habit::Is("request-distribution")),
    ("request-timeout-seconds", Habit::Instead("--client-timeout-us 600s gives a request up after 600 s")),
    ("api-key", Habit::Instead(KEY)),
    ("input-file", Habit::Is("input-data")),
    ("custom-dataset-type", Habit::Instead(FORM)),
    ("public-dataset", Habit::Instead(PROMPTS)),
    ("prefix-prompt-length", Habit::Is("prefix-tokens")),
    ("num-prefix-prompts", Habit::Is("num-prefixes")),
    ("use-server-token-count", Habit::Instead(COUNTED)),
    ("trust-remote-code", Habit::Instead(WORDS)),
    ("tokenizer-trust-remote-code", Habit::Instead(WORDS)),
    ("tokenizer-revision", Habit::Instead(WORDS)),
    ("ui", Habit::Instead("--live shows a dashboard, which is off otherwise")),
    ("ui-type", Habit::Instead("--live shows a dashboard, which is off otherwise")),
    ("generate-plots", Habit::Instead("--report FILE.html draws the figures")),
    ("artifact-dir", Habit::Instead(RESULTS)),
    ("output-artifact-dir", Habit::Instead(RESULTS)),
    ("model-names", Habit::Is("model")),
    ("arrival-pattern", Habit::Is("request-distribution")),
    ("custom-endpoint", Habit::Is("endpoint")),
    ("warmup-requests", Habit::Is("warmup-request-count")),
    ("num-sessions", Habit::Instead(SESSIONS)),
    ("session-turns-mean", Habit::Instead(SESSIONS)),
    ("conversation-turn-mean", Habit::Instead(SESSIONS)),
    ("session-turn-delay-mean", Habit::Instead(SESSIONS)),
    ("prefix-prompt-pool-size", Habit::Is("num-prefixes")),
    ("prompt-prefix-pool-size", Habit::Is("num-prefixes")),
    ("prompt-prefix-length", Habit::Is("prefix-tokens")),
    ("gpu-telemetry", Habit::Instead("--collect-metrics reads the GPUs' figures from the server's metrics")),
    // vLLM's and SGLang's, guidellm's, llmperf's.
    ("served-model-name", Habit::Is("model")),
    ("sharegpt-output-len", Habit::Is("output-tokens")),
    ("custom-output-len", Habit::Is("output-tokens")),
    ("hf-output-len", Habit::Is("output-tokens")),
    ("extra-request-body", Habit::Instead(FIELDS)),
    ("top-p", Habit::Instead(FIELDS)),
    ("logprobs", Habit::Instead(FIELDS)),
    ("ramp-up-strategy", Habit::Instead("--stage ramp:1-100:30s raises the rate from 1 to 100 a second within 30 s")),
    ("target", Habit::Is("url")),
    ("rate-type", Habit::Instead(RATE)),
    ("max-seconds", Habit::Instead(TIME)),
    ("max-requests", Habit::Is("request-count")),
    ("mean-input-tokens", Habit::Is("prompt-tokens")),
    ("mean-output-tokens", Habit::Is("output-tokens")),
    ("num-concurrent-requests", Habit::Is("concurrency-range")),
    ("max-num-completed-requests", Habit::Is("request-count")),
    // Model Analyzer's names of perf_analyzer's short flags, which many pages give as flags.
    ("latency-report-file", Habit::Is("csv")),
    ("model-name", Habit::Is("model")),
    ("endpoint-type", Habit::Instead(SERVICE)),
    ("extra-inputs", Habit::Instead(FIELDS)),
    ("benchmark-duration", Habit::Instead(TIME)),
];

const SHORT: &[(char, Habit)] = &[
    ('n', Habit::Is("request-count")),
    ('q', Habit::Instead(RATE)),
    ('R', Habit::Is("request-rate-range")),
    ('k', Habit::Instead("connections are kept, unless --connections new makes one for each request")),
];

/// What a long flag of theirs is, by its name.
pub fn long(name: &str) -> Option<&'static Habit> {
    LONG.iter().find(|(habit, _)| *habit == name).map(|(_, meant)| meant)
}

/// What a short one is.
pub fn short(letter: char) -> Option<&'static Habit> {
    SHORT.iter().find(|(habit, _)| *habit == letter).map(|(_, meant)| meant)
}

const CONCURRENCY: &[u8] = b"--old-end-concurrency";
/// perf_analyzer's old flags, beside which `-c` ends a range.
const OLD: [&[u8]; 2] = [b"--old-dynamic-concurrency", b"--old-start-concurrency"];

/// The words of a run as those mean them who call the program by that name.
pub fn translated(arguments: Vec<OsString>, codes: Codes) -> Vec<OsString> {
    match codes {
        Codes::Own => with_short_concurrency(arguments),
        Codes::PerfAnalyzers => with_whole_numbers(arguments),
    }
}

/// Under this program's own name, `-c` is the concurrency unless perf_analyzer's old `-d` or `-t` stand beside it.
fn with_short_concurrency(arguments: Vec<OsString>) -> Vec<OsString> {
    let begins = |word: &OsString, with: &[u8]| word.as_encoded_bytes().starts_with(with);
    if arguments.iter().any(|word| OLD.iter().any(|old| begins(word, old))) {
        return arguments;
    }
    let is_one = |word: &OsString| begins(word, CONCURRENCY);
    let renamed = |word: OsString| match word.to_str().filter(|_| is_one(&word)).and_then(|word| word.split_once('=')) {
        Some((_, value)) => format!("--concurrency-range={value}").into(),
        None => word,
    };
    arguments.into_iter().map(renamed).collect()
}

/// Flags of perf_analyzer's with whole numbers, or ranges of them.
const WHOLE: &[&str] = &[
    "batch-size",
    "concurrency-range",
    "log-frequency",
    "max-threads",
    "max-trials",
    "measurement-request-count",
    "num-of-sequences",
    "old-end-concurrency",
    "old-start-concurrency",
    "output-shared-memory-size",
    "periodic-concurrency-range",
    "request-count",
    "request-period",
    "sequence-id-range",
    "sequence-length",
    "session-concurrency",
    "string-length",
    "trace-count",
    "warmup-request-count",
];

/// Scripts compute whole numbers as `8.0`, which perf_analyzer reads up to the point.
fn with_whole_numbers(arguments: Vec<OsString>) -> Vec<OsString> {
    let read = |word: OsString| whole(&word).unwrap_or(word);
    arguments.into_iter().map(read).collect()
}

/// `--flag=1:4` for `--flag=1.0:4.0`, if the flag takes whole numbers. A part that is none stays as it is.
fn whole(word: &OsStr) -> Option<OsString> {
    let (flag, value) = word.to_str()?.strip_prefix("--")?.split_once('=')?;
    let is_zero = |fraction: &str| !fraction.is_empty() && fraction.bytes().all(|digit| digit == b'0');
    let part = |part: &str| match part.split_once('.') {
        Some((number, fraction)) if !number.is_empty() && is_zero(fraction) => number.to_owned(),
        _ => part.to_owned(),
    };
    let parts: Vec<String> = value.split(':').map(part).collect();
    WHOLE.contains(&flag).then(|| format!("--{flag}={}", parts.join(":")).into())
}

/// The answer to a time such as `10s`, which wrk takes behind its -d.
pub fn time(word: &str) -> Option<&'static str> {
    let number = word.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = &word[number.len()..];
    let is_time = !number.is_empty() && ["ms", "s", "m", "h"].contains(&unit) && number.parse::<f64>().is_ok();
    is_time.then_some(TIME)
}

/// The answer to a word that belongs to no flag, if it tells what it was meant for.
pub fn stray(word: &str) -> Option<String> {
    if ["http://", "https://", "grpc://"].iter().any(|scheme| word.starts_with(scheme)) {
        return Some("an address goes behind -u, and the model's name behind -m".to_owned());
    }
    if let Some(answer) = time(word) {
        return Some(answer.to_owned());
    }
    // aiperf's, genai-perf's and Model Analyzer's command.
    if word == "profile" {
        return Some("a measurement has no command: leave out 'profile'".to_owned());
    }
    let path = Path::new(word);
    // Scripts and JSON files may be anything; under these names they are models.
    let is_model = match Format::from_path(path) {
        Some(Format::Python | Format::Vllm) => ["model.py", "model.json"].iter().any(|name| path.ends_with(name)),
        format => format.is_some(),
    };
    if is_model && !path.is_dir() {
        return Some(format!(
            "it is a model's file: 'triton-bench init {word}' makes a model repository of it, which is then measured"
        ));
    }
    path.is_dir()
        .then(|| format!("a directory of models goes behind --model-repository ({word}), a model's name behind -m"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strays_tell_what_they_were_meant_for() {
        for (word, part) in [
            ("http://localhost:8000", "behind -u"),
            ("10s", "--max-level-time"),
            ("500ms", "--stage"),
            ("nets/resnet.onnx", "'triton-bench init nets/resnet.onnx'"),
            ("config", "--model-repository (config)"),
            ("profile", "leave out 'profile'"),
        ] {
            let answer = stray(word).unwrap_or_default();
            assert!(answer.contains(part), "{word}: {answer}");
        }
        assert!(["s", "foo", "4", "10x", "-5", "result.json"].iter().all(|word| stray(word).is_none()));
    }
}
