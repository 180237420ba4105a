//! The runs of a file: their common settings, and what each overrides.

use std::ffi::OsString;

use crate::config::flags::{Flags, Setting, setting};
use crate::config::inference_perf;
use crate::config::model_analyzer;
use crate::config::yaml::{Fault, Key, Node, Value};
use crate::variants::stands_for;

/// The key whose value is a mapping of runs.
const RUNS: &str = "runs";
/// The key of a run that names the runs it inherits from.
const EXTENDS: &str = "extends";
/// Limit on the runs of a file.
const MAX_RUNS: usize = 1_000;
/// Limit on the runs that make up one run: lists of runs that extend lists of runs grow exponentially.
const MAX_LAYERS: usize = 100;
/// The first character of names of runs that can only be extended.
const TEMPLATE: char = '.';

/// A file of flags.
#[derive(Debug)]
pub struct File {
    common: Vec<Setting>,
    runs: Vec<Run>,
    /// What should be known although it is no fault.
    notes: Vec<String>,
}

#[derive(Debug)]
struct Run {
    name: Key,
    extends: Vec<Key>,
    settings: Vec<Setting>,
    /// What should be known of it alone.
    notes: Vec<String>,
}

impl File {
    /// Reads a file's tree, which may mean something else beside the words of the command line.
    ///
    /// # Errors
    /// The first key that is unknown, value that does not fit, or run that is extended but not there.
    pub fn read(command: &clap::Command, root: &Node, arguments: &[OsString]) -> Result<Self, Fault> {
        let mut file = Self { common: Vec::new(), runs: Vec::new(), notes: Vec::new() };
        if let Some((root, others)) = inference_perf::meant(root) {
            let mut flags = inference_perf::flags(command, root, arguments)?;
            if !others.is_empty() {
                flags.note(format!("{}: settings of inference-perf's Helm chart, ignored here", others.join(", ")));
            }
            return Ok(Self { common: flags.settings, notes: flags.notes, ..file });
        }
        if model_analyzer::is_meant(root) {
            let searches = model_analyzer::searches(command, root)?;
            let run = |(name, flags): (Key, Flags)| Run {
                name,
                extends: Vec::new(),
                settings: flags.settings,
                notes: flags.notes,
            };
            let runs = searches.models.into_iter().map(run).collect();
            return Ok(Self { common: searches.common.settings, notes: searches.common.notes, runs });
        }
        if root.value == Value::Null {
            return Ok(file);
        }
        for (key, node) in root.map()? {
            match key.name.as_str() {
                RUNS => file.runs = runs(command, node)?,
                EXTENDS => return Err(Fault::new(key.at, format!("'{EXTENDS}' belongs in a run below '{RUNS}'"))),
                _ => file.common.push(setting(command, key, node)?),
            }
        }
        file.runs.iter().try_for_each(|run| file.layers(run).map(drop))?;
        Ok(file)
    }

    /// The settings that all runs share.
    pub fn common(&self) -> Vec<Setting> {
        self.common.clone()
    }

    /// What should be known although it is no fault, of a run if one is named.
    pub fn notes(&self, run: Option<&str>) -> Vec<String> {
        let run_notes =
            self.runs.iter().filter(|candidate| Some(candidate.name.name.as_str()) == run).flat_map(|run| &run.notes);
        self.notes.iter().chain(run_notes).cloned().collect()
    }

    /// The names of the runs that are wanted; none if the file has none. All of them where none is named.
    ///
    /// # Errors
    /// If there is no such run.
    pub fn choose(&self, wanted: &[String]) -> Result<Vec<String>, String> {
        let names: Vec<String> = self.runs.iter().map(|run| run.name.name.clone()).collect();
        let names: Vec<String> = names.into_iter().filter(|name| !name.starts_with(TEMPLATE)).collect();
        if let Some(other) = wanted.iter().find(|name| !names.contains(name)) {
            let rule = format!("it has no run '{other}' (--run)");
            return Err(if names.is_empty() { rule } else { format!("{rule}; there are {}", names.join(", ")) });
        }
        if !self.runs.is_empty() && names.is_empty() {
            return Err(format!(
                "all of its runs are templates, whose names begin with '{TEMPLATE}': give one another name"
            ));
        }
        Ok(if wanted.is_empty() { names } else { wanted.to_vec() })
    }

    /// The flags of a run: the common ones, over them those of the runs that it extends, over them its own.
    ///
    /// # Errors
    /// If there is no such run.
    pub fn run(&self, name: &str) -> Result<Vec<Setting>, Fault> {
        let mut settings = self.common.clone();
        for run in self.runs.iter().filter(|run| run.name.name == name) {
            for layer in self.layers(run)? {
                put_over(&mut settings, &layer.settings);
            }
        }
        Ok(settings)
    }

    /// A run and those that it extends, from the lowest priority to the highest.
    fn layers<'a>(&'a self, run: &'a Run) -> Result<Vec<&'a Run>, Fault> {
        let mut all = Vec::new();
        self.chain(run, &mut Vec::new(), &mut all).map(|()| all)
    }

    /// Puts a run over those that it extends, at the end of `all`. `above` are the runs that extend it.
    fn chain<'a>(&'a self, run: &'a Run, above: &mut Vec<&'a str>, all: &mut Vec<&'a Run>) -> Result<(), Fault> {
        above.push(&run.name.name);
        for base in &run.extends {
            let found = self.runs.iter().find(|other| other.name.name == base.name);
            let found =
                found.ok_or_else(|| Fault::new(base.at, format!("there is no run '{}' to extend", base.name)))?;
            if above.contains(&base.name.as_str()) {
                return Err(Fault::new(base.at, format!("'{}' would extend itself", base.name)));
            }
            if all.len().max(above.len()) >= MAX_LAYERS {
                let rule = format!("a run extends at most {MAX_LAYERS} others, repeats included");
                return Err(Fault::new(base.at, rule));
            }
            self.chain(found, above, all)?;
        }
        above.pop();
        all.push(run);
        Ok(())
    }
}

fn runs(command: &clap::Command, node: &Node) -> Result<Vec<Run>, Fault> {
    let read = |(name, node): &(Key, Node)| {
        if name.name.trim_start_matches(TEMPLATE).is_empty() {
            return Err(Fault::new(name.at, "a run needs a name"));
        }
        let mut run = Run { name: name.clone(), extends: Vec::new(), settings: Vec::new(), notes: Vec::new() };
        if node.value == Value::Null {
            return Ok(run);
        }
        for (key, node) in node.map()? {
            match key.name.as_str() {
                EXTENDS => run.extends = names(node)?,
                RUNS => return Err(Fault::new(key.at, "a run cannot contain runs")),
                _ => run.settings.push(setting(command, key, node)?),
            }
        }
        Ok(run)
    };
    let all = node.map()?;
    match all.get(MAX_RUNS) {
        Some((name, _)) => Err(Fault::new(name.at, format!("more than {MAX_RUNS} runs"))),
        None => all.iter().map(read).collect(),
    }
}

/// A name, or a list of names.
fn names(node: &Node) -> Result<Vec<Key>, Fault> {
    match &node.value {
        Value::Text(name) => Ok(vec![Key { name: name.clone(), at: node.at }]),
        Value::List(list) if list.iter().all(|node| matches!(node.value, Value::Text(_))) => {
            Ok(list.iter().flat_map(names).flatten().collect())
        }
        _ => Err(Fault::new(
            node.at,
            format!("'{EXTENDS}' takes the name of a run, or a list of names, not {}", node.kind()),
        )),
    }
}

/// Overrides settings: each flag replaces the same flag, and those that it overrides.
fn put_over(settings: &mut Vec<Setting>, layer: &[Setting]) {
    let overrides = |over: &Setting, below: &Setting| {
        over.name == below.name || (!over.arguments.is_empty() && stands_for(&over.name, &below.name))
    };
    settings.retain(|below| !layer.iter().any(|over| overrides(over, below)));
    settings.extend_from_slice(layer);
}
