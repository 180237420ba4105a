//! Error numbers, shared by driver and runtime, with the names both give them.

use std::ffi::{CStr, c_int};

/// What an exported function returns when it does not succeed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status(pub c_int);

pub const INVALID_VALUE: Status = Status(1);
pub const OUT_OF_MEMORY: Status = Status(2);
pub const NOT_INITIALIZED: Status = Status(3);
pub const STUB_LIBRARY: Status = Status(34);
pub const NO_DEVICE: Status = Status(100);
pub const INVALID_DEVICE: Status = Status(101);
pub const INVALID_CONTEXT: Status = Status(201);
pub const MAP_FAILED: Status = Status(205);
pub const INVALID_HANDLE: Status = Status(400);
pub const NOT_FOUND: Status = Status(500);
pub const PEER_ACCESS_ALREADY_ENABLED: Status = Status(704);
pub const HOST_MEMORY_ALREADY_REGISTERED: Status = Status(712);
pub const HOST_MEMORY_NOT_REGISTERED: Status = Status(713);
pub const NOT_SUPPORTED: Status = Status(801);
pub const SYSTEM_DRIVER_MISMATCH: Status = Status(803);
pub const UNKNOWN: Status = Status(999);

pub type Outcome<T = ()> = Result<T, Status>;

/// The number of an outcome; 0 is success.
pub fn number(outcome: Outcome) -> c_int {
    outcome.map_or_else(|status| status.0, |()| 0)
}

/// Writes what came out to where the caller wants it.
pub fn store<T>(target: *mut T, outcome: Outcome<T>) -> c_int {
    number(outcome.and_then(|value| {
        if target.is_null() {
            return Err(INVALID_VALUE);
        }
        // SAFETY: the caller says that it may be written.
        unsafe { target.write(value) };
        Ok(())
    }))
}

/// The driver's name of an error and a sentence; `None` for numbers that are no error of either interface.
pub fn words(number: c_int) -> Option<(&'static CStr, &'static CStr)> {
    Some(match Status(number) {
        Status(0) => (c"CUDA_SUCCESS", c"no error"),
        INVALID_VALUE => (c"CUDA_ERROR_INVALID_VALUE", c"invalid argument"),
        OUT_OF_MEMORY => (c"CUDA_ERROR_OUT_OF_MEMORY", c"out of memory"),
        NOT_INITIALIZED => (c"CUDA_ERROR_NOT_INITIALIZED", c"initialization error"),
        NO_DEVICE => (c"CUDA_ERROR_NO_DEVICE", c"no CUDA-capable device is detected"),
        INVALID_DEVICE => (c"CUDA_ERROR_INVALID_DEVICE", c"invalid device ordinal"),
        INVALID_CONTEXT => (c"CUDA_ERROR_INVALID_CONTEXT", c"invalid device context"),
        MAP_FAILED => (c"CUDA_ERROR_MAP_FAILED", c"mapping of buffer object failed"),
        INVALID_HANDLE => (c"CUDA_ERROR_INVALID_HANDLE", c"invalid resource handle"),
        NOT_FOUND => (c"CUDA_ERROR_NOT_FOUND", c"named symbol not found"),
        PEER_ACCESS_ALREADY_ENABLED => (c"CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED", c"peer access is already enabled"),
        HOST_MEMORY_ALREADY_REGISTERED => (
            c"CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED",
            c"part or all of the requested memory range is already mapped",
        ),
        HOST_MEMORY_NOT_REGISTERED => {
            (c"CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED", c"pointer does not correspond to a registered memory region")
        }
        NOT_SUPPORTED => (c"CUDA_ERROR_NOT_SUPPORTED", c"operation not supported"),
        STUB_LIBRARY => (c"CUDA_ERROR_STUB_LIBRARY", c"CUDA driver is a stub library"),
        SYSTEM_DRIVER_MISMATCH => {
            (c"CUDA_ERROR_SYSTEM_DRIVER_MISMATCH", c"system has unsupported display driver / cuda driver combination")
        }
        UNKNOWN => (c"CUDA_ERROR_UNKNOWN", c"unknown error"),
        _ => return None,
    })
}
