//! What the network backends share: addresses, sockets with or without TLS, and words for what breaks on the way.

mod connector;
mod deadline;
mod failure;
mod poller;
mod server_wait;
mod stream;
mod tally;
mod url;

pub use connector::Connector;
pub use deadline::Deadline;
pub use failure::{closed, failure, is_unanswered, late, malformed, tls_advice};
pub use poller::{Poller, wait_for};
pub use server_wait::ServerWait;
pub use stream::Stream;
pub use tally::{LineTally, TalliedLine};
pub use url::Endpoint;
