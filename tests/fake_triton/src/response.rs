//! Responses: outputs in the client's memory, or an error.

use std::ffi::{CString, c_char, c_int, c_void};
use std::ptr::null_mut;

use serde_json::{Map, Value};

use crate::abi::{INTERNAL, INVALID_ARG, MEMORY_GPU, Status};
use crate::allocator::{self, Allocator};
use crate::error::{OK, fail, give, live};
use crate::ledger::{self, Kind, Object};
use crate::script::{AllocFailure, Behaviour};

/// What an output is to hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Content {
    pub name: String,
    pub datatype: c_int,
    pub shape: Vec<i64>,
    pub bytes: Vec<u8>,
}

struct Output {
    name: CString,
    datatype: c_int,
    shape: Vec<i64>,
    base: *mut c_void,
    bytes: usize,
    memory: c_int,
    device: i64,
    userp: *mut c_void,
    claimed: bool,
}

enum Parameter {
    String(CString),
    Int(i64),
    Bool(bool),
    Double(f64),
}

/// A response.
pub struct Response {
    model: CString,
    id: CString,
    error: Option<(c_int, String)>,
    outputs: Vec<Output>,
    parameters: Vec<(CString, Parameter)>,
    allocator: *mut Allocator,
}

impl Object for Response {
    const KIND: Kind = Kind::Response;
}

/// Where a response goes.
#[derive(Clone, Copy)]
pub struct Destination {
    pub allocator: *mut Allocator,
    pub userp: *mut c_void,
}

impl Response {
    /// Starts a response: the allocator hears of it.
    pub fn new(model: &str, id: &str, destination: Destination) -> Response {
        if let Some(allocator) = ledger::borrow(destination.allocator, "a response") {
            allocator.join();
            if let Some(start) = allocator.start {
                // SAFETY: the client's function with the client's pointer.
                discard(unsafe { start(destination.allocator, destination.userp) });
            }
        }
        Response {
            model: CString::new(model).unwrap_or_default(),
            id: CString::new(id).unwrap_or_default(),
            error: None,
            outputs: Vec::new(),
            parameters: Vec::new(),
            allocator: destination.allocator,
        }
    }

    /// Makes it an error.
    pub fn fail(mut self, code: c_int, message: &str) -> Response {
        self.error = Some((code, message.to_owned()));
        self
    }

    /// Fills it as scripted.
    pub fn fill(mut self, contents: &[Content], behaviour: &Behaviour, destination: Destination) -> Response {
        for content in contents {
            let output = ask(content, behaviour, destination);
            let failed = output.base.is_null() && output.bytes > 0;
            self.outputs.push(output);
            if failed && behaviour.on_alloc_failure == AllocFailure::Error {
                return self.fail(INTERNAL, &format!("no memory for output {}", content.name));
            }
        }
        self.parameters = parameters(&behaviour.response_parameters);
        self
    }
}

fn ask(content: &Content, behaviour: &Behaviour, destination: Destination) -> Output {
    let name = CString::new(content.name.as_str()).unwrap_or_default();
    let bytes = content.bytes.len();
    let (mut base, mut userp) = (null_mut(), null_mut());
    let (mut memory, mut device) = (behaviour.preferred_memory as c_int, 0);
    if let Some(allocator) = ledger::borrow(destination.allocator, "an output") {
        let (preferred, to) = (memory, destination.allocator);
        // SAFETY: the client's function; every result has a place.
        let status = unsafe {
            (allocator.alloc)(
                to,
                name.as_ptr(),
                bytes,
                preferred,
                0,
                destination.userp,
                &raw mut base,
                &raw mut userp,
                &raw mut memory,
                &raw mut device,
            )
        };
        if !status.is_null() {
            discard(status);
            base = null_mut();
        }
    }
    let claimed = !base.is_null() && allocator::claim(base, bytes, &content.name);
    if !base.is_null() && memory != MEMORY_GPU {
        // SAFETY: the client offered that many bytes.
        unsafe { std::ptr::copy_nonoverlapping(content.bytes.as_ptr(), base.cast::<u8>(), bytes) };
    }
    let shape = content.shape.clone();
    Output { name, datatype: content.datatype, shape, base, bytes, memory, device, userp, claimed }
}

/// Frees an error that the client made.
fn discard(status: Status) {
    if !status.is_null() {
        ledger::destroy(status, "an error returned by a callback");
    }
}

fn parameters(map: &Map<String, Value>) -> Vec<(CString, Parameter)> {
    map.iter()
        .filter_map(|(key, value)| {
            let value = match value {
                Value::String(text) => Parameter::String(CString::new(text.as_str()).ok()?),
                Value::Bool(truth) => Parameter::Bool(*truth),
                Value::Number(number) if number.is_i64() => Parameter::Int(number.as_i64()?),
                Value::Number(number) => Parameter::Double(number.as_f64()?),
                _ => return None,
            };
            Some((CString::new(key.as_str()).ok()?, value))
        })
        .collect()
}

#[unsafe(no_mangle)]
pub extern "C" fn TRITONSERVER_InferenceResponseDelete(response: *mut Response) -> Status {
    crate::overlap::deleted();
    let Some(response) = ledger::destroy(response, "InferenceResponseDelete") else {
        return fail(INVALID_ARG, "InferenceResponseDelete: dead handle");
    };
    for output in &response.outputs {
        if output.claimed {
            allocator::unclaim(output.base);
        }
        if output.base.is_null() {
            continue;
        }
        if let Some(allocator) = ledger::borrow(response.allocator, "InferenceResponseDelete") {
            // SAFETY: the client's function with what the client gave.
            discard(unsafe {
                let Output { base, userp, bytes, memory, device, .. } = *output;
                (allocator.release)(response.allocator, base, userp, bytes, memory, device)
            });
        }
    }
    allocator::leave(response.allocator);
    OK
}

#[unsafe(no_mangle)]
pub extern "C" fn TRITONSERVER_InferenceResponseError(response: *mut Response) -> Status {
    crate::overlap::linger();
    let response = live!(response, "InferenceResponseError");
    response.error.as_ref().map_or(OK, |(code, message)| fail(*code, message))
}

#[unsafe(no_mangle)]
pub extern "C" fn TRITONSERVER_InferenceResponseModel(
    response: *mut Response,
    name: *mut *const c_char,
    version: *mut i64,
) -> Status {
    let response = live!(response, "InferenceResponseModel");
    give(name, response.model.as_ptr());
    give(version, 1);
    OK
}

#[unsafe(no_mangle)]
pub extern "C" fn TRITONSERVER_InferenceResponseId(response: *mut Response, id: *mut *const c_char) -> Status {
    let response = live!(response, "InferenceResponseId");
    give(id, response.id.as_ptr());
    OK
}

#[unsafe(no_mangle)]
pub extern "C" fn TRITONSERVER_InferenceResponseParameterCount(response: *mut Response, count: *mut u32) -> Status {
    let response = live!(response, "InferenceResponseParameterCount");
    give(count, response.parameters.len() as u32);
    OK
}

#[unsafe(no_mangle)]
pub extern "C" fn TRITONSERVER_InferenceResponseParameter(
    response: *mut Response,
    index: u32,
    name: *mut *const c_char,
    kind: *mut c_int,
    value: *mut *const c_void,
) -> Status {
    let response = live!(response, "InferenceResponseParameter");
    let Some((key, parameter)) = response.parameters.get(index as usize) else {
        return fail(INVALID_ARG, "there is no response parameter of that index");
    };
    give(name, key.as_ptr());
    let (number, address): (c_int, *const c_void) = match parameter {
        Parameter::String(text) => (0, text.as_ptr().cast()),
        Parameter::Int(integer) => (1, (&raw const *integer).cast()),
        Parameter::Bool(truth) => (2, (&raw const *truth).cast()),
        Parameter::Double(double) => (3, (&raw const *double).cast()),
    };
    give(kind, number);
    give(value, address);
    OK
}

#[unsafe(no_mangle)]
pub extern "C" fn TRITONSERVER_InferenceResponseOutputCount(response: *mut Response, count: *mut u32) -> Status {
    let response = live!(response, "InferenceResponseOutputCount");
    give(count, response.outputs.len() as u32);
    OK
}

/// The argument list is the interface's.
#[allow(clippy::too_many_arguments)]
#[unsafe(no_mangle)]
pub extern "C" fn TRITONSERVER_InferenceResponseOutput(
    response: *mut Response,
    index: u32,
    name: *mut *const c_char,
    datatype: *mut c_int,
    shape: *mut *const i64,
    dims: *mut u64,
    base: *mut *const c_void,
    bytes: *mut usize,
    memory: *mut c_int,
    device: *mut i64,
    userp: *mut *mut c_void,
) -> Status {
    let response = live!(response, "InferenceResponseOutput");
    let Some(output) = response.outputs.get(index as usize) else {
        return fail(INVALID_ARG, "there is no response output of that index");
    };
    give(name, output.name.as_ptr());
    give(datatype, output.datatype);
    give(shape, output.shape.as_ptr());
    give(dims, output.shape.len() as u64);
    give(base, output.base.cast_const());
    give(bytes, output.bytes);
    give(memory, output.memory);
    give(device, output.device);
    give(userp, output.userp);
    OK
}
