//! Traces in Chrome's format, which Perfetto (ui.perfetto.dev) and chrome://tracing open: a process for the client and
//! one for each model, in them a track for requests that do not overlap, and on it a slice for every stage.

use std::collections::HashMap;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use serde_json::{Value, json};

use crate::backend::{ModelTrace, Moment};
use crate::error::Result;
use crate::partial::unwritten;
use crate::record::KeptTrace;
use crate::{Interrupts, SafeFile, inert};

/// A named span of time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slice {
    /// Its name.
    pub name: String,
    /// Its start and end in nanoseconds.
    pub span: (u64, u64),
}

/// Slices that lie within the first of them: they share a track.
#[derive(Clone, Debug)]
pub struct Group {
    /// The process that they are shown in.
    pub process: String,
    /// The slices, the one that holds the others first.
    pub slices: Vec<Slice>,
    /// Details of the first one.
    pub about: Value,
}

/// The client's process.
const CLIENT: &str = "client";

/// The slices between the moments of a model.
const STAGES: [(&str, Moment, Moment); 5] = [
    ("scheduling", Moment::RequestStart, Moment::QueueStart),
    ("queue", Moment::QueueStart, Moment::ComputeStart),
    ("compute input", Moment::ComputeStart, Moment::ComputeInputEnd),
    ("compute", Moment::ComputeInputEnd, Moment::ComputeOutputStart),
    ("compute output", Moment::ComputeOutputStart, Moment::ComputeEnd),
];

/// Writes the traces of a run.
///
/// # Errors
/// If the file cannot be written; the message names it.
pub fn write(path: &Path, interrupts: Interrupts, traces: &[KeptTrace]) -> Result<()> {
    write_groups(path, interrupts, &groups(traces))
}

/// Writes slices from any source.
///
/// # Errors
/// As [`write()`].
pub fn write_groups(path: &Path, interrupts: Interrupts, groups: &[Group]) -> Result<()> {
    write_file(path, interrupts, groups)
        .map_err(|error| unwritten(format_args!("--trace-export {}", path.display()), &error))
}

fn write_file(path: &Path, interrupts: Interrupts, groups: &[Group]) -> io::Result<()> {
    let mut file = BufWriter::new(SafeFile::create(path, interrupts)?);
    file.write_all(b"{\"displayTimeUnit\":\"ns\",\"traceEvents\":[")?;
    for (number, event) in events(groups).enumerate() {
        file.write_all(if number == 0 { b"\n" } else { b",\n" })?;
        inert::write(&mut file, &event)?;
    }
    file.write_all(b"\n]}\n")?;
    file.into_inner().map_err(io::IntoInnerError::into_error)?.finish()
}

/// The client's view of every request, and the server's of every model that it went through.
fn groups(traces: &[KeptTrace]) -> Vec<Group> {
    traces
        .iter()
        .enumerate()
        .flat_map(|(number, trace)| {
            let group = client(number, trace);
            std::iter::once(group).chain(trace.models.iter().filter_map(move |model| of_model(number, model)))
        })
        .collect()
}

fn client(number: usize, trace: &KeptTrace) -> Group {
    let start = trace.intended.map_or(trace.sent, |intended| intended.min(trace.sent)).0;
    let end = trace.awake.unwrap_or(trace.last_response).max(trace.last_response).0;
    let slice = |name: &str, from: u64, to: u64| Slice { name: name.to_owned(), span: (from, to.clamp(from, end)) };
    let mut slices = vec![slice("request", start, end)];
    if start < trace.sent.0 {
        slices.push(slice("schedule delay", start, trace.sent.0));
    }
    if let Some(transit) = trace.transit {
        slices.push(slice("network in", trace.sent.0, transit.received.0));
        slices.push(slice("network out", transit.answering.min(trace.last_response).0, trace.last_response.0));
    } else if let Some(handed_over) = trace.handed_over {
        slices.push(slice("hand-over", trace.sent.0, handed_over.0.min(trace.last_response.0)));
    }
    if let Some(awake) = trace.awake {
        slices.push(slice("wake-up", trace.last_response.0, awake.0));
    }
    Group { process: CLIENT.to_owned(), slices, about: json!({"request": number, "succeeded": trace.succeeded}) }
}

fn of_model(request: usize, model: &ModelTrace) -> Option<Group> {
    let times = || model.moments.iter().copied().filter(|ns| *ns > 0);
    let name = model.name.text();
    let mut slices = vec![Slice { name: name.clone(), span: (times().min()?, times().max()?) }];
    for (name, from, to) in STAGES {
        if let (Some(from), Some(to)) = (model.at(from), model.at(to)) {
            slices.push(Slice { name: name.to_owned(), span: (from.0, to.0.max(from.0)) });
        }
    }
    let about = json!({"request": request, "trace": model.id, "parent": model.parent, "version": model.version});
    Some(Group { process: name, slices, about })
}

/// The events of a file: names of processes, then slices.
fn events(groups: &[Group]) -> impl Iterator<Item = Value> {
    let mut processes: HashMap<&str, usize> = HashMap::new();
    let mut names = Vec::new();
    for group in groups {
        let next = processes.len() + 1;
        processes.entry(&group.process).or_insert_with(|| {
            names.push(json!({"ph": "M", "name": "process_name", "pid": next, "args": {"name": group.process}}));
            next
        });
    }
    let slices = groups.iter().zip(tracks(groups)).flat_map(move |(group, track)| {
        let process = processes[&*group.process];
        group.slices.iter().enumerate().map(move |(number, slice)| {
            let (start, end) = slice.span;
            let mut event = json!({"ph": "X", "name": slice.name, "cat": "request", "pid": process, "tid": track,
                "ts": start as f64 / 1e3, "dur": end.saturating_sub(start) as f64 / 1e3});
            if number == 0 {
                event["args"] = group.about.clone();
            }
            event
        })
    });
    names.into_iter().chain(slices)
}

/// The track of every group, from 1: the first of its process that is free when it starts.
fn tracks(groups: &[Group]) -> Vec<usize> {
    let span = |group: &Group| group.slices.first().map_or((0, 0), |slice| slice.span);
    let mut order: Vec<usize> = (0..groups.len()).collect();
    order.sort_by_key(|number| span(&groups[*number]));
    let mut free_from: HashMap<&str, Vec<u64>> = HashMap::new();
    let mut tracks = vec![0; groups.len()];
    for number in order {
        let (start, end) = span(&groups[number]);
        let ends = free_from.entry(&groups[number].process).or_default();
        let track = ends.iter().position(|free| *free <= start).unwrap_or(ends.len());
        if track == ends.len() {
            ends.push(0);
        }
        ends[track] = end;
        tracks[number] = track + 1;
    }
    tracks
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::ModelName;
    use crate::clock::Stamp;

    fn trace(sent: u64) -> KeptTrace {
        let moments = [10, 20, 30, 40, 60, 70, 90].map(|ns| sent + ns);
        let model = ModelTrace { id: 7, parent: 0, name: ModelName::new(b"m"), version: 1, moments };
        KeptTrace {
            intended: None,
            sent: Stamp(sent),
            handed_over: Some(Stamp(sent + 15)),
            last_response: Stamp(sent + 80),
            awake: Some(Stamp(sent + 85)),
            succeeded: true,
            weight: 1.0,
            more: false,
            transit: None,
            models: [model].into(),
        }
    }

    #[test]
    fn stages_are_slices_within_their_requests() {
        let events: Vec<Value> = events(&groups(&[trace(1_000), trace(1_050), trace(1_100)])).collect();
        let names: Vec<&Value> =
            events.iter().filter(|event| event["ph"] == "M").map(|event| &event["args"]["name"]).collect();
        assert_eq!(names, ["client", "m"]);
        let events_named = |name: &str| events.iter().filter(move |event| event["name"] == name).collect::<Vec<_>>();
        assert_eq!(
            (events_named("compute").len(), events_named("hand-over").len(), events_named("wake-up").len()),
            (3, 3, 3)
        );
        assert_eq!(
            (&events_named("compute")[0]["ts"], &events_named("compute")[0]["dur"]),
            (&json!(1.04), &json!(0.02))
        );
        let tracks: Vec<&Value> = events_named("request").into_iter().map(|event| &event["tid"]).collect();
        assert_eq!(tracks, [&json!(1), &json!(2), &json!(1)], "requests that overlap have tracks of their own");
        assert_eq!(events_named("m")[0]["args"]["trace"], 7);
    }
}
