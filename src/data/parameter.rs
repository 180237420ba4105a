//! Custom parameters of requests.

/// A custom request parameter.
#[derive(Clone, Debug, PartialEq)]
pub struct Parameter {
    /// Key.
    pub name: String,
    /// Typed value.
    pub value: ParameterValue,
}

/// Value of a request parameter.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)]
pub enum ParameterValue {
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    Text(String),
}
