//! [`Refusal`]: Triton gives some refusals of control requests no code of their own, so their words are read: here, and
//! nowhere else.

use crate::backend::{ErrorCode, InferError};
use crate::engine::calls::status::{PERMISSION_DENIED, UNAUTHENTICATED, UNIMPLEMENTED};

/// A refusal that is told from others by its words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Models are not loaded on request (`--model-control-mode`).
    NotOnRequest,
    /// A request still holds a region of shared memory: Triton sends the answer before it releases the request.
    RegionInUse,
    /// A region of that name is registered.
    RegionKnown,
    /// Trace settings, without the reason.
    TraceSetting,
    /// A method that takes a key (`--grpc-restricted-protocol`).
    Restricted,
}

impl Refusal {
    /// Whether a server's text says this.
    pub fn is_in(self, text: &str) -> bool {
        text.contains(match self {
            Self::NotOnRequest => "not allowed",
            Self::RegionInUse => "currently in use",
            Self::RegionKnown => "already in manager",
            Self::TraceSetting => "invalid trace setting",
            Self::Restricted => "is restricted, expecting header",
        })
    }
}

/// Whether a server does not load or unload models on request: it is not Triton, or keeps that from us, or loads what
/// it finds.
pub fn is_unsupported(error: &InferError) -> bool {
    let is_withheld = match &error.code {
        ErrorCode::Http(status) => matches!(status, 401 | 403 | 404 | 405 | 501),
        ErrorCode::Word(word) => [UNIMPLEMENTED, PERMISSION_DENIED, UNAUTHENTICATED].contains(&&**word),
        _ => false,
    };
    is_withheld || Refusal::NotOnRequest.is_in(&error.message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_that_load_nothing_on_request_are_told_from_those_that_cannot_now() {
        let explicit = "explicit model load / unload is not allowed if polling is enabled";
        for (code, message, expected) in [
            (ErrorCode::Http(404), "", true),
            (ErrorCode::Http(403), "", true),
            (ErrorCode::Http(400), explicit, true),
            (ErrorCode::Http(400), "failed to load 'm', no such file", false),
            (UNIMPLEMENTED.into(), "", true),
            (UNAUTHENTICATED.into(), "", true),
            ("Invalid argument".into(), explicit, true),
            ("Unavailable".into(), "the server is exiting", false),
            (ErrorCode::Late, "no answer", false),
        ] {
            assert_eq!(is_unsupported(&InferError::new(code, message)), expected, "{message}");
        }
        assert!(Refusal::RegionInUse.is_in("region 'r' is currently in use."));
        assert!(!Refusal::TraceSetting.is_in("region 'r' is currently in use."));
    }
}
