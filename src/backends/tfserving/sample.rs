//! Inputs for the tests of both protocols.

use std::sync::Arc;

use crate::data::InputTensor;
use crate::model::DataType;
use crate::shm::{Placement, Region};

/// An input with those elements.
pub(crate) fn input(name: &str, datatype: DataType, shape: &[i64], bytes: &[u8]) -> InputTensor {
    InputTensor {
        name: name.into(),
        datatype,
        shape: shape.into(),
        region: Arc::new(Region::filled(Placement::Pageable, bytes).unwrap().freeze()),
        offset: 0,
        len: bytes.len(),
    }
}
