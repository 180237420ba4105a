//! A request's metadata, that is, everything except its tensors.

use std::ffi::{CStr, CString, c_char};
use std::ptr::{null, null_mut};

use serde_json::{Map, Value, json};

use crate::abi::{Api, Factory, Fault, Request, Response, SEQUENCE_END, SEQUENCE_START};
use crate::sequence::{Correlation, Place};

/// A request parameter.
#[derive(Debug, Clone, PartialEq)]
pub enum Parameter {
    /// Text.
    String(CString),
    /// Integer.
    Int(i64),
    /// Truth value.
    Bool(bool),
    /// Number.
    Double(f64),
}

/// The server's numbers for the types of parameters (since 24.02).
const STRING: i32 = 0;
const INT: i32 = 1;
const BOOL: i32 = 2;
const DOUBLE: i32 = 3;

/// The parameters of a request, in the server's order. Raw bytes are left out.
///
/// # Errors
/// The server's.
pub fn parameters(api: &Api, request: *mut Request) -> Result<Vec<(CString, Parameter)>, Fault> {
    let mut count = 0;
    // SAFETY: the request is held; the server writes through the pointer.
    api.check(unsafe { (api.parameter_count)(request, &raw mut count) })?;
    let mut found = Vec::with_capacity(count as usize);
    for index in 0..count {
        let (mut key, mut kind, mut value) = (null(), 0, null());
        // SAFETY: as above; key and value belong to the request and have the type that `kind` says.
        unsafe {
            api.check((api.parameter)(request, index, &raw mut key, &raw mut kind, &raw mut value))?;
            let value = match kind {
                STRING => Parameter::String(CStr::from_ptr(value.cast()).to_owned()),
                INT => Parameter::Int(value.cast::<i64>().read_unaligned()),
                BOOL => Parameter::Bool(value.cast::<u8>().read() != 0),
                DOUBLE => Parameter::Double(value.cast::<f64>().read_unaligned()),
                _ => continue,
            };
            found.push((CStr::from_ptr(key).to_owned(), value));
        }
    }
    Ok(found)
}

/// Gives a response these parameters.
///
/// # Errors
/// The server's.
pub fn echo(api: &Api, response: *mut Response, parameters: &[(CString, Parameter)]) -> Result<(), Fault> {
    for (key, value) in parameters {
        // SAFETY: the response is unsent; the server copies key and value.
        api.check(unsafe {
            match value {
                Parameter::String(text) => (api.set_string)(response, key.as_ptr(), text.as_ptr()),
                Parameter::Int(number) => (api.set_int)(response, key.as_ptr(), *number),
                Parameter::Bool(truth) => (api.set_bool)(response, key.as_ptr(), *truth),
                Parameter::Double(number) => (api.set_double)(response, key.as_ptr(), *number),
            }
        })?;
    }
    Ok(())
}

/// The same as a JSON object.
pub fn to_json(parameters: &[(CString, Parameter)]) -> Map<String, Value> {
    parameters
        .iter()
        .map(|(key, value)| {
            let value = match value {
                Parameter::String(text) => json!(text.to_string_lossy()),
                Parameter::Int(number) => json!(number),
                Parameter::Bool(truth) => json!(truth),
                Parameter::Double(number) => json!(number),
            };
            (key.to_string_lossy().into_owned(), value)
        })
        .collect()
}

/// The request's sequence; an ID of 0 or of no characters is none.
pub fn correlation(api: &Api, request: *mut Request) -> Correlation {
    let (mut number, mut text): (u64, *const c_char) = (0, null());
    // SAFETY: the request is held; the text belongs to it. The call that does not fit the ID's type fails.
    unsafe {
        if api.check((api.correlation_id)(request, &raw mut number)).is_ok() {
            return if number == 0 { Correlation::None } else { Correlation::Number(number) };
        }
        match api.check((api.correlation_text)(request, &raw mut text)) {
            Ok(()) if !text.is_null() && *text != 0 => {
                Correlation::Text(CStr::from_ptr(text).to_string_lossy().into_owned())
            }
            _ => Correlation::None,
        }
    }
}

/// The request's flags.
pub fn flags(api: &Api, request: *mut Request) -> u32 {
    let mut flags = 0;
    // SAFETY: the request is held; a failing call leaves 0.
    let _ = api.check(unsafe { (api.request_flags)(request, &raw mut flags) });
    flags
}

/// Where in its sequence the request stands.
pub fn place(flags: u32) -> Place {
    Place { start: flags & SEQUENCE_START != 0, end: flags & SEQUENCE_END != 0 }
}

/// The request's ID.
pub fn id(api: &Api, request: *mut Request) -> String {
    let mut id: *const c_char = null();
    // SAFETY: the request is held, and owns the text.
    unsafe {
        match api.check((api.request_id)(request, &raw mut id)) {
            Ok(()) if !id.is_null() => CStr::from_ptr(id).to_string_lossy().into_owned(),
            _ => String::new(),
        }
    }
}

/// Whether the client has cancelled the request.
pub fn is_cancelled(api: &Api, request: *mut Request) -> bool {
    let mut cancelled = false;
    // SAFETY: the request is held; a failing call leaves `false`.
    let _ = api.check(unsafe { (api.is_cancelled)(request, &raw mut cancelled) });
    cancelled
}

/// Whether the client has cancelled the request that a factory answers.
pub fn is_stream_cancelled(api: &Api, factory: *mut Factory) -> bool {
    let mut cancelled = false;
    // SAFETY: the factory is alive; a failing call leaves `false`.
    let _ = api.check(unsafe { (api.factory_is_cancelled)(factory, &raw mut cancelled) });
    cancelled
}

/// Whether the client wants the output of that name. `configured` is the number of outputs that the model has.
#[inline]
pub fn wants(api: &Api, request: *mut Request, configured: u32, name: &CStr) -> bool {
    let mut count = 0;
    // SAFETY: the request is held; names belong to it.
    unsafe {
        if api.check((api.output_count)(request, &raw mut count)).is_err() || count >= configured {
            return true;
        }
        (0..count).any(|index| {
            let mut requested: *const c_char = null();
            api.check((api.output_name)(request, index, &raw mut requested)).is_ok()
                && CStr::from_ptr(requested) == name
        })
    }
}

/// Gives a request back. It must not be used afterwards.
#[inline]
pub fn release(api: &Api, request: *mut Request) {
    // SAFETY: the request is held and released once.
    if let Err(fault) = api.check(unsafe { (api.release)(request, crate::abi::RELEASE_ALL) }) {
        eprintln!("triton_bench: a request could not be released: {}", fault.message);
    }
}

/// A fresh response to a request.
///
/// # Errors
/// The server's.
#[inline]
pub fn response(api: &Api, request: *mut Request) -> Result<*mut Response, Fault> {
    let mut response = null_mut();
    // SAFETY: the request is held.
    api.check(unsafe { (api.response_new)(&raw mut response, request) })?;
    Ok(response)
}

/// Sends a response, as an error if there is a fault. It must not be used afterwards.
#[inline]
pub fn send(api: &Api, response: *mut Response, flags: u32, fault: Option<&Fault>) {
    let status = fault.map_or(null_mut(), |fault| api.status(fault));
    // SAFETY: the response is unsent and handed over; the status stays ours and is freed.
    unsafe {
        if let Err(fault) = api.check((api.response_send)(response, flags, status)) {
            eprintln!("triton_bench: a response could not be sent: {}", fault.message);
        }
        if !status.is_null() {
            (api.error_delete)(status);
        }
    }
}
