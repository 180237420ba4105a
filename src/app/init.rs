//! The command `init`: a model repository from a model's file.

use std::fs;
use std::io;
use std::path::{Component, Path};

use crate::app::screen::Screen;
use crate::app::{phase, signals};
use crate::backends::c_api::missing_backend;
use crate::error::{Error, Result};
use crate::exit;
use crate::model::starter::{Format, Starter as Content};
use crate::plan::Starter;
use crate::report;
use crate::stdio::note;

/// Makes it, prints its files, and says what comes next. Returns the exit code (see [`crate::exit`]).
///
/// # Errors
/// If the file is not what its name says, or something cannot be read or written.
pub fn init(wanted: &Starter) -> Result<u8> {
    signals::watch()?;
    phase::making();
    let Starter { file, name, repository, server } = wanted;
    let shown = file.display();
    let format = Format::from_path(file)
        .ok_or_else(|| Error::usage(format!("'{shown}' has no ending that tells its format")))?;
    let bytes = fs::read(file).map_err(|error| Error::input(format!("'{shown}' cannot be read: {error}")))?;
    let content = format.starter(&bytes).map_err(|reason| Error::input(format!("'{shown}': {reason}")))?;
    drop(bytes);
    let folder = repository.join(name);
    if folder.symlink_metadata().is_ok() {
        let rule = "is already there, and nothing is overwritten; give another --name or --repository, or remove it";
        return Err(Error::output(format!("'{}' {rule}", folder.display())));
    }
    let files = make(wanted, format, &content)?;
    let lines: String = files.iter().map(|file| format!("{}\n", folder.join(file).display())).collect();
    Screen::new().print(&lines)?;
    content.notes.iter().for_each(|text| note!("{text}"));
    if let Some(missing) = missing_backend(format.backend(), &server.join("backends")) {
        note!("{missing}");
    }
    let shapes: String = content.shapes.iter().map(|shape| format!(" --shape {shape}")).collect();
    let first = match content.text.contains("\n# input [") {
        true => format!("complete {}, then measure it", folder.join("config.pbtxt").display()),
        false => "now measure it".to_owned(),
    };
    note!(
        "{first}: triton-bench -m {name} --model-repository {} --concurrency-range 1:4{shapes}",
        repository.display()
    );
    Ok(exit::OK)
}

/// Writes all files into a new folder, which then takes the model's name, so nobody finds half of a model. Returns their paths in
/// the model's folder.
fn make(wanted: &Starter, format: Format, content: &Content) -> Result<Vec<String>> {
    let Starter { file, name, repository, .. } = wanted;
    let failed = |error: io::Error| Error::output(format!("'{}' cannot be written: {error}", repository.display()));
    fs::create_dir_all(repository).map_err(failed)?;
    let unfinished = report::new_folder(repository, ".init-").map_err(failed)?;
    fs::create_dir(unfinished.path().join("1")).map_err(failed)?;
    let mut made = vec!["config.pbtxt".to_owned()];
    fs::write(unfinished.path().join("config.pbtxt"), &content.text).map_err(failed)?;
    let beside = file.parent().unwrap_or(Path::new(""));
    let copies = content.files.iter().map(|name| (beside.join(name), name.as_str()));
    for (from, to) in [(file.clone(), format.file())].into_iter().chain(copies) {
        let to = format!("1/{}", inside(to)?);
        let target = unfinished.path().join(&to);
        target.parent().map_or(Ok(()), fs::create_dir_all).map_err(failed)?;
        let failed = |error| Error::output(format!("'{}' cannot be copied to {to}: {error}", from.display()));
        fs::copy(&from, &target).map_err(failed)?;
        made.push(to);
    }
    let folder = repository.join(name);
    fs::set_permissions(unfinished.path(), open_to_all()).map_err(failed)?;
    report::put_in_place(unfinished, &folder).map_err(failed)?;
    Ok(made)
}

/// A temporary folder is its owner's alone; a server may run as somebody else.
fn open_to_all() -> fs::Permissions {
    std::os::unix::fs::PermissionsExt::from_mode(0o755)
}

/// The name of a file that a model wants beside itself, which must not lead elsewhere.
fn inside(name: &str) -> Result<&str> {
    let is_plain = Path::new(name).components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
    if is_plain && !name.is_empty() {
        return Ok(name);
    }
    Err(Error::input(format!("the model's weights are in '{name}', outside its folder; save it with them beside it")))
}
