//! Section "gRPC services of any kind": the method to call, and its description.

use std::path::PathBuf;

use clap::Args;

use crate::plan::{DynamicGrpcPlan, GrpcMethod};

/// Which method is called, and what describes it.
#[derive(Args, Debug)]
#[command(next_help_heading = "gRPC services of any kind (--service-kind dynamic_grpc)")]
pub struct DynamicGrpcArgs {
    /// The method that every request calls. A step of the input data is one call, with all its messages:
    /// `message_generator` is a shell command that writes them, each preceded by its length as 4 bytes in native byte
    /// order. Required
    #[arg(long, value_name = "PACKAGE.SERVICE/METHOD", value_parser = method)]
    grpc_method: Option<GrpcMethod>,

    /// The .proto file that defines the method: steps may then hold messages as JSON in `payload`, one or a list, and
    /// the profile export has the answers as JSON. Default: none
    #[arg(long, value_name = "FILE", value_parser = file)]
    proto: Option<PathBuf>,

    /// A folder with files that --proto imports; repeat it for more. Default: its own folder
    #[arg(long, value_name = "DIR", value_parser = folder)]
    proto_include: Vec<PathBuf>,
}

impl DynamicGrpcArgs {
    /// What was asked for.
    pub fn plan(&self) -> DynamicGrpcPlan {
        DynamicGrpcPlan {
            method: self.grpc_method.clone(),
            proto: self.proto.clone(),
            includes: self.proto_include.clone(),
        }
    }
}

/// `package.Service/Method`.
fn method(text: &str) -> Result<GrpcMethod, String> {
    let rule = "it must be package.Service/Method, with one '/'";
    let named = |name: &str| !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c));
    match text.split_once('/') {
        Some((service, name)) if named(service) && named(name) => {
            Ok(GrpcMethod { service: service.to_owned(), name: name.to_owned() })
        }
        _ => Err(rule.to_owned()),
    }
}

fn file(text: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(text);
    if path.is_file() { Ok(path) } else { Err("it must be a file that exists".to_owned()) }
}

fn folder(text: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(text);
    if path.is_dir() { Ok(path) } else { Err("it must be a folder that exists".to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn methods_have_one_slash() {
        let plain = GrpcMethod { service: "a.b.Echo".into(), name: "Say".into() };
        assert_eq!(method("a.b.Echo/Say"), Ok(plain));
        assert!(["", "/", "a", "a/", "/b", "a/b/c", "/a/b", "a b/c", "a/b?"].iter().all(|text| method(text).is_err()));
    }
}
