//! The tuned model: loads it with a candidate's settings, and measures it.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use crate::app::context::RunContext;
use crate::app::job::Job;
use crate::app::levels;
use crate::app::resume::EarlierRun;
use crate::app::runner::Runner;
use crate::app::session::Session;
use crate::app::tune::assignment::Assignment;
use crate::app::tune::figures::trial_figures;
use crate::app::tune::load::{self, KnownLoad, Loaded};
use crate::app::tune::trial_runner::{Measured, TrialRunner, patience};
use crate::app::tune::{loading, outstanding, rate, space};
use crate::backend::{Backend, ModelControl};
use crate::backends::{Connected, owed};
use crate::clock::Stamp;
use crate::error::{Error, Result};
use crate::interrupt;
use crate::load::LoadShape;
use crate::model::ModelId;
use crate::plan::{Plan, TunePlan};
use crate::result::TrialFigures;
use crate::terms::GapDistribution;
use crate::tune::{Phase, Trial};

/// A server, and the current state of its models.
struct ServerState {
    backend: Arc<dyn Backend>,
    /// By model, the configuration that it was loaded with; `None` if it is its file's.
    loaded: HashMap<String, Value>,
    /// A session for each form of the model and batch size.
    sessions: Vec<Session>,
}

/// The model that is tuned.
pub struct Subject<'a> {
    plan: &'a TunePlan,
    context: RunContext<'a>,
    /// By the settings of the server.
    servers: HashMap<Vec<String>, ServerState>,
    /// The configurations as they were found; the first is that of the model itself.
    bases: Vec<(ModelId, Value)>,
    /// Request rates that candidates have reached: of all requests outstanding, or of a single one where a rate is sent.
    rates: BTreeMap<usize, f64>,
    /// How long their requests took, in seconds.
    latencies: BTreeMap<usize, f64>,
    /// With how many requests outstanding they meet the constraints, where that is searched.
    loads: BTreeMap<usize, KnownLoad>,
    /// The longest that a candidate took to load.
    slowest: Duration,
}

impl<'a> Subject<'a> {
    /// Connects to the server and reads the configurations of the model and of the models that it calls.
    ///
    /// # Errors
    /// If the server or the model is not available, or the server does not load models on request.
    pub fn open(plan: &'a TunePlan, context: RunContext<'a>) -> Result<Self> {
        let mut subject = Self::with(plan, context, Vec::new());
        let (server, bases) = subject.first_server()?;
        subject.servers.insert(Vec::new(), server);
        Ok(Self { bases, ..subject })
    }

    /// The same with known configurations. No server is contacted and no model loaded before a trial needs it.
    pub fn with(plan: &'a TunePlan, context: RunContext<'a>, bases: Vec<(ModelId, Value)>) -> Self {
        let (rates, latencies, loads) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Self { plan, context, servers: HashMap::new(), bases, rates, latencies, loads, slowest: Duration::ZERO }
    }

    /// The server of the plan, and its present configurations.
    fn first_server(&mut self) -> Result<(ServerState, Vec<(ModelId, Value)>)> {
        let plan = self.plan;
        let backend = (self.context.connect)(&plan.run)?.backend;
        let control = control(backend.as_ref())?;
        let id = plan.run.target.model.clone();
        let spec = backend.model(&id)?;
        plan.run.check_models(std::slice::from_ref(&spec))?;
        let base = control.configuration(&id)?;
        if plan.run.target.service.is_remote() {
            // A server that does not load models on request should say so now, not for each candidate.
            owed::owe(&backend, &id.name, &base)?;
            let started = Stamp::now();
            loading::candidate(control, &id.name, &base, loading::limit(plan.budget, Duration::ZERO))?;
            self.slowest = Duration::from_nanos(Stamp::now().since(started));
        }
        let mut bases = vec![(id.clone(), base)];
        for part in spec.composing.iter().chain(&plan.run.target.bls_composing) {
            bases.push((part.clone(), control.configuration(part)?));
        }
        let mut server = ServerState { backend, loaded: HashMap::new(), sessions: Vec::new() };
        if plan.run.target.service.is_remote() {
            server.loaded.insert(id.name.clone(), bases[0].1.clone());
        }
        Ok((server, bases))
    }

    /// A server with the settings of `plan`, with its models unchanged.
    fn further_server(&self, plan: &Plan) -> Result<ServerState> {
        let backend = (self.context.connect)(plan)?.backend;
        let mut loaded = HashMap::new();
        if plan.target.service.is_remote() {
            // Somebody else may have left other configurations than those that were found.
            let control = control(backend.as_ref())?;
            for (id, _) in &self.bases {
                loaded.insert(id.name.clone(), control.configuration(id)?);
            }
        }
        Ok(ServerState { backend, loaded, sessions: Vec::new() })
    }

    /// The configurations as they were found.
    pub fn bases(&self) -> &[(ModelId, Value)] {
        &self.bases
    }

    /// The configuration of the model, or of one that it calls, as it was found.
    pub fn base(&self, model: Option<&str>) -> Option<&Value> {
        space::base(&self.bases, model)
    }

    /// The models that it calls.
    pub fn parts(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.bases.iter().skip(1).map(|(id, base)| (id.name.as_str(), base))
    }

    /// Loads the model with what `assignment` says, and measures it; so much time is `left` for the search.
    ///
    /// # Errors
    /// Why it could not be loaded or measured.
    pub fn run_trial(&mut self, assignment: &Assignment, trial: &Trial, left: Duration) -> Result<TrialFigures> {
        let mut plan = self.plan.run.clone();
        let key = assignment.set_server(&mut plan.target.server).map_err(Error::usage)?;
        if !self.servers.contains_key(&key) {
            let server = self.further_server(&plan)?;
            self.servers.insert(key.clone(), server);
        }
        let expected_rate = self.expected_rate(trial.candidate, assignment);
        let first = self.outstanding(trial.candidate, assignment);
        let (bases, context, limit) = (&self.bases, self.context, loading::limit(left, self.slowest));
        let Some(server) = self.servers.get_mut(&key) else { return Err(Error::server("the server is gone")) };
        let (load_s, in_place) = server.load(bases, assignment, limit)?;
        let batch_size = assignment.batch_size().unwrap_or(plan.data.batch_size);
        let session = server.session(plan.with_batch_size(batch_size))?;
        let earlier = EarlierRun::default();
        let runner = || Runner { context, session, earlier: &earlier, baseline: None, observers: None };
        let look = |concurrency: Option<u32>| {
            let trial_runner = TrialRunner {
                runner: runner(),
                job: &job(session, concurrency, assignment.request_rate(), trial)?,
                unit_s: trial.unit_s,
                concurrency,
                percentile: self.plan.percentile(),
                patience: patience(self.plan.budget),
            };
            let Measured { level, kept_up } = trial_runner.measure(expected_rate)?;
            let mut found = trial_figures(&level, self.plan, concurrency);
            found.figures.named.extend(kept_up.map(|share| (rate::KEPT_UP.to_owned(), share)));
            Ok(found)
        };
        let may_vary = self.plan.searches_load() && trial.phase != Phase::Confirmation;
        let found = if may_vary { load::within(self.plan, first, look) } else { look(first) }?;
        Ok(TrialFigures { load_s, in_place, ..found })
    }

    /// Notes which models a process of its own is about to load for `assignment` on a network server, so that they are
    /// restored. What the server answers would not tell: until a load is over, it has the configuration from before.
    ///
    /// # Errors
    /// If the program ends.
    pub fn note_loads(&mut self, assignment: &Assignment) -> Result<()> {
        for (index, (id, base)) in self.bases.iter().enumerate() {
            let wanted = assignment.configure((index > 0).then_some(id.name.as_str()), base);
            if wanted == *base {
                continue;
            }
            for server in self.servers.values_mut() {
                server.note_owed(id, base)?;
                server.loaded.insert(id.name.clone(), wanted.clone());
            }
        }
        Ok(())
    }

    /// The request rate that a candidate has reached. One that was not measured is expected to answer as soon as the quickest: a rate
    /// says nothing about larger batches, and one that takes longer is measured again for longer.
    pub fn expected_rate(&self, candidate: usize, assignment: &Assignment) -> f64 {
        let quickest = self.latencies.values().copied().min_by(f64::total_cmp);
        let outstanding = || f64::from(self.outstanding(candidate, assignment).unwrap_or(1));
        let by_latency = || quickest.map_or(0.0, |latency_s| outstanding() / latency_s);
        self.rates.get(&candidate).copied().unwrap_or_else(by_latency)
    }

    /// With how many requests outstanding a candidate is measured; none if a rate is sent.
    fn outstanding(&self, candidate: usize, assignment: &Assignment) -> Option<u32> {
        let batch_size = assignment.batch_size().unwrap_or(self.plan.run.data.batch_size);
        let most = outstanding::concurrency(self.plan, &self.bases, assignment, batch_size)?;
        Some(self.expected_load(candidate).map_or(most, |load| load.min(most)))
    }

    /// With how many requests outstanding a candidate is measured next, if that is known.
    pub fn expected_load(&self, candidate: usize) -> Option<u32> {
        self.loads.get(&candidate).map(|known_load| known_load.next)
    }

    /// What is expected of a candidate, in a process that measures it alone.
    pub fn expect(&mut self, candidate: usize, rate: f64, load: Option<u32>) {
        self.rates.insert(candidate, rate);
        self.loads.extend(load.map(|load| (candidate, KnownLoad::new(load))));
    }

    /// Notes what a trial came to, measured here, in its own process, or by an earlier search.
    pub fn reached(&mut self, trial: &Trial, measured: &TrialFigures, violation: f64) {
        let figures = &measured.figures;
        let took = Duration::try_from_secs_f64(measured.load_s.unwrap_or(0.0)).unwrap_or_default();
        self.slowest = self.slowest.max(took);
        let reached = match figures.named.contains_key(rate::KEPT_UP) {
            false => Some(figures.throughput / figures.batch_size.max(1) as f64),
            // The latencies of one that falls behind say nothing about the next trial.
            true if rate::falls_behind(figures) => None,
            true => Some(rate::of_single_requests(figures.mean_ns)),
        };
        self.rates.extend(reached.map(|rate| (trial.candidate, rate)));
        let latency_s = |rate: f64| f64::from(figures.concurrency.unwrap_or(1)) / rate;
        self.latencies.extend(reached.filter(|rate| *rate > 0.0).map(|rate| (trial.candidate, latency_s(rate))));
        if let Some(load) = figures.concurrency.filter(|_| self.plan.searches_load()) {
            let before = self.loads.get(&trial.candidate).copied();
            let missed = measured.missed.filter(|_| measured.disturbance.is_none());
            let confirms = trial.phase == Phase::Confirmation;
            let is_disturbed = measured.disturbance.is_some();
            let known_load = KnownLoad::after(before, Loaded { load, missed, violation, is_disturbed, confirms });
            self.loads.insert(trial.candidate, known_load);
        }
    }

    /// After a trial that failed: why the server on the network answers no more, if it does not. No candidate is to blame
    /// for that. One that has started again lacks what was loaded.
    pub fn lost_server(&mut self) -> Option<Error> {
        if !self.plan.run.target.service.is_remote() {
            return None;
        }
        if let Err(error) = (self.context.connect)(&self.plan.run) {
            return Some(error);
        }
        self.servers.values_mut().for_each(|server| server.forget_loaded(&self.bases));
        None
    }

    /// Restores the configurations that were found. Nothing more can be done if a server refuses.
    ///
    /// # Errors
    /// The server's reason.
    pub fn restore(&mut self) -> Result<()> {
        let (slowest, servers) = (self.slowest, self.servers.values_mut());
        let restored = servers.map(|server| {
            server.sessions.clear();
            let names: Vec<String> = server.loaded.drain().map(|(name, _)| name).collect();
            if server.backend.is_dying() {
                return Ok(());
            }
            let control = control(server.backend.as_ref())?;
            let load = |name: &String| {
                if !loading::own(control, name, None, slowest)? {
                    return Ok(());
                }
                // The configuration in force may have differed from the file.
                let found = self.bases.iter().find(|(id, _)| id.name == *name);
                if let Some((id, base)) = found
                    && control.configuration(id)? != *base
                    && !loading::own(control, name, Some(base), slowest)?
                {
                    return Ok(());
                }
                owed::settle(&server.backend, name);
                Ok(())
            };
            interrupt::patiently(|| names.iter().map(load).fold(Ok(()), Error::both))
        });
        restored.fold(Ok(()), Error::both)
    }
}

impl ServerState {
    /// Loads every model with the settings of `assignment`, each within the limit. Returns how long that took, if there was
    /// something to load, and whether only instances changed.
    fn load(
        &mut self,
        bases: &[(ModelId, Value)],
        assignment: &Assignment,
        limit: Duration,
    ) -> Result<(Option<f64>, bool)> {
        let (mut seconds, mut in_place) = (None, true);
        for (index, (id, base)) in bases.iter().enumerate() {
            let model = (index > 0).then_some(id.name.as_str());
            let wanted = assignment.configure(model, base);
            let present = self.loaded.get(&id.name);
            if present == Some(&wanted) || (present.is_none() && wanted == *base) {
                continue;
            }
            self.note_owed(id, base)?;
            let control = control(self.backend.as_ref())?;
            in_place &= present.is_some_and(|present| differ_in_instances_alone(present, &wanted));
            let started = Stamp::now();
            loading::candidate(control, &id.name, &wanted, limit)?;
            *seconds.get_or_insert(0.0) += Stamp::now().since(started) as f64 / 1e9;
            self.loaded.insert(id.name.clone(), wanted);
            if let Some(difference) = assignment.differs(model, &control.configuration(id)?) {
                return Err(Error::server(difference));
            }
        }
        Ok((seconds, in_place && seconds.is_some()))
    }

    /// Notes which models the server may not have any more as they were loaded, so that the next trial loads them: it may have started
    /// again, with configurations of its own.
    fn forget_loaded(&mut self, bases: &[(ModelId, Value)]) {
        self.loaded.values_mut().for_each(|configuration| *configuration = Value::Null);
        let Some(control) = self.backend.control() else { return };
        let unloaded = bases.iter().filter(|(id, _)| control.configuration(id).is_err());
        for (id, _) in unloaded {
            self.loaded.insert(id.name.clone(), Value::Null);
        }
    }

    /// Whatever ends the search, a server that is not ours gets the model's own configuration back.
    fn note_owed(&self, id: &ModelId, base: &Value) -> Result<()> {
        match self.backend.network() {
            Some(_) => owed::owe(&self.backend, &id.name, base),
            None => Ok(()),
        }
    }

    /// The session for the model in its current form; an existing one if it has had that form before.
    fn session(&mut self, plan: Plan) -> Result<&Session> {
        let spec = self.backend.model(&plan.target.model)?;
        let fits = |session: &Session| {
            session.plan.data.batch_size == plan.data.batch_size
                && session.models.first().is_some_and(|model| {
                    model.max_batch_size == spec.max_batch_size && model.scheduler == spec.scheduler
                })
        };
        if let Some(index) = self.sessions.iter().position(fits) {
            return Ok(&self.sessions[index]);
        }
        let server = Connected { backend: Arc::clone(&self.backend), traces: None };
        self.sessions.push(Session::through(server, plan)?);
        Ok(&self.sessions[self.sessions.len() - 1])
    }
}

/// The model control of a server.
fn control(backend: &dyn Backend) -> Result<&dyn ModelControl> {
    backend.control().ok_or_else(|| {
        Error::usage("tune: this server cannot be asked to load models; use triton_c_api, or a Triton over the network")
    })
}

/// Whether two configurations differ only in their instances, which Triton changes in place.
fn differ_in_instances_alone(left: &Value, right: &Value) -> bool {
    let without_instances = |value: &Value| {
        let mut remaining = value.clone();
        if let Some(object) = remaining.as_object_mut() {
            object.remove("instance_group");
        }
        remaining
    };
    without_instances(left) == without_instances(right)
}

/// The load of a trial.
fn job(session: &Session, concurrency: Option<u32>, rate: Option<f64>, trial: &Trial) -> Result<Job> {
    let gaps = session.plan.load.mode.gaps().unwrap_or(GapDistribution::Poisson);
    let mut job = match (concurrency, rate) {
        (Some(requests), _) => Job::closed(session, requests),
        (None, Some(rate)) => Job::rate(session, rate, gaps)?,
        (None, None) => levels::nth(session, 0)?,
    };
    if let LoadShape::Open(open) = &mut job.shape {
        open.seed = trial.seed;
    }
    Ok(job)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::app::screen::Screen;
    use crate::app::tune::sample::plan;
    use crate::exit::Codes;
    use crate::result::Figures;

    #[test]
    fn who_was_not_measured_is_expected_to_answer_as_soon_as_the_quickest() {
        let (plan, screen) = (plan("--search max_batch_size=1,32"), Screen::new());
        let connect = |_: &Plan| Err(Error::server("there is none"));
        let (interrupts, codes) = (interrupt::counter(), Codes::Own);
        let context = RunContext { screen: &screen, interrupts, codes, connect, ranks: None };
        let base = json!({"max_batch_size": 1, "dynamic_batching": {}, "instance_group": [{"count": 1}]});
        let mut subject = Subject::with(&plan, context, vec![(ModelId::latest("m"), base)]);
        let [yours, larger] = [Assignment::default(), Assignment::new(&plan.search, &[1])];
        assert_eq!((subject.expected_rate(0, &yours), subject.expected_rate(1, &larger)), (0.0, 0.0));
        // Two outstanding, each of which takes a second.
        let figures = Figures { throughput: 2.0, concurrency: Some(2), batch_size: 1, ..Figures::default() };
        let measured = TrialFigures { figures, ..TrialFigures::default() };
        let trial = Trial { candidate: 0, phase: Phase::Calibration, round: 0, unit_s: 0.25, seed: 1, again: false };
        subject.reached(&trial, &measured, -1.0);
        assert_eq!((subject.expected_rate(0, &yours), subject.expected_rate(1, &larger)), (2.0, 64.0));
    }

    #[test]
    fn instances_alone() {
        let with = |count: u32, batch: u32| json!({"max_batch_size": batch, "instance_group": [{"count": count}]});
        assert!(differ_in_instances_alone(&with(1, 8), &with(2, 8)));
        assert!(!differ_in_instances_alone(&with(1, 8), &with(2, 4)));
    }
}
