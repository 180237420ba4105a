//! TensorFlow's `DataType`, and ours.

use crate::model::DataType;

/// Number, name and our type, of the types supported here.
const KNOWN: [(u32, &str, DataType); 14] = [
    (1, "DT_FLOAT", DataType::Fp32),
    (2, "DT_DOUBLE", DataType::Fp64),
    (3, "DT_INT32", DataType::Int32),
    (4, "DT_UINT8", DataType::Uint8),
    (5, "DT_INT16", DataType::Int16),
    (6, "DT_INT8", DataType::Int8),
    (7, "DT_STRING", DataType::Bytes),
    (9, "DT_INT64", DataType::Int64),
    (10, "DT_BOOL", DataType::Bool),
    (14, "DT_BFLOAT16", DataType::Bf16),
    (17, "DT_UINT16", DataType::Uint16),
    (19, "DT_HALF", DataType::Fp16),
    (22, "DT_UINT32", DataType::Uint32),
    (23, "DT_UINT64", DataType::Uint64),
];

/// Names of the numbers of types that models have but requests cannot carry.
const UNSUPPORTED: [(u32, &str); 9] = [
    (0, "DT_INVALID"),
    (8, "DT_COMPLEX64"),
    (11, "DT_QINT8"),
    (12, "DT_QUINT8"),
    (13, "DT_QINT32"),
    (15, "DT_QINT16"),
    (18, "DT_COMPLEX128"),
    (20, "DT_RESOURCE"),
    (21, "DT_VARIANT"),
];

/// Our type for a number.
///
/// # Errors
/// The type's name, if there is none.
pub fn of_number(number: u64) -> Result<DataType, String> {
    let entry = KNOWN.iter().find(|entry| u64::from(entry.0) == number);
    entry.map(|entry| entry.2).ok_or_else(|| {
        let named = UNSUPPORTED.iter().find(|other| u64::from(other.0) == number);
        named.map_or_else(|| format!("DT_{number}"), |other| other.1.to_owned())
    })
}

/// Our type for a name.
///
/// # Errors
/// The name itself, if there is none.
pub fn of_name(name: &str) -> Result<DataType, String> {
    KNOWN.iter().find(|entry| entry.1 == name).map(|entry| entry.2).ok_or_else(|| name.to_owned())
}

/// The number for our type.
pub fn number(datatype: DataType) -> u32 {
    KNOWN.iter().find(|entry| entry.2 == datatype).map_or(0, |entry| entry.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_of_ours_has_a_number() {
        for datatype in DataType::all() {
            assert_eq!(of_number(u64::from(number(datatype))), Ok(datatype));
        }
        assert_eq!(of_number(20), Err("DT_RESOURCE".to_owned()));
        assert_eq!(of_number(1 << 40), Err(format!("DT_{}", 1_u64 << 40)));
        assert_eq!((of_name("DT_HALF"), of_name("DT_VARIANT")), (Ok(DataType::Fp16), Err("DT_VARIANT".to_owned())));
    }
}
