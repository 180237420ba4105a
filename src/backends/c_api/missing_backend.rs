//! What to do where Triton lacks the backend that a model needs.

use std::fs;
use std::path::Path;

use crate::error::Error;
use crate::model::starter::image_with;
use crate::plan::ServerPlan;

/// Triton's words before the backend's name.
const REFUSAL: &str = "unable to find backend library for backend '";

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

/// The error, with what to do if it is about a missing backend.
pub fn explained(error: Error, plan: &ServerPlan) -> Error {
    let told = error.to_string();
    let name = told.split_once(REFUSAL).and_then(|(_, rest)| rest.split('\'').next());
    let folder = plan.backend_directory.clone().unwrap_or_else(|| plan.directory.join("backends"));
    match name.and_then(|name| missing_backend(name, &folder)) {
        Some(advice) => error.advice(advice),
        None => error,
    }
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
        let told = refused("onnxruntime");
        assert!(told.contains("backends holds identity, python; the image nvcr.io/nvidia/tritonserver:"), "{told}");
        assert!(refused("mine").ends_with("holds identity, python"), "{}", refused("mine"));
        assert!(!refused("python").contains("holds"), "it is there, so something else is wrong");
        let none = missing_backend("pytorch", Path::new("/nowhere")).unwrap();
        assert!(none.contains("/nowhere is no folder; the image "), "{none}");
        assert_eq!(explained(Error::server("out of memory"), &plan).to_string(), "out of memory");
    }
}
