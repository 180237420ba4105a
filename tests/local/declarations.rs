//! Our declarations of the server's C API match the real header: the C compiler accepts both together only if they
//! agree.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Compiles `wrapper.h` after a reference header; the compiler's complaint if they disagree.
fn compare(reference: &Path) -> Result<(), String> {
    let wrapper = Path::new(env!("CARGO_MANIFEST_DIR")).join("wrapper.h");
    let text = fs::read_to_string(&wrapper).unwrap();
    // The real header is C++ in one thing: it uses its structures' names without `struct`, so their aliases come first.
    let aliases: Vec<&str> = text.lines().filter(|line| line.starts_with("typedef struct ")).collect();
    assert!(aliases.len() >= 8, "wrapper.h declares the server's objects");
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("both.c");
    let includes = format!(
        "{}\n#include \"{}\"\n#define TRITON_REFERENCE_HEADER\n#include \"{}\"\n",
        aliases.join("\n"),
        reference.display(),
        wrapper.display()
    );
    fs::write(&source, includes).unwrap();
    let compiled = Command::new("gcc").args(["-x", "c", "-std=gnu11", "-fsyntax-only"]).arg(&source).output();
    let compiled = compiled.expect("gcc is installed; Rust links with it");
    if compiled.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&compiled.stderr).into_owned()) }
}

/// The reference: named by TRITONSERVER_HEADER, as `scripts/test` does, else installed beside the server, else fetched before.
fn reference() -> PathBuf {
    if let Some(named) = std::env::var_os("TRITONSERVER_HEADER") {
        return named.into();
    }
    let installed = std::env::var_os("TRITON_SERVER_DIRECTORY")
        .map(|server| Path::new(&server).join("include/triton/core/tritonserver.h"));
    let fetched = Path::new(env!("CARGO_MANIFEST_DIR")).join(".deps/tritonserver-24.10/tritonserver.h");
    let found = installed.into_iter().chain([fetched]).find(|path| path.exists());
    found.expect("no tritonserver.h; run scripts/test, which fetches one, or name one with TRITONSERVER_HEADER")
}

#[test]
fn declarations_are_those_of_the_real_header() {
    let header = reference();
    compare(&header).unwrap_or_else(|complaint| panic!("{}: {complaint}", header.display()));
}

/// A small header in the style of the real one, of our own making; it too uses a structure's name alone.
const SMALL: &str = r#"
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
struct TRITONSERVER_Error;
struct TRITONSERVER_InferenceRequest;
struct TRITONSERVER_InferenceResponse;
struct TRITONSERVER_InferenceTrace;
struct TRITONSERVER_ResponseAllocator;
struct TRITONSERVER_Server;
struct TRITONSERVER_ServerOptions;
typedef enum { TYPE_ZERO } TRITONSERVER_DataType;
typedef enum { ERROR_ZERO } TRITONSERVER_Error_Code;
typedef enum { ACTIVITY_ZERO } TRITONSERVER_InferenceTraceActivity;
typedef enum { LEVEL_ZERO } TRITONSERVER_InferenceTraceLevel;
typedef enum { LOG_ZERO } TRITONSERVER_LogFormat;
typedef enum { MEMORY_ZERO } TRITONSERVER_MemoryType;
typedef enum { METRIC_ZERO } TRITONSERVER_MetricFormat;
typedef enum { CONTROL_ZERO } TRITONSERVER_ModelControlMode;
typedef enum { RATE_ZERO } TRITONSERVER_RateLimitMode;
typedef struct TRITONSERVER_Error* (*TRITONSERVER_ResponseAllocatorAllocFn_t)(void);
typedef struct TRITONSERVER_Error* (*TRITONSERVER_ResponseAllocatorReleaseFn_t)(void);
typedef struct TRITONSERVER_Error* (*TRITONSERVER_ResponseAllocatorStartFn_t)(void);
typedef struct TRITONSERVER_Error* (*TRITONSERVER_ResponseAllocatorQueryFn_t)(void);
typedef void (*TRITONSERVER_InferenceRequestReleaseFn_t)(void);
typedef void (*TRITONSERVER_InferenceTraceActivityFn_t)(void);
typedef void (*TRITONSERVER_InferenceTraceReleaseFn_t)(void);
typedef void (*TRITONSERVER_InferenceResponseCompleteFn_t)(void);
struct TRITONSERVER_Error* TRITONSERVER_ApiVersion(uint32_t* major, uint32_t* minor);
struct TRITONSERVER_Error* TRITONSERVER_ErrorNew(TRITONSERVER_Error_Code code, const char* text);
struct TRITONSERVER_Error* TRITONSERVER_ServerModelIsReady(
    TRITONSERVER_Server* server, const char* name, const int64_t version, bool* ready);
struct TRITONSERVER_Error* TRITONSERVER_ServerOptionsSetCudaMemoryPoolByteSize(
    struct TRITONSERVER_ServerOptions* options, int device, uint64_t size);
"#;

fn small(change: (&str, &str)) -> Result<(), String> {
    assert!(SMALL.contains(change.0));
    let file = tempfile::Builder::new().suffix(".h").tempfile().unwrap();
    fs::write(file.path(), SMALL.replace(change.0, change.1)).unwrap();
    compare(file.path())
}

#[test]
fn equal_declarations_agree() {
    small(("", "")).unwrap();
}

#[test]
fn changed_declarations_are_found() {
    let changes = [
        ("uint32_t* major", "uint64_t* major"),
        ("const int64_t version", "const int32_t version"),
        ("bool* ready", "int* ready"),
        ("int device, uint64_t size", "int device"),
        ("struct TRITONSERVER_Error* TRITONSERVER_ErrorNew", "void TRITONSERVER_ErrorNew"),
        ("const char* text", "char* text"),
    ];
    for change in changes {
        let complaint = small(change).expect_err(change.1);
        assert!(complaint.contains("conflicting types"), "{complaint}");
    }
}
