//! Section "Model": what is measured.

use clap::Args;

use crate::error::{Error, Result};
use crate::parsers::{mix_entry, model};
use crate::plan::{GrpcMethod, MixEntry, ServiceKind};
use crate::values::{filled, integer, one_of};
use ::model::ModelId;

/// The words of --service-kind.
pub const KINDS: [(&str, ServiceKind); 6] = [
    ("triton", ServiceKind::Triton),
    ("triton_c_api", ServiceKind::TritonCApi),
    ("openai", ServiceKind::OpenAi),
    ("tfserving", ServiceKind::TfServing),
    ("torchserve", ServiceKind::TorchServe),
    ("dynamic_grpc", ServiceKind::DynamicGrpc),
];

/// What is measured.
#[derive(Args, Debug)]
#[command(next_help_heading = "Model")]
pub struct ModelArgs {
    /// The model to measure. Required, unless --model-mix names models, or --service-kind is dynamic_grpc, which has no
    /// models, or openai, where the first that the server lists at `/v1/models` is measured
    #[arg(short = 'm', long, value_name = "NAME", value_parser = filled)]
    model: Option<String>,

    /// Version of the model; with tfserving also its label, with torchserve any text. Default: the latest that the server offers
    #[arg(short = 'x', long, value_name = "N", value_parser = version)]
    model_version: Option<Version>,

    /// How the model is served: `triton` is a server on the network, `triton_c_api` is Triton inside this process,
    /// `openai` is an OpenAI-compatible endpoint, `tfserving` is TensorFlow Serving, `torchserve` is TorchServe,
    /// `dynamic_grpc` is any method of any gRPC service
    #[arg(long, value_name = "KIND", default_value = "triton", value_parser = service_kind)]
    service_kind: ServiceKind,

    /// Comma-separated models that a BLS model calls, each with an optional `:version`: reports their server-side times
    /// too. Default: none
    #[arg(long, value_name = "NAME[:N],...", value_delimiter = ',', value_parser = model)]
    bls_composing_models: Vec<ModelId>,

    /// Draws each request's model from this mix, such as `a:0.7,b:2:0.3` or `llm?lora_name=x:1`: comma-separated
    /// entries, each with an optional version, optional request parameters and its share; shares sum to 1. Default: one
    /// model
    #[arg(long, value_name = "NAME[:N][?K=V]:SHARE,...", value_delimiter = ',', value_parser = mix_entry)]
    model_mix: Vec<MixEntry>,

    /// For Triton models that generate text: the output that holds it, as text (each response is a chunk) or as token
    /// IDs. Adds language-model metrics to the report. Default: off
    #[arg(long, value_name = "OUTPUT", value_parser = filled)]
    tokens_from: Option<String>,
}

impl ModelArgs {
    /// Kind of service.
    pub fn service(&self) -> ServiceKind {
        self.service_kind
    }

    /// The model: `-m`, or the first of the mix. Where a method of a gRPC service is called, that is its name in reports.
    /// Nameless, if the server is asked what it offers.
    ///
    /// # Errors
    /// If no model is named.
    pub fn model(&self, service: ServiceKind, method: Option<&GrpcMethod>) -> Result<ModelId> {
        let version = match self.model_version {
            Some(Version::Number(number)) => Some(number),
            _ => None,
        };
        match (&self.model, self.model_mix.first()) {
            (Some(name), _) => Ok(ModelId { name: name.clone(), version }),
            (None, Some(entry)) => Ok(entry.model.clone()),
            (None, None) if service == ServiceKind::DynamicGrpc => {
                Ok(ModelId::latest(method.map_or_else(String::new, ToString::to_string)))
            }
            (None, None) if service == ServiceKind::OpenAi => Ok(ModelId::latest("")),
            (None, None) => Err(Error::usage("-m is missing: name the model to measure; see --help")),
        }
    }

    /// The value of `-x` if it is not a number.
    pub fn version_label(&self) -> Option<String> {
        match &self.model_version {
            Some(Version::Label(label)) => Some(label.clone()),
            _ => None,
        }
    }

    /// The mix; empty if there is only one model.
    pub fn mix(&self) -> Vec<MixEntry> {
        self.model_mix.clone()
    }

    /// The output that holds generated text, if one is named.
    pub fn tokens_from(&self) -> Option<String> {
        self.tokens_from.clone()
    }

    /// Models that a BLS model calls.
    pub fn bls_composing(&self) -> Vec<ModelId> {
        self.bls_composing_models.clone()
    }
}

/// Which version of the model.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Version {
    Latest,
    Number(u64),
    /// That of a service whose versions need not be numbers.
    Label(String),
}

/// A version; the empty text and -1 are the latest.
fn version(text: &str) -> Result<Version, String> {
    match text {
        "" | "-1" => Ok(Version::Latest),
        _ if text.bytes().all(|byte| byte.is_ascii_digit()) => integer(text, 1, i64::MAX as u64).map(Version::Number),
        _ => Ok(Version::Label(text.to_owned())),
    }
}

fn service_kind(text: &str) -> Result<ServiceKind, String> {
    // Nothing is called there: for whoever measures this program.
    if text.eq_ignore_ascii_case("null") {
        return Ok(ServiceKind::Null);
    }
    one_of(&KINDS)(text)
}
