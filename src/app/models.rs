//! The command `models`: what a repository or a server offers.

use crate::app::screen::Screen;
use crate::app::{phase, signals};
use crate::backends;
use crate::error::Result;
use crate::exit;
use crate::plan::Survey;
use crate::report::console;

/// Lists the models. Returns the exit code (see [`crate::exit`]).
///
/// # Errors
/// If the server is not available, lists no models or has none of that name, or standard output is closed or full.
pub fn list(wanted: &Survey) -> Result<u8> {
    let plan = &wanted.plan;
    signals::watch()?;
    if plan.target.service.is_embedded() {
        phase::loading();
    }
    let listed = backends::model_list(plan, wanted.only.as_deref());
    if !phase::ready() {
        return Ok(exit::INTERRUPTED);
    }
    let rows: Vec<_> = listed?.into_iter().map(|model| (model.name, model.model)).collect();
    Screen::new().print(&console::model_list(&rows)).map(|()| exit::OK)
}
