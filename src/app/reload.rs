//! [`Runner`]: further starts of a level (`--restarts`), with the models reloaded.

use crate::app::job::Job;
use crate::app::peers;
use crate::app::runner::Runner;
use crate::backend::Threading;
use crate::error::Result;
use crate::result::summary::LevelSummary;
use crate::stdio::note;
use crate::terms::MeasurementPlan;

impl Runner<'_> {
    /// Reloads the models and measures a level as [`Runner::measure_quietly`] does.
    pub(super) fn measure_restarted(&self, job: &Job, plan: &MeasurementPlan, is_first: bool) -> Result<LevelSummary> {
        let measure = || {
            let reloaded = self.reload()?;
            if is_first {
                self.note_reload(reloaded);
            }
            // What is exported and validated is the first start.
            Runner { observers: None, ..*self }.measure_quietly(job, plan)
        };
        // Others wait for this start, wherever it has failed.
        measure().inspect_err(|error| self.context.ranks.into_iter().for_each(|ranks| ranks.give_up(error)))
    }

    /// Whether another start is measured: here, and by all processes that begin together.
    pub(super) fn all_repeat(&self, is_of_use: bool) -> bool {
        let wants_repeat = is_of_use && !self.must_stop();
        let Some(ranks) = self.context.ranks else { return wants_repeat };
        peers::share(ranks, Ok(wants_repeat)).is_ok_and(|all| all.into_iter().all(|vote| vote))
    }

    /// Says what another start is on a server that others may use, too.
    fn note_reload(&self, reloaded: bool) {
        if !reloaded {
            note!("--restarts: this server does not reload the model; each start only opens new connections");
        } else if self.session.backend.capabilities().threading == Threading::Driven {
            for model in &self.session.roots {
                note!("--restarts: model '{model}' is unloaded and loaded on the server before each further start");
            }
        }
    }

    /// Reloads the models. Of several processes, one does so for each server, and all wait for that.
    fn reload(&self) -> Result<bool> {
        let session = self.session;
        let reload = || session.backend.reload(&session.roots);
        let Some(ranks) = self.context.ranks else { return reload() };
        let reloaded = if ranks.owns_server() { reload() } else { Ok(true) };
        peers::share(ranks, reloaded).map(|all| all.into_iter().all(|reloaded| reloaded))
    }
}
