//! From moments to spans: how long each part of a request took, added up over requests to one model through one
//! protocol.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use crate::trace::Trace;

/// How requests reached the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Frontend {
    /// HTTP.
    Http,
    /// gRPC.
    Grpc,
    /// Neither: the C API.
    None,
}

/// Sums in nanoseconds over the traces of one model. Each is `None` if no trace has both of its ends.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spans {
    /// First byte received to last byte sent: HTTP and gRPC requests, not those that a model made.
    pub total: Option<u64>,
    /// Receiving the request (HTTP), or waiting for it and reading it (gRPC).
    pub receive: Option<u64>,
    /// Sending the response.
    pub send: Option<u64>,
    /// The request in the server's core.
    pub handler: Option<u64>,
    /// In the scheduler's queue.
    pub queue: Option<u64>,
    /// Executing.
    pub compute: Option<u64>,
    /// Of that: taking inputs.
    pub input: Option<u64>,
    /// Of that: the model itself.
    pub infer: Option<u64>,
    /// Of that: handing out outputs.
    pub output: Option<u64>,
    /// In models that it calls, while it does not compute itself: the steps of an ensemble.
    pub called: Option<u64>,
}

/// The sum of one model's traces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelSpans {
    /// How the requests came; those that a model made count like the request to that model.
    pub frontend: Frontend,
    /// The model's name.
    pub model: String,
    /// The model's version, as the server wrote it.
    pub version: String,
    /// How many traces there are.
    pub count: u64,
    /// Their sums.
    pub spans: Spans,
    /// Each of them, with its number in the file.
    pub each: Vec<(Option<i64>, Spans)>,
}

/// The moments of one trace under names without case, blanks and punctuation: `grpc wait/read start` of old servers and
/// `GRPC_WAITREAD_START` of new ones are equal.
struct Moments(HashMap<String, u64>);

impl Moments {
    fn new(trace: &Trace) -> Self {
        let plain = |name: &str| -> String {
            let name: String = name.chars().filter(char::is_ascii_alphanumeric).collect();
            name.to_ascii_lowercase().replace("requesthandler", "request")
        };
        let mut moments = HashMap::new();
        for moment in &trace.moments {
            // Decoupled models send often: the first start and the last end count.
            let name = plain(&moment.name);
            let is_end = name.ends_with("end");
            let kept = moments.entry(name).or_insert(moment.ns);
            if is_end {
                *kept = moment.ns;
            }
        }
        Self(moments)
    }

    fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// Nanoseconds from one moment to another, if both are there, in this order.
    fn duration(&self, start: &str, end: &str) -> Option<u64> {
        self.0.get(end)?.checked_sub(*self.0.get(start)?)
    }

    fn frontend(&self) -> Frontend {
        if self.has("httprecvstart") {
            Frontend::Http
        } else if self.has("grpcwaitreadstart") {
            Frontend::Grpc
        } else {
            Frontend::None
        }
    }

    fn spans(&self) -> Spans {
        let (receive, send) = match self.frontend() {
            Frontend::Http => (("httprecvstart", "httprecvend"), ("httpsendstart", "httpsendend")),
            _ => (("grpcwaitreadstart", "grpcwaitreadend"), ("grpcsendstart", "grpcsendend")),
        };
        Spans {
            total: self.duration(receive.0, send.1),
            receive: self.duration(receive.0, receive.1),
            send: self.duration(send.0, send.1),
            handler: self.duration("requeststart", "requestend"),
            queue: self.duration("queuestart", "computestart"),
            compute: self.duration("computestart", "computeend"),
            input: self.duration("computestart", "computeinputend"),
            infer: self.duration("computeinputend", "computeoutputstart"),
            output: self.duration("computeoutputstart", "computeend"),
            called: None,
        }
    }

    /// Start and end of the request's time in the server's core.
    fn handled(&self) -> Option<(u64, u64)> {
        Some((*self.0.get("requeststart")?, *self.0.get("requestend")?))
    }

    /// Start and end of its own queueing and computing.
    fn execution(&self) -> Option<(u64, u64)> {
        let start = self.0.get("queuestart").or_else(|| self.0.get("computestart"))?;
        Some((*start, *self.0.get("computeend")?))
    }

    /// How long the requests that it made, `calls`, were handled while it did not compute itself.
    fn called(&self, calls: &[(u64, u64)]) -> Option<u64> {
        let (start, end) = self.handled()?;
        let mut spans: Vec<(u64, u64)> = calls.iter().map(|(from, to)| (*from.max(&start), *to.min(&end))).collect();
        let own_time = self.execution().map_or(0, |(from, to)| to.saturating_sub(from));
        spans.extend(self.execution());
        spans.sort_unstable();
        let (mut covered, mut reached) = (0_u64, 0);
        for (from, to) in spans {
            covered += to.saturating_sub(from.max(reached));
            reached = reached.max(to);
        }
        covered.checked_sub(own_time).filter(|called| *called > 0)
    }
}

impl Spans {
    /// The whole: from first byte to last for a request from outside, for others their time in the server's core.
    pub fn whole(&self) -> u64 {
        self.total.or(self.handler).unwrap_or(0)
    }

    /// Its parts, in chronological order; the unexplained rest comes last.
    pub fn parts(&self) -> Vec<(&'static str, u64)> {
        let mut parts: Vec<(&str, u64)> = [
            ("receive", self.receive),
            ("queue", self.queue),
            ("compute input", self.input),
            ("compute", self.infer),
            ("compute output", self.output),
            ("called models", self.called),
            ("send", self.send),
        ]
        .into_iter()
        .filter_map(|(name, ns)| Some((name, ns?)))
        .collect();
        // If the parts of an execution are not known, the whole is used.
        if let (None, Some(compute)) = (self.infer, self.compute) {
            parts.push(("compute", compute));
        }
        let explained: u64 = parts.iter().map(|(_, ns)| ns).fold(0, |sum, ns| sum.saturating_add(*ns));
        parts.push(("unexplained", self.whole().saturating_sub(explained)));
        parts
    }

    fn add(&mut self, other: &Self) {
        let pairs = [
            (&mut self.total, other.total),
            (&mut self.receive, other.receive),
            (&mut self.send, other.send),
            (&mut self.handler, other.handler),
            (&mut self.queue, other.queue),
            (&mut self.compute, other.compute),
            (&mut self.input, other.input),
            (&mut self.infer, other.infer),
            (&mut self.output, other.output),
            (&mut self.called, other.called),
        ];
        for (sum, part) in pairs {
            *sum = sum.map_or(part, |sum| Some(sum.saturating_add(part.unwrap_or(0))));
        }
    }
}

/// Adds traces up by frontend and model, in that order, models as they first appear. The second result is the number of
/// traces left out because the start or the end of their request is not in the file.
pub fn add_up(traces: &[Trace]) -> (Vec<ModelSpans>, usize) {
    let (mut models, mut left_out) = (Vec::<ModelSpans>::new(), 0);
    let mut indices: HashMap<(Frontend, &str, &str), usize> = HashMap::new();
    let mut calls: HashMap<i64, Vec<(u64, u64)>> = HashMap::new();
    for trace in traces {
        if let (Some(parent), Some(handled)) = (trace.parent, Moments::new(trace).handled()) {
            calls.entry(parent).or_default().push(handled);
        }
    }
    for (trace, root) in traces.iter().zip(roots(traces)) {
        let moments = Moments::new(trace);
        let own_calls = trace.id.and_then(|id| calls.get(&id));
        let spans = Spans { called: own_calls.and_then(|calls| moments.called(calls)), ..moments.spans() };
        if spans.handler.is_none() {
            left_out += 1;
            continue;
        }
        let frontend = Moments::new(&traces[root]).frontend();
        match indices.entry((frontend, &trace.model, &trace.version)) {
            Entry::Occupied(entry) => {
                let sum = &mut models[*entry.get()];
                sum.count += 1;
                sum.spans.add(&spans);
                sum.each.push((trace.id, spans));
            }
            Entry::Vacant(entry) => {
                entry.insert(models.len());
                let (model, version) = (trace.model.clone(), trace.version.clone());
                let trace_spans = vec![(trace.id, spans.clone())];
                models.push(ModelSpans { frontend, model, version, count: 1, spans, each: trace_spans });
            }
        }
    }
    models.sort_by_key(|sum| sum.frontend);
    (models, left_out)
}

/// For each trace, the place of the outside request that it belongs to. A parent that is not in the file ends the search, and so does
/// one that was met already. Every parent is looked up once, however deep they nest.
fn roots(traces: &[Trace]) -> Vec<usize> {
    let indices: HashMap<i64, usize> =
        traces.iter().enumerate().filter_map(|(index, trace)| Some((trace.id?, index))).collect();
    let mut roots: Vec<Option<usize>> = vec![None; traces.len()];
    for start in 0..traces.len() {
        let (mut way, mut index) = (Vec::new(), start);
        let root = loop {
            if let Some(root) = roots[index] {
                break root;
            }
            roots[index] = Some(index);
            way.push(index);
            match traces[index].parent.and_then(|parent| indices.get(&parent)) {
                Some(&parent) => index = parent,
                None => break index,
            }
        };
        way.into_iter().for_each(|index| roots[index] = Some(root));
    }
    roots.into_iter().enumerate().map(|(index, root)| root.unwrap_or(index)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::Moment;

    fn trace(id: i64, parent: Option<i64>, moments: &[(&str, u64)]) -> Trace {
        let moments = moments.iter().map(|(name, ns)| Moment { name: (*name).to_owned(), ns: *ns }).collect();
        Trace { id: Some(id), parent, request: None, model: format!("m{id}"), version: "1".to_owned(), moments }
    }

    const HANDLER: [(&str, u64); 2] = [("REQUEST_START", 10), ("REQUEST_END", 90)];

    #[test]
    fn requests_of_models_belong_to_the_request_that_caused_them() {
        let traces = [
            trace(1, None, &[&HANDLER[..], &[("GRPC_WAITREAD_START", 0), ("GRPC_SEND_END", 99)]].concat()),
            trace(2, Some(1), &HANDLER),
            trace(3, Some(2), &HANDLER),
            trace(4, Some(77), &HANDLER),
            trace(5, None, &[("REQUEST_START", 1)]),
            trace(6, Some(7), &HANDLER),
            trace(7, Some(6), &HANDLER),
        ];
        let (models, left_out) = add_up(&traces);
        let found: Vec<_> = models.iter().map(|sum| (sum.model.as_str(), sum.frontend)).collect();
        let (grpc, none) = (Frontend::Grpc, Frontend::None);
        assert_eq!(found, [("m1", grpc), ("m2", grpc), ("m3", grpc), ("m4", none), ("m6", none), ("m7", none)]);
        assert_eq!((left_out, models[0].spans.total, models[1].spans.total), (1, Some(99), None));
    }

    #[test]
    fn a_hundred_thousand_requests_within_each_other_take_no_longer_than_beside_each_other() {
        // A faulty server may write such a file; reading it must not end the program.
        let count = 100_000;
        let outside = [&HANDLER[..], &[("GRPC_WAITREAD_START", 0), ("GRPC_SEND_END", 99)]].concat();
        let nested = (1..=count).map(|id| match id {
            1 => trace(1, None, &outside),
            id => trace(id, Some(id - 1), &HANDLER),
        });
        let (models, left_out) = add_up(&nested.rev().collect::<Vec<_>>());
        assert_eq!((models.len(), left_out), (count as usize, 0));
        assert!(models.iter().all(|sum| sum.frontend == Frontend::Grpc));
    }

    #[test]
    fn the_time_of_an_ensemble_is_that_of_its_steps() {
        let step =
            |id: i64, start: u64, end: u64| trace(id, Some(1), &[("REQUEST_START", start), ("REQUEST_END", end)]);
        // Two steps side by side, a pause, and a third.
        let ensemble = [trace(1, None, &HANDLER), step(2, 12, 40), step(3, 20, 50), step(4, 60, 85)];
        let (models, _) = add_up(&ensemble);
        assert_eq!(models[0].spans.parts(), [("called models", 63), ("unexplained", 17)]);
        // One that computes while it calls has these in its own time.
        let moments = [("QUEUE_START", 15), ("COMPUTE_START", 20), ("COMPUTE_END", 80)];
        let (models, _) = add_up(&[trace(1, None, &[&HANDLER[..], &moments].concat()), step(2, 30, 70)]);
        assert_eq!(models[0].spans.called, None);
        assert_eq!(models[1].spans.called, None);
    }

    #[test]
    fn times_that_run_backwards_are_no_span() {
        let (models, _) =
            add_up(&[trace(1, None, &[&HANDLER[..], &[("COMPUTE_START", 50), ("COMPUTE_END", 40)]].concat())]);
        assert_eq!((models[0].spans.handler, models[0].spans.compute), (Some(80), None));
    }
}
