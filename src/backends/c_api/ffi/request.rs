//! An inference request object, prepared once and issued many times.

use std::ffi::{CStr, CString, c_void};
use std::ptr;
use std::sync::Arc;

use crate::backend::{ParameterValue, RequestOptions, SequencePosition};
use crate::c_api::ffi::memory::InputPlace;
use crate::c_api::ffi::server::Server;
use crate::c_api::ffi::status::{Status, c_string};
use crate::c_api::ffi::sys;
use crate::data::{InputTensor, Payload};
use crate::model::{CorrelationForm, ModelSpec};

/// An owned request object. Must not be touched between a successful issue and its release.
pub(super) struct InferenceRequest {
    server: Arc<Server>,
    pub(super) pointer: *mut sys::TRITONSERVER_InferenceRequest,
    /// How the ID of its sequence is set.
    correlation: CorrelationForm,
}

/// The callbacks of a request: C functions and their user pointer.
pub(super) struct Callbacks {
    pub(super) release: sys::TRITONSERVER_InferenceRequestReleaseFn_t,
    pub(super) response: sys::TRITONSERVER_InferenceResponseCompleteFn_t,
    pub(super) allocator: *mut sys::TRITONSERVER_ResponseAllocator,
    pub(super) userp: *mut c_void,
}

/// Cache lines, from the object's beginning, that an inference touches: the object, and its first input, which was
/// allocated after it. Taken from a trace of every access (Triton 24.10); what lies between and behind them, up to 2
/// KiB, is never touched.
#[cfg(target_arch = "x86_64")]
const LINES_IN_USE: [usize; 20] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 21, 22, 23, 24, 25, 26];

/// Calls a function of this request.
macro_rules! call {
    ($request:expr, $function:ident $(, $argument:expr)*) => {
        // SAFETY: the request is live and not in the server's hands; pointers among the arguments are valid for the call.
        $request.server.library.check(unsafe { $request.server.library.api.$function($request.pointer $(, $argument)*) })
    };
}

impl InferenceRequest {
    /// An empty request for `model`.
    ///
    /// # Safety
    /// The callbacks may be called with their value, on any thread, as long as the server owns the request.
    pub(super) unsafe fn new(
        server: &Arc<Server>,
        model: &ModelSpec,
        options: &RequestOptions,
        callbacks: &Callbacks,
    ) -> Result<Self, Status> {
        let (name, mut pointer) = (c_string(&model.id.name), ptr::null_mut());
        let version = model.id.version_code();
        // SAFETY: the server is live, the name is a C string; `pointer` receives an object that this value owns.
        let created = unsafe {
            server.library.api.TRITONSERVER_InferenceRequestNew(
                &raw mut pointer,
                server.pointer,
                name.as_ptr(),
                version,
            )
        };
        server.library.check(created)?;
        let correlation = options.correlation_of(model);
        let mut request = Self { server: Arc::clone(server), pointer, correlation };
        call!(request, TRITONSERVER_InferenceRequestSetReleaseCallback, callbacks.release, callbacks.userp)?;
        let Callbacks { allocator, userp, response, .. } = *callbacks;
        call!(request, TRITONSERVER_InferenceRequestSetResponseCallback, allocator, userp, response, userp)?;
        request.set_options(options)?;
        Ok(request)
    }

    fn set_options(&mut self, options: &RequestOptions) -> Result<(), Status> {
        if options.priority > 0 {
            self.set_priority(options.priority)?;
        }
        if options.timeout_us > 0 {
            call!(self, TRITONSERVER_InferenceRequestSetTimeoutMicroseconds, options.timeout_us)?;
        }
        Ok(())
    }

    /// Sets the request parameters of `payload`. They cannot be removed again.
    pub(super) fn set_parameters(&mut self, options: &RequestOptions, payload: &Payload) -> Result<(), Status> {
        options
            .parameters_of(payload)
            .try_for_each(|parameter| self.set_parameter(&c_string(&parameter.name), &parameter.value))
    }

    fn set_priority(&mut self, priority: u64) -> Result<(), Status> {
        let api = &self.server.library.api;
        if api.TRITONSERVER_InferenceRequestSetPriorityUInt64.is_ok() {
            return call!(self, TRITONSERVER_InferenceRequestSetPriorityUInt64, priority);
        }
        self.need(api.TRITONSERVER_InferenceRequestSetPriority.is_ok(), "--priority")?;
        call!(self, TRITONSERVER_InferenceRequestSetPriority, u32::try_from(priority).unwrap_or(u32::MAX))
    }

    fn set_parameter(&mut self, name: &CString, value: &ParameterValue) -> Result<(), Status> {
        const FLAG: &str = "--request-parameter";
        let (api, name) = (&self.server.library.api, name.as_ptr());
        match value {
            ParameterValue::Bool(value) => {
                self.need(api.TRITONSERVER_InferenceRequestSetBoolParameter.is_ok(), FLAG)?;
                call!(self, TRITONSERVER_InferenceRequestSetBoolParameter, name, *value)
            }
            ParameterValue::Int(value) => {
                self.need(api.TRITONSERVER_InferenceRequestSetIntParameter.is_ok(), FLAG)?;
                call!(self, TRITONSERVER_InferenceRequestSetIntParameter, name, *value)
            }
            ParameterValue::Uint(value) => {
                // The C API has no unsigned parameter; its integers are signed 64-bit.
                self.need(api.TRITONSERVER_InferenceRequestSetIntParameter.is_ok(), FLAG)?;
                call!(
                    self,
                    TRITONSERVER_InferenceRequestSetIntParameter,
                    name,
                    i64::try_from(*value).unwrap_or(i64::MAX)
                )
            }
            ParameterValue::Double(value) => {
                self.need(api.TRITONSERVER_InferenceRequestSetDoubleParameter.is_ok(), FLAG)?;
                call!(self, TRITONSERVER_InferenceRequestSetDoubleParameter, name, *value)
            }
            ParameterValue::Text(value) => {
                self.need(api.TRITONSERVER_InferenceRequestSetStringParameter.is_ok(), FLAG)?;
                let value = c_string(value);
                call!(self, TRITONSERVER_InferenceRequestSetStringParameter, name, value.as_ptr())
            }
        }
    }

    fn need(&self, present: bool, flag: &str) -> Result<(), Status> {
        let message =
            || format!("{flag}: this Triton release cannot do that; leave the flag out or use a newer release");
        if present { Ok(()) } else { Err(Status { code: "Unsupported".into(), message: message() }) }
    }

    /// Sets the inputs of `payload`, whose memory the caller keeps alive, in place of earlier ones.
    pub(super) fn set_inputs(&mut self, payload: &Payload) -> Result<(), Status> {
        call!(self, TRITONSERVER_InferenceRequestRemoveAllInputs)?;
        payload.inputs.iter().try_for_each(|input| self.add_input(input))
    }

    fn add_input(&mut self, input: &InputTensor) -> Result<(), Status> {
        let name = c_string(&input.name);
        let (shape, dims) = (input.shape.as_ptr(), input.shape.len() as u64);
        call!(self, TRITONSERVER_InferenceRequestAddInput, name.as_ptr(), input.datatype.code(), shape, dims)?;
        self.append_data(&name, InputPlace::new(input))
    }

    fn append_data(&mut self, name: &CStr, place: InputPlace) -> Result<(), Status> {
        let InputPlace { address, len, memory, memory_id } = place;
        let base = ptr::with_exposed_provenance::<c_void>(address);
        call!(self, TRITONSERVER_InferenceRequestAppendInputData, name.as_ptr(), base, len, memory, memory_id)
    }

    /// Whether [`exchange_data`](Self::exchange_data) is possible.
    pub(super) fn can_exchange_data(&self) -> bool {
        self.server.library.api.TRITONSERVER_InferenceRequestRemoveAllInputData.is_ok()
    }

    /// Sets the data of the existing input `name` to those at `place`, with the same shape.
    pub(super) fn exchange_data(&mut self, name: &CStr, place: InputPlace) -> Result<(), Status> {
        call!(self, TRITONSERVER_InferenceRequestRemoveAllInputData, name.as_ptr())?;
        self.append_data(name, place)
    }

    /// Sets the request's place in its sequence.
    pub(super) fn set_sequence(&mut self, position: SequencePosition) -> Result<(), Status> {
        let start = if position.start { sys::REQUEST_FLAG_SEQUENCE_START } else { 0 };
        let end = if position.end { sys::REQUEST_FLAG_SEQUENCE_END } else { 0 };
        call!(self, TRITONSERVER_InferenceRequestSetFlags, start | end)?;
        match self.correlation {
            CorrelationForm::Number => call!(self, TRITONSERVER_InferenceRequestSetCorrelationId, position.id),
            CorrelationForm::Text => {
                let api = &self.server.library.api;
                self.need(api.TRITONSERVER_InferenceRequestSetCorrelationIdString.is_ok(), "string correlation IDs")?;
                let id = c_string(&position.id.to_string());
                call!(self, TRITONSERVER_InferenceRequestSetCorrelationIdString, id.as_ptr())
            }
        }
    }

    /// Gives a request to its server. On success the server owns it until its release callback, which may already have
    /// run on another thread, and the slot may have put another object in this one's place: so nothing of the object is
    /// touched here once the server has it, and this takes only the pointer. A `trace` that is not null then also
    /// belongs to the server.
    ///
    /// # Safety
    /// `request` is live and not owned by the server, and stays live until the server returns it; a trace is live and
    /// was issued with no other.
    #[inline]
    pub(super) unsafe fn issue(
        server: &Server,
        request: *mut sys::TRITONSERVER_InferenceRequest,
        trace: *mut sys::TRITONSERVER_InferenceTrace,
    ) -> Result<(), Status> {
        // SAFETY: the server is live; the rest is guaranteed by the caller.
        let error = unsafe { server.library.api.TRITONSERVER_ServerInferAsync(server.pointer, request, trace) };
        server.library.check(error)
    }

    /// Prefetches the object and its first input.
    #[inline]
    pub(super) fn prefetch(&self) {
        #[cfg(target_arch = "x86_64")]
        for line in LINES_IN_USE {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            // SAFETY: a hint; it reads nothing that the program sees, and may name any address.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(self.pointer.cast::<i8>().wrapping_add(64 * line)) };
        }
    }

    /// Asks the server to cancel the request. Older releases cannot.
    ///
    /// # Safety
    /// Its issue has returned, and it is not changed nor issued again before this returns.
    pub(super) unsafe fn cancel(&self) {
        let library = &self.server.library;
        if library.api.TRITONSERVER_InferenceRequestCancel.is_ok() {
            // SAFETY: the request is live; the rest is guaranteed by the caller.
            drop(library.check(unsafe { library.api.TRITONSERVER_InferenceRequestCancel(self.pointer) }));
        }
    }
}

impl Drop for InferenceRequest {
    fn drop(&mut self) {
        drop(call!(self, TRITONSERVER_InferenceRequestDelete));
    }
}
