//! What to do about refusals that newer servers make by default.

use crate::{ErrorCode, InferError};

/// A refusal, known by the words in it, the flag that decides, and what to do.
struct Advice {
    words: &'static [&'static str],
    flag: &'static str,
    next: &'static str,
}

const ADVICE: [Advice; 3] = [
    Advice {
        words: &["lient shared memory is disabled"],
        flag: "--allow-client-shm",
        next: "start the server with --allow-client-shm=true, which Triton needs from 26.04 on",
    },
    Advice {
        words: &["exceeds", "maximum", "size"],
        flag: "--http-max-input-size",
        next: "start the server with a larger --http-max-input-size (its default is 64 MiB), use -i grpc, or share memory",
    },
    Advice {
        words: &["sequence batching control", "data-type is"],
        flag: "--sequence-id-type",
        next: "give the type that the model expects with --sequence-id-type, or leave the flag out",
    },
];

impl InferError {
    /// What to do about it, if it is such a refusal and does not say so itself.
    pub fn advice(&self) -> Option<&'static str> {
        let fits = |advice: &&Advice| {
            let is_possible = advice.flag != "--http-max-input-size" || matches!(self.code, ErrorCode::Http(400 | 413));
            is_possible && advice.words.iter().all(|word| self.message.contains(word))
        };
        ADVICE.iter().find(fits).filter(|advice| !self.message.contains(advice.flag)).map(|advice| advice.next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_of_newer_servers_name_the_flag() {
        let advice = |code: ErrorCode, message: &str| InferError::new(code, message).advice().unwrap_or_default();
        let http = || ErrorCode::Http(400);
        assert!(advice(http(), "Client shared memory is disabled.").contains("--allow-client-shm=true"));
        let refusal = "Client shared memory is disabled. Start the server with '--allow-client-shm=true' to enable.";
        assert_eq!(advice("Unavailable".into(), refusal), "", "the server says it itself");
        let long = "request JSON of 70000000 bytes exceeds the maximum allowed input size of 67108864";
        assert!(advice(http(), long).contains("--http-max-input-size"));
        assert_eq!(advice("Invalid argument".into(), long), "", "over gRPC there is no such limit");
        let typed =
            "[request id: 1] sequence batching control 'ID' data-type is 'UINT64', but model 'm' expects 'BYTES'";
        assert!(advice("Invalid argument".into(), typed).contains("--sequence-id-type"));
        assert_eq!(advice(http(), "went wrong"), "");
    }
}
