//! The ranked table of candidates, at 80 columns, and the verdict.

use std::fmt::Write as _;

use crate::headline;
use crate::lines::{self, WIDTH};
use crate::result::{CandidateResult, CandidateStatus, TuneFigures, TuneResult};
use crate::shortened;
use crate::significant;
use crate::terms::asked;

/// Width of a line beside settings, including the longest verdict.
const FIGURES: usize = 46;
/// Width of the column of the requests outstanding.
const LOAD: usize = 6;
/// Minimum width of a setting's column.
const NARROW: usize = 4;
/// Maximum number of dropped candidates shown; files have all.
const MAX_SHOWN: usize = 12;

/// The table, the reasons, and the answer as the last line.
pub fn table(result: &TuneResult) -> String {
    let mut text = format!("Candidates of {}, best first\n", result.model);
    text += &rows(result);
    text.push('\n');
    for reason in &result.why {
        text += &wrapped(&format!("- {reason}"), 2);
    }
    let (loads, updates) = costs(result);
    if let Some(costs) = cost_line(loads, updates) {
        text += &wrapped(&costs, 2);
    }
    let interrupted = if result.interrupted { ", interrupted" } else { "" };
    let _ = writeln!(text, "  Searched for {:.0} of {:.0} s{interrupted}", result.spent_s, result.budget_s);
    text + &headline::text(&result.answer())
}

fn rows(result: &TuneResult) -> String {
    let columns = Columns::new(result);
    let latency = format!("p{} ms", result.percentile);
    let titles = format!("{:>9} {:>5} {latency:>8} {:>5}", "infer/s", "+-%", "batch");
    let mut text = line(&format!("{:>4} {}{titles}  verdict", "#", columns.cells(&columns.names, "load")));
    let mut behind = 0;
    for candidate in shown(result) {
        if candidate.status == CandidateStatus::Dropped {
            behind += 1;
            if behind > MAX_SHOWN {
                continue;
            }
        }
        let figures =
            candidate.figures.as_ref().map_or_else(|| format!("{:>9} {:>5} {:>8} {:>5}", "-", "-", "-", "-"), figures);
        let load = candidate.figures.as_ref().and_then(|figures| figures.means.concurrency);
        let load = load.map_or_else(|| "-".to_owned(), |load| load.to_string());
        let settings = columns.cells(&columns.values(candidate), &load);
        text += &line(&format!("{:>4} {settings}{figures}  {}", candidate.number, candidate.status.name()));
        if let Some(reason) = &candidate.reason {
            text += &wrapped(reason, 7);
        }
    }
    if behind > MAX_SHOWN {
        let (further, verb) = (behind - MAX_SHOWN, if behind - MAX_SHOWN == 1 { "was" } else { "were" });
        let _ = writeln!(text, "     and {further} more that {verb} left behind");
    }
    if !columns.unchanged.is_empty() {
        text += &wrapped(&format!("as in yours: {}", columns.unchanged.join(", ")), 5);
    }
    let ruled_out = result.candidates.iter().filter(|candidate| candidate.status == CandidateStatus::RuledOut).count();
    if ruled_out > 0 {
        let (verb, them) = if ruled_out == 1 { ("was", "it") } else { ("were", "them") };
        let _ = writeln!(
            text,
            "     {ruled_out} {verb} ruled out by what was measured of others; result.json names {them}"
        );
    }
    text
}

/// The candidates that have a row.
fn shown(result: &TuneResult) -> impl Iterator<Item = &CandidateResult> {
    result
        .candidates
        .iter()
        .filter(|candidate| candidate.figures.is_some() || candidate.status == CandidateStatus::Failed)
}

/// The columns of settings, of which those that no row changes are left out, and that of the requests outstanding, if
/// candidates differ in them.
struct Columns {
    /// The settings' places.
    places: Vec<usize>,
    names: Vec<String>,
    widths: Vec<usize>,
    has_loads: bool,
    /// Settings that no row changes, of a search of several models.
    unchanged: Vec<String>,
}

impl Columns {
    fn new(result: &TuneResult) -> Self {
        let all = names(&result.settings);
        let yours = result.candidates.iter().find(|candidate| candidate.number == 0);
        let is_unchanged = |index: &usize| {
            let same = |candidate: &CandidateResult| {
                yours.is_some_and(|yours| yours.values.get(*index) == candidate.values.get(*index))
            };
            all[*index].contains(':') && shown(result).all(same)
        };
        let (unchanged, places): (Vec<usize>, Vec<usize>) = (0..all.len()).partition(is_unchanged);
        let mut loads = shown(result).filter_map(|candidate| candidate.figures.as_ref()?.means.concurrency);
        let first = loads.next();
        let has_loads = loads.any(|load| Some(load) != first);
        let pick = |places: &[usize]| places.iter().map(|index| all[*index].clone()).collect::<Vec<_>>();
        let (names, unchanged) = (pick(&places), pick(&unchanged));
        let mut columns = Self { places, names, widths: Vec::new(), has_loads, unchanged };
        let width = |column: usize| {
            let values = result.candidates.iter().map(|candidate| columns.values(candidate)[column].chars().count());
            values.chain([columns.names[column].chars().count()]).max().unwrap_or(0).min(14)
        };
        let widths = (0..columns.names.len()).map(width).collect();
        columns.widths = fitted(widths, FIGURES + if has_loads { LOAD } else { 0 });
        columns
    }

    fn values(&self, candidate: &CandidateResult) -> Vec<String> {
        self.places.iter().map(|index| asked(&candidate.values[*index])).collect()
    }

    fn cells(&self, cells: &[String], load: &str) -> String {
        let cells = cells
            .iter()
            .zip(&self.widths)
            .map(|(cell, width)| format!("{:>width$} ", shortened::beginning(cell, *width)));
        let load = self.has_loads.then(|| format!("{load:>width$} ", width = LOAD - 1));
        cells.chain(load).collect()
    }
}

fn figures(figures: &TuneFigures) -> String {
    let half_width = figures.throughput_interval.map_or_else(
        || "?".to_owned(),
        |interval| format!("{:.1}", interval.relative_half_width(figures.means.throughput) * 100.0),
    );
    let batch = if figures.means.executed_batch > 0.0 {
        format!("{:.1}", figures.means.executed_batch)
    } else {
        "-".to_owned()
    };
    format!(
        "{:>9} {half_width:>5} {:>8} {batch:>5}",
        significant(figures.means.throughput),
        format!("{:.2}", figures.means.latency_ns / 1e6)
    )
}

/// Mean seconds of a load and of an update in place, over the candidates that had any.
fn costs(result: &TuneResult) -> (Option<f64>, Option<f64>) {
    let mean = |cost: fn(&TuneFigures) -> Option<f64>| {
        let all: Vec<f64> =
            result.candidates.iter().filter_map(|candidate| cost(candidate.figures.as_ref()?)).collect();
        (!all.is_empty()).then(|| all.iter().sum::<f64>() / all.len() as f64)
    };
    (mean(|figures| figures.load_s), mean(|figures| figures.update_s))
}

fn cost_line(loads: Option<f64>, updates: Option<f64>) -> Option<String> {
    let ms = |seconds: f64| format!("{:.1} ms", seconds * 1e3);
    match (loads, updates) {
        (None, None) => None,
        (Some(load), None) => Some(format!("- a load of the model took {}", ms(load))),
        (None, Some(update)) => Some(format!("- an update of its instances in place took {}", ms(update))),
        (Some(load), Some(update)) => {
            Some(format!("- a load of the model took {}, an update of its instances in place {}", ms(load), ms(update)))
        }
    }
}

/// Settings as column headings: their last words, with the model if there are several.
fn names(settings: &[String]) -> Vec<String> {
    let name = |setting: &String| {
        let (model, path) =
            setting.split_once(':').map_or((None, setting.as_str()), |(model, path)| (Some(model), path));
        let short = match path {
            "instance_group[].count" => "instances",
            "dynamic_batching.max_queue_delay_microseconds" => "delay us",
            "max_batch_size" => "max batch",
            path => path.rsplit('.').next().unwrap_or(path),
        };
        model.map_or_else(|| short.to_owned(), |model| format!("{model}:{short}"))
    };
    settings.iter().map(name).collect()
}

/// The widths of the columns of settings; the widest are narrowed if not all fit beside `others`, the figures and the
/// verdict.
fn fitted(mut widths: Vec<usize>, others: usize) -> Vec<usize> {
    while widths.iter().map(|width| width + 1).sum::<usize>() > WIDTH - others
        && let Some(widest) = widths.iter_mut().max().filter(|widest| **widest > NARROW)
    {
        *widest -= 1;
    }
    widths
}

/// A line of the table; cut if the settings take more than there is room for.
fn line(text: &str) -> String {
    format!("{}\n", shortened::beginning(text.trim_end(), WIDTH))
}

/// A sentence in lines, each indented.
fn wrapped(text: &str, indent: usize) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    lines::item(&(" ".repeat(indent) + &words.join(" ")))
}

#[cfg(test)]
pub(crate) mod sample {
    use serde_json::json;

    use super::*;
    use crate::result::{Figures, TUNE_VERSION, TrialFigures, TuneVerdict};

    pub fn result() -> TuneResult {
        let trial = |throughput: f64| TrialFigures {
            figures: Figures {
                throughput,
                latency_ns: 14_250_000.0,
                executed_batch: 7.8,
                concurrency: Some(32),
                batch_size: 1,
                ..Figures::default()
            },
            load_s: Some(0.004),
            ..TrialFigures::default()
        };
        let figures = |rates: &[f64]| {
            let trials: Vec<TrialFigures> = rates.iter().map(|rate| trial(*rate)).collect();
            let trials: Vec<&TrialFigures> = trials.iter().collect();
            TuneFigures::new(&trials, &trials)
        };
        let candidate = |number: usize, status: CandidateStatus, rates: &[f64]| CandidateResult {
            number,
            values: vec![json!(number + 1), json!(8), json!(100)],
            status,
            reason: (status == CandidateStatus::Dropped).then(|| "rung 1: 31.5 % worse than the best".to_owned()),
            meets: true,
            figures: figures(rates),
        };
        TuneResult {
            schema: TUNE_VERSION,
            program: "triton-bench".to_owned(),
            model: "m".to_owned(),
            objective: "throughput".to_owned(),
            constraints: vec!["p99<20ms".to_owned()],
            percentile: 99.0,
            load: "32 requests outstanding".to_owned(),
            margin: 0.02,
            budget_s: 60.0,
            spent_s: 41.3,
            settings: ["instance_group[].count", "max_batch_size", "dynamic_batching.max_queue_delay_microseconds"]
                .map(str::to_owned)
                .to_vec(),
            space: 48,
            candidates: vec![
                candidate(2, CandidateStatus::Winner, &[6400.0, 6410.0, 6390.0]),
                candidate(0, CandidateStatus::Yours, &[200.0, 201.0]),
                candidate(5, CandidateStatus::Dropped, &[190.0]),
                CandidateResult {
                    reason: Some("no such thing".to_owned()),
                    ..candidate(7, CandidateStatus::Failed, &[])
                },
                candidate(9, CandidateStatus::RuledOut, &[]),
            ],
            verdict: TuneVerdict {
                name: "better".to_owned(),
                winner: Some(2),
                gain: Some(32.0),
                interval: None,
                sentence: "Better than yours: throughput +3100.0 % [+3090.0, +3110.0]".to_owned(),
            },
            why: vec!["batches of 7.8 of 8 were executed; 2.0 ms in the queue, 5.0 ms of computing".to_owned()],
            interrupted: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_table_fits_80_columns_and_says_why() {
        let text = table(&sample::result());
        assert!(text.lines().all(|line| line.chars().count() <= WIDTH), "{text}");
        let expected = "\
Candidates of m, best first
   # instances max batch delay us   infer/s   +-%   p99 ms batch  verdict
   2         3         8      100   6399.99   0.4    14.25   7.8  winner
   0         1         8      100   200.499   3.2    14.25   7.8  yours
   5         6         8      100       190     ?    14.25   7.8  dropped
       rung 1: 31.5 % worse than the best
   7         8         8      100         -     -        -     -  failed
       no such thing
     1 was ruled out by what was measured of others; result.json names it

  - batches of 7.8 of 8 were executed; 2.0 ms in the queue, 5.0 ms of computing
  - a load of the model took 4.0 ms
  Searched for 41 of 60 s

Take instance_group[].count 3: better than yours: throughput +3100.0 % [+3090.0,
    +3110.0]; batches of 7.8 of 8 were executed; 2.0 ms in the queue, 5.0 ms of
    computing
";
        assert_eq!(text, expected);
    }

    #[test]
    fn settings_give_way_to_the_verdict() {
        let mut result = sample::result();
        result.settings =
            ["a:instance_group[].count", "b:instance_group[].count", "b:dynamic_batching"].map(str::to_owned).to_vec();
        for candidate in &mut result.candidates {
            let number = candidate.number;
            candidate.values = vec![json!(number), json!(2), json!({"preferred_batch_size": [4, number]})];
        }
        let text = table(&result);
        assert!(
            text.contains("batch  verdict\n") && text.contains("  winner\n") && text.contains("  dropped\n"),
            "{text}"
        );
        assert!(text.lines().all(|line| line.chars().count() <= WIDTH), "{text}");
        assert!(text.contains("     as in yours: b:instances\n") && text.contains("a:instanc"), "{text}");
        assert_eq!(fitted(vec![14; 9], FIGURES), [4; 9], "no narrower");
    }

    #[test]
    fn loads_that_differ_are_named() {
        let mut result = sample::result();
        assert!(!table(&result).contains("delay us  load"));
        result.candidates[1].figures.as_mut().unwrap().means.concurrency = Some(8);
        let text = table(&result);
        assert!(text.contains("delay us  load   infer/s") && text.contains("      100    32   6399.99"), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= WIDTH), "{text}");
    }

    #[test]
    fn the_answer_begins_with_what_to_take() {
        let mut found = sample::result();
        let (winner, yours) = (found.verdict.winner.unwrap(), 0);
        let words = found.answer().words;
        assert!(words.starts_with("Take instance_group[].count 3: better than yours: throughput +3100.0 %"), "{words}");
        found
            .candidates
            .iter_mut()
            .filter(|one| one.number == winner)
            .for_each(|one| one.status = CandidateStatus::Ahead);
        let words = found.answer().words;
        assert!(words.starts_with("Ahead is instance_group[].count 3: "), "{words}");
        found.verdict.winner = Some(yours);
        assert!(!found.answer().words.starts_with("Take "), "{}", found.answer().words);
    }

    #[test]
    fn long_sentences_are_wrapped() {
        let text = wrapped(&"word ".repeat(40), 2);
        assert!(text.lines().count() == 3 && text.lines().all(|line| line.chars().count() <= WIDTH), "{text}");
    }
}
