//! The files that runs of a file of flags write: not one that another run writes, nor the file of flags itself.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::config::NamedRun;
use crate::config::flags::{name_of, value_of};
use crate::error::{Error, Result};
use crate::plan::flags::find_long;

/// What a folder of reports tells of its run, as inference-perf does.
const REPORTED_CONFIG: &str = "config.yaml";

/// Refuses the words of a run that would write a result over the `file` whose flags it has.
///
/// # Errors
/// The flag that names it.
pub(super) fn refuse_own(file: &Path, arguments: &[OsString]) -> Result<()> {
    // Whoever names a terminal or a pipe twice loses nothing.
    let Some(file) = file.canonicalize().ok().filter(|file| file.is_file()) else { return Ok(()) };
    let prefix = last(arguments, "report-prefix").unwrap_or_default();
    let is_in_folder = |word: &OsStr| {
        let mut name = prefix.to_owned();
        name.push(REPORTED_CONFIG);
        name_of(word) == "report-dir" && path_of(word).join(name).canonicalize().is_ok_and(|path| path == file)
    };
    let flag_of = |word: &OsString| {
        let flag = find_long(&name_of(word)).filter(|flag| flag.file)?;
        let is_file = path_of(word) == file || is_in_folder(word);
        is_file.then(|| (flag.name, value_of(word).to_string_lossy().into_owned()))
    };
    match arguments.iter().find_map(flag_of) {
        Some((flag, value)) => {
            let rule = match flag {
                "--report-dir" => "has the file of --config, which would be overwritten; name another folder",
                _ => "is also the file of --config, which would be overwritten; name another file",
            };
            Err(Error::usage(format!("{flag} {value}: {rule}")))
        }
        None => Ok(()),
    }
}

/// The value of a flag that is given last.
fn last<'a>(arguments: &'a [OsString], name: &str) -> Option<&'a OsStr> {
    arguments.iter().rfind(|word| name_of(word) == name).map(|word| value_of(word))
}

/// Finds a file that two runs would write, or one that runs twice.
///
/// # Errors
/// Which runs would.
pub(super) fn check(runs: &[NamedRun]) -> Result<()> {
    let mut written: HashMap<PathBuf, (usize, &str)> = HashMap::new();
    for (number, NamedRun { name, arguments, .. }) in runs.iter().enumerate() {
        let has_summary = arguments.iter().any(|word| name_of(word) == "summary-file");
        let is_written = |word: &&OsString| {
            let flag = name_of(word);
            // That of --resume is written unless --summary-file names another.
            (flag == "output" || find_long(&flag).is_some_and(|flag| flag.file)) && !(flag == "resume" && has_summary)
        };
        for word in arguments.iter().filter(is_written) {
            let path = path_of(word);
            // Whoever names a device or a pipe wants all of it there.
            if path.metadata().is_ok_and(|found| !found.is_file() && !found.is_dir()) {
                continue;
            }
            if let Some((_, other)) = written.get(&path).filter(|(other, _)| *other != number) {
                let (word, rule) = (word.to_string_lossy(), "would overwrite each other's file; give each its own");
                return Err(Error::usage(format!("{word}: the runs '{other}' and '{name}' {rule}")));
            }
            written.insert(path, (number, name));
        }
    }
    Ok(())
}

/// The file of a flag, under the one name that all ways of writing its path have in common.
fn path_of(word: &OsStr) -> PathBuf {
    let value = value_of(word).as_bytes();
    let is_picture = name_of(word) == "svg";
    let colon = value.iter().position(|byte| *byte == b':').filter(|_| is_picture);
    let path = Path::new(OsStr::from_bytes(colon.map_or(value, |colon| &value[colon + 1..])));
    let whole = |path: &Path| path.canonicalize().or_else(|_| std::path::absolute(path));
    let (folder, name) = (path.parent().unwrap_or(Path::new("")), path.file_name());
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let path = match name {
        // A file that is there may have several names; of another, only its folder may.
        Some(name) if !path.exists() => whole(folder).map(|folder| folder.join(name)),
        _ => whole(path),
    };
    path.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exit::Codes;

    /// What is wrong with a run, or a search, of a file with this text; `words` are in the file's folder.
    fn refused(command: &[&str], text: &str, words: &[&str]) -> String {
        refused_as("c.yaml", command, text, words)
    }

    /// The same of a file of that name.
    fn refused_as(name: &str, command: &[&str], text: &str, words: &[&str]) -> String {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name).display().to_string();
        std::fs::write(folder.path().join(name), text).unwrap();
        std::os::unix::fs::symlink(folder.path().join(name), folder.path().join("link.csv")).unwrap();
        let words = words.iter().map(|word| word.replace("F/", &at("")));
        let all = ["triton-bench"].iter().chain(command).map(|word| (*word).to_owned());
        let all = all.chain(["--config".to_owned(), at(name), "-m".to_owned(), "m".to_owned()]).chain(words);
        let error = crate::parse(all.map(OsString::from), Codes::Own).err().map(|error| error.to_string());
        error.unwrap_or_default().replace(&at(""), "F/")
    }

    #[test]
    fn a_run_does_not_write_over_the_file_that_it_comes_from() {
        let rule = "is also the file of --config, which would be overwritten";
        for (flag, word) in [
            ("-f", "F/c.yaml"),
            ("-f", "F/link.csv"),
            ("--summary-file", "F/./c.yaml"),
            ("--report", "F/c.yaml"),
            ("--svg", "latency:F/c.yaml"),
            ("--junit", "F/c.yaml"),
            ("--profile-export-file", "F/c.yaml"),
        ] {
            let error = refused(&[], "verbose: true\n", &[flag, word]);
            assert!(error.starts_with(&format!("{flag} {word}: {rule}")), "{flag} {word}: {error}");
        }
        assert!(refused(&[], "csv: out.csv\n", &["--require", "p99<1ms"]).is_empty());
        assert!(refused(&[], "verbose: true\n", &["-f", "F/c.yaml", "--print-config"]).is_empty(), "it writes nothing");
        for flag in ["-f", "--summary-file"] {
            let error = refused(&["tune", "--model-repository", "/r"], "verbose: true\n", &[flag, "F/c.yaml"]);
            assert!(error.starts_with(&format!("{flag} F/c.yaml: {rule}")), "{error}");
        }
        let of_report = |words: &[&str]| refused_as("x-config.yaml", &[], "report-prefix: x-\n", words);
        let error = of_report(&["--report-dir", "F/."]);
        assert!(error.starts_with("--report-dir F/.: has the file of --config"), "{error}");
        assert!(of_report(&["--report-dir", "F/", "--report-prefix", "y-"]).is_empty());
        let runs = "runs:\n  a: {}\n  b: {}\n";
        let error = refused(&[], runs, &["-f", "F/c.yaml"]);
        assert!(error.contains("--run 'a'") && error.contains(rule), "{error}");
    }
}
