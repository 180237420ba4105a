//! What to do where Triton lacks what a model needs: a backend, or a Python module.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use crate::error::Error;
use crate::model::starter::image_with;
use crate::plan::ServerPlan;

/// Triton's words before the backend's name.
const REFUSAL: &str = "unable to find backend library for backend '";

/// Python's words before the module's name.
const NO_MODULE: &str = "ModuleNotFoundError: No module named '";

/// Which backends are in `folder`, and which image has `backend`, unless it is there.
pub fn missing_backend(backend: &str, folder: &Path) -> Option<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().filter(|entry| entry.path().is_dir());
    let mut there: Vec<String> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    there.sort();
    if there.iter().any(|name| name == backend) {
        return None;
    }
    let image = image_with(backend).map_or_else(String::new, |image| format!("; the image {image} has it"));
    if !folder.is_dir() {
        return Some(format!(
            "no Triton with a backend '{backend}' is found: {} is no folder{image}",
            folder.display()
        ));
    }
    let there = if there.is_empty() { "none".to_owned() } else { there.join(", ") };
    Some(format!("this Triton has no backend '{backend}': {} holds {there}{image}", folder.display()))
}

/// The error, with what to do if it is about a missing backend or Python module.
pub fn explained(error: Error, plan: &ServerPlan) -> Error {
    let message = error.to_string();
    let folder = plan.backend_directory.clone().unwrap_or_else(|| plan.directory.join("backends"));
    let backend = quoted(&message, REFUSAL).and_then(|backend| missing_backend(backend, &folder));
    match backend.or_else(|| quoted(&message, NO_MODULE).map(missing_module)) {
        Some(advice) => error.advice(advice),
        None => error,
    }
}

/// The name that begins behind `words` and ends with a quote.
fn quoted<'a>(message: &'a str, words: &str) -> Option<&'a str> {
    message.split_once(words)?.1.split('\'').next()
}

/// Where the python backend looks for modules: it embeds Python, which finds its home by the `python3` of PATH.
fn missing_module(module: &str) -> String {
    let python = first_in(&env::var_os("PATH").unwrap_or_default(), "python3");
    let home = match python {
        Some(python) => format!("{} is the first on PATH", python.display()),
        None => "there is none on PATH".to_owned(),
    };
    format!(
        "Triton's python backend takes modules from the home of python3, and {home}; install {module} there, or put \
         another first, as in PATH=/usr/bin:$PATH"
    )
}

fn first_in(path: &OsStr, name: &str) -> Option<PathBuf> {
    env::split_paths(path).map(|folder| folder.join(name)).find(|file| file.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_backend_is_told_with_those_that_are_there_and_where_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let plan = ServerPlan { directory: folder.path().to_owned(), ..ServerPlan::default() };
        fs::create_dir_all(folder.path().join("backends/python")).unwrap();
        fs::create_dir_all(folder.path().join("backends/identity")).unwrap();
        let refused = |backend: &str| {
            let words = format!("Invalid argument: {REFUSAL}{backend}', try specifying runtime");
            explained(Error::server(words), &plan).to_string()
        };
        let message = refused("onnxruntime");
        assert!(
            message.contains("backends holds identity, python; the image nvcr.io/nvidia/tritonserver:"),
            "{message}"
        );
        assert!(refused("mine").ends_with("holds identity, python"), "{}", refused("mine"));
        assert!(!refused("python").contains("holds"), "it is there, so something else is wrong");
        let none = missing_backend("pytorch", Path::new("/nowhere")).unwrap();
        assert!(none.contains("/nowhere is no folder; the image "), "{none}");
        assert_eq!(explained(Error::server("out of memory"), &plan).to_string(), "out of memory");
    }
    #[test]
    fn a_missing_python_module_is_told_with_the_python_that_lacks_it() {
        let words = format!("Internal: {NO_MODULE}numpy' At: model.py(5)");
        let message = explained(Error::server(words), &ServerPlan::default()).to_string();
        assert!(message.contains("install numpy there") && message.contains("PATH=/usr/bin:$PATH"), "{message}");
        let folders = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let path = env::join_paths(folders.iter().map(tempfile::TempDir::path)).unwrap();
        assert_eq!(first_in(&path, "python3"), None);
        for folder in folders.iter().rev() {
            let python = folder.path().join("python3");
            fs::write(&python, "").unwrap();
            assert_eq!(first_in(&path, "python3"), Some(python));
        }
    }
}
