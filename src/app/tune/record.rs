//! The record of a search, from which it can be resumed: a line for each trial and for each extension of the budget.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::app::tune::entry::{Entry, SECONDS};
use crate::error::{Error, Result};
use crate::report::{Interrupts, SafeFile};
use crate::result::harmless;

/// Name of the file in the folder of the search.
pub const FILE: &str = "trials.jsonl";

/// A line of the record: the next step of the search.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// A trial.
    Trial(Box<Entry>),
    /// The search had this many seconds in all from here on.
    Budget(f64),
}

/// The line of an extended budget.
#[derive(Serialize, Deserialize)]
struct ExtendedBudget {
    budget_s: f64,
}

/// What a search must have in common with the one that it continues.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Head {
    /// Model, settings and values, objective, constraints, load, margin, budget and seed, with `; ` between.
    pub search: String,
    /// The initial budget in seconds, which may differ; absent in old records, where it may not.
    #[serde(default)]
    pub budget_s: Option<f64>,
    /// The flags of a run that were given and that matter, with their values.
    #[serde(default)]
    pub flags: Vec<String>,
    /// The models, and fingerprints of their configurations.
    #[serde(default)]
    pub bases: Vec<String>,
}

/// The record that is being written.
pub struct Record {
    path: PathBuf,
    interrupts: Interrupts,
    head: String,
    writing: Writing,
}

enum Writing {
    /// Lines of an earlier search that this one has repeated. Nothing is written before it does something new.
    Repeating(Vec<String>),
    /// At the end of the file.
    Adding(File),
}

impl Record {
    /// Begins a record in `folder`.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn begin(folder: &Path, head: &Head, interrupts: Interrupts) -> Result<Self> {
        let mut record = Self::resume(folder, head, interrupts)?;
        record.go_on()?;
        Ok(record)
    }

    /// Continues the record in `folder`, which stays unchanged until a new trial is added.
    ///
    /// # Errors
    /// None that a user could see.
    pub fn resume(folder: &Path, head: &Head, interrupts: Interrupts) -> Result<Self> {
        let path = folder.join(FILE);
        Ok(Self { path, interrupts, head: text(head)?, writing: Writing::Repeating(Vec::new()) })
    }

    /// Adds a trial.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn add(&mut self, entry: &Entry) -> Result<()> {
        if let (Writing::Repeating(lines), Some(line)) = (&mut self.writing, &entry.line) {
            lines.push(line.clone());
            return Ok(());
        }
        let line = match &entry.line {
            Some(line) => line.clone(),
            None => text(entry)?,
        };
        self.write(&line)
    }

    /// Records that the search has this many seconds in all from here on.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn extend(&mut self, budget_s: f64, is_recorded: bool) -> Result<()> {
        let line = text(&ExtendedBudget { budget_s })?;
        match &mut self.writing {
            Writing::Repeating(lines) if is_recorded => lines.push(line),
            _ => self.write(&line)?,
        }
        Ok(())
    }

    fn write(&mut self, line: &str) -> Result<()> {
        let file = self.go_on()?;
        writeln!(file, "{line}").map_err(|error| unwritable(&self.path, error))
    }

    /// The file, which contains exactly what was repeated. If it contained more, it is replaced atomically.
    fn go_on(&mut self) -> Result<&mut File> {
        if let Writing::Repeating(lines) = &self.writing {
            let whole: String = [&self.head].into_iter().chain(lines).map(|line| format!("{line}\n")).collect();
            let file = self.holding(&whole).map_err(|error| unwritable(&self.path, error))?;
            self.writing = Writing::Adding(file);
        }
        match &mut self.writing {
            Writing::Adding(file) => Ok(file),
            Writing::Repeating(_) => Err(Error::output(format!("{}: cannot be written", self.path.display()))),
        }
    }

    fn holding(&self, whole: &str) -> io::Result<File> {
        if fs::read(&self.path).ok().as_deref() != Some(whole.as_bytes()) {
            let mut file = SafeFile::create(&self.path, self.interrupts)?;
            file.write_all(whole.as_bytes())?;
            file.finish()?;
        }
        OpenOptions::new().append(true).open(&self.path)
    }
}

fn text(value: &impl Serialize) -> Result<String> {
    serde_json::to_string(value).map_err(|error| Error::output(error.to_string()))
}

/// Reads the record in `folder`, whose search must be `current`. Its last line may be truncated.
///
/// # Errors
/// If there is none, or it is that of another search.
pub fn read(folder: &Path, current: &Head) -> Result<(Head, Vec<Step>)> {
    let path = folder.join(FILE);
    let (head, steps) = parse(&path)?;
    let other = |difference: String| {
        Error::input(format!(
            "--resume: {} is the record of another search: {difference}; give the flags that it was started with, or another --output",
            path.display()
        ))
    };
    let head = head.ok_or_else(|| other("its first line does not say what was searched".to_owned()))?;
    if let Some(difference) = difference(&head, current) {
        return Err(other(difference));
    }
    check_budget(folder, current, budget(&head, &steps))?;
    Ok((head, steps))
}

/// The total seconds of the search recorded in `folder`; `None` if the record does not say.
///
/// # Errors
/// If there is no record.
pub fn budget_of(folder: &Path) -> Result<Option<f64>> {
    let (head, steps) = parse(&folder.join(FILE))?;
    Ok(head.and_then(|head| budget(&head, &steps)))
}

/// The first line, if it is a head, and what follows it.
fn parse(path: &Path) -> Result<(Option<Head>, Vec<Step>)> {
    let file = File::open(path).map_err(|error| {
        Error::input(format!("--resume: {} cannot be read: {error}; start the search without --resume", path.display()))
    })?;
    let mut lines = BufReader::new(file).lines().map_while(io::Result::ok);
    let head = lines.next().and_then(|line| serde_json::from_str(&harmless(&line)).ok());
    let head = head.filter(|head: &Head| head.budget_s.is_none_or(|budget_s| SECONDS.contains(&budget_s)));
    Ok((head, lines.map_while(step).collect()))
}

fn step(line: String) -> Option<Step> {
    if let Ok(ExtendedBudget { budget_s }) = serde_json::from_str(&line) {
        return SECONDS.contains(&budget_s).then_some(Step::Budget(budget_s));
    }
    let entry = serde_json::from_str(&harmless(&line)).ok().filter(Entry::is_believed)?;
    Some(Step::Trial(Box::new(Entry { line: Some(line), ..entry })))
}

/// The total seconds of the recorded search.
fn budget(head: &Head, steps: &[Step]) -> Option<f64> {
    let extended = steps.iter().rev().find_map(|step| match step {
        Step::Budget(budget_s) => Some(*budget_s),
        Step::Trial(_) => None,
    });
    extended.or(head.budget_s)
}

/// A budget cannot be lowered: its results are already in the record.
fn check_budget(folder: &Path, current: &Head, had: Option<f64>) -> Result<()> {
    match current.budget_s.zip(had) {
        Some((budget, had)) if budget < had => Err(Error::input(format!(
            "--budget {budget}s: the search whose record is in {} has {had}s, and a resumed search cannot have less; \
                give --budget {had}s or more, or start over in another --output",
            folder.display()
        ))),
        _ => Ok(()),
    }
}

/// The first difference between two searches.
fn difference(earlier: &Head, current: &Head) -> Option<String> {
    let is_fixed = |part: &&str| earlier.budget_s.is_none() || !part.starts_with("budget ");
    let parts = |head: &Head| head.search.split("; ").filter(is_fixed).map(str::to_owned).collect::<Vec<_>>();
    let compare = |lead: &str, earlier: &[String], current: &[String]| {
        let alone = |list: &[String], other: &[String]| list.iter().find(|part| !other.contains(part)).cloned();
        let (was, is) = (alone(earlier, current), alone(current, earlier));
        let named =
            |part: Option<String>| part.map_or_else(|| "nothing of the kind".to_owned(), |part| format!("'{part}'"));
        (was.is_some() || is.is_some()).then(|| format!("{lead}it has {} where this one has {}", named(was), named(is)))
    };
    compare("", &parts(earlier), &parts(current))
        .or_else(|| compare("of the flags of a run, ", &earlier.flags, &current.flags))
        .or_else(|| compare("the models' configurations have changed: ", &earlier.bases, &current.bases))
}

/// Makes the folder of a search.
///
/// # Errors
/// If it cannot be made.
pub fn make_folder(folder: &Path) -> Result<()> {
    fs::create_dir_all(folder).map_err(|error| {
        Error::output(format!("--output {}: cannot be made: {error}; name another folder", folder.display()))
    })
}

fn unwritable(path: &Path, error: std::io::Error) -> Error {
    Error::output(format!("{}: cannot be written: {error}; free space or name another --output", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interrupt;
    use crate::result::{Figures, TrialFigures};
    use crate::tune::{Found, Observation, Phase, Trial};

    fn entry(round: usize) -> Entry {
        Entry {
            trial: Trial { candidate: 1, phase: Phase::Race, round, unit_s: 0.25, seed: 7, again: false },
            observation: Observation {
                seconds: 0.3,
                found: Ok(Found { score: 1.5, violation: -0.5, disturbed: false, bottleneck: None }),
            },
            measured: Some(TrialFigures {
                figures: Figures { throughput: 4.5, ..Figures::default() },
                ..TrialFigures::default()
            }),
            line: None,
        }
    }

    fn head(search: &str, flags: &[&str], bases: &[&str]) -> Head {
        let all = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        Head { search: search.to_owned(), budget_s: None, flags: all(flags), bases: all(bases) }
    }

    fn trial(step: Step) -> Entry {
        match step {
            Step::Trial(entry) => *entry,
            Step::Budget(_) => panic!("{step:?}"),
        }
    }

    #[test]
    fn a_greater_budget_is_a_line_where_it_was_extended() {
        let folder = tempfile::tempdir().unwrap();
        let with_budget = |budget_s: f64| {
            let search = format!("model m; budget {budget_s}s; seed 1");
            Head { budget_s: Some(budget_s), ..head(&search, &[], &["m 1f"]) }
        };
        let mut record = Record::begin(folder.path(), &with_budget(12.0), interrupt::counter()).unwrap();
        record.add(&entry(0)).unwrap();
        record.extend(60.0, false).unwrap();
        record.add(&entry(1)).unwrap();
        let path = folder.path().join(FILE);
        let whole = fs::read_to_string(&path).unwrap();
        let (earlier, steps) = read(folder.path(), &with_budget(90.0)).unwrap();
        assert_eq!((earlier.budget_s, steps.len(), &steps[1]), (Some(12.0), 3, &Step::Budget(60.0)));
        // What is repeated is written as it was.
        let mut record = Record::resume(folder.path(), &earlier, interrupt::counter()).unwrap();
        for step in steps {
            match step {
                Step::Trial(entry) => record.add(&entry).unwrap(),
                Step::Budget(budget_s) => record.extend(budget_s, true).unwrap(),
            }
        }
        assert_eq!(fs::read_to_string(&path).unwrap(), whole);
        record.extend(90.0, false).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), format!("{whole}{{\"budget_s\":90.0}}\n"));
        let error = read(folder.path(), &with_budget(60.0)).unwrap_err().to_string();
        assert!(error.contains("--budget 60s") && error.contains("90s or more"), "{error}");
        assert!(read(folder.path(), &Head { search: "model n; seed 1".into(), ..with_budget(90.0) }).is_err());
    }

    #[test]
    fn what_was_recorded_is_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let current = head("model m; seed 1", &["-b 2"], &["m 1f"]);
        let mut record = Record::begin(folder.path(), &current, interrupt::counter()).unwrap();
        (0..3).for_each(|round| record.add(&entry(round)).unwrap());
        let path = folder.path().join(FILE);
        let whole = fs::read_to_string(&path).unwrap();
        let cut = format!("{whole}{{\"trial\":");
        fs::write(&path, &cut).unwrap();
        let (earlier, entries) = read(folder.path(), &current).unwrap();
        let entries: Vec<Entry> = entries.into_iter().map(trial).collect();
        let without_lines = entries.iter().map(|read| Entry { line: None, ..read.clone() });
        assert_eq!((earlier, without_lines.collect::<Vec<_>>()), (current.clone(), vec![entry(0), entry(1), entry(2)]));
        // Nothing is lost before there is something else.
        let mut record = Record::resume(folder.path(), &current, interrupt::counter()).unwrap();
        record.add(&entries[0]).unwrap();
        record.add(&entries[1]).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), cut);
        record.add(&entry(7)).unwrap();
        record.add(&entry(8)).unwrap();
        let lines: Vec<String> = fs::read_to_string(&path).unwrap().lines().map(str::to_owned).collect();
        assert_eq!(lines[..3], whole.lines().take(3).collect::<Vec<_>>()[..], "to the letter");
        assert!(lines.len() == 5 && lines[4].contains("\"round\":8"), "{lines:?}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left beside it");
        assert!(read(&folder.path().join("none"), &current).unwrap_err().to_string().contains("--resume"));
    }

    #[test]
    fn no_budget_is_believed_that_no_search_can_have() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(FILE);
        for (lines, had) in [
            ("{\"search\":\"m\",\"budget_s\":8.0}\n{\"budget_s\":16.0}\n", Some(16.0)),
            ("{\"search\":\"m\",\"budget_s\":8.0}\n{\"budget_s\":1e300}\n{\"budget_s\":16.0}\n", Some(8.0)),
            ("{\"search\":\"m\",\"budget_s\":8.0}\n{\"budget_s\":-1}\n", Some(8.0)),
            ("{\"search\":\"m\",\"budget_s\":-8.0}\n", None),
            ("{\"search\":\"m\"}\n", None),
        ] {
            fs::write(&path, lines).unwrap();
            assert_eq!(budget_of(folder.path()).unwrap(), had, "{lines}");
        }
        assert!(budget_of(&folder.path().join("none")).unwrap_err().to_string().contains("start the search without"));
    }

    #[test]
    fn what_no_trial_comes_to_ends_what_is_believed() {
        let folder = tempfile::tempdir().unwrap();
        let current = head("model m; seed 1", &[], &["m 1f"]);
        let good = serde_json::to_value(entry(0)).unwrap();
        let with = |pointer: &str, value: f64| {
            let mut changed = good.clone();
            *changed.pointer_mut(pointer).unwrap() = value.into();
            changed
        };
        let measured = with("/measured/throughput", 0.0);
        for (second, read_of) in [
            (measured, 3),
            (with("/observation/seconds", -1e300), 1),
            (with("/observation/seconds", 1e300), 1),
            (with("/trial/unit_s", -1.0), 1),
            (with("/observation/found/Ok/score", 1e308), 1),
            (with("/observation/found/Ok/violation", -1e308), 1),
            (with("/measured/throughput", 1e308), 1),
            (with("/measured/mean_ns", -1.0), 1),
        ] {
            let text = [&serde_json::to_value(&current).unwrap(), &good, &second, &good]
                .map(|line| format!("{line}\n"))
                .concat();
            fs::write(folder.path().join(FILE), text).unwrap();
            assert_eq!(read(folder.path(), &current).unwrap().1.len(), read_of, "{second}");
        }
    }

    #[test]
    fn another_search_is_refused_with_what_is_other() {
        let folder = tempfile::tempdir().unwrap();
        Record::begin(folder.path(), &head("model m; budget 12s", &["-b 2"], &["m 1f"]), interrupt::counter()).unwrap();
        for (other, named) in [
            (head("model m; budget 60s", &["-b 2"], &["m 1f"]), "'budget 12s' where this one has 'budget 60s'"),
            (
                head("model m; budget 12s", &["-b 4"], &["m 1f"]),
                "flags of a run, it has '-b 2' where this one has '-b 4'",
            ),
            (head("model m; budget 12s", &[], &["m 1f"]), "'-b 2' where this one has nothing"),
            (head("model m; budget 12s", &["-b 2"], &["m 2f"]), "configurations have changed: it has 'm 1f'"),
        ] {
            let error = read(folder.path(), &other).unwrap_err().to_string();
            assert!(error.contains("another search") && error.contains(named), "{error}");
        }
    }
}
