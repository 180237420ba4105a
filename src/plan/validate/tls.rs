//! Rules of encryption.

use crate::Draft;
use crate::validate::facts::{named, on_network};
use crate::validate::{Rule, made};

/// Requests encryption by itself, but only over gRPC.
const USE: &str = "--ssl-grpc-use-ssl";

/// Rules of encryption. perf_analyzer continues in plaintext where these are given without it, and sends its headers that way.
pub(super) const RULES: &[Rule] = &[made(|draft| {
    let flags = named(asking(draft))?;
    // To check less of what is not encrypted asks for nothing.
    (on_network(draft) && !is_encrypted(draft)).then(|| {
        format!(
            "{flags} asks for TLS, but the connection is not encrypted: HTTP is with -u https://HOST:PORT, gRPC with \
             -i grpc {USE}"
        )
    })
})];

fn asking(draft: &Draft) -> Vec<&'static str> {
    let is_off = |flag: &&str| draft.given.value(flag).is_some_and(|value| value == "0");
    let mut flags = draft.given.which(|flag| flag.tls);
    flags.retain(|flag| !is_off(flag));
    let declined = draft.given.value(USE).is_some_and(|word| word.eq_ignore_ascii_case("false"));
    flags.extend((draft.given.has(USE) && !declined).then_some(USE));
    flags
}

/// Whether any connection is encrypted: those of the requests, or those of the metrics, which take the same flags.
fn is_encrypted(draft: &Draft) -> bool {
    draft.plan.target.connections().any(|connection| {
        let metrics = connection.metrics_url.as_deref();
        connection.tls.enabled || is_secure(&connection.url) || metrics.is_some_and(is_secure)
    })
}

fn is_secure(url: &str) -> bool {
    let scheme = url.split_once("://").map_or("", |(scheme, _)| scheme);
    ["https", "grpcs"].iter().any(|secure| scheme.eq_ignore_ascii_case(secure))
}
