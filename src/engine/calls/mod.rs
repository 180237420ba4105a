//! gRPC: exchanges that share one HTTP/2 connection, each its own call or a message on a long-lived stream; or, with
//! `--connections new`, calls that each make a connection.
//!
//! All slots of a client share the connection. All answers of one read are completed before anything is written, so
//! that the requests that follow them leave in one write. With 16 outstanding against Triton on two cores, one
//! connection was at least as fast as two, four or sixteen.
//!
//! A long-lived stream can only be given up as a whole, so a request on it is cancelled only while it is the only one.

mod body;
mod connection;
mod connection_per_call;
pub mod events;
mod headers;
mod questions;
mod socket;
pub mod status;
pub mod streams;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

pub use body::{MessageBody, put_message, tensor_bytes};
pub use headers::{CallHeaders, Fields};
pub use questions::Questions;
pub use streams::parse_id;

use crate::backend::{Client, ClientSpec, CompletionSink, InferError, Request};
use crate::calls::connection::MultiplexedConnection;
use crate::calls::connection_per_call::ConnectionPerCall;
use crate::calls::socket::{CONNECT_LIMIT, Http2Socket};
use crate::error::Result;
use crate::wire::grpc::Wish;
use crate::{Connector, Deadline, Exchanges, NetworkClient, Route};

/// A method of a service over gRPC: how requests become messages, and what messages mean.
pub trait Method: Send {
    /// Makes sure that there are at least `slots` slots.
    ///
    /// # Errors
    /// If there cannot be another.
    fn grow(&mut self, slots: usize) -> Result<()>;

    /// The body of a request, gRPC's prefix included: bytes to copy, then tensors by reference. On a long-lived stream,
    /// the answers must name `id`, which is empty otherwise.
    ///
    /// # Errors
    /// If the client is of no further use.
    fn encode(&mut self, slot: usize, request: Request, id: &[u8]) -> Result<(&[u8], &[Bytes])>;

    /// Index of the model that a request is for: equal sequence ids of different models are different sequences.
    fn model_of(&self, request: Request) -> usize;

    /// Whether one call may be answered by any number of messages; it is over when the server ends it.
    fn streams_answers(&self) -> bool {
        false
    }

    /// What to do with the answer to a request's own call.
    fn wish(&self, slot: usize, exchanges: &Exchanges) -> Wish;

    /// Largest answer, in bytes.
    fn longest(&self) -> u64;

    /// The answer to a request's own call, or one message of it, has arrived; `None` if its bytes were not wanted.
    ///
    /// # Errors
    /// Why the request fails; its call is then given up.
    fn answer(&mut self, slot: usize, message: Option<&[u8]>, exchanges: &mut Exchanges) -> Result<(), InferError>;

    /// A message has arrived on a long-lived stream; [`parse_id`] says which request it belongs to. The service ends
    /// the exchange with its last message.
    ///
    /// # Errors
    /// Why every request on the stream fails.
    fn stream_answer(&mut self, message: &[u8], exchanges: &mut Exchanges) -> Result<(), InferError>;
}

/// How a client makes its calls.
#[derive(Clone)]
pub struct CallPlan {
    /// How its connection is made.
    pub route: Route,
    /// Header fields of its calls.
    pub fields: Fields,
    /// Whether requests use long-lived streams, one for each slot. There are none where each request makes a connection.
    pub streaming: bool,
}

/// Connects and disconnects, to check that there is a server that speaks HTTP/2.
///
/// # Errors
/// Why it cannot be reached within `limit`.
pub fn reach(connector: &Connector, limit: Duration) -> Result<(), InferError> {
    Http2Socket::connect(connector, Deadline::within(limit.min(CONNECT_LIMIT))).map(|mut line| line.shutdown())
}

/// Opens a client of a method over gRPC.
///
/// # Errors
/// If the server cannot be reached, or the system is out of file descriptors.
pub fn open<M: Method + 'static>(
    method: M,
    plan: CallPlan,
    spec: &ClientSpec,
    sink: Arc<dyn CompletionSink>,
) -> Result<Box<dyn Client>> {
    plan.route.remind_early();
    let limit = plan.route.limit;
    if plan.route.renew {
        let transport = ConnectionPerCall::new(method, plan, spec.connections)?;
        return Ok(Box::new(NetworkClient::open(transport, spec, limit, sink)?));
    }
    Ok(Box::new(NetworkClient::open(MultiplexedConnection::new(method, plan), spec, limit, sink)?))
}
