//! Section "Model": what is measured.

use clap::Args;

use crate::cli::forms::{mix_entry, model};
use crate::cli::values::{filled, integer};
use crate::error::{Error, Result};
use crate::model::ModelId;
use crate::plan::{MixEntry, ServiceKind};

/// What is measured.
#[derive(Args, Debug)]
#[command(next_help_heading = "Model")]
pub struct ModelArgs {
    /// The model to measure. Required, unless --model-mix names models
    #[arg(short = 'm', long, value_name = "NAME", value_parser = filled)]
    model: Option<String>,

    /// Version of the model. Default: the latest that the server offers
    #[arg(short = 'x', long, value_name = "N", value_parser = version)]
    model_version: Option<u64>,

    /// How the model is served: `triton` is a server on the network, `triton_c_api` is Triton inside this process, `openai` is an
    /// endpoint that takes JSON as OpenAI's do
    #[arg(long, value_name = "triton|triton_c_api|openai", default_value = "triton", value_parser = service_kind)]
    service_kind: ServiceKind,

    /// Models that a BLS model calls, separated by commas, each with `:version` if wanted: their server-side times are
    /// reported too. Default: none
    #[arg(long, value_name = "NAME[:N],...", value_delimiter = ',', value_parser = model)]
    bls_composing_models: Vec<ModelId>,

    /// Draws each request's model from this mix, such as `a:0.7,b:2:0.3` or `llm?lora_name=x:1`: entries separated by
    /// commas, each with a version and request parameters if wanted, and its share; the shares sum to 1. Default: one
    /// model
    #[arg(long, value_name = "NAME[:N][?K=V]:SHARE,...", value_delimiter = ',', value_parser = mix_entry)]
    model_mix: Vec<MixEntry>,

    /// For models of Triton that generate text: the output that holds it, as text (a response is a chunk) or as the numbers of
    /// tokens. The report then has the figures of language models. Default: off
    #[arg(long, value_name = "OUTPUT", value_parser = filled)]
    tokens_from: Option<String>,

    #[arg(long, hide = true, value_name = "NAME")]
    model_signature_name: Option<String>,
}

impl ModelArgs {
    /// Kind of service.
    pub fn service(&self) -> ServiceKind {
        self.service_kind
    }

    /// The model: `-m`, or the first of the mix.
    ///
    /// # Errors
    /// Where no model is named.
    pub fn model(&self) -> Result<ModelId> {
        let version = self.model_version.filter(|&version| version > 0);
        match (&self.model, self.model_mix.first()) {
            (Some(name), _) => Ok(ModelId { name: name.clone(), version }),
            (None, Some(entry)) => Ok(entry.model.clone()),
            (None, None) => Err(Error::usage("-m is missing: name the model to measure; see --help")),
        }
    }

    /// The mix; empty where there is one model.
    pub fn mix(&self) -> Vec<MixEntry> {
        self.model_mix.clone()
    }

    /// Sentences about flags that perf_analyzer ignores for Triton, and so do we.
    pub fn ignored(&self) -> Vec<String> {
        let flags = [("--model-signature-name", &self.model_signature_name, "TensorFlow Serving")];
        let given = flags.into_iter().filter(|(_, value, _)| value.is_some());
        given.map(|(flag, _, service)| format!("{flag} is for {service} and does nothing here")).collect()
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

/// A version number; the empty text and -1 are the latest, here 0.
fn version(text: &str) -> Result<u64, String> {
    match text {
        "" | "-1" => Ok(0),
        _ => integer(text, 1, i64::MAX as u64),
    }
}

fn service_kind(text: &str) -> Result<ServiceKind, String> {
    match text.to_ascii_lowercase().as_str() {
        "triton" => Ok(ServiceKind::Triton),
        "triton_c_api" => Ok(ServiceKind::TritonCApi),
        "openai" => Ok(ServiceKind::OpenAi),
        "null" => Ok(ServiceKind::Null),
        "tfserving" | "torchserve" | "dynamic_grpc" => {
            Err("this kind of service is not part of this version; use triton, triton_c_api or openai".to_owned())
        }
        _ => Err("it must be triton, triton_c_api or openai".to_owned()),
    }
}
