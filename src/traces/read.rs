//! Trace files of Triton, in the old and the new format.
//!
//! A file is a JSON list. In the old format it has one object per trace; newer servers write one object per moment, and
//! one with the model's name, all with the trace's `id`. Both read alike once objects of one `id` are merged.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;

use serde::Deserialize;

use crate::error::{Error, Result};

/// One moment of a trace.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Moment {
    /// Its name, as the server wrote it.
    pub name: String,
    /// When, in nanoseconds of the server's clock.
    pub ns: u64,
}

/// A server's trace of one request to one model.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    /// Its number in the file.
    pub id: Option<i64>,
    /// The trace of the ensemble or BLS model that made this request.
    pub parent: Option<i64>,
    /// The id that the client gave the request; a request that a model made has that of the request from outside.
    pub request: Option<String>,
    /// The model's name.
    pub model: String,
    /// The model's version, as the server wrote it.
    pub version: String,
    /// Its moments, in order of time.
    pub moments: Vec<Moment>,
}

/// One object of a file.
#[derive(Deserialize)]
pub(super) struct Entry {
    pub(super) id: Option<i64>,
    parent_id: Option<i64>,
    request_id: Option<String>,
    model_name: Option<String>,
    model_version: Option<serde_json::Value>,
    #[serde(default)]
    timestamps: Vec<Moment>,
}

/// The traces of a file, ordered by `id`, and whether the file lacks its end: a server writes whole traces whenever its
/// settings change, and the end of the list when it stops.
///
/// # Errors
/// Where the file cannot be read, or is not a list of traces; the message names the file and the place in it.
pub fn read(path: &Path) -> Result<(Vec<Trace>, bool)> {
    let refused = |what: String| Error::input(format!("trace file '{}': {what}", path.display()));
    let open = || File::open(path).map(BufReader::new).map_err(|error| refused(error.to_string()));
    match serde_json::from_reader(open()?) {
        Ok(entries) => Ok((joined(entries), false)),
        Err(error) => {
            let ended = if error.is_eof() { serde_json::from_reader(open()?.chain(&b"]"[..])).ok() } else { None };
            let entries =
                ended.ok_or_else(|| refused(format!("{error}; it must be a JSON list as Triton writes it")))?;
            Ok((joined(entries), true))
        }
    }
}

/// Merges objects of one `id`.
#[derive(Default)]
pub(super) struct Joined {
    traces: Vec<Trace>,
    places: HashMap<i64, usize>,
}

impl Joined {
    pub(super) fn add(&mut self, entry: Entry) {
        let next = self.traces.len();
        let place = entry.id.map_or(next, |id| *self.places.entry(id).or_insert(next));
        if place == next {
            self.traces.push(Trace { id: entry.id, ..Trace::default() });
        }
        let trace = &mut self.traces[place];
        trace.parent = entry.parent_id.or(trace.parent);
        trace.request = entry.request_id.or(trace.request.take());
        if let Some(name) = entry.model_name {
            trace.model = name;
        }
        if let Some(version) = entry.model_version {
            trace.version = version.as_str().map_or_else(|| version.to_string(), str::to_owned);
        }
        trace.moments.extend(entry.timestamps);
    }

    /// The traces, in order of their `id`.
    pub(super) fn traces(self) -> Vec<Trace> {
        let mut traces = self.traces;
        traces.sort_by_key(|trace| trace.id);
        traces.iter_mut().for_each(|trace| trace.moments.sort_by_key(|moment| moment.ns));
        traces
    }
}

fn joined(entries: Vec<Entry>) -> Vec<Trace> {
    let mut all = Joined::default();
    entries.into_iter().for_each(|entry| all.add(entry));
    all.traces()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_of_one_id_are_one_trace() {
        let text = r#"[{"id":2,"timestamps":[{"name":"B","ns":7}]},{"id":1,"model_name":"a","model_version":1,"parent_id":2},
            {"id":2,"model_name":"e","model_version":"-1"},{"id":2,"timestamps":[{"name":"A","ns":5}]},
            {"id":2,"activity":"TENSOR_QUEUE_INPUT","tensor":{"name":"X"}}]"#;
        let traces = joined(serde_json::from_str(text).expect("the test's data are JSON"));
        assert_eq!((traces[0].id, traces[0].parent, traces[0].version.as_str()), (Some(1), Some(2), "1"));
        let names: Vec<&str> = traces[1].moments.iter().map(|moment| moment.name.as_str()).collect();
        assert_eq!((traces[1].model.as_str(), traces[1].version.as_str(), &names[..]), ("e", "-1", &["A", "B"][..]));
    }
}
