//! Settings of runs on any gRPC service.

use std::fmt;
use std::path::PathBuf;

/// Settings of runs on any gRPC service.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DynamicGrpcPlan {
    /// The method that is called.
    pub method: Option<GrpcMethod>,
    /// The file that describes it, for payloads in JSON.
    pub proto: Option<PathBuf>,
    /// Where files that it imports are, beside its own folder.
    pub includes: Vec<PathBuf>,
}

/// A method of a gRPC service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrpcMethod {
    /// The service, with its package.
    pub service: String,
    /// The method's name.
    pub name: String,
}

impl fmt::Display for GrpcMethod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.service, self.name)
    }
}
