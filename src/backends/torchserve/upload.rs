//! Files as requests: read once, framed as forms.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::io::{IoSlice, Read as _};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use crate::backend::Request;
use crate::data::Payload;
use crate::engine::http1::{Headers, write_length};
use crate::engine::serial::{self, SLICES};
use crate::engine::{Endpoint, escape_path};
use crate::error::{Error, Result};
use crate::model::{ModelId, ModelSpec};
use crate::shm::{Allowance, open_regular};
use crate::torchserve::INPUT;
use crate::wire::COPY_LIMIT;

/// How predictions are asked for.
pub struct Way {
    /// Where.
    pub endpoint: Endpoint,
    /// The user's header fields.
    pub headers: Headers,
    /// `-x` if it is not a number.
    pub version: Option<String>,
}

impl Way {
    /// The requested version of a model, as the server writes it.
    pub fn version_of(&self, id: &ModelId) -> Option<String> {
        id.version.map(|version| version.to_string()).or_else(|| self.version.clone())
    }

    /// `/predictions/MODEL[/VERSION]`.
    fn path(&self, id: &ModelId) -> String {
        let version = self.version_of(id).map(|version| format!("/{}", escape_path(&version)));
        format!("{}/predictions/{}{}", self.endpoint.prefix, escape_path(&id.name), version.unwrap_or_default())
    }
}

/// The requests of all payloads.
pub struct Uploads(Vec<Upload>);

/// A request.
struct Upload {
    /// The head and everything before the file; if the file is small, the whole request.
    front: Vec<u8>,
    file: Arc<[u8]>,
    /// Everything after it.
    tail: Vec<u8>,
}

impl Uploads {
    /// Reads the file of every payload, each once, within `memory`.
    ///
    /// # Errors
    /// If a file cannot be read.
    pub fn read(way: &Way, models: &[ModelSpec], payloads: &[Payload], memory: &Allowance) -> Result<Self> {
        let mut files: HashMap<Vec<u8>, Arc<[u8]>> = HashMap::new();
        let mut upload = |payload: &Payload| -> Result<Upload> {
            let path = path_of(payload)?;
            let file = match files.get(&path) {
                Some(file) => Arc::clone(file),
                None => {
                    let file = contents(Path::new(OsStr::from_bytes(&path)), memory)
                        .map_err(|error| error.context(format!("{INPUT} of {}", location(payload))))?;
                    files.entry(path).or_insert(file).clone()
                }
            };
            Ok(Upload::new(way, &models[payload.model].id, file))
        };
        payloads.iter().map(&mut upload).collect::<Result<_>>().map(Self)
    }

    /// No requests.
    #[cfg(fuzzing)]
    pub fn none() -> Self {
        Self(Vec::new())
    }

    /// Bytes of a request.
    #[inline]
    pub fn len(&self, request: Request) -> usize {
        self.upload(request).parts().iter().map(|part| part.len()).sum()
    }

    /// Fills `slices` with a request after its first `skip` bytes. Returns how many are used.
    #[inline]
    pub fn gather<'a>(&'a self, request: Request, skip: usize, slices: &mut [IoSlice<'a>; SLICES]) -> usize {
        serial::gather(self.upload(request).parts(), skip, slices)
    }

    fn upload(&self, request: Request) -> &Upload {
        &self.0[request.payload.0 as usize]
    }
}

impl Upload {
    fn new(way: &Way, id: &ModelId, file: Arc<[u8]>) -> Self {
        let boundary = boundary(&file);
        let opening = format!("--{boundary}\r\nContent-Disposition: form-data; name=\"data\"\r\n\r\n");
        let tail = format!("\r\n--{boundary}--\r\n").into_bytes();
        let mut front = way.headers.begin("POST", &way.path(id), &way.endpoint);
        way.headers.write_own(&mut front, "Accept", "*/*");
        way.headers.write_given(&mut front);
        let content_type = format!("multipart/form-data; boundary={boundary}");
        way.headers.write_own(&mut front, "Content-Type", &content_type);
        write_length(&mut front, opening.len() + file.len() + tail.len());
        front.extend_from_slice(opening.as_bytes());
        if file.len() < COPY_LIMIT {
            front.extend_from_slice(&file);
            front.extend_from_slice(&tail);
            return Self { front, file: Arc::default(), tail: Vec::new() };
        }
        Self { front, file, tail }
    }

    fn parts(&self) -> [&[u8]; 3] {
        [&self.front, &self.file, &self.tail]
    }
}

/// Text that does not occur in the file: RFC 2046 leaves the choice to the sender.
fn boundary(file: &[u8]) -> String {
    let named = |number: u32| format!("{:->24}triton-bench{number:08x}", "");
    let free = |name: &String| !file.windows(name.len()).any(|part| part == name.as_bytes());
    (0..=u32::MAX).map(named).find(free).unwrap_or_default()
}

/// The path: a payload's only string.
fn path_of(payload: &Payload) -> Result<Vec<u8>> {
    let input = payload.inputs.first().ok_or_else(|| Error::input(format!("{INPUT} is missing")))?;
    let bytes = input.region.bytes(input.offset, input.len)?;
    // A string is preceded by its length, in four bytes.
    Ok(bytes.get(4..).unwrap_or_default().to_vec())
}

fn location(payload: &Payload) -> String {
    format!("stream {}, step {}", payload.stream, payload.step)
}

fn contents(path: &Path, memory: &Allowance) -> Result<Arc<[u8]>> {
    let (file, len) = open_regular(path)?;
    memory.take(len as u64)?;
    let mut bytes = Vec::with_capacity(len);
    // It may have grown, but only this much is accounted for.
    let read = file.take(len as u64).read_to_end(&mut bytes);
    read.map_err(|error| Error::input(format!("failed to read file '{}': {error}", path.display())))?;
    Ok(bytes.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn way() -> Way {
        let headers = Headers::new(&[("Authorization".to_owned(), "Bearer k".to_owned())]).unwrap();
        Way { endpoint: Endpoint::parse("h:8080/base", 1).unwrap(), headers, version: None }
    }

    #[test]
    fn a_file_is_the_only_part_of_a_form() {
        let upload = Upload::new(&way(), &ModelId::latest("a b"), Arc::from(&b"hello"[..]));
        let text = String::from_utf8(upload.parts().concat()).unwrap();
        let boundary = "------------------------triton-bench00000000";
        let body =
            format!("--{boundary}\r\nContent-Disposition: form-data; name=\"data\"\r\n\r\nhello\r\n--{boundary}--\r\n");
        let head = format!(
            "POST /base/predictions/a%20b HTTP/1.1\r\nHost: h:8080\r\nUser-Agent: triton-bench/{}\r\nAccept: */*\r\n\
             Authorization: Bearer k\r\nContent-Type: multipart/form-data; boundary={boundary}\r\n\
             Content-Length: {}\r\n\r\n",
            env!("CARGO_PKG_VERSION"),
            body.len()
        );
        assert_eq!(text, head + &body);
    }

    #[test]
    fn the_boundary_is_not_in_the_file() {
        let taken = [boundary(b""), boundary(boundary(b"").as_bytes())];
        assert_ne!(taken[0], taken[1]);
        let other = boundary(taken.concat().as_bytes());
        assert!(!taken.contains(&other), "{other}");
    }

    #[test]
    fn versions_are_part_of_the_path() {
        let numbered = ModelId { name: "m".to_owned(), version: Some(2) };
        assert_eq!(way().path(&numbered), "/base/predictions/m/2");
        let way = Way { version: Some("1.0/x".to_owned()), ..way() };
        assert_eq!(way.path(&ModelId::latest("m")), "/base/predictions/m/1.0%2Fx");
    }
}
