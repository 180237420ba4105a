//! The program against a real `tritonserver` over HTTP and gRPC, end to end: what is promised of a session on the network.

#![allow(clippy::disallowed_methods)] // Tests look at the program from outside, with a clock of their own.

#[path = "../support/authority.rs"]
#[allow(dead_code)]
mod authority;
mod disturbances;
mod endings;
mod far;
#[path = "../support/far.rs"]
mod far_away;
#[path = "../support/http_server.rs"]
#[allow(dead_code)]
mod http_server;
mod matrix;
mod metrics;
mod models;
mod parameters;
mod regions;
mod restarts;
mod streams;
#[path = "../support/mod.rs"]
mod support;
mod tls;
mod transports;

/// The number that follows `label` in a text.
fn figure(text: &str, label: &str) -> f64 {
    let rest = text.split_once(label).unwrap_or_else(|| panic!("no '{label}' in:\n{text}")).1;
    let number: String = rest.trim_start().chars().take_while(|c| c.is_ascii_digit() || *c == '.').collect();
    number.parse().unwrap_or_else(|_| panic!("no number after '{label}' in:\n{text}"))
}

/// Both protocols.
const PROTOCOLS: [&str; 2] = ["http", "grpc"];
