//! What else runs on this machine, and where the server is among it.

use crate::engine::Endpoint;
use crate::machine::gauge::{Machine, Server};
use crate::machine::listener::{self, Place};
use crate::plan::{OnDisturbance, Plan};

/// What tells of disturbances, unless the plan says that nobody looks.
pub fn gauge(plan: &Plan) -> Option<Machine> {
    let looks = plan.measurement.on_disturbance != Some(OnDisturbance::Ignore);
    let pinned = plan.load.worker_cpus.as_deref().unwrap_or_default();
    looks.then(|| Machine::new(server(plan), pinned).beside(&plan.load.ranks.neighbours))
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
