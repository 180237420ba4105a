//! A directory with a file per tensor: raw little-endian elements of one batch element, text with one string per line
//! for BYTES, or `NAME.npy`. Raw and `.npy` files are mapped, not copied. Files named after outputs hold expected
//! values.

use std::ffi::OsString;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::OutputValues;
use crate::columns::{Column, Columns};
use crate::error::{Error, Result};
use crate::model::{DataType, TensorSpec};
use crate::npy;
use crate::shm::{Region, RegionBuilder, map_text, open_regular};
use crate::steps::{Loaded, Target, Value, extent, location};
use crate::strings;
use crate::synthetic::open_shape;

/// Reads a directory.
///
/// # Errors
/// Names file, tensor and the broken rule.
pub(crate) fn load(target: &Target<'_>, directory: &Path) -> Result<Loaded> {
    check_files(target, directory)?;
    let mut reader = Reader { target, regions: Vec::new(), memory: RegionBuilder::within(target.spec.memory)? };
    let mut columns = Columns::new(target);
    for (index, input) in target.model.inputs.iter().enumerate() {
        match find(directory, &input.name)? {
            Some(found) => columns.inputs[index] = Some(reader.input(index, &found)?),
            None if input.optional => {}
            None => {
                return Err(Error::input(format!(
                    "failed to open file '{}': it does not exist; every input needs a file of its name, or NAME.npy: {}",
                    directory.join(&input.name).display(),
                    target.input_names()
                )));
            }
        }
    }
    for (index, output) in target.model.outputs.iter().enumerate() {
        // An output with an input's name would have the same file, which belongs to the input.
        if target.model.inputs.iter().any(|input| input.name == output.name) {
            continue;
        }
        if let Some(found) = find(directory, &output.name)? {
            columns.outputs[index] = Some(reader.output(index, &found)?);
        }
    }
    let streams = vec![columns.steps(target)?];
    let mut regions = vec![reader.memory.finish()];
    regions.append(&mut reader.regions);
    Ok(Loaded { regions, streams, ..Loaded::default() })
}

/// A tensor's file.
struct Found {
    path: PathBuf,
    array: bool,
}

/// The file of a tensor: its name, or its name with `.npy`.
fn find(directory: &Path, tensor: &str) -> Result<Option<Found>> {
    let inside = Path::new(tensor).components().all(|part| matches!(part, std::path::Component::Normal(_)));
    if tensor.is_empty() || !inside {
        return Ok(None);
    }
    let (plain, array) = (directory.join(tensor), directory.join(format!("{tensor}.npy")));
    match (plain.is_file(), array.is_file()) {
        (true, true) => {
            Err(Error::input(format!("'{}' and '{}' both exist; keep one of them", plain.display(), array.display())))
        }
        (false, true) => Ok(Some(Found { path: array, array: true })),
        // A path that exists but is not a file, such as a dangling link, is refused when it is opened.
        (false, false) if array.symlink_metadata().is_ok() => Ok(Some(Found { path: array, array: true })),
        (false, false) if plain.symlink_metadata().is_err() => Ok(None),
        _ => Ok(Some(Found { path: plain, array: false })),
    }
}

/// Refuses directories that cannot be read, are empty, or contain files that belong to no tensor.
fn check_files(target: &Target<'_>, directory: &Path) -> Result<()> {
    let unreadable = |e| Error::input(format!("cannot read the input data directory '{}': {e}", directory.display()));
    let entries = std::fs::read_dir(directory).map_err(unreadable)?;
    let names =
        entries.map(|entry| Ok(entry?.file_name())).collect::<std::io::Result<Vec<OsString>>>().map_err(unreadable)?;
    if names.is_empty() {
        return Err(Error::input(format!(
            "the input data directory '{}' is empty; it needs a file for each input: {}",
            directory.display(),
            target.input_names()
        )));
    }
    let tensors = || target.model.inputs.iter().chain(&target.model.outputs);
    for name in names {
        let is_tensor = name.to_str().is_some_and(|name| {
            let bare = name.strip_suffix(".npy").unwrap_or(name);
            tensors().any(|tensor| {
                tensor.name == name || tensor.name == bare || tensor.name.starts_with(&format!("{name}/"))
            })
        });
        if !is_tensor {
            return Err(Error::input(format!(
                "Provided data file '{}' does not correspond to a valid model input or output. The model's inputs are {}",
                directory.join(&name).display(),
                target.input_names()
            )));
        }
    }
    Ok(())
}

struct Reader<'a> {
    target: &'a Target<'a>,
    /// Mapped files; they follow `memory`, which is region 0 of the corpus.
    regions: Vec<Region>,
    memory: RegionBuilder,
}

impl Reader<'_> {
    fn input(&mut self, index: usize, found: &Found) -> Result<Column<Value>> {
        let input = &self.target.model.inputs[index];
        let source = format!("file '{}'", found.path.display());
        let wrong = |message: String| Error::input(format!("{source}: {message} {}", location(0, 0)));
        if found.array {
            let column = self.array(index, &found.path, wrong)?;
            return Ok(Column { source, ..column });
        }
        let shape = Arc::clone(&self.target.shapes.inputs[index]);
        if shape.iter().any(|&dim| dim < 0) {
            return Err(open_shape(input).context(&source));
        }
        let value = if input.datatype == DataType::Bytes {
            let offset = self.memory.align()?;
            let got = read_lines(&found.path, &mut self.memory)?;
            check_elements(input, &shape, got).map_err(wrong)?;
            Value { region: 0, offset, len: self.memory.len() - offset, shape }
        } else {
            let check =
                |len| check_bytes(input, &shape, len).map_err(|rule| wrong(rule + &as_array(&found.path, input)));
            let file = self.map(&found.path, check)?;
            let len = file.len();
            self.regions.push(file);
            Value { region: self.regions.len(), offset: 0, len, shape }
        };
        Ok(Column { source, stepped: false, values: vec![value] })
    }

    /// The contents of a file whose length was `checked` and reserved before anything is read.
    fn map(&self, path: &Path, check: impl FnOnce(usize) -> Result<()>) -> Result<Region> {
        let (_, len) = open_regular(path)?;
        check(len)?;
        self.target
            .spec
            .memory
            .take(len as u64)
            .map_err(|error| error.context(format!("file '{}'", path.display())))?;
        Region::mapped(path)
    }

    fn array(&mut self, index: usize, path: &Path, wrong: impl Fn(String) -> Error + Copy) -> Result<Column<Value>> {
        let input = &self.target.model.inputs[index];
        let text = map_text(path)?;
        let array = npy::Array::new(input, &text).map_err(wrong)?;
        array.check_len(input, text.len()).map_err(wrong)?;
        let regions = npy::Regions { in_place: self.regions.len() + 1, converted: 0, memory: &mut self.memory };
        let column = npy::input_column(self.target, &array, &mut &text[array.data..], regions).map_err(wrong)?;
        if array.is_raw() {
            self.regions.push(self.map(path, |len| array.check_len(input, len).map_err(wrong))?);
        }
        Ok(column)
    }

    fn output(&mut self, index: usize, found: &Found) -> Result<Column<Arc<OutputValues>>> {
        let output = &self.target.model.outputs[index];
        let source = format!("file '{}'", found.path.display());
        let wrong = |message: String| Error::input(format!("{source}: {message} {}", location(0, 0)));
        if found.array {
            let file = map_text(&found.path)?;
            let array = npy::Array::new(output, &file).map_err(wrong)?;
            array.check_len(output, file.len()).map_err(wrong)?;
            let (steps, mut scratch) = (&mut &file[array.data..], RegionBuilder::within(self.target.spec.memory)?);
            let column = npy::output_column(self.target, index, &array, steps, &mut scratch).map_err(wrong)?;
            return Ok(Column { source, ..column });
        }
        let value = if output.datatype == DataType::Bytes {
            let mut memory = RegionBuilder::within(self.target.spec.memory)?;
            read_lines(&found.path, &mut memory)?;
            self.target.settle_output(index, None, memory.since(0).into())
        } else {
            self.target.settle_output(index, None, (&*map_text(&found.path)?).into())
        };
        let value = Arc::new(value.map_err(wrong)?);
        Ok(Column { source, stepped: false, values: vec![value] })
    }
}

fn check_bytes(input: &TensorSpec, shape: &[i64], got: usize) -> Result<(), String> {
    match extent(input, shape)?.1 {
        Some(expected) if got == 0 && expected > 0 => {
            Err(format!("file is empty; input {} takes {expected} bytes", input.name))
        }
        Some(expected) if expected != got => Err(format!(
            "provided data for input {} has byte size {got}, expect {expected} ({} of shape {})",
            input.name,
            input.datatype,
            super::shapes::bracketed(shape)
        )),
        _ => Ok(()),
    }
}

/// What to do with a file of another size than its tensor, if `numpy.save` wrote it: its header precedes the elements.
fn as_array(path: &Path, input: &TensorSpec) -> String {
    let mut begun = [0; npy::MAGIC.len()];
    let is_array = File::open(path).and_then(|mut file| file.read_exact(&mut begun)).is_ok() && begun == *npy::MAGIC;
    if is_array { format!("; it is a NumPy array: call it {}.npy", input.name) } else { String::new() }
}

fn check_elements(input: &TensorSpec, shape: &[i64], got: u64) -> Result<(), String> {
    let (expected, _) = extent(input, shape)?;
    match got {
        0 if expected > 0 => Err(format!("file is empty; input {} takes {expected} lines", input.name)),
        _ if got == expected => Ok(()),
        _ => Err(format!("provided data for input {} has {got} elements, expect {expected}, one per line", input.name)),
    }
}

/// Appends each line as an element and counts them. The last line may lack its end.
fn read_lines(path: &Path, memory: &mut RegionBuilder) -> Result<u64> {
    let text = map_text(path)?;
    let mut count = 0;
    for line in text.split_inclusive(|&byte| byte == b'\n') {
        strings::append(memory, line.strip_suffix(b"\n").unwrap_or(line))?;
        count += 1;
    }
    Ok(count)
}
