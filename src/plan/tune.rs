//! What the command `tune` does.

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;

use crate::model::configuration::Path;
use crate::terms::Statistic;
use crate::{Figure, Plan, Relation, Requirement};

/// A search for the best configuration of a model.
#[derive(Clone, Debug)]
pub struct TunePlan {
    /// The model, how it is reached and what requests carry.
    pub run: Plan,
    /// The settings to search; if empty, those that suit the model.
    pub search: Vec<Searched>,
    /// What to optimise.
    pub objective: Statistic,
    /// What must hold.
    pub constraints: Vec<Requirement>,
    /// The load under which candidates are measured.
    pub load: TuneLoad,
    /// How long the search may take.
    pub budget: Duration,
    /// Whether the user gave it; otherwise a resumed search keeps its budget.
    pub is_budget_given: bool,
    /// Differences up to this share count as no difference.
    pub margin: f64,
    /// Shortest measurement of a candidate; what the model needs if absent.
    pub unit: Option<Duration>,
    /// Where the winner is written; `tune-MODEL` if absent.
    pub output: Option<PathBuf>,
    /// Whether every candidate is measured in its own process.
    pub isolate: bool,
    /// Whether the search recorded there continues, with more time if the budget is larger.
    pub resume: bool,
    /// Whether this is the process of a candidate, with its task on standard input.
    pub trial: bool,
    /// The words after `tune`.
    pub command_line: Vec<OsString>,
}

impl TunePlan {
    /// Where the winner is written.
    pub fn folder(&self) -> PathBuf {
        let harmless = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '_' };
        let usual =
            || PathBuf::from(format!("tune-{}", self.run.target.model.name.chars().map(harmless).collect::<String>()));
        self.output.clone().unwrap_or_else(usual)
    }

    /// Whether each candidate is measured with as many requests outstanding as meet the constraints: the most throughput
    /// within a latency is that of the best load.
    pub fn searches_load(&self) -> bool {
        let is_latency = |constraint: &Requirement| {
            matches!(constraint.figure, Figure::Statistic(Statistic::MeanLatency | Statistic::Percentile(_)))
                && matches!(constraint.relation, Relation::Below | Relation::AtMost)
        };
        self.load == TuneLoad::Saturating
            && self.objective == Statistic::Throughput
            && self.constraints.iter().any(is_latency)
            && self
                .search
                .iter()
                .all(|searched| !matches!(searched.setting, Setting::Concurrency | Setting::RequestRate))
    }

    /// The load, in words.
    pub fn load_words(&self) -> String {
        match self.searches_load() {
            true => "as many requests outstanding as meet the constraints, and as fill all batches twice".to_owned(),
            false if self.load == TuneLoad::Saturating && self.objective != Statistic::Throughput => {
                "as many requests outstanding as fill the batches of yours twice, for all".to_owned()
            }
            false => self.load.to_string(),
        }
    }

    /// The latency percentile that is shown: the objective's, else that of the first constraint that has one, else that
    /// of the run, else the 99th.
    pub fn percentile(&self) -> f64 {
        self.named().next().unwrap_or_else(|| self.run.measurement.tail())
    }

    /// Every latency percentile that counts or is shown, ascending.
    pub fn percentiles(&self) -> Vec<f64> {
        let mut all: Vec<f64> = self.named().chain([self.percentile()]).collect();
        all.sort_by(f64::total_cmp);
        all.dedup();
        all
    }

    fn named(&self) -> impl Iterator<Item = f64> {
        let constraints = self.constraints.iter().map(|constraint| constraint.figure);
        [Figure::Statistic(self.objective)].into_iter().chain(constraints).filter_map(|figure| match figure {
            Figure::Statistic(Statistic::Percentile(percentile)) => Some(percentile),
            _ => None,
        })
    }
}

/// A setting and the values that are tried.
#[derive(Clone, Debug, PartialEq)]
pub struct Searched {
    /// Which.
    pub setting: Setting,
    /// Its values, in order; `null` removes the setting.
    pub values: Vec<Value>,
}

/// A setting that can be searched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Setting {
    /// A field of a model's configuration: of the model itself if none is named, else of one that it calls.
    Model(Option<String>, Path),
    /// Batch elements in a request.
    BatchSize,
    /// Requests outstanding.
    Concurrency,
    /// Requests a second.
    RequestRate,
    /// A setting of the server in this process, which is restarted for it.
    Server(ServerSetting),
}

/// A setting of the server that can be searched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerSetting {
    /// `rate_limit`: `off` or `execution_count`.
    RateLimit,
    /// `pinned_memory_pool_byte_size`.
    PinnedPool,
    /// `buffer_manager_thread_count`.
    BufferThreads,
}

impl ServerSetting {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::RateLimit, Self::PinnedPool, Self::BufferThreads];

    /// Its name in `--search`.
    pub fn name(self) -> &'static str {
        match self {
            Self::RateLimit => "rate_limit",
            Self::PinnedPool => "pinned_memory_pool_byte_size",
            Self::BufferThreads => "buffer_manager_thread_count",
        }
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Model(None, path) => write!(f, "{path}"),
            Self::Model(Some(model), path) => write!(f, "{model}:{path}"),
            Self::BatchSize => f.write_str("batch_size"),
            Self::Concurrency => f.write_str("concurrency"),
            Self::RequestRate => f.write_str("request_rate"),
            Self::Server(setting) => f.write_str(setting.name()),
        }
    }
}

/// The load under which candidates are measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum TuneLoad {
    /// A number of requests outstanding.
    Concurrency(u32),
    /// A number of requests a second.
    Rate(f64),
    /// Twice as many requests outstanding as fill the batches of all instances.
    Saturating,
}

impl fmt::Display for TuneLoad {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Concurrency(concurrency) => write!(f, "{concurrency} requests outstanding"),
            Self::Rate(rate) => write!(f, "{rate} requests a second"),
            Self::Saturating => f.write_str("as many requests outstanding as fill the batches of all instances twice"),
        }
    }
}
