//! [`Schema`]: a method's description in a .proto file, compiled when the run starts.

use std::path::{Path, PathBuf};

use prost_reflect::prost::Message;
use prost_reflect::{DynamicMessage, MessageDescriptor};
use protox::file::{ChainFileResolver, File, FileResolver, GoogleFileResolver, IncludeFileResolver};

use crate::error::{Error, Result};
use crate::plan::GrpcMethod;

/// The input with messages as JSON.
pub const INPUT: &str = "payload";
/// The output with an answer's message as JSON.
pub const OUTPUT: &str = "response";

/// The messages of a method.
#[derive(Clone, Debug)]
pub struct Schema {
    request: MessageDescriptor,
    answer: Answer,
}

/// The type of an answer's messages.
#[derive(Clone, Debug)]
pub struct Answer(MessageDescriptor);

impl Schema {
    /// Compiles `file` and finds `method` in it, or in its imports. Imports are searched in `includes`, then in its own
    /// folder.
    ///
    /// # Errors
    /// If the file is invalid, or does not contain the method: its content is listed.
    pub fn read(file: &Path, includes: &[PathBuf], method: &GrpcMethod) -> Result<Self> {
        let failed = |why: String| Error::input(format!("--proto {}: {why}", file.display()));
        let parent = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        // The first folder that contains a file determines its import name: for a tree of files, the user names the
        // root.
        let folders = includes.iter().map(PathBuf::as_path).chain([parent]);
        let compile = || {
            let mut files = ChainFileResolver::new();
            folders.for_each(|folder| files.add(Folder(folder.to_owned())));
            files.add(GoogleFileResolver::new());
            let mut compiler = protox::Compiler::with_file_resolver(files);
            compiler.include_imports(true).open_file(file)?;
            Ok(compiler.descriptor_pool())
        };
        let pool = compile().map_err(|error: protox::Error| {
            let missing =
                if error.is_file_not_found() { "; --proto-include DIR names the folder above it" } else { "" };
            failed(format!("{}{missing}", format!("{error:?}").trim().replace('\n', " ")))
        })?;
        let Some(service) = pool.get_service_by_name(&method.service) else {
            let services: Vec<String> = pool.services().map(|service| service.full_name().to_owned()).collect();
            return Err(failed(format!("there is no service '{}'; there {}", method.service, listed(&services))));
        };
        let Some(found) = service.methods().find(|candidate| candidate.name() == method.name) else {
            let methods: Vec<String> = service.methods().map(|method| method.name().to_owned()).collect();
            let service = service.full_name();
            return Err(failed(format!(
                "service '{service}' has no method '{}'; there {}",
                method.name,
                listed(&methods)
            )));
        };
        Ok(Self { request: found.input(), answer: Answer(found.output()) })
    }

    /// The type of an answer's messages.
    pub fn answer(&self) -> Answer {
        self.answer.clone()
    }

    /// The bytes of a message, or of each of a list of them, written as JSON.
    ///
    /// # Errors
    /// What does not fit the method's message.
    pub fn encode(&self, json: &[u8]) -> std::result::Result<Vec<u8>, String> {
        let mut reader = serde_json::Deserializer::from_slice(json);
        let name = self.request.full_name().to_owned();
        let message = DynamicMessage::deserialize(self.request.clone(), &mut reader)
            .and_then(|message| reader.end().map(|()| message))
            .map_err(|error| format!("{INPUT}: it is no {name}: {error}"))?;
        Ok(message.encode_to_vec())
    }
}

impl Answer {
    /// A message as JSON.
    ///
    /// # Errors
    /// If it is not one of the method's, or too deep for JSON.
    pub fn decode(&self, message: &[u8]) -> std::result::Result<Vec<u8>, String> {
        let decoded = DynamicMessage::decode(self.0.clone(), message).map_err(|error| error.to_string())?;
        serde_json::to_vec(&decoded).map_err(|error| error.to_string())
    }

    /// The name of the message.
    pub fn name(&self) -> &str {
        self.0.full_name()
    }
}

/// The files below a folder. Editors may begin them with a byte order mark, which protoc skips and this compiler does not.
struct Folder(PathBuf);

impl FileResolver for Folder {
    fn resolve_path(&self, path: &Path) -> Option<String> {
        IncludeFileResolver::new(self.0.clone()).resolve_path(path)
    }

    fn open_file(&self, name: &str) -> std::result::Result<File, protox::Error> {
        let path = self.0.join(name);
        File::open(name, &path).or_else(|error| {
            let text = error.is_parse().then(|| std::fs::read_to_string(&path).ok()).flatten();
            let plain = text.as_deref().and_then(|text| text.strip_prefix('\u{feff}'));
            plain.map_or(Err(error), |plain| File::from_source(name, plain))
        })
    }
}

fn listed(names: &[String]) -> String {
    match names {
        [] => "is none".to_owned(),
        [name] => format!("is '{name}'"),
        several => format!("are {}", several.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROTO: &str = r#"syntax = "proto3";
package demo.v1;
import "parts.proto";
import "google/protobuf/timestamp.proto";
message Request { string name = 1; repeated int64 numbers = 2; Part part = 3; google.protobuf.Timestamp at = 4; }
message Reply { string text = 1; double score = 2; }
service Greeter { rpc Say(Request) returns (stream Reply); rpc Other(Reply) returns (Reply); }
"#;
    const PARTS: &str = "syntax = \"proto3\"; package demo.v1; message Part { bool on = 1; }";

    fn method(text: &str) -> GrpcMethod {
        let (service, name) = text.split_once('/').unwrap();
        GrpcMethod { service: service.to_owned(), name: name.to_owned() }
    }

    fn written(parts_elsewhere: bool) -> (tempfile::TempDir, PathBuf, Vec<PathBuf>) {
        let folder = tempfile::tempdir().unwrap();
        let (file, other) = (folder.path().join("demo.proto"), folder.path().join("other"));
        std::fs::create_dir(&other).unwrap();
        std::fs::write(&file, PROTO).unwrap();
        let parts = if parts_elsewhere { other.join("parts.proto") } else { folder.path().join("parts.proto") };
        std::fs::write(parts, PARTS).unwrap();
        (folder, file, if parts_elsewhere { vec![other] } else { Vec::new() })
    }

    #[test]
    fn payloads_are_encoded_and_answers_decoded() {
        for elsewhere in [false, true] {
            let (_folder, file, includes) = written(elsewhere);
            let schema = Schema::read(&file, &includes, &method("demo.v1.Greeter/Say")).unwrap();
            let bytes = schema.encode(br#"{"name":"x","numbers":[1,"2"],"part":{"on":true}}"#).unwrap();
            assert_eq!(bytes, [10, 1, b'x', 18, 2, 1, 2, 26, 2, 8, 1]);
            assert!(schema.encode(b"{}").unwrap().is_empty());
            let json = schema.answer().decode(&[10, 2, b'h', b'i']).unwrap();
            assert_eq!(json, br#"{"text":"hi"}"#);
            for (payload, words) in [
                (&br#"{"nome":"x"}"#[..], "nome"),
                (br#"{"name":1}"#, "demo.v1.Request"),
                (b"[]", "demo.v1.Request"),
                (br#"{"at":"never"}"#, "demo.v1.Request"),
            ] {
                let why = schema.encode(payload).unwrap_err();
                assert!(why.contains(words), "{why}");
            }
            assert!(schema.answer().decode(&[10, 5, 1]).is_err());
        }
    }

    #[test]
    fn a_tree_of_files_is_named_by_its_root() {
        let folder = tempfile::tempdir().unwrap();
        let tree = folder.path().join("demo");
        std::fs::create_dir(&tree).unwrap();
        let service = "import \"demo/words.proto\"; service S { rpc R(M) returns (M); }";
        for (name, text) in [("service.proto", service), ("words.proto", "message M { string a = 1; }")] {
            std::fs::write(tree.join(name), format!("syntax = \"proto3\"; package demo; {text}")).unwrap();
        }
        let file = tree.join("service.proto");
        let schema = Schema::read(&file, &[folder.path().to_owned()], &method("demo.S/R")).unwrap();
        assert_eq!(schema.encode(br#"{"a":"b"}"#).unwrap(), [10, 1, b'b']);
    }

    #[test]
    fn a_byte_order_mark_is_no_part_of_a_file() {
        let (folder, file, _) = written(false);
        std::fs::write(&file, format!("\u{feff}{PROTO}")).unwrap();
        std::fs::write(folder.path().join("parts.proto"), format!("\u{feff}{PARTS}")).unwrap();
        let schema = Schema::read(&file, &[], &method("demo.v1.Greeter/Say")).unwrap();
        assert_eq!(schema.encode(br#"{"part":{"on":true}}"#).unwrap(), [26, 2, 8, 1]);
        std::fs::write(&file, "\u{feff}syntax = \"proto3\"; message {").unwrap();
        let why = Schema::read(&file, &[], &method("demo.v1.Greeter/Say")).unwrap_err().to_string();
        assert!(why.contains("demo.proto:1:28"), "{why}");
    }

    #[test]
    fn what_is_not_there_is_said_with_what_is() {
        let (folder, file, _) = written(false);
        for (wanted, words) in [
            ("demo.v1.Greeter/Shout", "has no method 'Shout'; there are Say, Other"),
            ("demo.Greeter/Say", "no service 'demo.Greeter'; there is 'demo.v1.Greeter'"),
        ] {
            let why = Schema::read(&file, &[], &method(wanted)).unwrap_err().to_string();
            assert!(why.contains(words) && why.contains("demo.proto"), "{why}");
        }
        std::fs::remove_file(folder.path().join("parts.proto")).unwrap();
        let why = Schema::read(&file, &[], &method("demo.v1.Greeter/Say")).unwrap_err().to_string();
        assert!(why.contains("parts.proto") && !why.contains('\n') && why.contains("--proto-include DIR"), "{why}");
        std::fs::write(&file, "syntax = \"proto3\"; message {").unwrap();
        assert!(Schema::read(&file, &[], &method("demo.v1.Greeter/Say")).is_err());
    }
}
