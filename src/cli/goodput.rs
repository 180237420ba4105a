//! `--goodput`: the limits of a good request.

use std::time::Duration;

use crate::terms::Goodput;
use crate::values::{MS, time};

/// The limits of one value of the flag.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits(Vec<Limit>);

/// One limit: `latency<20ms`, `ttft<50ms`, `itl<10ms` (also called tpot) or `ntpot<12ms`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Limit {
    figure: Figure,
    below: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Figure {
    Latency,
    FirstToken,
    InterToken,
    Normalized,
}

/// Parses limits with blanks between them. They may be in the form of vLLM, SGLang and AIPerf, `ttft:500`, with these programs' names.
pub fn limits(text: &str) -> Result<Limits, String> {
    match text.split_whitespace().map(limit).collect::<Result<Vec<_>, _>>() {
        Ok(all) if !all.is_empty() && !text.contains('<') => Ok(Limits(all)),
        _ => limit(text).map(|limit| Limits(vec![limit])),
    }
}

/// Parses a limit; a bare number is in milliseconds.
fn limit(text: &str) -> Result<Limit, String> {
    let rule = || {
        "it must be latency<TIME, ttft<TIME, itl<TIME (also tpot) or ntpot<TIME, with a time such as 20ms or 1.5s above 0"
            .to_owned()
    };
    let (figure, below) = text.split_once(['<', ':']).ok_or_else(rule)?;
    let figure = match figure.trim().to_ascii_lowercase().as_str() {
        "latency" | "request_latency" | "e2el" => Figure::Latency,
        "ttft" | "time_to_first_token" => Figure::FirstToken,
        "itl" | "tpot" | "inter_token_latency" | "time_per_output_token" => Figure::InterToken,
        "ntpot" => Figure::Normalized,
        _ => return Err(rule()),
    };
    let below = time(below.trim(), MS).ok().filter(|below| !below.is_zero()).ok_or_else(rule)?;
    Ok(Limit { figure, below })
}

/// All of them together; of several for one figure, the last.
pub fn all(limits: &[Limits]) -> Goodput {
    let limits: Vec<&Limit> = limits.iter().flat_map(|Limits(all)| all).collect();
    let last = |figure| limits.iter().rev().find(|limit| limit.figure == figure).map(|limit| limit.below);
    Goodput {
        latency: last(Figure::Latency),
        first_token: last(Figure::FirstToken),
        inter_token: last(Figure::InterToken),
        normalized: last(Figure::Normalized),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_have_a_figure_and_a_time() {
        let limits = ["latency<20ms", "TTFT < 1.5s", "itl<7", "latency<30ms"].map(|text| super::limits(text).unwrap());
        let ms = |ms| Some(Duration::from_millis(ms));
        let whole = Goodput { latency: ms(30), first_token: ms(1500), inter_token: ms(7), normalized: None };
        assert_eq!(all(&limits), whole);
        let others = ["itl<7", "tpot<8ms", "ntpot<9ms"].map(|text| super::limits(text).unwrap());
        assert_eq!((all(&others).inter_token, all(&others).normalized), (ms(8), ms(9)));
        let of_peers = super::limits("time_to_first_token:370 request_latency:5s tpot:7").unwrap();
        let whole = Goodput { latency: ms(5_000), first_token: ms(370), inter_token: ms(7), normalized: None };
        assert_eq!(all(&[of_peers]), whole);
        for text in [
            "",
            "latency",
            "latency<",
            "latency<0",
            "latency>5ms",
            "p99<5ms",
            "ttft<5ms x",
            "itl<-1",
            "ttft:5 x",
            "ttft:",
        ] {
            assert!(super::limits(text).is_err(), "{text}");
        }
    }
}
