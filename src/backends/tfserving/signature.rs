//! Signatures, and the models made from them.

use crate::error::{Error, Result};
use crate::model::{DataType, ModelId, ModelSpec, TensorSpec};
use crate::plan::Plan;

/// Maximum tensors of a signature, inputs and outputs together.
pub const MAX_TENSORS: usize = 100_000;
/// Maximum dimensions of a tensor; TensorFlow has no more than 254.
pub const MAX_DIMS: usize = 254;
/// Maximum signatures named in a message.
const SHOWN: usize = 10;

/// A tensor of a signature, as described by the metadata.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tensor {
    /// Its name in requests and answers.
    pub name: String,
    /// Its type, or the name of one that has no counterpart here.
    pub datatype: Result<DataType, String>,
    /// Dimensions, -1 for an open one; `None` if even their number is open.
    pub dims: Option<Vec<i64>>,
}

/// A signature of a model.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Signature {
    /// The inputs of requests.
    pub inputs: Vec<Tensor>,
    /// The outputs in answers.
    pub outputs: Vec<Tensor>,
}

/// What a model's metadata says about one signature.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Metadata {
    /// The requested signature.
    pub signature: Option<Signature>,
    /// The names of all, as many as are shown.
    names: Vec<String>,
}

impl Metadata {
    /// Notes the name of a signature.
    pub fn note(&mut self, name: &str) {
        if self.names.len() <= SHOWN {
            self.names.push(name.to_owned());
        }
    }
}

/// What the user specifies about a model's tensors.
pub struct Wanted {
    signature: String,
    /// Whether the first dimension is the batch.
    batched: bool,
    batch_size: u64,
    shapes: Vec<(String, Vec<i64>)>,
}

impl Wanted {
    /// As in a plan.
    pub fn new(plan: &Plan) -> Self {
        Self {
            signature: plan.target.tfserving.signature.clone(),
            batched: plan.target.tfserving.batched,
            batch_size: plan.data.batch_size,
            shapes: plan.data.shapes.clone(),
        }
    }

    /// Signature `s`, in batches or not, and a shape for input `x`.
    #[cfg(fuzzing)]
    pub fn fuzzed(batched: bool) -> Self {
        Self { signature: "s".to_owned(), batched, batch_size: 2, shapes: vec![("x".to_owned(), vec![1, 2])] }
    }

    /// The signature that requests are for.
    pub fn signature(&self) -> &str {
        &self.signature
    }

    /// The model that the metadata describes.
    ///
    /// # Errors
    /// If they lack the signature, or it cannot be served as is asked for.
    pub fn model(&self, id: &ModelId, metadata: Metadata) -> Result<ModelSpec> {
        let Metadata { signature, mut names } = metadata;
        names.sort_unstable();
        let name = &self.signature;
        let signature = signature.ok_or_else(|| {
            let available =
                if names.is_empty() { "none".to_owned() } else { names[..names.len().min(SHOWN)].join(", ") };
            Error::input(format!(
                "model '{id}': Failed to find signature_name \"{name}\" in the metadata; there are: {available} \
                 (--model-signature-name)"
            ))
        })?;
        let Signature { mut inputs, mut outputs } = signature;
        // A map has no order.
        inputs.sort_by(|left, right| left.name.cmp(&right.name));
        outputs.sort_by(|left, right| left.name.cmp(&right.name));
        let inputs = inputs.into_iter().map(|input| self.input(id, input)).collect::<Result<_>>()?;
        let outputs = outputs.into_iter().filter_map(|output| self.output(output)).collect();
        let max_batch_size = if self.batched { self.batch_size } else { 0 };
        Ok(ModelSpec { max_batch_size, ..ModelSpec::plain(id, inputs, outputs) })
    }

    fn input(&self, id: &ModelId, Tensor { name, datatype, dims }: Tensor) -> Result<TensorSpec> {
        let refuse = |why: &str| Err(Error::input(format!("model '{id}', input '{name}': {why}")));
        let datatype = match datatype {
            Ok(datatype) => datatype,
            Err(other) => return refuse(&format!("unsupported datatype encountered {other}")),
        };
        let shape = match (self.batched, dims) {
            (false, Some(dims)) => dims,
            (false, None) => match self.shapes.iter().rfind(|(input, _)| *input == name) {
                Some((_, shape)) => shape.clone(),
                None => return refuse(&format!("the signature leaves its rank open: add --shape {name}:DIM,…")),
            },
            (true, Some(dims)) if dims.first() == Some(&-1) => dims[1..].to_vec(),
            (true, Some(_)) => {
                return refuse("Can not specify -b flag for saved model with input not having their first dim as -1");
            }
            (true, None) => return refuse("Can not specify -b flag for saved model with unknown ranked inputs"),
        };
        Ok(TensorSpec::plain(name, datatype, shape))
    }

    /// The model that answers are checked against; none if there is nothing to check.
    fn output(&self, Tensor { name, datatype, dims }: Tensor) -> Option<TensorSpec> {
        let (datatype, dims) = (datatype.ok()?, dims?);
        let is_batched = self.batched && dims.first() == Some(&-1);
        let shape = dims[usize::from(is_batched)..].to_vec();
        Some(TensorSpec { shape_tensor: self.batched && !is_batched, ..TensorSpec::plain(name, datatype, shape) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(batch: Option<u64>) -> Wanted {
        Wanted {
            signature: "serving_default".to_owned(),
            batched: batch.is_some(),
            batch_size: batch.unwrap_or(1),
            shapes: vec![("free".to_owned(), vec![2, 3])],
        }
    }

    fn tensor(name: &str, dims: Option<&[i64]>) -> Tensor {
        Tensor { name: name.to_owned(), datatype: Ok(DataType::Fp32), dims: dims.map(<[i64]>::to_vec) }
    }

    fn model(batch: Option<u64>, inputs: Vec<Tensor>) -> Result<ModelSpec> {
        let outputs = vec![tensor("y", Some(&[-1, 4])), tensor("fixed", Some(&[7])), tensor("any", None)];
        let metadata = Metadata { signature: Some(Signature { inputs, outputs }), names: Vec::new() };
        wanted(batch).model(&ModelId::latest("m"), metadata)
    }

    #[test]
    fn the_batch_dimension_is_only_where_it_is_asked_for() {
        let spec = model(None, vec![tensor("x", Some(&[-1, 4])), tensor("a", Some(&[]))]).unwrap();
        let shapes: Vec<_> = spec.inputs.iter().map(|input| (input.name.as_str(), &input.shape[..])).collect();
        assert_eq!(shapes, [("a", &[][..]), ("x", &[-1, 4])]);
        assert_eq!((spec.max_batch_size, &spec.outputs[1].shape[..]), (0, &[-1, 4][..]));
        let spec = model(Some(3), vec![tensor("x", Some(&[-1, 4]))]).unwrap();
        assert_eq!((spec.max_batch_size, &spec.inputs[0].shape[..]), (3, &[4][..]));
        let outputs: Vec<_> = spec.outputs.iter().map(|output| (&output.shape[..], output.shape_tensor)).collect();
        assert_eq!(outputs, [(&[7][..], true), (&[4], false)], "those without rank are not described");
    }

    #[test]
    fn what_cannot_be_batched_is_said_in_upstreams_words() {
        for dims in [Some(&[2, 4][..]), Some(&[]), None] {
            let error = model(Some(1), vec![tensor("x", dims)]).unwrap_err().to_string();
            let words = match dims {
                Some(_) => "Can not specify -b flag for saved model with input not having their first dim as -1",
                None => "Can not specify -b flag for saved model with unknown ranked inputs",
            };
            assert!(error.contains(words) && error.contains("input 'x'"), "{error}");
        }
    }

    #[test]
    fn a_rank_that_is_open_is_the_users_to_say() {
        assert_eq!(model(None, vec![tensor("free", None)]).unwrap().inputs[0].shape, [2, 3]);
        assert!(model(None, vec![tensor("x", None)]).unwrap_err().to_string().contains("--shape x:DIM"));
    }

    #[test]
    fn signatures_that_are_not_there_and_types_that_are_not_ours_are_named() {
        let mut metadata = Metadata::default();
        ["other", "train"].iter().for_each(|name| metadata.note(name));
        let error = wanted(None).model(&ModelId::latest("m"), metadata).unwrap_err().to_string();
        assert!(error.contains("Failed to find signature_name \"serving_default\" in the metadata"), "{error}");
        assert!(error.contains("other, train"), "{error}");
        let odd = Tensor { datatype: Err("DT_VARIANT".to_owned()), ..tensor("x", Some(&[1])) };
        let error = model(None, vec![odd]).unwrap_err().to_string();
        assert!(error.contains("unsupported datatype encountered DT_VARIANT"), "{error}");
    }
}
