//! What the network backends share: addresses, sockets with or without TLS, and words for what breaks on the way.

mod failure;
mod poller;
mod stream;
mod tls;
mod unregister;
mod url;

pub use failure::{closed, failure};
pub use poller::{Poller, wait_for};
pub use stream::{Connector, Stream};
pub use tls::TlsClient;
pub use unregister::unregister;
pub use url::Endpoint;
