//! One tensor in JSON: an array, or an object of content and shape.

use crate::json::elements::{read_array, read_base64, read_document};
use crate::json::lexer::{Fault, Kind, Lexer};
use crate::model::{DataType, TensorSpec};
use crate::shm::RegionBuilder;
use crate::strings;

/// Maximum number of dimensions.
const MAX_RANK: usize = 64;

/// Appends the bytes of a tensor and returns the shape that it states, if any.
pub(super) fn read_tensor(
    lexer: &mut Lexer<'_>,
    spec: &TensorSpec,
    out: &mut RegionBuilder,
) -> Result<Option<Vec<i64>>, Fault> {
    let named = |fault: Fault| Fault { message: format!("tensor {}: {}", spec.name, fault.message), ..fault };
    // If there may be any number of documents, a list gives them all, and a single one may stand alone.
    let documents = spec.datatype == DataType::Json && spec.shape.iter().any(|dim| *dim < 0);
    match lexer.peek()? {
        Kind::Array if documents => {
            read_array(lexer, spec.datatype, out).map(|count| Some(vec![count as i64])).map_err(named)
        }
        // Some documents are single values, such as protobuf's wrappers and times.
        Kind::Object | Kind::Text | Kind::Number | Kind::Bool if documents => {
            read_document(lexer, out).map(|()| Some(vec![1])).map_err(named)
        }
        // A string counts as a list of one.
        Kind::Text if spec.datatype == DataType::Bytes => {
            let text = lexer.string()?;
            let appended = strings::append(out, text.as_bytes());
            appended.map(|()| None).map_err(|error| named(lexer.breach(error.to_string())))
        }
        Kind::Array => read_array(lexer, spec.datatype, out).map(|_| None).map_err(named),
        Kind::Object => members(lexer, spec, out).map_err(named),
        kind => Err(named(unsupported(lexer, kind))),
    }
}

fn members(lexer: &mut Lexer<'_>, spec: &TensorSpec, out: &mut RegionBuilder) -> Result<Option<Vec<i64>>, Fault> {
    lexer.enter();
    let (mut first, mut filled, mut shape) = (true, false, None);
    while lexer.more(b'}', &mut first)? {
        let at = lexer.offset();
        let key = lexer.key()?;
        match key.as_ref() {
            "content" | "b64" if filled => return Err(Fault::rule(at, "its values are given twice")),
            "content" => content(lexer, spec, out)?,
            "b64" => base64(lexer, out)?,
            "shape" if shape.is_some() => return Err(Fault::rule(at, "its shape is given twice")),
            "shape" => shape = Some(dimensions(lexer)?),
            other => lexer.pass_over(other, "content, b64, shape")?,
        }
        filled |= key == "content" || key == "b64";
    }
    if filled { Ok(shape) } else { Err(lexer.breach("missing content field.")) }
}

fn content(lexer: &mut Lexer<'_>, spec: &TensorSpec, out: &mut RegionBuilder) -> Result<(), Fault> {
    match lexer.peek()? {
        Kind::Array => read_array(lexer, spec.datatype, out).map(drop),
        Kind::Object => {
            lexer.enter();
            let (mut first, mut filled) = (true, false);
            while lexer.more(b'}', &mut first)? {
                let at = lexer.offset();
                let key = lexer.key()?;
                match key.as_ref() {
                    "b64" if filled => return Err(Fault::rule(at, "its values are given twice")),
                    "b64" => {
                        base64(lexer, out)?;
                        filled = true;
                    }
                    other => lexer.pass_over(other, "b64")?,
                }
            }
            if filled { Ok(()) } else { Err(lexer.breach("missing b64 field in the content")) }
        }
        kind => Err(unsupported(lexer, kind)),
    }
}

fn base64(lexer: &mut Lexer<'_>, out: &mut RegionBuilder) -> Result<(), Fault> {
    let kind = lexer.peek()?;
    let at = lexer.offset();
    if kind != Kind::Text {
        return Err(Fault::rule(at, format!("the value of b64 field should be of type string, got {}", kind.name())));
    }
    let text = lexer.string()?;
    read_base64(&text, out).map_err(|message| Fault::rule(at, message))
}

fn dimensions(lexer: &mut Lexer<'_>) -> Result<Vec<i64>, Fault> {
    if lexer.peek()? != Kind::Array {
        return Err(lexer.breach("shape values must be integers, in an array"));
    }
    lexer.enter();
    let (mut first, mut shape) = (true, Vec::new());
    while lexer.more(b']', &mut first)? {
        let at = lexer.offset();
        let dim = match lexer.peek()? {
            Kind::Number => lexer.number()?.parse::<i64>().ok().filter(|&dim| dim >= 0),
            _ => None,
        };
        shape.push(dim.ok_or_else(|| Fault::rule(at, "shape values must be integers, and not negative"))?);
        if shape.len() > MAX_RANK {
            return Err(Fault::rule(at, format!("a shape has at most {MAX_RANK} dimensions")));
        }
    }
    Ok(shape)
}

fn unsupported(lexer: &Lexer<'_>, kind: Kind) -> Fault {
    lexer.breach(format!("The tensor values are not supported. Expected an array or b64 string, got {}", kind.name()))
}
