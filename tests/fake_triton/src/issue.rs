//! Issues a request: validates it as the real library does, then queues a job that plays its scripted lifecycle.

use std::ffi::c_int;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

use serde_json::{Value, json};

use crate::abi::{INVALID_ARG, Status, UNAVAILABLE, datatype, datatype_name, element_size};
use crate::delivery::{Job, State, checksum, now};
use crate::error::{OK, fail, live};
use crate::input::Input;
use crate::ledger::{log, violation};
use crate::request::{Body, Request};
use crate::response::Content;
use crate::script::{Behaviour, ModelScript, TensorSpec};
use crate::server::Server;
use crate::trace::{self, Activity, Trace};

/// Bytes of an input that the log shows.
const SHOWN: usize = 64;

#[unsafe(no_mangle)]
pub extern "C" fn TRITONSERVER_ServerInferAsync(
    server: *mut Server,
    request: *mut Request,
    trace: *mut Trace,
) -> Status {
    issue(server, request, trace)
}

fn issue(server: *mut Server, request: *mut Request, trace: *mut Trace) -> Status {
    let (owner, handle) = (server, request);
    let server = live!(server, "ServerInferAsync");
    let request = live!(request, "ServerInferAsync");
    if server.is_stopped() {
        return fail(
            UNAVAILABLE,
            "Server is stopping, scheduler for model has stopped accepting new inference requests",
        );
    }
    let made = request.with(|body| {
        if body.server != owner {
            return Err((INVALID_ARG, "the request was made for another server".to_owned()));
        }
        server.prepare(body, handle, trace)
    });
    match made {
        Err((code, message)) => {
            server.delivery.shared.counters.submit_errors.fetch_add(1, SeqCst);
            fail(code, &message)
        }
        Ok(job) => {
            trace::report(trace, Activity::RequestStart);
            trace::report(trace, Activity::QueueStart);
            job.start();
            job.linger();
            OK
        }
    }
}

type Refusal = (c_int, String);

impl Server {
    fn prepare(&self, body: &mut Body, request: *mut Request, trace: *mut Trace) -> Result<Arc<Job>, Refusal> {
        let ordinal = self.delivery.shared.counters.issued.fetch_add(1, SeqCst);
        if body.in_flight {
            violation("issued_in_flight", &format!("request {:?} was issued again before its release", body.id));
            return Err((INVALID_ARG, "the request is in flight".to_owned()));
        }
        if body.job.as_ref().is_some_and(|job| !job.is_final()) {
            violation(
                "issued_before_final",
                &format!("request {:?} was issued again before its final response", body.id),
            );
        }
        if body.job.as_ref().is_some_and(|job| job.is_looked_at_elsewhere()) {
            violation(
                "issued_in_response",
                &format!(
                    "request {:?} was issued again while the client had a response of its last issue on another thread",
                    body.id
                ),
            );
        }
        let (Some(release), Some((destination, response, userp))) = (body.release, body.response) else {
            violation("callbacks_missing", &format!("request {:?} was issued without its callbacks", body.id));
            return Err((INVALID_ARG, "the request has no callbacks".to_owned()));
        };
        let Some(model) = self.script.models.iter().find(|model| model.name == body.model) else {
            return Err((UNAVAILABLE, format!("model {} is gone", body.model)));
        };
        if self.script.server.log_requests {
            log(&describe(body, ordinal));
        }
        validate(body, model).map_err(|message| (INVALID_ARG, message))?;
        if self.script.server.is_since(2, 54) {
            validate_correlation(body, model).map_err(|message| (INVALID_ARG, message))?;
        }
        let behaviours = &self.script.requests;
        let behaviour = behaviours[(ordinal % behaviours.len() as u64) as usize].clone();
        if let Some(failure) = &behaviour.submit_error {
            return Err((failure.code(), failure.message.clone()));
        }
        trace::name_if_any(trace, &body.model, &body.id.to_string_lossy());
        let shared = Arc::clone(&self.delivery.shared);
        shared.counters.begin();
        let job = Arc::new(Job {
            shared,
            request,
            model: body.model.clone(),
            id: body.id.clone(),
            contents: contents(body, model, &behaviour),
            behaviour,
            destination,
            response: (response, userp),
            release,
            trace,
            checksum: checksum(body),
            issued_ns: now(),
            queue: ordinal as usize,
            state: State::default(),
        });
        body.in_flight = true;
        body.job = Some(Arc::clone(&job));
        Ok(job)
    }
}

fn describe(body: &Body, ordinal: u64) -> Value {
    let inputs: Vec<Value> = body
        .inputs
        .iter()
        .map(|input| {
            json!({
                "name": input.name, "datatype": datatype_name(input.datatype), "shape": input.shape,
                "byte_size": input.bytes(), "buffers": input.buffers.len(),
                "memory": input.buffers.first().map_or(0, |buffer| buffer.memory),
                "data": gather(input).iter().take(SHOWN).map(|byte| format!("{byte:02x}")).collect::<String>(),
            })
        })
        .collect();
    json!({
        "event": "request", "ordinal": ordinal, "ns": now(), "model": body.model, "version": body.version,
        "id": body.id.to_string_lossy(), "correlation": body.correlation, "flags": body.flags,
        "priority": body.priority, "timeout_us": body.timeout_us, "parameters": body.parameters,
        "inputs": inputs, "outputs": body.outputs,
    })
}

fn gather(input: &Input) -> Vec<u8> {
    input.buffers.iter().filter_map(|buffer| buffer.content()).flatten().copied().collect()
}

fn elements(shape: &[i64]) -> i64 {
    shape.iter().map(|dim| (*dim).max(0)).product()
}

fn validate(body: &Body, model: &ModelScript) -> Result<(), String> {
    let specs = model.tensors("input");
    for input in &body.inputs {
        let Some(spec) = specs.iter().find(|spec| spec.name == input.name) else {
            return Err(format!("unexpected inference input '{}' for model '{}'", input.name, model.name));
        };
        validate_input(input, spec, model)?;
    }
    for spec in specs.iter().filter(|spec| !spec.optional) {
        if !body.inputs.iter().any(|input| input.name == spec.name) {
            return Err(format!("input '{}' of model '{}' is missing", spec.name, model.name));
        }
    }
    let outputs = model.tensors("output");
    match body.outputs.iter().find(|name| !outputs.iter().any(|output| output.name == **name)) {
        Some(name) => Err(format!("unexpected inference output '{name}' for model '{}'", model.name)),
        None => Ok(()),
    }
}

/// From 25.01 on, correlation IDs must have the type that the model's control declares (core,
/// `InferenceRequest::ValidateCorrelationId`).
fn validate_correlation(body: &Body, model: &ModelScript) -> Result<(), String> {
    let Some(declared) = model.correlation_datatype() else { return Ok(()) };
    let sent = if body.correlation.is_string() { "BYTES" } else { "UINT64" };
    if (sent == "BYTES") == (declared == "TYPE_STRING") {
        return Ok(());
    }
    let name = &model.name;
    Err(format!("sequence batching control 'ID' data-type is '{sent}', but model '{name}' expects '{declared}'"))
}

fn validate_input(input: &Input, spec: &TensorSpec, model: &ModelScript) -> Result<(), String> {
    let name = &input.name;
    if input.datatype != spec.datatype {
        let (got, want) = (datatype_name(input.datatype), datatype_name(spec.datatype));
        return Err(format!("input '{name}' of model '{}' is {got}, expected {want}", model.name));
    }
    let fits = input.shape.len() == spec.shape.len()
        && input.shape.iter().zip(&spec.shape).all(|(got, want)| *want == -1 || got == want);
    if !fits || input.shape.iter().any(|dim| *dim < 0) {
        return Err(format!(
            "unexpected shape for input '{name}' for model '{}'. Expected {:?}, got {:?}",
            model.name, spec.shape, input.shape
        ));
    }
    let most = model.config["max_batch_size"].as_i64().unwrap_or(0);
    if model.batching() && input.shape[0] > most {
        return Err(format!("batch-size must be <= {most} for '{}'", model.name));
    }
    let size = i64::from(element_size(input.datatype)) * elements(&input.shape);
    if element_size(input.datatype) > 0 && size != input.bytes() as i64 {
        return Err(format!("input '{name}' has {} bytes, expected {size}", input.bytes()));
    }
    Ok(())
}

/// What the responses hold: what the script says, else echoes of the inputs.
fn contents(body: &Body, model: &ModelScript, behaviour: &Behaviour) -> Vec<Content> {
    if let Some(outputs) = &behaviour.outputs {
        return outputs
            .iter()
            .map(|output| {
                let datatype = datatype(&output.datatype);
                let bytes = output.byte_size.unwrap_or_else(|| natural_size(datatype, &output.shape));
                Content {
                    name: output.name.clone(),
                    datatype,
                    shape: output.shape.clone(),
                    bytes: vec![output.fill; bytes],
                }
            })
            .collect();
    }
    let inputs = model.tensors("input");
    let outputs = model.tensors("output").into_iter().enumerate();
    outputs
        .filter(|(_, output)| body.outputs.is_empty() || body.outputs.contains(&output.name))
        .map(|(index, output)| {
            let source = inputs.get(index).filter(|input| input.datatype == output.datatype);
            let source = source.and_then(|spec| body.inputs.iter().find(|input| input.name == spec.name));
            match source {
                Some(input) => Content {
                    name: output.name,
                    datatype: output.datatype,
                    shape: input.shape.clone(),
                    bytes: gather(input),
                },
                None => {
                    let shape: Vec<i64> = output.shape.iter().map(|dim| (*dim).max(1)).collect();
                    let bytes = vec![0; natural_size(output.datatype, &shape)];
                    Content { name: output.name, datatype: output.datatype, shape, bytes }
                }
            }
        })
        .collect()
}

/// Bytes of a tensor; elements of variable size are empty, so only their lengths count.
fn natural_size(datatype: c_int, shape: &[i64]) -> usize {
    let element = match element_size(datatype) {
        0 => 4,
        size => size as usize,
    };
    element * elements(shape) as usize
}
