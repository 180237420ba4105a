//! Several servers with the same models as one, among which requests are spread without a balancer.
//!
//! ```text
//! Replicas   asks all servers, and answers for them together     client   a worker's client of all servers
//! dealer     which server a request goes to                      places   where a client's requests are
//! ```

mod client;
mod dealer;
mod places;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::Value;

use crate::backend::{
    Backend, Capabilities, Client, ClientSpec, CompletionSink, IndexEntry, ModelControl, Network, ServerIdentity,
};
use crate::data::Payload;
use crate::error::{Error, Result};
use crate::model::statistics::StatisticsSnapshot;
use crate::model::{ModelId, ModelSpec};
use crate::plan::Spread;
use crate::replicas::client::ReplicatedClient;
use crate::replicas::dealer::Dealer;
use crate::stdio::note;

/// Several servers with the same models, all on the network.
pub struct Replicas {
    servers: Vec<Arc<dyn Backend>>,
    addresses: Vec<String>,
    dealer: Arc<Dealer>,
    /// The latest counters of each server, of one model or of all.
    last: Mutex<HashMap<(usize, Option<ModelId>), StatisticsSnapshot>>,
}

impl Replicas {
    /// Of these servers, at least one, at these addresses.
    pub fn new(servers: Vec<Arc<dyn Backend>>, addresses: Vec<String>, spread: Spread) -> Self {
        let dealer = Arc::new(Dealer::new(spread, servers.len()));
        Self { servers, addresses, dealer, last: Mutex::default() }
    }

    fn first(&self) -> &dyn Backend {
        self.servers[0].as_ref()
    }

    /// Asks every server; an error names the one that it is from.
    fn ask<T>(&self, question: impl Fn(&dyn Backend) -> Result<T>) -> Result<Vec<T>> {
        self.servers.iter().map(|server| question(server.as_ref())).collect()
    }
}

impl Replicas {
    /// The counters of all servers together, if all have them. The load goes on without one that is gone, and it counts no
    /// further.
    fn counters(
        &self,
        model: Option<&ModelId>,
        question: impl Fn(&dyn Backend) -> Result<Option<StatisticsSnapshot>>,
    ) -> Result<Option<StatisticsSnapshot>> {
        let mut sum = StatisticsSnapshot::default();
        for (number, server) in self.servers.iter().enumerate() {
            let key = (number, model.cloned());
            let counters = match question(server.as_ref()) {
                Ok(Some(counters)) => counters,
                Ok(None) => return Ok(None),
                Err(error) if server.is_gone() => self.last.lock().get(&key).cloned().ok_or(error)?,
                Err(error) => return Err(error),
            };
            sum = sum.plus(counters.clone());
            self.last.lock().insert(key, counters);
        }
        Ok(Some(sum))
    }
}

impl Backend for Replicas {
    fn capabilities(&self) -> Capabilities {
        let statistics = self.servers.iter().all(|server| server.capabilities().statistics);
        Capabilities { statistics, ..self.first().capabilities() }
    }

    fn server(&self) -> Option<ServerIdentity> {
        self.first().server()
    }

    fn model(&self, id: &ModelId) -> Result<ModelSpec> {
        let mut models = self.ask(|server| server.model(id))?.into_iter();
        let first = models.next().ok_or_else(|| Error::usage("-u: no server is named"))?;
        for (other, address) in models.zip(&self.addresses[1..]) {
            let first_address = &self.addresses[0];
            if let Some(part) = difference(&first, &other) {
                return Err(Error::usage(format!(
                    "-u {address}: its model '{id}' has other {part} than that of {first_address}, and requests are made once for \
                     all servers: give the servers the same model, or measure each by itself"
                )));
            }
            if first.config.hash != other.config.hash {
                note!("the servers at {first_address} and {address} run model '{id}' with different configurations");
            }
        }
        Ok(first)
    }

    fn prepare(&self, models: &Arc<[ModelSpec]>, payloads: &Arc<[Payload]>) -> Result<()> {
        self.ask(|server| server.prepare(models, payloads)).map(drop)
    }

    fn index(&self) -> Result<Vec<IndexEntry>> {
        self.first().index()
    }

    fn statistics(&self, id: &ModelId) -> Result<StatisticsSnapshot> {
        self.counters(Some(id), |server| server.statistics(id).map(Some)).map(Option::unwrap_or_default)
    }

    fn all_statistics(&self) -> Result<Option<StatisticsSnapshot>> {
        self.counters(None, |server| server.all_statistics())
    }

    fn metrics(&self, server: usize, line: &mut dyn FnMut(&str)) -> Result<()> {
        self.servers[server].metrics(0, line)
    }

    fn traces(&self) -> bool {
        false
    }

    fn is_dying(&self) -> bool {
        self.servers.iter().any(|server| server.is_dying())
    }

    fn reload(&self, models: &[ModelId]) -> Result<bool> {
        self.ask(|server| server.reload(models)).map(|reloaded| reloaded.into_iter().all(|done| done))
    }

    fn control(&self) -> Option<&dyn ModelControl> {
        self.servers.iter().all(|server| server.control().is_some()).then_some(self)
    }

    fn generates(&self) -> bool {
        self.first().generates()
    }

    fn servers(&self) -> &[String] {
        &self.addresses
    }

    fn network(&self) -> Option<&dyn Network> {
        Some(self)
    }

    fn open_client(&self, spec: ClientSpec, sink: Arc<dyn CompletionSink>) -> Result<Box<dyn Client>> {
        let open = |server: usize, spec, sink| self.servers[server].open_client(spec, sink);
        Ok(Box::new(ReplicatedClient::open(&self.dealer, &spec, sink, open)?))
    }
}

impl ModelControl for Replicas {
    fn configuration(&self, id: &ModelId) -> Result<Value> {
        self.first().control().ok_or_else(uncontrolled)?.configuration(id)
    }

    fn load(&self, model: &str, configuration: Option<&Value>, limit: Duration) -> Result<()> {
        self.ask(|server| server.control().ok_or_else(uncontrolled)?.load(model, configuration, limit)).map(drop)
    }
}

fn uncontrolled() -> Error {
    Error::server("a server does not load models on request")
}

impl Network for Replicas {
    fn is_gone(&self) -> bool {
        self.servers.iter().all(|server| server.is_gone())
    }

    fn connections(&self) -> usize {
        self.servers.iter().filter_map(|server| server.connections()).sum()
    }

    fn awaits_server(&self) -> bool {
        self.servers.iter().any(|server| server.awaits_server())
    }
}

/// What a request for the one model could not be for the other.
fn difference(left: &ModelSpec, right: &ModelSpec) -> Option<&'static str> {
    [
        ("inputs", left.inputs != right.inputs),
        ("outputs", left.outputs != right.outputs),
        ("batch sizes", left.max_batch_size != right.max_batch_size),
        ("responses (it is decoupled, or the other is)", left.decoupled != right.decoupled),
        ("scheduling", left.sequences != right.sequences || left.correlation != right.correlation),
    ]
    .into_iter()
    .find_map(|(part, differs)| differs.then_some(part))
}
