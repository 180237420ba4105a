//! One execution: a batch of requests, from the server's call to the last response.

use std::ops::Range;
use std::ptr::null_mut;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use crate::abi::{FINAL, Fault, Instance, Request, Response};
use crate::clock::{self, MICROSECOND, now};
use crate::model::{Batch, ModelState};
use crate::request;
use crate::settings::{DelayLaw, DelayMode, FailMode, ReleaseMode, RepeatMode};
use crate::stream::Stream;
use crate::tensor::{Form, View};

/// Time between two looks for cancellation.
const CANCELLATION_CHECK: u64 = 1_000 * MICROSECOND;

/// A request and its answer, ready to be sent.
struct Answer {
    request: *mut Request,
    /// Null when the server would not make one.
    response: *mut Response,
    fault: Option<Fault>,
}

/// One instance of a model. The server never executes an instance twice at a time.
pub struct InstanceState {
    handle: *mut Instance,
    model: Arc<ModelState>,
    /// Kept between executions for its memory.
    answers: Vec<Answer>,
    random: u64,
}

impl Drop for InstanceState {
    fn drop(&mut self) {
        self.model.remove_instance();
    }
}

/// When the parts of an execution happened.
#[derive(Debug, Clone, Copy)]
pub struct Report {
    /// Begin of the execution.
    pub start: u64,
    /// Begin of the computation.
    pub computing: u64,
    /// End of the computation, which the delay stands for.
    pub computed: u64,
    /// Outputs written.
    pub end: u64,
}

impl Report {
    /// The times in the server's order: execution start, compute start, compute end, execution end.
    fn times(&self, nonsense: bool) -> (u64, u64, u64, u64) {
        // Compute lasts from 1 us after the end back to the start: a negative time, which wraps around in the server.
        if nonsense {
            (self.start, self.end + MICROSECOND, self.start, self.end)
        } else {
            (self.start, self.computing, self.computed, self.end)
        }
    }

    /// Reports a request that has not been released.
    #[inline]
    pub fn request(&self, model: &ModelState, instance: *mut Instance, request: *mut Request, ok: bool) {
        let (start, compute, computed, end) = self.times(model.plan.settings.report_nonsense_times);
        // SAFETY: instance and request are alive. Statistics are no reason to fail a request.
        let _ = model.api.check(unsafe { (model.api.report)(instance, request, ok, start, compute, computed, end) });
    }

    #[inline]
    fn batch(&self, model: &ModelState, instance: *mut Instance, rows: u64) {
        let (start, compute, computed, end) = self.times(model.plan.settings.report_nonsense_times);
        // SAFETY: as above.
        let _ = model.api.check(unsafe { (model.api.report_batch)(instance, rows, start, compute, computed, end) });
    }
}

impl InstanceState {
    /// A new instance of a loaded model.
    pub fn new(handle: *mut Instance, model: Arc<ModelState>, seed: u64) -> InstanceState {
        let seed = seed.wrapping_add(model.plan.settings.delay_seed);
        // The first draws after a seed of few bits are alike.
        let random = (0..16).fold(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1, |state, _| xorshift(state));
        InstanceState { handle, model, answers: Vec::new(), random }
    }

    /// Executes a batch: answers and releases every request.
    ///
    /// # Errors
    /// Only as configured (`fail_mode` `execute`); then the requests are still the server's.
    pub fn execute(&mut self, requests: &[*mut Request]) -> Result<(), Fault> {
        let together = self.model.holds_up().then(|| self.model.permits.take(self.model.plan.settings.permits));
        let done = self.execute_together(requests, together.unwrap_or(1));
        if together.is_some() {
            self.model.permits.give_back();
        }
        done
    }

    /// The same where so many executions go on.
    fn execute_together(&mut self, requests: &[*mut Request], together: u64) -> Result<(), Fault> {
        let start = now();
        let (first_ordinal, execution) = self.model.counters.begin(requests.len() as u64);
        let batch = Batch { start, execution, first_ordinal, size: requests.len() };
        self.fail_whole(batch, requests)?;
        let computing = self.spend(start, self.model.plan.settings.input_delay_us);
        let computed = self.compute(batch, computing, requests, together);
        if self.model.plan.decoupled {
            self.stream(batch, computing..computed, requests);
            return Ok(());
        }
        let mut rows = 0;
        for (index, request) in requests.iter().enumerate() {
            rows += self.answer(batch, index, *request);
        }
        let end = self.spend(now(), self.model.plan.settings.output_delay_us);
        let report = Report { start, computing, computed, end };
        for answer in &self.answers {
            report.request(&self.model, self.handle, answer.request, answer.fault.is_none());
        }
        report.batch(&self.model, self.handle, rows);
        self.deliver();
        Ok(())
    }

    fn fail_whole(&self, batch: Batch, requests: &[*mut Request]) -> Result<(), Fault> {
        let model = &self.model;
        if model.plan.settings.fail_mode == FailMode::Response {
            return Ok(());
        }
        let ordinals = batch.first_ordinal..batch.first_ordinal + batch.size as u64;
        let Some(ordinal) = ordinals.into_iter().find(|ordinal| model.fails(*ordinal)) else { return Ok(()) };
        let fault = model.failure(ordinal);
        for (index, request) in requests.iter().enumerate() {
            model.note(batch, index, *request, Some(&fault));
            model.count(Some(&fault));
        }
        model.counters.end(batch.size as u64);
        Err(fault)
    }

    /// Spends so much time from `start` on; answers when it was over.
    fn spend(&self, start: u64, us: u64) -> u64 {
        if us == 0 {
            return start;
        }
        self.wait()(start + us * MICROSECOND);
        now()
    }

    fn wait(&self) -> fn(u64) {
        match self.model.plan.settings.delay_mode {
            DelayMode::Sleep => clock::sleep_until,
            DelayMode::Nap => clock::nap_until,
            DelayMode::Busy => clock::spin_until,
            DelayMode::Burn => clock::burn_until,
        }
    }

    /// Spends the configured time from `start` on; answers when it was over.
    fn compute(&mut self, batch: Batch, start: u64, requests: &[*mut Request], together: u64) -> u64 {
        let settings = &self.model.plan.settings;
        let ordinals = batch.first_ordinal..batch.first_ordinal + batch.size as u64;
        let rows = || requests.iter().map(|request| self.model.rows(*request).max(0) as u64).sum::<u64>();
        let mut delay = settings.delay_us * MICROSECOND;
        if settings.per_item_us > 0 {
            delay += settings.per_item_us * MICROSECOND * rows();
        }
        if settings.delay_law != DelayLaw::Fixed {
            self.random = xorshift(self.random);
            // The upper bits of a draw, as many as a fraction has.
            let share = (self.random >> 11) as f64 / (1_u64 << 53) as f64;
            delay = (delay as f64 * settings.delay_law.quantile(share)) as u64;
        }
        if settings.jitter_us > 0 {
            self.random = xorshift(self.random);
            delay += self.random % (settings.jitter_us * MICROSECOND + 1);
        }
        delay += delay * settings.slowdown_permille * (together - 1) / 1_000;
        if ordinals.contains(&settings.stall_after_requests) {
            delay += settings.stall_us * MICROSECOND;
        }
        // Ordinals begin with 1.
        if batch.first_ordinal <= settings.cold_requests {
            delay += settings.cold_us * MICROSECOND;
        }
        if delay == 0 {
            return start;
        }
        let (target, wait) = (start + delay, self.wait());
        while settings.cancellable && now() + CANCELLATION_CHECK < target {
            if requests.iter().all(|request| request::is_cancelled(self.model.api, *request)) {
                return now();
            }
            wait(now() + CANCELLATION_CHECK);
        }
        wait(target);
        now()
    }

    fn stream(&mut self, batch: Batch, compute: Range<u64>, requests: &[*mut Request]) {
        let Range { start: computing, end: computed } = compute;
        let rows = requests.iter().map(|request| self.model.rows(*request).max(0) as u64).sum();
        Report { start: batch.start, computing, computed, end: now() }.batch(&self.model, self.handle, rows);
        for (index, request) in requests.iter().enumerate() {
            match Stream::open(&self.model, self.handle, batch, index, *request) {
                Ok(stream) => self.send(stream),
                Err(fault) => {
                    let response = request::response(self.model.api, *request).unwrap_or(null_mut());
                    self.model.count(Some(&fault));
                    self.answers.push(Answer { request: *request, response, fault: Some(fault) });
                }
            }
        }
        self.deliver();
    }

    fn send(&self, mut stream: Stream) {
        match (&self.model.responder, self.model.plan.settings.repeat_mode) {
            (Some(responder), RepeatMode::Thread) => responder.take(stream),
            _ => {
                while let Some(due) = stream.step() {
                    clock::sleep_until(due);
                }
            }
        }
    }

    /// Prepares the answer to one request; answers its rows.
    #[inline]
    fn answer(&mut self, batch: Batch, index: usize, request: *mut Request) -> u64 {
        let model = &*self.model;
        let (response, fault, rows) = match request::response(model.api, request) {
            Err(fault) => (null_mut(), Some(fault), 1),
            Ok(response) => match fill(model, batch, index, request, response) {
                Ok(rows) => (response, None, rows),
                Err(fault) => (response, Some(fault), 1),
            },
        };
        model.note(batch, index, request, fault.as_ref());
        model.count(fault.as_ref());
        self.answers.push(Answer { request, response, fault });
        rows
    }

    /// Sends the prepared answers and releases their requests, in the configured order.
    #[inline]
    fn deliver(&mut self) {
        let model = &*self.model;
        let (first, size) = (model.plan.settings.release == ReleaseMode::Before, self.answers.len() as u64);
        model.counters.responses.fetch_add(size, Relaxed);
        model.counters.end(size);
        for answer in self.answers.drain(..) {
            if first {
                request::release(model.api, answer.request);
            }
            if answer.response.is_null() {
                eprintln!("triton_bench: a request gets no response: {:?}", answer.fault);
            } else {
                request::send(model.api, answer.response, FINAL, answer.fault.as_ref());
            }
            if !first {
                request::release(model.api, answer.request);
            }
        }
    }
}

/// Writes the outputs of a response; answers the rows.
#[inline]
fn fill(
    model: &ModelState,
    batch: Batch,
    index: usize,
    request: *mut Request,
    response: *mut Response,
) -> Result<u64, Fault> {
    let (api, plan) = (model.api, &model.plan);
    model.admit(request, batch.first_ordinal + index as u64)?;
    let mut sums = model.accumulate(request)?;
    let mut rows = None;
    for source in &plan.sources {
        let Some(name) = &source.output else { continue };
        let view = match View::open(api, request, &source.name) {
            Err(_) if source.optional => continue,
            view => view?,
        };
        if plan.batching && rows.is_none() {
            rows = view.shape().first().copied();
        }
        if plan.outputs > 1 && !request::wants(api, request, plan.outputs, name) {
            continue;
        }
        match sums.take() {
            Some(sums) => {
                let form = Form { ..view.form };
                crate::tensor::write(api, response, name, form, &sums)?;
            }
            None if plan.settings.leave_outputs => view.reserve_as(response, name)?,
            None => view.repeat_as(response, name)?,
        }
    }
    let rows = rows.unwrap_or(1);
    if model.wants_stamp(request) {
        model.stamp(response, rows, batch.start)?;
    }
    if plan.settings.echo_parameters {
        request::echo(api, response, &request::parameters(api, request)?)?;
    }
    Ok(rows.max(1) as u64)
}

/// Marsaglia's generator with the shifts 13, 7, 17.
fn xorshift(mut state: u64) -> u64 {
    state ^= state << 13;
    state ^= state >> 7;
    state ^ state << 17
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reported_times_are_ordered_unless_nonsense_is_asked_for() {
        let report = Report { start: 10, computing: 15, computed: 30, end: 35 };
        assert_eq!(report.times(false), (10, 15, 30, 35));
        let (_, compute, computed, _) = report.times(true);
        assert!(computed < compute);
    }

    #[test]
    fn random_numbers_repeat_per_seed_and_differ_between_seeds() {
        let run = |seed| {
            (0..4)
                .scan(seed, |s, _| {
                    *s = xorshift(*s);
                    Some(*s)
                })
                .collect::<Vec<u64>>()
        };
        assert_eq!(run(5), run(5));
        assert_ne!(run(5), run(7));
    }
}
