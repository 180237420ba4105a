//! Types and numbers of the C interface.

use std::ffi::{c_char, c_int, c_void};

use crate::allocator::Allocator;
use crate::error::Error;
use crate::request::Request;
use crate::response::Response;
use crate::trace::Trace;

/// What a function answers; null means success.
pub type Status = *mut Error;

/// Error codes as the interface spells and numbers them.
pub const CODES: [(&str, &str); 8] = [
    ("UNKNOWN", "Unknown"),
    ("INTERNAL", "Internal"),
    ("NOT_FOUND", "Not found"),
    ("INVALID_ARG", "Invalid argument"),
    ("UNAVAILABLE", "Unavailable"),
    ("UNSUPPORTED", "Unsupported"),
    ("ALREADY_EXISTS", "Already exists"),
    ("CANCELLED", "Cancelled"),
];
/// Something inside went wrong.
pub const INTERNAL: c_int = 1;
/// No such thing.
pub const NOT_FOUND: c_int = 2;
/// A wrong argument.
pub const INVALID_ARG: c_int = 3;
/// Not now.
pub const UNAVAILABLE: c_int = 4;
/// Cancelled by the client.
pub const CANCELLED: c_int = 7;

/// Datatypes by number: name and bytes per element (0 = variable).
pub const DATATYPES: [(&str, u32); 15] = [
    ("<invalid>", 0),
    ("BOOL", 1),
    ("UINT8", 1),
    ("UINT16", 2),
    ("UINT32", 4),
    ("UINT64", 8),
    ("INT8", 1),
    ("INT16", 2),
    ("INT32", 4),
    ("INT64", 8),
    ("FP16", 2),
    ("FP32", 4),
    ("FP64", 8),
    ("BYTES", 0),
    ("BF16", 2),
];

/// The number of a datatype; 0 if there is none of that name.
pub fn datatype(name: &str) -> c_int {
    DATATYPES.iter().skip(1).position(|(key, _)| *key == name).map_or(0, |index| index as c_int + 1)
}

/// Name of a datatype.
pub fn datatype_name(datatype: c_int) -> &'static str {
    usize::try_from(datatype).ok().and_then(|index| DATATYPES.get(index)).map_or("<invalid>", |(name, _)| name)
}

/// Bytes per element; 0 = variable or unknown.
pub fn element_size(datatype: c_int) -> u32 {
    usize::try_from(datatype).ok().and_then(|index| DATATYPES.get(index)).map_or(0, |(_, size)| *size)
}

/// Memory on a GPU.
pub const MEMORY_GPU: c_int = 2;
/// The last response of a request.
pub const FINAL: u32 = 1;
/// The request is given back.
pub const RELEASE_ALL: u32 = 1;
/// Model control mode in which models are loaded by name.
pub const EXPLICIT: c_int = 2;

/// Gives a request back.
pub type ReleaseFn = unsafe extern "C" fn(*mut Request, u32, *mut c_void);
/// Brings a response.
pub type ResponseFn = unsafe extern "C" fn(*mut Response, u32, *mut c_void);
/// Asks for an output buffer.
pub type AllocFn = unsafe extern "C" fn(
    *mut Allocator,
    *const c_char,
    usize,
    c_int,
    i64,
    *mut c_void,
    *mut *mut c_void,
    *mut *mut c_void,
    *mut c_int,
    *mut i64,
) -> Status;
/// Gives an output buffer back.
pub type BufferReleaseFn = unsafe extern "C" fn(*mut Allocator, *mut c_void, *mut c_void, usize, c_int, i64) -> Status;
/// Announces a response.
pub type StartFn = unsafe extern "C" fn(*mut Allocator, *mut c_void) -> Status;
/// Tells a step in a request's life.
pub type ActivityFn = unsafe extern "C" fn(*mut Trace, c_int, u64, *mut c_void);
/// Gives a trace back.
pub type TraceReleaseFn = unsafe extern "C" fn(*mut Trace, *mut c_void);
