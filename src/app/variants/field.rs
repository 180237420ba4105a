//! All subjects of a comparison, with the servers that they share.

use std::sync::Arc;

use crate::app::context::RunContext;
use crate::app::variants::subject::{self, Subject};
use crate::app::variants::{memory, sizes, transports};
use crate::backend::Backend;
use crate::backends;
use crate::error::{Error, Result};
use crate::model::ModelSpec;
use crate::plan::{Matrix, Plan, Variant};
use crate::stdio::note;

/// The rows of `--matrix transports` that are not possible without the model's files.
const WITHOUT_MODEL: &str =
    "C API and C API + shared memory are left out: they need the directory that holds the model (--model-repository)";

/// What is compared.
pub enum Field<'a> {
    /// Variants that the user has described.
    Variants(&'a [Variant]),
    /// A built-in dimension.
    Matrix(&'a Plan, &'a Matrix),
}

/// Servers shared by subjects, while they run.
pub struct Servers {
    /// The one in this process.
    host: Option<Arc<dyn Backend>>,
    /// The HTTP and gRPC addresses of a matrix.
    urls: Option<Result<[String; 2]>>,
}

impl Field<'_> {
    /// Starts the servers that subjects share.
    ///
    /// # Errors
    /// If the one in this process does not start.
    pub fn serve(&self, context: RunContext<'_>) -> Result<Servers> {
        match self {
            Self::Variants(_) => {
                let plans: Vec<&Plan> = self.embedded().collect();
                let host = if plans.is_empty() || self.starts_server_per_turn() {
                    None
                } else {
                    Some(backends::host(&plans)?)
                };
                Ok(Servers { host, urls: None })
            }
            Self::Matrix(plan, kind) => {
                let host = self.is_embedded().then(|| backends::host(&[plan])).transpose()?;
                let urls = match kind {
                    Matrix::Memory => None,
                    Matrix::Transports { running } => {
                        if host.is_none() {
                            note!("--matrix transports: {WITHOUT_MODEL}");
                        }
                        Some(transports::urls(plan, running.as_deref(), context.interrupts))
                    }
                };
                Ok(Servers { host, urls })
            }
        }
    }

    /// Whether a server runs in this process.
    pub fn is_embedded(&self) -> bool {
        self.embedded().next().is_some()
    }

    /// The plans whose server runs in this process.
    fn embedded(&self) -> impl Iterator<Item = &Plan> {
        let plans: Vec<&Plan> = match self {
            Self::Variants(variants) => variants.iter().map(|variant| &variant.plan).collect(),
            Self::Matrix(plan, _) => vec![*plan],
        };
        plans.into_iter().filter(|plan| plan.target.service.is_embedded())
    }

    /// Whether servers in this process differ, so that each turn has its own.
    fn starts_server_per_turn(&self) -> bool {
        let mut plans = self.embedded();
        plans.next().is_some_and(|first| plans.any(|plan| plan.target.server != first.target.server))
    }

    /// Whether the others would see what a run changes on a network server.
    fn changes_servers(&self) -> bool {
        matches!(self, Self::Variants(variants) if variants.iter().any(|variant| variant.plan.target.trace.is_some()))
    }

    /// The input sizes to measure; `[None]` if the flags decide.
    pub fn sizes(&self) -> Vec<Option<u64>> {
        match self {
            Self::Matrix(plan, _) if !plan.matrix_sizes.is_empty() => {
                plan.matrix_sizes.iter().copied().map(Some).collect()
            }
            _ => vec![None],
        }
    }

    /// Prepares all subjects, with inputs of `size` bytes if it is given.
    ///
    /// # Errors
    /// If a variant cannot be measured, the first row of a matrix cannot, or no input can have another size.
    pub fn open(&self, servers: &Servers, size: Option<u64>, context: RunContext<'_>) -> Result<Vec<Subject>> {
        match self {
            Self::Variants(variants) => self.open_variants(servers, variants, context),
            Self::Matrix(plan, kind) => open_matrix(servers, plan, kind, size, context),
        }
    }

    fn open_variants(&self, servers: &Servers, variants: &[Variant], context: RunContext<'_>) -> Result<Vec<Subject>> {
        let mut subjects = Vec::new();
        for Variant { name, plan, .. } in variants {
            if subject::is_interrupted(context) {
                return Err(Error::machine("interrupted before all variants were ready"));
            }
            let (name, plan) = (name.clone(), plan.clone());
            let remote = plan.target.service.is_remote();
            let subject = match &servers.host {
                Some(host) if plan.target.service.is_embedded() => {
                    let through = backends::through(host, &plan);
                    Subject::kept(name, plan, Ok(through))
                }
                None if plan.target.service.is_embedded() => Subject::per_turn(name, plan, context.connect),
                _ if remote && self.changes_servers() => Subject::per_turn(name, plan, context.connect),
                _ => {
                    let server = (context.connect)(&plan);
                    Subject::kept(name, plan, server)
                }
            };
            if let Err(error) = &subject.open {
                return Err(error.clone().context(format!("--variant '{}'", subject.name)));
            }
            subjects.push(subject);
        }
        Ok(subjects)
    }
}

fn open_matrix(
    servers: &Servers,
    plan: &Plan,
    kind: &Matrix,
    size: Option<u64>,
    context: RunContext<'_>,
) -> Result<Vec<Subject>> {
    let models = servers.models(plan, context)?;
    let mut plan = plan.clone();
    if let Some(size) = size {
        sizes::set(&mut plan.data, &models, size)?;
    }
    let decoupled = models.iter().any(|model| model.decoupled);
    let ways = match (kind, &servers.urls) {
        (Matrix::Transports { .. }, Some(urls)) => transports::ways(&plan, urls, decoupled),
        _ => memory::ways(&plan).into_iter().map(|(name, plan)| (name, Ok(plan))).collect(),
    };
    let open = |(name, way): (String, Result<Plan>)| match (way, &servers.host) {
        (Ok(way), Some(host)) if way.target.service.is_embedded() => {
            let through = backends::through(host, &way);
            Subject::kept(name, way, Ok(through))
        }
        (Ok(way), _) => {
            let server = (context.connect)(&way);
            Subject::kept(name, way, server)
        }
        (Err(error), _) => Subject::unusable(name, plan.clone(), error),
    };
    let subjects: Vec<Subject> = ways.into_iter().map(open).collect();
    match subjects.first().map(|first| &first.open) {
        Some(Err(error)) => Err(error.clone()),
        _ => Ok(subjects),
    }
}

impl Servers {
    /// The models of a matrix's plan, as one of its servers has them.
    fn models(&self, plan: &Plan, context: RunContext<'_>) -> Result<Vec<ModelSpec>> {
        let all = |server: &Arc<dyn Backend>| plan.target.models().map(|id| server.model(id)).collect();
        match (&self.host, &self.urls) {
            (Some(host), _) => all(host),
            (None, Some(urls)) => {
                let asked = transports::asked(plan, urls.as_ref().map_err(Clone::clone)?);
                all(&(context.connect)(&asked)?.backend)
            }
            (None, None) => all(&(context.connect)(plan)?.backend),
        }
    }

    /// Drops the servers; those in this process are stopped.
    ///
    /// # Errors
    /// If one could not be.
    pub fn halt(self) -> Result<()> {
        let embedded = self.host.is_some();
        drop(self);
        if embedded { subject::halt() } else { Ok(()) }
    }
}
