//! Rounds: each of several subjects (variants of a run, candidates of a search), measured once.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::figures::FigureAt;
use crate::model::statistics::CountedTime;
use crate::outcome::Outcome;
use crate::reasons::Verdict;
use crate::statistic::{percentiles, value};
use crate::stats::Proportion;
use crate::summary::{Ending, LevelSummary};
use crate::terms::{FigureName, PERCENTILES, Point, Statistic};

/// Minimum number of requests above a percentile for a round to report it.
const MIN_BEYOND: f64 = 5.0;

/// A figure of a round.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Figure {
    /// What the client saw: inferences a second, latencies in nanoseconds.
    Client(Statistic),
    /// What the server reports for its part of a request, on average, in nanoseconds.
    Server(ServerPart),
}

/// A part of a request in the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ServerPart {
    /// Waiting for an instance.
    ServerQueue,
    /// Input, inference and output.
    ServerCompute,
}

impl Figure {
    /// Where reports have it: a place, and among percentiles the percentile.
    fn order_key(self) -> (u8, f64) {
        match self {
            Self::Client(Statistic::Throughput) => (0, 0.0),
            Self::Client(Statistic::MeanLatency) => (1, 0.0),
            Self::Client(Statistic::Percentile(percentile)) => (2, percentile),
            Self::Server(ServerPart::ServerQueue) => (3, 0.0),
            Self::Server(ServerPart::ServerCompute) => (4, 0.0),
        }
    }

    /// Those of all these units, each once, in the order of reports.
    pub fn of_all<'a>(units: impl Iterator<Item = &'a Unit>) -> Vec<Self> {
        Self::sorted(units.flat_map(|unit| &unit.values).map(|value| value.figure))
    }

    /// Those of these units, and those that a table has whether a unit had enough requests for them or not.
    pub fn in_table<'a>(units: impl Iterator<Item = &'a Unit>) -> Vec<Self> {
        let percentiles = PERCENTILES.map(Statistic::Percentile);
        let always = [Statistic::Throughput, Statistic::MeanLatency].into_iter().chain(percentiles);
        Self::sorted(always.map(Self::Client).chain(Self::of_all(units)))
    }

    fn sorted(figures: impl Iterator<Item = Self>) -> Vec<Self> {
        let mut all: Vec<Self> = figures.collect();
        all.sort_by(|left, right| {
            let (left, right) = (left.order_key(), right.order_key());
            left.0.cmp(&right.0).then(left.1.total_cmp(&right.1))
        });
        all.dedup();
        all
    }

    /// Whether more of it is better.
    pub fn more_is_better(self) -> bool {
        self == Self::Client(Statistic::Throughput)
    }
}

impl fmt::Display for Figure {
    /// The short stable word that reports have for it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Client(statistic) => f.write_str(&statistic.name()),
            Self::Server(ServerPart::ServerQueue) => f.write_str("server_queue"),
            Self::Server(ServerPart::ServerCompute) => f.write_str("server_compute"),
        }
    }
}

/// A figure and its value.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Value {
    /// Which one.
    #[serde(rename = "of")]
    pub figure: Figure,
    /// Its value, above 0.
    pub value: f64,
}

/// A figure of the catalogue that a requirement is about.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NamedValue {
    /// Its key.
    #[serde(default)]
    pub key: String,
    /// Its value, in its unit; none if it has none, or there are too few requests for it.
    #[serde(default)]
    pub value: Option<f64>,
    /// How many requests it is the share of, if it is one.
    #[serde(default)]
    pub of: Option<u64>,
    /// The subject does not have it, whatever the requests.
    #[serde(default)]
    pub absent: bool,
}

impl NamedValue {
    /// A figure of a level.
    fn new(figure: FigureAt, level: &LevelSummary) -> Self {
        let found = figure.value_in(&level.client);
        let beyond = match figure.point {
            Some(Point::Percentile(percentile)) => needed(percentile),
            _ => 0.0,
        };
        let count = figure.figure.times(&level.client).map_or(u64::MAX, |times| times.count());
        let value = found.filter(|_| count as f64 >= beyond).map(|found| found.value);
        // Where nothing succeeded, there may have been too little to tell.
        let absent = found.is_none() && level.client.requests > 0;
        Self { key: figure.key(), value, of: figure.cases(&level.client), absent }
    }
}

/// Result of a subject in one round.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Unit {
    /// Its figures; none if it failed. Percentiles with too few requests above them are left out.
    pub values: Vec<Value>,
    /// Further ones, of which requirements are.
    #[serde(default)]
    pub named: Vec<NamedValue>,
    /// Requests that succeeded.
    pub requests: u64,
    /// Requests that failed.
    pub failed: u64,
    /// How many seconds its window took; none in files of earlier versions.
    #[serde(default)]
    pub seconds: Option<f64>,
    /// Whether it was disturbed.
    pub disturbed: bool,
    /// Why it could not be measured, if so.
    pub problem: Option<String>,
    /// What else is wrong with it, as reports word it: the load was not delivered, or the server did not keep up.
    pub remark: Option<String>,
}

impl Unit {
    /// The result of a level of one window; `further` are percentiles besides the usual ones. None if the user
    /// interrupted it.
    pub fn new(level: &LevelSummary, further: &[f64]) -> Option<Self> {
        let client = &level.client;
        let base = Self {
            requests: client.requests,
            failed: client.failed,
            seconds: Some(client.duration.as_secs_f64()),
            disturbed: level.disturbances.disturbed > 0,
            remark: remark(level),
            ..Self::default()
        };
        if level.ending == Ending::Interrupted {
            return None;
        }
        if level.ending == Ending::Failed || client.requests == 0 {
            let reason = client.errors.first().map(|(error, _)| error.to_string());
            return Some(Self { problem: Some(reason.unwrap_or_else(|| "no request succeeded".to_owned())), ..base });
        }
        Some(Self { values: values(level, further), ..base })
    }

    /// The same with these figures of its level.
    pub fn with_named(self, level: &LevelSummary, figures: impl Iterator<Item = FigureName>) -> Self {
        let named = figures.map(|name| NamedValue::new(FigureAt::new(name), level)).collect();
        Self { named, ..self }
    }

    /// One that could not be measured.
    pub fn failed(reason: impl Into<String>) -> Self {
        Self { problem: Some(reason.into()), ..Self::default() }
    }

    /// A figure of the catalogue, by its key.
    pub fn named(&self, key: &str) -> Option<&NamedValue> {
        self.named.iter().find(|named| named.key == key)
    }

    /// Its failed requests among all.
    pub fn failures(&self) -> Proportion {
        Proportion { hits: self.failed, all: self.failed.saturating_add(self.requests) }
    }

    /// The share of that key, where it has it.
    pub fn share(&self, key: &str) -> Option<Proportion> {
        let named = self.named(key)?;
        let all = named.of?;
        // Files of earlier versions may have a little more than all.
        Some(Proportion { hits: (named.value?.min(1.0) * all as f64).round() as u64, all })
    }

    /// The value of a figure, where it has it.
    pub fn get(&self, figure: Figure) -> Option<f64> {
        self.values.iter().find(|value| value.figure == figure).map(|value| value.value)
    }
}

/// How many requests a round needs to report a percentile.
pub fn needed(percentile: f64) -> f64 {
    MIN_BEYOND / (1.0 - percentile / 100.0)
}

/// Reasons that are about one window, too.
fn remark(level: &LevelSummary) -> Option<String> {
    let reason = match &level.verdict {
        Verdict::Invalid(reasons) => reasons.first().map(ToString::to_string),
        Verdict::Valid => None,
    };
    let is_grave = matches!(Outcome::new(level), Outcome::Overloaded | Outcome::Undelivered);
    reason.filter(|_| is_grave).or_else(|| level.remarks.first().map(|remark| remark.text.clone()))
}

fn values(level: &LevelSummary, further: &[f64]) -> Vec<Value> {
    let count = level.client.latency.count() as f64;
    let percentiles =
        percentiles(further.iter().copied()).into_iter().filter(|percentile| count >= needed(*percentile));
    let client = [Statistic::Throughput, Statistic::MeanLatency].into_iter();
    let client = client.chain(percentiles.map(Statistic::Percentile));
    let client =
        client.map(|statistic| Value { figure: Figure::Client(statistic), value: value(statistic, &level.client) });
    let average = |time: CountedTime| if time.count > 0 { time.ns as f64 / time.count as f64 } else { 0.0 };
    let server = level.server.iter().flat_map(|server| {
        [(ServerPart::ServerQueue, server.delta.queue), (ServerPart::ServerCompute, server.delta.compute())]
    });
    let server = server.map(|(part, time)| Value { figure: Figure::Server(part), value: average(time) });
    client.chain(server).filter(|value| value.value > 0.0).collect()
}

/// Each subject, measured once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Round {
    /// Number of the server start it belongs to, from 1.
    pub start: u32,
    /// Its number among the rounds of that start, from 1.
    pub number: usize,
    /// The order in which the subjects were measured: their numbers, from 0.
    pub order: Vec<usize>,
    /// Result of each; none if it was not measured.
    pub units: Vec<Option<Unit>>,
    /// Whether it was disturbed and another round was measured in its place.
    pub set_aside: bool,
}

impl Round {
    /// The result of subject number `subject`, if it counts.
    pub fn counted(&self, subject: usize) -> Option<&Unit> {
        let unit = self.units.get(subject)?.as_ref()?;
        (!self.set_aside && unit.problem.is_none()).then_some(unit)
    }

    /// How many seconds its windows took, where that is known.
    pub fn seconds(&self) -> Option<f64> {
        self.units.iter().flatten().map(|unit| unit.seconds).sum()
    }

    /// Whether any of it was disturbed.
    pub fn is_disturbed(&self) -> bool {
        self.units.iter().flatten().any(|unit| unit.disturbed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Generated;
    use crate::summary::{Disturbances, LevelLoad, sample};

    #[test]
    fn a_unit_has_the_figures_that_it_has_requests_for() {
        let level = sample::level(LevelLoad::Concurrency(1), 100, 1_000_000);
        let unit = Unit::new(&level, &[99.9]).unwrap();
        let words: Vec<String> = unit.values.iter().map(|value| value.figure.to_string()).collect();
        assert_eq!(words[..5], ["throughput", "avg", "p50", "p90", "p95"], "one request in a hundred is no p99");
        assert!(unit.get(Figure::Client(Statistic::Percentile(99.0))).is_none());
        let disturbances = Disturbances { windows: 1, disturbed: 1, replaced: 0, worst: None };
        assert!(Unit::new(&LevelSummary { disturbances, ..level.clone() }, &[]).unwrap().disturbed);
        let ended = |ending| Unit::new(&LevelSummary { ending, ..level.clone() }, &[]);
        assert_eq!(ended(Ending::Interrupted), None);
        let failed = ended(Ending::Failed).unwrap();
        assert!(failed.values.is_empty() && failed.problem.is_some());
    }

    #[test]
    fn a_unit_has_the_figures_of_the_catalogue_that_it_is_asked_for() {
        let mut level = sample::level(LevelLoad::Concurrency(1), 100, 1_000_000);
        let named = |text: &str| FigureAt::named(text).unwrap().name();
        let of = |level: &LevelSummary, texts: &[&str]| {
            Unit::new(level, &[]).unwrap().with_named(level, texts.iter().map(|text| named(text))).named
        };
        assert!(of(&level, &["ttft_p99", "goodput"]).iter().all(|named| named.absent), "it has neither");
        let mut generated = Generated::empty();
        generated.first_token = sample::distribution(100, 5_000_000);
        (level.client.generated, level.client.good) = (Some(Box::new(generated)), Some(25));
        let found = of(&level, &["ttft_p99", "ttft_p50", "goodput", "goodput_share"]);
        let values: Vec<Option<f64>> = found.iter().map(|named| named.value.map(f64::round)).collect();
        assert_eq!((values[0], &values[2..]), (None, &[Some(25.0), Some(0.0)][..]), "one in a hundred is no p99");
        assert!(found.iter().all(|named| !named.absent));
        assert!((values[1].unwrap() / 5e6 - 1.0).abs() < 1e-3, "{found:?}");
        let unit = Unit { named: found, ..Unit::default() };
        assert_eq!(unit.share("goodput_share"), Some(Proportion { hits: 25, all: 100 }));
        assert_eq!((unit.share("goodput"), unit.share("errors")), (None, None));
        // Files of earlier versions have none.
        let mut json = serde_json::to_value(&unit).unwrap();
        json.as_object_mut().unwrap().remove("named");
        assert_eq!(serde_json::from_value::<Unit>(json).unwrap(), Unit::default());
    }

    #[test]
    fn figures_are_read_as_they_are_written() {
        let all = [
            Figure::Client(Statistic::Throughput),
            Figure::Client(Statistic::Percentile(99.0)),
            Figure::Server(ServerPart::ServerQueue),
        ];
        let text = serde_json::to_string(&all).unwrap();
        assert_eq!(text, r#"["throughput",{"percentile":99.0},"server_queue"]"#);
        assert_eq!(serde_json::from_str::<Vec<Figure>>(&text).unwrap(), all);
    }
}
