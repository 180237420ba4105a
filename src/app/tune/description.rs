//! What a search is asked for, in words.

use std::fmt::Write as _;

use serde_json::Value;

use crate::app::tune::record::Head;
use crate::model::{ConfigMark, ModelId};
use crate::plan::{Searched, TunePlan, flags};
use crate::terms::{Statistic, asked};

/// Flags that are part of a search's identity otherwise, or may change when it is resumed.
const NOT_IDENTITY: &[&str] = &[
    "-m",
    "-u",
    "--concurrency-range",
    "--seed",
    "--search",
    "--objective",
    "--constraint",
    "--at-rate",
    "--at-concurrency",
    "--budget",
    "--margin",
    "--output",
    "--isolate",
    "--trial",
    "--exit-timeout-secs",
];

/// The identity of a search, by which its record is recognised.
pub fn head(plan: &TunePlan, search: &[Searched], bases: &[(ModelId, Value)]) -> Head {
    let words = plan.run.invocation.flags.iter();
    let is_excluded = |name: &str| NOT_IDENTITY.contains(&name) || flags::find(name).is_some_and(|flag| flag.output);
    let flags = words.filter(|flag| flag.given && !is_excluded(&flag.name));
    let mark = |(id, base): &(ModelId, Value)| format!("{id} {}", ConfigMark::new(base).hash.unwrap_or_default());
    Head {
        search: title(plan, search),
        budget_s: Some(plan.budget.as_secs_f64()),
        flags: flags.map(|flag| format!("{} {}", flag.name, flag.values.join(" ")).trim_end().to_owned()).collect(),
        bases: bases.iter().map(mark).collect(),
    }
}

/// A search in one line: the same line means the same search.
pub fn title(plan: &TunePlan, search: &[Searched]) -> String {
    let list = |values: &[Value]| values.iter().map(asked).collect::<Vec<_>>().join(",");
    let settings: Vec<String> =
        search.iter().map(|searched| format!("{}={}", searched.setting, list(&searched.values))).collect();
    let constraints: Vec<&str> = plan.constraints.iter().map(|constraint| constraint.text.as_str()).collect();
    format!(
        "model {}; {}; objective {}; constraints {}; load {}; margin {}; budget {:?}; seed {}",
        plan.run.target.model,
        settings.join(" "),
        plan.objective.name(),
        if constraints.is_empty() { "none".to_owned() } else { constraints.join(" ") },
        plan.load_words(),
        plan.margin,
        plan.budget,
        plan.run.seed
    )
}

/// What is going to be searched.
pub fn settings(plan: &TunePlan, search: &[Searched], points: usize) -> String {
    let mut text = "*** Tune Settings ***\n".to_owned();
    let _ = writeln!(text, "  Model: {}", plan.run.target.model);
    for searched in search {
        let values: Vec<String> = searched.values.iter().map(asked).collect();
        let _ = writeln!(text, "  {}: {}", searched.setting, values.join(", "));
    }
    let _ = writeln!(text, "  Candidates: {points}, and yours");
    let _ = writeln!(text, "  Objective: {}", goal(plan.objective));
    if !plan.constraints.is_empty() {
        let constraints: Vec<&str> = plan.constraints.iter().map(|constraint| constraint.text.as_str()).collect();
        let _ = writeln!(text, "  Constraints: {}", constraints.join(", "));
    }
    let _ = writeln!(text, "  Load: {}", plan.load_words());
    let _ = writeln!(text, "  Budget: {:?}, margin {} %, seed {}\n", plan.budget, plan.margin * 100.0, plan.run.seed);
    text
}

fn goal(objective: Statistic) -> String {
    match objective {
        Statistic::Throughput => "most throughput".to_owned(),
        Statistic::MeanLatency => "least average latency".to_owned(),
        Statistic::Percentile(percentile) => format!("least p{percentile} latency"),
    }
}
