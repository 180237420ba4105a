//! The CSV columns of a breakdown: mean, percentiles and share of every stage.

use crate::result::breakdown::{Breakdown, RequestStage};
use crate::result::cost::Cost;
use crate::result::summary::LevelSummary;
use crate::terms::PERCENTILES;

/// A column: its name, and how a level fills it.
pub type Column = (String, Box<dyn Fn(&LevelSummary) -> String>);

/// How a cell shows a stage.
type Cell = Box<dyn Fn(&RequestStage) -> Option<String>>;

/// The columns of every stage that a level has; times in microseconds. Empty without a breakdown.
pub fn columns(levels: &[&LevelSummary]) -> Vec<Column> {
    let mut titles = Vec::new();
    for (model, title) in levels.iter().flat_map(|level| titles_of(level)) {
        if !titles.contains(&(model.clone(), title.clone())) {
            titles.push((model, title));
        }
    }
    let mut columns: Vec<Column> = Vec::new();
    for (model, title) in titles {
        for (measure, cell) in cells() {
            let (model, title) = (model.clone(), title.clone());
            let name = model.as_ref().map_or_else(String::new, |model| format!("{model} "));
            columns.push((
                format!("{name}{title} {measure}"),
                Box::new(move |level| {
                    stage(level, model.as_deref(), &title).and_then(|stage| cell(&stage)).unwrap_or_default()
                }),
            ));
        }
    }
    if levels.iter().any(|level| level.cost.is_some()) {
        let cost_cell =
            |level: &LevelSummary, cell: fn(&Cost) -> String| level.cost.as_ref().map(cell).unwrap_or_default();
        let usec = move |level: &LevelSummary| cost_cell(level, |cost| format!("{:.1}", cost.server_cpu_ns / 1_000.0));
        let wakeups = move |level: &LevelSummary| cost_cell(level, |cost| format!("{:.3}", cost.server_wakeups));
        columns.push(("server CPU per inference".to_owned(), Box::new(usec)));
        columns.push(("wake-ups per inference".to_owned(), Box::new(wakeups)));
    }
    columns
}

/// The stages of a level; if it has several breakdowns, each with its model.
fn titles_of(level: &LevelSummary) -> Vec<(Option<String>, String)> {
    let several = level.breakdown.len() > 1;
    let stage_titles = |breakdown: &Breakdown| {
        let model = several.then(|| breakdown.model.clone());
        let titles = breakdown.stages.iter().map(RequestStage::title).chain(["unexplained".to_owned()]);
        titles.map(|title| (model.clone(), title)).collect::<Vec<_>>()
    };
    level.breakdown.iter().flat_map(stage_titles).collect()
}

fn stage(level: &LevelSummary, model: Option<&str>, title: &str) -> Option<RequestStage> {
    let breakdown = level.breakdown.iter().find(|breakdown| model.is_none_or(|model| breakdown.model == model))?;
    breakdown.stages.iter().chain([&breakdown.unexplained]).find(|stage| stage.title() == title).cloned()
}

fn cells() -> Vec<(String, Cell)> {
    let usec = |ns: f64| format!("{:.1}", ns / 1_000.0);
    let mut cells: Vec<(String, Cell)> = vec![("mean".to_owned(), Box::new(move |stage| Some(usec(stage.mean_ns))))];
    for (index, percentile) in PERCENTILES.into_iter().enumerate() {
        let cell = move |stage: &RequestStage| stage.percentiles_ns.map(|all| usec(all[index] as f64));
        cells.push((format!("p{percentile}"), Box::new(cell)));
    }
    cells.push(("share".to_owned(), Box::new(|stage| Some(format!("{:.4}", stage.share)))));
    cells
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::breakdown::Source;
    use crate::result::summary::{LevelLoad, sample};

    #[test]
    fn every_stage_has_its_columns() {
        let stage = |name: &str, ns: u64, share| RequestStage {
            name: name.to_owned(),
            model: None,
            depth: 0,
            mean_ns: ns as f64,
            percentiles_ns: (ns > 5).then_some([ns; 4]),
            share,
        };
        let mut level = sample::level(LevelLoad::Concurrency(1), 10, 1_000);
        assert!(columns(&[&level]).is_empty());
        level.breakdown = vec![Breakdown {
            model: "m".to_owned(),
            source: Source::Traces,
            traced: 1,
            one_in: Some(1.0),
            lost: 0,
            cut: 0,
            stages: vec![stage("queue", 1_500, 0.75)],
            unexplained: stage("unexplained", 0, 0.0),
            latency: stage("latency", 2_000, 1.0),
            wake_up: None,
            slowest: None,
        }];
        let cells: Vec<_> = columns(&[&level]).iter().map(|(name, cell)| format!("{name}={}", cell(&level))).collect();
        assert_eq!(
            cells.join(","),
            "queue mean=1.5,queue p50=1.5,queue p90=1.5,queue p95=1.5,queue p99=1.5,queue share=0.7500,\
             unexplained mean=0.0,unexplained p50=,unexplained p90=,unexplained p95=,unexplained p99=,unexplained share=0.0000"
        );
    }
}
