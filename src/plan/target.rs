//! Which model, where.

use std::fmt;
use std::time::Duration;

use crate::backend::{Parameter, ParameterValue};
use crate::model::ModelId;
use crate::{
    ConnectionPlan, DynamicGrpcPlan, OpenAiPlan, Plan, Protocol, ServerPlan, Spread, TfServingPlan, TorchServePlan,
};
use ::data::is_hidden;

/// The major version of Triton's C API that this program speaks.
pub const API_MAJOR: u32 = 1;

/// Which kind of service is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServiceKind {
    /// Triton over HTTP or gRPC.
    Triton,
    /// Triton in our own process.
    TritonCApi,
    /// An endpoint that takes JSON, as OpenAI's do.
    OpenAi,
    /// TensorFlow Serving over gRPC or REST.
    TfServing,
    /// TorchServe over HTTP.
    TorchServe,
    /// Any method of any gRPC service.
    DynamicGrpc,
    /// No server: completes at once; measures the tool's own cost.
    Null,
}

impl ServiceKind {
    /// Whether the server is reached over a network, with an address, header fields and perhaps TLS.
    pub fn is_remote(self) -> bool {
        !matches!(self, Self::TritonCApi | Self::Null)
    }

    /// Whether this is Triton, wherever it runs, or its stand-in.
    pub fn is_triton(self) -> bool {
        matches!(self, Self::Triton | Self::TritonCApi | Self::Null)
    }

    /// Its value of `--service-kind`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Triton => "triton",
            Self::TritonCApi => "triton_c_api",
            Self::OpenAi => "openai",
            Self::DynamicGrpc => "dynamic_grpc",
            Self::TfServing => "tfserving",
            Self::TorchServe => "torchserve",
            Self::Null => "null",
        }
    }

    /// The server's default port. TorchServe's own is 8080, but perf_analyzer's is this.
    pub fn port(self, protocol: &Protocol) -> u16 {
        match (self, protocol) {
            (Self::TfServing, Protocol::Grpc { .. }) => 8500,
            (Self::TfServing, Protocol::Http { .. }) => 8501,
            (Self::DynamicGrpc, _) | (_, Protocol::Http { .. }) => 8000,
            (_, Protocol::Grpc { .. }) => 8001,
        }
    }

    /// Whether the server runs in this process and is configured by it.
    pub fn is_embedded(self) -> bool {
        self == Self::TritonCApi
    }
}

/// Which model, where.
#[derive(Clone, Debug)]
pub struct Target {
    /// Kind of service.
    pub service: ServiceKind,
    /// The model; of a mix, its first.
    pub model: ModelId,
    /// The value of `-x` if it is not a number: a label of TensorFlow Serving, a version of TorchServe.
    pub version_label: Option<String>,
    /// Models that requests are drawn from; empty if there is only [`model`](Self::model).
    pub mix: Vec<MixEntry>,
    /// Models that a BLS model calls.
    pub bls_composing: Vec<ModelId>,
    /// How a server on the network is reached.
    pub connection: ConnectionPlan,
    /// How further servers are reached that requests are spread over.
    pub replicas: Vec<ConnectionPlan>,
    /// How they are spread.
    pub spread: Spread,
    /// How the embedded server is set up.
    pub server: ServerPlan,
    /// What is asked of services of the OpenAI kind.
    pub openai: OpenAiPlan,
    /// The output that holds generated text or tokens, if the model generates.
    pub tokens_from: Option<String>,
    /// Largest response over the network, in bytes; `None` is gRPC's own limit.
    pub max_reply_bytes: Option<u64>,
    /// Limit on the bytes of all responses that are being received; `None` derives it from the free memory.
    pub max_reply_memory: Option<u64>,
    /// Trace settings for the server on the network.
    pub trace: Option<TraceSettings>,
    /// How the server's own metrics are collected, if they are.
    pub metrics: Option<MetricsPlan>,
    /// Settings of runs on any gRPC service.
    pub dynamic_grpc: DynamicGrpcPlan,
    /// Settings of TensorFlow Serving only.
    pub tfserving: TfServingPlan,
    /// Settings of TorchServe only.
    pub torchserve: TorchServePlan,
}

impl Target {
    /// How each server on the network is reached.
    pub fn connections(&self) -> impl Iterator<Item = &ConnectionPlan> {
        std::iter::once(&self.connection).chain(&self.replicas)
    }

    /// Every model that requests may be for, each once: entries of a mix may differ only in their parameters.
    pub fn models(&self) -> impl Iterator<Item = &ModelId> {
        let mut models = vec![&self.model];
        for entry in &self.mix {
            if !models.contains(&&entry.model) {
                models.push(&entry.model);
            }
        }
        models.into_iter()
    }
}

/// One entry of a mix of models.
#[derive(Clone, Debug, PartialEq)]
pub struct MixEntry {
    /// The model.
    pub model: ModelId,
    /// Share of the requests, 0 to 1; the shares of a mix sum to 1.
    pub share: f64,
    /// Request parameters of this entry alone.
    pub parameters: Vec<Parameter>,
}

impl fmt::Display for MixEntry {
    /// As in `--model-mix`, without the share.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.model)?;
        for (number, Parameter { name, value }) in self.parameters.iter().enumerate() {
            let separator = if number == 0 { '?' } else { '&' };
            match value {
                _ if is_hidden(name) => write!(f, "{separator}{name}=…")?,
                ParameterValue::Bool(value) => write!(f, "{separator}{name}={value}")?,
                ParameterValue::Int(value) => write!(f, "{separator}{name}={value}")?,
                ParameterValue::Uint(value) => write!(f, "{separator}{name}={value}")?,
                ParameterValue::Double(value) => write!(f, "{separator}{name}={value}")?,
                ParameterValue::Text(value) => write!(f, "{separator}{name}={value}")?,
            }
        }
        Ok(())
    }
}

/// Settings of the server's request traces. Settings that are `None` stay as the server has them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceSettings {
    /// What is traced; nothing if the list is empty.
    pub levels: Option<Vec<TraceLevel>>,
    /// One request in this many is traced.
    pub rate: Option<u64>,
    /// How many traces are taken; -1 is without limit.
    pub count: Option<i64>,
    /// Traces per file; 0 is one file, written when the server stops.
    pub log_frequency: Option<u64>,
}

impl TraceSettings {
    /// The name under which servers know the levels.
    pub const LEVEL: &str = "trace_level";

    /// The settings that are given, with the names and values of Triton's trace extension: an empty list of levels is
    /// `OFF`, and everything but the levels is one word.
    pub fn entries(&self) -> impl Iterator<Item = (&'static str, Vec<String>)> {
        let word = |level: &TraceLevel| match level {
            TraceLevel::Timestamps => "TIMESTAMPS".to_owned(),
            TraceLevel::Tensors => "TENSORS".to_owned(),
        };
        let levels = self.levels.as_ref().map(|levels| match levels.as_slice() {
            [] => vec!["OFF".to_owned()],
            some => some.iter().map(word).collect(),
        });
        let entries = [
            (Self::LEVEL, levels),
            ("trace_rate", self.rate.map(|value| vec![value.to_string()])),
            ("trace_count", self.count.map(|value| vec![value.to_string()])),
            ("log_frequency", self.log_frequency.map(|value| vec![value.to_string()])),
        ];
        entries.into_iter().filter_map(|(name, words)| Some((name, words?)))
    }
}

/// What a trace holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TraceLevel {
    /// Moments of each step.
    Timestamps,
    /// Values of tensors.
    Tensors,
}

/// How the server's metrics are collected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetricsPlan {
    /// Time between two readings.
    pub interval: Duration,
}

/// What the command `models` lists.
#[derive(Debug)]
pub struct Survey {
    /// The server to ask; its model is ignored.
    pub plan: Plan,
    /// The only model to list; all if absent.
    pub only: Option<String>,
}
