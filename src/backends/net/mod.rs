//! What the network backends share: addresses, sockets with or without TLS, words for what breaks on
//! the way, and shared memory that the server was told of.

mod connector;
mod deadline;
mod failure;
mod poller;
pub mod regions;
mod server_wait;
mod stream;
mod tally;
mod tls;
mod url;

pub use connector::Connector;
pub use deadline::Deadline;
pub use failure::{closed, failure, is_unanswered, late, tls_advice};
pub use poller::{Poller, wait_for};
pub use server_wait::ServerWait;
pub use stream::Stream;
pub use tally::{LineTally, TalliedLine};
pub use tls::TlsClient;
pub use url::Endpoint;
