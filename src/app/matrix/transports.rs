//! `--matrix transports`: how the server is reached.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use crate::app::matrix::Way;
use crate::backend::Backend;
use crate::backends;
use crate::backends::kserve_http::DEFAULT_PORT;
use crate::engine::Endpoint;
use crate::error::{Error, Result};
use crate::plan::{Compression, Matrix, Plan, Protocol, ServiceKind, TensorFormat};
use crate::program::TritonProgram;
use crate::shm::Placement;

/// The server program that the network's ways lead to, where the plan names no running server and wants any.
pub fn program(plan: &Plan, kind: &Matrix, interrupts: &AtomicUsize) -> Option<Result<TritonProgram>> {
    let wanted = *kind == (Matrix::Transports { running: None });
    wanted.then(|| TritonProgram::start(&plan.target, interrupts))
}

/// In process, HTTP and gRPC, each with tensors in the request and in system shared memory. The network's ways lead to
/// the running server that was named, or to the one that was started.
pub fn ways(
    plan: &Plan,
    server: &Arc<dyn Backend>,
    (running, program): (Option<&str>, Option<&Result<TritonProgram>>),
) -> Vec<Way> {
    let urls = match (running, program) {
        (Some(url), _) => addresses(url),
        (None, Some(Ok(program))) => Ok([program.http_url(), program.grpc_url()]),
        (None, Some(Err(error))) => Err(error.clone()),
        (None, None) => Err(Error::server("no server was started")),
    };
    let decoupled = plan.target.models().any(|id| server.model(id).is_ok_and(|model| model.decoupled));
    let mut ways = Vec::new();
    for shared in [false, true] {
        let name = |way: &str| if shared { format!("{way} + shared memory") } else { way.to_owned() };
        ways.push(Way::open(name("C API"), placed(plan, shared), Ok(Arc::clone(server).into())));
        for (protocol, number) in [(http(), 0), (grpc(plan, decoupled), 1)] {
            let way = if number == 0 { "HTTP" } else { "gRPC" };
            let mut plan = placed(plan, shared);
            plan.target.service = ServiceKind::Triton;
            plan.target.connection.protocol = protocol;
            // The table has no place for them, and the server that we start has none.
            plan.target.metrics = None;
            let backend = urls.clone().and_then(|urls: [String; 2]| {
                plan.target.connection.url.clone_from(&urls[number]);
                backends::connect(&plan)
            });
            ways.push(Way::open(name(way), plan, backend));
        }
    }
    ways
}

fn placed(plan: &Plan, shared: bool) -> Plan {
    let mut plan = plan.clone();
    if shared {
        plan.data.input_placement = Placement::System;
        plan.data.output_placement = Placement::System;
        plan.data.shared_memory = true;
    }
    plan
}

fn http() -> Protocol {
    Protocol::Http { inputs: TensorFormat::Served, outputs: TensorFormat::Served, compression: Compression::None }
}

/// As the plan has it; decoupled models need streams.
fn grpc(plan: &Plan, decoupled: bool) -> Protocol {
    match plan.target.connection.protocol {
        Protocol::Grpc { streaming, compression } => Protocol::Grpc { streaming: streaming || decoupled, compression },
        Protocol::Http { .. } => Protocol::Grpc { streaming: decoupled, compression: Compression::None },
    }
}

/// `HTTP[,GRPC]`: without the second, gRPC is at the port after HTTP's, as Triton has it by itself.
fn addresses(given: &str) -> Result<[String; 2]> {
    if let Some((http, grpc)) = given.split_once(',') {
        return Ok([http.to_owned(), grpc.to_owned()]);
    }
    let mut endpoint = Endpoint::parse(given, DEFAULT_PORT)?;
    let Some(next) = endpoint.port.checked_add(1) else {
        return Err(Error::usage(format!(
            "-u '{given}': --matrix transports looks for gRPC at the next port, which there is not; pass both as HTTP,GRPC"
        )));
    };
    endpoint.port = next;
    let scheme = if endpoint.secure { "grpcs://" } else { "" };
    Ok([given.to_owned(), format!("{scheme}{}", endpoint.authority())])
}

#[cfg(test)]
mod tests {
    use super::addresses;

    #[test]
    fn grpc_is_at_the_next_port_or_where_it_is_said() {
        assert_eq!(addresses("h:8000").unwrap(), ["h:8000", "h:8001"]);
        assert_eq!(addresses("h").unwrap(), ["h", "h:8001"]);
        assert_eq!(addresses("http://[::1]:9/x").unwrap(), ["http://[::1]:9/x", "[::1]:10"]);
        assert_eq!(addresses("https://h:5").unwrap(), ["https://h:5", "grpcs://h:6"]);
        assert_eq!(addresses("h:1,g:2").unwrap(), ["h:1", "g:2"]);
        for wrong in ["h:x", "h:65535"] {
            assert!(addresses(wrong).unwrap_err().to_string().contains(wrong));
        }
    }
}
