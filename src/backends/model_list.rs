//! The models that a server offers: for the command `models`, and for what is said of one that it does not have.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

use crate::backend::{Backend, IndexEntry};
use crate::clock::Stamp;
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

/// How often the list is asked for while a model is waited for: a server may have to look through a remote repository for it.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// A load that has failed may be tried again: somebody may still be copying the model, and Triton, where it polls its repository, does
/// so every 15 s.
const FAILS_FOR: Duration = Duration::from_secs(20);

/// What a server's list of models says of one that is waited for.
pub struct Prospects<'a> {
    backend: &'a dyn Backend,
    id: &'a ModelId,
    looks: RefCell<Looks>,
}

/// What was seen so far.
#[derive(Default)]
struct Looks {
    last: Option<Stamp>,
    /// Since when the list has called the load failed.
    failed: Option<Stamp>,
    /// Why the model will not be ready.
    why: Option<String>,
}

impl<'a> Prospects<'a> {
    /// Nothing has been seen yet.
    pub fn new(backend: &'a dyn Backend, id: &'a ModelId) -> Self {
        Self { backend, id, looks: RefCell::default() }
    }

    /// The model.
    pub fn id(&self) -> &ModelId {
        self.id
    }

    /// Whether waiting does not help: the server has loaded what it has, and `is_absent` says that the model is not there, or its load
    /// has failed for a while.
    pub fn are_none(&self, is_absent: bool) -> bool {
        let (mut looks, now) = (self.looks.borrow_mut(), Stamp::now());
        if looks.last.is_some_and(|last| now - last < LOOK_EVERY) {
            return false;
        }
        looks.last = Some(now);
        let entries = self.backend.index().unwrap_or_default();
        let goes_on = self.rows(&entries).any(|entry| ["LOADING", "UNLOADING"].contains(&&*entry.state));
        let failure = self.failure(&entries);
        looks.failed = if failure.is_some() { looks.failed.or(Some(now)) } else { None };
        let is_over = is_absent && !goes_on;
        looks.why = failure.or_else(|| is_over.then(|| self.absence(&entries)));
        is_over || looks.failed.is_some_and(|since| now - since >= FAILS_FOR)
    }

    /// Why the model is not ready, as far as the list has told.
    pub fn why(self) -> Option<String> {
        self.looks.into_inner().why
    }

    fn rows<'e>(&self, entries: &'e [IndexEntry]) -> impl Iterator<Item = &'e IndexEntry> {
        entries.iter().filter(|entry| entry.name == self.id.name)
    }

    /// That its load has failed; `None` where another version may do.
    fn failure(&self, entries: &[IndexEntry]) -> Option<String> {
        // Triton's reason for a model that somebody has unloaded.
        let has_failed =
            |entry: &&IndexEntry| entry.state == "UNAVAILABLE" && !["", "unloaded"].contains(&&*entry.reason);
        let version = self.id.version.map(|version| version.to_string());
        let is_wanted =
            |entry: &&IndexEntry| version.as_ref().is_none_or(|version| [version, ""].contains(&&*entry.version));
        let reason = &self.rows(entries).filter(is_wanted).find(has_failed)?.reason;
        let is_all = self.rows(entries).filter(is_wanted).all(|entry| has_failed(&entry));
        is_all.then(|| format!("model '{}' could not be loaded by the server: {reason}", self.id))
    }

    /// That there is no such model, and what there is.
    fn absence(&self, entries: &[IndexEntry]) -> String {
        let ready = self.rows(entries).filter(|row| row.state == "READY");
        let versions: Vec<String> = ready.map(|row| row.version.clone()).collect();
        let there_are = if entries.is_empty() {
            String::new()
        } else if !versions.is_empty() {
            format!(" (its versions: {})", in_words(&versions))
        } else if self.rows(entries).next().is_some() {
            " loaded (it is in the server's repository: --load-model, or POST v2/repository/models/NAME/load)"
                .to_owned()
        } else {
            format!(" (the server has {})", in_words(&names(entries, None)))
        };
        format!("there is no model '{}'{there_are}, and nothing is being loaded", self.id)
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
