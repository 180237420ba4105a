//! Configurations that a search has changed on servers that are not ours, and owes them back.

use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::Value;

use crate::backend::{Backend, LOAD_LIMIT};
use crate::clock::Stamp;
use crate::error::{Error, Result};

/// A model of a server, and the configuration that it had.
struct Owed {
    server: Arc<dyn Backend>,
    model: String,
    configuration: Value,
}

static OWED: Mutex<Vec<Owed>> = Mutex::new(Vec::new());

/// Notes that the model had this configuration before it was changed.
pub fn owe(server: &Arc<dyn Backend>, model: &str, configuration: &Value) {
    let mut owed = OWED.lock();
    if !owed.iter().any(|owed| owed.is(server, model)) {
        owed.push(Owed { server: Arc::clone(server), model: model.to_owned(), configuration: configuration.clone() });
    }
}

/// The model has its own configuration again.
pub fn settle(server: &Arc<dyn Backend>, model: &str) {
    OWED.lock().retain(|owed| !owed.is(server, model));
}

impl Owed {
    fn is(&self, server: &Arc<dyn Backend>, model: &str) -> bool {
        Arc::ptr_eq(&self.server, server) && self.model == model
    }

    fn pay(&self) -> Result<()> {
        let control = self.server.control().ok_or_else(|| Error::server("it loads no models on request"))?;
        control.load(&self.model, Some(&self.configuration), LOAD_LIMIT)
    }
}

/// Asks the servers to load what they are owed, for an exit that must not take longer than `limit`. Returns which models
/// have not confirmed it: a server that was asked goes on loading.
pub fn settle_all(limit: Duration) -> Vec<String> {
    let owed = std::mem::take(&mut *OWED.lock());
    let mut open: Vec<String> = owed.iter().map(|owed| owed.model.clone()).collect();
    let (sender, receiver) = mpsc::channel();
    for owed in owed {
        let sender = sender.clone();
        // A model that loads keeps its server from answering, but not another one's.
        let pay = move || {
            if owed.pay().is_ok() {
                // Nobody may be waiting any more.
                let _ = sender.send(owed.model);
            }
        };
        drop(thread::Builder::new().name("own configuration".to_owned()).spawn(pay));
    }
    drop(sender);
    let end = Stamp::now().plus_duration(limit);
    while let Ok(model) = receiver.recv_timeout(end.from_now()) {
        open.retain(|other| *other != model);
    }
    open
}
