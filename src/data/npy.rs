//! NumPy's `.npy` format: the header, and how an array becomes steps of a tensor.
//!
//! An array of the tensor's own rank is one step; with one dimension more in front, that one counts steps. Data are used
//! in place wherever NumPy's element type is the tensor's own; fixed-width strings become BYTES.

use std::sync::Arc;

use crate::data::columns::Column;
use crate::data::shapes;
use crate::data::steps::{Target, Value, extent};
use crate::data::{OutputValues, strings};
use crate::model::{DataType, TensorSpec};
use crate::shm::RegionBuilder;

/// Longest header that is believed.
const MAX_HEADER: usize = 1 << 20;

/// So many bytes of a file hold its whole header.
pub(super) const LONGEST_HEADER: usize = MAX_HEADER + 12;

/// What the header of an array says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// Type of the elements, such as `<f4`.
    pub descr: String,
    /// Dimensions.
    pub shape: Vec<i64>,
    /// Where in the file the elements start.
    pub data: usize,
}

impl Header {
    /// Reads the header at the beginning of a file.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(file: &[u8]) -> Result<Self, String> {
        let rest = file.strip_prefix(b"\x93NUMPY").ok_or("it is no .npy array: its first bytes are not \\x93NUMPY")?;
        let cut_off = "its header is cut off";
        let (length, start) = match rest.get(..2).ok_or(cut_off)? {
            [1, _] => {
                let bytes = rest.get(2..4).and_then(|bytes| bytes.try_into().ok()).ok_or(cut_off)?;
                (usize::from(u16::from_le_bytes(bytes)), 10)
            }
            [2 | 3, _] => {
                let bytes = rest.get(2..6).and_then(|bytes| bytes.try_into().ok()).ok_or(cut_off)?;
                (u32::from_le_bytes(bytes) as usize, 12)
            }
            [major, minor] => {
                return Err(format!("its format version {major}.{minor} is unknown; save it with a recent NumPy"));
            }
            _ => return Err(cut_off.to_owned()),
        };
        if length > MAX_HEADER {
            return Err(format!("its header of {length} bytes is longer than {MAX_HEADER}"));
        }
        let text = file.get(start..start + length).ok_or(cut_off)?;
        let text = std::str::from_utf8(text).map_err(|_| "its header is not UTF-8")?;
        let fields = Fields::parse(text).ok_or_else(|| format!("its header is malformed: {}", text.trim_end()))?;
        if fields.fortran_order {
            return Err("it is stored column by column; save numpy.ascontiguousarray(x) instead".to_owned());
        }
        Ok(Self { descr: fields.descr, shape: fields.shape, data: start + length })
    }

    /// How elements are to be read for a tensor of `datatype`.
    fn encoding(&self, datatype: DataType) -> Result<Encoding, String> {
        let (order, kind) = self.descr.split_at(self.descr.find(|byte: char| byte.is_ascii_alphabetic()).unwrap_or(0));
        let wanted = match datatype {
            DataType::Bool => "b1",
            DataType::Uint8 => "u1",
            DataType::Uint16 => "u2",
            DataType::Uint32 => "u4",
            DataType::Uint64 => "u8",
            DataType::Int8 => "i1",
            DataType::Int16 => "i2",
            DataType::Int32 => "i4",
            DataType::Int64 => "i8",
            DataType::Fp16 => "f2",
            DataType::Fp32 => "f4",
            DataType::Fp64 => "f8",
            DataType::Bf16 => "V2",
            DataType::Bytes => "S",
        };
        let width = || kind[1..].parse::<usize>().ok().filter(|width| (1..1 << 30).contains(width));
        match (datatype, kind.chars().next()) {
            _ if order == ">" => Err(format!("its elements '{}' are big-endian; save x.astype('<{kind}')", self.descr)),
            (DataType::Bytes, Some('S')) => width().map(Encoding::Narrow).ok_or_else(|| self.unfit(datatype, wanted)),
            (DataType::Bytes, Some('U')) => width().map(Encoding::Wide).ok_or_else(|| self.unfit(datatype, wanted)),
            (DataType::Bf16, _) if kind == "u2" => Ok(Encoding::Raw),
            _ if kind == wanted => Ok(Encoding::Raw),
            _ => Err(self.unfit(datatype, wanted)),
        }
    }

    fn unfit(&self, datatype: DataType, wanted: &str) -> String {
        let hint = match datatype {
            DataType::Bytes => "strings (dtype S or U; object arrays are not read)".to_owned(),
            DataType::Bf16 => "ml_dtypes.bfloat16, or its bits as uint16".to_owned(),
            _ => format!("dtype '{wanted}'"),
        };
        format!("its elements are '{}', but {datatype} is expected: save it with {hint}", self.descr)
    }

    /// The shape of one step, and the number of steps where there is a dimension for them.
    fn steps(&self, tensor: &TensorSpec) -> Result<(Vec<i64>, Option<usize>), String> {
        if shapes::fits(&self.shape, &tensor.shape) {
            return Ok((self.shape.clone(), None));
        }
        match self.shape.split_first() {
            Some((&0, shape)) if shapes::fits(shape, &tensor.shape) => Err("it has no steps".to_owned()),
            // They would take no memory, so any number of them could be claimed.
            Some((_, shape)) if shapes::fits(shape, &tensor.shape) && shape.contains(&0) => {
                Err("its steps hold no elements".to_owned())
            }
            Some((&count, shape)) if shapes::fits(shape, &tensor.shape) => {
                let count = usize::try_from(count).map_err(|_| "it has too many steps")?;
                Ok((shape.to_vec(), Some(count)))
            }
            _ => Err(format!(
                "its shape is {}, but {}'s shape is {}; one dimension more in front counts steps",
                shapes::bracketed(&self.shape),
                tensor.name,
                shapes::bracketed(&tensor.shape)
            )),
        }
    }

    /// Bytes that the whole file must have.
    pub(super) fn file_len(&self, tensor: &TensorSpec) -> Result<usize, String> {
        let width = match self.encoding(tensor.datatype)? {
            Encoding::Raw => tensor.datatype.size().unwrap_or(1),
            Encoding::Narrow(width) => width,
            Encoding::Wide(width) => width * 4,
        };
        let elements = shapes::elements(&self.shape).ok_or("its shape overflows")?;
        let bytes = shapes::bytes(elements, width).ok_or("its shape overflows")?;
        self.data.checked_add(bytes).ok_or_else(|| "its shape overflows".to_owned())
    }
}

/// How the elements of an array become those of a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Encoding {
    /// Used as they are.
    Raw,
    /// Byte strings padded with NUL to this many bytes.
    Narrow(usize),
    /// Strings padded with NUL to this many 32-bit characters.
    Wide(usize),
}

/// The array's steps as values of input `index`. `bytes` are those of region number `region` of the corpus; strings are
/// converted into `memory`, region number `converted`.
///
/// # Errors
/// What does not fit.
pub(crate) fn input_column(
    target: &Target<'_>,
    index: usize,
    (region, bytes): (usize, &[u8]),
    (converted, memory): (usize, &mut RegionBuilder),
) -> Result<Column<Value>, String> {
    let input = &target.model.inputs[index];
    let array = Array::read(input, bytes)?;
    let mut values = Vec::with_capacity(array.count().min(1 << 20));
    for step in 0..array.count() {
        let value = match array.raw(step) {
            Some((offset, len)) => Value { region, offset, len, shape: Arc::clone(&array.shape) },
            None => {
                let offset = memory.align().map_err(|e| e.to_string())?;
                array.convert(step, memory)?;
                Value { region: converted, offset, len: memory.len() - offset, shape: Arc::clone(&array.shape) }
            }
        };
        values.push(value);
    }
    Ok(Column { source: String::new(), stepped: array.steps.is_some(), values })
}

/// The array's steps as expected values of output `index`. What `scratch` holds is lost.
///
/// # Errors
/// What does not fit.
pub(crate) fn output_column(
    target: &Target<'_>,
    index: usize,
    bytes: &[u8],
    scratch: &mut RegionBuilder,
) -> Result<Column<Arc<OutputValues>>, String> {
    let output = &target.model.outputs[index];
    let array = Array::read(output, bytes)?;
    let mut values = Vec::new();
    for step in 0..array.count() {
        scratch.truncate(0);
        let element = match array.raw(step) {
            Some((offset, len)) => &bytes[offset..offset + len],
            None => {
                array.convert(step, scratch)?;
                scratch.since(0)
            }
        };
        values.push(Arc::new(target.settle_output(index, Some(&array.shape), element)?));
    }
    Ok(Column { source: String::new(), stepped: array.steps.is_some(), values })
}

/// An array that fits its tensor.
struct Array<'a> {
    file: &'a [u8],
    data: usize,
    encoding: Encoding,
    /// Shape of one step.
    shape: Arc<[i64]>,
    steps: Option<usize>,
    /// Elements of one step.
    elements: usize,
    /// Bytes of one element in the file.
    width: usize,
}

impl<'a> Array<'a> {
    fn read(tensor: &TensorSpec, file: &'a [u8]) -> Result<Self, String> {
        let header = Header::parse(file)?;
        let encoding = header.encoding(tensor.datatype)?;
        let (shape, steps) = header.steps(tensor)?;
        let (elements, _) = extent(tensor, &shape)?;
        let expected = header.file_len(tensor)?;
        if expected != file.len() {
            return Err(format!(
                "mismatch in the data provided for {}. Expected: {} bytes, Got: {} bytes after the header; the file is cut \
                 off or has been written to",
                tensor.name,
                expected - header.data,
                file.len() - header.data
            ));
        }
        let width = match encoding {
            Encoding::Raw => tensor.datatype.size().unwrap_or(1),
            Encoding::Narrow(width) => width,
            Encoding::Wide(width) => width * 4,
        };
        let elements = usize::try_from(elements).map_err(|_| "its shape overflows")?;
        Ok(Self { file, data: header.data, encoding, shape: shape.into(), steps, elements, width })
    }

    fn count(&self) -> usize {
        self.steps.unwrap_or(1)
    }

    /// Offset and length of a step that is used in place.
    fn raw(&self, step: usize) -> Option<(usize, usize)> {
        let len = self.elements * self.width;
        (self.encoding == Encoding::Raw).then_some((self.data + step * len, len))
    }

    /// Appends a step of strings as BYTES.
    fn convert(&self, step: usize, memory: &mut RegionBuilder) -> Result<(), String> {
        let start = self.data + step * self.elements * self.width;
        for index in 0..self.elements {
            let at = start + index * self.width;
            let element = &self.file[at..at + self.width];
            let text = match self.encoding {
                Encoding::Wide(_) => {
                    wide(element).ok_or_else(|| format!("its string {index} of step {step} is no Unicode"))?
                }
                _ => element.to_vec(),
            };
            let end = text.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
            strings::append(memory, &text[..end]).map_err(|e| e.to_string())?;
        }
        Ok(())
    }
}

/// Little-endian 32-bit characters as UTF-8.
fn wide(element: &[u8]) -> Option<Vec<u8>> {
    let characters = element.as_chunks::<4>().0.iter().map(|&bytes| char::from_u32(u32::from_le_bytes(bytes)));
    characters.collect::<Option<String>>().map(String::into_bytes)
}

/// The members of the header's Python dictionary.
struct Fields {
    descr: String,
    fortran_order: bool,
    shape: Vec<i64>,
}

impl Fields {
    fn parse(text: &str) -> Option<Self> {
        let mut text = Literal(text.trim_end());
        let (mut descr, mut fortran_order, mut shape) = (None, None, None);
        text.take('{')?;
        while !text.ends('}') {
            let key = text.string()?;
            text.take(':')?;
            match key {
                "descr" => descr = Some(text.string()?.to_owned()),
                "fortran_order" => fortran_order = Some(text.boolean()?),
                "shape" => shape = Some(text.tuple()?),
                _ => return None,
            }
            if !text.ends(',') && !text.0.trim_start().starts_with('}') {
                return None;
            }
        }
        let whole = text.0.trim().is_empty();
        Some(Self { descr: descr?, fortran_order: fortran_order?, shape: shape? }).filter(|_| whole)
    }
}

/// The rest of a Python literal.
struct Literal<'a>(&'a str);

impl<'a> Literal<'a> {
    fn ends(&mut self, sign: char) -> bool {
        self.take(sign).is_some()
    }

    fn take(&mut self, sign: char) -> Option<()> {
        self.0 = self.0.trim_start().strip_prefix(sign)?;
        Some(())
    }

    fn string(&mut self) -> Option<&'a str> {
        let text = self.0.trim_start();
        let quote = text.chars().next().filter(|&sign| sign == '\'' || sign == '"')?;
        let (string, rest) = text[1..].split_once(quote)?;
        self.0 = rest;
        Some(string)
    }

    fn boolean(&mut self) -> Option<bool> {
        let text = self.0.trim_start();
        for (word, value) in [("True", true), ("False", false)] {
            if let Some(rest) = text.strip_prefix(word) {
                self.0 = rest;
                return Some(value);
            }
        }
        None
    }

    fn tuple(&mut self) -> Option<Vec<i64>> {
        self.take('(')?;
        let (inside, rest) = self.0.split_once(')')?;
        self.0 = rest;
        let mut items: Vec<_> = inside.split(',').map(str::trim).collect();
        if items.last().is_some_and(|last| last.is_empty()) {
            items.pop();
        }
        items.into_iter().map(|item| item.trim_end_matches('L').parse().ok().filter(|&dim: &i64| dim >= 0)).collect()
    }
}
