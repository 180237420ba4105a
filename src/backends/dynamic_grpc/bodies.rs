//! [`Bodies`]: the bytes of each payload's calls, made once.

use bytes::Bytes;

use crate::data::{InputTensor, Payload, string_elements};
use crate::dynamic_grpc::schema::Schema;
use crate::dynamic_grpc::{generator, schema};
use crate::engine::calls::put_message;
use crate::error::{Error, Result};
use crate::plan::Compression;
use crate::wire::grpc::PREFIX_LEN;

/// The bytes of each payload's calls: their messages, each with gRPC's prefix, one after the other.
pub struct Bodies(Vec<Bytes>);

impl Bodies {
    /// Runs the commands of the steps and encodes their JSON.
    ///
    /// # Errors
    /// If a step has no message; it is named.
    pub fn make(payloads: &[Payload], schema: Option<&Schema>, compression: Compression) -> Result<Self> {
        let body = |payload: &Payload| {
            let named = |why: String| {
                Error::input(format!("--input-data: stream {}, step {}: {why}", payload.stream, payload.step))
            };
            let messages = messages(payload, schema).map_err(named)?;
            let mut body = Vec::with_capacity(messages.iter().map(|message| PREFIX_LEN + message.len()).sum());
            for message in &messages {
                put_message(&mut body, compression, std::iter::once(&message[..]))?;
            }
            Ok(Bytes::from(body))
        };
        payloads.iter().map(body).collect::<Result<_>>().map(Self)
    }

    /// The bytes of a call with the payload of that index.
    #[inline]
    pub fn get(&self, payload: usize) -> &Bytes {
        &self.0[payload]
    }
}

/// The messages of a step.
fn messages(payload: &Payload, schema: Option<&Schema>) -> Result<Vec<Vec<u8>>, String> {
    let input = |name: &str| payload.inputs.iter().find(|input| &*input.name == name);
    match (input(schema::INPUT), input(generator::INPUT), schema) {
        (Some(json), None, Some(schema)) => {
            let messages = elements(json)?.iter().map(|json| schema.encode(json)).collect::<Result<Vec<_>, _>>()?;
            if messages.is_empty() { Err(format!("{} holds no message", schema::INPUT)) } else { Ok(messages) }
        }
        (None, Some(command), _) => {
            let commands = elements(command)?;
            let command = commands.first().map(|command| String::from_utf8_lossy(command));
            generator::messages(command.as_deref().unwrap_or_default())
        }
        (Some(_), Some(_), _) => Err(format!("it has both {} and {}", schema::INPUT, generator::INPUT)),
        _ => Err(format!("it has neither {} nor {}", schema::INPUT, generator::INPUT)),
    }
}

fn elements(input: &InputTensor) -> Result<Vec<Vec<u8>>, String> {
    let bytes = input.region.bytes(input.offset, input.len).map_err(|error| error.to_string())?;
    let elements = string_elements(&bytes).map(|element| element.map(<[u8]>::to_vec));
    elements.collect::<Result<_, _>>().map_err(|at| format!("input '{}' is cut off at byte {at}", input.name))
}
