//! The part of Triton's backend interface that this backend uses: handles, constants and the function table.

use std::ffi::{CStr, CString, c_char, c_void};
use std::sync::OnceLock;

use crate::symbols;

macro_rules! handles {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {$(
        $(#[$doc])*
        #[repr(C)]
        pub struct $name { _opaque: [u8; 0] }
    )*};
}

handles! {
    /// An error of the server.
    Error,
    /// Text owned by the server.
    Message,
    /// A loaded model.
    Model,
    /// One instance of a model.
    Instance,
    /// An inference request.
    Request,
    /// A response under construction.
    Response,
    /// Makes the responses of one request.
    Factory,
    /// An input tensor of a request.
    Input,
    /// An output tensor of a response.
    Output,
}

/// `TRITONSERVER_ERROR_INTERNAL`.
pub const INTERNAL: i32 = 1;
/// `TRITONSERVER_ERROR_INVALID_ARG`.
pub const INVALID_ARG: i32 = 3;
/// `TRITONSERVER_ERROR_UNSUPPORTED`.
pub const UNSUPPORTED: i32 = 5;
/// `TRITONSERVER_ERROR_CANCELLED`.
pub const CANCELLED: i32 = 7;
/// `TRITONSERVER_MEMORY_GPU`; below it lie CPU (0) and pinned CPU memory (1).
pub const MEMORY_GPU: i32 = 2;
/// `TRITONSERVER_RESPONSE_COMPLETE_FINAL`.
pub const FINAL: u32 = 1;
/// `TRITONSERVER_REQUEST_RELEASE_ALL`.
pub const RELEASE_ALL: u32 = 1;
/// `TRITONSERVER_REQUEST_FLAG_SEQUENCE_START`.
pub const SEQUENCE_START: u32 = 1;
/// `TRITONSERVER_REQUEST_FLAG_SEQUENCE_END`.
pub const SEQUENCE_END: u32 = 2;

/// What a failing call answers; null means success.
pub type Status = *mut Error;

macro_rules! functions {
    ($($field:ident = $symbol:literal ($($argument:ty),*) $(-> $result:ty)? $(, or $stand_in:path)?;)*) => {
        /// The server's functions, resolved once.
        pub struct Api {
            $(#[doc = $symbol] pub $field: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*
        }

        impl Api {
            fn resolve() -> Result<Api, String> {
                Ok(Api {$(
                    $field: {
                        let name = CStr::from_bytes_with_nul(concat!($symbol, "\0").as_bytes()).map_err(|e| e.to_string())?;
                        match symbols::find(name) {
                            // SAFETY: the symbol's documented prototype is the one written beside it in this table.
                            Ok(found) => unsafe {
                                std::mem::transmute::<*mut c_void, unsafe extern "C" fn($($argument),*) $(-> $result)?>(
                                    found.as_ptr(),
                                )
                            },
                            Err(missing) => without!(missing $(, $stand_in)?),
                        }
                    },
                )*})
            }
        }
    };
}

/// What comes of a function that the server lacks.
macro_rules! without {
    ($missing:expr) => {
        return Err($missing)
    };
    ($missing:expr, $stand_in:path) => {{
        drop($missing);
        $stand_in
    }};
}

/// Releases before 23.10 cancel nothing.
unsafe extern "C" fn never_cancelled<T>(_: *mut T, _: *mut bool) -> Status {
    std::ptr::null_mut()
}

/// Requests before 23.03 have no parameters.
unsafe extern "C" fn no_parameters(_: *mut Request, _: *mut u32) -> Status {
    std::ptr::null_mut()
}

unsafe extern "C" fn no_parameter(
    _: *mut Request,
    _: u32,
    _: *mut *const c_char,
    _: *mut i32,
    _: *mut *const c_void,
) -> Status {
    std::ptr::null_mut()
}

/// Responses before 24.02 have no numbers of this kind.
unsafe extern "C" fn no_double(_: *mut Response, _: *const c_char, _: f64) -> Status {
    std::ptr::null_mut()
}

functions! {
    error_new = "TRITONSERVER_ErrorNew" (i32, *const c_char) -> Status;
    error_delete = "TRITONSERVER_ErrorDelete" (Status);
    error_code = "TRITONSERVER_ErrorCode" (Status) -> i32;
    error_message = "TRITONSERVER_ErrorMessage" (Status) -> *const c_char;
    message_json = "TRITONSERVER_MessageSerializeToJson" (*mut Message, *mut *const c_char, *mut usize) -> Status;
    message_delete = "TRITONSERVER_MessageDelete" (*mut Message) -> Status;
    model_config = "TRITONBACKEND_ModelConfig" (*mut Model, u32, *mut *mut Message) -> Status;
    model_state = "TRITONBACKEND_ModelState" (*mut Model, *mut *mut c_void) -> Status;
    model_set_state = "TRITONBACKEND_ModelSetState" (*mut Model, *mut c_void) -> Status;
    instance_model = "TRITONBACKEND_ModelInstanceModel" (*mut Instance, *mut *mut Model) -> Status;
    instance_state = "TRITONBACKEND_ModelInstanceState" (*mut Instance, *mut *mut c_void) -> Status;
    instance_set_state = "TRITONBACKEND_ModelInstanceSetState" (*mut Instance, *mut c_void) -> Status;
    report = "TRITONBACKEND_ModelInstanceReportStatistics"
        (*mut Instance, *mut Request, bool, u64, u64, u64, u64) -> Status;
    report_batch = "TRITONBACKEND_ModelInstanceReportBatchStatistics" (*mut Instance, u64, u64, u64, u64, u64) -> Status;
    request_id = "TRITONBACKEND_RequestId" (*mut Request, *mut *const c_char) -> Status;
    correlation_id = "TRITONBACKEND_RequestCorrelationId" (*mut Request, *mut u64) -> Status;
    correlation_text = "TRITONBACKEND_RequestCorrelationIdString" (*mut Request, *mut *const c_char) -> Status;
    request_flags = "TRITONBACKEND_RequestFlags" (*mut Request, *mut u32) -> Status;
    parameter_count = "TRITONBACKEND_RequestParameterCount" (*mut Request, *mut u32) -> Status, or no_parameters;
    parameter = "TRITONBACKEND_RequestParameter"
        (*mut Request, u32, *mut *const c_char, *mut i32, *mut *const c_void) -> Status, or no_parameter;
    request_input = "TRITONBACKEND_RequestInput" (*mut Request, *const c_char, *mut *mut Input) -> Status;
    output_count = "TRITONBACKEND_RequestOutputCount" (*mut Request, *mut u32) -> Status;
    output_name = "TRITONBACKEND_RequestOutputName" (*mut Request, u32, *mut *const c_char) -> Status;
    is_cancelled = "TRITONBACKEND_RequestIsCancelled" (*mut Request, *mut bool) -> Status, or never_cancelled;
    release = "TRITONBACKEND_RequestRelease" (*mut Request, u32) -> Status;
    input_properties = "TRITONBACKEND_InputProperties"
        (*mut Input, *mut *const c_char, *mut i32, *mut *const i64, *mut u32, *mut u64, *mut u32) -> Status;
    input_buffer = "TRITONBACKEND_InputBuffer"
        (*mut Input, u32, *mut *const c_void, *mut u64, *mut i32, *mut i64) -> Status;
    response_new = "TRITONBACKEND_ResponseNew" (*mut *mut Response, *mut Request) -> Status;
    response_output = "TRITONBACKEND_ResponseOutput"
        (*mut Response, *mut *mut Output, *const c_char, i32, *const i64, u32) -> Status;
    output_buffer = "TRITONBACKEND_OutputBuffer" (*mut Output, *mut *mut c_void, u64, *mut i32, *mut i64) -> Status;
    set_string = "TRITONBACKEND_ResponseSetStringParameter" (*mut Response, *const c_char, *const c_char) -> Status;
    set_int = "TRITONBACKEND_ResponseSetIntParameter" (*mut Response, *const c_char, i64) -> Status;
    set_bool = "TRITONBACKEND_ResponseSetBoolParameter" (*mut Response, *const c_char, bool) -> Status;
    set_double = "TRITONBACKEND_ResponseSetDoubleParameter" (*mut Response, *const c_char, f64) -> Status, or no_double;
    response_send = "TRITONBACKEND_ResponseSend" (*mut Response, u32, Status) -> Status;
    factory_new = "TRITONBACKEND_ResponseFactoryNew" (*mut *mut Factory, *mut Request) -> Status;
    response_from = "TRITONBACKEND_ResponseNewFromFactory" (*mut *mut Response, *mut Factory) -> Status;
    factory_send_flags = "TRITONBACKEND_ResponseFactorySendFlags" (*mut Factory, u32) -> Status;
    factory_is_cancelled = "TRITONBACKEND_ResponseFactoryIsCancelled" (*mut Factory, *mut bool) -> Status, or never_cancelled;
    factory_delete = "TRITONBACKEND_ResponseFactoryDelete" (*mut Factory) -> Status;
}

/// Why something failed: an error code of the server and a sentence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// One of the server's error codes.
    pub code: i32,
    /// What went wrong.
    pub message: String,
}

impl Fault {
    /// A fault with the given code.
    pub fn new(code: i32, message: impl Into<String>) -> Fault {
        Fault { code, message: message.into() }
    }
}

impl Api {
    /// The table, resolved at the first call. A missing function is an error, the same one at every call.
    pub fn get() -> Result<&'static Api, &'static str> {
        static TABLE: OnceLock<Result<Api, String>> = OnceLock::new();
        TABLE.get_or_init(Api::resolve).as_ref().map_err(String::as_str)
    }

    /// Turns the server's status into a result, and frees it.
    #[inline]
    pub fn check(&self, status: Status) -> Result<(), Fault> {
        if status.is_null() { Ok(()) } else { Err(self.take(status)) }
    }

    #[cold]
    fn take(&self, status: Status) -> Fault {
        // SAFETY: a non-null status is a live error that the caller of the failing function owns.
        unsafe {
            let code = (self.error_code)(status);
            let message = CStr::from_ptr((self.error_message)(status)).to_string_lossy().into_owned();
            (self.error_delete)(status);
            Fault { code, message }
        }
    }

    /// A status to hand to the server, which owns it then.
    #[cold]
    pub fn status(&self, fault: &Fault) -> Status {
        new_status(self.error_new, fault)
    }
}

fn new_status(error_new: unsafe extern "C" fn(i32, *const c_char) -> Status, fault: &Fault) -> Status {
    let text = CString::new(fault.message.replace('\0', " ")).unwrap_or_default();
    // SAFETY: the server copies the text.
    unsafe { error_new(fault.code, text.as_ptr()) }
}

/// A status without the table, for when resolving it failed.
#[cold]
pub fn status_without_table(fault: &Fault) -> Status {
    match symbols::find(c"TRITONSERVER_ErrorNew") {
        // SAFETY: the documented prototype.
        Ok(address) => new_status(
            unsafe {
                std::mem::transmute::<*mut c_void, unsafe extern "C" fn(i32, *const c_char) -> Status>(address.as_ptr())
            },
            fault,
        ),
        Err(_) => {
            // Nothing that could be returned would tell the host: not even an error can be made.
            eprintln!("triton_bench: {}", fault.message);
            std::process::abort()
        }
    }
}
