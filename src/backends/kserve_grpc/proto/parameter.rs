//! `InferParameter`, the typed values in requests' parameter maps.

use crate::backend::ParameterValue;
use crate::wire::protobuf::{put_bytes, put_double, put_number, put_prefix, varint_len};

/// Appends an entry of a map from string to `InferParameter`.
pub fn put_parameter(out: &mut Vec<u8>, field: u32, name: &str, value: &ParameterValue) {
    let length = match value {
        ParameterValue::Bool(_) => 2,
        ParameterValue::Int(number) => 1 + varint_len(*number as u64),
        ParameterValue::Uint(number) => 1 + varint_len(*number),
        ParameterValue::Double(_) => 9,
        ParameterValue::Text(text) => 1 + varint_len(text.len() as u64) + text.len(),
    };
    let name_len = 1 + varint_len(name.len() as u64) + name.len();
    put_prefix(out, field, name_len + 1 + varint_len(length as u64) + length);
    put_bytes(out, 1, name.as_bytes());
    put_prefix(out, 2, length);
    match value {
        ParameterValue::Bool(flag) => put_number(out, 1, u64::from(*flag)),
        ParameterValue::Int(number) => put_number(out, 2, *number as u64),
        ParameterValue::Text(text) => put_bytes(out, 3, text.as_bytes()),
        ParameterValue::Double(number) => put_double(out, 4, *number),
        ParameterValue::Uint(number) => put_number(out, 5, *number),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::protobuf::{Fields, Value};

    #[test]
    fn every_type_of_value_is_read_back() {
        let cases = [
            (ParameterValue::Bool(true), 1, Value::Number(1)),
            (ParameterValue::Int(-1), 2, Value::Number(u64::MAX)),
            (ParameterValue::Text("x".to_owned()), 3, Value::Bytes(b"x")),
            (ParameterValue::Double(0.5), 4, Value::Fixed(0.5_f64.to_bits())),
            (ParameterValue::Uint(300), 5, Value::Number(300)),
        ];
        for (value, field, expected) in cases {
            let mut out = Vec::new();
            put_parameter(&mut out, 4, "name", &value);
            let entry = Fields::new(&out).next().unwrap().1.bytes().unwrap();
            let parts: Vec<_> = Fields::new(entry).collect();
            assert_eq!(parts[0], (1, Value::Bytes(b"name")));
            let value = Fields::new(parts[1].1.bytes().unwrap()).next().unwrap();
            assert_eq!(value, (field, expected));
        }
    }
}
