//! Where a level's requests spent their time: a row per stage.

use std::fmt::Write as _;

use crate::number::{counted, percent};
use crate::result::batches::{ExecutedBatches, executed_batches};
use crate::result::breakdown::{Breakdown, RequestStage, Slowest, Source};
use crate::result::cost::{Cost, GroupCost, GroupKind};
use crate::result::summary::LevelSummary;
use crate::stage_heads;
use crate::stdio::shown;
use crate::terms::PERCENTILES;

/// Maximum number of batch sizes listed: those executed most often.
const MAX_SIZES: usize = 6;
/// Stages that contribute less to the extra time of the slowest requests are not named.
const MIN_PART: f64 = 0.05;
/// Minimum width of the column of stages.
const NAME_WIDTH: usize = 18;

/// The blocks of a level; empty without a breakdown.
pub fn text(level: &LevelSummary) -> String {
    if level.breakdown.is_empty() {
        return String::new();
    }
    let several = level.breakdown.len() > 1;
    let mut text: String = level.breakdown.iter().map(|breakdown| block(breakdown, several)).collect();
    let servers = level.server.iter().chain(&level.further_servers);
    text.extend(servers.flat_map(executed_batches).map(|batches| executed(&batches)));
    text + &level.cost.as_ref().map_or_else(String::new, cost)
}

/// What an inference costs, by group of threads.
fn cost(cost: &Cost) -> String {
    let mut text = format!(
        "  Cost per inference: server CPU {} usec, wake-ups {:.2} (of {})\n",
        usec(cost.server_cpu_ns),
        cost.server_wakeups,
        counted(cost.inferences, "inference")
    );
    let name = |group: &GroupCost| match group.kind {
        GroupKind::Server => format!("server: {}", shown(&group.name)),
        GroupKind::Stubs => format!("process: {}", shown(&group.name)),
        GroupKind::Issuing => "issuing threads".to_owned(),
        GroupKind::Own => "other own threads".to_owned(),
    };
    let width = cost.groups.iter().map(|group| name(group).chars().count()).max().unwrap_or(0).max(NAME_WIDTH);
    let heads = ["threads", "CPU usec", "wake-ups", "preempt", "faults"].map(|head| format!("{head:>9}")).concat();
    let counted = cost.groups.iter().any(|group| group.instructions.is_some());
    let more = if counted { "   instr.   cycles   misses" } else { "" };
    let _ = writeln!(text, "    {:width$}{heads}{more}", "Threads");
    for group in &cost.groups {
        let GroupCost { threads, cpu_ns, wakeups, preemptions, page_faults, .. } = group;
        let counts = [group.instructions, group.cycles, group.cache_misses];
        let counts: String = counts.into_iter().flatten().map(|count| format!("{count:>9.0}")).collect();
        let (name, cpu) = (name(group), usec(*cpu_ns));
        let _ = writeln!(
            text,
            "    {name:width$}{threads:>9}{cpu:>9}{wakeups:>9.2}{preemptions:>9.2}{page_faults:>9.2}{counts}"
        );
    }
    let mib = |bytes: u64| bytes >> 20;
    let _ = writeln!(
        text,
        "    Memory: {} MiB, processes below {} MiB",
        mib(cost.memory_bytes),
        mib(cost.stubs_memory_bytes)
    );
    if let Some(gpu) = &cost.gpu {
        let energy = gpu.joules.map_or_else(|| "unknown".to_owned(), |joules| format!("{joules:.6} J"));
        let _ = writeln!(text, "    GPU: time {} usec, energy {energy}", usec(gpu.time_ns));
    }
    for why in cost.no_counters.iter().chain(&cost.no_gpu) {
        let _ = writeln!(text, "    Not known: {}", shown(why));
    }
    text
}

fn block(breakdown: &Breakdown, several: bool) -> String {
    let subject = if several { format!(" of {}", shown(&breakdown.model)) } else { String::new() };
    let mut text = format!("  Breakdown{subject}: {}\n", source(breakdown));
    let rows = breakdown.stages.iter().chain([&breakdown.unexplained, &breakdown.latency]);
    let width = rows.clone().map(|stage| name(stage).chars().count()).max().unwrap_or(0).max(NAME_WIDTH);
    let _ = writeln!(text, "    {:width$}{}", "Stage", stage_heads(9));
    text.extend(rows.map(|stage| row(stage, width)));
    text.extend(breakdown.wake_up.iter().map(|stage| {
        let stage = RequestStage { name: "then wake-up".to_owned(), ..stage.clone() };
        row(&stage, width)
    }));
    text + &breakdown.slowest.as_ref().map_or_else(String::new, slowest)
}

fn source(breakdown: &Breakdown) -> String {
    if breakdown.source == Source::Statistics {
        return "averages of the server's statistics, no traces, usec".to_owned();
    }
    let requests = counted(breakdown.traced, "traced request");
    let mut text = format!("{requests}, 1 in {}, usec", one_in(breakdown));
    for (count, reason) in
        [(breakdown.lost, "came too fast to be kept"), (breakdown.cut, "went through more models than are reported")]
    {
        if count > 0 {
            let _ = write!(text, "; {count} {reason}");
        }
    }
    text
}

fn one_in(breakdown: &Breakdown) -> String {
    let mean = breakdown.one_in.unwrap_or(1.0);
    if (mean - mean.round()).abs() < 0.05 { format!("{mean:.0}") } else { format!("{mean:.1}") }
}

fn name(stage: &RequestStage) -> String {
    // Indented by depth.
    format!("{}{}", "  ".repeat(stage.depth), shown(&stage.title()))
}

fn row(stage: &RequestStage, width: usize) -> String {
    let percentiles = stage.percentiles_ns.map_or_else(
        || PERCENTILES.map(|_| format!("{:>9}", "-")),
        |all| all.map(|ns| format!("{:>9}", usec(ns as f64))),
    );
    let (name, mean, share) = (name(stage), usec(stage.mean_ns), percent(stage.share));
    format!("    {name:width$}{mean:>9}{}{share:>9}\n", percentiles.concat())
}

/// Microseconds; with a decimal for small values.
fn usec(ns: f64) -> String {
    let us = ns / 1_000.0;
    if us < 99.95 { format!("{us:.1}") } else { format!("{us:.0}") }
}

fn slowest(slowest: &Slowest) -> String {
    let longer = slowest.mean_ns - slowest.median_mean_ns;
    if longer <= 0.0 {
        return String::new();
    }
    let mut parts: Vec<(f64, &str)> =
        slowest.stages.iter().map(|stage| (stage.mean_ns - stage.median_mean_ns, &*stage.name)).collect();
    parts.sort_by(|left, right| right.0.total_cmp(&left.0));
    let named = parts.iter().filter(|(more, _)| *more >= MIN_PART * longer);
    let named: Vec<String> =
        named.map(|(more, stage)| format!("{} +{} ({})", shown(stage), usec(*more), percent(more / longer))).collect();
    format!(
        "    Slowest 1% ({}): {} usec, {} more than the median ones\n      {}\n",
        counted(slowest.requests, "request"),
        usec(slowest.mean_ns),
        usec(longer),
        named.join(", ")
    )
}

fn executed(batches: &ExecutedBatches<'_>) -> String {
    let mut sizes = batches.sizes.clone();
    sizes.sort_by(|left, right| right.1.total_cmp(&left.1));
    let further = sizes.len().saturating_sub(MAX_SIZES);
    sizes.truncate(MAX_SIZES);
    sizes.sort_by_key(|size| size.0);
    let sizes: Vec<String> = sizes.iter().map(|(size, share, _)| format!("{size}: {}", percent(*share))).collect();
    let further = if further > 0 { format!(", {}", counted(further as u64, "further size")) } else { String::new() };
    let model = shown(batches.model);
    format!(
        "    Executed batch of {model}: average {:.2}; executions by size {}{further}\n",
        batches.average,
        sizes.join(", ")
    )
}
