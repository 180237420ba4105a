//! Tensor element types, as named and numbered by the KServe v2 protocol and Triton's C API.

use std::fmt;

/// Element type of a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum DataType {
    Bool,
    Uint8,
    Uint16,
    Uint32,
    Uint64,
    Int8,
    Int16,
    Int32,
    Int64,
    Fp16,
    Fp32,
    Fp64,
    /// Variable-size elements, each a little-endian 32-bit length and that many bytes.
    Bytes,
    Bf16,
    /// JSON documents, packed as [`DataType::Bytes`] are. Not a type of the protocol: services whose requests are JSON
    /// use it.
    Json,
}

/// Every type of the protocol in the order of its C API number, which starts at 1.
const ALL: [(DataType, &str, Option<usize>); 14] = [
    (DataType::Bool, "BOOL", Some(1)),
    (DataType::Uint8, "UINT8", Some(1)),
    (DataType::Uint16, "UINT16", Some(2)),
    (DataType::Uint32, "UINT32", Some(4)),
    (DataType::Uint64, "UINT64", Some(8)),
    (DataType::Int8, "INT8", Some(1)),
    (DataType::Int16, "INT16", Some(2)),
    (DataType::Int32, "INT32", Some(4)),
    (DataType::Int64, "INT64", Some(8)),
    (DataType::Fp16, "FP16", Some(2)),
    (DataType::Fp32, "FP32", Some(4)),
    (DataType::Fp64, "FP64", Some(8)),
    (DataType::Bytes, "BYTES", None),
    (DataType::Bf16, "BF16", Some(2)),
];

impl DataType {
    /// Number of this type in `TRITONSERVER_DataType` and in the model configuration; 0 if it has none.
    pub fn code(self) -> u32 {
        ALL.iter().position(|entry| entry.0 == self).map_or(0, |index| index as u32 + 1)
    }

    /// The type of a `TRITONSERVER_DataType` number; `None` for 0 (invalid) and unknown numbers.
    pub fn from_code(code: u32) -> Option<Self> {
        ALL.get(code.checked_sub(1)? as usize).map(|entry| entry.0)
    }

    /// The protocol's name, such as `FP32`.
    pub fn name(self) -> &'static str {
        self.entry().map_or("JSON", |entry| entry.1)
    }

    /// Reads a protocol name (`FP32`) or a configuration name (`TYPE_FP32`, where BYTES is `TYPE_STRING`).
    pub fn parse(name: &str) -> Option<Self> {
        let bare = name.strip_prefix("TYPE_").unwrap_or(name);
        if bare == "STRING" {
            return Some(Self::Bytes);
        }
        ALL.iter().find(|entry| entry.1 == bare).map(|entry| entry.0)
    }

    /// Bytes of one element; `None` for [`DataType::Bytes`] and [`DataType::Json`].
    pub fn size(self) -> Option<usize> {
        self.entry()?.2
    }

    fn entry(self) -> Option<&'static (Self, &'static str, Option<usize>)> {
        ALL.iter().find(|entry| entry.0 == self)
    }

    /// All types of the protocol, in the order of their numbers.
    pub fn all() -> impl Iterator<Item = Self> {
        ALL.iter().map(|entry| entry.0)
    }
}

impl fmt::Display for DataType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_codes_round_trip() {
        for dtype in DataType::all() {
            assert_eq!(DataType::from_code(dtype.code()), Some(dtype));
            assert_eq!(DataType::parse(dtype.name()), Some(dtype));
        }
        assert_eq!(DataType::parse("TYPE_STRING"), Some(DataType::Bytes));
        assert_eq!(DataType::from_code(0), None);
        assert_eq!(DataType::from_code(15), None);
        assert_eq!(DataType::Bf16.code(), 14);
        assert_eq!((DataType::Json.code(), DataType::Json.name(), DataType::Json.size()), (0, "JSON", None));
        assert_eq!(DataType::parse("JSON"), None, "no server of tensors has it");
    }
}
