//! Messages of `tensorflow.serving`, by their published field numbers (`apis/*.proto` of TensorFlow Serving): those that are sent,
//! and what metadata and status say.

use crate::model::ModelId;
use crate::tfserving::datatype;
use crate::tfserving::signature::{MAX_DIMS, MAX_TENSORS, Metadata, Signature, Tensor};
use crate::wire::protobuf::{Fields, Value, each, malformed, nested, put_bytes, put_number, put_prefix, varint_len};

/// State of an available version.
const AVAILABLE: u64 = 30;
/// Names of the states by tens.
const STATES: [&str; 6] = ["UNKNOWN", "START", "LOADING", "AVAILABLE", "UNLOADING", "END"];
/// Key and type of the metadata with signatures.
const SIGNATURES: &[u8] = b"signature_def";

/// `ModelSpec`: which model, version and signature.
pub fn model_spec(id: &ModelId, label: Option<&str>, signature: Option<&str>) -> Vec<u8> {
    let mut spec = Vec::new();
    put_bytes(&mut spec, 1, id.name.as_bytes());
    if let Some(version) = id.version {
        put_prefix(&mut spec, 2, 1 + varint_len(version));
        put_number(&mut spec, 1, version);
    }
    if let Some(signature) = signature {
        put_bytes(&mut spec, 3, signature.as_bytes());
    }
    if let (Some(label), None) = (label, id.version) {
        put_bytes(&mut spec, 4, label.as_bytes());
    }
    spec
}

/// `GetModelStatusRequest`.
pub fn status_request(model_spec: &[u8]) -> Vec<u8> {
    let mut message = Vec::new();
    put_bytes(&mut message, 1, model_spec);
    message
}

/// `GetModelMetadataRequest` for the signatures.
pub fn metadata_request(model_spec: &[u8]) -> Vec<u8> {
    let mut message = status_request(model_spec);
    put_bytes(&mut message, 2, SIGNATURES);
    message
}

/// Reads a `GetModelStatusResponse`: nothing if a version is available, else the versions' states.
///
/// # Errors
/// What is wrong with the message, to follow "the server's answer".
pub fn unavailable(message: &[u8]) -> Result<Option<String>, String> {
    let mut states = Vec::new();
    let mut fields = Fields::new(message);
    for (field, value) in fields.by_ref() {
        let (1, Some(version)) = (field, value.bytes()) else { continue };
        let (mut number, mut state, mut reason) = (0, 0, None);
        for (field, value) in Fields::new(version) {
            match (field, value) {
                (1, Value::Number(value)) => number = value,
                (2, Value::Number(value)) => state = value,
                (3, Value::Bytes(status)) => reason = Fields::new(status).find(|field| field.0 == 2),
                _ => {}
            }
        }
        if state == AVAILABLE {
            return Ok(None);
        }
        if states.len() < 4 {
            let name = STATES.get((state / 10) as usize).filter(|_| state % 10 == 0).unwrap_or(&STATES[0]);
            let reason = reason.and_then(|(_, text)| text.text()).filter(|text| !text.is_empty());
            states.push(format!(
                "version {number} is {name}{}",
                reason.map_or(String::new(), |text| format!(", {text}"))
            ));
        }
    }
    if fields.is_broken() {
        return Err(malformed());
    }
    Ok(Some(if states.is_empty() { "it has no version".to_owned() } else { states.join("; ") }))
}

/// Reads the signature `wanted` from a `GetModelMetadataResponse`.
///
/// # Errors
/// As [`unavailable`].
pub fn metadata(message: &[u8], wanted: &str) -> Result<Metadata, String> {
    let mut metadata = Metadata::default();
    each(message, |field, value| {
        if field != 2 {
            return Ok(());
        }
        let (key, any) = entry(value)?;
        if key.as_bytes() != SIGNATURES {
            return Ok(());
        }
        each(any, |field, value| if field == 2 { signatures(value, wanted, &mut metadata) } else { Ok(()) })
    })?;
    Ok(metadata)
}

/// Reads a `SignatureDefMap`.
fn signatures(map: Value<'_>, wanted: &str, metadata: &mut Metadata) -> Result<(), String> {
    each(nested(map)?, |field, value| {
        if field != 1 {
            return Ok(());
        }
        let (name, signature) = entry(value)?;
        metadata.note(name);
        if name == wanted {
            metadata.signature = Some(self::signature(signature)?);
        }
        Ok(())
    })
}

/// Reads a `SignatureDef`.
fn signature(message: &[u8]) -> Result<Signature, String> {
    let mut signature = Signature::default();
    each(message, |field, value| {
        let list = match field {
            1 => &mut signature.inputs,
            2 => &mut signature.outputs,
            _ => return Ok(()),
        };
        if list.len() == MAX_TENSORS {
            return Err(format!("lists more than {MAX_TENSORS} tensors"));
        }
        let (name, info) = entry(value)?;
        list.push(tensor(name, info)?);
        Ok(())
    })?;
    Ok(signature)
}

/// Reads a `TensorInfo`.
fn tensor(name: &str, info: &[u8]) -> Result<Tensor, String> {
    let mut tensor = Tensor { name: name.to_owned(), datatype: datatype::of_number(0), dims: Some(Vec::new()) };
    each(info, |field, value| {
        match (field, value) {
            (2, Value::Number(number)) => tensor.datatype = datatype::of_number(number),
            (3, value) => tensor.dims = shape(nested(value)?)?,
            _ => {}
        }
        Ok(())
    })?;
    Ok(tensor)
}

/// Reads a `TensorShapeProto`; `None` if the rank is unknown.
///
/// # Errors
/// As [`unavailable`].
pub fn shape(message: &[u8]) -> Result<Option<Vec<i64>>, String> {
    let (mut dims, mut unknown) = (Vec::new(), false);
    each(message, |field, value| {
        match (field, value) {
            (2, _) if dims.len() == MAX_DIMS => {
                return Err(format!("has a tensor of more than {MAX_DIMS} dimensions"));
            }
            (2, value) => {
                let size = Fields::new(nested(value)?).filter(|field| field.0 == 1).last();
                // The format does not say what else than -1 marks open dimensions.
                dims.push(
                    size.map_or(0, |(_, size)| if let Value::Number(size) = size { size as i64 } else { 0 }).max(-1),
                );
            }
            (3, Value::Number(flag)) => unknown = flag != 0,
            _ => {}
        }
        Ok(())
    })?;
    Ok((!unknown).then_some(dims))
}

/// Key and message of an entry of a map.
///
/// # Errors
/// As [`unavailable`].
pub fn entry(value: Value<'_>) -> Result<(&str, &[u8]), String> {
    let (mut key, mut message) = ("", &[][..]);
    for (field, value) in Fields::new(nested(value)?) {
        match field {
            1 => key = value.text().ok_or_else(malformed)?,
            2 => message = nested(value)?,
            _ => {}
        }
    }
    Ok((key, message))
}
