//! Failed calls: converts a C error object to a Rust value, and back.

use std::ffi::{CStr, CString};
use std::os::raw::c_char;

use crate::backend::{ErrorCode, InferError};
use crate::c_api::ffi::library::Library;
use crate::c_api::ffi::sys;
use crate::error::Error;

/// The error of a failed call. The C object is already deleted.
#[derive(Debug)]
pub struct Status {
    /// Code word, such as `Invalid argument`.
    pub code: ErrorCode,
    /// The server's text.
    pub message: String,
}

impl From<Status> for InferError {
    fn from(status: Status) -> Self {
        Self { code: status.code, message: status.message }
    }
}

impl From<Status> for Error {
    fn from(status: Status) -> Self {
        Self::server(status.message)
    }
}

impl Library {
    /// Turns the result of a call into a `Result`, and frees the error object.
    pub(super) fn check(&self, error: *mut sys::TRITONSERVER_Error) -> Result<(), Status> {
        if error.is_null() { Ok(()) } else { Err(self.take_error(error)) }
    }

    #[cold]
    fn take_error(&self, error: *mut sys::TRITONSERVER_Error) -> Status {
        let code = self.code_word(error);
        // SAFETY: `error` is a live error object that this call owns; its strings are copied before it is deleted.
        let message = unsafe { text(self.api.TRITONSERVER_ErrorMessage(error)) };
        // SAFETY: as above; nothing refers to the object after this.
        unsafe { self.api.TRITONSERVER_ErrorDelete(error) };
        Status { code, message }
    }

    /// The code's word: Triton's own, except for cancelled requests, for which releases up to 24.10 have none.
    fn code_word(&self, error: *mut sys::TRITONSERVER_Error) -> ErrorCode {
        // SAFETY: the caller has a live error object.
        let cancelled = self.api.TRITONSERVER_ErrorCode.is_ok()
            && unsafe { self.api.TRITONSERVER_ErrorCode(error) } == sys::ERROR_CANCELLED;
        if cancelled {
            return InferError::CANCELLED;
        }
        // SAFETY: the error object is live, and its strings are copied.
        unsafe { text(self.api.TRITONSERVER_ErrorCodeString(error)) }.into()
    }

    /// A new error object for the server, which then owns it.
    #[cold]
    pub(super) fn new_error(&self, message: &str) -> *mut sys::TRITONSERVER_Error {
        let message = c_string(message);
        // SAFETY: the message is a valid C string and is copied by the call.
        unsafe { self.api.TRITONSERVER_ErrorNew(sys::ERROR_INTERNAL, message.as_ptr()) }
    }
}

/// Copies a C string; a null pointer is the empty string.
///
/// # Safety
/// `pointer` is null or points to a NUL-terminated string that lives during the call.
pub(super) unsafe fn text(pointer: *const c_char) -> String {
    if pointer.is_null() {
        return String::new();
    }
    // SAFETY: the caller promises a live NUL-terminated string.
    unsafe { CStr::from_ptr(pointer) }.to_string_lossy().into_owned()
}

/// A C string of `text`, cut at an embedded NUL (names and messages have none).
pub(super) fn c_string(text: &str) -> CString {
    let end = text.bytes().position(|byte| byte == 0).unwrap_or(text.len());
    CString::new(&text[..end]).unwrap_or_default()
}
