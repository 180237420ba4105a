//! The smallest possible service, and the example in docs/architecture.md: lines over TCP.
//!
//! ```text
//! > describe double        < model
//! > double 21              < = 42          the last response
//! > count 3                < + 1           a response that others follow
//! > double x               < ! no number   why a request fails
//! ```
//!
//! It defines how a payload becomes bytes and what received bytes mean. Concurrency, rates, stages, cancelling,
//! reconnecting, TLS and the reports come from the engine and the program.

use std::io::IoSlice;
use std::sync::Arc;
use std::time::Duration;

use triton_bench::backend::{
    Backend, Capabilities, Client, ClientSpec, ClientTimes, CompletionSink, InferError, Network, OutputView, Outputs,
    Request, Threading,
};
use triton_bench::backends::Connected;
use triton_bench::data::Payload;
use triton_bench::engine::serial::{self, Dialogue, SLICES, Step};
use triton_bench::engine::{Deadline, Exchanges, Route, closed, connect, malformed};
use triton_bench::error::{Error, Result};
use triton_bench::model::{DataType, ModelId, ModelSpec, TensorSpec};
use triton_bench::plan::Plan;

const PORT: u16 = 7000;
/// How long a question about a model may take.
const QUESTION: Duration = Duration::from_secs(5);
/// Longest line of an answer.
const LONGEST: usize = 1000;

/// A server that speaks in lines.
pub struct LineService {
    route: Route,
}

impl LineService {
    /// Reaches the server that the plan names: all that `triton_bench::main_with` needs.
    pub fn connect(plan: &Plan) -> Result<Connected> {
        let service: Arc<dyn Backend> = Arc::new(Self { route: Route::to(&plan.target.connection, PORT, &[])? });
        Ok(service.into())
    }
}

impl Backend for LineService {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            service_kind: "LINES",
            threading: Threading::Driven,
            client_times: Some(ClientTimes {
                transport: "line",
                both: "write/read",
                send: "write",
                receive: "read",
                streams: false,
            }),
            cancels_alone: false,
            statistics: false,
        }
    }

    fn model(&self, id: &ModelId) -> Result<ModelSpec> {
        let failed = |why: &dyn std::fmt::Display| Error::server(format!("{}: {id}: {why}", self.route.endpoint()));
        let deadline = Deadline::within(QUESTION);
        let ask = || -> std::io::Result<Vec<u8>> {
            let mut stream = connect(&self.route.connector, deadline)?;
            stream.send_all(format!("describe {id}\n").as_bytes(), deadline)?;
            let (mut line, mut piece) = (Vec::new(), [0; LONGEST]);
            while !line.ends_with(b"\n") && line.len() < LONGEST {
                match stream.read_some(&mut piece, deadline)? {
                    0 => return Err(std::io::ErrorKind::UnexpectedEof.into()),
                    count => line.extend_from_slice(&piece[..count]),
                }
            }
            Ok(line)
        };
        match ask().map_err(|error| failed(&error))?.as_slice() {
            b"model\n" => {
                let number = |name: &str| vec![TensorSpec::plain(name, DataType::Int32, vec![1])];
                Ok(ModelSpec::plain(id, number("IN"), number("OUT")))
            }
            other => Err(failed(&String::from_utf8_lossy(other).trim_end())),
        }
    }

    fn network(&self) -> Option<&dyn Network> {
        Some(&self.route)
    }

    fn open_client(&self, spec: ClientSpec, sink: Arc<dyn CompletionSink>) -> Result<Box<dyn Client>> {
        let line = |payload: &Payload| rendered(&spec.models[payload.model], payload);
        let lines = spec.payloads.iter().map(line).collect::<Result<_>>()?;
        serial::open(Lines { lines, slots: Vec::new() }, self.route.clone(), &spec, sink)
    }
}

/// A payload's line.
fn rendered(model: &ModelSpec, payload: &Payload) -> Result<Vec<u8>> {
    let input = payload.inputs.first().ok_or_else(|| Error::input("a request has one input"))?;
    let bytes = input.region.bytes(input.offset, input.len)?;
    let number = bytes.first_chunk().map_or(0, |bytes| i32::from_le_bytes(*bytes));
    Ok(format!("{} {number}\n", model.id).into_bytes())
}

/// The requests of a client.
struct Lines {
    /// By payload.
    lines: Vec<Vec<u8>>,
    slots: Vec<Slot>,
}

/// What is kept for one slot: which line it sends, and the beginning of one that comes.
#[derive(Default)]
struct Slot {
    line: usize,
    begun: Vec<u8>,
}

impl Dialogue for Lines {
    fn grow(&mut self, slots: usize) -> Result<()> {
        self.slots.resize_with(slots.max(self.slots.len()), Slot::default);
        Ok(())
    }

    fn prepare(&mut self, slot: usize, request: Request) -> Result<usize, InferError> {
        let slot = &mut self.slots[slot];
        slot.line = request.payload.0 as usize;
        slot.begun.clear();
        Ok(self.lines[slot.line].len())
    }

    fn gather<'a>(&'a self, slot: usize, skip: usize, slices: &mut [IoSlice<'a>; SLICES]) -> usize {
        slices[0] = IoSlice::new(&self.lines[self.slots[slot].line][skip..]);
        1
    }

    fn receive(&mut self, slot: usize, bytes: &[u8], exchanges: &mut Exchanges) -> Result<Step, InferError> {
        for part in bytes.split_inclusive(|&byte| byte == b'\n') {
            let begun = &mut self.slots[slot].begun;
            begun.extend_from_slice(part);
            if begun.len() > LONGEST {
                return Err(malformed("a line without end"));
            }
            let Some(line) = begun.strip_suffix(b"\n") else { break };
            let text = std::str::from_utf8(line).map_err(|_| malformed("no text"))?;
            let (mark, tail) = text.split_at_checked(2).ok_or_else(|| malformed("a line without a mark"))?;
            match mark {
                "= " | "+ " => exchanges.respond(slot, &number(tail)?),
                "! " => exchanges.respond_failed(slot, InferError::new("Refused", tail)),
                _ => return Err(malformed(format!("the mark '{mark}'"))),
            }
            let last = mark != "+ ";
            begun.clear();
            if last {
                return Ok(Step::Whole);
            }
        }
        Ok(Step::Partly)
    }

    fn end(&mut self, _: usize, _: &mut Exchanges) -> Result<(), InferError> {
        Err(closed("before the answer"))
    }

    fn keeps_open(&self, _: usize) -> bool {
        true
    }
}

/// The output of a response.
struct Number([u8; 4]);

fn number(text: &str) -> Result<Number, InferError> {
    let number: i32 = text.parse().map_err(|_| malformed(format!("'{text}' is not a number")))?;
    Ok(Number(number.to_le_bytes()))
}

impl Outputs for Number {
    fn visit(&self, visitor: &mut dyn FnMut(OutputView<'_>)) {
        visitor(OutputView { name: "OUT", datatype: DataType::Int32, shape: &[1], bytes: &self.0 });
    }
}
