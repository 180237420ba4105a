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

/// What is owed.
struct Ledger {
    owed: Vec<Owed>,
    /// All is being given back, and nothing may be changed any more.
    is_closed: bool,
}

static LEDGER: Mutex<Ledger> = Mutex::new(Ledger { owed: Vec::new(), is_closed: false });

/// Notes that the model had this configuration before it is changed.
///
/// # Errors
/// If it must not be changed, because the program ends: what was given back would be lost again.
pub fn owe(server: &Arc<dyn Backend>, model: &str, configuration: &Value) -> Result<()> {
    let mut ledger = LEDGER.lock();
    if ledger.is_closed {
        return Err(Error::machine("the program ends, and loads no other configuration"));
    }
    if !ledger.owed.iter().any(|owed| owed.is(server, model)) {
        let (server, model) = (Arc::clone(server), model.to_owned());
        ledger.owed.push(Owed { server, model, configuration: configuration.clone() });
    }
    Ok(())
}

/// The model has its own configuration again.
pub fn settle(server: &Arc<dyn Backend>, model: &str) {
    LEDGER.lock().owed.retain(|owed| !owed.is(server, model));
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
    let owed = {
        let mut ledger = LEDGER.lock();
        ledger.is_closed = true;
        std::mem::take(&mut ledger.owed)
    };
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
