//! `.npz` archives, as `numpy.savez` and `savez_compressed` write them: an array per tensor, a stream per file.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};

use zip::ZipArchive;

use crate::data::columns::{Column, Columns};
use crate::data::npy::{self, Header};
use crate::data::steps::{Loaded, Target, in_file, location};
use crate::error::{Error, Result};
use crate::model::TensorSpec;
use crate::shm::{Region, RegionBuilder, open_regular};

/// How much is unpacked at once.
const CHUNK: usize = 1 << 16;

type Archive = ZipArchive<BufReader<File>>;

/// Reads archives, each a stream.
///
/// # Errors
/// Names file, array and the rule that is broken.
pub(crate) fn load(target: &Target<'_>, files: &[PathBuf]) -> Result<Loaded> {
    let mut loaded = Loaded::default();
    for path in files {
        let (file, _) = open_regular(path)?;
        let archive = ZipArchive::new(BufReader::new(file))
            .map_err(|e| Error::input(format!("{}: it is no .npz archive: {e}", in_file(path))))?;
        read_stream(target, path, archive, &mut loaded)?;
    }
    Ok(loaded)
}

fn read_stream(target: &Target<'_>, path: &Path, mut archive: Archive, loaded: &mut Loaded) -> Result<()> {
    let stream = loaded.streams.len();
    // Converted strings of this stream come first, so that their region's number is known; arrays follow.
    let converted = loaded.regions.len();
    let mut arrays = Vec::new();
    let (mut memory, mut scratch) = (RegionBuilder::new()?, RegionBuilder::new()?);
    let mut columns = Columns::new(target);
    for name in members(&archive, path)? {
        let tensor = tensor_of(&name);
        let source = format!("{}: array '{tensor}'", in_file(path));
        let wrong = |message: String| Error::input(format!("{source}: {message} {}", location(stream, 0)));
        let input = target.model.inputs.iter().position(|spec| spec.name == tensor);
        let output = target.model.outputs.iter().position(|spec| spec.name == tensor);
        if let Some(index) = input {
            let array = read_array(&mut archive, &name, &target.model.inputs[index]).map_err(wrong)?;
            let bytes = array.bytes(0, array.len())?;
            let place = (converted + 1 + arrays.len(), bytes.as_ref());
            let column = npy::input_column(target, index, place, (converted, &mut memory)).map_err(wrong)?;
            columns.inputs[index] = Some(Column { source, ..column });
            arrays.push(array);
        } else if let Some(index) = output {
            let array = read_array(&mut archive, &name, &target.model.outputs[index]).map_err(wrong)?;
            let column =
                npy::output_column(target, index, &array.bytes(0, array.len())?, &mut scratch).map_err(wrong)?;
            columns.outputs[index] = Some(Column { source, ..column });
        } else {
            let known = target.input_names();
            return Err(wrong(format!(
                "The input or output '{tensor}' is not found in the model configuration; expected {known}"
            )));
        }
    }
    for (spec, column) in target.model.inputs.iter().zip(&columns.inputs) {
        if column.is_none() && !spec.optional {
            return Err(Error::input(format!(
                "{}: missing tensor {} {}",
                in_file(path),
                spec.name,
                location(stream, 0)
            )));
        }
    }
    loaded.streams.push(columns.steps()?);
    loaded.regions.push(memory.finish());
    loaded.regions.append(&mut arrays);
    Ok(())
}

/// The tensor that a member is for: `numpy.savez` adds one `.npy` to its name.
fn tensor_of(member: &str) -> &str {
    member.strip_suffix(".npy").unwrap_or(member)
}

/// The archive's members, each for another tensor.
fn members(archive: &Archive, path: &Path) -> Result<Vec<String>> {
    let names: Vec<String> = archive
        .file_names()
        .map(|name| name.map(Cow::into_owned))
        .collect::<Result<_, _>>()
        .map_err(|e| Error::input(format!("{}: {e}", in_file(path))))?;
    let mut known = HashMap::new();
    for name in &names {
        if let Some(other) = known.insert(tensor_of(name), name) {
            return Err(Error::input(format!(
                "{}: '{other}' and '{name}' are both there; keep one of them",
                in_file(path)
            )));
        }
    }
    Ok(names)
}

/// Reads one array with its header, checking the size that the header promises before the bulk is read.
fn read_array(archive: &mut Archive, name: &str, tensor: &TensorSpec) -> Result<Region, String> {
    let mut entry = archive.by_name(name).map_err(|e| e.to_string())?;
    let declared = entry.size();
    let mut memory = RegionBuilder::new().map_err(|e| e.to_string())?;
    let mut buffer = vec![0; CHUNK];
    let mut copy = |memory: &mut RegionBuilder, until: usize| -> Result<(), String> {
        while memory.len() < until {
            match entry.read(&mut buffer).map_err(|e| format!("it cannot be unpacked: {e}"))? {
                0 => break,
                count => memory.write(&buffer[..count]).map_err(|e| e.to_string())?,
            }
        }
        Ok(())
    };
    copy(&mut memory, npy::LONGEST_HEADER)?;
    let expected = Header::parse(memory.since(0))?.file_len(tensor)?;
    if expected as u64 != declared {
        return Err(format!(
            "mismatch in the data provided for {}. Expected: {expected} bytes, Got: {declared} bytes, with the header",
            tensor.name
        ));
    }
    copy(&mut memory, expected.saturating_add(1))?;
    Ok(memory.finish())
}
