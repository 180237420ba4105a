//! Commands that would settle what a run leaves open.

use crate::Setup;
use crate::answer::Missing;
use crate::number::{plain, significant};
use crate::terms::{LevelValue, LoadMode, Range};

/// How many loads of a list that goes on.
const FURTHER: i32 = 6;

/// Higher loads are missing.
pub(super) fn beyond(setup: &Setup) -> Missing {
    let command =
        command(setup, &[(setup.mode.flag(), higher(&setup.mode, setup.measurement.latency_threshold.is_some()))]);
    Missing {
        command: Some(command),
        ..Missing::new("no load that was measured is too much; go on with higher ones").certain()
    }
}

/// Loads double where steps are this small a part of the last: a server may carry hundreds of them.
const SMALL_STEP: f64 = 0.25;

/// The loads of a range above its last, as far apart as they were if that is not too close: a list goes on with the factor of its
/// last two. Only one that `is_limited` may have no end.
fn higher(mode: &LoadMode, is_limited: bool) -> String {
    fn of<T: LevelValue + Into<f64>>(range: &Range<T>, is_limited: bool) -> String {
        let last: f64 = range.end.unwrap_or(range.start).into();
        match range.listed.as_slice() {
            [.., before, last] => {
                let (before, last): (f64, f64) = ((*before).into(), (*last).into());
                let factor = (last / before).max(1.1);
                let rounded =
                    |value: f64| digits(if before.fract() + last.fract() == 0.0 { value.round() } else { value });
                format!("{}:{}:*{}", rounded(last * factor), rounded(last * factor.powi(FURTHER)), plain(factor))
            }
            _ if range.step.into() <= SMALL_STEP * last => {
                format!("{}:{}:*2", digits(2.0 * last), digits(2.0 * last * 2.0_f64.powi(FURTHER)))
            }
            _ => {
                let step: f64 = range.step.into();
                let end = if is_limited { 0.0 } else { last + f64::from(FURTHER) * step };
                format!("{}:{}:{}", digits(last + step), digits(end), digits(step))
            }
        }
    }
    let of_concurrency = mode.concurrency().map(|range| of(range, is_limited));
    of_concurrency.or_else(|| mode.rate().map(|range| of(range, is_limited))).unwrap_or_default()
}

/// The loads of a range but for its first; none where there are no others.
pub(super) fn after_first(mode: &LoadMode) -> Option<String> {
    fn of<T: LevelValue + Into<f64>>(range: &Range<T>) -> Option<String> {
        let shown = |value: T| digits(value.into());
        if let [_, others @ ..] = range.listed.as_slice() {
            let others: Vec<String> = others.iter().map(|value| shown(*value)).collect();
            return Some(others.join(",")).filter(|others| !others.is_empty());
        }
        let end = range.end.map_or_else(|| "0".to_owned(), shown);
        Some(format!("{}:{end}:{}", shown(range.nth(1)?), shown(range.step)))
    }
    mode.concurrency().and_then(of).or_else(|| mode.rate().and_then(of))
}

/// A load with as many digits as tell it from its neighbours.
fn digits(load: f64) -> String {
    if load < 1e6 { significant(load) } else { format!("{load:.0}") }
}

/// The run's command with these flags in place of its own, and without the files that it has written: the next run is not to
/// overwrite them.
pub(super) fn command(setup: &Setup, changed: &[(&str, String)]) -> String {
    // Older ways to say a concurrency, and whether they have a value.
    const OLDER: [(&str, bool); 3] = [("-t", true), ("-c", true), ("-d", false)];
    let is_of_load = changed.iter().any(|(flag, _)| *flag == "--concurrency-range");
    let older = |word: &str| OLDER.iter().find(|(flag, _)| is_of_load && *flag == word);
    // One load leaves nothing to search.
    let is_single = changed.iter().any(|(flag, value)| *flag == setup.mode.flag() && !value.contains([':', ',']));
    let is_idle = |word: &str| is_single && word == "--binary-search";
    let is_file = |name: &str| setup.flags.iter().any(|flag| flag.file && flag.name == name);
    let mut words = vec![setup.program.name.clone()];
    let mut arguments = setup.command_line.iter().peekable();
    while let Some(word) = arguments.next() {
        let name = word.split_once('=').map_or(word.as_str(), |(name, _)| name);
        if let Some((_, has_value)) = older(word) {
            if *has_value {
                arguments.next();
            }
        } else if is_idle(word) {
            // It has no value.
        } else if !is_file(name) && !changed.iter().any(|(flag, _)| *flag == name) {
            words.push(quoted(word));
        } else if name == word {
            arguments.next();
        }
    }
    changed.iter().for_each(|(flag, value)| words.extend([(*flag).to_owned(), value.clone()]));
    words.join(" ")
}

/// Quoted for a shell.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,@%+".contains(c);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}
