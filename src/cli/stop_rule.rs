//! `--stop-on`: what ends a run early.

use std::time::Duration;

use crate::terms::StopRule;
use crate::values::{integer, share, time};

/// `errors>SHARE over TIME [of N]`, `consecutive>N`, each also with `>=`.
pub fn stop_rule(text: &str) -> Result<StopRule, String> {
    let rule = || {
        "it must be errors>SHARE over TIME, such as 'errors>10% over 5s', with 'of N' where N requests are needed, or \
         consecutive>N for failures one after the other (or >= instead of >)"
            .to_owned()
    };
    if let Some(failures) = in_a_row(text) {
        return failures.map(|failures| StopRule::InARow { failures });
    }
    let (condition, window) = text.split_once(" over ").ok_or_else(rule)?;
    let (figure, part) = condition.split_once('>').ok_or_else(rule)?;
    let (part, or_equal) = part.strip_prefix('=').map_or((part, false), |part| (part, true));
    let (over, least) = window.split_once(" of ").map_or((window, None), |(over, least)| (over, Some(least)));
    if !figure.trim().eq_ignore_ascii_case("errors") {
        return Err(rule());
    }
    let over = time(over.trim(), Duration::from_secs(1)).ok().filter(|over| *over >= Duration::from_millis(100));
    Ok(StopRule::Share {
        share: share(part.trim())?,
        or_equal,
        over: over.ok_or("the time must be at least 100ms")?,
        least: least.map_or(Ok(0), |least| integer(least.trim(), 1, u64::MAX))?,
    })
}

/// The least number of `consecutive>N` or `consecutive>=N`.
fn in_a_row(text: &str) -> Option<Result<u64, String>> {
    let (figure, number) = text.split_once('>')?;
    if !figure.trim().eq_ignore_ascii_case("consecutive") {
        return None;
    }
    Some(match number.strip_prefix('=') {
        Some(number) => integer(number.trim(), 1, MAX_IN_A_ROW),
        None => integer::<u64>(number.trim(), 0, MAX_IN_A_ROW - 1).map(|most| most + 1),
    })
}

/// Most failures in a row that can be asked for.
const MAX_IN_A_ROW: u64 = 1_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_of_failures_within_a_time() {
        let rule = stop_rule("errors>10% over 5s").unwrap();
        let over = Duration::from_secs(5);
        assert_eq!(rule, StopRule::Share { share: 0.1, or_equal: false, over, least: 0 });
        assert!(matches!(stop_rule("Errors > 0.5 over 500ms of 20"), Ok(StopRule::Share { least: 20, .. })));
        assert_eq!(stop_rule(&rule.to_string()), Ok(rule));
        let all = stop_rule("errors >= 100% over 5s of 1").unwrap();
        assert_eq!(all, StopRule::Share { share: 1.0, or_equal: true, over, least: 1 });
        assert_eq!((stop_rule(&all.to_string()), &all.to_string()[..]), (Ok(all), "errors>=100% over 5s of 1"));
        for wrong in [
            "errors=>10% over 5s",
            "",
            "errors>10%",
            "errors>10% over",
            "p99>1s over 5s",
            "errors>110% over 5s",
            "errors>1% over 5s of 0",
            "errors<1% over 5s",
            "errors>1% over 1ms",
            "consecutive",
            "consecutive>",
            "consecutive>-1",
            "consecutive>=0",
            "consecutive>1.5",
            "consecutive<3",
            "consecutive>3 over 5s",
        ] {
            assert!(stop_rule(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn failures_one_after_the_other() {
        let rule = stop_rule("consecutive>10").unwrap();
        assert_eq!((rule, rule.to_string()), (StopRule::InARow { failures: 11 }, "consecutive>=11".to_owned()));
        assert_eq!(stop_rule(&rule.to_string()), Ok(rule));
        assert_eq!(stop_rule("Consecutive >= 3"), Ok(StopRule::InARow { failures: 3 }));
    }
}
