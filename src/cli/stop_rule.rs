//! `--stop-on`: what ends a run early.

use std::time::Duration;

use crate::cli::values::{integer, share, time};
use crate::plan::StopRule;

/// `errors>SHARE over TIME [of N]`.
pub fn stop_rule(text: &str) -> Result<StopRule, String> {
    let rule = || {
        "it must be errors>SHARE over TIME, such as 'errors>10% over 5s', with 'of N' where N requests are needed"
            .to_owned()
    };
    let (condition, rest) = text.split_once(" over ").ok_or_else(rule)?;
    let (figure, part) = condition.split_once('>').ok_or_else(rule)?;
    let (over, least) = rest.split_once(" of ").map_or((rest, None), |(over, least)| (over, Some(least)));
    if !figure.trim().eq_ignore_ascii_case("errors") {
        return Err(rule());
    }
    let over = time(over.trim(), Duration::from_secs(1)).ok().filter(|over| *over >= Duration::from_millis(100));
    Ok(StopRule {
        share: share(part.trim())?,
        over: over.ok_or("the time must be at least 100ms")?,
        least: least.map_or(Ok(0), |least| integer(least.trim(), 1, u64::MAX))?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_of_failures_within_a_time() {
        let rule = stop_rule("errors>10% over 5s").unwrap();
        assert_eq!(rule, StopRule { share: 0.1, over: Duration::from_secs(5), least: 0 });
        assert_eq!(stop_rule("Errors > 0.5 over 500ms of 20").unwrap().least, 20);
        assert_eq!(stop_rule(&rule.to_string()), Ok(rule));
        for wrong in [
            "",
            "errors>10%",
            "errors>10% over",
            "p99>1s over 5s",
            "errors>110% over 5s",
            "errors>1% over 5s of 0",
            "errors<1% over 5s",
            "errors>1% over 1ms",
        ] {
            assert!(stop_rule(wrong).is_err(), "{wrong}");
        }
    }
}
