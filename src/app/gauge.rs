//! The other processes on this machine, and the server among them.

use crate::engine::Endpoint;
use crate::machine::gauge::{Machine, Server};
use crate::machine::listener::{self, Place};
use crate::plan::{OnDisturbance, Plan};

/// Measures disturbances, unless the plan ignores them.
pub fn open(plan: &Plan) -> Option<Machine> {
    let is_wanted = plan.measurement.on_disturbance != Some(OnDisturbance::Ignore);
    let pinned = plan.load.worker_cpus.as_deref().unwrap_or_default();
    is_wanted.then(|| Machine::new(server(plan), pinned).beside(&plan.load.ranks.neighbours))
}

fn server(plan: &Plan) -> Server {
    if !plan.target.service.is_remote() {
        return Server::NotAmongOthers;
    }
    let connection = &plan.target.connection;
    let port = plan.target.service.port(&connection.protocol);
    let Ok(endpoint) = Endpoint::parse(&connection.url, port) else { return Server::OutOfSight };
    match listener::place(&endpoint.host) {
        Place::Here => Server::ListensOn(endpoint.port),
        Place::Elsewhere => Server::NotAmongOthers,
        Place::Unknown => Server::OutOfSight,
    }
}
