//! What the slots of one client share.

use std::sync::{Arc, OnceLock};

use crate::backend::{ClientSpec, CompletionSink};
use crate::c_api::ffi::allocator::ResponseAllocator;
use crate::c_api::ffi::exchange::ExchangeTable;
use crate::c_api::ffi::server::Server;
use crate::c_api::ffi::sys;

/// What all slots of a client share.
pub(super) struct Shared {
    pub(super) allocator: ResponseAllocator,
    /// The functions that the server calls when it releases a request, and with every response.
    pub(super) on_release: sys::TRITONSERVER_InferenceRequestReleaseFn_t,
    pub(super) on_response: sys::TRITONSERVER_InferenceResponseCompleteFn_t,
    pub(super) server: Arc<Server>,
    pub(super) sink: Arc<dyn CompletionSink>,
    pub(super) spec: ClientSpec,
    /// Set if a slot needs it: for [`Reuse::Exchange`].
    pub(super) exchange: OnceLock<Arc<ExchangeTable>>,
}

/// How a slot reuses request objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reuse {
    /// One object per payload, all of them prepared.
    PerPayload,
    /// One object, whose inputs are exchanged, if there would be too many objects.
    Exchange,
    /// A new object per request, if the server must not see one twice.
    Never,
}
