//! A trace, put together from the objects that a file has of it.

use std::collections::HashMap;

use serde::Deserialize;

/// One moment of a trace.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Moment {
    /// Its name, as the server wrote it.
    pub name: String,
    /// When, in nanoseconds of the server's clock.
    pub ns: u64,
}

/// What a server traced of one request to one model.
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

/// Puts objects of one `id` together.
#[derive(Default)]
pub(super) struct Joined {
    traces: Vec<Trace>,
    places: HashMap<i64, usize>,
}

impl Joined {
    pub(super) fn add(&mut self, entry: Entry) {
        let next = self.traces.len();
        let index = entry.id.map_or(next, |id| *self.places.entry(id).or_insert(next));
        if index == next {
            self.traces.push(Trace { id: entry.id, ..Trace::default() });
        }
        let trace = &mut self.traces[index];
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
