//! Tests without Triton: the program against scripted servers, its command line and files, and the library.

mod cli;
mod config;
mod connections;
mod contradictions;
mod data;
mod data_cost;
mod decisions;
mod declarations;
mod docs;
mod doctor;
mod dynamic_grpc;
mod every_mode;
mod exposition;
mod grpc_faults;
mod http_bounds;
mod http_faults;
mod http_tls;
mod init;
mod interrupts;
mod line_service;
mod many_steps;
mod odd_machines;
mod openai;
mod other_servers;
mod otlp;
mod refused;
mod replicas;
#[cfg(feature = "parquet")]
mod requests_file;
mod results;
mod scripted;
mod sequences;
mod server_wait;
mod shell;
#[path = "../support/mod.rs"]
mod support;
mod sweep;
mod test_runs;
mod tfserving;
mod torchserve;
mod trace_summary;
mod tune;
mod versions;
mod warm_up;
mod whole;
