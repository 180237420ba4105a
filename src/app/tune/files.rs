//! The files that a search writes: none replaces another or an input, and each can be written.

use std::fs;
use std::path::{Path, PathBuf};

use crate::app::outputs;
use crate::app::tune::record;
use crate::error::{Error, Result};
use crate::plan::TunePlan;

/// The file of a model's configuration, in its folder and in that of a search.
const CONFIGURATION: &str = "config.pbtxt";
/// The table of a search, which is also what -f names, and its result, which is also what --summary-file names.
const TABLE: &str = "metrics-model-inference.csv";
const RESULT: &str = "result.json";
/// What a search always leaves in its folder.
const KEPT: [&str; 6] = [CONFIGURATION, "load.json", TABLE, RESULT, "report.html", record::FILE];

/// Makes the folder of a search, and checks, before anything is measured, that all files can be written. Those that are named may be in
/// that folder, too. If one cannot be written, no folder is left behind.
///
/// # Errors
/// Which cannot, and why.
pub fn prepare(plan: &TunePlan) -> Result<()> {
    let folder = plan.folder();
    let is_missing = |folder: &&Path| !folder.as_os_str().is_empty() && !folder.exists();
    let missing: Vec<&Path> = folder.ancestors().take_while(is_missing).collect();
    check_folder(plan, &folder)?;
    record::make_folder(&folder)?;
    check_files(plan, &folder).inspect_err(|_| {
        // One that has something in it by now is somebody else's.
        missing.iter().for_each(|folder| drop(fs::remove_dir(folder)));
    })
}

fn check_folder(plan: &TunePlan, folder: &Path) -> Result<()> {
    let Some(model) = model_of(plan, folder) else { return Ok(()) };
    let rule = "is that model's own folder, whose configuration would be replaced by the winner's; name another folder";
    Err(Error::usage(format!("--output {}: {rule} (model '{model}')", folder.display())))
}

fn check_files(plan: &TunePlan, folder: &Path) -> Result<()> {
    let output = &plan.run.output;
    // What has the same bytes as the folder's own file may be that file.
    let files = [("-f", &output.csv, TABLE), ("--summary-file", &output.summary, RESULT)];
    let named = files.into_iter().filter_map(|(flag, path, alike)| {
        let path = path.as_deref()?;
        (path != folder.join(alike)).then(|| (flag.to_owned(), path))
    });
    let named: Vec<outputs::Named<'_>> = named.collect();
    let kept = KEPT.map(|name| folder.join(name));
    let kept: Vec<outputs::Named<'_>> = kept.iter().map(|path| ("--output".to_owned(), path.as_path())).collect();
    let inputs: Vec<outputs::Named<'_>> = outputs::inputs(&plan.run).collect();
    outputs::check_files(&kept, &inputs)?;
    outputs::check_files(&named, &[inputs, kept].concat())
}

/// The model of a repository of the plan whose folder this is.
fn model_of(plan: &TunePlan, folder: &Path) -> Option<String> {
    let model = folder.canonicalize().ok()?;
    let is_repository = |repository: &PathBuf| {
        repository.canonicalize().is_ok_and(|repository| model.parent() == Some(repository.as_path()))
    };
    // Folders of earlier searches in a repository are no models.
    let is_model = || {
        let mut entries = model.read_dir().into_iter().flatten().flatten();
        !model.join(record::FILE).exists() && entries.any(|entry| is_version(&entry.path()))
    };
    let found = plan.run.target.server.repositories.iter().any(is_repository) && is_model();
    found.then(|| model.file_name().unwrap_or_default().to_string_lossy().into_owned())
}

/// A version of a model is a folder with a number as its name.
fn is_version(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.is_dir() && !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::tune::sample::plan;

    fn refused(plan: &TunePlan) -> String {
        prepare(plan).err().map(|error| error.to_string()).unwrap_or_default()
    }

    #[test]
    fn a_search_does_not_replace_the_configuration_of_a_model() {
        let repository = tempfile::tempdir().unwrap();
        let model = repository.path().join("m");
        fs::create_dir_all(model.join("1")).unwrap();
        let into = |folder: &Path| {
            let mut plan = plan("");
            plan.run.target.server.repositories = vec![repository.path().to_owned()];
            plan.output = Some(folder.to_owned());
            refused(&plan)
        };
        let error = into(&model);
        assert!(error.contains("own folder") && error.contains("model 'm'"), "{error}");
        assert!(into(&model.join("../m")).contains("own folder"));
        assert_eq!(into(&repository.path().join("tune-m")), "");
        assert_eq!(into(&model.join("tuned")), "");
    }

    #[test]
    fn a_named_file_is_none_of_the_folder_and_no_input() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("data.json"), "{}").unwrap();
        let with = |file: &str| {
            let input = at("data.json");
            let mut plan = plan(&format!("--input-data {}", input.display()));
            plan.output = Some(folder.path().to_owned());
            plan.run.output.csv = Some(at(file));
            refused(&plan)
        };
        for name in ["result.json", "trials.jsonl", "config.pbtxt"] {
            assert!(with(name).contains("is also the file of --output"), "{name}: {}", with(name));
        }
        assert!(with("data.json").contains("is also the file of --input-data"), "{}", with("data.json"));
        assert_eq!(with("table.csv"), "");
        assert_eq!(with(TABLE), "", "the table of both is the same");
        fs::write(at("load.json"), "{}").unwrap();
        let mut plan = plan(&format!("--input-data {}", at("load.json").display()));
        plan.output = Some(folder.path().to_owned());
        let error = refused(&plan);
        assert!(error.contains("load.json: is also the file of --input-data"), "the search would replace it: {error}");
    }

    #[test]
    fn a_named_file_may_be_in_the_folder_that_the_search_makes() {
        let outside = tempfile::tempdir().unwrap();
        let folder = outside.path().join("new/er");
        let with = |file: &Path| {
            let mut plan = plan("");
            plan.output = Some(folder.clone());
            plan.run.output.csv = Some(file.to_owned());
            refused(&plan)
        };
        assert!(with(&outside.path().join("none/x.csv")).contains("there is no folder"));
        assert!(with(&folder.join("result.json")).contains("is also the file of --output"));
        assert!(!outside.path().join("new").exists(), "nothing is left of a search that does not begin");
        assert_eq!(with(&folder.join("x.csv")), "");
        assert!(folder.exists());
    }
}
