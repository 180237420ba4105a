//! Flags of a run that do not apply to a search.

use crate::error::{Error, Result};
use crate::plan::{Given, LOADS, Plan, ServiceKind};

/// Those, beside other loads: a search measures each candidate for as long as it says itself, once, and writes files of its own.
const FOREIGN: &[&str] = &[
    // Loads.
    "-t",
    "-d",
    "-c",
    "--paced",
    "--trace-speed",
    "--trace-lengths",
    "--stage-edges",
    "--enable-mpi",
    "--ranks",
    "--trace-input",
    "--trace-parameter",
    "--request-period",
    "--binary-search",
    "--model-mix",
    // How long, and when to believe it.
    "--measurement-mode",
    "--measurement-request-count",
    "--request-count",
    "--warmup-request-count",
    "--warm-up",
    "--metrics-listen",
    "--otlp-endpoint",
    "--stability-rule",
    "--stability-percentage",
    "--max-trials",
    "--max-level-time",
    "--percentiles",
    "--latency-threshold",
    "--precision",
    "--stop-on",
    "--max-connections",
    "--restarts",
    "--on-disturbance",
    "--goodput",
    // What is compared, and with what.
    "--matrix",
    "--matrix-sizes",
    "--variant",
    "--rounds",
    "--order",
    "--margin-of-variants",
    "--require",
    "--baseline",
    "--undecided",
    "--gate-time",
    "--resume-of-a-run",
    "--validate-tolerance",
    // What is shown and written.
    "--junit",
    "--verbose-csv",
    "--profile-export-file",
    "--requests-file",
    "--report",
    "--report-dir",
    "--report-parts",
    "--report-prefix",
    "--svg",
    "--markdown",
    "--live",
    "-v",
    "--print-config",
    // What is looked at meanwhile.
    "--breakdown",
    "--trace-export",
    "--trace-file",
    "--trace-level",
    "--trace-rate",
    "--trace-count",
    "--log-frequency",
    "--collect-metrics",
    "--metrics-url",
    "--metrics-interval",
    // Other services.
    "--tokens-from",
    "--endpoint",
    "--prompt-tokens",
    "--output-tokens",
    "--prefix-tokens",
    "--media",
    "--prefix-media",
    "--conversations",
    "--turns",
    "--system-tokens",
    "--turn-delay",
    "--session-trace",
    "--session-trace-options",
    "--session-header",
    "--response-format",
    "--num-prefixes",
    "--num-prompts",
    "--tokenizer",
    "--grpc-method",
    "--proto",
    "--proto-include",
    "--model-signature-name",
    "--management-url",
    "--management-key",
];

/// Refuses what a search would not heed, and services whose models cannot be configured.
///
/// # Errors
/// The first flag, and what to say instead.
pub fn check(run: &Plan, given: &Given) -> Result<()> {
    let loads = LOADS.iter().filter(|flag| **flag != "--concurrency-range");
    if let Some(flag) = loads.chain(FOREIGN).find(|flag| given.has(flag)) {
        let instead = match *flag {
            "-c" => "use --at-concurrency",
            "--request-rate-range" => "use --at-rate",
            "--latency-threshold" | "--require" => "use --constraint",
            "--percentiles" => "name percentiles in --objective and --constraint",
            "--max-trials" | "--max-level-time" | "--precision" => "use --budget",
            _ => "leave it out",
        };
        return Err(Error::usage(format!(
            "{flag} is for a run, not for tune: {instead}; see triton-bench tune --help"
        )));
    }
    match run.target.service {
        ServiceKind::Triton | ServiceKind::TritonCApi => Ok(()),
        other => Err(Error::usage(format!(
            "--service-kind {}: tune loads models with other configurations, which only Triton supports; see --help",
            other.word()
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::getopt;
    use crate::cli::tune::command;
    use crate::cli::tune::tests::{BASE, parse_words};

    /// Those that say which model, how it is reached, and what requests carry, as they do in a run.
    const HEEDED: &[&str] = &[
        "-m",
        "-x",
        "--service-kind",
        "--bls-composing-models",
        "--concurrency-range",
        "--percentile",
        "--request-distribution",
        "--burstiness",
        "--async",
        "--sync",
        "--max-threads",
        "--max-outstanding",
        "--cpus",
        "--worker-cpus",
        "--wait",
        "--seed",
        "--sequence-length",
        "--sequence-length-variation",
        "--sequence-id-range",
        "--sequence-id-type",
        "--num-of-sequences",
        "--serial-sequences",
        "--measurement-interval",
        "--warmup-duration",
        "--max-errors",
        "--decoupled-latency",
        "--latency-from",
        "--latency-to",
        "-b",
        "--input-data",
        "--optional-inputs",
        "--shape",
        "--string-length",
        "--string-data",
        "--random-range",
        "--validate-replies",
        "--request-parameter",
        "--secret",
        "--priority",
        "--request-timeout-us",
        "--cancel-after-us",
        "--shared-memory",
        "--output-shared-memory-size",
        "--input-memory",
        "--output-memory",
        "--max-input-memory",
        "--cuda-device",
        "-z",
        "--data-directory",
        "--triton-server-directory",
        "--model-repository",
        "--backend-directory",
        "--backend-config",
        "--repoagent-directory",
        "--cache-directory",
        "--cache-config",
        "--pinned-memory-pool-byte-size",
        "--cuda-memory-pool-byte-size",
        "--cuda-virtual-address-size",
        "--min-supported-compute-capability",
        "--rate-limit",
        "--rate-limit-resource",
        "--host-policy",
        "--model-load-thread-count",
        "--model-load-retry-count",
        "--buffer-manager-thread-count",
        "--enable-peer-access",
        "--strict-model-config",
        "--model-config-name",
        "--model-namespacing",
        "--log-level",
        "--log-verbose",
        "--log-file",
        "--log-format",
        "--server-metrics",
        "--metrics-config",
        "--exit-timeout-secs",
        "-u",
        "--spread",
        "-i",
        "-H",
        "--streaming",
        "--grpc-compression-algorithm",
        "--http-compression",
        "--input-tensor-format",
        "--output-tensor-format",
        "--server-wait",
        "--reconnect",
        "--connections",
        "--client-timeout-us",
        "--max-reply-bytes",
        "--max-reply-memory",
        "--ssl-grpc-use-ssl",
        "--ssl-grpc-root-certifications-file",
        "--ssl-grpc-private-key-file",
        "--ssl-grpc-certificate-chain-file",
        "--ssl-https-verify-peer",
        "--ssl-https-verify-host",
        "--ssl-https-ca-certificates-file",
        "--ssl-https-client-certificate-file",
        "--ssl-https-client-certificate-type",
        "--ssl-https-private-key-file",
        "--ssl-https-private-key-type",
        "-f",
        "--summary-file",
        "--version",
        "-h",
        "--config",
        "--run",
        "--search",
        "--objective",
        "--constraint",
        "--at-rate",
        "--at-concurrency",
        "--budget",
        "--margin",
        "--output",
        "--isolate",
        "--resume",
        "--trial",
    ];

    #[test]
    fn every_flag_of_a_run_is_heeded_or_refused() {
        let flags: Vec<String> = command().get_arguments().map(getopt::shown).collect();
        let refused = |flag: &str| FOREIGN.contains(&flag) || (LOADS.contains(&flag) && flag != "--concurrency-range");
        let open: Vec<&String> = flags.iter().filter(|flag| refused(flag) == HEEDED.contains(&flag.as_str())).collect();
        assert!(open.is_empty(), "heeded or refused? {open:?}");
        let unknown: Vec<_> =
            FOREIGN.iter().chain(HEEDED).filter(|flag| !flags.iter().any(|known| known == *flag)).collect();
        assert!(unknown.is_empty(), "no flags: {unknown:?}");
    }

    #[test]
    fn what_would_not_be_heeded_is_refused() {
        for flag in [
            &["--percentiles", "95"][..],
            &["-r", "3"],
            &["--trace-file", "t.json"],
            &["--trace-level", "TIMESTAMPS"],
            &["-s", "5"],
            &["--collect-metrics"],
            &["--stop-on", "errors>10% over 5s"],
            &["-v"],
        ] {
            let words = BASE.split_whitespace().chain(flag.iter().copied());
            let error = parse_words(words).expect_err(flag[0]).to_string();
            assert!(error.contains("is for a run, not for tune"), "{flag:?}: {error}");
        }
    }
}
