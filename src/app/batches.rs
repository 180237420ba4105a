//! Several batch sizes (`-b 1,2,4`): the first is measured like a single one, the others after it, on the same server.

use std::sync::Arc;

use crate::app::context::RunContext;
use crate::app::levels;
use crate::app::resume::EarlierRun;
use crate::app::runner::Runner;
use crate::app::session::Session;
use crate::app::settings;
use crate::backends::Connected;
use crate::error::{Error, Result};
use crate::observe::Observers;
use crate::result::RunResult;

/// Checks, before anything is measured, that the models accept all batch sizes.
///
/// # Errors
/// The rule that a batch size breaks.
pub fn check(session: &Session) -> Result<()> {
    let further = session.plan.data.batch_sizes.iter().skip(1);
    further.copied().try_for_each(|size| session.plan.clone().with_batch_size(size).check_models(&session.models))
}

/// Measures the levels again with each batch size after the first, and adds them to `result`.
///
/// # Errors
/// What keeps a level from being measured; those before it are in the result.
pub fn further(
    session: &mut Session,
    context: RunContext<'_>,
    earlier: &EarlierRun,
    baseline: Option<&RunResult>,
    result: &mut RunResult,
) -> Result<()> {
    let sizes: Vec<u64> = session.plan.data.batch_sizes.iter().skip(1).copied().collect();
    for size in sizes {
        // Each session reads the server's metrics itself.
        session.metrics = None;
        let server = Connected { backend: Arc::clone(&session.backend), traces: None };
        let sized_session = Session::through(server, session.plan.clone().with_batch_size(size))?;
        let observers = sized_session.observers()?;
        let runner = Runner { context, session: &sized_session, earlier, baseline, observers: observers.as_ref() };
        if runner.must_stop() {
            break;
        }
        context.screen.print(&settings::settings(&sized_session.plan, &sized_session.setup))?;
        let ended = levels::run(&runner, result);
        let validated = observers.map_or(Ok(()), Observers::finish);
        sized_session.close();
        Error::both(ended, validated)?;
    }
    Ok(())
}
