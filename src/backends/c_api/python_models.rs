//! Models of the python backend whose load never ends: it waits for ever for a process that could not start, because
//! its script is missing, or because a shell takes the script's path apart (before 25.08). A few fields of their configurations tell:
//! these are found in the text, for a parser of protobuf's text form would be built for them alone.

use std::collections::HashSet;
use std::fs;
use std::iter;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::plan::ServerPlan;

/// What a shell does not take as part of a word.
const SHELL: &str = "|&;<>()$`\\\"'";

/// A model that the server is going to load, by itself or as a step of an ensemble.
struct PythonModel {
    name: String,
    /// The script of each version that is loaded.
    scripts: Vec<PathBuf>,
}

/// Checks that the scripts of these models, and of the models that they are made of, exist.
///
/// # Errors
/// The first that is missing.
pub fn check_scripts<'a>(plan: &ServerPlan, names: impl IntoIterator<Item = &'a str>) -> Result<()> {
    for PythonModel { name, scripts } in python_models(plan, names) {
        if let Some(script) = scripts.iter().find(|script| !script.exists()) {
            let script = script.display();
            return Err(Error::server(format!(
                "model '{name}': {script} is missing; the python backend needs it in every version"
            )));
        }
    }
    Ok(())
}

/// Checks that a shell takes the paths of their scripts, and of the backend, for single words.
///
/// # Errors
/// The first one that it does not.
pub fn check_paths<'a>(plan: &ServerPlan, names: impl IntoIterator<Item = &'a str>) -> Result<()> {
    let folder = plan.backend_directory.clone().unwrap_or_else(|| plan.directory.join("backends"));
    for PythonModel { name, scripts } in python_models(plan, names) {
        let paths = iter::once(&folder).chain(&scripts).map(|path| path.to_string_lossy());
        for path in paths {
            if let Some(odd) = path.chars().find(|c| c.is_ascii_whitespace() || SHELL.contains(*c)) {
                return Err(Error::server(format!(
                    "model '{name}': before 25.08, Triton's python backend starts nothing whose path a shell takes apart, \
                     and '{path}' contains {odd:?}; rename it, or make a link without that (ln -s) and name the link"
                )));
            }
        }
    }
    Ok(())
}

fn python_models<'a>(plan: &ServerPlan, names: impl IntoIterator<Item = &'a str>) -> Vec<PythonModel> {
    let mut waiting: Vec<String> = names.into_iter().map(str::to_owned).collect();
    let (mut seen_names, mut found) = (HashSet::new(), Vec::new());
    while let Some(name) = waiting.pop() {
        let folders = plan.repositories.iter().map(|repository| repository.join(&name));
        let Some(folder) = folders.into_iter().find(|folder| folder.is_dir()) else { continue };
        if !seen_names.insert(name.clone()) {
            continue;
        }
        let config = configuration(plan, &folder);
        waiting.extend(texts(&config, "model_name:").map(str::to_owned));
        let scripts = scripts(&config, &folder);
        if is_python(&config, &scripts) {
            found.push(PythonModel { name, scripts });
        }
    }
    found
}

/// The configuration that the server reads, without comments and without white space between its words.
fn configuration(plan: &ServerPlan, folder: &Path) -> String {
    let chosen = plan.config_name.as_ref().map(|name| folder.join("configs").join(format!("{name}.pbtxt")));
    let file = chosen.filter(|file| file.exists()).unwrap_or_else(|| folder.join("config.pbtxt"));
    compact(&fs::read_to_string(file).unwrap_or_default())
}

fn compact(text: &str) -> String {
    let (mut compact, mut quote, mut is_comment, mut is_escaped) = (String::new(), None, false, false);
    for c in text.chars() {
        let is_quote = matches!(c, '"' | '\'') && !is_escaped;
        match quote {
            Some(open) if is_quote && c == open => {
                quote = None;
                compact.push('"');
            }
            Some(_) => compact.push(c),
            None if is_comment => is_comment = c != '\n',
            None if c == '#' => is_comment = true,
            None if is_quote => {
                quote = Some(c);
                compact.push('"');
            }
            None if c.is_whitespace() => {}
            None => compact.push(c),
        }
        is_escaped = quote.is_some() && c == '\\' && !is_escaped;
    }
    compact
}

/// The values of a field whose values are texts.
fn texts<'a>(config: &'a str, field: &'a str) -> impl Iterator<Item = &'a str> {
    config.split(field).skip(1).filter_map(|value| value.strip_prefix('"')?.split('"').next())
}

/// Files by which the server knows another backend, before it looks for a script.
const OTHER_MODELS: [&str; 7] =
    ["model.plan", "model.savedmodel", "model.graphdef", "model.onnx", "model.xml", "model.pt", "model.pt2"];

/// Where the configuration names no backend, the server goes by the names of files. An agent may put the files elsewhere.
fn is_python(config: &str, scripts: &[PathBuf]) -> bool {
    let is_silent = !config.contains("backend:") && !config.contains("platform:");
    let is_script = |script: &PathBuf| script.ends_with("model.py") && script.exists();
    let is_other = |script: &PathBuf| OTHER_MODELS.iter().any(|name| script.with_file_name(name).exists());
    let is_inferred = is_silent && scripts.iter().any(is_script) && !scripts.iter().any(is_other);
    !config.contains("model_repository_agents") && (config.contains("backend:\"python\"") || is_inferred)
}

fn scripts(config: &str, folder: &Path) -> Vec<PathBuf> {
    let folder = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
    let script = texts(config, "default_model_filename:").next().unwrap_or("model.py");
    versions(config, &folder).into_iter().map(|version| folder.join(version.to_string()).join(script)).collect()
}

/// The versions that the server loads, whichever is measured.
fn versions(config: &str, folder: &Path) -> Vec<u64> {
    let folders = fs::read_dir(folder).into_iter().flatten().flatten().filter(|entry| entry.path().is_dir());
    let names = folders.filter_map(|entry| entry.file_name().into_string().ok());
    // The server ignores folders whose names have leading zeros.
    let names = names.filter(|name| name == "0" || !name.starts_with('0'));
    let mut present: Vec<u64> = names.filter_map(|name| name.parse().ok()).collect();
    present.sort_unstable();
    let policy =
        config.split_once("version_policy").map_or("", |(_, policy)| policy).trim_start_matches([':', '{', '<']);
    let mut numbers = policy.split(['}', '>']).next().unwrap_or_default().split(|c: char| !c.is_ascii_digit());
    if policy.starts_with("specific") {
        let chosen: Vec<u64> = numbers.filter_map(|number| number.parse().ok()).collect();
        present.retain(|version| chosen.contains(version));
    } else if !policy.starts_with("all") {
        let latest = policy.starts_with("latest").then(|| numbers.find_map(|number| number.parse().ok()));
        let count: usize = latest.flatten().unwrap_or(1);
        present.drain(..present.len().saturating_sub(count));
    }
    present
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A repository of these models: their configurations, and their files.
    fn plan(root: &Path, models: &[(&str, &str, &[&str])]) -> ServerPlan {
        for (name, config, files) in models {
            for file in *files {
                let path = root.join(name).join(file);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, "").unwrap();
            }
            fs::create_dir_all(root.join(name)).unwrap();
            fs::write(root.join(name).join("config.pbtxt"), config).unwrap();
        }
        ServerPlan { repositories: vec![root.to_owned()], directory: "/opt/triton".into(), ..ServerPlan::default() }
    }

    fn missing(plan: &ServerPlan, name: &str) -> Option<String> {
        check_scripts(plan, [name]).err().map(|error| error.to_string())
    }

    #[test]
    fn every_version_that_is_loaded_needs_its_script() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        // Version 9 has its script, 10 has none.
        let files = &["9/model.py", "10/other.py"][..];
        let python = "backend : 'python' ";
        for (policy, expected) in [
            ("", Some("m/10/model.py")),
            ("version_policy: { latest { num_versions : 2 } }", Some("m/10/model.py")),
            ("version_policy { all { } }", Some("m/10/model.py")),
            ("version_policy: { specific: { versions: [ 1, 9 ] } }", None),
            ("version_policy { specific { versions: 9 versions: 10 } }", Some("m/10/model.py")),
            ("# version_policy { specific { versions: 9 } }", Some("m/10/model.py")),
            ("default_model_filename: \"other.py\"", None),
        ] {
            let plan = plan(root, &[("m", &format!("{python}{policy}"), files)]);
            let message = missing(&plan, "m");
            assert_eq!(message.is_some(), expected.is_some(), "{policy}: {message:?}");
            assert!(expected.is_none_or(|path| message.unwrap().contains(&format!("{path} is missing"))), "{policy}");
        }
        let commented = plan(root, &[("m", "backend: \"onnxruntime\" # was backend: \"python\"", files)]);
        assert_eq!(missing(&commented, "m"), None);
    }

    #[test]
    fn steps_of_an_ensemble_need_theirs_and_another_configuration_may_count() {
        let folder = tempfile::tempdir().unwrap();
        let ensemble =
            "platform: \"ensemble\" ensemble_scheduling { step [ { model_name: \"e\" }, { model_name: \"a b\" } ] }";
        let models = [("e", ensemble, &["1/x"][..]), ("a b", "backend: \"python\"", &["1/x", "configs/other.pbtxt"])];
        let plan = plan(folder.path(), &models);
        assert!(missing(&plan, "e").unwrap().starts_with("model 'a b': "));
        assert_eq!(missing(&plan, "elsewhere"), None);
        let other = ServerPlan { config_name: Some("other".to_owned()), ..plan };
        assert_eq!(missing(&other, "e"), None, "nothing says that it is a python model");
    }

    #[test]
    fn paths_are_words_of_a_shell() {
        let folder = tempfile::tempdir().unwrap();
        let script = &["1/model.py"][..];
        let models =
            [("a+b,c:d", "", script), ("a b", "backend: \"python\"", script), ("c", "backend: \"x\"", &["1/x"])];
        let plan = plan(folder.path(), &models);
        let refused = |plan: &ServerPlan, name| check_paths(plan, [name]).err().map(|error| error.to_string());
        assert_eq!(refused(&plan, "a+b,c:d"), None);
        let message = refused(&plan, "a b").unwrap();
        assert!(message.contains("a b/1/model.py' contains ' '") && message.contains("ln -s"), "{message}");
        let apart = ServerPlan { directory: "/opt/my triton".into(), ..plan };
        assert!(refused(&apart, "a+b,c:d").unwrap().contains("'/opt/my triton/backends' contains ' '"));
        assert_eq!(refused(&apart, "c"), None, "no python model");
    }

    #[test]
    fn comments_and_white_space_are_no_part_of_a_configuration() {
        assert_eq!(compact("a : 'x # y' # b: 1\nc: \"d\\\" e\""), "a:\"x # y\"c:\"d\\\" e\"");
    }

    #[test]
    fn folders_with_leading_zeros_are_no_versions() {
        let folder = tempfile::tempdir().unwrap();
        let files = &["1/model.py", "02/x", "0010/x"][..];
        let plan = plan(folder.path(), &[("m", "backend: \"python\"", files)]);
        assert!(check_scripts(&plan, ["m"]).is_ok());
    }

    #[test]
    fn models_of_other_backends_and_of_agents_are_left_to_the_server() {
        let folder = tempfile::tempdir().unwrap();
        let agent = "backend: \"python\" model_repository_agents { agents [ { name: \"decrypt\" } ] }";
        let models = [
            ("a b", "default_model_filename: \"net.onnx\"", &["1/net.onnx"][..]),
            ("c d", "", &["1/model.py", "1/model.pt"]),
            ("e f", agent, &["1/model.enc"]),
            ("g\u{3000}h", "backend: \"python\"", &["1/model.py"]),
        ];
        let plan = plan(folder.path(), &models);
        for (name, ..) in models {
            assert!(check_scripts(&plan, [name]).is_ok() && check_paths(&plan, [name]).is_ok(), "{name}");
        }
    }
}
