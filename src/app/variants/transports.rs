//! `--matrix transports`: how the server is reached.

use std::sync::atomic::AtomicUsize;

use crate::backends::kserve_http::DEFAULT_PORT;
use crate::engine::Endpoint;
use crate::error::{Error, Result};
use crate::plan::{Compression, Plan, Protocol, ServiceKind, TensorFormat};
use crate::program::TritonProgram;
use crate::shm::Placement;

/// The HTTP and gRPC addresses: of the running server that was named, or of one that is started.
pub fn urls(plan: &Plan, running: Option<&str>, interrupts: &AtomicUsize) -> Result<[String; 2]> {
    match running {
        Some(url) => addresses(url),
        None => TritonProgram::start(&plan.target, interrupts).map(|program| [program.http_url(), program.grpc_url()]),
    }
}

/// In process, if the plan is, HTTP and gRPC, each with tensors in the request and in system shared memory: names and plans, or why one
/// is missing.
pub fn ways(plan: &Plan, urls: &Result<[String; 2]>, decoupled: bool) -> Vec<(String, Result<Plan>)> {
    let mut ways = Vec::new();
    for shared in [false, true] {
        let name = |way: &str| if shared { format!("{way} + shared memory") } else { way.to_owned() };
        if plan.target.service.is_embedded() {
            ways.push((name("C API"), Ok(placed(plan, shared))));
        }
        for (way, protocol, number) in [("HTTP", http(), 0), ("gRPC", grpc(plan, decoupled), 1)] {
            let over = |urls: &[String; 2]| {
                let mut plan = placed(plan, shared);
                plan.target.service = ServiceKind::Triton;
                plan.target.connection.protocol = protocol;
                // The table has no column for them, and the server that we start has none.
                plan.target.metrics = None;
                plan.target.connection.url.clone_from(&urls[number]);
                plan
            };
            ways.push((name(way), urls.as_ref().map(over).map_err(Clone::clone)));
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

/// The plan of a running server at these addresses, from which its models are learned.
pub fn asked(plan: &Plan, [url, _]: &[String; 2]) -> Plan {
    let mut plan = plan.clone();
    (plan.target.connection.protocol, plan.target.metrics) = (http(), None);
    plan.target.connection.url.clone_from(url);
    plan
}

/// As the plan has it; decoupled models need streams.
fn grpc(plan: &Plan, decoupled: bool) -> Protocol {
    match plan.target.connection.protocol {
        Protocol::Grpc { streaming, compression } => Protocol::Grpc { streaming: streaming || decoupled, compression },
        Protocol::Http { .. } => Protocol::Grpc { streaming: decoupled, compression: Compression::None },
    }
}

/// `HTTP[,GRPC]`: without the second, gRPC uses the port after HTTP's, Triton's default.
fn addresses(url: &str) -> Result<[String; 2]> {
    if let Some((http, grpc)) = url.split_once(',') {
        return Ok([http.to_owned(), grpc.to_owned()]);
    }
    let mut endpoint = Endpoint::parse(url, DEFAULT_PORT)?;
    let Some(next) = endpoint.port.checked_add(1) else {
        return Err(Error::usage(format!(
            "-u '{url}': --matrix transports expects gRPC on the next port, which does not exist; pass both as \
                HTTP,GRPC"
        )));
    };
    endpoint.port = next;
    let scheme = if endpoint.secure { "grpcs://" } else { "" };
    Ok([url.to_owned(), format!("{scheme}{}", endpoint.authority())])
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
