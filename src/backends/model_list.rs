//! The models that a server offers: for the command `models`, and for what is said of one that it does not have.

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

/// So many names of models are listed in a message.
const MAX_LISTED: usize = 10;

/// Names in words, the first of many.
pub fn in_words(names: &[String]) -> String {
    match names.len() {
        0 => "none at all".to_owned(),
        1..=MAX_LISTED => names.join(", "),
        count => format!("{} and {} more", names[..MAX_LISTED].join(", "), count - MAX_LISTED),
    }
}

/// Why a model that is not ready will not be, by the server's list of its models; `None` where that does not say so.
pub fn failure(backend: &dyn Backend, id: &ModelId) -> Option<String> {
    let entries = backend.index().ok()?;
    // Triton's reason for a model that somebody has unloaded.
    let has_failed = |entry: &&IndexEntry| entry.state == "UNAVAILABLE" && !["", "unloaded"].contains(&&*entry.reason);
    let version = id.version.map(|version| version.to_string());
    let is_wanted = |entry: &&IndexEntry| {
        entry.name == id.name && version.as_ref().is_none_or(|version| [version, ""].contains(&&*entry.version))
    };
    // Another version may do.
    let mut rows = entries.iter().filter(is_wanted);
    let failed = rows.clone().find(has_failed)?;
    let reason = &failed.reason;
    rows.all(|entry| has_failed(&entry)).then(|| format!("model '{id}' could not be loaded by the server: {reason}"))
}

/// That there is no such model, and what there is, by the server's list of its models.
pub fn absence(backend: &dyn Backend, id: &ModelId) -> String {
    let entries = backend.index().unwrap_or_default();
    let rows = || entries.iter().filter(|entry| entry.name == id.name);
    let versions: Vec<String> = rows().filter(|row| row.state == "READY").map(|row| row.version.clone()).collect();
    let there_are = if entries.is_empty() {
        String::new()
    } else if !versions.is_empty() {
        format!(" (its versions: {})", in_words(&versions))
    } else if rows().next().is_some() {
        " loaded (it is in the server's repository: --load-model, or POST v2/repository/models/NAME/load)".to_owned()
    } else {
        format!(" (the server has {})", in_words(&names(&entries, None)))
    };
    format!("there is no model '{id}'{there_are}, and nothing is being loaded")
}

/// Every name once, in order; only `only`, if it is given.
pub fn names(entries: &[IndexEntry], only: Option<&str>) -> Vec<String> {
    let wanted = entries.iter().map(|entry| &entry.name).filter(|name| only.is_none_or(|only| only == *name));
    let mut names: Vec<String> = wanted.cloned().collect();
    names.sort();
    names.dedup();
    names
}
