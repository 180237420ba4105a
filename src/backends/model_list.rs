//! The models that a server offers, for the command `models`.

use std::sync::Arc;

use crate::backend::{Backend, IndexEntry};
use crate::error::Result;
use crate::model::{ModelId, ModelSpec};

/// A model of a repository or of a server.
pub struct ListedModel {
    /// Its name.
    pub name: String,
    /// Its description, or why it is not available.
    pub model: Result<ModelSpec, String>,
}

/// Every model of a server on the network; only `only`, if it is given.
///
/// # Errors
/// If the server does not list its models.
pub fn survey(backend: &Arc<dyn Backend>, only: Option<&str>) -> Result<Vec<ListedModel>> {
    let entries = backend.index()?;
    let offer = |name: String| {
        let rows = || entries.iter().filter(|entry| entry.name == name);
        let model = match rows().find(|entry| entry.state == "READY") {
            Some(_) => backend.model(&ModelId::latest(&name)).map_err(|error| error.to_string()),
            None => Err(rows().map(why_not).next().unwrap_or_default()),
        };
        ListedModel { name, model }
    };
    Ok(names(&entries, only).into_iter().map(offer).collect())
}

fn why_not(entry: &IndexEntry) -> String {
    match (&*entry.state, &*entry.reason) {
        ("", _) => "not loaded".to_owned(),
        (state, "") => state.to_lowercase(),
        (state, reason) => format!("{}: {reason}", state.to_lowercase()),
    }
}

/// Every name once, in order; only `only`, if it is given.
pub fn names(entries: &[IndexEntry], only: Option<&str>) -> Vec<String> {
    let wanted = entries.iter().map(|entry| &entry.name).filter(|name| only.is_none_or(|only| only == *name));
    let mut names: Vec<String> = wanted.cloned().collect();
    names.sort();
    names.dedup();
    names
}
