//! A server that does nothing: every request completes at once. It measures the cost of the program itself.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use crate::clock::Stamp;
use crate::error::Result;
use crate::model::{DataType, ModelId, ModelSpec, TensorSpec};
use crate::{
    Backend, Capabilities, Client, ClientSpec, Completion, CompletionSink, Next, OutputView, Outputs, Request,
    Response, SlotId, Threading,
};

/// The backend that completes requests without a server.
pub struct NullBackend;

impl Backend for NullBackend {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            service_kind: "NULL",
            threading: Threading::Driven,
            client_times: None,
            cancels_alone: false,
            statistics: false,
        }
    }

    fn model(&self, id: &ModelId) -> Result<ModelSpec> {
        let tensor = |name: &str| vec![TensorSpec::plain(name, DataType::Fp32, vec![16])];
        let plain = ModelSpec::plain(id, tensor("INPUT0"), tensor("OUTPUT0"));
        Ok(ModelSpec { versions: vec!["1".to_owned()], platform: "null".to_owned(), max_batch_size: 1 << 20, ..plain })
    }

    fn open_client(&self, spec: ClientSpec, sink: Arc<dyn CompletionSink>) -> Result<Box<dyn Client>> {
        Ok(Box::new(NullClient { sink, ready: VecDeque::with_capacity(spec.slots), watched: spec.watch_responses }))
    }
}

/// Submitted slots, which complete at the next drive.
struct NullClient {
    sink: Arc<dyn CompletionSink>,
    ready: VecDeque<(SlotId, Stamp)>,
    watched: bool,
}

/// The outputs of every response: the model's, all 0.
struct NullOutputs;

impl Outputs for NullOutputs {
    fn visit(&self, visitor: &mut dyn FnMut(OutputView<'_>)) {
        visitor(OutputView { name: "OUTPUT0", datatype: DataType::Fp32, shape: &[16], bytes: &[0; 64] });
    }
}

impl Client for NullClient {
    fn grow(&mut self, slots: usize) -> Result<()> {
        self.ready.reserve(slots.saturating_sub(self.ready.len()));
        Ok(())
    }

    #[inline]
    fn submit(&mut self, slot: SlotId, _request: Request) -> Result<()> {
        self.ready.push_back((slot, Stamp::now()));
        Ok(())
    }

    fn drive(&mut self, deadline: Stamp) -> Result<()> {
        while let Some((slot, sent)) = self.ready.pop_front() {
            let now = Stamp::now();
            if self.watched {
                self.sink.response(slot, &Response { at: now, empty: false, outputs: &NullOutputs, error: None });
            }
            let completion =
                Completion { sent, send_end: None, first_response: now, last_response: now, responses: 1, error: None };
            if let Next::Issue(_) = self.sink.complete(slot, &completion) {
                self.ready.push_back((slot, Stamp::now()));
            }
            if now >= deadline {
                break;
            }
        }
        Ok(())
    }

    fn cancel(&mut self, _slot: SlotId, _sent_before: Stamp) -> bool {
        true
    }

    fn drain(&mut self, _limit: Duration) -> usize {
        let drained = self.drive(Stamp::NEVER);
        drained.map_or(self.ready.len(), |()| 0)
    }
}
