//! `InferTensorContents`: elements in typed fields, sent by servers without raw contents.

use crate::model::DataType;
use crate::wire::protobuf::{Fields, Value, take_varint};

/// The field for elements of a type; `None` for types without one.
fn field_of(datatype: DataType) -> Option<u32> {
    match datatype {
        DataType::Bool => Some(1),
        DataType::Int8 | DataType::Int16 | DataType::Int32 => Some(2),
        DataType::Int64 => Some(3),
        DataType::Uint8 | DataType::Uint16 | DataType::Uint32 => Some(4),
        DataType::Uint64 => Some(5),
        DataType::Fp32 => Some(6),
        DataType::Fp64 => Some(7),
        DataType::Bytes => Some(8),
        DataType::Fp16 | DataType::Bf16 | DataType::Json => None,
    }
}

/// Appends the elements of `contents` in the layout of a tensor of that type: packed, little-endian. `None` if they are
/// not of that type, or there are none.
pub fn pack(out: &mut Vec<u8>, datatype: DataType, contents: &[u8]) -> Option<()> {
    let wanted = field_of(datatype)?;
    let mut fields = Fields::new(contents);
    let mut found = false;
    for (field, value) in fields.by_ref() {
        if field != wanted {
            continue;
        }
        found = true;
        match (datatype, value) {
            (DataType::Bytes, Value::Bytes(element)) => {
                out.extend_from_slice(&u32::try_from(element.len()).ok()?.to_le_bytes());
                out.extend_from_slice(element);
            }
            // Fixed-size elements have the same layout in the message as in a tensor.
            (DataType::Fp32 | DataType::Fp64, Value::Bytes(packed)) => out.extend_from_slice(packed),
            (DataType::Fp32, Value::Fixed(bits)) => out.extend_from_slice(&(bits as u32).to_le_bytes()),
            (DataType::Fp64, Value::Fixed(bits)) => out.extend_from_slice(&bits.to_le_bytes()),
            (_, Value::Number(number)) => put(out, datatype, number)?,
            (_, Value::Bytes(mut packed)) => {
                while !packed.is_empty() {
                    put(out, datatype, take_varint(&mut packed)?)?;
                }
            }
            _ => return None,
        }
    }
    (found && !fields.is_broken()).then_some(())
}

/// Appends an integer, which protocol buffers sign-extend to 64 bits.
fn put(out: &mut Vec<u8>, datatype: DataType, number: u64) -> Option<()> {
    let signed = number as i64;
    match datatype {
        DataType::Bool => out.push(u8::from(number != 0)),
        DataType::Int8 => out.push(i8::try_from(signed).ok()? as u8),
        DataType::Int16 => out.extend(i16::try_from(signed).ok()?.to_le_bytes()),
        DataType::Int32 => out.extend((signed as i32).to_le_bytes()),
        DataType::Int64 => out.extend(signed.to_le_bytes()),
        DataType::Uint8 => out.push(u8::try_from(number).ok()?),
        DataType::Uint16 => out.extend(u16::try_from(number).ok()?.to_le_bytes()),
        DataType::Uint32 => out.extend(u32::try_from(number).ok()?.to_le_bytes()),
        DataType::Uint64 => out.extend(number.to_le_bytes()),
        _ => return None,
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::protobuf::{put_bytes, put_number, put_varint};

    fn packed(datatype: DataType, contents: &[u8]) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        pack(&mut out, datatype, contents).map(|()| out)
    }

    /// Numbers one by one, and packed.
    fn both(field: u32, numbers: &[i64]) -> [Vec<u8>; 2] {
        let (mut single, mut list, mut whole) = (Vec::new(), Vec::new(), Vec::new());
        for &number in numbers {
            put_number(&mut single, field, number as u64);
            put_varint(&mut list, number as u64);
        }
        put_bytes(&mut whole, field, &list);
        [single, whole]
    }

    #[test]
    fn integers_of_every_width_are_packed() {
        for (datatype, field, bytes) in [
            (DataType::Bool, 1, vec![0, 1]),
            (DataType::Int8, 2, vec![0, 1]),
            (DataType::Int16, 2, vec![0, 0, 1, 0]),
            (DataType::Int32, 2, vec![0, 0, 0, 0, 1, 0, 0, 0]),
            (DataType::Int64, 3, [0_i64.to_le_bytes(), 1_i64.to_le_bytes()].concat()),
            (DataType::Uint8, 4, vec![0, 1]),
            (DataType::Uint16, 4, vec![0, 0, 1, 0]),
            (DataType::Uint32, 4, vec![0, 0, 0, 0, 1, 0, 0, 0]),
            (DataType::Uint64, 5, [0_u64.to_le_bytes(), 1_u64.to_le_bytes()].concat()),
        ] {
            for contents in both(field, &[0, 1]) {
                assert_eq!(packed(datatype, &contents), Some(bytes.clone()), "{datatype}");
                assert_eq!(packed(DataType::Fp16, &contents), None);
            }
        }
        for contents in both(2, &[-1]) {
            assert_eq!(packed(DataType::Int8, &contents), Some(vec![0xff]));
            assert_eq!(packed(DataType::Int32, &contents), Some(vec![0xff; 4]));
        }
        for contents in both(2, &[128]) {
            assert_eq!(packed(DataType::Int8, &contents), None, "it has no room for that");
        }
    }

    #[test]
    fn floats_and_strings_are_packed() {
        let value = 1.5_f32.to_le_bytes();
        let mut contents = Vec::new();
        put_bytes(&mut contents, 6, &[value, value].concat());
        contents.extend_from_slice(&[6 << 3 | 5]);
        contents.extend_from_slice(&value);
        assert_eq!(packed(DataType::Fp32, &contents), Some([value, value, value].concat()));
        let mut contents = Vec::new();
        put_bytes(&mut contents, 8, b"ab");
        put_bytes(&mut contents, 8, b"");
        assert_eq!(packed(DataType::Bytes, &contents), Some(b"\x02\0\0\0ab\0\0\0\0".to_vec()));
        assert_eq!(packed(DataType::Fp64, &contents), None, "those are others");
        assert_eq!(packed(DataType::Bytes, &contents[..3]), None, "it breaks off");
        assert_eq!(packed(DataType::Int64, &[3 << 3 | 2, 1, 0x80]), None, "a number breaks off");
    }
}
