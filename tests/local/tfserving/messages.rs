//! TensorFlow Serving messages, as a server writes and reads them: by the published field numbers, independent of our
//! code.

/// A varint.
pub fn varint(mut value: u64) -> Vec<u8> {
    let mut out = Vec::new();
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
    out
}

/// A field that is a number.
pub fn number(field: u32, value: u64) -> Vec<u8> {
    [varint(u64::from(field << 3)), varint(value)].concat()
}

/// A field of bytes.
pub fn bytes(field: u32, content: &[u8]) -> Vec<u8> {
    [&varint(u64::from(field << 3 | 2)), &varint(content.len() as u64), content].concat()
}

fn entry(field: u32, key: &str, value: &[u8]) -> Vec<u8> {
    bytes(field, &[bytes(1, key.as_bytes()), bytes(2, value)].concat())
}

/// A `TensorShapeProto`; of unknown rank where there are no dimensions.
pub fn shape(dims: Option<&[i64]>) -> Vec<u8> {
    match dims {
        Some(dims) => dims.iter().flat_map(|&dim| bytes(2, &number(1, dim as u64))).collect(),
        None => number(3, 1),
    }
}

/// Name, number of the type, dimensions.
pub type Info<'a> = (&'a str, u64, Option<&'a [i64]>);

/// A `GetModelMetadataResponse` with one signature.
pub fn metadata(signature: &str, inputs: &[Info<'_>], outputs: &[Info<'_>]) -> Vec<u8> {
    let info = |&(name, dtype, dims): &Info<'_>| {
        [bytes(1, format!("{name}:0").as_bytes()), number(2, dtype), bytes(3, &shape(dims))].concat()
    };
    let mut definition = Vec::new();
    inputs.iter().for_each(|input| definition.extend(entry(1, input.0, &info(input))));
    outputs.iter().for_each(|output| definition.extend(entry(2, output.0, &info(output))));
    definition.extend(bytes(3, b"tensorflow/serving/predict"));
    let other = entry(1, "__saved_model_init_op", &bytes(3, b""));
    let map = [other, entry(1, signature, &definition)].concat();
    let any = [bytes(1, b"type.googleapis.com/tensorflow.serving.SignatureDefMap"), bytes(2, &map)].concat();
    [bytes(1, &bytes(1, b"m")), entry(2, "signature_def", &any)].concat()
}

/// A `GetModelStatusResponse` of one version.
pub fn status(version: u64, state: u64, reason: &str) -> Vec<u8> {
    let status = if reason.is_empty() { Vec::new() } else { [number(1, 2), bytes(2, reason.as_bytes())].concat() };
    bytes(1, &[number(1, version), number(2, state), bytes(3, &status)].concat())
}

/// That version 1 answers.
pub fn available() -> Vec<u8> {
    status(1, 30, "")
}

/// A `PredictResponse` with these outputs, each a `TensorProto`.
pub fn response(outputs: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let outputs: Vec<u8> = outputs.iter().flat_map(|(name, tensor)| entry(1, name, tensor)).collect();
    [outputs, bytes(2, &bytes(1, b"m"))].concat()
}

/// A `TensorProto` of which `values` are the fields that hold elements.
pub fn tensor(dtype: u64, dims: &[i64], values: &[u8]) -> Vec<u8> {
    [number(1, dtype), bytes(2, &shape(Some(dims))), values.to_vec()].concat()
}

/// The field of that number, wherever it comes first.
pub fn find(mut message: &[u8], field: u32) -> Option<Vec<u8>> {
    while !message.is_empty() {
        let tag = take(&mut message);
        let content = match tag & 7 {
            0 => {
                let value = take(&mut message);
                varint(value)
            }
            2 => {
                let (content, tail) = {
                    let length = take(&mut message) as usize;
                    message.split_at(length)
                };
                message = tail;
                content.to_vec()
            }
            kind => panic!("wire type {kind}"),
        };
        if tag >> 3 == u64::from(field) {
            return Some(content);
        }
    }
    None
}

fn take(message: &mut &[u8]) -> u64 {
    let mut value = 0;
    for shift in (0..).step_by(7) {
        let byte = message[0];
        *message = &message[1..];
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            break;
        }
    }
    value
}
