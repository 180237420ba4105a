//! Checks of a model repository before a server opens it, with plainer messages than the server's.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use rustix::process::geteuid;

use crate::error::{Error, Result};
use crate::model::ModelId;
use crate::model_list::in_words;

/// Checks that the repositories exist and contain each of the models. Repositories that are not paths (`s3://…`) are
/// left to the server.
///
/// # Errors
/// The first thing that is missing.
pub fn check<'a>(repositories: &[PathBuf], models: impl IntoIterator<Item = &'a ModelId>) -> Result<()> {
    if repositories.iter().any(|path| is_remote(path)) {
        return Ok(());
    }
    repositories.iter().try_for_each(|path| check_directory(path))?;
    models.into_iter().try_for_each(|model| find(repositories, &model.name).map(drop))
}

/// Whether a repository is an address rather than a path.
pub fn is_remote(repository: &Path) -> bool {
    repository.to_string_lossy().contains("://")
}

fn check_directory(path: &Path) -> Result<()> {
    check_readable(path)?;
    if path.is_dir() {
        return Ok(());
    }
    Err(Error::server(format!(
        "--model-repository: '{}' is not a directory; name the one that holds the models' directories",
        path.display()
    )))
}

/// A server that may not read a folder finds no models in it.
fn check_readable(folder: &Path) -> Result<()> {
    match fs::read_dir(folder).and_then(|_| fs::metadata(folder.join("."))) {
        Err(error) if error.kind() == ErrorKind::PermissionDenied => Err(Error::server(format!(
            "--model-repository: '{}' cannot be read: permission denied for user {}; let that user read it (chmod -R a+rX), \
             or run as one who may",
            folder.display(),
            geteuid().as_raw()
        ))),
        _ => Ok(()),
    }
}

/// The model's folder.
fn find(repositories: &[PathBuf], model: &str) -> Result<PathBuf> {
    let is_plain = Path::new(model).components().count() == 1 && !model.contains('/') && !model.starts_with("..");
    let folders = repositories.iter().map(|repository| repository.join(model));
    if let Some(folder) = folders.into_iter().find(|folder| is_plain && folder.is_dir()) {
        check_readable(&folder)?;
        return Ok(folder);
    }
    let paths: Vec<String> = repositories.iter().map(|path| format!("'{}'", path.display())).collect();
    Err(Error::server(format!(
        "model '{model}': --model-repository {} holds no model of that name, but {}; name one of them with -m",
        paths.join(" and "),
        listed(repositories)
    )))
}

/// The models of the repositories, in words.
fn listed(repositories: &[PathBuf]) -> String {
    let entries = repositories.iter().filter_map(|path| fs::read_dir(path).ok()).flatten().flatten();
    let folders = entries.filter(|entry| entry.path().is_dir());
    let mut names: Vec<String> = folders.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    in_words(&names)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(repository: &Path, model: &str) -> String {
        check(&[repository.to_owned()], [&ModelId::latest(model)]).unwrap_err().to_string()
    }

    #[test]
    fn what_is_missing_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        assert!(error(&root.join("none"), "m").contains("is not a directory"));
        assert!(error(root, "m").contains("none at all"));
        fs::create_dir_all(root.join("a/1")).unwrap();
        let message = error(root, "../a");
        assert!(message.contains("'../a'") && message.contains("but a;"), "{message}");
        check(&[root.to_owned()], [&ModelId::latest("a")]).unwrap();
        check(&[PathBuf::from("s3://bucket/models")], [&ModelId::latest("a")]).unwrap();
    }
}
