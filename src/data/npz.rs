//! `.npz` archives, as written by `numpy.savez` and `savez_compressed`: an array per tensor, a stream per file.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use zip::ZipArchive;
use zip::read::ZipFile;

use crate::columns::{Column, Columns};
use crate::error::{Error, Result};
use crate::model::TensorSpec;
use crate::npy::{self, Array, Steps};
use crate::shm::{Allowance, Region, RegionBuilder, open_regular};
use crate::steps::{Loaded, Target, in_file, location};

/// Bytes unpacked at a time.
const CHUNK: usize = 1 << 16;

type Archive = ZipArchive<BufReader<File>>;

/// Reads archives, each a stream.
///
/// # Errors
/// Names file, array and the broken rule.
pub(crate) fn load(target: &Target<'_>, files: &[PathBuf]) -> Result<Loaded> {
    let mut loaded = Loaded::default();
    for path in files {
        let (file, _) = open_regular(path)?;
        let archive = ZipArchive::new(BufReader::new(file))
            .map_err(|e| Error::input(format!("{}: it is not a .npz archive: {e}", in_file(path))))?;
        read_stream(target, path, archive, &mut loaded)?;
    }
    Ok(loaded)
}

fn read_stream(target: &Target<'_>, path: &Path, mut archive: Archive, loaded: &mut Loaded) -> Result<()> {
    let stream = loaded.streams.len();
    // Converted strings of this stream come first, so that their region's number is known; arrays follow.
    let converted = loaded.regions.len();
    let mut arrays = Vec::new();
    let mut memory = RegionBuilder::within(target.spec.memory)?;
    let mut scratch = RegionBuilder::within(target.spec.memory)?;
    let mut columns = Columns::new(target);
    let names = members(&archive, path)?;
    check_size(target, &mut archive, &names).map_err(|error| error.context(in_file(path)))?;
    for name in names {
        let tensor = tensor_of(&name);
        let source = format!("{}: array '{tensor}'", in_file(path));
        let wrong = |message: String| Error::input(format!("{source}: {message} {}", location(stream, 0)));
        if let Some(index) = position(&target.model.inputs, tensor) {
            let mut member = Member::open(&mut archive, &name, &target.model.inputs[index]).map_err(wrong)?;
            let region = converted + 1 + arrays.len();
            if member.array.is_raw() {
                arrays.push(member.whole(target.spec.memory).map_err(wrong)?);
            }
            let (array, steps) = member.steps(target.spec.memory);
            let column = npy::input_column(
                target,
                array,
                steps,
                npy::Regions { in_place: region, converted, memory: &mut memory },
            );
            let column = column.and_then(|column| member.end().map(|()| column)).map_err(wrong)?;
            columns.inputs[index] = Some(Column { source, ..column });
        } else if let Some(index) = position(&target.model.outputs, tensor) {
            let mut member = Member::open(&mut archive, &name, &target.model.outputs[index]).map_err(wrong)?;
            let (array, steps) = member.steps(target.spec.memory);
            let column = npy::output_column(target, index, array, steps, &mut scratch);
            let column = column.and_then(|column| member.end().map(|()| column)).map_err(wrong)?;
            columns.outputs[index] = Some(Column { source, ..column });
        } else {
            let input_names = target.input_names();
            return Err(wrong(format!(
                "The input or output '{tensor}' is not found in the model configuration; expected {input_names}"
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
    loaded.streams.push(columns.steps(target)?);
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
    let mut names_by_tensor = HashMap::new();
    for name in &names {
        if let Some(other) = names_by_tensor.insert(tensor_of(name), name) {
            return Err(Error::input(format!(
                "{}: '{other}' and '{name}' both exist; keep one of them",
                in_file(path)
            )));
        }
    }
    Ok(names)
}

fn position(tensors: &[TensorSpec], name: &str) -> Option<usize> {
    tensors.iter().position(|spec| spec.name == name)
}

/// Adds up the sizes of the arrays by their own headers, before most of any is read.
fn check_size(target: &Target<'_>, archive: &mut Archive, names: &[String]) -> Result<()> {
    let mut total = 0_u64;
    for name in names {
        let tensors = target.model.inputs.iter().chain(&target.model.outputs);
        let spec = tensors.into_iter().find(|spec| spec.name == tensor_of(name));
        // Errors in an array are reported when it is read; strings take less than is counted here.
        if let Some(Ok(member)) = spec.map(|spec| Member::open(archive, name, spec))
            && member.array.is_raw()
        {
            total = total.saturating_add(member.array.file_len as u64);
        }
    }
    target.spec.memory.check(total)
}

/// One array of an archive, whose header has been read.
struct Member<'a> {
    tensor: &'a TensorSpec,
    array: Array,
    unpacked: Unpacked<'a>,
}

/// The source that an array is unpacked from: neither its size in the archive nor that in its header is trusted.
struct Unpacked<'a> {
    /// The beginning, which was unpacked for the header, and how much of it has been consumed.
    head: (Vec<u8>, usize),
    entry: ZipFile<'a, BufReader<File>>,
    memory: Option<&'a Allowance>,
}

impl<'a> Member<'a> {
    fn open(archive: &'a mut Archive, name: &str, tensor: &'a TensorSpec) -> Result<Self, String> {
        let mut entry = archive.by_name(name).map_err(|e| e.to_string())?;
        let declared = entry.size();
        let mut head = Vec::new();
        entry.by_ref().take(npy::LONGEST_HEADER as u64).read_to_end(&mut head).map_err(unpackable)?;
        let array = Array::new(tensor, &head)?;
        let expected = array.file_len;
        if expected as u64 != declared {
            return Err(format!(
                "mismatch in the data provided for {}. Expected: {expected} bytes, Got: {declared} bytes, with the header",
                tensor.name
            ));
        }
        let head = (head, array.data);
        Ok(Self { tensor, array, unpacked: Unpacked { head, entry, memory: None } })
    }

    /// Reads the whole file, including its header, into its own region.
    fn whole(&mut self, memory: &Arc<Allowance>) -> Result<Region, String> {
        let mut region = RegionBuilder::within(memory).map_err(|e| e.to_string())?;
        self.unpacked.head.1 = 0;
        let mut buffer = vec![0; CHUNK];
        while region.len() < self.array.file_len {
            let capacity = CHUNK.min(self.array.file_len - region.len());
            match self.unpacked.read(&mut buffer[..capacity]).map_err(unpackable)? {
                0 => break,
                count => region.write(&buffer[..count]).map_err(|e| e.to_string())?,
            }
        }
        self.array.check_len(self.tensor, region.len())?;
        Ok(region.finish())
    }

    /// The array and its steps, each of which must fit into memory.
    fn steps(&mut self, memory: &'a Allowance) -> (&Array, &mut dyn Steps) {
        self.unpacked.memory = Some(memory);
        (&self.array, &mut self.unpacked)
    }

    /// Checks that nothing follows the array.
    fn end(&mut self) -> Result<(), String> {
        match self.unpacked.read(&mut [0]).map_err(unpackable)? {
            0 => Ok(()),
            _ => self.array.check_len(self.tensor, self.array.file_len + 1),
        }
    }
}

impl Read for Unpacked<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let (head, taken) = &mut self.head;
        match (&head[*taken..]).read(buffer)? {
            0 => self.entry.read(buffer),
            count => {
                *taken += count;
                Ok(count)
            }
        }
    }
}

impl Steps for Unpacked<'_> {
    fn next(&mut self, len: usize) -> Result<Cow<'_, [u8]>, String> {
        self.memory.map_or(Ok(()), |memory| memory.check(len as u64)).map_err(|e| e.to_string())?;
        let mut step = Vec::new();
        self.take(len as u64).read_to_end(&mut step).map_err(unpackable)?;
        if step.len() == len { Ok(step.into()) } else { Err(npy::CUT_OFF.to_owned()) }
    }
}

fn unpackable(error: io::Error) -> String {
    format!("it cannot be unpacked: {error}")
}
