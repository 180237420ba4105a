//! Tests that need a real Triton, in the program's own process and over the network.

mod cuda;
mod decisions;
mod docs;
mod grpc_server;
mod http_triton;
mod in_process;
mod init;
mod input_data;
mod load_modes;
mod ranks;
mod releases;
mod remote;
mod report;
mod request_options;
mod resume;
mod shared_memory;
#[path = "../support/mod.rs"]
mod support;
mod terminal;
mod tune;
mod validation;
mod variants;
mod waterfall;
