//! A decoupled model's reply: any number of responses to one request, spread over time.

use std::ffi::CString;
use std::ptr::null_mut;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use crate::abi::{FINAL, Factory, Fault, INVALID_ARG, Instance, Request, Response};
use crate::clock::{MICROSECOND, now};
use crate::execute::Report;
use crate::model::{Batch, ModelState, cancelled};
use crate::plan::REPEAT;
use crate::request::{self, Parameter};
use crate::settings::{FinalMode, MAX_RESPONSES, ReleaseMode};
use crate::tensor::{self, Form, View};

/// An output to repeat; a copy, because the request may be gone by then.
struct Content {
    /// Index of the model's source.
    source: usize,
    datatype: i32,
    shape: Vec<i64>,
    bytes: Vec<u8>,
}

/// What the responses of a stream contain.
#[derive(Default)]
struct Script {
    contents: Vec<Content>,
    parameters: Vec<(CString, Parameter)>,
    total: u64,
    rows: i64,
    stamped: bool,
}

/// A request being answered.
pub struct Stream {
    model: Arc<ModelState>,
    instance: *mut Instance,
    factory: *mut Factory,
    /// Null once released.
    request: *mut Request,
    script: Script,
    fault: Option<Fault>,
    sent: u64,
    start: u64,
    due: u64,
}

// SAFETY: the server lets any one thread at a time use a request, a factory and the statistics of an instance.
unsafe impl Send for Stream {}

impl Stream {
    /// Takes a request over. On an error the request is still the caller's.
    ///
    /// # Errors
    /// The server's, when it yields no factory.
    pub fn open(
        model: &Arc<ModelState>,
        instance: *mut Instance,
        batch: Batch,
        index: usize,
        request: *mut Request,
    ) -> Result<Stream, Fault> {
        let mut factory = null_mut();
        // SAFETY: the request is held.
        model.api.check(unsafe { (model.api.factory_new)(&raw mut factory, request) })?;
        let script =
            model.admit(request, batch.first_ordinal + index as u64).and_then(|()| Script::read(model, request));
        let (script, fault) = script.map_or_else(|fault| (Script::default(), Some(fault)), |script| (script, None));
        model.note(batch, index, request, fault.as_ref());
        let mut stream = Stream {
            model: Arc::clone(model),
            instance,
            factory,
            request,
            script,
            fault,
            sent: 0,
            start: batch.start,
            due: now(),
        };
        if model.plan.settings.release == ReleaseMode::Before {
            stream.release();
        }
        Ok(stream)
    }

    /// Sends the next response; answers when the one after it is due, `None` at the end of the stream.
    pub fn step(&mut self) -> Option<u64> {
        let settings = &self.model.plan.settings;
        if self.fault.is_none() && settings.cancellable && request::is_stream_cancelled(self.model.api, self.factory) {
            self.fault = Some(cancelled());
        }
        if self.fault.is_none() && self.sent < self.script.total {
            match self.response().and_then(|response| self.fill(response).map_err(|fault| (response, fault))) {
                Ok(response) => return self.pass_on(response),
                Err((response, fault)) => {
                    self.fault = Some(fault);
                    return self.end(response);
                }
            }
        }
        let response = if self.fault.is_some() { self.response().unwrap_or_else(|(none, _)| none) } else { null_mut() };
        self.end(response)
    }

    fn pass_on(&mut self, response: *mut Response) -> Option<u64> {
        self.sent += 1;
        let last = self.sent == self.script.total;
        let flagged = last && self.model.plan.settings.final_mode == FinalMode::Flag;
        if flagged {
            return self.end(response);
        }
        self.model.counters.responses.fetch_add(1, Relaxed);
        request::send(self.model.api, response, 0, None);
        if last {
            return self.end(null_mut());
        }
        self.due += self.model.plan.settings.gap_us * MICROSECOND;
        Some(self.due)
    }

    /// Sends the final response (null: an empty one) and gives everything back.
    fn end(&mut self, response: *mut Response) -> Option<u64> {
        let api = self.model.api;
        self.model.count(self.fault.as_ref());
        if !self.request.is_null() && self.model.plan.settings.release == ReleaseMode::After {
            self.report();
        }
        if response.is_null() {
            // SAFETY: the factory is alive.
            if let Err(fault) = api.check(unsafe { (api.factory_send_flags)(self.factory, FINAL) }) {
                eprintln!("triton_bench: a stream could not be ended: {}", fault.message);
            }
        } else {
            self.model.counters.responses.fetch_add(1, Relaxed);
            request::send(api, response, FINAL, self.fault.as_ref());
        }
        // SAFETY: used no more.
        let _ = api.check(unsafe { (api.factory_delete)(self.factory) });
        if !self.request.is_null() {
            request::release(api, self.request);
            self.request = null_mut();
        }
        self.model.counters.end(1);
        None
    }

    fn release(&mut self) {
        self.report();
        request::release(self.model.api, self.request);
        self.request = null_mut();
    }

    fn report(&self) {
        let report = Report { start: self.start, computing: self.start, computed: self.due, end: now() };
        report.request(&self.model, self.instance, self.request, self.fault.is_none());
    }

    fn response(&self) -> Result<*mut Response, (*mut Response, Fault)> {
        let mut response = null_mut();
        // SAFETY: the factory is alive.
        let made = self.model.api.check(unsafe { (self.model.api.response_from)(&raw mut response, self.factory) });
        made.map(|()| response).map_err(|fault| (null_mut(), fault))
    }

    fn fill(&self, response: *mut Response) -> Result<*mut Response, Fault> {
        let (api, script) = (self.model.api, &self.script);
        for content in &script.contents {
            let Some(name) = &self.model.plan.sources[content.source].output else { continue };
            let form =
                Form { datatype: content.datatype, shape: content.shape.as_ptr(), dims: content.shape.len() as u32 };
            tensor::write(api, response, name, form, &content.bytes)?;
        }
        if script.stamped {
            self.model.stamp(response, script.rows, self.start)?;
        }
        request::echo(api, response, &script.parameters)?;
        Ok(response)
    }
}

impl Script {
    fn read(model: &ModelState, request: *mut Request) -> Result<Script, Fault> {
        let parameters = request::parameters(model.api, request)?;
        let total = total(model, request, &parameters)?;
        let mut sums = model.accumulate(request)?;
        let mut contents = Vec::new();
        for (index, source) in model.plan.sources.iter().enumerate() {
            let Some(name) = &source.output else { continue };
            if !request::wants(model.api, request, model.plan.outputs, name) {
                continue;
            }
            let view = match View::open(model.api, request, &source.name) {
                Err(_) if source.optional => continue,
                view => view?,
            };
            let bytes = if index == 0 { sums.take() } else { None };
            contents.push(Content {
                source: index,
                datatype: view.form.datatype,
                shape: view.shape().to_vec(),
                bytes: bytes.map_or_else(|| view.gather(), Ok)?,
            });
        }
        let parameters = if model.plan.settings.echo_parameters { parameters } else { Vec::new() };
        let stamped = model.wants_stamp(request);
        Ok(Script { contents, parameters, total, rows: model.rows(request), stamped })
    }
}

/// How many responses the request gets.
fn total(model: &ModelState, request: *mut Request, parameters: &[(CString, Parameter)]) -> Result<u64, Fault> {
    let repeat = CString::new(REPEAT).unwrap_or_default();
    let asked = match View::open(model.api, request, &repeat) {
        Ok(view) if model.plan.repeat_input => {
            let bytes = view.gather()?;
            bytes.first_chunk::<4>().map(|first| i64::from(i32::from_le_bytes(*first)))
        }
        _ => parameters.iter().find(|(key, _)| key.as_c_str() == c"repeat").and_then(|(_, value)| match value {
            Parameter::Int(number) => Some(*number),
            _ => None,
        }),
    };
    let Some(asked) = asked else { return Ok(model.plan.settings.repeat.unwrap_or(1)) };
    let accepted = u64::try_from(asked).ok().filter(|number| *number <= MAX_RESPONSES);
    accepted.ok_or_else(|| Fault::new(INVALID_ARG, format!("repeat is {asked}; it must be from 0 to {MAX_RESPONSES}")))
}
