//! Rules of encryption.

use crate::exit::Codes;
use crate::plan::Draft;
use crate::plan::validate::Rule;
use crate::plan::validate::facts::on_network;

/// Flags that mean nothing without encryption. perf_analyzer goes on in plaintext, and sends its headers so; as its scripts count
/// on that, so does the program under its name, and says it.
pub(super) const FLAGS: &[&str] = &[
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
];

/// Asks for encryption by itself, but only over gRPC.
pub(super) const USE: &str = "--ssl-grpc-use-ssl";

/// Rules of encryption.
pub(super) const RULES: &[Rule] = &[Rule {
    broken: |draft| draft.codes == Codes::Own && goes_plain(draft) && !asking(draft).is_empty(),
    message: |draft| {
        format!(
            "{} asks for TLS, but the connection is not encrypted: HTTP is with -u https://HOST:PORT, gRPC with \
             -i grpc {USE}",
            asking(draft).join(" and ")
        )
    },
}];

fn asking(draft: &Draft) -> Vec<&'static str> {
    let mut flags = draft.given.among(FLAGS);
    flags.extend(wants(draft).then_some(USE));
    flags
}

/// Whether gRPC is to be encrypted.
pub(super) fn wants(draft: &Draft) -> bool {
    let declined = draft.given.value(USE).is_some_and(|word| word.eq_ignore_ascii_case("false"));
    draft.given.has(USE) && !declined
}

/// Whether nothing is encrypted that goes over the network.
pub(super) fn goes_plain(draft: &Draft) -> bool {
    on_network(draft) && !is_encrypted(draft)
}

/// Whether any connection is: that of the requests, or that of the metrics, which takes the same flags.
fn is_encrypted(draft: &Draft) -> bool {
    let target = &draft.plan.target;
    let metrics = target.metrics.as_ref().and_then(|metrics| metrics.url.as_deref());
    target.connection.tls.enabled
        || [Some(target.connection.url.as_str()), metrics].into_iter().flatten().any(is_secure)
}

fn is_secure(url: &str) -> bool {
    let scheme = url.split_once("://").map_or("", |(scheme, _)| scheme);
    ["https", "grpcs"].iter().any(|secure| scheme.eq_ignore_ascii_case(secure))
}
