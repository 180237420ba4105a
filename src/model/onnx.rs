//! What an ONNX file says of its tensors. The numbers of the fields are those of the format's specification; of its messages
//! only what tells inputs, outputs and files beside the model is here, and everything else is skipped.

use prost::Message;

use crate::DataType;

/// Inputs, outputs and the files that hold the weights, if those are not inside.
#[derive(Debug, Default, PartialEq)]
pub struct OnnxModel {
    /// What a request brings.
    pub inputs: Vec<OnnxTensor>,
    /// What it is answered.
    pub outputs: Vec<OnnxTensor>,
    /// Names of files in the model's folder, each once.
    pub files: Vec<String>,
}

/// An input or an output.
#[derive(Clone, Debug, PartialEq)]
pub struct OnnxTensor {
    /// Its name.
    pub name: String,
    /// Its elements, or what it is instead of a tensor that Triton could carry.
    pub kind: Result<DataType, String>,
    /// Its dimensions; `None` if the file leaves their number open.
    pub shape: Option<Vec<OnnxDim>>,
}

/// A dimension.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OnnxDim {
    /// So many elements.
    Fixed(i64),
    /// Any number, under this name; dimensions of one name are equal. Empty where it has none.
    Open(String),
}

impl OnnxModel {
    /// Reads the bytes of a file.
    ///
    /// # Errors
    /// Why it is not an ONNX model.
    pub fn read(bytes: &[u8]) -> Result<Self, String> {
        let model = wire::Model::decode(bytes).map_err(|error| error.to_string())?;
        let graph = model.graph.ok_or("it has no graph")?;
        let weights = &graph.initializers;
        // Old files list weights among the inputs; only those without a value must be sent.
        let is_sent = |input: &&wire::ValueInfo| {
            !weights.iter().any(|weight| weight.name == input.name)
                && !graph.sparse_initializers.iter().any(|weight| weight.has_name(&input.name))
        };
        let mut files: Vec<String> = weights
            .iter()
            .flat_map(|weight| &weight.external_data)
            .filter(|entry| entry.key == "location")
            .map(|entry| entry.value.clone())
            .collect();
        files.sort();
        files.dedup();
        let model = Self {
            inputs: graph.inputs.iter().filter(is_sent).map(OnnxTensor::new).collect(),
            outputs: graph.outputs.iter().map(OnnxTensor::new).collect(),
            files,
        };
        // Other files may happen to be read as a message without anything in it.
        if model.outputs.is_empty() { Err("it has no outputs".to_owned()) } else { Ok(model) }
    }
}

impl OnnxTensor {
    fn new(value: &wire::ValueInfo) -> Self {
        use wire::Kind;
        let kind = value.value_type.as_ref().and_then(|value_type| value_type.kind.as_ref());
        let name = value.name.clone();
        let other =
            |description: &str| Self { name: name.clone(), kind: Err(format!("is {description}")), shape: None };
        let tensor = match kind {
            Some(Kind::Tensor(tensor)) => tensor,
            Some(Kind::Sequence(_)) => return other("a sequence"),
            Some(Kind::Map(_)) => return other("a map"),
            Some(Kind::Optional(_)) => return other("an optional value"),
            Some(Kind::Sparse(_)) => return other("a sparse tensor"),
            None => return other("of no known type"),
        };
        let kind = data_type(tensor.elements).ok_or_else(|| format!("has elements of ONNX type {}", tensor.elements));
        let shape = tensor.shape.as_ref().map(|shape| shape.dims.iter().map(OnnxDim::new).collect());
        Self { name, kind, shape }
    }
}

impl OnnxDim {
    fn new(dim: &wire::Dim) -> Self {
        match &dim.value {
            // Exporters write 0 and negative numbers for what is open.
            Some(wire::DimValue::Number(number)) if *number > 0 => Self::Fixed(*number),
            Some(wire::DimValue::Name(name)) => Self::Open(name.clone()),
            _ => Self::Open(String::new()),
        }
    }
}

/// The type of a tensor by its number in the format, if Triton has it.
fn data_type(number: i32) -> Option<DataType> {
    Some(match number {
        1 => DataType::Fp32,
        2 => DataType::Uint8,
        3 => DataType::Int8,
        4 => DataType::Uint16,
        5 => DataType::Int16,
        6 => DataType::Int32,
        7 => DataType::Int64,
        8 => DataType::Bytes,
        9 => DataType::Bool,
        10 => DataType::Fp16,
        11 => DataType::Fp64,
        12 => DataType::Uint32,
        13 => DataType::Uint64,
        16 => DataType::Bf16,
        _ => return None,
    })
}

/// The messages, as far as they are read.
pub(super) mod wire {
    use prost::{Message, Oneof};

    #[derive(Clone, PartialEq, Message)]
    pub struct Model {
        #[prost(message, optional, tag = "7")]
        pub graph: Option<Graph>,
    }

    #[derive(Clone, PartialEq, Message)]
    pub struct Graph {
        #[prost(message, repeated, tag = "5")]
        pub initializers: Vec<Weight>,
        #[prost(message, repeated, tag = "11")]
        pub inputs: Vec<ValueInfo>,
        #[prost(message, repeated, tag = "12")]
        pub outputs: Vec<ValueInfo>,
        #[prost(message, repeated, tag = "15")]
        pub sparse_initializers: Vec<SparseWeight>,
    }

    #[derive(Clone, PartialEq, Message)]
    pub struct Weight {
        #[prost(string, tag = "8")]
        pub name: String,
        #[prost(message, repeated, tag = "13")]
        pub external_data: Vec<Entry>,
    }

    #[derive(Clone, PartialEq, Message)]
    pub struct SparseWeight {
        #[prost(message, optional, tag = "1")]
        pub values: Option<Weight>,
    }

    impl SparseWeight {
        pub fn has_name(&self, name: &str) -> bool {
            self.values.as_ref().is_some_and(|values| values.name == name)
        }
    }

    #[derive(Clone, PartialEq, Message)]
    pub struct Entry {
        #[prost(string, tag = "1")]
        pub key: String,
        #[prost(string, tag = "2")]
        pub value: String,
    }

    #[derive(Clone, PartialEq, Message)]
    pub struct ValueInfo {
        #[prost(string, tag = "1")]
        pub name: String,
        #[prost(message, optional, tag = "2")]
        pub value_type: Option<Type>,
    }

    #[derive(Clone, PartialEq, Message)]
    pub struct Type {
        #[prost(oneof = "Kind", tags = "1, 4, 5, 8, 9")]
        pub kind: Option<Kind>,
    }

    #[derive(Clone, PartialEq, Oneof)]
    pub enum Kind {
        #[prost(message, tag = "1")]
        Tensor(Tensor),
        #[prost(message, tag = "4")]
        Sequence(Unread),
        #[prost(message, tag = "5")]
        Map(Unread),
        #[prost(message, tag = "8")]
        Sparse(Unread),
        #[prost(message, tag = "9")]
        Optional(Unread),
    }

    #[derive(Clone, PartialEq, Message)]
    pub struct Unread {}

    #[derive(Clone, PartialEq, Message)]
    pub struct Tensor {
        #[prost(int32, tag = "1")]
        pub elements: i32,
        #[prost(message, optional, tag = "2")]
        pub shape: Option<Shape>,
    }

    #[derive(Clone, PartialEq, Message)]
    pub struct Shape {
        #[prost(message, repeated, tag = "1")]
        pub dims: Vec<Dim>,
    }

    #[derive(Clone, PartialEq, Message)]
    pub struct Dim {
        #[prost(oneof = "DimValue", tags = "1, 2")]
        pub value: Option<DimValue>,
    }

    #[derive(Clone, PartialEq, Oneof)]
    pub enum DimValue {
        #[prost(int64, tag = "1")]
        Number(i64),
        #[prost(string, tag = "2")]
        Name(String),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dim(value: wire::DimValue) -> wire::Dim {
        wire::Dim { value: Some(value) }
    }

    fn tensor(name: &str, elements: i32, dims: Vec<wire::Dim>) -> wire::ValueInfo {
        let kind = wire::Kind::Tensor(wire::Tensor { elements, shape: Some(wire::Shape { dims }) });
        wire::ValueInfo { name: name.to_owned(), value_type: Some(wire::Type { kind: Some(kind) }) }
    }

    #[test]
    fn what_must_be_sent_is_told_from_weights() {
        let named = |value: &str| wire::DimValue::Name(value.to_owned());
        let location = wire::Entry { key: "location".to_owned(), value: "weights.bin".to_owned() };
        let weight = wire::Weight { name: "w".to_owned(), external_data: vec![location] };
        let map = wire::Type { kind: Some(wire::Kind::Map(wire::Unread {})) };
        let graph = wire::Graph {
            initializers: vec![weight.clone(), wire::Weight { name: "v".to_owned(), ..weight }],
            inputs: vec![
                tensor("x", 1, vec![dim(named("N")), dim(wire::DimValue::Number(3)), dim(wire::DimValue::Number(-1))]),
                tensor("w", 1, vec![]),
            ],
            outputs: vec![tensor("y", 14, vec![]), wire::ValueInfo { name: "z".to_owned(), value_type: Some(map) }],
            sparse_initializers: Vec::new(),
        };
        let model = OnnxModel::read(&wire::Model { graph: Some(graph) }.encode_to_vec()).unwrap();
        assert_eq!(model.files, ["weights.bin"]);
        let [x] = &model.inputs[..] else { panic!("{:?}", model.inputs) };
        assert_eq!((x.name.as_str(), &x.kind), ("x", &Ok(DataType::Fp32)));
        let open = |name: &str| OnnxDim::Open(name.to_owned());
        assert_eq!(x.shape, Some(vec![open("N"), OnnxDim::Fixed(3), open("")]));
        assert_eq!(model.outputs[0].kind, Err("has elements of ONNX type 14".to_owned()));
        assert_eq!(model.outputs[1].kind, Err("is a map".to_owned()));
    }

    #[test]
    fn what_is_no_model_is_refused() {
        for bytes in [&b""[..], b"not a model", b"\x3a\x00", &[0xff; 40]] {
            assert!(OnnxModel::read(bytes).is_err(), "{bytes:?}");
        }
    }
}
