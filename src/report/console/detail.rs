//! Figures that upstream does not have: the three times of an open loop, and the times between a model's responses.

use std::fmt::Write as _;

use crate::number::{percent, significant, whole_us};
use crate::result::summary::{ClientSummary, DecoupledSummary, Distribution, Headline, OpenLoopSummary};
use crate::terms::ALL_PERCENTILES;

/// Response time, service time and schedule delay, and whether the rate was reached.
pub fn open_loop(client: &ClientSummary, open_loop: &OpenLoopSummary, headline: Headline) -> String {
    // What is due at one moment has no rate.
    let rates = (open_loop.requested_rate > 0.0).then(|| {
        let [requested, achieved] = [open_loop.requested_rate, open_loop.achieved_rate].map(significant);
        format!("Requested rate: {requested} requests/sec, achieved rate: {achieved} requests/sec, sent")
    });
    let begin = rates.as_deref().unwrap_or("Sent");
    let mut text = format!("    {begin} more than 1 ms late: {}\n", percent(client.delayed_share()));
    let rows = [
        ("Response time", Some(Headline::ResponseTime), &open_loop.response_time),
        ("Service time", Some(Headline::ServiceTime), &open_loop.service_time),
        ("Schedule delay", None, &open_loop.schedule_delay),
    ];
    for (name, role, times) in rows {
        text += &row(name, role == Some(headline), times);
    }
    text
}

/// Times to the first response, between responses, and to the last one.
pub fn decoupled(decoupled: &DecoupledSummary, headline: Headline) -> String {
    row("Time to first response", headline == Headline::FirstResponse, &decoupled.first_response)
        + &row("Time between responses", false, &decoupled.gap)
        + &row("Time to last response", headline == Headline::ServiceTime, &decoupled.last_response)
}

/// One line of a distribution of times.
pub fn row(name: &str, headline: bool, times: &Distribution) -> String {
    let role = if headline { " (the latency above)" } else { "" };
    if times.count() == 0 {
        return format!("    {name}{role}: none\n");
    }
    let mut text = format!("    {name}{role}: avg {} usec", whole_us(times.mean_ns()));
    for percentile in ALL_PERCENTILES {
        let value = whole_us(times.percentile_ns(percentile) as f64);
        let _ = write!(text, ", p{percentile} {value}");
    }
    let _ = writeln!(text, ", max {}", whole_us(times.percentile_ns(100.0) as f64));
    text
}
