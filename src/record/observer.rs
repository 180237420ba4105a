//! Observers of every request and response: the profile export, output validation.

use crate::backend::{InferError, Request, Response};
use crate::clock::Stamp;

/// Sees the responses and the end of every request. Calls for one request stream never overlap, those for different
/// request streams may. They run on threads of the measured server and follow the contract of [`crate::backend`]: a
/// request is recorded before they see it, and they do not make the next one wait.
pub trait Observer: Send + Sync {
    /// Prepares for the request streams below `request_streams`, before any of their requests is sent.
    fn reserve(&self, request_streams: usize);

    /// A response came for the request of `request_stream`.
    fn response(&self, request_stream: usize, response: &Response<'_>);

    /// The request of `request_stream` has carried this text in place of its payload's first input.
    fn carried(&self, _request_stream: usize, _text: &[u8]) {}

    /// The request of `request_stream` is over.
    fn complete(&self, request_stream: usize, finished: &Finished<'_>);
}

/// A finished request.
#[derive(Clone, Copy, Debug)]
pub struct Finished<'a> {
    /// What was asked.
    pub request: Request,
    /// Which server, where there are several.
    pub server: usize,
    /// When it was sent.
    pub sent: Stamp,
    /// When it should have been sent, in open loops.
    pub intended: Option<Stamp>,
    /// When it ended, as it was recorded; decides the window.
    pub end: Stamp,
    /// Why it failed, if it did.
    pub error: Option<&'a InferError>,
}
