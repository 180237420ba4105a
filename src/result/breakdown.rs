//! Where a level's requests spend their time, stage by stage: from traced requests one by one, otherwise from the
//! server's averages.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Where the time of a level's requests goes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Breakdown {
    /// The model that the requests were for.
    pub model: String,
    /// What it is made of.
    pub source: Source,
    /// Requests that were traced, and succeeded in the result's windows.
    pub traced: u64,
    /// One in this many requests was traced, on average; absent if none was.
    pub one_in: Option<f64>,
    /// Traces of the level that were lost, because they came faster than they can be kept.
    pub lost: u64,
    /// Traces that went through more models than are reported.
    pub cut: u64,
    /// The stages, in the order in which a request passes them.
    pub stages: Vec<RequestStage>,
    /// Time that no stage accounts for.
    pub unexplained: RequestStage,
    /// The latency that the stages are parts of.
    pub latency: RequestStage,
    /// From the last response until the waiting thread woke up, if the latency ends before that.
    pub wake_up: Option<RequestStage>,
    /// Where the slowest requests spent their time.
    pub slowest: Option<Slowest>,
}

/// What a breakdown is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// Traces of single requests.
    Traces,
    /// Averages of the server's statistics.
    Statistics,
}

/// One stage of a request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RequestStage {
    /// What it is called.
    pub name: String,
    /// The model that it is a stage of, if the request goes through several.
    pub model: Option<String>,
    /// How many models deep that is.
    pub depth: usize,
    /// Mean over all requests, in nanoseconds; a request without this stage counts as 0.
    pub mean_ns: f64,
    /// Percentiles 50, 90, 95 and 99 over all requests, in nanoseconds; absent if only averages are known.
    pub percentiles_ns: Option<[u64; 4]>,
    /// Its mean as a share of the mean latency, 0 to 1. Overlapping stages, such as those of a model and of the models
    /// it calls, may sum to more than 1.
    pub share: f64,
}

impl RequestStage {
    /// Its name, with the model's where there are several.
    pub fn title(&self) -> String {
        self.model.as_ref().map_or_else(|| self.name.clone(), |model| format!("{model}: {}", self.name))
    }
}

/// What the slowest hundredth of the requests spent their time on, against the median ones.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Slowest {
    /// Traced requests that are among the slowest.
    pub requests: u64,
    /// Their mean latency in nanoseconds.
    pub mean_ns: f64,
    /// Traced requests around the median, from the 45th to the 55th percentile.
    pub median_requests: u64,
    /// Their mean latency in nanoseconds.
    pub median_mean_ns: f64,
    /// Stage by stage, in the order of the breakdown's stages, with unexplained time last.
    pub stages: Vec<SlowStage>,
}

/// One stage of the slowest requests.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SlowStage {
    /// The stage, with its model's name where there are several.
    pub name: String,
    /// Its mean in the slowest requests, in nanoseconds.
    pub mean_ns: f64,
    /// Its mean in the median ones, in nanoseconds.
    pub median_mean_ns: f64,
}
