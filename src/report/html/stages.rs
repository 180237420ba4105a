//! Where traced requests spend their time, stage by stage (`--breakdown`), and what an inference costs.

use maud::{Markup, html};

use crate::number::counted;
use crate::pictures::{level, short, time};
use crate::result::RunResult;
use crate::result::breakdown::{Breakdown, RequestStage, Source};
use crate::result::cost::Cost;
use crate::stdio::shown;
use crate::terms::PERCENTILES;

/// A table for each level with a breakdown.
pub fn stages(result: &RunResult) -> Markup {
    html! {
        @for (number, summary) in result.levels.iter().enumerate().filter(|(_, summary)| !summary.breakdown.is_empty()) {
            details open[number + 1 == result.levels.len()] {
                summary { "Stage by stage at " (level(summary)) }
                @for breakdown in &summary.breakdown { (table(breakdown)) }
                @if let Some(cost) = &summary.cost { (costs(cost)) }
            }
        }
    }
}

fn table(breakdown: &Breakdown) -> Markup {
    let slow = breakdown.slowest.as_ref();
    html! {
        h3 { (shown(&breakdown.model)) }
        div.scroll tabindex="0" { table {
            thead { tr {
                th.left { "stage" } th { "mean" } @for percentile in PERCENTILES { th { "p" (percentile) } } th { "share" }
                @if slow.is_some() { th { "slowest 1 %" } th { "median ones" } }
            } }
            tbody {
                @for (number, stage) in breakdown.stages.iter().chain([&breakdown.unexplained]).enumerate() {
                    @let slow = slow.and_then(|slow| slow.stages.get(number)).map(|slow| Slow { mean_ns: slow.mean_ns, median_mean_ns: slow.median_mean_ns });
                    (row(stage, slow))
                }
                (row(&breakdown.latency, slow.map(|slow| Slow { mean_ns: slow.mean_ns, median_mean_ns: slow.median_mean_ns })))
            }
        } }
        p.note {
            @if breakdown.source == Source::Statistics { "Averages of the server's statistics: no request was traced." }
            @else {
                (counted(breakdown.traced, "traced request"))
                @if let Some(slow) = slow { "; the last two columns are means of the " (slow.requests) " slowest and of the "
                    (slow.median_requests) " around the median" } "."
            }
        }
    }
}

/// How long a stage takes in the slowest requests.
#[derive(Clone, Copy)]
struct Slow {
    mean_ns: f64,
    /// In those around the median.
    median_mean_ns: f64,
}

fn row(stage: &RequestStage, slow: Option<Slow>) -> Markup {
    html! { tr {
        th.left { (shown(&stage.title())) } td { (time(stage.mean_ns)) }
        @for index in 0..PERCENTILES.len() { td { (stage.percentiles_ns.map_or("–".to_owned(), |all| time(all[index] as f64))) } }
        td { (short(100.0 * stage.share)) " %" }
        @if let Some(slow) = slow { td { (time(slow.mean_ns)) } td { (time(slow.median_mean_ns)) } }
    } }
}

fn costs(cost: &Cost) -> Markup {
    html! {
        h3 { "Cost of an inference" }
        dl.facts {
            dt { "server CPU" } dd { (time(cost.server_cpu_ns)) }
            dt { "wake-ups of the server" } dd { (short(cost.server_wakeups)) }
        }
    }
}
