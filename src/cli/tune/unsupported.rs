//! Flags of a run that do not apply to a search.

use crate::error::{Error, Result};
use crate::plan::flags::find;
use crate::plan::{Given, Plan, ServiceKind};
use crate::tune::AWAY;

/// Refuses what a search would not heed, which measures each candidate for as long as it says itself, once, and writes files of
/// its own, and services whose models cannot be configured.
///
/// # Errors
/// The first flag, and what to say instead.
pub fn check(run: &Plan, given: &Given) -> Result<()> {
    let hidden = AWAY.into_iter().filter(|flag| given.has(flag));
    if let Some(flag) = given.which(|flag| !flag.tuned).into_iter().chain(hidden).next() {
        let instead = find(flag).map_or("leave it out", |flag| flag.instead);
        return Err(Error::usage(format!(
            "{flag} is for a run, not for tune: {instead}; see triton-bench tune --help"
        )));
    }
    match run.target.service {
        ServiceKind::Triton | ServiceKind::TritonCApi => Ok(()),
        other => Err(Error::usage(format!(
            "--service-kind {}: tune loads models with other configurations, which only Triton supports; see --help",
            other.name()
        ))),
    }
}

#[cfg(test)]
mod tests {
    use crate::tune::tests::{BASE, parse_words};

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
