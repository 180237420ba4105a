//! What ends a window, and what follows from it.

use std::fmt;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::msec;

/// What ends a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WindowRule {
    /// This much time.
    Time(
        #[serde(with = "crate::seconds")]
        #[schemars(with = "f64")]
        Duration,
    ),
    /// At least this many completed requests.
    Count(u64),
}

/// What follows from a rule. Whatever measures or reports windows asks here, so that a further rule is not spread over all of
/// them.
impl WindowRule {
    /// Windows of this length.
    pub fn of_length(length: Duration) -> Self {
        Self::Time(length)
    }

    /// How long a window is, if that is planned.
    pub fn length(self) -> Option<Duration> {
        if let Self::Time(length) = self { Some(length) } else { None }
    }

    /// How many completed requests end a window, if their number does.
    pub fn requests(self) -> Option<u64> {
        if let Self::Count(requests) = self { Some(requests) } else { None }
    }

    /// Whether a window may end before its planned end, because it has what it needs: that many completed requests.
    pub fn is_full(self, requests: u64) -> bool {
        self.requests().is_some_and(|least| requests >= least)
    }

    /// The rule of windows that are `times` as long.
    #[must_use]
    pub fn lengthened(self, times: u32) -> Self {
        match self {
            Self::Time(length) => Self::Time(length * times),
            Self::Count(requests) => Self::Count(requests.saturating_mul(u64::from(times))),
        }
    }

    /// The flag that sets a window's size.
    pub fn flag(self) -> &'static str {
        match self {
            Self::Time(_) => "--measurement-interval",
            Self::Count(_) => "--measurement-request-count",
        }
    }

    /// The same flag in its shortest form.
    pub fn short_flag(self) -> &'static str {
        if let Self::Time(_) = self { "-p" } else { self.flag() }
    }

    /// The size in that flag's unit: milliseconds, or requests.
    pub fn size(self) -> f64 {
        match self {
            Self::Time(length) => length.as_secs_f64() * 1e3,
            Self::Count(requests) => requests as f64,
        }
    }

    /// The value of `--measurement-mode` that chooses it.
    pub fn mode(self) -> &'static str {
        match self {
            Self::Time(_) => "time_windows",
            Self::Count(_) => "count_windows",
        }
    }

    /// The line about it in perf_analyzer's settings.
    pub fn setting(self) -> String {
        match self {
            Self::Time(length) => format!("Measurement window: {} msec", msec(length)),
            Self::Count(requests) => format!("Minimum number of samples in each window: {requests}"),
        }
    }
}

impl fmt::Display for WindowRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Time(length) => write!(f, "{} msec", msec(*length)),
            Self::Count(requests) => write!(f, "at least {requests} requests"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_says_what_follows_from_it() {
        let timed = WindowRule::of_length(Duration::from_millis(500));
        let counted = WindowRule::Count(50);
        assert_eq!((timed.length(), timed.requests()), (Some(Duration::from_millis(500)), None));
        assert_eq!((counted.length(), counted.requests()), (None, Some(50)));
        assert!(!timed.is_full(u64::MAX) && !counted.is_full(49) && counted.is_full(50));
        assert_eq!(timed.lengthened(3), WindowRule::Time(Duration::from_millis(1500)));
        assert_eq!(counted.lengthened(3), WindowRule::Count(150));
        assert_eq!(WindowRule::Count(u64::MAX).lengthened(2), WindowRule::Count(u64::MAX));
        assert_eq!(
            [timed, counted].map(|rule| (rule.short_flag(), rule.size())),
            [("-p", 500.0), ("--measurement-request-count", 50.0)]
        );
        assert_eq!([timed, counted].map(|rule| rule.to_string()), ["500 msec", "at least 50 requests"]);
    }
}
