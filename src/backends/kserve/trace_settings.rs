//! Trace settings of a model on a server, which are restored when the run is over, because the server is not ours.

mod files;

use std::collections::BTreeMap;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;

use crate::backend::ServerTraces;
use crate::error::{Error, Result};
use crate::kserve::refusals::Refusal;
use crate::plan::{TraceLevel, TraceSettings};
use crate::stdio::note;
use files::FileTraces;

/// Settings by name, each with its words (only the level has several); `None` follows the server's own.
pub type TraceValues = BTreeMap<String, Option<Vec<String>>>;

/// A server whose trace settings can be read and set.
pub trait TraceControl: Send + Sync {
    /// The settings of a model, or of models without settings of their own.
    ///
    /// # Errors
    /// If the server does not say.
    fn traces(&self, model: Option<&str>) -> Result<TraceValues>;

    /// Changes the settings of a model.
    ///
    /// # Errors
    /// The server's reason if it refuses.
    fn put_traces(&self, model: &str, values: &TraceValues) -> Result<()>;
}

/// Changes that are still to be undone, for an exit that drops nothing.
static CHANGES: Mutex<Vec<Arc<Change>>> = Mutex::new(Vec::new());

/// What a model's settings were before they were changed.
struct Change {
    server: Arc<dyn TraceControl>,
    model: String,
    before: TraceValues,
}

impl Change {
    /// Whether it was still to be undone; from now on it is not.
    fn take(self: &Arc<Self>) -> bool {
        let mut changes = CHANGES.lock();
        let at = changes.iter().position(|other| Arc::ptr_eq(other, self));
        at.map(|at| changes.swap_remove(at)).is_some()
    }

    fn undo(&self) {
        if !self.before.is_empty()
            && let Err(error) = self.server.put_traces(&self.model, &self.before)
        {
            note!("{error}; the trace settings of model '{}' are not restored", self.model);
        }
    }
}

/// Restores every setting that was changed, within `limit`: a server that is gone would take longer.
pub fn restore_all(limit: Duration) {
    let changes = std::mem::take(&mut *CHANGES.lock());
    if changes.is_empty() {
        return;
    }
    let (done, wait) = mpsc::channel();
    let undo = move || {
        changes.iter().for_each(|change| change.undo());
        // Nobody may be waiting any more.
        let _ = done.send(());
    };
    if thread::Builder::new().name("trace settings".to_owned()).spawn(undo).is_ok() {
        let _ = wait.recv_timeout(limit);
    }
}

/// Changed settings; dropping this restores the previous ones.
pub struct ChangedTraces {
    change: Arc<Change>,
    values: TraceValues,
    /// The current settings, if moments are traced and the server reports them.
    now: Option<TraceValues>,
}

impl ChangedTraces {
    /// Changes the settings of a model, after reading the previous ones.
    ///
    /// # Errors
    /// The server's reason if it refuses.
    pub fn make(server: Arc<dyn TraceControl>, model: &str, settings: &TraceSettings) -> Result<Self> {
        let values = values(settings);
        let before = before(server.as_ref(), model, &values).unwrap_or_else(|error| {
            note!("{error}; the trace settings of model '{model}' cannot be restored after the run");
            TraceValues::new()
        });
        let change = Arc::new(Change { server, model: model.to_owned(), before });
        CHANGES.lock().push(Arc::clone(&change));
        change.server.put_traces(model, &values).map_err(|error| {
            change.take();
            explained(error, settings)
        })?;
        let traces = settings.levels.as_ref().is_some_and(|levels| levels.contains(&TraceLevel::Timestamps));
        let now = if traces { change.server.traces(Some(model)).ok() } else { None };
        Ok(Self { change, values, now })
    }

    /// Reads the traces that the server writes, if moments are traced.
    ///
    /// # Errors
    /// If it does not write them to a file.
    pub fn reader(&self) -> Result<Option<Box<dyn ServerTraces>>> {
        let open = |now| FileTraces::new(Arc::clone(&self.change.server), &self.change.model, &self.values, now);
        let reader = self.now.as_ref().map(open).transpose()?;
        Ok(reader.map(|reader| Box::new(reader) as Box<dyn ServerTraces>))
    }
}

impl Drop for ChangedTraces {
    fn drop(&mut self) {
        if self.change.take() {
            self.change.undo();
        }
        // Traces are written out when the settings change.
        if let Some(files) = self.now.as_ref().and_then(written) {
            let model = &self.change.model;
            note!("the server's traces of model '{model}', on its machine: triton-bench trace-summary {files}");
        }
    }
}

/// The files that a server writes with these settings: one, or one for every N traces.
fn written(settings: &TraceValues) -> Option<String> {
    let word = |name: &str| settings.get(name)?.as_ref()?.first().filter(|word| !word.is_empty());
    let file = word("trace_file")?;
    let is_split = word("log_frequency").is_some_and(|frequency| frequency != "0");
    Some(if is_split { format!("{file}.*") } else { file.clone() })
}

/// Settings in the servers' format.
pub fn values(settings: &TraceSettings) -> TraceValues {
    settings.entries().map(|(name, words)| (name.to_owned(), Some(words))).collect()
}

/// The settings that `values` replace. A model whose settings equal the common ones is taken for one without its own.
fn before(server: &dyn TraceControl, model: &str, values: &TraceValues) -> Result<TraceValues> {
    let (all, mut model_settings) = (server.traces(None)?, server.traces(Some(model))?);
    let setting = |name: &String| {
        (name.clone(), model_settings.remove(name).filter(|words| all.get(name) != Some(words)).flatten())
    };
    Ok(values.keys().map(setting).collect())
}

/// Triton's refusals of trace settings do not give the reason: there is no trace file, or the traces are used up.
fn explained(error: Error, settings: &TraceSettings) -> Error {
    if settings.levels.is_some() && Refusal::TraceSetting.is_in(&error.to_string()) {
        return error.advice(
            "a server traces only if it was started with a trace file (--trace-config=triton,file=FILE), and only \
                until its trace count is used up: then set a new one with --trace-count",
        );
    }
    error
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server with settings for all models and for one.
    #[derive(Default)]
    struct Server {
        all: TraceValues,
        model: Mutex<TraceValues>,
    }

    impl TraceControl for Server {
        fn traces(&self, model: Option<&str>) -> Result<TraceValues> {
            let mut values = self.all.clone();
            values.extend(model.into_iter().flat_map(|_| self.model.lock().clone()));
            Ok(values)
        }

        fn put_traces(&self, _: &str, values: &TraceValues) -> Result<()> {
            for (name, words) in values {
                match words {
                    Some(words) => drop(self.model.lock().insert(name.clone(), Some(words.clone()))),
                    None => drop(self.model.lock().remove(name)),
                }
            }
            Ok(())
        }
    }

    fn word(name: &str, word: &str) -> (String, Option<Vec<String>>) {
        (name.to_owned(), Some(vec![word.to_owned()]))
    }

    #[test]
    fn the_files_are_named_that_traces_are_in() {
        let files = |values: &[(&str, &str)]| written(&values.iter().map(|(name, value)| word(name, value)).collect());
        assert_eq!(files(&[("trace_file", "/t.json"), ("log_frequency", "0")]).as_deref(), Some("/t.json"));
        assert_eq!(files(&[("trace_file", "/t.json"), ("log_frequency", "50")]).as_deref(), Some("/t.json.*"));
        assert_eq!((files(&[("trace_file", "")]), files(&[])), (None, None));
    }

    #[test]
    fn what_was_changed_is_put_back_and_nothing_else() {
        let all =
            TraceValues::from([word("trace_rate", "1000"), word("trace_count", "-1"), word("log_frequency", "0")]);
        let model_settings = TraceValues::from([word("trace_rate", "7")]);
        let server = Arc::new(Server { all, model: Mutex::new(model_settings.clone()) });
        let settings = TraceSettings { levels: None, rate: Some(1), count: Some(5), log_frequency: None };
        let changed = ChangedTraces::make(server.clone(), "m", &settings).unwrap();
        assert_eq!(*server.model.lock(), [word("trace_rate", "1"), word("trace_count", "5")].into());
        drop(changed);
        assert_eq!(*server.model.lock(), model_settings, "its own rate is back, and the count is the server's again");

        // An exit that drops nothing, or does so later.
        let changed = ChangedTraces::make(server.clone(), "m", &settings).unwrap();
        restore_all(Duration::from_secs(10));
        assert_eq!(*server.model.lock(), model_settings);
        server.model.lock().clear();
        drop(changed);
        assert!(server.model.lock().is_empty(), "once is enough");
    }
}
