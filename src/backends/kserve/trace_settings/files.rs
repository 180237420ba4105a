//! [`FileTraces`]: a network Triton's traces of our requests, from the file that it writes.
//!
//! Triton writes its traces out when the model's trace settings change, even to the same values; and to a file of their
//! own every `log_frequency` traces. So its settings are set again, and the file is read once it is stable.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;

use crate::backend::{ModelName, ModelTrace, Moment, ServerTrace, ServerTraces, Transit};
use crate::clock::Stamp;
use crate::error::{Error, Result};
use crate::kserve::request_ids;
use crate::kserve::trace_settings::{TraceControl, TraceValues};
use crate::traces::{Trace, TraceFiles};

/// How long to wait for missing traces: a request that was given up may hold back all of them.
const PATIENCE: Duration = Duration::from_secs(4);
/// The same if some have already arrived, as with a log frequency: there may be none left.
const SHORT_PATIENCE: Duration = Duration::from_millis(300);
/// Files that never stop growing, because the server also writes for others, are read after this.
const LONGEST: Duration = Duration::from_secs(5);
/// How often the files are polled.
const POLL: Duration = Duration::from_millis(10);
/// Files that have not grown for this long are stable.
const REST: Duration = Duration::from_millis(40);

/// The traces of one model on one server.
pub struct FileTraces {
    server: Arc<dyn TraceControl>,
    model: String,
    /// The settings to set again to have traces written.
    values: TraceValues,
    /// The server traces one in this many requests.
    rate: u32,
    files: Mutex<TraceFiles>,
}

impl FileTraces {
    /// The traces of `model`, whose trace settings were changed to `values`; `now` are its current settings.
    ///
    /// # Errors
    /// If the server does not write its traces to a file.
    pub fn new(server: Arc<dyn TraceControl>, model: &str, values: &TraceValues, now: &TraceValues) -> Result<Self> {
        let word = |name: &str| now.get(name)?.as_ref()?.first().map(String::as_str);
        let refused =
            |why: &str| Error::server(format!("the server's traces of model '{model}' cannot be read: {why}"));
        if let Some(mode) = word("trace_mode").filter(|mode| *mode != "triton") {
            let advice = "start it with --trace-config=triton,file=FILE";
            return Err(refused(&format!("its trace mode is '{mode}', which writes no file; {advice}")));
        }
        let path =
            word("trace_file").filter(|path| !path.is_empty()).ok_or_else(|| refused("it names no trace file"))?;
        // Setting a count again restarts it.
        let values = values.iter().filter(|(name, _)| *name != "trace_count");
        Ok(Self {
            server,
            model: model.to_owned(),
            values: values.map(|(name, words)| (name.clone(), words.clone())).collect(),
            rate: word("trace_rate").and_then(|rate| rate.parse().ok()).unwrap_or(1),
            files: Mutex::new(TraceFiles::from_now(Path::new(path))),
        })
    }

    fn refused(&self, path: &Path, why: &str) -> Error {
        Error::server(format!("the server's trace file '{}' cannot be read here: {why}", path.display()))
    }
}

impl ServerTraces for FileTraces {
    fn take(&self) -> Result<Vec<ServerTrace>> {
        let mut files = self.files.lock();
        let path = files.path().to_owned();
        let failed = |error: io::Error| {
            let advice = "run on the server's machine, as a user who may read it";
            self.refused(&path, &format!("{error}; {advice}"))
        };
        let (before, more) = (files.sizes().map_err(failed)?, files.has_more().map_err(failed)?);
        self.server.put_traces(&self.model, &self.values).map_err(|error| {
            let advice = "a trace count (--trace-count) that is used up keeps Triton from writing, unless it has a --log-frequency";
            error.advice(advice)
        })?;
        settle(&files, &before, if more { SHORT_PATIENCE } else { PATIENCE }).map_err(failed)?;
        let traces = files.take(|id| request_ids::key(id).is_some()).map_err(failed)?;
        if traces.is_empty() {
            let why = "it holds no trace of these requests; run on the server's machine, where the server has put it, or \
                trace more of them (--trace-rate); if requests were given up, one may hold back the traces of all: \
                --log-frequency 1 has each written by itself";
            return Err(self.refused(&path, why));
        }
        Ok(grouped(&traces, self.rate))
    }
}

/// Waits until the files have grown, for as long as `patience`, and are stable, for at most [`LONGEST`].
fn settle(files: &TraceFiles, before: &BTreeMap<PathBuf, u64>, patience: Duration) -> io::Result<()> {
    let begun = Stamp::now();
    let (mut last, mut since) = (before.clone(), begun);
    loop {
        thread::sleep(POLL);
        let (sizes, now) = (files.sizes()?, Stamp::now());
        if sizes != last {
            (last, since) = (sizes, now);
        }
        let has_grown = last != *before;
        let (waited, is_at_rest) = (now - begun, now - since >= REST);
        if has_grown && is_at_rest || !has_grown && waited >= patience || waited >= LONGEST {
            return Ok(());
        }
    }
}

/// Groups the traces of a request: that of its model, and those of models that were called for it.
fn grouped(traces: &[Trace], rate: u32) -> Vec<ServerTrace> {
    let mut called = HashMap::<i64, Vec<&Trace>>::new();
    for trace in traces {
        if let Some(parent) = trace.parent {
            called.entry(parent).or_default().push(trace);
        }
    }
    let roots = traces.iter().filter(|trace| trace.parent.is_none());
    roots.filter_map(|root| of_request(root, &called, rate)).collect()
}

fn of_request(root: &Trace, called: &HashMap<i64, Vec<&Trace>>, rate: u32) -> Option<ServerTrace> {
    let slot = request_ids::key(root.request.as_deref()?)?;
    let begun = at(root, &[Moment::RequestStart.name()])?;
    let mut members = vec![root];
    let mut next = 0;
    // Each is called by one, so none comes twice, and a cycle is not reached.
    while let Some(member) = members.get(next) {
        members.extend(member.id.and_then(|id| called.get(&id)).into_iter().flatten());
        next += 1;
    }
    let received = at(root, &["HTTP_RECV_END", "GRPC_WAITREAD_END"]).unwrap_or(begun);
    let answering = at(root, &["HTTP_SEND_START", "GRPC_SEND_START"]).map_or(Stamp::NEVER, Stamp);
    let transit = Transit { received: Stamp(received), answering };
    Some(ServerTrace { slot, weight: rate, transit, models: members.into_iter().map(model).collect() })
}

/// The last moment with one of these names: a model that answers several times has several.
fn at(trace: &Trace, names: &[&str]) -> Option<u64> {
    trace.moments.iter().rev().find(|moment| names.contains(&moment.name.as_str())).map(|moment| moment.ns)
}

fn model(trace: &Trace) -> ModelTrace {
    ModelTrace {
        id: trace.id.and_then(|id| u64::try_from(id).ok()).unwrap_or_default(),
        parent: trace.parent.and_then(|id| u64::try_from(id).ok()).unwrap_or_default(),
        name: ModelName::new(trace.model.as_bytes()),
        version: trace.version.parse().unwrap_or_default(),
        moments: Moment::ALL.map(|moment| at(trace, &[moment.name()]).unwrap_or_default()),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    /// A server that writes what it has traced where its settings are put.
    struct Server {
        path: PathBuf,
        written: Mutex<Vec<String>>,
        put: Mutex<Vec<TraceValues>>,
    }

    impl TraceControl for Server {
        fn traces(&self, _: Option<&str>) -> Result<TraceValues> {
            Ok(TraceValues::new())
        }

        fn put_traces(&self, _: &str, values: &TraceValues) -> Result<()> {
            self.put.lock().push(values.clone());
            if let Some(text) = self.written.lock().pop() {
                let before = fs::read_to_string(&self.path).unwrap_or_else(|_| "[".to_owned());
                let comma = if before.len() > 1 { "," } else { "" };
                fs::write(&self.path, format!("{before}{comma}{text}")).unwrap();
            }
            Ok(())
        }
    }

    fn values(words: &[(&str, &str)]) -> TraceValues {
        words.iter().map(|(name, word)| ((*name).to_owned(), Some(vec![(*word).to_owned()]))).collect()
    }

    fn moments(id: u32, moments: &[(&str, u64)]) -> String {
        let objects =
            moments.iter().map(|(name, ns)| format!(r#"{{"id":{id},"timestamps":[{{"name":"{name}","ns":{ns}}}]}}"#));
        objects.collect::<Vec<_>>().join(",")
    }

    fn begin(id: u32, request: &str, more: &str) -> String {
        format!(r#"{{"id":{id},"model_name":"m{id}","model_version":1,"request_id":"{request}"{more}}}"#)
    }

    /// An ensemble's request, whose model comes first in the file, as Triton writes it, and one of another client.
    fn ensemble() -> String {
        let request_id = String::from_utf8(request_ids::of_slot(2, 7)).unwrap();
        let called = [("REQUEST_START", 30), ("COMPUTE_END", 60), ("REQUEST_END", 61)];
        let root = [("HTTP_RECV_START", 9), ("HTTP_RECV_END", 10), ("REQUEST_START", 20), ("REQUEST_END", 90)];
        [
            begin(5, &request_id, r#","parent_id":4"#),
            moments(5, &called),
            moments(4, &root[..2]),
            begin(4, &request_id, ""),
            moments(4, &root[2..]),
            moments(4, &[("HTTP_SEND_START", 80), ("HTTP_SEND_END", 85)]),
            begin(6, "theirs", ""),
            moments(6, &root),
        ]
        .join(",")
    }

    #[test]
    fn a_request_has_the_traces_of_all_its_models_and_its_way_there_and_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trace.json");
        let (written, put) = (Mutex::new(vec![ensemble()]), Mutex::default());
        let server = Arc::new(Server { path: path.clone(), written, put });
        let now = values(&[("trace_file", path.to_str().unwrap()), ("trace_rate", "25"), ("trace_mode", "triton")]);
        let asked = values(&[("trace_level", "TIMESTAMPS"), ("trace_count", "50")]);
        let files = FileTraces::new(server.clone(), "m", &asked, &now).unwrap();
        let traces = files.take().unwrap();
        assert_eq!(traces.len(), 1, "{traces:?}");
        let trace = &traces[0];
        assert_eq!((trace.slot, trace.weight), (2 << 32 | 7, 25));
        assert_eq!(trace.transit, Transit { received: Stamp(10), answering: Stamp(80) });
        let models: Vec<_> = trace.models.iter().map(|model| (model.name.text(), model.id, model.parent)).collect();
        assert_eq!(models, [("m4".to_owned(), 4, 0), ("m5".to_owned(), 5, 4)]);
        assert_eq!(trace.models[1].moments, [30, 0, 0, 0, 0, 60, 61]);
        assert_eq!(*server.put.lock(), [values(&[("trace_level", "TIMESTAMPS")])], "a count would begin anew");
        let none = files.take().unwrap_err().to_string();
        assert!(none.contains("it holds no trace of these requests"), "{none}");
    }

    #[test]
    fn files_that_a_server_never_stops_to_write_are_read_all_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trace.json");
        fs::write(&path, "[").unwrap();
        let files = TraceFiles::from_now(&path);
        let before = files.sizes().unwrap();
        let is_over = AtomicBool::new(false);
        let waited = thread::scope(|scope| {
            scope.spawn(|| {
                let mut file = fs::OpenOptions::new().append(true).open(&path).unwrap();
                while !is_over.load(Ordering::Relaxed) {
                    file.write_all(b" ").unwrap();
                    thread::sleep(Duration::from_millis(1));
                }
            });
            let begun = Stamp::now();
            let settled = settle(&files, &before, PATIENCE);
            is_over.store(true, Ordering::Relaxed);
            settled.map(|()| Stamp::now() - begun)
        });
        assert!(waited.unwrap() < LONGEST * 3, "a busy machine may take its time");
    }

    #[test]
    fn a_server_that_writes_no_file_is_told_of() {
        let server = || {
            let (written, put) = (Mutex::default(), Mutex::default());
            Arc::new(Server { path: PathBuf::new(), written, put })
        };
        let why = |now: &[(&str, &str)]| {
            FileTraces::new(server(), "m", &TraceValues::new(), &values(now)).err().unwrap().to_string()
        };
        let mode = why(&[("trace_mode", "opentelemetry"), ("trace_file", "")]);
        assert!(mode.contains("its trace mode is 'opentelemetry', which writes no file"), "{mode}");
        assert!(why(&[("trace_file", "")]).contains("names no trace file") && why(&[]).contains("names no trace file"));
        let files =
            FileTraces::new(server(), "m", &TraceValues::new(), &values(&[("trace_file", "/none/t.json")])).unwrap();
        let error = files.take().unwrap_err().to_string();
        assert!(error.contains("'/none/t.json' cannot be read here: No such file"), "{error}");
    }
}
