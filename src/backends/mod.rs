//! The implementations of [`crate::backend::Backend`], one for each way to reach a server. Only [`connect`] knows them
//! all.
//!
//! ```text
//! c_api                                         Triton in this process
//! kserve_http, kserve_grpc                      KServe v2, which Triton speaks on the network
//! kserve                                        what both of them need
//! openai, tfserving, torchserve, dynamic_grpc   other services
//! tokens                                        around any of them: counts generated tokens
//! replicas                                      several servers of any of them, as one
//!
//! json, triton_json                             tensors and Triton's documents as JSON
//! prepared                                      payloads as a service sends them, made once for all clients
//! metrics                                       a server's metrics, over HTTP
//! model_list                                    the models that a server offers
//! owed                                          configurations that servers get back
//! unready                                       models that are loaded, but not ready
//! ```

#![deny(unsafe_code, clippy::print_stderr, clippy::print_stdout)]
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]
#![warn(missing_docs)]

pub mod c_api;
pub mod dynamic_grpc;
mod json;
pub mod kserve;
pub mod kserve_grpc;
pub mod kserve_http;
mod metrics;
mod model_list;
pub mod openai;
pub mod owed;
mod prepared;
mod replicas;
pub mod tfserving;
pub mod tokens;
pub mod torchserve;
pub mod triton_json;
mod unready;

use ::{backend, data, engine, model, plan, program, shm, traces, wire};
use ::program::processes;
use ::stats::seed;
use base::{chunks, clock, error, held, machine, signals, stdio, sync};

pub use crate::backend::null;
pub use model_list::ListedModel;

use std::sync::Arc;
use std::time::Duration;

use crate::backend::Backend;
use crate::clock::Stamp;
use crate::engine::Endpoint;
use crate::error::{Error, Result};
use crate::kserve::regions;
use crate::kserve::trace_settings::{self, ChangedTraces, TraceControl};
use crate::plan::{ConnectionPlan, MixEntry, Plan, Protocol, ServiceKind, Target};
use crate::replicas::Replicas;

/// A connected server.
pub struct Connected {
    /// The backend.
    pub backend: Arc<dyn Backend>,
    /// Settings changed there for the run.
    pub traces: Option<ChangedTraces>,
}

impl From<Arc<dyn Backend>> for Connected {
    fn from(backend: Arc<dyn Backend>) -> Self {
        Self { backend, traces: None }
    }
}

/// How to reach the server of a plan: [`connect`], or another crate's function for its own service.
pub type Connect = fn(&Plan) -> Result<Connected>;

/// The default of `--server-wait`.
const USUAL_WAIT: Duration = Duration::from_secs(5);

/// How long a program that leaves at once lets network servers restore settings and unregister regions.
const FORGET_LIMIT: Duration = Duration::from_millis(500);

/// Every model of the plan's server, ordered by name; only `only`, if it is given.
///
/// # Errors
/// If the server cannot be reached or does not list its models, or has none of that name.
pub fn model_list(plan: &Plan, only: Option<&str>) -> Result<Vec<ListedModel>> {
    let found = match plan.target.service {
        ServiceKind::TritonCApi => c_api::TritonInProcess::survey(&plan.target, only)?,
        ServiceKind::Triton => model_list::survey(&reach(plan)?.backend, only)?,
        other => {
            let rule = "only Triton and servers of KServe's protocol list their models";
            return Err(Error::usage(format!("--service-kind {}: {rule}; leave it out", other.name())));
        }
    };
    match only {
        Some(name) if found.is_empty() => Err(Error::usage(format!("-m '{name}': the server has no such model"))),
        _ => Ok(found),
    }
}

/// The first model that the server lists, if the plan leaves open which one to measure.
///
/// # Errors
/// If the server cannot be reached, or does not list its models.
pub fn first_model(target: &Target) -> Result<Option<String>> {
    let is_open = target.service == ServiceKind::OpenAi && target.model.name.is_empty();
    if !is_open {
        return Ok(None);
    }
    let connection = &target.connection;
    let usual = connection.url == format!("localhost:{}", target.service.port(&connection.protocol));
    let server = match usual && connection.server_wait <= USUAL_WAIT {
        // Who named neither a model nor a server has forgotten something, and need not wait to hear of it.
        true => {
            let connection = ConnectionPlan { server_wait: Duration::ZERO, ..connection.clone() };
            let connected = openai::OpenAiBackend::connect(&Target { connection, ..target.clone() });
            connected.map_err(|error| Error::usage(format!("-m is missing, and {error}")))?
        }
        false => openai::OpenAiBackend::connect(target)?,
    };
    let unnamed = |error| Error::usage(format!("-m is missing, and the server names no model: {error}; name one"));
    server.first_model().map(Some).map_err(unnamed)
}

/// Connects to the plan's server, and makes its model ready.
///
/// # Errors
/// If the server or the model is not available, with the server's own reason.
pub fn connect(plan: &Plan) -> Result<Connected> {
    Ok(counting(reach(plan)?, plan))
}

/// The same, counting generated tokens if the plan names the output that contains them.
fn counting(connected: Connected, plan: &Plan) -> Connected {
    match &plan.target.tokens_from {
        None => connected,
        Some(output) => {
            Connected { backend: Arc::new(tokens::CountedTokens::new(connected.backend, output)), ..connected }
        }
    }
}

/// Starts one server in this process for several plans, which differ only in their models: all of them are loaded.
///
/// # Errors
/// As [`connect`].
pub fn host(plans: &[&Plan]) -> Result<Arc<dyn Backend>> {
    let mut target = plans[0].target.clone();
    target.mix.clear();
    for plan in plans {
        let models =
            plan.target.models().map(|model| MixEntry { model: model.clone(), share: 1.0, parameters: Vec::new() });
        target.mix.extend(models);
        target.bls_composing.extend(plan.target.bls_composing.iter().cloned());
    }
    target.bls_composing.sort();
    target.bls_composing.dedup();
    Ok(Arc::new(c_api::TritonInProcess::start(&target)?))
}

/// A plan's connection to a server started by [`host`].
pub fn through(host: &Arc<dyn Backend>, plan: &Plan) -> Connected {
    counting(Arc::clone(host).into(), plan)
}

/// Stops the servers that this process started, in itself or as programs, so that others can be started; the stopped
/// ones must not be used any more.
///
/// # Errors
/// If one could not be stopped.
pub fn halt_servers(waiting: &dyn Fn(String)) -> Result<()> {
    program::ask_to_stop();
    let halted = c_api::halt_servers(waiting);
    program::await_stops(waiting);
    halted
}

fn reach(plan: &Plan) -> Result<Connected> {
    if plan.target.replicas.is_empty() {
        return reach_one(plan);
    }
    let endpoint =
        |connection: &ConnectionPlan| Endpoint::parse(&connection.url, plan.target.service.port(&connection.protocol));
    let endpoints = plan.target.connections().map(endpoint).collect::<Result<Vec<_>>>()?;
    check_pages(&plan.target, &endpoints)?;
    let mut servers = Vec::new();
    for connection in plan.target.connections() {
        let target = Target { connection: connection.clone(), replicas: Vec::new(), ..plan.target.clone() };
        servers.push(reach_one(&Plan { target, ..plan.clone() })?.backend);
    }
    let addresses = endpoints.iter().map(Endpoint::to_string).collect();
    let backend: Arc<dyn Backend> = Arc::new(Replicas::new(servers, addresses, plan.target.spread));
    Ok(backend.into())
}

/// Refuses to read one page of metrics for two servers, whose figures would then count twice.
fn check_pages(target: &Target, servers: &[Endpoint]) -> Result<()> {
    let mut pages: Vec<Endpoint> = Vec::new();
    for (connection, server) in target.connections().zip(servers) {
        if target.metrics.is_none() && connection.metrics_url.is_none() {
            continue;
        }
        let page = match target.service {
            ServiceKind::OpenAi => metrics::page_beside(connection, server)?,
            _ => metrics::page(connection, server)?,
        };
        if let Some(earlier) = pages.iter().position(|other| metrics::is_same_page(other, &page)) {
            return Err(Error::usage(format!(
                "-u {} and -u {server}: the metrics of both would be read from {}: give --metrics-url for each -u, in their \
                 order",
                servers[earlier],
                page.http_url()
            )));
        }
        pages.push(page);
    }
    Ok(())
}

fn reach_one(plan: &Plan) -> Result<Connected> {
    let (target, batches) = (&plan.target, plan.data.batch_given);
    let here = |backend: Arc<dyn Backend>| Ok(backend.into());
    match target.service {
        ServiceKind::TritonCApi => here(Arc::new(c_api::TritonInProcess::start(target)?)),
        ServiceKind::DynamicGrpc => here(Arc::new(dynamic_grpc::DynamicGrpc::connect(target)?)),
        ServiceKind::TfServing => here(tfserving::connect(plan)?),
        ServiceKind::TorchServe => here(Arc::new(torchserve::TorchServe::connect(plan)?)),
        ServiceKind::Null => here(Arc::new(null::NullBackend)),
        ServiceKind::OpenAi => here(Arc::new(openai::OpenAiBackend::connect(target)?)),
        ServiceKind::Triton => match target.connection.protocol {
            Protocol::Http { .. } => {
                traced(target, Arc::new(kserve_http::HttpBackend::connect(&target.connection)?.with_batches(batches)))
            }
            Protocol::Grpc { .. } => {
                traced(target, Arc::new(kserve_grpc::GrpcBackend::connect(&target.connection)?.with_batches(batches)))
            }
        },
    }
}

fn traced<B: Backend + TraceControl + 'static>(target: &Target, backend: Arc<B>) -> Result<Connected> {
    let change = |settings| ChangedTraces::make(backend.clone(), &target.model.name, settings);
    let traces = target.trace.as_ref().map(change).transpose()?;
    Ok(Connected { backend, traces })
}

/// Stops every server that this process started, in itself or as a program. `waiting` receives the reason of the wait,
/// which is unlimited. Returns whether nothing of them is left in this process that could still run.
pub fn stop_servers(waiting: &dyn Fn(String)) -> bool {
    program::ask_to_stop();
    let stopped = c_api::stop_servers(waiting);
    program::await_stops(waiting);
    stopped
}

/// Kills what servers started below this process, and removes the shared memory of python models, for an exit that must
/// not wait. Network servers get their trace settings back, and regions are unregistered there, as far as that is possible
/// at once.
pub fn abandon_servers() {
    let until = Stamp::now().plus_duration(FORGET_LIMIT);
    trace_settings::restore_all(FORGET_LIMIT);
    regions::forget_all(until.from_now());
    c_api::prevent_forks();
    processes::end_all();
    c_api::unlink_python_regions();
}
