//! The client of every network service: sockets, connections, slots, deadlines, cancelling, reconnecting, and detecting
//! that a server is gone. It knows requests as *exchanges* with one or many responses, not what these mean.
//!
//! ```text
//! client        a worker's client: begin, wait, complete, give up     http1   services and queries over HTTP/1.1
//! exchanges     the state of the request in each slot                 url, connector, stream   addresses and sockets
//! transport     how exchanges share connections                       connecting, poller, deadline   making and waiting
//! serial        one at a time on each connection                      tally   which connections are lost
//! calls         many on one, or one on each: gRPC over HTTP/2, and single calls beside the load
//! reminder      what a server that was started again is told
//! connection_pool   which of fewer connections an exchange has
//! failure, advice   why there is no answer, and what to do about it
//! ```

#![deny(unsafe_code, clippy::print_stderr, clippy::print_stdout)]
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]
#![warn(missing_docs)]

pub mod advice;
pub mod calls;
mod client;
mod connecting;
mod connection_pool;
mod connector;
mod deadline;
mod exchange;
mod exchanges;
mod failure;
pub mod http1;
mod poller;
mod reminder;
pub mod serial;
mod server_wait;
mod stream;
mod tally;
mod transport;
mod url;

use ::{backend, data, plan, shm, wire};
use base::{clock, error, held, interrupt, limits, socket, stdio};

pub use client::NetworkClient;
pub use connecting::{Connecting, Progress, connect};
pub use connector::Connector;
pub use deadline::Deadline;
pub use exchanges::{ExchangeId, Exchanges};
pub use failure::{closed, failure, is_unanswered, late, malformed};
pub use poller::{MOST_CLIENTS, Poller, wait_for, wait_for_any};
pub use reminder::Reminder;
pub use server_wait::ServerWait;
pub use stream::Stream;
pub use tally::{ConnectionTally, TalliedConnection};
pub use transport::{Route, Transport};
pub use url::{Endpoint, escape_path};
