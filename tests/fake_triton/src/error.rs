//! Errors, messages, datatype names and parameters.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr::null_mut;

use crate::abi::{self, Status};
use crate::ledger::{self, Kind, Object};

/// An error.
pub struct Error {
    code: c_int,
    message: CString,
}

impl Object for Error {
    const KIND: Kind = Kind::Error;
}

/// Success.
pub const OK: Status = null_mut();

/// A failure with a text.
pub fn fail(code: c_int, message: &str) -> Status {
    let message = CString::new(message.replace('\0', " ")).unwrap_or_default();
    ledger::create(Error { code, message })
}

/// A Rust string of a C one; empty if it is null.
pub fn text<'a>(string: *const c_char) -> &'a str {
    if string.is_null() {
        return "";
    }
    // SAFETY: the client passes C strings, valid during the call.
    unsafe { CStr::from_ptr(string) }.to_str().unwrap_or("<not UTF-8>")
}

/// Writes a result through a pointer of the client; null pointers are skipped.
pub fn give<T>(target: *mut T, value: T) {
    if !target.is_null() {
        // SAFETY: the client passes a valid place for the result.
        unsafe { target.write(value) };
    }
}

/// Borrows the object behind a handle, or leaves the function with an error.
macro_rules! live {
    ($handle:expr, $call:expr) => {
        match $crate::ledger::borrow($handle, $call) {
            Some(object) => object,
            None => return $crate::error::fail($crate::abi::INVALID_ARG, concat!($call, ": dead handle")),
        }
    };
}
pub(crate) use live;

#[unsafe(no_mangle)]
pub extern "C" fn TRITONSERVER_ErrorNew(code: c_int, message: *const c_char) -> Status {
    fail(code, text(message))
}

#[unsafe(no_mangle)]
pub extern "C" fn TRITONSERVER_ErrorDelete(error: Status) {
    ledger::destroy(error, "ErrorDelete");
}

#[unsafe(no_mangle)]
pub extern "C" fn TRITONSERVER_ErrorCode(error: Status) -> c_int {
    ledger::borrow(error, "ErrorCode").map_or(0, |error| error.code)
}

#[unsafe(no_mangle)]
pub extern "C" fn TRITONSERVER_ErrorCodeString(error: Status) -> *const c_char {
    const NAMES: [&CStr; 8] = [
        c"Unknown",
        c"Internal",
        c"Not found",
        c"Invalid argument",
        c"Unavailable",
        c"Unsupported",
        c"Already exists",
        c"Cancelled",
    ];
    let code = TRITONSERVER_ErrorCode(error);
    NAMES.get(code as usize).unwrap_or(&c"<invalid code>").as_ptr()
}

#[unsafe(no_mangle)]
pub extern "C" fn TRITONSERVER_ErrorMessage(error: Status) -> *const c_char {
    ledger::borrow(error, "ErrorMessage").map_or(c"".as_ptr(), |error| error.message.as_ptr())
}

/// A JSON text.
pub struct Message {
    json: CString,
}

impl Object for Message {
    const KIND: Kind = Kind::Message;
}

/// Hands out a JSON value as a message.
pub fn give_message(target: *mut *mut Message, json: &serde_json::Value) -> Status {
    let json = CString::new(json.to_string()).unwrap_or_default();
    give(target, ledger::create(Message { json }));
    OK
}

#[unsafe(no_mangle)]
pub extern "C" fn TRITONSERVER_MessageSerializeToJson(
    message: *mut Message,
    base: *mut *const c_char,
    bytes: *mut usize,
) -> Status {
    let message = live!(message, "MessageSerializeToJson");
    give(base, message.json.as_ptr());
    give(bytes, message.json.as_bytes().len());
    OK
}

#[unsafe(no_mangle)]
pub extern "C" fn TRITONSERVER_MessageDelete(message: *mut Message) -> Status {
    match ledger::destroy(message, "MessageDelete") {
        Some(_) => OK,
        None => fail(abi::INVALID_ARG, "MessageDelete: dead handle"),
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn TRITONSERVER_DataTypeString(datatype: c_int) -> *const c_char {
    const NAMES: [&CStr; 15] = [
        c"<invalid>",
        c"BOOL",
        c"UINT8",
        c"UINT16",
        c"UINT32",
        c"UINT64",
        c"INT8",
        c"INT16",
        c"INT32",
        c"INT64",
        c"FP16",
        c"FP32",
        c"FP64",
        c"BYTES",
        c"BF16",
    ];
    usize::try_from(datatype).ok().and_then(|index| NAMES.get(index)).unwrap_or(&NAMES[0]).as_ptr()
}

#[unsafe(no_mangle)]
pub extern "C" fn TRITONSERVER_StringToDataType(name: *const c_char) -> c_int {
    abi::datatype(text(name))
}

#[unsafe(no_mangle)]
pub extern "C" fn TRITONSERVER_DataTypeByteSize(datatype: c_int) -> u32 {
    abi::element_size(datatype)
}

#[unsafe(no_mangle)]
pub extern "C" fn TRITONSERVER_MemoryTypeString(memory: c_int) -> *const c_char {
    [c"CPU", c"CPU_PINNED", c"GPU"].get(memory as usize).unwrap_or(&c"<invalid>").as_ptr()
}

#[unsafe(no_mangle)]
pub extern "C" fn TRITONSERVER_ApiVersion(major: *mut u32, minor: *mut u32) -> Status {
    give(major, 1);
    give(minor, crate::server::current_script().server.api_minor);
    OK
}

/// A parameter of a load request. Its content plays no part here.
pub struct Parameter;

impl Object for Parameter {
    const KIND: Kind = Kind::Parameter;
}

#[unsafe(no_mangle)]
pub extern "C" fn TRITONSERVER_ParameterNew(
    _name: *const c_char,
    _kind: c_int,
    _value: *const c_void,
) -> *mut Parameter {
    ledger::create(Parameter)
}

#[unsafe(no_mangle)]
pub extern "C" fn TRITONSERVER_ParameterBytesNew(
    _name: *const c_char,
    _value: *const c_void,
    _size: u64,
) -> *mut Parameter {
    ledger::create(Parameter)
}

#[unsafe(no_mangle)]
pub extern "C" fn TRITONSERVER_ParameterDelete(parameter: *mut Parameter) {
    ledger::destroy(parameter, "ParameterDelete");
}
