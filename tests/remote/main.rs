//! The program against a real `tritonserver` over HTTP and gRPC, end to end: what is promised of a session on the network.

#![allow(clippy::disallowed_methods)] // Tests look at the program from outside, with a clock of their own.

#[path = "../support/authority.rs"]
#[allow(dead_code)]
mod authority;
mod endings;
#[path = "../support/http_server.rs"]
#[allow(dead_code)]
mod http_server;
mod parameters;
mod regions;
#[path = "../support/mod.rs"]
mod support;
mod tls;
mod transports;

/// Both protocols.
const PROTOCOLS: [&str; 2] = ["http", "grpc"];
