//! A loaded model: its plan and the state its instances share.

use std::ffi::CString;
use std::ptr::{null, null_mut};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::abi::{self, Api, CANCELLED, Fault, INTERNAL, INVALID_ARG, Request, Response};
use crate::counters::Counters;
use crate::journal::{Entry, FNV_BASIS, Journal, Outcome, fnv1a};
use crate::permits::Permits;
use crate::plan::{Plan, STAMP};
use crate::request;
use crate::responder::Responder;
use crate::sequence::{Correlation, Sequences};
use crate::settings::{FailMode, LoadRule, RepeatMode};
use crate::tensor::{self, Form, View};

unsafe extern "C" {
    fn quick_exit(code: libc::c_int) -> !;
}

/// Calls itself until the stack is full.
#[allow(unconditional_recursion)]
fn endless(depth: u64) -> u64 {
    let frame = std::hint::black_box([depth; 64]);
    endless(depth + 1) + frame[0]
}

/// The server's number for INT64.
const INT64: i32 = 9;

/// State shared by the instances of a model.
pub struct ModelState {
    /// The server.
    pub api: &'static Api,
    /// What to do.
    pub plan: Plan,
    /// What was done.
    pub counters: Counters,
    /// Executions that go on.
    pub permits: Permits,
    /// Instances that were made.
    instances: AtomicU64,
    /// Sends decoupled responses on time.
    pub responder: Option<Responder>,
    journal: Option<Journal>,
    sequences: Mutex<Sequences>,
    stamp_name: CString,
}

/// An execution in progress.
#[derive(Debug, Clone, Copy)]
pub struct Batch {
    /// When it began.
    pub start: u64,
    /// Which one it is.
    pub execution: u64,
    /// Ordinal of its first request.
    pub first_ordinal: u64,
    /// Requests in it.
    pub size: usize,
}

impl ModelState {
    /// Reads the model's configuration.
    ///
    /// # Errors
    /// INVALID_ARG with a sentence on what the configuration has wrong; or what `init_fail` says.
    pub fn load(api: &'static Api, model: *mut abi::Model) -> Result<Arc<ModelState>, Fault> {
        let invalid = |message| Fault::new(INVALID_ARG, message);
        let plan = Plan::from_json(&config(api, model)?).map_err(invalid)?;
        if let Some(message) = &plan.settings.init_fail {
            return Err(Fault::new(INTERNAL, message));
        }
        std::thread::sleep(std::time::Duration::from_millis(plan.settings.load_ms));
        let journal = plan.settings.stamp_file.as_deref().map(Journal::open).transpose().map_err(invalid)?;
        if let Some(path) = &plan.settings.counter_file {
            let created = std::fs::OpenOptions::new().append(true).create(true).open(path);
            created.map_err(|error| invalid(format!("parameter counter_file: cannot open {path:?}: {error}")))?;
        }
        let threaded = plan.decoupled && plan.settings.repeat_mode == RepeatMode::Thread;
        Ok(Arc::new(ModelState {
            api,
            responder: if threaded { Some(Responder::start().map_err(invalid)?) } else { None },
            plan,
            counters: Counters::default(),
            permits: Permits::default(),
            instances: AtomicU64::new(0),
            journal,
            sequences: Mutex::default(),
            stamp_name: CString::new(STAMP).unwrap_or_default(),
        }))
    }

    /// Whether executions hold each other up.
    #[inline]
    pub fn holds_up(&self) -> bool {
        self.plan.settings.permits > 0 || self.plan.settings.slowdown_permille > 0
    }

    /// Counts an instance.
    ///
    /// # Errors
    /// What `fail_load_if` says. Where `crash_if` says so, there is no answer.
    pub fn add_instance(&self) -> Result<(), Fault> {
        let count = self.instances.fetch_add(1, Relaxed) + 1;
        let breaks = |rule: Option<LoadRule>| rule.is_some_and(|rule| rule.is_broken(count, self.plan.max_batch_size));
        if breaks(self.plan.settings.crash_if) {
            std::process::abort();
        }
        if breaks(self.plan.settings.fail_load_if) {
            self.instances.fetch_sub(1, Relaxed);
            return Err(Fault::new(INTERNAL, "this configuration fails as configured (fail_load_if)"));
        }
        Ok(())
    }

    /// An instance is gone.
    pub fn remove_instance(&self) {
        self.instances.fetch_sub(1, Relaxed);
    }

    /// Ends the model's threads and writes its totals.
    pub fn unload(&self) {
        if let Some(responder) = &self.responder {
            responder.stop();
        }
        if let Some(journal) = &self.journal {
            journal.close();
        }
        if let Some(path) = &self.plan.settings.counter_file {
            let totals = self.counters.to_json(&self.sequences()).to_string();
            if let Err(error) = std::fs::write(path, totals + "\n") {
                eprintln!("triton_bench: counter_file {path:?}: {error}");
            }
        }
    }

    fn sequences(&self) -> MutexGuard<'_, Sequences> {
        self.sequences.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the request of that ordinal has to fail.
    #[inline]
    pub fn fails(&self, ordinal: u64) -> bool {
        let every = self.plan.settings.fail_every;
        every > 0 && ordinal.is_multiple_of(every)
    }

    /// The failure of the request of that ordinal.
    pub fn failure(&self, ordinal: u64) -> Fault {
        // SAFETY: the first three end the process with the code 0, which is what is asked for; the others crash it.
        unsafe {
            match self.plan.settings.fail_mode {
                FailMode::Exit => libc::exit(0),
                FailMode::ExitAtOnce => libc::_exit(0),
                FailMode::QuickExit => quick_exit(0),
                FailMode::Overflow => drop(endless(ordinal)),
                FailMode::Crash => drop(std::ptr::null_mut::<u8>().wrapping_add(8).read_volatile()),
                FailMode::Response | FailMode::Execute => {}
            }
        }
        let every = self.plan.settings.fail_every;
        Fault::new(INTERNAL, format!("request {ordinal} failed as configured (fail_every is {every})"))
    }

    /// What stands in the way of an answer with content, if anything.
    ///
    /// # Errors
    /// The configured failure, or the client's cancellation.
    #[inline]
    pub fn admit(&self, request: *mut Request, ordinal: u64) -> Result<(), Fault> {
        if self.plan.settings.cancellable && request::is_cancelled(self.api, request) {
            return Err(cancelled());
        }
        if self.fails(ordinal) { Err(self.failure(ordinal)) } else { Ok(()) }
    }

    /// The running sums that replace the first output; `None` when the model does not accumulate.
    ///
    /// # Errors
    /// The broken rule, or the server's error.
    pub fn accumulate(&self, request: *mut Request) -> Result<Option<Vec<u8>>, Fault> {
        let (true, Some(source)) = (self.plan.settings.accumulate, self.plan.sources.first()) else { return Ok(None) };
        let bytes = View::open(self.api, request, &source.name)?.gather()?;
        let id = request::correlation(self.api, request);
        if id == Correlation::None && self.plan.sequence_batching {
            return Ok(None);
        }
        let narrow = source.datatype == "TYPE_INT32";
        let place = request::place(request::flags(self.api, request));
        let sums = self.sequences().step(&id, place, &integers(&bytes, narrow));
        let sums = sums.map_err(|message| Fault::new(INVALID_ARG, format!("sequence violation: {message}")))?;
        Ok(Some(if narrow {
            sums.iter().flat_map(|sum| (*sum as i32).to_le_bytes()).collect()
        } else {
            sums.iter().flat_map(|sum| sum.to_le_bytes()).collect()
        }))
    }

    /// Writes the output of time stamps, if the model has one and the client wants it.
    ///
    /// # Errors
    /// The server's.
    pub fn stamp(&self, response: *mut Response, rows: i64, start: u64) -> Result<(), Fault> {
        let Some(width) = self.plan.stamp_width else { return Ok(()) };
        let stamps = [start as i64, crate::clock::now() as i64];
        let row: Vec<u8> = stamps[..width].iter().flat_map(|stamp| stamp.to_le_bytes()).collect();
        let shape = [rows, width as i64];
        let shape = if self.plan.batching { &shape[..] } else { &shape[1..] };
        let form = Form { datatype: INT64, shape: shape.as_ptr(), dims: shape.len() as u32 };
        let rows = if self.plan.batching { rows } else { 1 };
        tensor::write(self.api, response, &self.stamp_name, form, &row.repeat(rows.max(0) as usize))
    }

    /// Whether the client wants the stamps.
    pub fn wants_stamp(&self, request: *mut Request) -> bool {
        self.plan.stamp_width.is_some() && request::wants(self.api, request, self.plan.outputs, &self.stamp_name)
    }

    /// Rows of the request: the first dimension of its first input, 1 without batching.
    pub fn rows(&self, request: *mut Request) -> i64 {
        if !self.plan.batching {
            return 1;
        }
        let mut views = self.plan.sources.iter().filter_map(|source| View::open(self.api, request, &source.name).ok());
        views.next().and_then(|view| view.shape().first().copied()).unwrap_or(1)
    }

    /// Counts a request's fate.
    #[inline]
    pub fn count(&self, fault: Option<&Fault>) {
        match fault {
            None => {}
            Some(fault) if fault.code == CANCELLED => _ = self.counters.cancelled.fetch_add(1, Relaxed),
            Some(_) => _ = self.counters.failures.fetch_add(1, Relaxed),
        }
    }

    /// Enters a request into the journal, if there is one.
    #[inline]
    pub fn note(&self, batch: Batch, index: usize, request: *mut Request, fault: Option<&Fault>) {
        if let Some(journal) = &self.journal {
            journal.push(self.entry(batch, index, request, fault));
        }
    }

    fn entry(&self, batch: Batch, index: usize, request: *mut Request, fault: Option<&Fault>) -> Entry {
        let (mut bytes, mut checksum) = (0, FNV_BASIS);
        for source in &self.plan.sources {
            let Ok(view) = View::open(self.api, request, &source.name) else { continue };
            bytes += view.bytes;
            if !view.on_gpu() {
                checksum = fnv1a(checksum, &view.gather().unwrap_or_default());
            }
        }
        Entry {
            ordinal: batch.first_ordinal + index as u64,
            ns: batch.start,
            execution: batch.execution,
            batch_index: index,
            batch_size: batch.size,
            id: request::id(self.api, request),
            correlation: request::correlation(self.api, request),
            flags: request::flags(self.api, request),
            parameters: request::to_json(&request::parameters(self.api, request).unwrap_or_default()),
            rows: self.rows(request),
            bytes,
            checksum,
            outcome: outcome(fault),
        }
    }
}

/// What a cancelled request is answered with.
pub fn cancelled() -> Fault {
    Fault::new(CANCELLED, "the request was cancelled by its client")
}

fn outcome(fault: Option<&Fault>) -> Outcome {
    match fault {
        None => Outcome::Ok,
        Some(fault) if fault.code == CANCELLED => Outcome::Cancelled,
        Some(fault) if fault.code == INVALID_ARG && fault.message.starts_with("sequence violation") => {
            Outcome::Violation
        }
        Some(_) => Outcome::Failed,
    }
}

fn integers(bytes: &[u8], narrow: bool) -> Vec<i64> {
    if narrow {
        bytes.as_chunks::<4>().0.iter().map(|chunk| i64::from(i32::from_le_bytes(*chunk))).collect()
    } else {
        bytes.as_chunks::<8>().0.iter().map(|chunk| i64::from_le_bytes(*chunk)).collect()
    }
}

fn config(api: &Api, model: *mut abi::Model) -> Result<String, Fault> {
    let (mut message, mut base, mut bytes) = (null_mut(), null(), 0);
    // SAFETY: the server writes through the pointers; the text lives until the message is deleted.
    unsafe {
        api.check((api.model_config)(model, 1, &raw mut message))?;
        let text = api
            .check((api.message_json)(message, &raw mut base, &raw mut bytes))
            .map(|()| String::from_utf8_lossy(std::slice::from_raw_parts(base.cast::<u8>(), bytes)).into_owned());
        api.check((api.message_delete)(message))?;
        text
    }
}
