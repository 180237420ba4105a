//! The other processes on this machine, and the server among them.

use crate::engine::Endpoint;
use crate::machine::host_monitor::{Machine, Server};
use crate::machine::listener::{self, Place};
use crate::plan::{ConnectionPlan, Plan};
use crate::terms::OnDisturbance;

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
    let locate = |connection: &ConnectionPlan| {
        let port = plan.target.service.port(&connection.protocol);
        let Ok(endpoint) = Endpoint::parse(&connection.url, port) else { return Server::OutOfSight };
        match listener::locate(&endpoint.host) {
            Place::Here => Server::ListensOn { port: endpoint.port, is_triton: plan.target.service.is_triton() },
            Place::Elsewhere => Server::NotAmongOthers,
            Place::Unknown => Server::OutOfSight,
        }
    };
    let mut places = plan.target.connections().map(locate);
    match (places.next(), places.next()) {
        (Some(only), None) => only,
        (Some(Server::NotAmongOthers), Some(Server::NotAmongOthers))
            if places.all(|server| server == Server::NotAmongOthers) =>
        {
            Server::NotAmongOthers
        }
        // Several may be on this machine.
        _ => Server::OutOfSight,
    }
}
