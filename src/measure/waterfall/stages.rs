//! From traces to stages: every trace is cut into its stages, and each stage's times over all traces form a column.

use std::collections::HashMap;

use crate::backend::{ModelName, ModelTrace, Moment, Transit};
use crate::clock::{Stamp, TimeSpan};
use crate::record::KeptTrace;
use crate::result::breakdown::{Breakdown, RequestStage, SlowStage, Slowest, Source};
use crate::terms::PERCENTILES;
use crate::waterfall::weighted::{mean, percentiles};

/// The stages of a model, each from one moment to the next.
const OF_MODELS: [(&str, Moment, Moment); 5] = [
    ("scheduling", Moment::RequestStart, Moment::QueueStart),
    ("queue", Moment::QueueStart, Moment::ComputeStart),
    ("compute input", Moment::ComputeStart, Moment::ComputeInputEnd),
    ("compute", Moment::ComputeInputEnd, Moment::ComputeOutputStart),
    ("compute output", Moment::ComputeOutputStart, Moment::ComputeEnd),
];

/// Where a latency begins and ends.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ends {
    /// It begins when the request should have been sent.
    pub(super) from_intended: bool,
    /// It ends when the thread that waited for the request wakes up.
    pub(super) to_wakeup: bool,
}

impl Ends {
    /// When a request's latency begins.
    pub(super) fn start(self, trace: &KeptTrace) -> Stamp {
        trace.intended.filter(|_| self.from_intended).unwrap_or(trace.sent)
    }

    /// When it ends.
    pub(super) fn end(self, trace: &KeptTrace) -> Stamp {
        trace.awake.filter(|_| self.to_wakeup).unwrap_or(trace.last_response)
    }
}

/// Which stage it is: its name, and the model that it is a stage of and how deep that is, if it is one's.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Key {
    name: &'static str,
    model: Option<(ModelName, usize)>,
}

/// A stage's time in every trace.
struct Column {
    key: Key,
    ns: Vec<u64>,
}

/// The traces of one model, cut into stages.
struct Table {
    model: ModelName,
    /// Whether some request went through several models.
    several: bool,
    columns: Vec<Column>,
    unexplained: Vec<u64>,
    latency: Vec<u64>,
    wake_up: Vec<Option<u64>>,
    weights: Vec<f64>,
    cut: u64,
}

/// A table for every model that requests were for.
pub(super) struct Tables(Vec<Table>);

impl Tables {
    pub(super) fn new<'a>(traces: impl Iterator<Item = &'a KeptTrace>, ends: Ends) -> Self {
        let mut tables = Vec::<Table>::new();
        for trace in traces {
            let Some(root) = trace.models.first() else { continue };
            let index = tables.iter().position(|table| table.model == root.name).unwrap_or_else(|| {
                tables.push(Table::new(root.name));
                tables.len() - 1
            });
            tables[index].add(trace, ends);
        }
        Self(tables)
    }

    pub(super) fn breakdowns(&self) -> Vec<Breakdown> {
        self.0.iter().map(Table::breakdown).collect()
    }
}

/// A model of a trace, with its depth below the one that the request was for.
fn with_depths(models: &[ModelTrace]) -> Vec<(&ModelTrace, usize)> {
    let by_id: HashMap<u64, &ModelTrace> = models.iter().map(|model| (model.id, model)).collect();
    let depth = |model: &ModelTrace| {
        let above = std::iter::successors(by_id.get(&model.parent), |model| by_id.get(&model.parent));
        above.take(models.len()).count()
    };
    models.iter().map(|model| (model, depth(model))).collect()
}

/// How much of `whole` is covered by any of `spans`, in nanoseconds.
fn covered(mut spans: Vec<TimeSpan>, whole: TimeSpan) -> u64 {
    spans.sort_unstable();
    let (mut sum, mut reached) = (0, whole.start);
    for TimeSpan { start, end } in spans {
        let end = end.min(whole.end);
        sum += end.since(start.max(reached));
        reached = reached.max(end);
    }
    sum
}

impl Table {
    fn new(model: ModelName) -> Self {
        Self {
            model,
            several: false,
            columns: Vec::new(),
            unexplained: Vec::new(),
            latency: Vec::new(),
            wake_up: Vec::new(),
            weights: Vec::new(),
            cut: 0,
        }
    }

    fn add(&mut self, trace: &KeptTrace, ends: Ends) {
        let whole = TimeSpan { start: ends.start(trace), end: ends.end(trace) };
        let models = with_depths(&trace.models);
        self.several |= models.len() > 1;
        let spans = spans(trace, &models, whole);
        for (key, span) in &spans {
            self.note(*key, span.end.min(whole.end).since(span.start.max(whole.start)));
        }
        let explained = covered(spans.into_iter().map(|(_, span)| span).collect(), whole);
        let latency = whole.end.since(whole.start);
        self.latency.push(latency);
        self.unexplained.push(latency.saturating_sub(explained));
        self.wake_up.push(trace.awake.filter(|_| !ends.to_wakeup).map(|awake| awake.since(trace.last_response)));
        self.weights.push(trace.weight);
        self.cut += u64::from(trace.more);
    }

    /// Adds to a stage of the trace that is being added.
    fn note(&mut self, key: Key, ns: u64) {
        let number = self.latency.len();
        let index = self.columns.iter().position(|column| column.key == key).unwrap_or_else(|| {
            self.columns.push(Column { key, ns: Vec::new() });
            self.columns.len() - 1
        });
        let column = &mut self.columns[index].ns;
        column.resize(number + 1, 0);
        column[number] += ns;
    }

    /// A stage's times with what each stands for; a trace without it has 0.
    fn weighted<'a>(&'a self, ns: &'a [u64]) -> impl Iterator<Item = (u64, f64)> + 'a {
        ns.iter().copied().chain(std::iter::repeat(0)).zip(self.weights.iter().copied())
    }

    fn stage(&self, key: Key, ns: &[u64], latency_ns: f64) -> RequestStage {
        let mean_ns = mean(self.weighted(ns));
        let (model, depth) = key.model.unzip();
        RequestStage {
            name: key.name.to_owned(),
            model: model.filter(|_| self.several).map(|model| model.text()),
            depth: depth.unwrap_or(0),
            mean_ns,
            percentiles_ns: Some(percentiles(self.weighted(ns).collect(), PERCENTILES)),
            share: if latency_ns > 0.0 { mean_ns / latency_ns } else { 0.0 },
        }
    }

    fn breakdown(&self) -> Breakdown {
        let latency_ns = mean(self.weighted(&self.latency));
        let named = |name, ns: &[u64]| self.stage(Key { name, model: None }, ns, latency_ns);
        let wake_up: Option<Vec<u64>> = self.wake_up.iter().copied().collect();
        let traced = self.latency.len() as u64;
        Breakdown {
            model: self.model.text(),
            source: Source::Traces,
            traced,
            one_in: Some(self.weights.iter().sum::<f64>() / traced.max(1) as f64),
            lost: 0,
            cut: self.cut,
            stages: self.in_order().map(|column| self.stage(column.key, &column.ns, latency_ns)).collect(),
            unexplained: named("unexplained", &self.unexplained),
            latency: named("latency", &self.latency),
            wake_up: wake_up.map(|ns| named("wake-up", &ns)),
            slowest: self.slowest(),
        }
    }

    /// The client's stages before the server's come first, those after it last.
    fn in_order(&self) -> impl Iterator<Item = &Column> {
        let part = |name: &str| match name {
            "schedule delay" => 0,
            "submit" | "network in" => 1,
            "parse" => 2,
            "response" => 4,
            "network out" => 5,
            "wake-up" => 6,
            _ => 3,
        };
        let mut columns: Vec<&Column> = self.columns.iter().collect();
        columns.sort_by_key(|column| part(column.key.name));
        columns.into_iter()
    }

    fn slowest(&self) -> Option<Slowest> {
        let all = self.weighted(&self.latency).collect();
        let [low, high, slow] = percentiles(all, [45.0, 55.0, 99.0]);
        let numbers = |is: &dyn Fn(u64) -> bool| -> Vec<usize> {
            (0..self.latency.len()).filter(|number| is(self.latency[*number])).collect()
        };
        let (slowest, median) = (numbers(&|ns| ns >= slow), numbers(&|ns| (low..=high).contains(&ns)));
        let mean_of = |ns: &[u64], numbers: &[usize]| {
            mean(numbers.iter().map(|&number| (ns.get(number).copied().unwrap_or(0), self.weights[number])))
        };
        let stage = |name: String, ns: &[u64]| SlowStage {
            name,
            mean_ns: mean_of(ns, &slowest),
            median_mean_ns: mean_of(ns, &median),
        };
        let titled = |column: &Column| stage(self.stage(column.key, &column.ns, 0.0).title(), &column.ns);
        (!self.latency.is_empty()).then(|| Slowest {
            requests: slowest.len() as u64,
            mean_ns: mean_of(&self.latency, &slowest),
            median_requests: median.len() as u64,
            median_mean_ns: mean_of(&self.latency, &median),
            stages: self.in_order().map(titled).chain([stage("unexplained".to_owned(), &self.unexplained)]).collect(),
        })
    }
}

/// The stages of a trace, each with its stretch of time.
fn spans(trace: &KeptTrace, models: &[(&ModelTrace, usize)], whole: TimeSpan) -> Vec<(Key, TimeSpan)> {
    let TimeSpan { start, end } = whole;
    let span = |start: Stamp, end: Stamp| TimeSpan { start, end };
    let client_key = |name| Key { name, model: None };
    let mut spans = Vec::new();
    if start < trace.sent {
        spans.push((client_key("schedule delay"), span(start, trace.sent)));
    }
    // What comes after the server has let go of its answer is no part of the latency.
    let answered = trace.last_response.min(end).min(trace.transit.map_or(Stamp::NEVER, |transit| transit.answering));
    let until = if trace.transit.is_some() { answered } else { Stamp::NEVER };
    let root = models.first().and_then(|(model, _)| model.at(Moment::RequestStart));
    match trace.transit {
        None => spans.extend(root.map(|begun| (client_key("submit"), span(trace.sent, begun)))),
        Some(Transit { received, .. }) => {
            spans.push((client_key("network in"), span(trace.sent, received)));
            spans.extend(root.map(|begun| (client_key("parse"), span(received, begun))));
        }
    }
    for (model, depth) in models {
        for (name, from, to) in OF_MODELS {
            if let (Some(from), Some(to)) = (model.at(from), model.at(to)) {
                let span = span(from.min(until), to.max(from).min(until));
                spans.push((Key { name, model: Some((model.name, *depth)) }, span));
            }
        }
    }
    let computed = models.iter().filter_map(|(model, _)| model.at(Moment::ComputeEnd)).max();
    spans.extend(computed.map(|computed| (client_key("response"), span(computed.min(answered), answered))));
    if trace.transit.is_some() {
        spans.push((client_key("network out"), span(answered, trace.last_response.min(end))));
    }
    if end > trace.last_response {
        spans.push((client_key("wake-up"), span(trace.last_response, end)));
    }
    spans
}
