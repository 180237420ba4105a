//! NumPy's `.npy` format: the header, and how an array becomes steps of a tensor.
//!
//! An array of the tensor's own rank is one step; an additional dimension in front counts steps. Data are used in place
//! if NumPy's element type is the tensor's own; fixed-width strings become BYTES.

use std::borrow::Cow;
use std::sync::Arc;

use crate::columns::Column;
use crate::literal::Fields;
use crate::model::{DataType, TensorSpec};
use crate::shapes;
use crate::shm::RegionBuilder;
use crate::steps::{Target, Value, extent};
use crate::{OutputValues, strings};

/// How an array begins.
pub(super) const MAGIC: &[u8; 6] = b"\x93NUMPY";

/// Longest header that is accepted.
const MAX_HEADER: usize = 1 << 20;

/// Bytes of strings converted at a time.
const PIECE: usize = 1 << 16;

/// The error of an array that ends too early.
pub(super) const CUT_OFF: &str = "it is cut off";

/// Bytes from the start of a file that contain its whole header.
pub(super) const LONGEST_HEADER: usize = MAX_HEADER + 12;

/// The header of an array.
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
        let tail = file.strip_prefix(MAGIC).ok_or("it is not a .npy array: its first bytes are not \\x93NUMPY")?;
        let cut_off = "its header is cut off";
        let (length, start) = match tail.get(..2).ok_or(cut_off)? {
            [1, _] => {
                let bytes = tail.get(2..4).and_then(|bytes| bytes.try_into().ok()).ok_or(cut_off)?;
                (usize::from(u16::from_le_bytes(bytes)), 10)
            }
            [2 | 3, _] => {
                let bytes = tail.get(2..6).and_then(|bytes| bytes.try_into().ok()).ok_or(cut_off)?;
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
            DataType::Bytes | DataType::Json => "S",
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

    /// The shape of one step, and the number of steps if there is a dimension for them.
    fn steps(&self, tensor: &TensorSpec) -> Result<(Vec<i64>, Option<usize>), String> {
        if shapes::fits(&self.shape, &tensor.shape) {
            return Ok((self.shape.clone(), None));
        }
        match self.shape.split_first() {
            Some((&0, shape)) if shapes::fits(shape, &tensor.shape) => Err("it has no steps".to_owned()),
            // They would take no memory, so a file could claim any number of them.
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

    /// Bytes that the whole file must have, with elements of `width` bytes.
    fn file_len(&self, width: usize) -> Result<usize, String> {
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

/// A source of an array's steps, one after the other.
pub(crate) trait Steps {
    /// The next `len` bytes.
    ///
    /// # Errors
    /// Why there are none.
    fn next(&mut self, len: usize) -> Result<Cow<'_, [u8]>, String>;
}

/// Steps of an array in memory.
impl Steps for &[u8] {
    fn next(&mut self, len: usize) -> Result<Cow<'_, [u8]>, String> {
        let (step, tail) = self.split_at_checked(len).ok_or(CUT_OFF)?;
        *self = tail;
        Ok(step.into())
    }
}

impl Encoding {
    /// Bytes of an element in the file.
    fn width(self, datatype: DataType) -> usize {
        match self {
            Self::Raw => datatype.size().unwrap_or(1),
            Self::Narrow(width) => width,
            Self::Wide(width) => width * 4,
        }
    }
}

/// The regions of the corpus that the values of a column come to lie in.
pub(crate) struct Regions<'a> {
    /// Number of the region with the file itself, for values that are used in place.
    pub in_place: usize,
    /// Number of the region that strings are converted into.
    pub converted: usize,
    /// Its memory.
    pub memory: &'a mut RegionBuilder,
}

/// The array's steps as values of an input.
///
/// # Errors
/// What does not fit.
pub(crate) fn input_column(
    target: &Target<'_>,
    array: &Array,
    steps: &mut dyn Steps,
    regions: Regions<'_>,
) -> Result<Column<Value>, String> {
    let Regions { in_place, converted, memory } = regions;
    array.take(target)?;
    target.check_steps(array.count()).map_err(|e| e.to_string())?;
    let mut values = Vec::with_capacity(array.count().min(1 << 20));
    for step in 0..array.count() {
        let value = if array.is_raw() {
            let len = array.step_len();
            Value { region: in_place, offset: array.data + step * len, len, shape: Arc::clone(&array.shape) }
        } else {
            let offset = memory.align().map_err(|e| e.to_string())?;
            array.convert(step, steps, memory)?;
            Value { region: converted, offset, len: memory.len() - offset, shape: Arc::clone(&array.shape) }
        };
        values.push(value);
    }
    Ok(Column { source: String::new(), stepped: array.steps.is_some(), values })
}

/// The array's steps as expected values of output `index`. The content of `scratch` is lost.
///
/// # Errors
/// What does not fit.
pub(crate) fn output_column(
    target: &Target<'_>,
    index: usize,
    array: &Array,
    steps: &mut dyn Steps,
    scratch: &mut RegionBuilder,
) -> Result<Column<Arc<OutputValues>>, String> {
    array.take(target)?;
    let mut values = Vec::new();
    for step in 0..array.count() {
        scratch.truncate(0);
        let element = if array.is_raw() {
            steps.next(array.step_len())?
        } else {
            array.convert(step, steps, scratch)?;
            scratch.since(0).into()
        };
        values.push(Arc::new(target.settle_output(index, Some(&array.shape), element)?));
    }
    Ok(Column { source: String::new(), stepped: array.steps.is_some(), values })
}

/// An array that fits its tensor, according to its header.
pub(crate) struct Array {
    /// Where in the file the elements start.
    pub data: usize,
    /// Bytes that the whole file must have.
    pub file_len: usize,
    encoding: Encoding,
    /// Shape of one step.
    shape: Arc<[i64]>,
    steps: Option<usize>,
    /// Elements of one step.
    elements: usize,
    /// Bytes of one element in the file.
    width: usize,
}

impl Array {
    /// The array whose file begins so.
    ///
    /// # Errors
    /// What does not fit.
    pub fn new(tensor: &TensorSpec, file: &[u8]) -> Result<Self, String> {
        let header = Header::parse(file)?;
        let encoding = header.encoding(tensor.datatype)?;
        let (shape, steps) = header.steps(tensor)?;
        let (elements, _) = extent(tensor, &shape)?;
        let elements = usize::try_from(elements).map_err(|_| "its shape overflows")?;
        let width = encoding.width(tensor.datatype);
        let file_len = header.file_len(width)?;
        Ok(Self { data: header.data, file_len, encoding, shape: shape.into(), steps, elements, width })
    }

    /// Checks that a file has the length that its header promises.
    ///
    /// # Errors
    /// If it has not.
    pub fn check_len(&self, tensor: &TensorSpec, got: usize) -> Result<(), String> {
        if got == self.file_len {
            return Ok(());
        }
        Err(format!(
            "mismatch in the data provided for {}. Expected: {} bytes, Got: {} bytes after the header; the file is cut \
             off or has been written to",
            tensor.name,
            self.file_len - self.data,
            got.saturating_sub(self.data)
        ))
    }

    /// Whether its elements are used in place.
    pub fn is_raw(&self) -> bool {
        self.encoding == Encoding::Raw
    }

    /// Reserves the memory for the list of its steps.
    fn take(&self, target: &Target<'_>) -> Result<(), String> {
        let list = (self.count() as u64).saturating_mul(size_of::<Value>() as u64);
        target.spec.memory.take(list).map_err(|e| e.to_string())
    }

    fn count(&self) -> usize {
        self.steps.unwrap_or(1)
    }

    /// Bytes of one step in the file.
    fn step_len(&self) -> usize {
        self.elements * self.width
    }

    /// Appends a step of strings as BYTES.
    fn convert(&self, step: usize, steps: &mut dyn Steps, memory: &mut RegionBuilder) -> Result<(), String> {
        let piece = (PIECE / self.width).max(1);
        for first in (0..self.elements).step_by(piece) {
            let bytes = steps.next(piece.min(self.elements - first) * self.width)?;
            for (index, element) in bytes.chunks_exact(self.width).enumerate() {
                let no_unicode = || format!("its string {} of step {step} is not Unicode", first + index);
                let text = match self.encoding {
                    Encoding::Wide(_) => Cow::Owned(wide(element).ok_or_else(no_unicode)?),
                    _ => Cow::Borrowed(element),
                };
                let end = text.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
                strings::append(memory, &text[..end]).map_err(|e| e.to_string())?;
            }
        }
        Ok(())
    }
}

/// Little-endian 32-bit characters as UTF-8.
fn wide(element: &[u8]) -> Option<Vec<u8>> {
    let characters = element.as_chunks::<4>().0.iter().map(|&bytes| char::from_u32(u32::from_le_bytes(bytes)));
    characters.collect::<Option<String>>().map(String::into_bytes)
}
