//! The result as a table for a pull request.

use std::fmt::Write as _;
use std::path::Path;

use crate::error::Result;
use crate::number::bandwidth;
use crate::pictures::{MARGIN, Shown, full_name, load, rate, short, time, variant_figure};
use crate::requirements::{cells, notes, verdict_name};
use crate::result::compare::{Direction, changes, differences, differing_flags, reach};
use crate::result::figures::{FigureAt, further};
use crate::result::outcome::Outcome;
use crate::result::statistic::value;
use crate::result::summary::{LevelSummary, StatisticEstimate};
use crate::result::variants::{Cell, FigureChange, VariantsResult};
use crate::result::{Checked, PeriodicResult, RunResult, Unit};
use crate::stats::Interval;
use crate::stdio::shown;
use crate::terms::Statistic;
use crate::variants::{latency_word, longer, points, remarks, share, ways};
use crate::{Interrupts, console, headline, html, percentiles, periodic, restarts};

/// Writes it to a file, which appears when it is complete.
///
/// # Errors
/// If it cannot be written.
pub fn write(path: &Path, interrupts: Interrupts, page: &html::Page<'_>) -> Result<()> {
    html::put(path, interrupts, text(page.results, page.main).as_bytes())
        .map_err(|error| html::refused("--markdown", path, &error))
}

/// A table for each result, and one of the changes from the first to the others; what the gates of result `main` and of those after
/// it came to is said first.
pub fn text(results: &[Shown<'_>], main: usize) -> String {
    let answers = results.iter().skip(main).filter_map(|run| headline::answer_of(run, results));
    // Below, a single result has its answer where it begins.
    let gates = answers.filter(|answer| answer.gate.is_some() && results.len() > 1);
    let opening: Vec<_> = gates.chain(headline::comparisons(results)).collect();
    let mut text: String = opening.iter().map(|answer| headline::markdown(answer, inert)).collect();
    for (number, run) in results.iter().enumerate() {
        let models: Vec<String> = run.result.setup.models.iter().map(|model| inert(&model.name)).collect();
        let heading =
            if results.len() > 1 { format!("{}: {}", inert(&run.name), models.join(", ")) } else { models.join(", ") };
        let _ = writeln!(text, "### {heading}\n");
        if run.result.interrupted {
            let _ = writeln!(text, "{}\n", html::INTERRUPTED);
        }
        let is_said = number >= main && results.len() > 1;
        let answer = run.result.answer().filter(|answer| answer.gate.is_none() || !is_said);
        text += &answer.map(|answer| headline::markdown(&answer, inert)).unwrap_or_default();
        text += &match (&run.result.variants, &run.result.periodic) {
            (Some(found), _) => variants(found),
            (None, Some(found)) => batches(found),
            (None, None) => levels(run),
        };
        text.push('\n');
        text += &requirements(&run.result.requirements);
    }
    let Some((first, others)) = results.split_first() else { return text };
    for (number, other) in others.iter().enumerate() {
        // Some readers take a heading right below a paragraph for a part of it.
        let gap = if number > 0 { "\n" } else { "" };
        let _ = writeln!(text, "{gap}### {} against {}\n", inert(&other.name), inert(&first.name));
        text += &comparison(first, other);
    }
    text
}

/// The batches of a periodic load, and what became of its requests.
fn batches(result: &PeriodicResult) -> String {
    let mut text = String::new();
    for (number, row) in periodic::rows(&result.batches).iter().enumerate() {
        let _ = writeln!(text, "| {} |", row.join(" | "));
        if number == 0 {
            let _ = writeln!(text, "|{}", "---:|".repeat(row.len()));
        }
    }
    let lines = periodic::ending(result).into_iter().chain(periodic::failures(result).map(|line| inert(&line)));
    text + "\nTimes in microseconds.\n\n" + &lines.map(|line| format!("- {line}\n")).collect::<String>()
}

fn levels(run: &Shown<'_>) -> String {
    let percentiles = percentiles(&run.result.setup.measurement);
    let names: String = percentiles.iter().map(|percentile| format!(" p{percentile} |")).collect();
    let further = further(&run.result.levels, &run.result.setup.measurement);
    let more: String = further.iter().map(|figure| format!(" {} |", figure.short())).collect();
    let mut text = format!("| load | inferences/s | mean |{names}{more} failed | outcome |\n|---|---:|---:|");
    text += &"---:|".repeat(percentiles.len() + further.len() + 1);
    text += "---|\n";
    for (summary, earlier) in run.result.levels_with_earlier() {
        let all = std::iter::once(Statistic::MeanLatency).chain(percentiles.iter().copied().map(Statistic::Percentile));
        let latencies: String = all.map(|statistic| format!(" {} |", figure(summary, statistic, time))).collect();
        let throughput = figure(summary, Statistic::Throughput, rate);
        let more: String = further.iter().map(|figure| format!(" {} |", named(*figure, summary))).collect();
        let failed = short(100.0 * summary.client.failed_share());
        let name = full_name(summary.load, run.result.distinction(summary, earlier));
        let _ = writeln!(text, "| {name} | {throughput} |{latencies}{more} {failed} % | {} |", Outcome::new(summary));
    }
    text + &below(run.result)
}

/// What a sweep found, and what the starts of the model differ by.
fn below(result: &RunResult) -> String {
    let sweep = result.sweep.as_ref().map(|found| format!("\n{}", console::sweep(found).trim_end()));
    let mut text = sweep.map(|sweep| sweep + "\n").unwrap_or_default();
    for level in &result.levels {
        for figure in level.restarts.iter().flat_map(|all| all.shown()) {
            let _ = writeln!(
                text,
                "\n{}, over several starts of the model: {}",
                load(level.load),
                restarts::estimate_text(figure)
            );
        }
    }
    text
}

/// The outcome of each requirement; empty if there are none.
fn requirements(all: &[Checked]) -> String {
    if all.is_empty() {
        return String::new();
    }
    let mut text = "| requirement | level | value | 95 % interval | outcome |\n|---|---|---:|---:|---|\n".to_owned();
    for checked in all {
        let (value, interval) = cells(checked);
        let variant = checked.variant.as_ref().map(|name| format!("{}, ", inert(name))).unwrap_or_default();
        let level = checked.level.map(|load| full_name(load, checked.distinction)).unwrap_or_default();
        let word =
            if checked.passes { verdict_name(checked).to_owned() } else { format!("**{}**", verdict_name(checked)) };
        let _ = writeln!(text, "| {} | {variant}{level} | {value} | {interval} | {word} |", inert(&checked.text));
    }
    for note in notes(all) {
        let _ = writeln!(text, "\n{}", inert(note));
    }
    text.push('\n');
    text
}

/// Every variant against the first, figure by figure.
fn variants(result: &VariantsResult) -> String {
    if result.matrix.is_some() {
        return study(result);
    }
    let mut text = "| load | variant | figure | value | ratio | 95 % interval | p | verdict |\n".to_owned();
    text += "|---|---|---|---:|---:|---:|---:|---|\n";
    for cell in &result.cells {
        for compared in result.comparisons(cell) {
            let load = cell.loads.get(compared.variant).map(|load| full_name(*load, cell.distinction()));
            let load = load.unwrap_or_default();
            let name = inert(&result.variants[compared.variant].name);
            for change in &compared.figures {
                let _ = writeln!(text, "| {load} | {name} |{}", changed(change));
            }
            if let Some(errors) = &compared.errors {
                let word = direction(errors.verdict);
                let _ = writeln!(
                    text,
                    "| {load} | {name} | errors | {} | – | {} | – | {word} |",
                    share(errors.value),
                    points(errors)
                );
            }
        }
    }
    for cell in &result.cells {
        text += &beside(result, cell);
    }
    let first = result.variants.first().map(|first| inert(&first.name)).unwrap_or_default();
    let margin = short(100.0 * result.rounds.margin);
    let _ = writeln!(text, "\nAgainst {first}. Changes up to {margin} % count as no change.");
    text
}

/// Every way at every size.
fn study(result: &VariantsResult) -> String {
    let latency = latency_word(result);
    let mut text =
        format!("| load | way | inferences/s | in | out | {latency} latency | ratio | 95 % interval | verdict |\n");
    text += "|---|---|---:|---:|---:|---:|---:|---:|---|\n";
    let or_dash = |value: Option<f64>, show: fn(f64) -> String| value.map_or_else(|| "–".to_owned(), show);
    for cell in &result.cells {
        let load = cell.loads.first().map(|load| full_name(*load, cell.distinction())).unwrap_or_default();
        for way in ways(result, cell) {
            let (rate, latency) = (or_dash(way.rate, rate), or_dash(way.latency_ns, time));
            let [input, output] = [way.bandwidth.input, way.bandwidth.output].map(|bytes| or_dash(bytes, bandwidth));
            let change = way.change.map_or_else(|| "| | | |".to_owned(), |change| ratio(&change));
            let _ = writeln!(text, "| {load} | {} | {rate} | {input} | {output} | {latency} {change}", inert(way.name));
        }
    }
    for cell in &result.cells {
        text += &beside(result, cell);
    }
    let first = result.variants.first().map(|first| inert(&first.name)).unwrap_or_default();
    let _ = writeln!(text, "\nIn and out: bytes of tensors a second. Ratios of the latency to that of {first}.");
    text
}

/// What there is to say beside the figures of a cell, a paragraph each.
fn beside(result: &VariantsResult, cell: &Cell) -> String {
    let load = cell.loads.first().map(|load| full_name(*load, cell.distinction())).unwrap_or_default();
    let all = longer(result, cell).into_iter().chain(remarks(result, cell));
    all.map(|words| format!("\n{load}: {}.\n", inert(&words))).collect()
}

/// A word for a change, which stands out where it is for the worse.
fn direction(verdict: Direction) -> String {
    if verdict == Direction::Worse { format!("**{verdict}**") } else { verdict.to_string() }
}

/// The cells of a latency's ratio.
fn ratio(change: &FigureChange) -> String {
    let interval = change.interval.map(|interval| format!("{:.3} to {:.3}", interval.low, interval.high));
    let word = direction(change.verdict);
    format!("| {:.3} | {} | {word} |", change.ratio, interval.unwrap_or_else(|| "not known".to_owned()))
}

/// The cells of a figure's change.
fn changed(change: &FigureChange) -> String {
    let interval = change.interval.map(|interval| format!("{:.3} to {:.3}", interval.low, interval.high));
    let (interval, word) = (interval.unwrap_or_else(|| "not known".to_owned()), direction(change.verdict));
    let value = if change.figure.more_is_better() { rate(change.value) } else { time(change.value) };
    let name = variant_figure(change.figure);
    format!(" {name} | {value} | {:.3} | {interval} | {:.4} | {word} |", change.ratio, change.p)
}

/// `12.3 ms ± 2 %`.
fn figure(level: &LevelSummary, statistic: Statistic, show: fn(f64) -> String) -> String {
    if level.client.requests == 0 {
        return "–".to_owned();
    }
    let value = value(statistic, &level.client);
    let interval = StatisticEstimate::find(&level.intervals, statistic).filter(|_| value > 0.0);
    let width = interval.map(|interval| format!(" ± {} %", short(100.0 * interval.relative_half_width(value))));
    show(value) + &width.unwrap_or_default()
}

/// The same of a figure of the catalogue, if the level has it.
fn named(figure_at: FigureAt, level: &LevelSummary) -> String {
    let Some(found) = figure_at.value(level) else { return "–".to_owned() };
    let unit = figure_at.figure.unit;
    let width = |interval: Interval| match unit {
        // A share of a share would be taken for points.
        Unit::Share => format!(" ({})", unit.show_between(interval.low, interval.high)),
        _ => format!(" ± {} %", short(100.0 * interval.relative_half_width(found.value))),
    };
    unit.show(found.value) + &found.interval.filter(|_| found.value > 0.0).map(width).unwrap_or_default()
}

fn comparison(first: &Shown<'_>, other: &Shown<'_>) -> String {
    let levels = changes(first.result, other.result, MARGIN);
    let mut text = not_alike(first, other);
    if levels.is_empty() {
        let _ = writeln!(text, "They have no level in common: they are not compared.");
        return text;
    }
    text += "| load | figure | change | 95 % interval | verdict |\n|---|---|---:|---:|---|\n";
    let signed = |ratio: f64| format!("{:+.1} %", 100.0 * (ratio - 1.0));
    let reach = reach(&levels);
    for change in levels {
        let name = full_name(change.load, change.distinction);
        if change.figures.is_empty() {
            let [before, after] = &change.outcomes;
            let _ = writeln!(text, "| {name} | not compared: {before}, {after} | | | |");
        }
        for figure in change.figures {
            let interval =
                figure.interval.map(|interval| format!("{} to {}", signed(interval.low), signed(interval.high)));
            let (interval, word) = (interval.unwrap_or_else(|| "not known".to_owned()), direction(figure.verdict));
            let figure_name = figure.figure_at.short();
            let ratio = if figure.ratio.is_finite() { signed(figure.ratio) } else { "–".to_owned() };
            let _ = writeln!(text, "| {name} | {figure_name} | {ratio} | {interval} | {word} |");
        }
        if let Some(errors) = &change.errors {
            let [before, after] = [errors.reference, errors.value].map(share);
            let (interval, word) = (points(errors), direction(errors.verdict));
            let _ = writeln!(text, "| {name} | errors | {before} to {after} | {interval} | {word} |");
        }
    }
    let _ = writeln!(text, "\nChanges up to {} % count as no change. {reach}.", short(100.0 * MARGIN));
    text
}

/// What two runs' setups and flags differ by; empty if nothing.
fn not_alike(first: &Shown<'_>, other: &Shown<'_>) -> String {
    let setups = [&first.result.setup, &other.result.setup];
    let lists = [
        ("Not alike", differences(setups[0], setups[1])),
        ("Flags that differ", differing_flags(setups[0], setups[1])),
    ];
    let not_empty = lists.iter().filter(|(_, items)| !items.is_empty());
    not_empty.map(|(title, items)| format!("{title}: {}.\n\n", inert(&items.join("; ")))).collect()
}

/// A name with its markup escaped, which stays within its cell.
fn inert(name: &str) -> String {
    let mut text = String::new();
    for character in shown(name).chars() {
        match character {
            '<' => text += "&lt;",
            '>' => text += "&gt;",
            '&' => text += "&amp;",
            '|' | '*' | '_' | '`' | '[' | ']' | '(' | ')' | '#' | '\\' | '!' | '@' | '~' | '$' => {
                text.push('\\');
                text.push(character);
            }
            character => text.push(character),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::setup::sample as plans;
    use crate::result::summary::{Ending, LevelLoad, sample};
    use crate::result::{ModelIdentity, Setup};
    use crate::terms::Flag;

    #[test]
    fn a_table_whose_names_do_nothing() {
        let mut setup = plans::setup();
        setup.models = vec![ModelIdentity { name: "<script>|[x](y)~$\u{202e}".to_owned(), ..ModelIdentity::default() }];
        let result = plans::result(&setup, &[sample::level(LevelLoad::Concurrency(4), 1_000, 2_000_000)]);
        let shown = Shown::new("a", &result);
        let text = text(&[shown], 0);
        assert!(text.starts_with("### &lt;script&gt;\\|\\[x\\]\\(y\\)\\~\\$\\\\u{202e}\n"), "{text}");
        let row = "| c 4 | 1\u{202f}000 | 2 ms | 2 ms | 2 ms | 2 ms | 2 ms | 0 % | valid |";
        assert!(
            text.contains("| load | inferences/s | mean | p50 | p90 | p95 | p99 | failed | outcome |")
                && text.contains(row),
            "{text}"
        );
    }

    #[test]
    fn what_kept_its_limits_has_a_column_where_there_are_limits() {
        let level = |load, good| {
            let mut level = sample::level(LevelLoad::Concurrency(load), 1_000, 2_000_000);
            level.client.good = good;
            level
        };
        let text = text(&[Shown::new("a", &plans::result(&plans::setup(), &[level(1, None), level(2, Some(250))]))], 0);
        let heading = "| load | inferences/s | mean | p50 | p90 | p95 | p99 | goodput | good | failed | outcome |\n";
        assert!(text.contains(heading) && text.contains(" 2 ms | – | – | 0 % | valid |"), "{text}");
        assert!(text.contains(" 2 ms | 250 requests/s | 25 % (22.3 to 27.8 %) | 0 % | valid |"), "{text}");
    }

    #[test]
    fn what_changed_stands_below() {
        let setup = plans::setup();
        let result = |ns, failed| {
            let mut level = sample::level(LevelLoad::Concurrency(4), 1_000, ns);
            level.client.failed = failed;
            let shape = Flag { name: "--shape".to_owned(), values: vec![format!("x:{ns}")], given: true, file: false };
            plans::result(&Setup { flags: vec![shape], ..setup.clone() }, &[level])
        };
        let (old, new) = (result(2_000_000, 0), result(3_000_000, 100));
        let text = text(&[Shown::new("old", &old), Shown::new("new", &new)], 0);
        assert!(
            text.contains("### new against old") && text.contains("| c 4 | p99 | +49.9 % | not known | undecided |"),
            "{text}"
        );
        assert!(
            text.contains("| c 4 | errors | 0.00% to 9.09% | +7.") && text.contains(" points | **worse** |"),
            "{text}"
        );
        assert!(text.contains("\nFlags that differ: --shape: 'x:2000000' and 'x:3000000'.\n"), "{text}");
    }

    #[test]
    fn what_is_not_compared_is_said() {
        let result = |concurrency, ns| {
            plans::result(&plans::setup(), &[sample::level(LevelLoad::Concurrency(concurrency), 1_000, ns)])
        };
        let against = |other: &RunResult| {
            let old = result(4, 2_000_000);
            text(&[Shown::new("old", &old), Shown::new("new", other)], 0)
        };
        let elsewhere = against(&result(8, 2_000_000));
        assert!(elsewhere.ends_with("\nThey have no level in common: they are not compared.\n"), "{elsewhere}");
        let (old, next) = (result(4, 2_000_000), result(8, 2_000_000));
        let three = [("old", &old), ("new", &old), ("next", &next)].map(|(name, result)| Shown::new(name, result));
        assert!(super::text(&three, 0).contains("\n\n### next against old\n"), "a heading stands by itself");
        let setup = Setup { batch_size: 7, ..plans::setup() };
        let level = sample::level(LevelLoad::Concurrency(4), 1_000, 2_000_000);
        let failed = plans::result(&setup, &[LevelSummary { ending: Ending::Failed, ..level }]);
        let text = against(&failed);
        assert!(text.contains("| c 4 | not compared: valid, failed | | | |\n"), "{text}");
        assert!(text.contains("\nNot alike: "), "{text}");
    }
}
