//! Where in a file of another program's form that stands which a flag follows from: whoever wrote the file knows no such flag, so that
//! an error of one has to say which line it is about.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::config::flags::{Setting, value_of};
use crate::config::yaml::Place;
use crate::error::Error;

/// Flags of a file, and what they follow from.
#[derive(Debug, Default)]
pub struct Meant {
    path: PathBuf,
    arguments: Vec<(String, OsString, Place)>,
}

impl Meant {
    /// Those of settings that hold. A file of flags has none: what it says stands there as its flags say it.
    pub fn new(path: &Path, settings: &[Setting]) -> Self {
        let arguments = |setting: &Setting| {
            let places = setting.arguments.iter().cloned().zip(setting.meant_at.iter().copied());
            places.map(|(word, at)| (setting.name.clone(), word, at)).collect::<Vec<_>>()
        };
        Self { path: path.to_owned(), arguments: settings.iter().flat_map(arguments).collect() }
    }

    /// An error of a plan, with the place of the flag that it begins with where the file means that flag.
    pub fn locate(&self, command: &clap::Command, error: Error) -> Error {
        let text = error.to_string();
        let flag = text.split([' ', ',', ':', '=', ';']).next().unwrap_or_default();
        let arg = command.get_arguments().find(|arg| {
            let is_long = arg.get_long().is_some_and(|long| flag.strip_prefix("--") == Some(long));
            is_long || arg.get_short().is_some_and(|short| flag == format!("-{short}"))
        });
        let Some(long) = arg.and_then(clap::Arg::get_long) else { return error };
        let ours: Vec<_> = self.arguments.iter().filter(|(name, ..)| name == long).collect();
        let cause = ours.iter().find(|(_, word, _)| text.contains(&*value_of(word).to_string_lossy()));
        match cause.or(ours.first()) {
            Some((.., at)) => error.context(format!("--config {}:{at}", self.path.display())),
            None => error,
        }
    }
}
