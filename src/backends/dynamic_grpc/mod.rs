//! Any method of any gRPC service. Unary calls and streams of either side are the same bytes: a call sends the messages
//! of one step, ends our side, and is over when the server ends its own; it succeeded if the status is 0.
//!
//! ```text
//! DynamicGrpc    connects to the service; opens clients      bodies      steps as the bytes of calls
//! service        calls, and what their answers mean          generator   messages that a command writes
//!                                                            schema      messages as JSON, by a .proto file
//! ```

mod bodies;
#[cfg(fuzzing)]
pub mod fuzzing;
mod generator;
mod schema;
mod service;

use std::sync::Arc;

use self::bodies::Bodies;
use self::schema::Schema;
use self::service::Calls;
use crate::backend::{Backend, Capabilities, Client, ClientSpec, ClientTimes, CompletionSink, Network, Threading};
use crate::data::Payload;
use crate::engine::calls::{self, CallHeaders, CallPlan};
use crate::engine::{Route, ServerWait, advice};
use crate::error::{Error, Result};
use crate::model::{DataType, ModelId, ModelSpec, TensorSpec};
use crate::plan::{Compression, GrpcMethod, Target};
use crate::prepared::Prepared;

/// Names of the client's share of a request in reports. They apply to calls with any number of messages: sending ends
/// with the last frame, waiting with the first message of the answer, receiving with the trailers.
pub const CLIENT_TIMES: ClientTimes =
    ClientTimes { transport: "gRPC", both: "send/recv", send: "send", receive: "receive", streams: true };

/// A service whose method is called.
pub struct DynamicGrpc {
    route: Route,
    headers: CallHeaders,
    method: GrpcMethod,
    schema: Option<Schema>,
    compression: Compression,
    bodies: Prepared<Bodies>,
}

impl DynamicGrpc {
    /// Reads the description of the method, if there is one, and waits until the server that `target` names can be
    /// reached.
    ///
    /// # Errors
    /// If the description does not contain the method, or the server is not there in time.
    pub fn connect(target: &Target) -> Result<Self> {
        let (connection, plan) = (&target.connection, &target.dynamic_grpc);
        let method = plan.method.clone().ok_or_else(|| Error::usage("--grpc-method is missing"))?;
        let schema = plan.proto.as_ref().map(|file| Schema::read(file, &plan.includes, &method)).transpose()?;
        let route = Route::to(connection, target.service.port(&connection.protocol), &["h2"])?;
        let headers = CallHeaders::new(&method.service, route.endpoint(), connection)?;
        let compression = connection.protocol.compression();
        let service = Self { route, headers, method, schema, compression, bodies: Prepared::default() };
        service.await_server(&ServerWait::new(connection.server_wait))?;
        Ok(service)
    }

    /// A service need not report readiness; it must accept connections.
    fn await_server(&self, wait: &ServerWait) -> Result<()> {
        let reach = |limit| calls::reach(&self.route.connector, limit);
        wait.retry(reach, |error| advice::grpcs(error).is_some()).map_err(|reason| {
            let failed = Error::server(format!(
                "gRPC server {}: it cannot be reached within {} s (--server-wait): {reason}",
                self.route.endpoint(),
                wait.seconds()
            ));
            advice::no_grpc(&reason, self.route.endpoint()).into_iter().fold(failed, Error::advice)
        })
    }

    fn bodies(&self, payloads: &Arc<[Payload]>) -> Result<Arc<Bodies>> {
        self.bodies.get_or_make(payloads, || Bodies::make(payloads, self.schema.as_ref(), self.compression))
    }
}

impl Backend for DynamicGrpc {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            service_kind: "DYNAMIC_GRPC",
            threading: Threading::Driven,
            client_times: Some(CLIENT_TIMES),
            cancels_alone: false,
            statistics: false,
        }
    }

    /// The possible content of a data step, and any number of answer messages.
    fn model(&self, id: &ModelId) -> Result<ModelSpec> {
        let generator = TensorSpec::plain(generator::INPUT, DataType::Bytes, vec![1]);
        let payload = TensorSpec::plain(schema::INPUT, DataType::Json, vec![-1]);
        let optional = |tensor: TensorSpec| TensorSpec { optional: true, ..tensor };
        let (inputs, outputs) = match self.schema {
            None => (vec![generator], Vec::new()),
            Some(_) => (
                vec![optional(payload), optional(generator)],
                vec![TensorSpec::plain(schema::OUTPUT, DataType::Json, vec![1])],
            ),
        };
        Ok(ModelSpec { decoupled: true, ..ModelSpec::plain(id, inputs, outputs) })
    }

    fn prepare(&self, _: &Arc<[ModelSpec]>, payloads: &Arc<[Payload]>) -> Result<()> {
        self.bodies(payloads).map(drop)
    }

    fn network(&self) -> Option<&dyn Network> {
        Some(&self.route)
    }

    fn open_client(&self, spec: ClientSpec, sink: Arc<dyn CompletionSink>) -> Result<Box<dyn Client>> {
        let plan = CallPlan {
            route: self.route.clone(),
            fields: self.headers.fields(&self.method.name, Some(self.compression), self.route.limit),
            streaming: false,
        };
        let answers = self.schema.as_ref().map(Schema::answer);
        calls::open(Calls::new(self.bodies(&spec.payloads)?, answers, &spec), plan, &spec, sink)
    }
}
