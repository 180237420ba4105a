//! [`CountedTokens`]: wraps any backend whose model generates text, one response after the other, and counts the tokens
//! in one of its outputs, for the figures of language models.

use std::sync::Arc;

use crossbeam::utils::CachePadded;
use parking_lot::Mutex;

use crate::backend::{
    Awaited, Backend, Capabilities, Client, ClientSpec, Completion, CompletionSink, Generation, IndexEntry,
    ModelControl, Network, Next, OutputView, Request, RequestTrace, Response, ServerIdentity, SlotId, Uncounted,
};
use crate::chunks::Chunks;
use crate::clock::Stamp;
use crate::data::{Payload, count_strings};
use crate::error::{Error, Result};
use crate::model::statistics::StatisticsSnapshot;
use crate::model::{DataType, ModelId, ModelSpec};

/// Bytes of the length prefix of each string of a tensor.
const LENGTH: usize = 4;

/// A backend whose responses are generated text.
pub struct CountedTokens {
    inner: Arc<dyn Backend>,
    output: Arc<str>,
}

impl CountedTokens {
    /// Wraps `inner`, whose text or tokens are in `output`.
    pub fn new(inner: Arc<dyn Backend>, output: &str) -> Self {
        Self { inner, output: output.into() }
    }
}

impl Backend for CountedTokens {
    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    fn server(&self) -> Option<ServerIdentity> {
        self.inner.server()
    }

    fn model(&self, id: &ModelId) -> Result<ModelSpec> {
        let model = self.inner.model(id)?;
        if !model.outputs.iter().any(|output| output.name == *self.output) {
            let names: Vec<&str> = model.outputs.iter().map(|output| output.name.as_str()).collect();
            let rule = format!("model '{id}' has no such output; there are {}", names.join(", "));
            return Err(Error::usage(format!("--tokens-from {}: {rule}", self.output)));
        }
        Ok(model)
    }

    fn prepare(&self, models: &Arc<[ModelSpec]>, payloads: &Arc<[Payload]>) -> Result<()> {
        self.inner.prepare(models, payloads)
    }

    fn index(&self) -> Result<Vec<IndexEntry>> {
        self.inner.index()
    }

    fn statistics(&self, id: &ModelId) -> Result<StatisticsSnapshot> {
        self.inner.statistics(id)
    }

    fn all_statistics(&self) -> Result<Option<StatisticsSnapshot>> {
        self.inner.all_statistics()
    }

    fn metrics(&self, server: usize, line: &mut dyn FnMut(&str)) -> Result<()> {
        self.inner.metrics(server, line)
    }

    fn reload(&self, models: &[ModelId]) -> Result<bool> {
        self.inner.reload(models)
    }

    fn control(&self) -> Option<&dyn ModelControl> {
        self.inner.control()
    }

    fn traces(&self) -> bool {
        self.inner.traces()
    }

    fn generates(&self) -> bool {
        true
    }

    fn is_dying(&self) -> bool {
        self.inner.is_dying()
    }

    fn servers(&self) -> &[String] {
        self.inner.servers()
    }

    fn network(&self) -> Option<&dyn Network> {
        self.inner.network()
    }

    fn open_client(&self, spec: ClientSpec, sink: Arc<dyn CompletionSink>) -> Result<Box<dyn Client>> {
        let streams = spec.models.iter().any(|model| model.decoupled);
        let counter = Arc::new(Counter { sink, output: self.output.clone(), streams, slots: Chunks::new(spec.slots) });
        let client = self.inner.open_client(spec, Arc::clone(&counter) as Arc<dyn CompletionSink>)?;
        Ok(Box::new(CountedClient { client, counter }))
    }
}

/// Reads responses on their way to the sink.
struct Counter {
    sink: Arc<dyn CompletionSink>,
    output: Arc<str>,
    /// Whether responses arrive one after the other.
    streams: bool,
    /// What each slot's request has generated. The locks are never contended, because calls for one slot never overlap.
    slots: Chunks<CachePadded<Mutex<Generation>>>,
}

impl CompletionSink for Counter {
    fn response(&self, slot: SlotId, response: &Response<'_>) {
        if !response.empty && response.error.is_none() {
            let mut count = None;
            response.outputs.visit(&mut |output| {
                if output.name == &*self.output {
                    count = Some(tokens(&output));
                }
            });
            let mut generation = self.slots.get(slot.index()).lock();
            add(&mut generation, count.unwrap_or_default(), response.at, self.streams);
        }
        self.sink.response(slot, response);
    }

    fn generated(&self, _: SlotId, _: &Generation, _: Uncounted<'_>) {}

    fn traced(&self, slot: SlotId, trace: &RequestTrace) {
        self.sink.traced(slot, trace);
    }

    fn placed(&self, slot: SlotId, server: usize) {
        self.sink.placed(slot, server);
    }

    fn complete(&self, slot: SlotId, completion: &Completion<'_>) -> Next {
        let brought = std::mem::take(&mut *self.slots.get(slot.index()).lock());
        if completion.error.is_none() {
            let whole = Generation { sent: completion.sent, end: completion.last_response, ..brought };
            self.sink.generated(slot, &whole, Uncounted::default());
        }
        self.sink.complete(slot, completion)
    }
}

/// A response has arrived.
fn add(generation: &mut Generation, brought: Brought, at: Stamp, streams: bool) {
    let Brought { content, tokens } = brought;
    if !content {
        return;
    }
    let size = tokens.unwrap_or(0);
    match generation.chunks {
        0 => (generation.first, generation.first_chunks, generation.first_size) = (streams.then_some(at), 1, size),
        1 if streams => generation.second = Some(at),
        _ => {}
    }
    generation.chunks = generation.chunks.saturating_add(1);
    generation.size = generation.size.saturating_add(size);
    if let Some(tokens) = tokens {
        generation.tokens = Some(generation.tokens.unwrap_or(0).saturating_add(tokens));
    }
}

/// What a response has brought.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Brought {
    /// Whether that is anything.
    content: bool,
    /// Its tokens, where they can be counted: each number is one, and of text the count is not known.
    tokens: Option<u64>,
}

fn tokens(output: &OutputView<'_>) -> Brought {
    let brought = |content, tokens| Brought { content, tokens };
    match output.datatype.size() {
        Some(size) => {
            let elements = (output.bytes.len() / size) as u64;
            brought(elements > 0, Some(elements))
        }
        None if output.datatype == DataType::Bytes => {
            let elements = count_strings(output.bytes).unwrap_or(0) as usize;
            brought(output.bytes.len() > LENGTH * elements, None)
        }
        None => brought(!output.bytes.is_empty(), None),
    }
}

/// A client whose slots are counted, too.
struct CountedClient {
    client: Box<dyn Client>,
    counter: Arc<Counter>,
}

impl Client for CountedClient {
    fn grow(&mut self, slots: usize) -> Result<()> {
        self.counter.slots.grow(slots);
        self.client.grow(slots)
    }

    fn submit(&mut self, slot: SlotId, request: Request) -> Result<()> {
        self.client.submit(slot, request)
    }

    fn drive(&mut self, deadline: Stamp) -> Result<()> {
        self.client.drive(deadline)
    }

    fn awaited(&self) -> Awaited<'_> {
        self.client.awaited()
    }

    fn cancel(&mut self, slot: SlotId, sent_before: Stamp) -> bool {
        self.client.cancel(slot, sent_before)
    }

    fn drain(&mut self, limit: std::time::Duration) -> usize {
        self.client.drain(limit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_tokens_and_text_is_a_chunk() {
        let brought = |content, tokens| Brought { content, tokens };
        let tokens_of = |datatype, bytes: &[u8]| tokens(&OutputView { name: "O", datatype, shape: &[], bytes });
        assert_eq!(tokens_of(DataType::Int32, &[0; 12]), brought(true, Some(3)));
        assert_eq!(tokens_of(DataType::Int32, &[]), brought(false, Some(0)));
        assert_eq!(tokens_of(DataType::Bytes, b"\x01\0\0\0a"), brought(true, None));
        assert_eq!(
            tokens_of(DataType::Bytes, b"\0\0\0\0\0\0\0\0"),
            brought(false, None),
            "an empty text is no content"
        );
        let mut generation = Generation::default();
        for (at, content, tokens) in [(1, false, None), (2, true, Some(2)), (3, true, Some(1)), (4, true, Some(1))] {
            add(&mut generation, brought(content, tokens), Stamp(at), true);
        }
        let expected = Generation {
            first: Some(Stamp(2)),
            second: Some(Stamp(3)),
            chunks: 3,
            first_chunks: 1,
            size: 4,
            first_size: 2,
            tokens: Some(4),
            ..Generation::default()
        };
        assert_eq!((generation, generation.later_tokens()), (expected, 2));
    }
}
