//! Builds test messages field by field.

use crate::wire::protobuf::{put_bytes, put_number};

/// Fields of bytes.
pub fn message(fields: &[(u32, &[u8])]) -> Vec<u8> {
    let mut out = Vec::new();
    fields.iter().for_each(|(field, bytes)| put_bytes(&mut out, *field, bytes));
    out
}

/// Fields of whole numbers.
pub fn numbers(fields: &[(u32, u64)]) -> Vec<u8> {
    let mut out = Vec::new();
    fields.iter().for_each(|(field, number)| put_number(&mut out, *field, *number));
    out
}
