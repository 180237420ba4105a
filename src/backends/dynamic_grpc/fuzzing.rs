//! Entry points of the fuzz targets under `fuzz/`: the output of commands, and requests and answers described by a
//! .proto file.

use std::cell::RefCell;

use crate::dynamic_grpc::generator;
use crate::dynamic_grpc::schema::Schema;
use crate::plan::GrpcMethod;

const PROTO: &str = r#"syntax = "proto3"; package f;
import "google/protobuf/any.proto"; import "google/protobuf/struct.proto"; import "google/protobuf/duration.proto";
enum E { NONE = 0; SOME = 1; }
message M { string a = 1; repeated sint64 b = 2; map<string, M> c = 3; oneof d { double e = 4; bytes f = 5; }
  google.protobuf.Any g = 6; google.protobuf.Value h = 7; google.protobuf.Duration i = 8; E j = 9; }
service S { rpc R(M) returns (M); }"#;

/// Parses bytes as the output of a command; writing the result again must give the same bytes.
///
/// # Panics
/// Where an invariant is broken.
pub fn frames(bytes: &[u8]) {
    let Ok(messages) = generator::frames(bytes) else { return };
    let framed = |message: &Vec<u8>| [&(message.len() as u32).to_ne_bytes()[..], message].concat();
    let again: Vec<u8> = messages.iter().flat_map(framed).collect();
    assert!(bytes == again || bytes == [&again[..], &[0; 4]].concat());
}

/// Parses bytes as an answer, and as JSON of a request, whose message must be readable.
///
/// # Panics
/// Where an invariant is broken.
pub fn messages(bytes: &[u8]) {
    thread_local! {
        static SCHEMA: RefCell<Schema> = RefCell::new(schema());
    }
    SCHEMA.with_borrow(|schema| {
        let _ = schema.answer().decode(bytes);
        if let Ok(message) = schema.encode(bytes) {
            // Durations and the like may have no JSON form; the message is valid anyway.
            let _ = schema.answer().decode(&message);
        }
    });
}

fn schema() -> Schema {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("f.proto");
    std::fs::write(&file, PROTO).expect("room for it");
    let method = GrpcMethod { service: "f.S".to_owned(), name: "R".to_owned() };
    Schema::read(&file, &[], &method).expect("a sound description")
}
