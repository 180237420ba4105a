//! The program against a real `tritonserver` over HTTP and gRPC, end to end: what is promised about a network session.

mod anew;
mod connections;
mod disturbances;
mod endings;
mod far;
mod matrix;
mod metrics;
mod models;
mod parameters;
mod regions;
mod replicas;
mod restarts;
mod streams;
mod tls;
mod transports;

/// The number that follows `label` in a text.
fn figure(text: &str, label: &str) -> f64 {
    let tail = text.split_once(label).unwrap_or_else(|| panic!("no '{label}' in:\n{text}")).1;
    let number: String = tail.trim_start().chars().take_while(|c| c.is_ascii_digit() || *c == '.').collect();
    number.parse().unwrap_or_else(|_| panic!("no number after '{label}' in:\n{text}"))
}

/// Both protocols.
const PROTOCOLS: [&str; 2] = ["http", "grpc"];
